"""A stand-in for Google Cloud Storage, written from Google's documentation of the XML API: it is not Google's own code.

No emulator that a package registry has honors the conditional puts of the XML API, which commits rely on
(fake-gcs-server accepts a second create; gcp-storage-emulator has no XML API). This one has what the documentation says
of the requests that a table needs: objects with generations, ``x-goog-if-generation-match``, ranges, listings, uploads
in parts, and the answers 404, 412, 416, 429 and 503. It keeps the objects of one bucket in the memory of one process.

``--trouble SHARE`` answers this share of the requests with 429 or 503; of puts, some after they have taken effect.

https://cloud.google.com/storage/docs/xml-api/overview
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import random
import re
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_PAGE = 1000
_PART = re.compile(r"<PartNumber>(\d+)</PartNumber>")
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_XML = '<?xml version="1.0" encoding="UTF-8"?>\n'


class Stored(NamedTuple):
    """One generation of an object."""

    body: bytes
    generation: int
    tag: str
    at_s: float


class Bucket:
    """The objects and the unfinished uploads of the one bucket. Thread-safe."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.objects: dict[str, Stored] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.numbers = itertools.count(int(time.time() * 1e6))

    def put(self, key: str, body: bytes, if_generation: str | None) -> Stored | None:
        """None if the precondition fails; 0 means that no object has the name."""
        tag = hashlib.md5(body, usedforsecurity=False).hexdigest()
        with self.lock:
            found = self.objects.get(key)
            if if_generation is not None and int(if_generation) != (0 if found is None else found.generation):
                return None
            stored = self.objects[key] = Stored(body, next(self.numbers), tag, time.time())
        return stored

    def page(self, prefix: str, after: str, most: int) -> tuple[list[tuple[str, Stored]], bool]:
        with self.lock:
            found = sorted(item for item in self.objects.items() if item[0].startswith(prefix) and item[0] > after)
        return found[:most], len(found) > most


class Handler(BaseHTTPRequestHandler):
    """One connection. The class has the bucket and how much trouble there is."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    bucket = Bucket()
    trouble = 0.0
    chance = random.Random(1)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: each request would be a line."""

    def handle_request(self) -> None:
        url = urlsplit(self.path)
        _, _, key = unquote(url.path).lstrip("/").partition("/")
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        draw = self.chance.random()
        if draw < self.trouble * 0.8:
            code, name = (429, "SlowDown") if draw < self.trouble * 0.4 else (503, "ServiceUnavailable")
            self.refuse(code, name)
            return
        is_lost = draw < self.trouble and self.command in ("PUT", "POST", "DELETE")
        answer = self.answer(key, query, body)
        self.send(*((503, {}, _error("ServiceUnavailable")) if is_lost else answer))

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_request  # the names that the base class calls

    def answer(self, key: str, query: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        match self.command:
            case "GET" if not key:
                return self.listing(query)
            case "GET" | "HEAD":
                return self.read(key)
            case "PUT" if "uploadId" in query:
                return self.put_part(query, body)
            case "PUT":
                return self.put(key, body)
            case "POST" if "uploads" in query:
                return self.begin_parts(key)
            case "POST" if "uploadId" in query:
                return self.join_parts(key, query, body)
            case "DELETE" if "uploadId" in query:
                self.bucket.uploads.pop(query["uploadId"], None)
                return 204, {}, b""
            case "DELETE":
                with self.bucket.lock:
                    is_gone = self.bucket.objects.pop(key, None) is None
                return (404, {}, _error("NoSuchKey")) if is_gone else (204, {}, b"")
        return 501, {}, _error("NotImplemented")

    def put(self, key: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        stored = self.bucket.put(key, body, self.headers.get("x-goog-if-generation-match"))
        return (412, {}, _error("PreconditionFailed")) if stored is None else (200, _facts(stored), b"")

    def read(self, key: str) -> tuple[int, dict[str, str], bytes]:
        stored = self.bucket.objects.get(key)
        if stored is None:
            return 404, {}, _error("NoSuchKey")
        size = len(stored.body)
        asked = _RANGE.fullmatch(self.headers.get("Range") or "")
        if asked is None or self.command == "HEAD":
            return 200, _facts(stored), stored.body
        first, last = asked.groups()
        start = int(first) if first else max(0, size - int(last))
        end = min(size, int(last) + 1 if first and last else size)
        if start >= end:
            return 416, {"Content-Range": f"bytes */{size}"}, _error("InvalidRange")
        return 206, {**_facts(stored), "Content-Range": f"bytes {start}-{end - 1}/{size}"}, stored.body[start:end]

    def listing(self, query: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        after = query.get("continuation-token") or query.get("start-after") or ""
        most = min(_PAGE, int(query.get("max-keys") or _PAGE))
        found, is_truncated = self.bucket.page(query.get("prefix", ""), after, most)
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Generation>{stored.generation}</Generation>"
            f"<MetaGeneration>1</MetaGeneration><LastModified>{_iso(stored.at_s)}</LastModified>"
            f'<ETag>"{stored.tag}"</ETag><Size>{len(stored.body)}</Size></Contents>'
            for key, stored in found
        )
        token = f"<NextContinuationToken>{escape(found[-1][0])}</NextContinuationToken>" if is_truncated else ""
        return _xml(
            "ListBucketResult",
            f"<Name>tables</Name><Prefix>{escape(query.get('prefix', ''))}</Prefix><KeyCount>{len(found)}</KeyCount>"
            f"<IsTruncated>{str(is_truncated).lower()}</IsTruncated>{token}{contents}",
        )

    # --- uploads in parts -----------------------------------------------------------------------------------------

    def begin_parts(self, key: str) -> tuple[int, dict[str, str], bytes]:
        number = f"upload-{next(self.bucket.numbers)}"
        self.bucket.uploads[number] = {}
        named = f"<Bucket>tables</Bucket><Key>{escape(key)}</Key><UploadId>{number}</UploadId>"
        return _xml("InitiateMultipartUploadResult", named)

    def put_part(self, query: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        parts = self.bucket.uploads.get(query["uploadId"])
        if parts is None:
            return 404, {}, _error("NoSuchUpload")
        parts[int(query["partNumber"])] = body
        return 200, {"ETag": f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'}, b""

    def join_parts(self, key: str, query: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        parts = self.bucket.uploads.pop(query["uploadId"], None)
        if parts is None:
            return 404, {}, _error("NoSuchUpload")
        whole = b"".join(parts[int(number)] for number in _PART.findall(body.decode()))
        stored = self.bucket.put(key, whole, self.headers.get("x-goog-if-generation-match"))
        if stored is None:
            return 412, {}, _error("PreconditionFailed")
        code, headers, answer = _xml(
            "CompleteMultipartUploadResult", f'<Key>{escape(key)}</Key><ETag>"{stored.tag}-parts"</ETag>'
        )
        return code, {**headers, "x-goog-generation": str(stored.generation)}, answer

    # --- answers --------------------------------------------------------------------------------------------------

    def refuse(self, code: int, name: str) -> None:
        self.send(code, {"Retry-After": "0"}, _error(name))

    def send(self, code: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Date", formatdate(usegmt=True))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _facts(stored: Stored) -> dict[str, str]:
    return {
        "ETag": f'"{stored.tag}"',
        "x-goog-generation": str(stored.generation),
        "x-goog-metageneration": "1",
        "Last-Modified": formatdate(stored.at_s, usegmt=True),
        "Content-Type": "application/octet-stream",
    }


def _iso(at_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(at_s)) + f"{int(at_s % 1 * 1000):03}Z"


def _xml(root: str, inside: str) -> tuple[int, dict[str, str], bytes]:
    space = "http://doc.s3.amazonaws.com/2006-03-01"
    text = f'{_XML}<{root} xmlns="{space}">{inside}</{root}>'
    return 200, {"Content-Type": "application/xml; charset=UTF-8"}, text.encode()


def _error(code: str) -> bytes:
    return f"{_XML}<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("port", type=int)
    parser.add_argument("--trouble", type=float, default=0.0)
    given = parser.parse_args()
    Handler.trouble = given.trouble
    _Server(("127.0.0.1", given.port), Handler).serve_forever()
