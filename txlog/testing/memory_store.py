"""A table in memory: the reference implementation of the store contract, linearizable under one lock.

In and out: as in any store, without delay. The schedule explorer and the fault injector wrap these stores. They also
model power cuts: a name is visible as soon as it is linked, and survives a power cut once it is synced.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from txlog.core import ambient
from txlog.core.store import LogCapabilities, ObjectMeta, OnLink, PutOutcome, SkipFolder, TableStore, folders_above
from txlog.errors import NotFoundError, StorageError

__all__ = ["MemoryFileStore", "MemoryLogStore", "MemoryOutputFile", "memory_table_store"]

_LIST_PAGE = 1000
_IN_MEMORY = LogCapabilities(lists_completely=True, has_cheap_calls=True, refuses_taken_names=True, needs_sync=True)


class MemoryLogStore:
    """A `LogStore` over a dict.

    Attributes:
        objects: Name -> bytes and time in milliseconds; tests may read and damage it.
        durable: What a power cut would leave of ``objects``.
        before_sync: If set, it is called with the name after a put became visible and before it becomes durable. If it
            returns False, the sync fails.
        now_ms: The time that it gives new objects: by the caller's clock, unless the store has its own.
    """

    capabilities = _IN_MEMORY

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.durable: dict[str, tuple[bytes, int]] = {}
        self.before_sync: Callable[[str], bool] | None = None
        self.now_ms: Callable[[], int] = ambient.now_ms

    def list_from(self, start: str) -> list[ObjectMeta]:
        with self.lock:
            folder = start.rpartition("/")[0]
            names = sorted(name for name in self.objects if name >= start and name.rpartition("/")[0] == folder)
            return [self._meta(name) for name in names if not name.startswith(".")]

    def read(self, name: str) -> bytes:
        with self.lock:
            self._require(name)
            return self.objects[name][0]

    def stat(self, name: str) -> ObjectMeta:
        with self.lock:
            self._require(name)
            return self._meta(name)

    def put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        with self.lock:
            if _check(name) in self.objects:
                return PutOutcome.ALREADY_EXISTS
            linked = self.objects[name] = (bytes(body), self.now_ms())
        if self.before_sync is not None and not self.before_sync(name):
            return PutOutcome.NOT_DURABLE
        with self.lock:
            self.durable[name] = linked
        return PutOutcome.WRITTEN

    def put(self, name: str, body: bytes | memoryview) -> None:
        with self.lock:
            self.objects[name] = (bytes(body), self.now_ms())

    def delete(self, name: str) -> None:
        with self.lock:
            self.objects.pop(name, None)

    def remove_stale_temporaries(self, *, dry_run: bool = False) -> list[ObjectMeta]:
        return []

    def make_durable(self, name: str) -> None:
        with self.lock:
            self._require(name)
            self.durable[name] = self.objects[name]

    def unsafe(self) -> list[str]:
        """The names that a power cut would change: it may restore old or deleted bytes, or remove the name."""
        return [
            name
            for name in self.objects.keys() | self.durable.keys()
            if self.objects.get(name) is not self.durable.get(name) and self.objects.get(name) != self.durable.get(name)
        ]

    def power_cut(self, surviving: Collection[str] = ()) -> None:
        """Lose every unsynced change, except for the names in ``surviving``, which reached the disk."""
        with self.lock:
            left = {name: found for name, found in self.durable.items() if name not in surviving}
            left |= {name: self.objects[name] for name in surviving if name in self.objects}
            self.objects, self.durable = left, dict(left)

    def round_trip_s(self) -> float:
        return 0.0001

    def _require(self, name: str) -> None:
        if _check(name) not in self.objects:
            raise NotFoundError(f"{name} does not exist", path=name)

    def _meta(self, name: str) -> ObjectMeta:
        body, modified_ms = self.objects[name]
        return ObjectMeta(name=name, size=len(body), modified_ms=modified_ms)


class MemoryFileStore:
    """A `FileStore` over a dict.

    Attributes:
        objects: Path -> bytes and time in milliseconds.
        durable: The paths for which `make_durable` was called after publishing.
        unsynced: The paths written by another program: they become durable only ``with_contents``.
    """

    part_bytes = 0
    needs_read_back = True

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.durable: set[str] = set()
        self.unsynced: set[str] = set()

    def create(self, path: str) -> MemoryOutputFile:
        with self.lock:
            if _check(path) in self.objects:
                raise StorageError(f"{path} already exists; nothing was written", path=path)
        return MemoryOutputFile(self, path)

    def write(self, path: str, body: pa.Buffer | bytes) -> ObjectMeta:
        output = self.create(path)
        output.sink.write(body)
        return output.publish()

    def replace(self, path: str, body: bytes) -> None:
        with self.lock:
            self.objects[_check(path)] = (body, ambient.now_ms())

    def read_from(self, path: str, start: int) -> bytes:
        return self.read(path)[start:]

    def open(self, path: str) -> Any:
        return pa.BufferReader(self.read(path))

    def read(self, path: str) -> bytes:
        """The bytes of a published file.

        Raises:
            NotFoundError: There is no such file.
        """
        with self.lock:
            if _check(path) not in self.objects:
                raise NotFoundError(f"{path} does not exist", path=path)
            return self.objects[path][0]

    def stat(self, path: str) -> ObjectMeta:
        body = self.read(path)
        return ObjectMeta(name=path, size=len(body), modified_ms=self.objects[path][1])

    def list(
        self,
        folder: str = "",
        *,
        skip: SkipFolder | None = None,
        on_link: OnLink | None = None,
        start_after: str | None = None,
    ) -> Iterator[Sequence[ObjectMeta]]:
        prefix, after = f"{_check(folder)}/" if folder else "", start_after or ""
        with self.lock:
            found = [
                ObjectMeta(name=path, size=len(body), modified_ms=modified_ms)
                for path, (body, modified_ms) in sorted(self.objects.items())
                if path.startswith(prefix)
                and path > after
                and not (skip and any(map(skip, folders_above(path, folder))))
            ]
        yield from (found[at : at + _LIST_PAGE] for at in range(0, len(found), _LIST_PAGE))

    def make_durable(self, paths: Iterable[str], *, with_contents: bool = False) -> None:
        with self.lock:
            for path in paths:
                self.read(path)
                if with_contents:
                    self.unsynced.discard(path)
                if path not in self.unsynced:
                    self.durable.add(path)

    def delete(self, path: str) -> None:
        with self.lock:
            self.objects.pop(_check(path), None)
            self.durable.discard(path)

    def delete_many(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def publish(self, path: str, body: bytes) -> ObjectMeta:
        """Give a finished file its final name.

        Raises:
            StorageError: The name is taken.
        """
        with self.lock:
            if path in self.objects:
                raise StorageError(f"{path} already exists; nothing was written", path=path)
            self.objects[path] = (body, ambient.now_ms())
            return self.stat(path)


class MemoryOutputFile:
    """A data file in progress, invisible until `publish`."""

    def __init__(self, files: MemoryFileStore, path: str) -> None:
        self._files = files
        self._path = path
        self._sink = pa.BufferOutputStream()

    @property
    def sink(self) -> Any:
        return self._sink

    def publish(self) -> ObjectMeta:
        return self._files.publish(self._path, self._sink.getvalue().to_pybytes())

    def abort(self) -> None:
        if not self._sink.closed:
            self._sink.close()


def memory_table_store(uri: str = "memory://table") -> TableStore:
    """An empty table in memory. Pass the same object to several writers to let them race."""
    return TableStore(
        uri,
        MemoryLogStore(),
        MemoryFileStore(),
        MemoryLogStore(),
        named_versions=MemoryLogStore(),
        iceberg=MemoryLogStore(),
    )


@lru_cache(maxsize=4096)  # the explorer checks the same few names a million times
def _check(path: str) -> str:
    if "\0" in path or any(segment in ("", ".", "..") for segment in path.split("/")) or path.startswith("."):
        raise StorageError(f"{path!r} is not a plain relative path; nothing was changed", path=path)
    return path
