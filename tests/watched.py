"""A table in memory whose reads and writes of data files are noted, for tests of what a handle knows of keys."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from txlog.core.definition import create_table
from txlog.core.format.actions import AddFile
from txlog.core.format.file_columns import add_files_of
from txlog.core.store import TableStore
from txlog.core.versions import OpenTable
from txlog.testing.faults import FaultyFileStore
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore

VECTORS = {"delta.enableDeletionVectors": "true"}
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("v", pa.int64())])
KEYS = pytest.mark.parametrize("keys", [["id"], ["name"], ["id", "name"]], ids=lambda keys: "+".join(keys))


class Watched:
    """A table in memory, and two handles on it: what the first reads and writes of its files is noted."""

    def __init__(self, *, key_cache_size: int | None = None, partition_by: list[str] | None = None) -> None:
        log, files = MemoryLogStore(), MemoryFileStore()
        self.files = FaultyFileStore(files)
        self.others = txlog.Table(OpenTable(TableStore("memory://table", log, files)))
        watched = OpenTable(TableStore("memory://table", log, self.files), key_cache_size_bytes=key_cache_size)
        create_table(watched, SCHEMA, partition_by or [], VECTORS)
        self.log = log
        self.open_table = watched
        self.table = txlog.Table(watched)

    def read_by(self, work: Any) -> set[str]:
        """The data files and files of vectors that ``work`` reads, those apart that it wrote itself."""
        self.files.calls.clear()
        work()
        written = {name for operation, name in self.files.calls if operation == "create"}
        return {name for operation, name in self.files.calls if operation == "open"} - written

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted((tuple(row.values()) for row in self.others.snapshot().to_arrow().to_pylist()), key=repr)

    def adds(self) -> list[AddFile]:
        return add_files_of(self.open_table.log.files(self.open_table.log.newest_state()))


def rows(*ids: int, v: int = 0) -> pa.Table:
    return pa.Table.from_pylist([{"id": each, "name": f"name {each}", "v": v} for each in ids], SCHEMA)


def values(watched: Watched) -> dict[int, int]:
    found = watched.rows()
    assert len({row[0] for row in found}) == len(found), "each key once"
    return {row[0]: row[2] for row in found}


def noted_reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Gets the columns of each read of a data file."""
    read: list[tuple[str, ...]] = []
    iter_batches, read_whole = pq.ParquetFile.iter_batches, pq.ParquetFile.read

    def noted(self: Any, rows: int, groups: Any, columns: list[str], **options: Any) -> Any:
        read.append(tuple(columns))
        return iter_batches(self, rows, groups, columns, **options)

    def noted_whole(self: Any, columns: list[str], **options: Any) -> Any:
        read.append(tuple(columns))
        return read_whole(self, columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", noted)
    monkeypatch.setattr(pq.ParquetFile, "read", noted_whole)
    return read
