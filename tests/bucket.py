"""A table in an object store in memory, whose requests are counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

import txlog
from tests.round_trips import RoundTrips
from txlog.core.definition import create_table
from txlog.core.store import ObjectMeta, TableStore
from txlog.core.store._base import OBJECT_STORE
from txlog.core.versions import OpenTable
from txlog.errors import StorageError
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore

__all__ = ["ROW", "Bucket", "BucketFiles", "BucketLog", "rows"]

ROW = pa.table({"id": pa.array([1], pa.int64())})


def rows(first: int, end: int) -> pa.Table:
    return pa.table({"id": pa.array(range(first, end), pa.int64())})


class BucketLog(MemoryLogStore):
    capabilities = OBJECT_STORE
    fails_to_read: str | None = None
    before_read: Callable[[str], None] | None = None

    def read(self, name: str) -> bytes:
        if self.before_read is not None:
            self.before_read(name)
        if name == self.fails_to_read:
            raise StorageError("could not read", path=name)
        return super().read(name)


class BucketFiles(MemoryFileStore):
    needs_read_back = False
    part_bytes = 8 << 20

    def __init__(self, log: BucketLog) -> None:
        super().__init__()
        self.log = log
        self.after_write: list[Callable[[], Any]] = []

    def open(self, path: str) -> Any:
        """As on a real store, the log is a folder of the table, and one request brings the end of a file."""
        folder, _, name = path.partition("/")
        return pa.BufferReader(self.log.objects[name][0]) if folder == "_delta_log" else super().open(path)

    def write(self, path: str, body: Any) -> ObjectMeta:
        written = super().write(path, body)
        while self.after_write:
            self.after_write.pop()()
        return written


class Bucket:
    """A table in an object store. Each handle on it is as another process has it."""

    def __init__(
        self,
        commits: int = 0,
        *,
        has_checksums: bool = True,
        of: Callable[[int], pa.Table] = lambda commit: ROW,
        properties: Mapping[str, str] | None = None,
        schema: pa.Schema = ROW.schema,
        partition_by: Sequence[str] = (),
    ) -> None:
        self.trips = RoundTrips()
        self.log = BucketLog()
        self.files = BucketFiles(self.log)
        self.folders = {name: BucketLog() for name in ("staging", "named_versions", "iceberg", "waiting")}
        create_table(OpenTable(self.store), schema, partition_by, dict(properties or {}))
        for commit in range(commits):
            table = self.opened()
            table.append(of(commit))
            table._open_table.post_commit.drain()
        if not has_checksums:
            for name in [name for name in self.log.objects if name.endswith(".crc")]:
                self.log.delete(name)

    @property
    def store(self) -> TableStore:
        return TableStore("memory:///t", self.log, self.files, **self.folders)

    def opened(self) -> txlog.Table:
        """As `Table.open` makes it."""
        open_table = OpenTable(self.trips.watched(self.store))
        open_table.log.newest_state()
        return txlog.Table(open_table)

    def trips_of(self, work: Callable[[], object]) -> int:
        with self.trips.of():
            work()
            return self.trips.count

    def rows(self) -> int:
        return self.opened().snapshot().count()

    def orphans(self) -> set[str]:
        return set(self.files.objects) - set(self.opened().snapshot().files()["path"].to_pylist())
