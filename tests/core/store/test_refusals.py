"""What stores answer to refused requests, by code, operation and cloud: a server on loopback gives each answer to the
real client. The bodies are those that the stores' documentation shows."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import txlog
from txlog.core.store._base import PutOutcome
from txlog.core.store._open import open_store
from txlog.core.store._table_store import TableStore
from txlog.errors import AccessError, CommitStateUnknownError, StorageError, TxlogError
from txlog.testing.faulty_s3 import FaultyS3, PutFault, Request

COMMIT = f"{7:020}.json"
LARGE = b"x" * (9 << 20)


class Answering(BaseHTTPRequestHandler):
    """Answers every request alike."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement
    answer: ClassVar[tuple[int, str]] = (200, "")
    requests: ClassVar[list[str]] = []

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def reply(self) -> None:
        left = int(self.headers.get("Content-Length") or 0)
        while left:
            left -= len(self.rfile.read(min(left, 1 << 20)))
        self.requests.append(self.command)
        status, body = self.answer[0], self.answer[1].encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = reply


class Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: a client may end a refused upload early."""


@pytest.fixture(scope="module")
def stores() -> Iterator[dict[str, TableStore]]:
    server = Quiet(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    every = {"allow_http": "true", "max_retries": 0, "timeout": "10s"}
    keys = {"access_key_id": "test", "secret_access_key": "hush-hush", "region": "us-east-1"}
    account = {"account_name": "account", "account_key": "aHVzaC1odXNo"}
    yield {
        "s3": open_store("s3://bucket/t", {"endpoint_url": url, **keys, **every}),
        "azure": open_store("az://bucket/t", {"endpoint_url": f"{url}/account", **account, **every}),
        "google": open_store("gs://bucket/t", {"endpoint_url": url, "bearer_token": "hush-hush", **every}),
    }
    server.shutdown()
    server.server_close()


def _xml(code: str, *, more: str = "", mark: str = "") -> str:
    message = f"The server's words about {code}.\nRequestId:1"
    error = f"<Error><Code>{code}</Code><Message>{message}</Message>{more}</Error>"
    return f'{mark}<?xml version="1.0" encoding="utf-8"?>\n{error}'


def _azure(code: str, more: str = "") -> str:
    return _xml(code, mark="\ufeff", more=more)


def _google(status: int, code: str) -> str:
    error = {"code": status, "message": f"The server's words about {code}.", "status": code, "errors": []}
    return json.dumps({"error": error}, indent=2)


SAS_EXPIRED = (
    "<AuthenticationErrorDetail>Signature not valid in the specified time frame: hush-hush</AuthenticationErrorDetail>"
)
REFUSALS: list[tuple[str, int, str, str, str, str]] = [
    # cloud, status, code, body, the reason of the AccessError, what the advice says
    ("s3", 400, "ExpiredToken", _xml("ExpiredToken", more="<Token-0>hush-hush</Token-0>"), "expired", "renew"),
    ("s3", 400, "TokenRefreshRequired", _xml("TokenRefreshRequired"), "expired", "renew"),
    ("s3", 400, "InvalidToken", _xml("InvalidToken"), "wrong", "does not know"),
    ("s3", 403, "InvalidAccessKeyId", _xml("InvalidAccessKeyId"), "wrong", "does not know"),
    ("s3", 403, "SignatureDoesNotMatch", _xml("SignatureDoesNotMatch"), "wrong", "does not know"),
    ("s3", 403, "RequestTimeTooSkewed", _xml("RequestTimeTooSkewed"), "wrong", "clock"),
    ("s3", 403, "AccessDenied", _xml("AccessDenied"), "forbidden", "s3:ListBucket"),
    ("s3", 400, "KMS.DisabledException", _xml("KMS.DisabledException"), "forbidden", "key service"),
    ("s3", 400, "KMS.KMSInvalidStateException", _xml("KMS.KMSInvalidStateException"), "forbidden", "key service"),
    ("s3", 409, "KMS.DisabledException", _xml("KMS.DisabledException"), "forbidden", "key service"),
    ("s3", 400, "InvalidRequest", _xml("InvalidRequest"), "", "its words say why"),
    ("s3", 400, "AuthorizationHeaderMalformed", _xml("AuthorizationHeaderMalformed"), "", "region"),
    ("s3", 404, "NoSuchBucket", _xml("NoSuchBucket"), "", "no such bucket"),
    ("s3", 405, "MethodNotAllowed", _xml("MethodNotAllowed"), "", "probe-store"),
    ("s3", 409, "InvalidBucketState", _xml("InvalidBucketState"), "forbidden", "owner"),
    ("s3", 501, "NotImplemented", _xml("NotImplemented"), "", "probe-store"),
    ("s3", 507, "XMinioStorageFull", _xml("XMinioStorageFull"), "", "no room"),
    ("azure", 403, "AuthenticationFailed", _azure("AuthenticationFailed", SAS_EXPIRED), "expired", "renew"),
    ("azure", 403, "AuthenticationFailed", _azure("AuthenticationFailed"), "wrong", "does not know"),
    ("azure", 401, "InvalidAuthenticationInfo", _azure("InvalidAuthenticationInfo"), "wrong", "does not know"),
    (
        "azure",
        403,
        "AuthorizationPermissionMismatch",
        _azure("AuthorizationPermissionMismatch"),
        "forbidden",
        "permissions",
    ),
    ("azure", 400, "InvalidHeaderValue", _azure("InvalidHeaderValue"), "", "its words say why"),
    ("azure", 404, "ContainerNotFound", _azure("ContainerNotFound"), "", "no such bucket"),
    ("azure", 409, "ContainerBeingDeleted", _azure("ContainerBeingDeleted"), "forbidden", "owner"),
    ("azure", 409, "AccountIsDisabled", _azure("AccountIsDisabled"), "forbidden", "owner"),
    ("google", 401, "AuthenticationRequired", _xml("AuthenticationRequired"), "wrong", "does not know"),
    ("google", 401, "UNAUTHENTICATED", _google(401, "UNAUTHENTICATED"), "wrong", "does not know"),
    ("google", 403, "AccessDenied", _xml("AccessDenied"), "forbidden", "permissions"),
    ("google", 403, "PERMISSION_DENIED", _google(403, "PERMISSION_DENIED"), "forbidden", "permissions"),
    ("google", 400, "InvalidArgument", _xml("InvalidArgument"), "", "its words say why"),
]


def _upload(store: TableStore) -> None:
    output = store.files.create("part.parquet")
    try:
        output.sink.write(LARGE)
        output.publish()
    finally:
        output.abort()


OPERATIONS: dict[str, Callable[[TableStore], Any]] = {
    "list the log": lambda store: store.log.list_from(""),
    "list files": lambda store: list(store.files.list()),
    "read": lambda store: store.log.read(COMMIT),
    "read a file": lambda store: store.files.open("part.parquet").read(),
    "look at": lambda store: store.log.stat(COMMIT),
    "write": lambda store: store.log.put(COMMIT, b"body"),
    "write a file": lambda store: store.files.write("part.parquet", b"body"),
    "create": lambda store: store.log.put_if_absent(COMMIT, b"body"),
    "upload": _upload,
    "delete": lambda store: store.files.delete("part.parquet"),
    "delete many": lambda store: store.files.delete_many(["a.parquet", "b.parquet"]),
}
ABSENT = {"NoSuchBucket", "ContainerNotFound"}


@pytest.mark.parametrize(("cloud", "status", "code", "body", "reason", "advice"), REFUSALS)
def test_a_refusal_is_final_at_every_operation_and_says_the_stores_words_and_what_to_do(
    stores: dict[str, TableStore], cloud: str, status: int, code: str, body: str, reason: str, advice: str
) -> None:
    Answering.answer = (status, body)
    for name, operation in OPERATIONS.items():
        if code in ABSENT and not name.startswith(("list", "write", "create", "upload")):
            continue  # what is in a bucket that is not there is absent
        Answering.requests.clear()
        with pytest.raises(StorageError) as caught:
            operation(stores[cloud])
        told = f"{name}: {caught.value}"
        assert isinstance(caught.value, AccessError) is bool(reason), told
        assert getattr(caught.value, "reason", "") == reason, told
        assert f"{code}: The server's words about {code}" in told
        assert advice in told
        assert "network" not in told
        assert "hush" not in told
        if name in ("write", "write a file", "create", "upload"):
            assert "Nothing was written" in told
        assert len(Answering.requests) <= 6, "a request that is refused is not repeated: it may have parts, or clean up"


@pytest.mark.parametrize(
    ("cloud", "status", "body", "outcome"),
    [
        ("s3", 409, _xml("ConditionalRequestConflict"), PutOutcome.ALREADY_EXISTS),
        ("s3", 409, _xml("OperationAborted"), PutOutcome.ALREADY_EXISTS),
        ("s3", 412, _xml("PreconditionFailed"), PutOutcome.ALREADY_EXISTS),
        ("s3", 400, _xml("RequestTimeout"), PutOutcome.UNKNOWN),
        ("s3", 400, _xml("KMS.ThrottlingException"), PutOutcome.UNKNOWN),
        ("s3", 429, _xml("TooManyRequests"), PutOutcome.UNKNOWN),
        ("s3", 500, _xml("InternalError"), PutOutcome.UNKNOWN),
        ("s3", 503, _xml("SlowDown"), PutOutcome.UNKNOWN),
        ("s3", 504, "<html>Gateway Time-out</html>", PutOutcome.UNKNOWN),
        ("s3", 200, "", PutOutcome.UNKNOWN),
        ("azure", 409, _azure("BlobAlreadyExists"), PutOutcome.ALREADY_EXISTS),
        ("azure", 412, _azure("LeaseIdMissing"), PutOutcome.ALREADY_EXISTS),
        ("azure", 403, _azure("UnauthorizedBlobOverwrite"), PutOutcome.ALREADY_EXISTS),
        ("azure", 503, _azure("ServerBusy"), PutOutcome.UNKNOWN),
        ("azure", 500, _azure("OperationTimedOut"), PutOutcome.UNKNOWN),
        ("google", 412, _xml("PreconditionFailed"), PutOutcome.ALREADY_EXISTS),
        ("google", 429, _google(429, "RESOURCE_EXHAUSTED"), PutOutcome.UNKNOWN),
        ("google", 503, _xml("ServiceUnavailable"), PutOutcome.UNKNOWN),
    ],
)
def test_an_answer_after_which_a_put_may_have_landed_or_may_land_is_none_of_these(
    stores: dict[str, TableStore], cloud: str, status: int, body: str, outcome: PutOutcome
) -> None:
    Answering.answer = (status, body)
    Answering.requests.clear()
    assert stores[cloud].log.put_if_absent(COMMIT, b"body") is outcome
    # The upload that an earlier test was refused is removed in the background, and may be seen here.
    assert [method for method in Answering.requests if method != "DELETE"] == ["PUT"]


def test_credentials_that_cannot_be_fetched_send_nothing_and_a_busy_service_of_tokens_is_asked_again() -> None:
    with Quiet(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        client = {"client_id": "x", "client_secret": "hush-hush", "tenant_id": "z", "authority_host": url}
        options = {"endpoint_url": f"{url}/account", "account_name": "account", "allow_http": "true", **client}
        store = open_store("az://bucket/t", {**options, "max_retries": 0})
        Answering.answer = (401, '{"error":"invalid_client","error_description":"The client secret keys are expired."}')
        with pytest.raises(
            AccessError, match=r"invalid_client: The client secret keys are expired.*not sent"
        ) as caught:
            store.log.put_if_absent(COMMIT, b"body")
        assert caught.value.reason == "expired"
        Answering.answer = (503, "")
        assert store.log.put_if_absent(COMMIT, b"body") is PutOutcome.BLOCKED
        server.shutdown()


# --- whole commits --------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[FaultyS3]:
    with FaultyS3() as running:
        yield running


def _is_commit(request: Request, version: int) -> bool:
    return request.is_conditional and request.key.endswith(f"_delta_log/{version:020}.json")


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "ExpiredToken"), (400, "KMS.DisabledException"), (400, "InvalidRequest"), (501, "NotImplemented")],
)
def test_a_commit_that_the_store_refuses_ends_at_once_and_its_repeat_lands_once(
    server: FaultyS3, tmp_path: Path, status: int, code: str
) -> None:
    uri, options = f"s3://bucket/{tmp_path.name}", server.storage_options
    txlog.write(uri, pa.table({"i": [1]}), storage_options=options)
    table = txlog.Table.open(uri, storage_options=options)
    refused: list[str] = []

    def refuse(request: Request) -> tuple[int, str] | None:
        if refused or _is_commit(request, 1):
            refused.append(request.method)
            return status, code
        return None

    server.refuse = refuse
    with pytest.raises(StorageError, match=rf"v1: could not write.*{code}.*Nothing was written"):
        table.append(pa.table({"i": [2]}))
    assert refused.count("PUT") == 1, "the rest is the cleanup of its file"
    server.refuse = lambda request: None
    assert txlog.Table.open(uri, storage_options=options).append(pa.table({"i": [2]})).version == 1
    assert sorted(table.to_arrow()["i"].to_pylist()) == [1, 2]


class Renewed:
    """Credentials that the catalog gave out; `renew` fetches others."""

    def __init__(self) -> None:
        self.key = 0

    def __call__(self) -> dict[str, Any]:
        return {"access_key_id": f"key-{self.key}", "secret_access_key": "s", "token": "t", "expires_at": None}

    def renew(self) -> None:
        self.key += 1


def test_a_provider_that_can_renew_an_expired_token_does_so_within_the_commit(server: FaultyS3) -> None:
    options = {key: value for key, value in server.storage_options.items() if "key" not in key}
    uri, provider = "s3://bucket/renewed", Renewed()
    txlog.write(uri, pa.table({"i": [1]}), storage_options=server.storage_options)
    table = txlog.Table.open(uri, storage_options=options, credential_provider=provider)
    refused: list[str] = []

    def refuse(request: Request) -> tuple[int, str] | None:
        if provider.key or not _is_commit(request, 1):
            return None
        refused.append(request.method)
        return 400, "ExpiredToken"

    server.refuse = refuse
    assert table.append(pa.table({"i": [2]})).version == 1
    assert refused == ["PUT"]
    assert sorted(table.to_arrow()["i"].to_pylist()) == [1, 2]


def test_the_first_retry_of_a_commit_is_a_warning_and_the_final_error_has_the_last_answer(
    server: FaultyS3, caplog: pytest.LogCaptureFixture
) -> None:
    uri, policy = "s3://bucket/busy", txlog.RetryPolicy(max_attempts=4, min_wait=0.0, max_wait=0.001)
    txlog.write(uri, pa.table({"i": [1]}), storage_options=server.storage_options)
    table = txlog.Table.open(uri, storage_options=server.storage_options, retry=policy)
    table.append(pa.table({"i": [2]}))
    server.script(*[PutFault.ERROR_500] * 9)
    with (
        caplog.at_level(logging.WARNING, "txlog"),
        pytest.raises(CommitStateUnknownError, match=r"the store's last answer: .*500.*InternalError"),
    ):
        table.append(pa.table({"i": [3]}))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "does not take v2" in caplog.text
    assert "InternalError" in caplog.text


def test_after_an_answer_that_was_lost_a_refusal_leaves_the_commit_unknown_and_says_why(server: FaultyS3) -> None:
    uri = "s3://bucket/lost-then-refused"
    txlog.write(uri, pa.table({"i": [1]}), storage_options=server.storage_options)
    table = txlog.Table.open(uri, storage_options=server.storage_options)
    table.append(pa.table({"i": [2]}))
    commits: list[str] = []

    def refuse(request: Request) -> tuple[int, str] | None:
        if _is_commit(request, 2):
            commits.append(request.key)
            return (500, "InternalError") if len(commits) == 1 else (400, "ExpiredToken")
        return None

    server.refuse = refuse
    with pytest.raises(CommitStateUnknownError, match="ExpiredToken") as caught:
        table.append(pa.table({"i": [3]}))
    server.refuse = lambda request: None
    assert table.resolve(caught.value.txn_id, caught.value.version) is False


# --- a role that may not list ------------------------------------------------------------------------------------


CALLS: dict[str, Callable[[str, dict[str, str]], Any]] = {
    "open": lambda uri, options: txlog.Table.open(uri, storage_options=options),
    "exists": lambda uri, options: txlog.Table.exists(f"{uri}-new", storage_options=options),
    "create": lambda uri, options: txlog.Table.create(
        f"{uri}-new", pa.schema({"i": pa.int64()}), storage_options=options
    ),
    "write": lambda uri, options: txlog.write(f"{uri}-new", pa.table({"i": [1]}), storage_options=options),
    "catalog": lambda uri, options: txlog.Catalog(uri.rpartition("/")[0], storage_options=options).tables(),
    "catalog table": lambda uri, options: txlog.Catalog("s3://bucket/c", storage_options=options).table("main.t"),
}


def _without_the_right_to_list(server: FaultyS3) -> Callable[[Request], tuple[int, str] | None]:
    """S3 answers 403 to such a role for a list, and for an object that does not exist."""
    held = set(server.keys())

    def refuse(request: Request) -> tuple[int, str] | None:
        is_absent = request.method in ("GET", "HEAD") and f"bucket/{request.key}" not in held
        return (403, "AccessDenied") if request.key == "" or is_absent else None

    return refuse


@pytest.mark.parametrize("call", CALLS)
def test_a_role_that_may_not_list_is_told_access_denied_at_every_call(server: FaultyS3, call: str) -> None:
    require_told(server, CALLS[call])


def require_told(server: FaultyS3, call: Callable[[str, dict[str, str]], Any]) -> None:
    uri, options = "s3://bucket/c/main/t", server.storage_options
    txlog.write(uri, pa.table({"i": [1]}), storage_options=options)
    server.refuse = _without_the_right_to_list(server)
    with pytest.raises(TxlogError, match=r"AccessDenied.*s3:ListBucket") as caught:
        call(uri, options)
    assert isinstance(caught.value, AccessError)
    assert "network" not in str(caught.value)


ON_OPEN_TABLES: dict[str, Callable[[txlog.Table], Any]] = {
    "vacuum": lambda table: table.vacuum(retention_hours=0, force=True),
    "verify": lambda table: table.verify(),
    "history": lambda table: list(table.history()),
    "append": lambda table: [table.append(pa.table({"i": [2]})) for _ in range(2)],
}


@pytest.mark.parametrize("call", ON_OPEN_TABLES)
def test_an_open_table_tells_of_a_right_to_list_that_was_taken_away(server: FaultyS3, call: str) -> None:
    uri, options = "s3://bucket/taken", server.storage_options
    txlog.write(uri, pa.table({"i": [1]}), storage_options=options)
    table = txlog.Table.open(uri, storage_options=options)
    server.refuse = _without_the_right_to_list(server)
    with pytest.raises(AccessError, match=r"AccessDenied.*s3:ListBucket"):
        ON_OPEN_TABLES[call](table)
