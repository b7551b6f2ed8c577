"""A gate before an S3 server: it numbers the requests that change something, and a test decides what happens to each.

In: the server's address, and ``deed``, which is called with the number and description of each such request before the
server sees it; if it returns False, the request stops there and is never answered. Out: an address for the client. The
requests that probe a store race each other, and pass unnumbered.
"""

from __future__ import annotations

import http.client
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

__all__ = ["gate"]

Deed = Callable[[int, str], bool]

_CONNECTS = 6
_CHANGES = {"PUT", "POST", "DELETE"}
_OF_ONE_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}


@contextmanager
def gate(server_url: str, deed: Deed) -> Iterator[str]:
    """The address of a gate before ``server_url``, for the length of the block."""
    attributes = {"origin": urlsplit(server_url).netloc, "deed": staticmethod(deed), "numbers": itertools.count()}
    server = _Server(("127.0.0.1", 0), type("_BoundHandler", (_Handler,), attributes))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """The client is dead: that is what the gate is for."""


def _connected(origin: str) -> http.client.HTTPConnection:
    """A connection to the server, which may refuse one while it has many: nothing of the request is sent yet."""
    for attempt in itertools.count():
        connection = http.client.HTTPConnection(origin)
        try:
            connection.connect()
            return connection
        except ConnectionError:
            if attempt == _CONNECTS:
                raise
            time.sleep(0.05 * 2**attempt)
    raise AssertionError


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    origin: str
    deed: Deed
    numbers: Iterator[int]

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.command in _CHANGES and "_txlog_probe_" not in self.path:
            name = unquote(urlsplit(self.path).path).partition("/a table/")[2]
            if not self.deed(next(self.numbers), f"{self.command} {name}"):
                self.close_connection = True
                return
        onward = _connected(self.origin)
        onward.request(self.command, self.path, body, dict(self.headers))
        answer = onward.getresponse()
        content = answer.read()
        onward.close()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _OF_ONE_HOP:
                self.send_header(name, value)
        length = answer.headers.get("Content-Length") if self.command == "HEAD" else str(len(content))
        if length is not None and answer.status != 204:
            self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
