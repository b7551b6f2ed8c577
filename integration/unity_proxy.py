"""A network before a catalog's server that breaks off connections: before the server gets a request, or before its
answer arrives. And the server, in a process of its own, which can be killed and started again.

In: a folder for the server's book and tables, and a seed. Out: an address for clients that stays the same.
"""

from __future__ import annotations

import http.client
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["UnityProcess", "cutting_proxy"]


class UnityProcess:
    """A running server. It comes back at the same address, and has forgotten what was newer than ``sync_ms``."""

    def __init__(self, folder: Path, sync_ms: int = 0) -> None:
        self._folder, self._port, self._sync_ms = folder, 0, sync_ms
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "txlog.testing.unity_server", str(self._folder)]
        command += [str(self._port), str(self._sync_ms)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        self._port = urlsplit(self.url).port or 0
        assert self._port, "the server did not start"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def restart_now_and_then(self, times: int, pause_s: float, seed: int, stop: threading.Event) -> int:
        """Kill the server and start it again, until all is done. Returns how often."""
        choose = random.Random(seed)
        for count in range(times):
            if stop.wait(choose.uniform(0, pause_s)):
                return count
            self.kill()
            time.sleep(choose.uniform(0, 0.2))
            self.start()
        return times


@contextmanager
def cutting_proxy(server: UnityProcess, share: float, seed: int) -> Iterator[str]:
    """The address of a proxy that loses this share of the requests that change something, half of them unheard."""
    choose = random.Random(seed)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fate = choose.random() if self.command == "POST" else 1.0
            self.close_connection = fate < share
            if fate < share / 2:
                return
            connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
            try:
                headers = {key: value for key, value in self.headers.items() if key.lower() != "connection"}
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                payload = answer.read()
            except (OSError, http.client.HTTPException):  # the server is down, or went down
                self.close_connection = True
                return
            finally:
                connection.close()
            if fate < share:
                return
            with suppress(OSError):
                self.send_response(answer.status)
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

        do_POST = do_DELETE = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Proxy(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: object, client_address: object) -> None:
            """The client was killed."""

    proxy = Proxy(("127.0.0.1", 0), Handler)
    threading.Thread(target=proxy.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{proxy.server_address[1]}"
    finally:
        proxy.shutdown()
        proxy.server_close()
