"""No secret of a store or a catalog is in an error or in a log line, whatever a server answers.

The server repeats in each answer all that it was sent, as S3 does with a bad token and Azure with what a signature
signed.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import unquote
from xml.sax.saxutils import escape

import orjson
import pyarrow as pa
import pytest

import txlog
from txlog.core.store._retry import RetryPolicy
from txlog.errors import TxlogError

ROWS = pa.table({"id": [1]})
NOW = RetryPolicy(min_wait=0.001, max_wait=0.002, total_timeout=0.01)
SECRET_KEY = "secretKey/4711+with=signs"
SESSION = "sessionToken/4712+with=signs"
ACCOUNT_KEY = "YWNjb3VudEtleS80NzEz"
SAS = "sv=2024-01-01&ss=b&srt=co&sp=rwdlac&sig=sasSignature%2F4714%2Bwith%3D"
BEARER = "bearerToken-4715"
SECRETS = (SECRET_KEY, SESSION, ACCOUNT_KEY, "sasSignature", BEARER)


class Repeating(BaseHTTPRequestHandler):
    """Answers with ``status`` and all that it was sent."""

    disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement
    status: ClassVar[int] = 403
    answers_in: ClassVar[str] = "xml"
    seen: ClassVar[list[str]] = []

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode(errors="replace")
        said = f"{self.command} {self.path} {unquote(self.path)} {self.headers} {body}"
        self.seen.append(said)
        raw = f"<Error><Code>Some</Code><Message>{escape(said)}</Message><Token>{escape(said)}</Token></Error>".encode()
        if self.answers_in == "json":
            error = {"message": said, "type": "SomeException", "code": 1}
            raw = orjson.dumps({"error": error, "message": said, "__type": "SomeException"})
        self.send_response(self.status)
        self.send_header("Content-Type", f"application/{self.answers_in}")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _answer

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Repeating) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def of_s3(url: str) -> tuple[str, dict[str, Any]]:
    own = {"access_key_id": "AKIA", "secret_access_key": SECRET_KEY, "session_token": SESSION}
    return "s3://bucket/t", {"endpoint_url": url, "allow_http": True, "region": "us-east-1", "max_retries": 0, **own}


def of_azure(**own: str) -> Callable[[str], tuple[str, dict[str, Any]]]:
    def place(url: str) -> tuple[str, dict[str, Any]]:
        options = {"account_name": "account", "endpoint": url, "allow_http": True, "max_retries": 0}
        return "az://container/t", {**options, **own}

    return place


def of_store(place: tuple[str, dict[str, Any]]) -> list[Callable[[], object]]:
    uri, options = place
    return [
        lambda: txlog.Table.open(uri, storage_options=options, retry=NOW),
        lambda: txlog.Table.open(uri, storage_options=options, retry=NOW).append(ROWS),
        lambda: txlog.write(uri, ROWS, storage_options=options),
        lambda: txlog.Table.create(uri, ROWS.schema, storage_options=options, retry=NOW),
        lambda: txlog.probe_store(uri, options),
        lambda: txlog.Catalog(uri, storage_options=options).tables(),
    ]


def of_unity(url: str) -> list[Callable[[], object]]:
    catalog = txlog.Catalog(url, token=BEARER)
    return [
        lambda: catalog.table("main.s.t", retry=NOW),
        lambda: catalog.create("main.s.t", ROWS.schema, retry=NOW),
        lambda: catalog.tables("main.s"),
        lambda: catalog.drop("main.s.t"),
    ]


def of_glue(url: str) -> list[Callable[[], object]]:
    own = {"aws_access_key_id": "AKIA", "aws_secret_access_key": SECRET_KEY, "aws_session_token": SESSION}
    catalog = txlog.Catalog("glue://", storage_options={**own, "aws_region": "us-east-1"})
    return [lambda: catalog.table("s.t"), lambda: catalog.tables(), lambda: catalog.create("s.t", ROWS.schema)]


def told(call: Callable[[], object]) -> str:
    """What a program shows of the error: its text, its fields, its causes."""
    try:
        call()
    except TxlogError as error:
        return f"{error}\n{error!r}\n{vars(error)}\n{''.join(traceback.format_exception(error))}"
    return ""


DOORS: dict[str, tuple[str, Callable[[str], list[Callable[[], object]]]]] = {
    "s3": (SESSION, lambda url: of_store(of_s3(url))),
    "azure-key": ("", lambda url: of_store(of_azure(account_key=ACCOUNT_KEY)(url))),
    "azure-sas": ("sasSignature", lambda url: of_store(of_azure(sas_token=SAS)(url))),
    "azure-token": (BEARER, lambda url: of_store(of_azure(token=BEARER)(url))),
    "unity": (BEARER, of_unity),
    "glue": (SESSION, of_glue),
}
"""What each door sends as it is, so that the server repeats it; a key only signs."""


@pytest.mark.parametrize("door", DOORS)
def test_no_door_shows_a_secret_that_its_server_repeats(
    url: str, door: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", url)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    caplog.set_level(logging.DEBUG)
    sent, calls_of = DOORS[door]
    for status in (400, 403, 404):
        for answers_in in ["json"] if door in ("unity", "glue") else ["xml", "json"]:
            monkeypatch.setattr(Repeating, "status", status)
            monkeypatch.setattr(Repeating, "answers_in", answers_in)
            Repeating.seen.clear()
            shown = [told(call) for call in calls_of(url)]
            assert any(shown)
            assert any(sent in request for request in Repeating.seen), "the server has the secret to repeat"
            # What botocore logs at DEBUG is its own: docs/observe.md warns of it.
            shown += [each.getMessage() for each in caplog.records if not each.name.startswith("botocore")]
            assert [secret for secret in SECRETS if any(secret in text for text in shown)] == []
            caplog.clear()
