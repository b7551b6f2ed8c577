"""Small data files that one operation opens more than once: to look up rows, to count them, to copy them.

In: the files of a table whose store takes a request for each call. Out: the same files; small ones are read as a whole
when first opened. Data files are immutable.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pyarrow as pa

from txlog.core.parallel import new_lock
from txlog.core.store import FileStore, TableFiles

_SMALL_BYTES = 1 << 20
_KEPT_BYTES = 32 << 20
"""The maximum total bytes of files in memory; further files are opened each time."""


class _FilesOpenedOnce(msgspec.Struct, frozen=True):
    """Implements ``TableFiles``."""

    uri: str
    files: FileStore
    has_cheap_calls: bool


def opened_once(store: TableFiles) -> TableFiles:
    """The same files for one operation, which keeps the files that it has opened. Thread-safe."""
    return _FilesOpenedOnce(store.uri, cast(FileStore, _OpenedOnce(store.files)), store.has_cheap_calls)


class _OpenedOnce:
    """A ``FileStore`` that differs only in `open`."""

    def __init__(self, files: FileStore) -> None:
        self._files = files
        self._lock = new_lock()
        self._kept: dict[str, pa.Buffer] = {}
        self._room_bytes = _KEPT_BYTES

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def open(self, path: str) -> Any:
        found = self._kept.get(path)
        if found is not None:
            return pa.BufferReader(found)
        source = self._files.open(path)
        size_bytes = source.size()
        if size_bytes > _SMALL_BYTES or not self._has_room(size_bytes):
            return source
        with source:
            body = self._kept[path] = source.read_buffer(size_bytes)
        return pa.BufferReader(body)

    def _has_room(self, size_bytes: int) -> bool:
        with self._lock:
            if size_bytes > self._room_bytes:
                return False
            self._room_bytes -= size_bytes
            return True
