"""A stand-in for a Unity Catalog server, which decides the commits of managed tables.

In: HTTP requests on the loopback interface. Out: the answers that real servers were seen to give, with their limits
and holes. The two server versions and the specification disagree at some points, and each disagreement is a switch.
Its book is in a file, so it can be killed and started again; `UnityServer.go_back` and the argument ``SYNC_MS`` make it
forget what it had accepted, as a server does whose database is synced late. It shares no code with txlog's client.
Unity Catalog, "api/delta.yaml", "ManagedTablesSpec.md".

Run it by itself: ``python -m txlog.testing.unity_server FOLDER [PORT [SYNC_MS]]``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from txlog.core import ambient
from txlog.core.store import FolderVersions

__all__ = ["Cut", "Switches", "UnityServer"]

_ROOT = "/api/2.1/unity-catalog"
_READER_FEATURES = ["catalogManaged", "deletionVectors", "v2Checkpoint", "vacuumProtocolCheck"]
_WRITER_FEATURES = [*_READER_FEATURES, "inCommitTimestamp"]
_PROPERTIES = {
    "delta.checkpointPolicy": "v2",
    "delta.enableDeletionVectors": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.checkpoint.writeStatsAsStruct": "true",
    "delta.checkpoint.writeStatsAsJson": "true",
}
_DERIVED = ("delta.minReaderVersion", "delta.minWriterVersion", "delta.feature.", "delta.lastUpdateVersion")

Cut = Callable[[str, str, Any], Literal["before", "after", "clash", "busy"] | None]
"""Takes the method, the path and the body of a request. Returns what goes wrong: the connection breaks ``before`` or
``after`` the server acts, another commit holds the lock (``clash``), or there were too many requests (``busy``)."""


class Switches(msgspec.Struct):
    """How this server behaves.

    Attributes:
        repeats: The answer to an ``add-commit`` that was accepted before: "accepted" (0.7.0: 200, nothing done),
            "0.6.0" (409 once its record was dropped), or "refused" (the specification: 409).
        unpublished_max: How many accepted commits may be unpublished.
        rights: The rights of each token, among "READ", "READ_WRITE" and "CREATE". Empty: anybody may do anything.
        vended: What the storage credentials hold, as the API names it. Empty: the tables are on a local disk.
        vended_life_ms: How long storage credentials live.
        locks: Whether two commits at the same time clash, instead of one waiting for the other.
        sync_ms: How old the book's file may be: a server that is killed forgets what came later. 0: it is written
            before each answer. The database that real servers begin with writes every 500 ms.
        now_ms: The server's clock.
        cut: What goes wrong with a request.
        answer: Called with the method, the path and the query of a request. What it returns is the status and the body
            of the answer; None: the server answers as it would.
    """

    repeats: Literal["accepted", "0.6.0", "refused"] = "accepted"
    unpublished_max: int = 10
    rights: Mapping[str, set[str]] = {}
    vended: Mapping[str, str] = {}
    vended_life_ms: int = 3_600_000
    locks: bool = False
    sync_ms: int = 0
    now_ms: Callable[[], int] = ambient.now_ms
    cut: Cut | None = None
    answer: Callable[[str, str, Mapping[str, str]], tuple[int, Any] | None] | None = None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class _Answer(Exception):
    """A refusal, in the shape of the Delta API."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


class UnityServer:
    """The server, on a thread of its own.

    Attributes:
        switches: May be changed at any time.
        requests: The method and path of each request, in order.
    """

    def __init__(self, folder: str | os.PathLike[str], port: int = 0, switches: Switches | None = None) -> None:
        """``folder`` holds the book and the managed tables. Port 0 takes a free one."""
        self.folder = os.path.abspath(os.fspath(folder))
        self.switches = switches or Switches()
        self.requests: list[tuple[str, str]] = []
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        self._book_path = os.path.join(self.folder, "book.json")
        self._book: dict[str, Any] = {"schemas": ["main.s"], "staged": {}, "tables": {}, "vended": 0}
        os.makedirs(self.folder, exist_ok=True)
        with contextlib.suppress(FileNotFoundError), open(self._book_path, encoding="utf-8") as file:
            self._book = json.load(file)
        self._server = _Server(("127.0.0.1", port), self._handler())
        self.uri = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), name="unity-server", daemon=True
        )

    def __enter__(self) -> UnityServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()

    def table(self, name: str) -> dict[str, Any]:
        """The record of a table, such as ``main.s.t``, for tests to look at and to change."""
        return self._book["tables"][name]  # type: ignore[no-any-return]

    def book(self) -> str:
        """All that the server knows, to `go_back` to."""
        with self._lock:
            return json.dumps(self._book)

    def go_back(self, book: str) -> None:
        """Forget all that was accepted since `book` returned this, as a killed server whose database was not synced."""
        with self._lock:
            self._book = json.loads(book)
            self._save()

    def add_table(self, name: str, location: str, table_type: str = "EXTERNAL") -> None:
        """Name a table that is there already, and whose commits the server does not decide. A MANAGED one is as the
        sample tables of real servers."""
        fields: dict[str, Any] = {"columns": {"type": "struct", "fields": []}, "properties": {}}
        self._book["tables"][name] = {
            **self._recorded(ambient.uuid4(), table_type, f"file://{location}", fields),
            "protocol": None,
        }
        self._save()

    # --- HTTP ---------------------------------------------------------------------------------------------------

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                server._serve(self)

            do_POST = do_DELETE = do_HEAD = do_GET

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        size = int(request.headers.get("Content-Length") or 0)
        raw = request.rfile.read(size) if size else b""
        body = json.loads(raw) if raw else None
        parts = urlsplit(request.path)
        method, query = request.command, {key: values[0] for key, values in parse_qs(parts.query).items()}
        self.requests.append((method, request.path))
        fault = self.switches.cut(method, parts.path, body) if self.switches.cut is not None else None
        if fault == "before":
            request.close_connection = True
            return
        token, settled = request.headers.get("Authorization"), self.switches.answer
        other = None if settled is None else settled(method, parts.path, query)
        status, answer = other or self._answered(method, parts.path, query, body, token, fault)
        if fault == "after":
            request.close_connection = True
            return
        payload = b"" if answer is None else json.dumps(answer).encode()
        with contextlib.suppress(OSError):  # the client has gone
            request.send_response(status)
            request.send_header("Content-Type", "application/json")
            request.send_header("Content-Length", str(len(payload)))
            request.end_headers()
            request.wfile.write(payload)

    def _answered(
        self, method: str, path: str, query: dict[str, str], body: Any, token: str | None, fault: str | None
    ) -> tuple[int, Any]:
        is_old = not path.startswith(f"{_ROOT}/delta/v1/")
        try:
            if fault == "busy":
                raise _Answer(429, "TooManyRequestsException", "Too many requests")
            rights = self._rights(token)
            if not path.startswith(f"{_ROOT}/"):
                raise _Answer(404, "NotFoundException", f"no such path: {path}")
            rest = [unquote(part) for part in path.removeprefix(f"{_ROOT}/").split("/")]
            if is_old:
                return self._old(method, rest, query)
            with self._locked(method, fault):
                return self._delta(method, rest[2:], query, body, rights)
        except _Answer as error:
            if is_old:
                return error.status, {"error_code": error.kind, "details": [], "message": str(error)}
            return error.status, {"error": {"message": str(error), "type": error.kind, "code": error.status}}

    @contextlib.contextmanager
    def _locked(self, method: str, fault: str | None) -> Iterator[None]:
        clash = _Answer(409, "UpdateRequirementConflictException", "Concurrent commit in progress, please retry")
        if fault == "clash" and method == "POST":
            raise clash
        if not self._lock.acquire(blocking=not self.switches.locks or method != "POST"):
            raise clash
        try:
            yield
        finally:
            self._lock.release()

    def _rights(self, header: str | None) -> set[str]:
        if not self.switches.rights:
            return {"READ", "READ_WRITE", "CREATE"}
        token = (header or "").removeprefix("Bearer ")
        if token not in self.switches.rights:
            raise _Answer(
                401, "NotAuthorizedException", "Invalid access token." if token else "No authorization found."
            )
        return self.switches.rights[token]

    # --- the old API, which lists names ---------------------------------------------------------------------------

    def _old(self, method: str, path: list[str], query: dict[str, str]) -> tuple[int, Any]:
        with self._lock:
            names = [name.split(".") for name in self._book["schemas"]]
            if (method, path) == ("GET", ["catalogs"]):
                found = [self._listed(name, storage_root=None) for name in sorted({each[0] for each in names})]
                return 200, {"catalogs": found, "next_page_token": None}
            if (method, path) == ("GET", ["schemas"]):
                own = sorted(each[1] for each in names if each[0] == query["catalog_name"])
                found = [self._listed(each, catalog_name=query["catalog_name"]) for each in own]
                return 200, {"schemas": found, "next_page_token": None}
            if (method, path) == ("GET", ["tables"]):
                folder = f"{query['catalog_name']}.{query['schema_name']}"
                if folder not in self._book["schemas"]:
                    raise _Answer(404, "SCHEMA_NOT_FOUND", f"Schema not found: {folder}")
                tables = [name for name in sorted(self._book["tables"]) if name.rpartition(".")[0] == folder]
                first = int(query.get("page_token") or 0)
                last = first + int(query.get("max_results") or 50)
                found = [self._old_table(name) for name in tables[first:last]]
                return 200, {"tables": found, "next_page_token": str(last) if last < len(tables) else None}
            if method == "GET" and path[0] == "tables" and len(path) == 2:
                if path[1] not in self._book["tables"]:
                    raise _Answer(404, "TABLE_NOT_FOUND", f"Table not found: {path[1]}")
                return 200, self._old_table(path[1])
        raise _Answer(404, "NOT_FOUND", "no such endpoint")

    @staticmethod
    def _listed(name: str, **more: Any) -> dict[str, Any]:
        """A catalog or a schema. What it does not have is null, such as a root for its tables."""
        unset = dict.fromkeys(("comment", "owner", "created_by", "updated_at", "updated_by", "storage_location"))
        return {"name": name, "properties": {}, **unset, **more}

    def _old_table(self, name: str) -> dict[str, Any]:
        table, (catalog, schema, own) = self._book["tables"][name], name.split(".")
        return {
            **self._listed(own, catalog_name=catalog, schema_name=schema),
            "columns": [],
            "view_definition": None,
            "table_type": table["type"],
            "data_source_format": "DELTA",
            "storage_location": table["location"],
            "table_id": table["uuid"],
        }

    # --- the Delta API --------------------------------------------------------------------------------------------

    def _delta(
        self, method: str, path: list[str], query: dict[str, str], body: Any, rights: set[str]
    ) -> tuple[int, Any]:
        if (method, path) == ("GET", ["config"]):
            if query.get("catalog") not in {each.partition(".")[0] for each in self._book["schemas"]}:
                raise _Answer(404, "NoSuchCatalogException", f"there is no catalog {query.get('catalog')}")
            return 200, {"endpoints": [], "protocol-version": "1.0"}  # whatever versions were asked for
        if method == "GET" and path[0] == "staging-tables" and path[2:] == ["credentials"]:
            if path[1] not in self._book["staged"]:
                raise _Answer(404, "NoSuchTableException", f"no staging table {path[1]}")
            return 200, self._credentials(self._book["staged"][path[1]], "READ_WRITE")
        if len(path) < 5 or (path[0], path[2]) != ("catalogs", "schemas"):
            raise _Answer(404, "NotFoundException", "no such endpoint")
        folder, kind, rest = f"{path[1]}.{path[3]}", path[4], path[5:]
        if folder not in self._book["schemas"]:
            raise _Answer(404, "NoSuchSchemaException", f"Schema '{folder}' does not exist")
        if method == "POST" and not rest:
            if "CREATE" not in rights:
                raise _Answer(403, "PermissionDeniedException", f"CREATE on {folder} is missing")
            made = self._stage(folder, body) if kind == "staging-tables" else self._create(folder, body)
            return 200, made
        if not rest:
            raise _Answer(405, "", "")  # although the answer to config names it
        name = f"{folder}.{rest[0]}"
        if name not in self._book["tables"]:
            raise _Answer(404, "NoSuchTableException", f"Table '{name}' does not exist")
        needed = "READ_WRITE" if method != "GET" or query.get("operation") == "READ_WRITE" else "READ"
        if needed not in rights:
            raise _Answer(403, "PermissionDeniedException", f"{needed} on {name} is missing")
        table = self._book["tables"][name]
        if method == "HEAD":
            return 204, None
        if rest[1:] == ["credentials"]:
            if "operation" not in query:
                raise _Answer(400, "BadRequestException", "operation is missing")
            return 200, self._credentials(table["location"], query["operation"])
        if method == "GET":
            return 200, _loaded(table)
        if method == "DELETE":
            del self._book["tables"][name]
            if table["type"] == "MANAGED":
                shutil.rmtree(_path(table["location"]), ignore_errors=True)
        elif rest[1:] == ["rename"]:
            self._rename(name, f"{folder}.{body['new-name']}")
        else:
            self._update(table, body)
            self._save()
            return 200, _loaded(table)
        self._save()
        return 204, None

    def _rename(self, name: str, new: str) -> None:
        if new in self._book["tables"]:
            raise _Answer(409, "AlreadyExistsException", f"Table '{new}' already exists")
        self._book["tables"][new] = self._book["tables"].pop(name)

    def _credentials(self, location: str, operation: str) -> dict[str, Any]:
        if not self.switches.vended:
            return {"storage-credentials": []}
        self._book["vended"] += 1
        config = {key: value.format(self._book["vended"]) for key, value in self.switches.vended.items()}
        expires_ms = self.switches.now_ms() + self.switches.vended_life_ms
        shown = {"prefix": location, "operation": operation, "expiration-time-ms": expires_ms, "config": config}
        return {"storage-credentials": [shown]}

    def _stage(self, folder: str, body: Any) -> dict[str, Any]:
        if f"{folder}.{body['name']}" in self._book["tables"]:
            raise _Answer(409, "AlreadyExistsException", f"Table '{folder}.{body['name']}' already exists")
        table_id = ambient.uuid4()
        location = f"file://{self.folder}/tables/{table_id}"
        self._book["staged"][table_id] = location
        self._save()
        return {
            "table-id": table_id,
            "table-type": "MANAGED",
            "location": location,
            **self._credentials(location, "READ_WRITE"),
            "required-protocol": {
                "min-reader-version": 3,
                "min-writer-version": 7,
                "reader-features": _READER_FEATURES,
                "writer-features": _WRITER_FEATURES,
            },
            "required-properties": {**_PROPERTIES, "io.unitycatalog.tableId": table_id},
            "suggested-protocol": {"reader-features": ["columnMapping"], "writer-features": ["columnMapping"]},
            "suggested-properties": {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": None},
        }

    def _create(self, folder: str, body: Any) -> dict[str, Any]:
        name = f"{folder}.{body['name']}"
        if name in self._book["tables"]:
            raise _Answer(409, "AlreadyExistsException", f"Table '{name}' already exists")
        table_id: str | None = None
        if body["table-type"] == "MANAGED":
            staged = {location: table_id for table_id, location in self._book["staged"].items()}
            if (table_id := staged.get(body["location"])) is None:
                raise _Answer(404, "NoSuchTableException", "no staging table has this location")
            wanted = {**_PROPERTIES, "io.unitycatalog.tableId": table_id}
            missing = [key for key, value in wanted.items() if body["properties"].get(key) != value]
            missing += sorted(set(_WRITER_FEATURES) - set(body["protocol"]["writer-features"]))
            missing += sorted(set(_READER_FEATURES) - set(body["protocol"]["reader-features"]))
            if missing:
                raise _Answer(400, "InvalidParameterValueException", f"missing: {', '.join(missing)}")
            if not os.path.exists(_path(body["location"]) + f"/_delta_log/{FolderVersions.name_of(0)}"):
                raise _Answer(400, "InvalidParameterValueException", "version 0 is not at the location")
        _check_columns(body["columns"])
        table = self._recorded(table_id or ambient.uuid4(), body["table-type"], body["location"], body)
        self._book["tables"][name] = table
        self._save()
        return _loaded(table)

    def _recorded(self, table_id: str, table_type: str, location: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "uuid": table_id,
            "type": table_type,
            "location": location,
            "created": self.switches.now_ms(),
            "etag": 0,
            "latest": 0,
            "published": 0,
            "commits": [],
            "newest": None,
            "domains": fields.get("domain-metadata") or {},
            **{key: fields.get(key) for key in ("columns", "partition-columns", "properties", "protocol", "comment")},
        }

    def _update(self, table: dict[str, Any], body: Any) -> None:
        wanted = {each["type"]: each for each in body["requirements"]}
        updates = {each["action"]: each for each in body["updates"]}
        if len(updates) < len(body["updates"]) or not updates:
            raise _Answer(400, "BadRequestException", "at most one action of each kind, and at least one")
        if "assert-table-uuid" not in wanted:
            raise _Answer(400, "BadRequestException", "assert-table-uuid is missing")
        if wanted["assert-table-uuid"]["uuid"] != table["uuid"]:
            raise _Answer(409, "UpdateRequirementConflictException", "the table's uuid differs")
        if "assert-etag" in wanted and wanted["assert-etag"]["etag"] != str(table["etag"]):
            raise _Answer(409, "UpdateRequirementConflictException", "the table's etag differs")
        if (columns := updates.get("set-columns")) is not None:
            _check_columns(columns["columns"])
        commit, report = updates.pop("add-commit", None), updates.pop("set-latest-backfilled-version", None)
        before = dict(table)
        if report is not None:
            self._report(table, report["latest-published-version"])
        try:
            if commit is not None and not self._add(table, commit["commit"]):
                return  # a repeat
        except _Answer:
            table.update(before)
            raise
        for action, update in updates.items():
            _change(table, action, update)
        table["etag"] += bool(updates)

    def _report(self, table: dict[str, Any], version: int) -> None:
        """The server believes what it is told: too early a report destroys the only record of a commit."""
        if table["newest"] is None or version > table["latest"]:
            raise _Answer(400, "InvalidParameterValueException", f"version {version} is not a version of the table")
        table["commits"] = [each for each in table["commits"] if each["version"] > version]
        table["published"] = max(table["published"], version)

    def _add(self, table: dict[str, Any], commit: dict[str, Any]) -> bool:
        """Whether the commit is new. Neither the file nor the order of times is checked."""
        version, name = commit["version"], commit["file-name"]
        recorded = {each["version"]: each["file-name"] for each in table["commits"]}
        if table["newest"] is not None:
            recorded[table["latest"]] = table["newest"]  # kept when it is reported as published
        known = recorded.get(version)
        conflict = f"version {version} of the table exists: {known}, not {name}"
        is_shown = any(each["version"] == version for each in table["commits"])
        is_repeat = known == name and (is_shown or self.switches.repeats == "accepted")
        if is_repeat and self.switches.repeats != "refused":
            return False
        if known is not None:
            raise _Answer(409, "CommitVersionConflictException", conflict)
        if version <= table["latest"]:
            if self.switches.repeats == "accepted":
                _require_published(table["location"], version, name)
                return False
            raise _Answer(409, "CommitVersionConflictException", conflict)
        if table["newest"] is not None and version > table["latest"] + 1:  # the first commit is accepted at any version
            raise _Answer(400, "InvalidParameterValueException", f"version {version} leaves a gap")
        if len(table["commits"]) >= self.switches.unpublished_max:
            raise _Answer(429, "ResourceExhaustedException", "Max number of unpublished commits reached")
        table["commits"] = [commit, *table["commits"]]
        table["latest"], table["newest"] = version, name
        return True

    def _save(self) -> None:
        if self.switches.sync_ms == 0:
            self._write()
        elif self._timer is None or not self._timer.is_alive():
            self._timer = threading.Timer(self.switches.sync_ms / 1000, self._write)
            self._timer.daemon = True
            self._timer.start()

    def _write(self) -> None:
        with self._lock:
            self._write_book()

    def _write_book(self) -> None:
        with open(f"{self._book_path}.new", "w", encoding="utf-8") as file:
            json.dump(self._book, file)
        os.replace(f"{self._book_path}.new", self._book_path)


def _loaded(table: dict[str, Any]) -> dict[str, Any]:
    protocol, derived = table["protocol"], {}
    if protocol is not None:
        names = {*protocol.get("reader-features", ()), *protocol.get("writer-features", ())}
        derived = {f"delta.feature.{name}": "supported" for name in sorted(names)}
        derived["delta.minReaderVersion"] = str(protocol["min-reader-version"])
        derived["delta.minWriterVersion"] = str(protocol["min-writer-version"])
    metadata = {
        "etag": str(table["etag"]),
        "table-type": table["type"],
        "table-uuid": table["uuid"],
        "location": table["location"],
        "created-time": table["created"],
        "updated-time": table["created"],
        "columns": table["columns"],
        "partition-columns": table["partition-columns"] or None,
        "properties": {**table["properties"], **derived},
        "last-commit-version": None,
    }
    if table["type"] != "MANAGED":
        return {"metadata": metadata, "commits": None, "uniform": None, "latest-table-version": None}
    return {
        "metadata": metadata,
        "commits": table["commits"],
        "uniform": None,
        "latest-table-version": table["latest"],
    }


def _change(table: dict[str, Any], action: str, update: dict[str, Any]) -> None:
    if action == "set-properties":
        if wrong := [key for key in update["updates"] if key.startswith(_DERIVED)]:
            raise _Answer(400, "InvalidParameterValueException", f"derived properties: {wrong}")
        table["properties"] = {**table["properties"], **update["updates"]}
    elif action == "remove-properties":
        table["properties"] = {k: v for k, v in table["properties"].items() if k not in update["removals"]}
    elif action == "set-columns":
        table["columns"] = update["columns"]
    elif action == "set-protocol":
        table["protocol"] = update["protocol"]
    elif action == "set-partition-columns":
        table["partition-columns"] = update["partition-columns"]
    elif action == "set-table-comment":
        table["comment"] = update["comment"]
    elif action == "set-domain-metadata":
        table["domains"] = {**table["domains"], **update["updates"]}
    elif action == "remove-domain-metadata":
        table["domains"] = {k: v for k, v in table["domains"].items() if k not in update["domains"]}
    else:
        raise _Answer(400, "BadRequestException", f"unknown action {action}")


def _check_columns(columns: Any) -> None:
    """The names of a type's parts have hyphens in this API, and none in the log."""
    text = json.dumps(columns)
    if columns.get("type") != "struct" or re.search(r'"(elementType|keyType|valueType|containsNull)":', text):
        raise _Answer(400, "BadRequestException", "columns are not a DeltaStructType")


def _require_published(location: str, version: int, name: str) -> None:
    """A repeat of a commit whose record was dropped: it was accepted if the published file has its content."""
    log = f"{_path(location)}/_delta_log"
    try:
        with (
            open(f"{log}/_staged_commits/{name}", "rb") as staged,
            open(f"{log}/{FolderVersions.name_of(version)}", "rb") as published,
        ):
            is_same = staged.read() == published.read()
    except FileNotFoundError:
        raise _Answer(500, "CommitStateUnknownException", f"version {version} cannot be compared") from None
    if not is_same:
        raise _Answer(409, "CommitVersionConflictException", f"version {version} was published with other content")


def _path(location: str) -> str:
    return unquote(urlsplit(location).path)


def main() -> None:
    """Serve until the process is stopped."""
    port, sync_ms = (int(each) for each in (*sys.argv[2:], "0", "0")[:2])
    server = UnityServer(sys.argv[1], port, Switches(sync_ms=sync_ms))
    sys.stdout.write(f"{server.uri}\n")
    sys.stdout.flush()
    server._server.serve_forever()


if __name__ == "__main__":
    main()
