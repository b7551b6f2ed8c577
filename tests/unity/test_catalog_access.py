"""Tokens and short-lived credentials: four ways to be refused, renewal in time, and secrets that stay put."""

from __future__ import annotations

import base64
import json
import logging
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from txlog.core import ambient
from txlog.core.store import RetryPolicy
from txlog.core.store._object_client import Location, ObjectClient
from txlog.core.store._options import StorageKind, StorageOptions
from txlog.errors import AccessError, StorageError, TableNotFoundError
from txlog.testing.unity_server import Switches, UnityServer
from txlog.unity.catalog import UnityCatalog
from txlog.unity.client import TOKEN, FileToken, FullTableName, Unanswered, UnityClient
from txlog.unity.credentials import VendedCredentials
from txlog.unity.messages import LoadedTable

NAME = "main.s.t"
SECRET = "secret-token-4711"
VENDED = {"s3.access-key-id": "key-{}", "s3.secret-access-key": "secret-key-{}", "s3.session-token": "session-{}"}
HOUR_MS = 3_600_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[UnityServer]:
    with UnityServer(tmp_path / "server") as server:
        txlog.Catalog(server.uri).create(NAME, "id bigint")
        server.switches.rights = {SECRET: {"READ", "READ_WRITE", "CREATE"}, "reader": {"READ"}}
        yield server


def jwt(expires_s: int) -> str:
    parts = [json.dumps(each).encode() for each in ({"alg": "none"}, {"exp": expires_s})]
    return ".".join([*(base64.urlsafe_b64encode(each).decode().rstrip("=") for each in parts), "signature"])


@pytest.mark.parametrize(
    ("token", "reason", "says"),
    [
        (None, "missing", TOKEN),
        ("nobody", "wrong", "it belongs to this server"),
        (jwt(1_000), "expired", "get a new one"),
        ("reader", "forbidden", "administrator"),
    ],
)
def test_each_reason_to_be_refused_says_what_to_do(
    server: UnityServer, token: str | None, reason: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    with pytest.raises(AccessError, match=says) as raised:
        txlog.Catalog(server.uri, token=token).table(NAME).append(pa.table({"id": [1]}))
    assert raised.value.reason == reason
    assert token is None or token not in str(raised.value)


def test_a_server_that_has_no_time_now_is_asked_again(server: UnityServer) -> None:
    asked = []

    def cut(method: str, path: str, body: object) -> str | None:
        asked.append(path)
        is_change = method == "DELETE" or path.endswith("/rename")
        return "busy" if len(asked) % 2 and not is_change else None

    server.switches.cut = cut
    catalog = txlog.Catalog(server.uri, token=SECRET)
    catalog.create("main.s.busy", "id bigint").append(pa.table({"id": [1]}))
    catalog.table("main.s.busy").append(pa.table({"id": [2]}))
    assert "main.s.busy" in catalog.tables()
    assert catalog.table("main.s.busy").count() == 2


def test_a_reader_without_the_right_to_write_reads(server: UnityServer) -> None:
    txlog.Catalog(server.uri, token=SECRET).table(NAME).append(pa.table({"id": [1]}))
    assert txlog.Catalog(server.uri, token="reader").table(NAME).to_arrow().num_rows == 1


def test_only_a_user_who_may_not_write_gets_credentials_to_read(server: UnityServer) -> None:
    """A token that expires between two requests is no reason to settle for less: the next one gets all."""
    asked: list[str] = []
    answers = {"READ_WRITE": (401, "NotAuthorizedException"), "READ": (200, "")}

    def answered(method: str, path: str, query: Mapping[str, str]) -> tuple[int, Any] | None:
        if not path.endswith("/credentials"):
            return None
        asked.append(query["operation"])
        status, kind = answers[query["operation"]]
        given = {"prefix": "s3://bucket/t", "expiration-time-ms": ambient.now_ms() + HOUR_MS, "config": {}}
        refusal = {"error": {"message": "no", "type": kind, "code": status}}
        return status, {"storage-credentials": [given]} if status == 200 else refusal

    server.switches.answer = answered
    client = UnityClient(server.uri, SECRET)
    provider = VendedCredentials(client, FullTableName(*NAME.split(".")), server.table(NAME)["uuid"], "s3://bucket/t")
    with pytest.raises(AccessError):
        provider()
    assert asked == ["READ_WRITE"]
    answers["READ_WRITE"] = (403, "PermissionDeniedException")
    provider()
    provider.renew()
    provider()
    assert asked == ["READ_WRITE", "READ_WRITE", "READ", "READ"]


def test_a_token_in_a_file_is_read_again_for_each_request(server: UnityServer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("nobody\n")
    options = {"catalog": server.uri, "catalog_token_file": str(file)}
    with pytest.raises(AccessError):
        txlog.Table.open(f"uc://{NAME}", storage_options=options)
    file.write_text(f"{SECRET}\n")
    assert txlog.Table.open(f"uc://{NAME}", storage_options=options).version == 0


def test_a_request_that_got_no_answer_is_repeated_only_if_it_reads(server: UnityServer) -> None:
    client, path = UnityClient(server.uri, SECRET), FullTableName(*NAME.split(".")).path
    assert client.get(path, LoadedTable).latest_table_version == 0
    for method in ("GET", "POST"):
        asked: list[str] = []

        def cut(method: str, path: str, body: object, asked: list[str] = asked) -> str | None:
            asked.append(method)
            return "before" if len(asked) == 1 else None

        server.switches.cut = cut
        if method == "GET":
            assert client.get(path, LoadedTable).latest_table_version == 0
            assert asked == ["GET", "GET"]
        else:
            with pytest.raises(Unanswered) as raised:
                client.send("POST", path, LoadedTable, {"requirements": [], "updates": []})
            assert (raised.value.was_sent, asked) == (True, ["POST"])


def test_an_answer_that_cannot_be_understood_is_not_asked_for_all_day(server: UnityServer) -> None:
    server.switches.answer = lambda *_: (200, {"metadata": 7})
    table_path, client = FullTableName(*NAME.split(".")).path, UnityClient(server.uri, SECRET)
    asked = len(server.requests)
    with pytest.raises(StorageError, match="cannot be understood"):
        client.get(table_path, LoadedTable, policy=RetryPolicy(total_timeout=1800.0))
    assert len(server.requests) - asked == 3


def test_a_connection_that_was_idle_for_long_is_not_used_again(server: UnityServer) -> None:
    clock, client = IdleClock(), UnityClient(server.uri, SECRET)
    with ambient.use(clock):
        first = client._connection()
        clock.at_s += 1
        assert client._connection() is first
        clock.at_s += 4
        assert client._connection() is not first


class IdleClock(ambient.Ambient):
    def __init__(self) -> None:
        self.at_s = 1000.0

    def monotonic_s(self) -> float:
        return self.at_s


class FastClock(ambient.Ambient):
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.at_ms = 1_000_000 * HOUR_MS

    def now_ms(self) -> int:
        return self.at_ms


def test_a_job_of_twelve_hours_always_has_credentials_with_time_left(server: UnityServer) -> None:
    clock = FastClock()
    server.switches.vended, server.switches.vended_life_ms = VENDED, HOUR_MS
    server.switches.now_ms = clock.now_ms
    client = UnityClient(server.uri, SECRET)
    place = "s3://bucket/t"
    server.table(NAME)["location"] = place
    provider = VendedCredentials(client, FullTableName(*NAME.split(".")), server.table(NAME)["uuid"], place)
    issued_ms: dict[str, int] = {}
    with ambient.use(clock):
        for _ in range(12 * 60):
            key = provider()["access_key_id"]
            issued_ms.setdefault(key, clock.at_ms)
            assert clock.at_ms < issued_ms[key] + HOUR_MS, "these have expired"
            clock.at_ms += HOUR_MS // 60
    assert len(issued_ms) == 15  # a new one every 48 minutes
    asked = [path for _, path in server.requests if "credentials" in path]
    assert len(asked) == 15


def test_of_several_credentials_the_nearest_folder_above_the_table_counts(server: UnityServer) -> None:
    def given(method: str, path: str, query: Mapping[str, str]) -> tuple[int, Any] | None:
        if not path.endswith("/credentials"):
            return None
        prefixes = ("s3://bucket", "s3://bucket/sales", "s3://bucket/sales/tab", "s3://bucket/sales/table2")
        found = [
            {"prefix": each, "expiration-time-ms": ambient.now_ms() + HOUR_MS, "config": {"s3.access-key-id": each}}
            for each in prefixes
        ]
        return 200, {"storage-credentials": found}

    server.switches.answer = given
    client, name = UnityClient(server.uri, SECRET), FullTableName(*NAME.split("."))
    provider = VendedCredentials(client, name, server.table(NAME)["uuid"], "s3://bucket/sales/table")
    assert provider()["access_key_id"] == "s3://bucket/sales"


def test_a_token_that_the_server_repeats_is_not_in_the_error(server: UnityServer) -> None:
    def answered(*_: object) -> tuple[int, dict[str, object]]:
        return 403, {"error_code": "PERMISSION_DENIED", "message": f"{SECRET} may not list"}

    server.switches.answer = answered
    with pytest.raises(AccessError, match="may not list") as raised:
        txlog.Catalog(server.uri, token=SECRET).tables("main.s")
    assert SECRET not in str(raised.value)


def test_credentials_are_asked_for_again_once_if_the_store_refuses_them(server: UnityServer) -> None:
    server.switches.vended = VENDED
    server.table(NAME)["location"] = "s3://bucket/t"
    provider = VendedCredentials(
        UnityClient(server.uri, SECRET), FullTableName(*NAME.split(".")), server.table(NAME)["uuid"], "s3://bucket/t"
    )
    client = ObjectClient(Location(StorageKind.S3, "s3://bucket/t", "bucket", "t"), StorageOptions(), provider)

    class PermissionDeniedError(Exception):
        pass

    used: list[str] = []

    def request(store: object) -> str:
        used.append(provider()["access_key_id"])
        if len(used) == 1:
            raise PermissionDeniedError
        return "done"

    assert client.send_once(request) == "done"
    assert used[0] != used[1]

    def refused(store: object) -> str:
        used.append("")
        raise PermissionDeniedError

    used.clear()
    with pytest.raises(PermissionDeniedError):
        client.send_once(refused)
    assert len(used) == 2


def test_credentials_of_a_table_that_was_made_again_are_not_used_for_the_old_one(server: UnityServer) -> None:
    server.switches.vended = VENDED
    client = UnityClient(server.uri, SECRET)
    provider = VendedCredentials(client, FullTableName(*NAME.split(".")), "another-id", "s3://bucket/t")
    with pytest.raises(TableNotFoundError, match="another table"):
        provider()


def test_no_secret_leaves_the_process(
    server: UnityServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not in pickles, the log, the history, the report, the errors, or what is shown."""
    monkeypatch.delenv(TOKEN, raising=False)
    caplog.set_level(logging.DEBUG, "txlog")
    server.switches.vended = VENDED
    catalog = UnityCatalog(server.uri, SECRET, {"secret_access_key": SECRET}, lambda: SECRET)
    assert pickle.loads(pickle.dumps(catalog)).uri == server.uri
    table = txlog.Catalog(server.uri, token=SECRET).table(NAME)
    table.append(pa.table({"id": [1, 2, 3]}))
    table.delete("id = 1")
    provider = VendedCredentials(
        catalog._client, FullTableName(*NAME.split(".")), server.table(NAME)["uuid"], server.table(NAME)["location"]
    )
    vended = provider()
    pickles = [pickle.dumps(each) for each in (table, catalog, provider, table._open_table.task_store())]
    texts = [repr(each) for each in (table, catalog, provider, table._open_table.task_store(), provider._current)]
    texts += [json.dumps(table.history(), default=str), caplog.text, str(table.report())]
    server.switches.rights = {}
    server.switches.rights = {"other": {"READ"}}
    with pytest.raises(AccessError) as raised:
        table.append(pa.table({"id": [4]}))
    texts += [str(raised.value), repr(raised.value)]
    pickles.append(pickle.dumps(raised.value))
    files = [path.read_bytes() for path in Path(table.uri).rglob("*") if path.is_file()]
    secrets = [SECRET, vended["secret_access_key"], vended["token"]]
    for secret in secrets:
        assert not any(secret in text for text in texts)
        assert not any(secret.encode() in each for each in (*pickles, *files))


def test_a_process_that_gets_a_handle_without_its_token_says_how_to_give_it_one(
    server: UnityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    table = txlog.Catalog(server.uri, token=SECRET).table(NAME)
    copy = pickle.loads(pickle.dumps(table))
    with pytest.raises(AccessError, match=TOKEN) as raised:
        copy.append(pa.table({"id": [1]}))
    assert raised.value.reason == "missing"
    monkeypatch.setenv(TOKEN, SECRET)
    assert copy.append(pa.table({"id": [1]})).version == 1


def test_a_way_to_authenticate_crosses_to_tasks(server: UnityServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SECRET)
    client = UnityClient(server.uri, FileToken(str(tmp_path / "token")))
    copy = pickle.loads(pickle.dumps(client))
    assert copy.tables("main", "s")[0].name == "t"
    assert Switches().rights == {}
