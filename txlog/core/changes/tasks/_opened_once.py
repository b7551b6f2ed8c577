"""Small data files that one operation opens more than once: to look up rows, to count them, to copy them.

In: the files of a table whose store takes a request for each call. Out: the same files; small ones are read as a whole
when first opened, or many at a time before that. Data files are immutable.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from txlog.core.parallel import new_lock, parallel_map
from txlog.core.store import FileStore, TableFiles
from txlog.errors import TxlogError

_SMALL_BYTES = 1 << 20
KEPT_BYTES = 32 << 20
"""The maximum total bytes of files in memory; further files are opened each time."""
REQUESTS_AT_ONCE = 64


class FilesOpenedOnce:
    """Implements ``TableFiles`` for one operation, which keeps the files that it has opened. Thread-safe."""

    def __init__(self, store: TableFiles) -> None:
        self.uri = store.uri
        self.has_cheap_calls = store.has_cheap_calls
        self._opened = _OpenedOnce(store.files)
        self.files = cast(FileStore, self._opened)

    def bodies(self, paths: Sequence[str], at_once: int) -> Mapping[str, pa.Buffer]:
        """These small files, up to one that cannot be read: who opens it explains its error."""
        return self._opened.bodies(paths, at_once)

    @contextlib.contextmanager
    def holding(self, bodies: Mapping[str, pa.Buffer]) -> Iterator[None]:
        """Opening these files takes no request meanwhile."""
        self._opened.ahead.update(bodies)
        try:
            yield
        finally:
            for path in bodies:
                self._opened.ahead.pop(path, None)

    def keep(self, path: str) -> None:
        """Keep a file that is held, if there is room."""
        self._opened.keep(path)


class _OpenedOnce:
    """A ``FileStore`` that differs only in `open`."""

    def __init__(self, files: FileStore) -> None:
        self._files = files
        self._lock = new_lock()
        self._kept: dict[str, pa.Buffer] = {}
        self._room_bytes = KEPT_BYTES
        self.ahead: dict[str, pa.Buffer] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def open(self, path: str) -> Any:
        found = self._body(path)
        if found is not None:
            return pa.BufferReader(found)
        source = self._files.open(path)
        size_bytes = source.size()
        if size_bytes > _SMALL_BYTES or not self._has_room(size_bytes):
            return source
        with source:
            body = self._kept[path] = source.read_buffer(size_bytes)
        return pa.BufferReader(body)

    def bodies(self, paths: Sequence[str], at_once: int) -> Mapping[str, pa.Buffer]:
        found: dict[str, pa.Buffer] = {}
        with contextlib.suppress(TxlogError, OSError, pa.ArrowException):
            for path, body in zip(paths, parallel_map(self._read, paths, threads=at_once), strict=True):
                if body is not None:
                    found[path] = body
        return found

    def keep(self, path: str) -> None:
        body = self.ahead.get(path)
        if body is not None and path not in self._kept and self._has_room(body.size):
            self._kept[path] = body

    def _body(self, path: str) -> pa.Buffer | None:
        found = self._kept.get(path)
        return self.ahead.get(path) if found is None else found

    def _read(self, path: str) -> pa.Buffer | None:
        found = self._body(path)
        if found is not None:
            return found
        with self._files.open(path) as source:
            size_bytes = source.size()
            return source.read_buffer(size_bytes) if size_bytes <= _SMALL_BYTES else None

    def _has_room(self, size_bytes: int) -> bool:
        with self._lock:
            if size_bytes > self._room_bytes:
                return False
            self._room_bytes -= size_bytes
            return True
