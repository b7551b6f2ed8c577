"""The stand-in of a Unity Catalog server answers as a real one was seen to answer: the open server 0.7.0, on a local
disk, without authorization. And every answer is read, whatever it leaves out, sends as null, or adds.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import txlog
from txlog.testing.unity_server import UnityServer
from txlog.unity.messages import Credentials, LoadedTable, OldNames, Refusal, StagedTable, decoded

ROOT = "/api/2.1/unity-catalog"
SCHEMA = f"{ROOT}/delta/v1/catalogs/main/schemas/s"
TABLE = f"{SCHEMA}/tables/t"
NEW = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[UnityServer]:
    with UnityServer(tmp_path / "server") as server:
        yield server


Ask = Callable[..., tuple[int, Any]]


@pytest.fixture
def ask(server: UnityServer) -> Ask:
    """One request by HTTP alone: its status, and its answer."""

    def asked(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(urlsplit(server.uri).netloc)
        connection.request(method, path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        raw = answer.read()
        connection.close()
        return answer.status, json.loads(raw) if raw else None

    return asked


@pytest.fixture
def table(server: UnityServer) -> txlog.Table:
    return txlog.Catalog(server.uri).create("main.s.t", "id bigint")


def staged(table: txlog.Table, version: int, number: int, body: bytes = b"{}\n") -> dict[str, Any]:
    """A commit as `add-commit` names it, with its file."""
    name = f"{version:020}.00000000-0000-4000-8000-{number:012}.json"
    folder = Path(table.uri) / "_delta_log" / "_staged_commits"
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(body)
    return {
        "version": version,
        "timestamp": 1_800_000_000_000 + version,
        "file-name": name,
        "file-size": len(body),
        "file-modification-timestamp": 1_800_000_000_000,
    }


def published(table: txlog.Table, version: int, body: bytes = b"{}\n") -> None:
    (Path(table.uri) / "_delta_log" / f"{version:020}.json").write_bytes(body)


def update(ask: Ask, server: UnityServer, *updates: dict[str, Any], requirements: Any = None) -> tuple[int, Any]:
    """The status, and the kind of the error or the newest version."""
    own = [{"type": "assert-table-uuid", "uuid": server.table("main.s.t")["uuid"]}]
    body = {"requirements": own if requirements is None else requirements, "updates": list(updates)}
    status, answer = ask("POST", TABLE, body)
    return status, answer["error"]["type"] if "error" in answer else answer["latest-table-version"]


def add(commit: dict[str, Any]) -> dict[str, Any]:
    return {"action": "add-commit", "commit": commit}


def report(version: int) -> dict[str, Any]:
    return {"action": "set-latest-backfilled-version", "latest-published-version": version}


def shown(ask: Ask) -> list[int]:
    return [each["version"] for each in ask("GET", TABLE)[1]["commits"]]


OK, CONFLICT = 200, (409, "CommitVersionConflictException")
WRONG, STALE = (400, "InvalidParameterValueException"), (409, "UpdateRequirementConflictException")


def test_commits_are_accepted_repeated_and_refused_as_by_a_real_server(
    server: UnityServer, ask: Ask, table: txlog.Table
) -> None:
    commits = {version: staged(table, version, version) for version in range(1, 5)}
    assert (ask("GET", TABLE)[1]["commits"], ask("GET", TABLE)[1]["latest-table-version"]) == ([], 0)
    assert update(ask, server, report(0)) == WRONG  # nothing was ever committed
    assert [update(ask, server, add(commits[version])) for version in (1, 2, 3)] == [(OK, 1), (OK, 2), (OK, 3)]
    for again in (3, 1):
        assert update(ask, server, add({**commits[again], "timestamp": 5})) == (OK, 3)
    assert update(ask, server, add(staged(table, 3, 99))) == CONFLICT
    assert update(ask, server, add(staged(table, 6, 6))) == WRONG
    assert update(ask, server, add(commits[4]), requirements=[]) == (400, "BadRequestException")
    assert update(ask, server, add(commits[4]), requirements=[{"type": "assert-table-uuid", "uuid": "x"}]) == STALE
    assert update(ask, server, report(9)) == WRONG
    assert update(ask, server, report(2)) == (OK, 3)
    assert shown(ask) == [3]
    published(table, 1)
    assert update(ask, server, add(commits[1])) == (OK, 3)  # what is published has the content of its file
    assert update(ask, server, add(staged(table, 1, 98, b"{1}\n"))) == CONFLICT
    gone = staged(table, 1, 97)
    (Path(table.uri) / "_delta_log" / "_staged_commits" / gone["file-name"]).unlink()
    assert update(ask, server, add(gone)) == (500, "CommitStateUnknownException")
    assert update(ask, server, report(3)) == (OK, 3)
    assert shown(ask) == []
    assert update(ask, server, add(commits[3])) == (OK, 3)
    assert update(ask, server, add(staged(table, 3, 96))) == CONFLICT  # the newest is remembered by its name
    assert update(ask, server, add(commits[4])) == (OK, 4)


def test_ten_commits_may_be_unpublished_and_a_report_in_the_same_request_makes_room(
    server: UnityServer, ask: Ask, table: txlog.Table
) -> None:
    commits = [staged(table, version, version) for version in range(1, 12)]
    assert [update(ask, server, add(each))[0] for each in commits[:10]] == [OK] * 10
    assert update(ask, server, add(commits[10])) == (429, "ResourceExhaustedException")
    assert update(ask, server, add(commits[9])) == (OK, 10)
    assert update(ask, server, add(commits[10]), report(10)) == (OK, 11)
    assert shown(ask) == [11]


def test_the_holes_of_a_real_server_are_there(server: UnityServer, ask: Ask, table: txlog.Table) -> None:
    commit = staged(table, 5, 5)
    (Path(table.uri) / "_delta_log" / "_staged_commits" / commit["file-name"]).unlink()
    assert update(ask, server, add({**commit, "file-name": "odd.json"})) == (OK, 5)  # first, unnamed, and not there
    assert update(ask, server, add({**staged(table, 6, 6), "timestamp": 1})) == (OK, 6)  # before the one before it
    assert update(ask, server, report(6)) == (OK, 6)  # and nothing of it is published
    assert shown(ask) == []


def test_tables_are_staged_made_renamed_and_dropped_as_by_a_real_server(
    server: UnityServer, ask: Ask, table: txlog.Table
) -> None:
    first, second = (ask("POST", f"{SCHEMA}/staging-tables", {"name": "new"}) for _ in range(2))
    assert first[0] == second[0] == OK
    assert first[1]["table-id"] != second[1]["table-id"]
    assert ask("POST", f"{SCHEMA}/staging-tables", {"name": "t"})[1]["error"]["type"] == "AlreadyExistsException"
    wanted = {
        "name": "new",
        "location": first[1]["location"],
        "table-type": "MANAGED",
        "columns": NEW,
        "protocol": first[1]["required-protocol"],
        "properties": {},
    }
    status, answer = ask("POST", f"{SCHEMA}/tables", wanted)
    assert (status, answer["error"]["type"]) == WRONG
    assert "delta.checkpointPolicy" in answer["error"]["message"]
    assert ask("POST", f"{SCHEMA}/tables", {**wanted, "name": "t"})[1]["error"]["type"] == "AlreadyExistsException"
    assert ask("POST", f"{TABLE}/rename", {"new-name": "u"}) == (204, None)
    assert ask("GET", TABLE)[1]["error"]["type"] == "NoSuchTableException"
    assert ask("GET", f"{SCHEMA}/tables/u")[1]["metadata"]["table-uuid"] == server.table("main.s.u")["uuid"]
    assert ask("DELETE", f"{SCHEMA}/tables/u") == (204, None)
    assert not Path(table.uri).exists()
    assert [ask("GET", f"{SCHEMA}/tables/u{more}")[0] for more in ("", "/credentials?operation=READ")] == [404, 404]
    absent = f"{ROOT}/delta/v1/catalogs/main/schemas/none/tables/t"
    assert ask("GET", absent)[1]["error"]["type"] == "NoSuchSchemaException"


def test_names_come_with_nulls_from_the_old_api_alone(server: UnityServer, ask: Ask, table: txlog.Table) -> None:
    assert ask("GET", f"{SCHEMA}/tables")[0] == 405
    config = f"{ROOT}/delta/v1/config"
    assert ask("GET", f"{config}?catalog=main&protocol-versions=9.0")[1]["protocol-version"] == "1.0"
    status, answer = ask("GET", f"{config}?catalog=none&protocol-versions=1.0")
    assert (status, answer["error"]["type"]) == (404, "NoSuchCatalogException")
    assert ask("GET", f"{TABLE}/credentials")[0] == 400
    assert ask("GET", f"{TABLE}/credentials?operation=READ") == (200, {"storage-credentials": []})
    (catalog,) = ask("GET", f"{ROOT}/catalogs")[1]["catalogs"]
    assert (catalog["storage_location"], catalog["storage_root"]) == (None, None)
    old = ask("GET", f"{ROOT}/tables/main.s.none")
    assert old[0] == 404
    assert set(old[1]) == {"error_code", "details", "message"}
    assert txlog.Catalog(server.uri).tables() == ["main.s.t"]


# --- whatever an answer leaves out --------------------------------------------------------------------------------

LOADED = {
    "metadata": {
        "etag": "1",
        "table-type": "MANAGED",
        "table-uuid": "u",
        "location": "file:///t",
        "created-time": 1,
        "updated-time": 1,
        "columns": NEW,
        "partition-columns": [],
        "properties": {"a": "b"},
        "last-commit-version": 0,
    },
    "commits": [
        {"version": 1, "timestamp": 1, "file-name": "f", "file-size": 1, "file-modification-timestamp": 1},
    ],
    "uniform": {"iceberg": {}},
    "latest-table-version": 1,
}
STAGED = {
    "table-id": "u",
    "table-type": "MANAGED",
    "location": "file:///t",
    "storage-credentials": [],
    "required-protocol": {
        "min-reader-version": 3,
        "min-writer-version": 7,
        "reader-features": [],
        "writer-features": [],
    },
    "required-properties": {"a": "b"},
    "suggested-properties": {},
}
GIVEN = {
    "storage-credentials": [
        {"prefix": "s3://b", "operation": "READ", "expiration-time-ms": 1, "config": {"s3.access-key-id": "k"}}
    ]
}
NAMES = {
    "catalogs": [{"name": "c", "storage_location": "s3://b", "storage_root": "s3://b", "properties": {}}],
    "schemas": [{"name": "s"}],
    "tables": [
        {"name": "t", "table_id": "u", "table_type": "M", "data_source_format": "DELTA", "storage_location": "l"}
    ],
    "next_page_token": "2",
}
REFUSED = {"error": {"message": "m", "type": "T", "code": 400}, "error_code": "T", "details": [], "message": "m"}

NEEDED = {
    ("metadata",),
    ("metadata", "table-uuid"),
    ("metadata", "location"),
    *(("commits", 0, each) for each in ("version", "timestamp", "file-name", "file-size")),
    ("table-id",),
    ("location",),
    ("required-protocol",),
    ("storage-credentials", 0, "prefix"),
    *((each, 0, "name") for each in ("catalogs", "schemas", "tables")),
}
"""Without these, nothing could be done."""


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every field of an answer; what is in a schema or a map of values belongs to the table."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        if not isinstance(value, list):
            yield (*at, key)
        if key not in ("columns", "properties", "config", "required-properties", "uniform"):
            yield from places(each, (*at, key))


def changed(answer: Any, at: tuple[Any, ...], how: str) -> bytes:
    copy = json.loads(json.dumps(answer))
    inside = copy
    for key in at[:-1]:
        inside = inside[key]
    if how == "absent":
        del inside[at[-1]]
    elif how == "null":
        inside[at[-1]] = None
    else:
        inside[f"{at[-1]}-of-a-later-release"] = {"anything": [1]}
    return json.dumps(copy).encode()


@pytest.mark.parametrize(
    ("kind", "answer"),
    [(LoadedTable, LOADED), (StagedTable, STAGED), (Credentials, GIVEN), (OldNames, NAMES), (Refusal, REFUSED)],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_every_answer_is_read_whatever_is_absent_null_or_unknown(kind: Any, answer: Any) -> None:
    whole = decoded(json.dumps(answer).encode(), kind)
    for at in places(answer):
        assert decoded(changed(answer, at, "unknown"), kind) == whole
        if at not in NEEDED:
            assert decoded(changed(answer, at, "absent"), kind) == decoded(changed(answer, at, "null"), kind), at


def test_an_etag_and_properties_that_are_null_do_not_stop_a_commit(server: UnityServer) -> None:
    table = txlog.Catalog(server.uri).create("main.s.t", "id bigint")
    whole = server._answered

    def answered(*given: Any) -> tuple[int, Any]:
        status, answer = whole(*given)
        if isinstance(answer, dict) and "metadata" in answer:
            kept = {key: value for key, value in answer["metadata"].items() if key not in ("etag", "created-time")}
            answer = {**answer, "metadata": {**kept, "etag": None, "partition-columns": None}, "commits": None}
            answer["commits"] = whole(*given)[1]["commits"] or None
        return status, answer

    server._answered = answered  # type: ignore[method-assign]
    table.append(pa.table({"id": pa.array([1], pa.int64())}))
    table.set_properties({"a": "b"})
    assert txlog.Catalog(server.uri).table("main.s.t").to_arrow().num_rows == 1
