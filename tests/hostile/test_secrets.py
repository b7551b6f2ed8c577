"""No secret comes out: not of errors, logs, commits, committables, reprs or pickles.

Every secret given holds the text ``hU5h``; whatever comes out, or is stored, is searched for it, in any case. The
one pickle that does carry secrets is that of a Spark write's options, as the last test says.
"""

from __future__ import annotations

import logging
import pickle
import threading
import traceback
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer.testing

import txlog
from txlog.cli.app import app
from txlog.core import ambient
from txlog.core.operations import WriteOptions, plan_write
from txlog.core.store import PutOutcome, open_store
from txlog.core.versions import OpenTable
from txlog.spark.options import parse_write_options
from txlog.testing.faulty_s3 import FaultyS3, PutFault

MARK = "hu5h"
ROWS = pa.table({"id": [1, 2], "name": ["a", None]})
S3_SECRETS = {
    "access_key_id": "AKIAhU5h0001",
    "secret_access_key": "x/hU5h0002+y&z=",
    "session_token": "FwoG/hU5h0003==",
    "default_headers": {"x-api-key": "hU5h0004 of a gateway"},
}
COMMIT = f"{0:020d}.json"


def _leaks(texts: Iterator[Any]) -> list[str]:
    return [shown for shown in (repr(text)[:2000] for text in texts) if MARK in shown.lower()]


def _texts_of(error: BaseException) -> Iterator[Any]:
    """The text of an error and of every error attached to it, shown or not."""
    link: BaseException | None
    for link in (error, *_chain(error)):
        yield from (str(link), repr(link), link.args, vars(link), getattr(link, "__notes__", ()))
        yield "".join(traceback.format_exception(link))
    if isinstance(error, txlog.TxlogError):
        yield pickle.dumps(error)


def _chain(error: BaseException) -> Iterator[BaseException]:
    for link in (error.__cause__, error.__context__):
        if link is not None:
            yield link
            yield from _chain(link)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """The log of everything, at its most talkative."""
    lines: list[str] = []
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, "txlog"):
        yield lines
        lines += [logging.Formatter("%(message)s").format(record) for record in caplog.records]
    assert _leaks(iter(lines)) == []


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyS3]:
    with FaultyS3() as running:
        yield running


# --- what goes well, or is retried ----------------------------------------------------------------------------


def test_neither_what_is_stored_nor_what_is_shown_or_pickled_holds_a_secret(
    server: FaultyS3, logged: list[str]
) -> None:
    options = {**server.storage_options, **S3_SECRETS}
    table = txlog.Table.create("s3://bucket/t", ROWS.schema, storage_options=options)
    server.script(PutFault.CONFLICT_409, PutFault.LAND_500)
    results = [table.append(ROWS, user_metadata="loaded", app_id="app", checkpoint_id=0)]
    results.append(table.append(ROWS, app_id="app", checkpoint_id=0))  # a replay, which is warned of
    sink = txlog.Sink(table, app_id="app")
    with sink.task(checkpoint_id=1) as writer:
        writer.write(ROWS)
    results.append(sink.commit(1, [writer.committable]))
    table.create_checkpoint()
    snapshot = table.snapshot()
    assert snapshot.to_arrow().num_rows == 4

    open_table = table._open_table
    job = plan_write(open_table, ROWS.schema, WriteOptions())
    store = open_store("s3://bucket/t", options)
    catalog = txlog.Catalog("s3://bucket/warehouse", storage_options=options)
    assert pickle.loads(pickle.dumps(catalog)).uri == catalog.uri
    with table.transaction() as transaction:
        transaction.append(ROWS)
    reported = (table, snapshot, sink, transaction, writer, open_table, job, store, store.log, store.files, results)
    assert _leaks(map(repr, reported)) == []
    assert _leaks(map(vars, (table, snapshot, sink, transaction))) == []
    assert _leaks(iter((table.history(), snapshot.files().to_pylist(), writer.committable.to_bytes()))) == []
    assert _leaks(pickle.dumps(each) for each in (table, job, store, catalog, writer.committable, results)) == []
    with server.bucket.lock:
        assert _leaks(iter(server.bucket.objects.items())) == []
    assert len(server.keys()) > 7


# --- what fails -----------------------------------------------------------------------------------------------


class _Echo(BaseHTTPRequestHandler):
    """A server that answers each request with all that it was sent, as S3 does with a bad token."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement
    status = 403

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        sent = "".join(f"<Sent>{value}</Sent>\n" for value in self.headers.values())
        first = "FwoG/hU5h0003== FwoG%2FhU5h0003%3D%3D"
        body = f'<?xml version="1.0"?>\n<Error><Code>InvalidToken</Code><Message>bad {first}</Message>{sent}</Error>'
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Location", "http://user:hU5h0005@127.0.0.1:9/?X-Amz-Signature=hU5h0006")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body.encode())

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture(scope="module")
def echo() -> Iterator[tuple[str, type[_Echo]]]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Echo) as running:
        threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}", _Echo
        running.shutdown()


Step = Callable[[Any], Any]


def _upload(store: Any) -> None:
    output = store.files.create("part.parquet")
    try:
        output.sink.write(b"bytes")
        output.publish()
    finally:
        output.abort()


STEPS: dict[str, Step] = {
    "list": lambda store: tuple(store.log.list_from("")),
    "read": lambda store: store.log.read(COMMIT),
    "stat": lambda store: store.log.stat(COMMIT),
    "put": lambda store: store.log.put(COMMIT, b"x"),
    "put_if_absent": lambda store: store.log.put_if_absent(COMMIT, b"x"),
    "delete": lambda store: store.log.delete(COMMIT),
    "open": lambda store: store.files.open("part.parquet").read(),
    "upload": _upload,
    "a table": lambda store: txlog.Table(OpenTable(store)).snapshot(),
}


@pytest.mark.parametrize("given", ["as options", "in the environment"])
@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 409, 412, 500])
def test_errors_do_not_quote_secrets_that_a_server_echoes(
    echo: tuple[str, type[_Echo]],
    status: int,
    given: str,
    logged: list[str],
    clock: ambient.Ambient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, handler = echo
    handler.status = status
    options: dict[str, Any] = {"endpoint_url": url, "allow_http": True, "region": "us-east-1", "max_retries": 0}
    if given == "as options":
        options |= S3_SECRETS
    else:
        for name in ("access_key_id", "secret_access_key", "session_token"):
            monkeypatch.setenv(f"AWS_{name.upper()}", str(S3_SECRETS[name]))
    store = open_store("s3://bucket/t", options)
    texts: list[Any] = []
    answers: dict[str, Any] = {}
    for name, step in STEPS.items():
        try:
            answers[name] = step(store)
        except txlog.TxlogError as error:
            texts += _texts_of(error)
    assert _leaks(iter(texts)) == []
    assert "read" not in answers
    answers.pop("delete", None)  # what is not there need not be deleted
    assert set(answers.values()) <= {(), PutOutcome.UNKNOWN, PutOutcome.ALREADY_EXISTS}


@pytest.mark.parametrize("given", ["as an option", "in the environment"])
@pytest.mark.parametrize(
    "endpoint",
    [
        "{scheme}://user:hU5h0008@{host}",
        "{scheme}://hU5h0009@{host}",
        "{scheme}://user:hU5h%2F0010%2B@{host}/gateway",
        "{scheme}://{host}/?token=hU5h0011",
        "{scheme}://{host}/gateway?a=1&key=hU5h%2F0012",
        "{scheme}://{host}/?hU5h0013",
        "{scheme}://{host}/#hU5h0014",
    ],
)
@pytest.mark.parametrize("host", ["of a server that echoes", "127.0.0.1:9"])
def test_a_secret_in_an_endpoint_is_neither_shown_nor_pickled(
    echo: tuple[str, type[_Echo]],
    host: str,
    endpoint: str,
    given: str,
    logged: list[str],
    clock: ambient.Ambient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, handler = echo
    handler.status = 403
    place = url.partition("://")[2] if host == "of a server that echoes" else host
    whole = endpoint.format(scheme="http", host=place)
    options: dict[str, Any] = {"allow_http": True, "region": "us-east-1", "max_retries": 0, **S3_SECRETS}
    if given == "as an option":
        options["endpoint_url"] = whole
    else:
        monkeypatch.setenv("AWS_ENDPOINT_URL", whole)
    texts: list[Any] = []
    try:
        store = open_store("s3://bucket/t", options)
        assert _leaks(iter((repr(store), repr(store.log), repr(store.files), pickle.dumps(store)))) == []
        for step in STEPS.values():
            try:
                step(store)
            except txlog.TxlogError as error:
                texts += _texts_of(error)
    except txlog.TxlogError as error:
        texts += _texts_of(error)
    assert texts
    assert _leaks(iter(texts)) == []


def test_an_endpoint_travels_without_its_secret_and_the_error_says_so(
    echo: tuple[str, type[_Echo]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, handler = echo
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of the other process")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of the other process")
    handler.status = 403
    place = url.partition("://")[2]
    options = {"endpoint_url": f"http://user:hU5h0015@{place}", "allow_http": True, "region": "us-east-1"}
    travelled = pickle.loads(pickle.dumps(open_store("s3://bucket/t", {**options, **S3_SECRETS})))
    with pytest.raises(txlog.StorageError, match=r"endpoint, .*was not sent") as caught:
        travelled.log.read(COMMIT)
    assert "InvalidToken" in str(caught.value), "the same server was asked"


def test_an_error_of_a_server_is_shown_by_its_code_and_message(echo: tuple[str, type[_Echo]]) -> None:
    url, handler = echo
    handler.status = 403
    store = open_store("s3://b/t", {"endpoint_url": url, "allow_http": True, "region": "us-east-1", **S3_SECRETS})
    with pytest.raises(txlog.StorageError, match=r"InvalidToken: bad \*\*\* \*\*\*"):
        store.log.read(COMMIT)


def _provider_that_fails() -> dict[str, str]:
    raise RuntimeError("refused: hU5h0007")


URIS = (
    "s3://key:hU5h@bucket/t",
    "s3://hU5h@bucket/t",
    "s3://bucket/t?X-Amz-Signature=hU5h",
    "s3://bucket/t#hU5h",
    "s3://[hU5h/t",
    "s3://key:hU5h@bucket\uff0fx/t",
    "gs://key:hU5h@bucket/t",
    "az://container/t?sv=2025&sig=hU5h",
    "abfss://container:hU5h@account.dfs.core.windows.net/t",
    "abfss://container@account.dfs.core.windows.net/t?sig=hU5h",
    "https://key:hU5h@host/t?sig=hU5h",
    "hdfs://key:hU5h@host/t",
    "file://key:hU5h@host/t",
    "file:///tmp/t?sig=hU5h",
    "file://[hU5h/t",
)
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "an unknown key": ("s3://b/t", {"secret_acess_key": "hU5h"}),
    "two spellings": ("s3://b/t", {"secret_access_key": "hU5h1", "AWS_SECRET_ACCESS_KEY": "hU5h2"}),
    "no text": ("s3://b/t", {"secret_access_key": ["hU5h"]}),
    "a key of another cloud": ("gs://b/t", {"account_key": "hU5h"}),
    "an account key that is not base64": ("az://c/t", {"account_name": "a", "account_key": "hU5h!!"}),
    "a SAS that is none": ("az://c/t", {"account_name": "a", "sas_key": "%%%hU5h&&&"}),
    "a service account that is not JSON": ("gs://b/t", {"service_account_key": '{"private_key": "hU5h'}),
    "a key that is not base64": ("s3://b/t", {"server_side_encryption": "sse-c", "sse_customer_key_base64": "hU5h!"}),
    "a proxy that is none": ("s3://b/t", {"proxy_url": "::http://u:hU5h@p"}),
    "an endpoint that is none": ("s3://b/t", {"endpoint_url": "http://u:hU5h@:::/", **S3_SECRETS}),
    "headers that are none": ("s3://b/t", {"default_headers": {"a b\n": "hU5h"}}),
    "headers that are text": ("s3://b/t", {"default_headers": "authorization: hU5h"}),
    "a server that is not there": (
        "s3://b/t",
        {"endpoint_url": "http://u:hU5h@127.0.0.1:9", "allow_http": True, "max_retries": 0, **S3_SECRETS},
    ),
    "a proxy that is not there": (
        "s3://b/t",
        {"proxy_url": "http://u:hU5h@127.0.0.1:9", "allow_http": True, "max_retries": 0, **S3_SECRETS},
    ),
    "a SAS at a server that is not there": (
        "az://c/t",
        {
            **{"account_name": "a", "sas_key": "sv=2025&sig=x%2FhU5h%3D", "allow_http": True, "max_retries": 0},
            "endpoint": "http://127.0.0.1:9/a",
        },
    ),
}
WAYS: dict[str, Callable[..., Any]] = {
    "open": lambda uri, options: txlog.Table.open(uri, storage_options=options),
    "exists": lambda uri, options: txlog.Table.exists(uri, storage_options=options),
    "create": lambda uri, options: txlog.Table.create(uri, ROWS.schema, storage_options=options),
    "write": lambda uri, options: txlog.write(uri, ROWS, storage_options=options),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_location_with_a_secret_is_refused_without_it(way: str, logged: list[str]) -> None:
    for uri in URIS:
        with pytest.raises(txlog.InvalidInputError) as caught:
            WAYS[way](uri, None)
        assert _leaks(_texts_of(caught.value)) == [], uri


NAMING: dict[str, Callable[[txlog.Table, str], Any]] = {
    "copy_into": lambda table, uri: table.copy_into(uri, file_format="csv"),
    "add_files": lambda table, uri: table.add_files([uri]),
    "add_files of a folder": lambda table, uri: table.add_files(uri),
    "clone": lambda table, uri: table.clone(uri),
    "convert": lambda _, uri: txlog.Table.convert(uri),
    "an Iceberg table's metadata": lambda table, uri: txlog.Table.convert(f"{table.uri}/new", iceberg_metadata=uri),
    "a catalog": lambda _, uri: txlog.Catalog(uri).tables(),
    "resolve": lambda _, uri: txlog.resolve(uri, "an id", 0),
    "COPY INTO": lambda table, uri: txlog.sql(f"COPY INTO delta.`{table.uri}` FROM '{uri}' FILEFORMAT = CSV"),
    "a query": lambda _, uri: txlog.sql(f"SELECT * FROM delta.`{uri}`"),
    "a query of files": lambda _, uri: txlog.sql(f"SELECT * FROM parquet.`{uri}`"),
    "INSERT": lambda table, uri: txlog.sql(f"INSERT INTO delta.`{table.uri}` SELECT * FROM delta.`{uri}`"),
    "CREATE TABLE": lambda _, uri: txlog.sql(f"CREATE TABLE n (id bigint) USING delta LOCATION '{uri}'"),
    "CLONE": lambda table, uri: txlog.sql(f"CREATE TABLE delta.`{table.uri}/c` CLONE delta.`{uri}`"),
    "CONVERT": lambda _, uri: txlog.sql(f"CONVERT TO DELTA parquet.`{uri}`"),
}
NAMED = [
    *(uri for uri in URIS if not uri.startswith("file:") and ("@" in uri or "=hU5h" in uri)),
    "wasbs://container@account.blob.core.windows.net/t?sv=2025&sig=hU5h",
    "https://account.blob.core.windows.net/c/t?sv=2025&sig=hU5h",
    "postgresql://user:hU5h@host/database",
    "s3://bucket/t?X-Amz-Credential=hU5h&X-Amz-Security-Token=hU5h",
    "https://host/t?access_key=hU5h",
]


@pytest.mark.parametrize("way", NAMING)
def test_no_error_repeats_the_secret_of_an_address_that_a_call_or_a_statement_names(
    way: str, logged: list[str], tmp_path: Path
) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), ROWS.schema)
    for uri in NAMED:
        if way == "an Iceberg table's metadata" and "?" in uri:
            continue  # a name of an object may have a question mark: the store is asked for it
        with pytest.raises(txlog.TxlogError) as caught:
            NAMING[way](table, uri)
        assert _leaks(_texts_of(caught.value)) == [], uri
    stored = (path.read_bytes() for path in (tmp_path / "t").rglob("*") if path.is_file())
    assert _leaks(stored) == []


def test_an_error_keeps_the_container_of_an_address_and_what_else_is_no_secret() -> None:
    for text in (
        "abfss://container@account.dfs.core.windows.net/t",
        "is a=b&c=d? no key of 'x@y', see s3://bucket/a=1/b",
    ):
        assert txlog.TxlogError(text, table=text, path=text).template == text


@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_do_not_work_are_refused_without_their_values(name: str, logged: list[str]) -> None:
    uri, options = OPTIONS[name]
    with pytest.raises(txlog.TxlogError) as caught:
        txlog.Table.open(uri, storage_options=options)
    assert _leaks(_texts_of(caught.value)) == []


def test_the_command_line_repeats_no_secret(clock: ambient.Ambient) -> None:
    runner = typer.testing.CliRunner()
    calls = [["show", uri] for uri in URIS]
    for uri, options in OPTIONS.values():
        given = [f"{key}={value}" for key, value in options.items()]
        calls.append(["show", uri, *(part for each in given for part in ("-o", each))])
    calls.append(["show", "s3://b/t", "-o", "hU5h without a sign"])
    for number, arguments in enumerate(calls):
        done = runner.invoke(app, arguments + ["--json"] * (number % 2))
        assert done.exit_code != 0
        assert done.output
        assert _leaks(iter([done.output, *(_texts_of(done.exception) if done.exception else ())])) == []


# --- what travels -----------------------------------------------------------------------------------------------


def test_the_error_of_an_unpickled_store_names_the_secrets_that_were_not_sent(
    server: FaultyS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    options = {**server.storage_options, **S3_SECRETS, "endpoint_url": "http://127.0.0.1:9", "max_retries": 0}
    arrived = pickle.loads(
        pickle.dumps(open_store("s3://bucket/t", {**options, "metadata_endpoint": "http://127.0.0.1:9"}))
    )
    with pytest.raises(txlog.StorageError, match="secret_access_key, session_token was not sent") as caught:
        arrived.log.read(COMMIT)
    assert _leaks(_texts_of(caught.value)) == []


def test_a_spark_write_carries_its_storage_options_to_its_tasks_and_shows_them_nowhere() -> None:
    """They are the options of the data source, which Spark itself carries: a task could not reach the store else.

    Who gives none, and lets each executor find credentials in its environment or role, sends none.
    """
    options = parse_write_options({"path": "s3://bucket/t", "storage.secret_access_key": "hU5h0008"})
    assert _leaks(iter([repr(options), str(options)])) == []
    assert pickle.loads(pickle.dumps(options)).storage_options == {"secret_access_key": "hU5h0008"}
    for wrong in ({"storage.secret_acess_key": "hU5h"}, {"secret_access_key": "hU5h"}):
        with pytest.raises(txlog.InvalidInputError) as caught:
            _planned(wrong)
        assert _leaks(_texts_of(caught.value)) == []


def _planned(options: dict[str, str]) -> None:
    parsed = parse_write_options({"path": "s3://bucket/t", **options})
    open_store(parsed.path, parsed.storage_options)
