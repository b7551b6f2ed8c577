"""A small in-process S3 server that, on request, loses answers, returns wrong lists and answers slowly.

In: any S3 client's requests, fault scripts for the next conditional PUTs and list pages, and a rule of what is refused.
Out: what S3 would answer, and a record of every request. One lock makes conditional creation atomic, so concurrent
requests can race. The server does not check signatures, and listens on loopback only. docs/testing.md shows how to use
it.
"""

from __future__ import annotations

import email.utils
import enum
import hashlib
import itertools
import socket
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from xml.sax.saxutils import escape

import msgspec

from txlog.core import ambient

__all__ = ["FaultyS3", "ListFault", "PutFault", "Request"]


class PutFault(enum.Enum):
    """What happens to one conditional PUT. "Land" means that the object is stored if the condition holds. An answer 503
    has ``Retry-After: 1``."""

    NONE = "none"
    LAND_500 = "land, then answer 500"
    LAND_503 = "land, then answer 503"
    LAND_DROP = "land, then drop the connection"
    LAND_HANG = "land, then never answer"
    CONFLICT_409 = "answer 409 ConditionalRequestConflict, nothing lands"
    ERROR_500 = "answer 500, nothing lands"
    SLOW_DOWN_503 = "answer 503, nothing lands"
    FORBIDDEN_403 = "answer 403, nothing lands"
    DROP = "drop the connection, nothing lands"
    IGNORE_CONDITION = "overwrite as if there were no condition"


class ListFault(enum.Enum):
    """What happens to one page of a list. S3 itself never does this, but some compatible servers do."""

    NONE = "none"
    STALE = "the list lacks the newest key"
    HOLE = "the list lacks the key before the newest, but has the newest"
    TRUNCATED = "the first page claims to be the last"
    BROKEN = "the connection ends in the middle of the page"
    ERROR_500 = "answer 500"
    SLOW_DOWN_503 = "answer 503"
    DROP = "drop the connection"


_LANDS = {
    PutFault.NONE,
    PutFault.LAND_500,
    PutFault.LAND_503,
    PutFault.LAND_DROP,
    PutFault.LAND_HANG,
    PutFault.IGNORE_CONDITION,
}
_ANSWERS: dict[enum.Enum, tuple[int, str]] = {
    PutFault.LAND_500: (500, "InternalError"),
    PutFault.LAND_503: (503, "SlowDown"),
    PutFault.CONFLICT_409: (409, "ConditionalRequestConflict"),
    PutFault.ERROR_500: (500, "InternalError"),
    PutFault.SLOW_DOWN_503: (503, "SlowDown"),
    PutFault.FORBIDDEN_403: (403, "AccessDenied"),
    ListFault.ERROR_500: (500, "InternalError"),
    ListFault.SLOW_DOWN_503: (503, "SlowDown"),
}


class Request(msgspec.Struct, frozen=True):
    """One received request: the key without its bucket, and the injected fault. A list has the key ""."""

    method: str
    key: str
    is_conditional: bool
    fault: PutFault | ListFault


class _Bucket(msgspec.Struct):
    """All stored objects, under one lock. Keys include the bucket's name."""

    lock: threading.Lock = msgspec.field(default_factory=threading.Lock)
    objects: dict[str, bytes] = msgspec.field(default_factory=dict)
    modified_ms: dict[str, int] = msgspec.field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = msgspec.field(default_factory=dict)
    upload_ids: Iterator[int] = msgspec.field(default_factory=itertools.count)

    def keep(self, key: str, body: bytes) -> None:
        self.objects[key] = body
        self.modified_ms[key] = ambient.now_ms()


class FaultyS3:
    """The server, a context manager.

    Args:
        page_size: The maximum number of keys on a list page.

    Attributes:
        requests: All received requests.
        refuse: Called with each request; the status and code of a refusal, as ``(400, "ExpiredToken")``, or None to
            serve it. A refused request changes nothing.
        lost_bytes: How many bytes at the end of each unconditional PUT are lost, although the answer is 200.
        delay_s: The delay of each answer after the request took effect, in seconds.
    """

    def __init__(self, page_size: int = 1000) -> None:
        self.requests: list[Request] = []
        self.page_size = page_size
        self.refuse: Callable[[Request], tuple[int, str] | None] = lambda request: None
        self.lost_bytes = 0
        self.delay_s = 0.0
        self.bucket = _Bucket()
        self.closing = threading.Event()
        self._script: list[PutFault] = []
        self._list_script: list[ListFault] = []
        self._server = _S3Server(("127.0.0.1", 0), type("_BoundHandler", (_S3Handler,), {"service": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def __enter__(self) -> FaultyS3:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def storage_options(self) -> dict[str, str]:
        """The options for a client of this server; any bucket name works."""
        return {
            "endpoint_url": self.url,
            "allow_http": "true",
            "access_key_id": "test-access-key",
            "secret_access_key": "test-secret-key",
            "region": "us-east-1",
        }

    def script(self, *faults: PutFault) -> None:
        """Set the faults of the next conditional PUTs, in order; later ones have none."""
        with self.bucket.lock:
            self._script.extend(faults)

    def script_lists(self, *faults: ListFault) -> None:
        """Set the faults of the next list pages, in order; later ones have none."""
        with self.bucket.lock:
            self._list_script.extend(faults)

    def clear_scripts(self) -> None:
        """Remove all faults that have not happened yet."""
        with self.bucket.lock:
            self._script.clear()
            self._list_script.clear()

    def keys(self) -> list[str]:
        """All stored keys, each beginning with its bucket, sorted."""
        with self.bucket.lock:
            return sorted(self.bucket.objects)

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def next_fault(self) -> PutFault:
        """Take the next fault of the script. The caller holds the bucket's lock."""
        return self._script.pop(0) if self._script else PutFault.NONE

    def next_list_fault(self) -> ListFault:
        """Take the next fault of the list script. The caller holds the bucket's lock."""
        return self._list_script.pop(0) if self._list_script else ListFault.NONE


class _S3Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Print no traceback: clients that give up are expected here."""


class _S3Handler(BaseHTTPRequestHandler):
    service: FaultyS3
    key: str
    query: dict[str, str]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: `FaultyS3.requests` records the requests."""

    def parse_request(self) -> bool:
        is_valid = super().parse_request()
        if is_valid:
            url = urllib.parse.urlsplit(self.path)
            self.key = urllib.parse.unquote(url.path).lstrip("/")
            self.query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        return is_valid and not self._is_refused()

    def _is_refused(self) -> bool:
        is_conditional = self.headers.get("If-None-Match") == "*"
        request = Request(self.command, self.key.partition("/")[2], is_conditional, PutFault.NONE)
        refusal = self.service.refuse(request)
        if refusal is None:
            return False
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._record(is_conditional)
        self._fail(*refusal)
        return True

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "uploadId" in self.query:
            self._put_part(body)
            return
        is_conditional = self.headers.get("If-None-Match") == "*"
        bucket = self.service.bucket
        with bucket.lock:
            fault = self.service.next_fault() if is_conditional else PutFault.NONE
            self._record(is_conditional, fault)
            exists = is_conditional and fault is not PutFault.IGNORE_CONDITION and self.key in bucket.objects
            kept = body if is_conditional else body[: len(body) - self.service.lost_bytes]
            if fault in _LANDS and not exists:
                bucket.keep(self.key, kept)
        if fault is PutFault.LAND_HANG:
            self.service.closing.wait()
        if fault in (PutFault.LAND_HANG, PutFault.LAND_DROP, PutFault.DROP):
            self._drop()
        elif fault in _ANSWERS:
            self._fail(*_ANSWERS[fault])
        elif exists:
            self._fail(412, "PreconditionFailed")
        else:
            self._answer(200, headers={"ETag": _etag(kept)})

    def do_GET(self) -> None:
        if "/" not in self.key.rstrip("/"):
            self._list()
            return
        self._record()
        with self.service.bucket.lock:
            body = self.service.bucket.objects.get(self.key)
            modified_ms = self.service.bucket.modified_ms.get(self.key, 0)
        if body is None:
            self._fail(404, "NoSuchKey")
            return
        headers = {"ETag": _etag(body), "Last-Modified": email.utils.formatdate(modified_ms / 1000, usegmt=True)}
        wanted = self.headers.get("Range")
        if wanted is None or self.command == "HEAD":
            self._answer(200, body, headers)
            return
        first, last = _range(wanted, len(body))
        if last < first:
            self._fail(416, "InvalidRange")
            return
        headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
        self._answer(206, body[first : last + 1], headers)

    do_HEAD = do_GET

    def do_DELETE(self) -> None:
        self._record()
        with self.service.bucket.lock:
            if "uploadId" in self.query:
                self.service.bucket.uploads.pop(self.query["uploadId"], None)
            else:
                self.service.bucket.objects.pop(self.key, None)
        self._answer(204)

    def do_POST(self) -> None:
        self._record()
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        bucket = self.service.bucket
        if "uploads" in self.query:
            with bucket.lock:
                upload_id = f"upload-{next(bucket.upload_ids)}"
                bucket.uploads[upload_id] = {}
            self._answer_xml("InitiateMultipartUploadResult", f"<UploadId>{upload_id}</UploadId>")
            return
        with bucket.lock:
            parts = bucket.uploads.pop(self.query.get("uploadId", ""), None)
            if parts is not None:
                bucket.keep(self.key, b"".join(body for _, body in sorted(parts.items())))
        if parts is None:
            self._fail(404, "NoSuchUpload")
            return
        self._answer_xml("CompleteMultipartUploadResult", '<ETag>"whole"</ETag>')

    def _put_part(self, body: bytes) -> None:
        self._record()
        with self.service.bucket.lock:
            parts = self.service.bucket.uploads.get(self.query["uploadId"])
            if parts is not None:
                parts[int(self.query["partNumber"])] = body
        if parts is None:
            self._fail(404, "NoSuchUpload")
        else:
            self._answer(200, headers={"ETag": _etag(body)})

    def _list(self) -> None:
        name = self.key.rstrip("/")
        after = self.query.get("continuation-token") or self.query.get("start-after", "")
        with self.service.bucket.lock:
            fault = self.service.next_list_fault()
            self._record(fault=fault)
            stored = {
                key.removeprefix(f"{name}/"): (body, self.service.bucket.modified_ms[key])
                for key, body in self.service.bucket.objects.items()
                if key.startswith(f"{name}/")
            }
        found = sorted(key for key in stored if key.startswith(self.query.get("prefix", "")) and key > after)
        if fault in (ListFault.STALE, ListFault.HOLE):
            hidden = 1 if fault is ListFault.STALE else 2
            found = found[:-hidden] + found[len(found) - hidden + 1 :]
        page = found[: self.service.page_size]
        contents = "".join(_listed(key, *stored[key]) for key in page)
        more = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if len(found) > len(page) else ""
        more = "" if fault is ListFault.TRUNCATED else more
        truncated = "true" if more else "false"
        if fault is ListFault.DROP:
            self._drop()
        elif fault in _ANSWERS:
            self._fail(*_ANSWERS[fault])
        else:
            content = f"<IsTruncated>{truncated}</IsTruncated>{more}{contents}"
            self._answer_xml("ListBucketResult", content, is_broken=fault is ListFault.BROKEN)

    def _record(self, is_conditional: bool = False, fault: PutFault | ListFault = PutFault.NONE) -> None:
        key = self.key.partition("/")[2]
        self.service.requests.append(Request(self.command, key, is_conditional, fault))

    def _answer(
        self, status: int, body: bytes = b"", headers: dict[str, str] | None = None, *, sent_bytes: int | None = None
    ) -> None:
        """Send an answer. ``sent_bytes`` is how much of the body is sent before the connection ends; None means all."""
        self.service.closing.wait(self.service.delay_s)
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:sent_bytes])
        if sent_bytes is not None:
            self._drop()

    def _answer_xml(self, element: str, content: str, *, is_broken: bool = False) -> None:
        body = f"<{element}>{content}</{element}>".encode()
        sent_bytes = len(body) // 2 if is_broken else None
        self._answer(200, body, {"Content-Type": "application/xml"}, sent_bytes=sent_bytes)

    def _fail(self, status: int, code: str) -> None:
        text = f"<Error><Code>{code}</Code><Message>scripted or real</Message></Error>"
        wait = {"Retry-After": "1"} if status == 503 else {}
        self._answer(status, text.encode(), {"Content-Type": "application/xml", **wait})

    def _drop(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


def _listed(key: str, body: bytes, modified_ms: int) -> str:
    modified = datetime.fromtimestamp(modified_ms / 1000, timezone.utc).isoformat(timespec="milliseconds")[:-6]
    return (
        f"<Contents><Key>{escape(key)}</Key><Size>{len(body)}</Size>"
        f"<ETag>{escape(_etag(body))}</ETag><LastModified>{modified}Z</LastModified></Contents>"
    )


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


def _range(header: str, size: int) -> tuple[int, int]:
    """First and last byte of an HTTP range: ``a-b``, ``a-``, or ``-n`` for the last n bytes."""
    first, _, last = header.partition("=")[2].partition("-")
    if not first:
        return max(0, size - int(last)), size - 1
    return int(first), min(int(last), size - 1) if last else size - 1
