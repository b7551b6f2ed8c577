"""A small S3 server in this process that loses answers on demand.

In: requests of any S3 client, and a script of faults for the conditional PUTs to come. Out: what S3 would answer,
and a record of every request. Conditional creation is atomic under one lock, so it can be raced; signatures are
not checked. It listens on loopback only.
"""

from __future__ import annotations

import enum
import hashlib
import itertools
import socket
import threading
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from xml.sax.saxutils import escape

__all__ = ["Fault", "FaultyS3", "Request"]

_MODIFIED_HTTP = "Wed, 01 Jan 2025 00:00:00 GMT"
_MODIFIED_ISO = "2025-01-01T00:00:00.000Z"


class Fault(enum.Enum):
    """What happens to one conditional PUT. What lands does so only where the condition holds."""

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


_LANDS = {
    Fault.NONE,
    Fault.LAND_500,
    Fault.LAND_503,
    Fault.LAND_DROP,
    Fault.LAND_HANG,
    Fault.IGNORE_CONDITION,
}
_ANSWERS = {
    Fault.LAND_500: (500, "InternalError"),
    Fault.LAND_503: (503, "SlowDown"),
    Fault.CONFLICT_409: (409, "ConditionalRequestConflict"),
    Fault.ERROR_500: (500, "InternalError"),
    Fault.SLOW_DOWN_503: (503, "SlowDown"),
    Fault.FORBIDDEN_403: (403, "AccessDenied"),
}


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came: the key without its bucket, and the fault it met."""

    method: str
    key: str
    is_conditional: bool
    fault: Fault


@dataclass(slots=True)
class _Bucket:
    """Everything stored, under one lock. Keys include the bucket's name."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    objects: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    upload_ids: Iterator[int] = field(default_factory=itertools.count)


class FaultyS3:
    """The server. Use it as a context manager; ``page_size`` is how many keys one page of a list holds.

    ``lost_bytes``: how many bytes at the end of each unconditional PUT are dropped, though all is said to be well.
    """

    def __init__(self, page_size: int = 1000) -> None:
        self.requests: list[Request] = []
        self.page_size = page_size
        self.lost_bytes = 0
        self.bucket = _Bucket()
        self.closing = threading.Event()
        self._script: list[Fault] = []
        self._server = _Server(("127.0.0.1", 0), type("_BoundHandler", (_Handler,), {"service": self}))
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
        """What a client needs to reach this server; any bucket name will do."""
        return {
            "endpoint_url": self.url,
            "allow_http": "true",
            "access_key_id": "test-access-key",
            "secret_access_key": "test-secret-key",
            "region": "us-east-1",
        }

    def script(self, *faults: Fault) -> None:
        """The faults of the next conditional PUTs, in order; after them all is well."""
        with self.bucket.lock:
            self._script.extend(faults)

    def keys(self) -> list[str]:
        """Every stored key, bucket first, sorted."""
        with self.bucket.lock:
            return sorted(self.bucket.objects)

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def next_fault(self) -> Fault:
        """Takes the next of the script; the bucket's lock is held by the caller."""
        return self._script.pop(0) if self._script else Fault.NONE


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gave up is what this server is for: no traceback."""


class _Handler(BaseHTTPRequestHandler):
    service: FaultyS3
    key: str
    query: dict[str, str]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the requests are in `FaultyS3.requests`."""

    def parse_request(self) -> bool:
        is_valid = super().parse_request()
        if is_valid:
            url = urllib.parse.urlsplit(self.path)
            self.key = urllib.parse.unquote(url.path).lstrip("/")
            self.query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        return is_valid

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "uploadId" in self.query:
            self._put_part(body)
            return
        is_conditional = self.headers.get("If-None-Match") == "*"
        bucket = self.service.bucket
        with bucket.lock:
            fault = self.service.next_fault() if is_conditional else Fault.NONE
            self._record(is_conditional, fault)
            exists = is_conditional and fault is not Fault.IGNORE_CONDITION and self.key in bucket.objects
            if fault in _LANDS and not exists:
                kept_bytes = len(body) if is_conditional else len(body) - self.service.lost_bytes
                bucket.objects[self.key] = body[:kept_bytes]
        if fault is Fault.LAND_HANG:
            self.service.closing.wait()
        if fault in (Fault.LAND_HANG, Fault.LAND_DROP, Fault.DROP):
            self._drop()
        elif fault in _ANSWERS:
            self._fail(*_ANSWERS[fault])
        elif exists:
            self._fail(412, "PreconditionFailed")
        else:
            self._answer(200, headers={"ETag": _etag(body)})

    def do_GET(self) -> None:
        self._record()
        if "/" not in self.key.rstrip("/"):
            self._list()
            return
        with self.service.bucket.lock:
            body = self.service.bucket.objects.get(self.key)
        if body is None:
            self._fail(404, "NoSuchKey")
            return
        headers = {"ETag": _etag(body), "Last-Modified": _MODIFIED_HTTP}
        wanted = self.headers.get("Range")
        if wanted is None or self.command == "HEAD":
            self._answer(200, body, headers)
            return
        first, last = _range(wanted, len(body))
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
                bucket.objects[self.key] = b"".join(body for _, body in sorted(parts.items()))
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
            stored = {
                key.removeprefix(f"{name}/"): body
                for key, body in self.service.bucket.objects.items()
                if key.startswith(f"{name}/")
            }
        found = sorted(key for key in stored if key.startswith(self.query.get("prefix", "")) and key > after)
        page = found[: self.service.page_size]
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(stored[key])}</Size>"
            f"<ETag>{escape(_etag(stored[key]))}</ETag><LastModified>{_MODIFIED_ISO}</LastModified></Contents>"
            for key in page
        )
        more = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if len(found) > len(page) else ""
        truncated = "true" if more else "false"
        self._answer_xml("ListBucketResult", f"<IsTruncated>{truncated}</IsTruncated>{more}{contents}")

    def _record(self, is_conditional: bool = False, fault: Fault = Fault.NONE) -> None:
        key = self.key.partition("/")[2]
        self.service.requests.append(Request(self.command, key, is_conditional, fault))

    def _answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _answer_xml(self, element: str, content: str) -> None:
        self._answer(200, f"<{element}>{content}</{element}>".encode(), {"Content-Type": "application/xml"})

    def _fail(self, status: int, code: str) -> None:
        text = f"<Error><Code>{code}</Code><Message>scripted or real</Message></Error>"
        self._answer(status, text.encode(), {"Content-Type": "application/xml"})

    def _drop(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


def _range(header: str, size: int) -> tuple[int, int]:
    """First and last byte of an HTTP range: `a-b`, `a-` or the last `-n`."""
    first, _, last = header.partition("=")[2].partition("-")
    if not first:
        return max(0, size - int(last)), size - 1
    return int(first), min(int(last), size - 1) if last else size - 1
