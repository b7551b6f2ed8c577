"""A REST catalog for tests: the calls of Iceberg's REST protocol that an entry needs, over HTTP, its state in memory.

It answers PyIceberg's own client. ``can_overwrite`` False is an older server, which refuses to register a table twice.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

__all__ = ["rest_catalog"]


@contextmanager
def rest_catalog(*, can_overwrite: bool) -> Iterator[str]:
    """The URI of a catalog that lives as long as the block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(can_overwrite))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(can_overwrite: bool) -> type[BaseHTTPRequestHandler]:
    namespaces: dict[str, dict[str, str]] = {}

    class Handler(BaseHTTPRequestHandler):
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            match self._parts():
                case ["v1", "config"]:
                    self._answer(200, {"defaults": {}, "overrides": {}})
                case ["v1", "namespaces", namespace, "tables", table] if table in namespaces.get(namespace, {}):
                    self._answer_table(namespaces[namespace][table])
                case _:
                    self._refuse(404, "NoSuchTableException")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            match self._parts():
                case ["v1", "namespaces"] if "\x1f".join(body["namespace"]) in namespaces:
                    self._refuse(409, "AlreadyExistsException")
                case ["v1", "namespaces"]:
                    namespaces["\x1f".join(body["namespace"])] = {}
                    self._answer(200, {"namespace": body["namespace"], "properties": {}})
                case ["v1", "namespaces", namespace, "register"] if body["name"] in namespaces[namespace] and not (
                    can_overwrite and body.get("overwrite")
                ):
                    self._refuse(409, "AlreadyExistsException")
                case ["v1", "namespaces", namespace, "register"]:
                    namespaces[namespace][body["name"]] = body["metadata-location"]
                    self._answer_table(body["metadata-location"])
                case _:
                    self._refuse(404, "NoSuchNamespaceException")

        def do_DELETE(self) -> None:
            match self._parts():
                case ["v1", "namespaces", namespace, "tables", table] if table in namespaces.get(namespace, {}):
                    assert "purgeRequested=True" not in self.path
                    del namespaces[namespace][table]
                    self._answer(204, None)
                case _:
                    self._refuse(404, "NoSuchTableException")

        def _parts(self) -> list[str]:
            return [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]

        def _answer_table(self, location: str) -> None:
            metadata = json.loads(Path(location.removeprefix("file://")).read_bytes())
            self._answer(200, {"metadata-location": location, "metadata": metadata, "config": {}})

        def _refuse(self, status: int, kind: str) -> None:
            self._answer(status, {"error": {"message": kind, "type": kind, "code": status}})

        def _answer(self, status: int, value: Any) -> None:
            body = b"" if value is None else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
