"""How many round trips to an object store each operation waits for, one after another; and what runs beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import txlog
from tests.round_trips import RoundTrips
from txlog.commands.create_table import create_table
from txlog.commit.open_table import OpenTable
from txlog.errors import SchemaMismatchError, StorageError
from txlog.store.base import ObjectMeta, TableStore
from txlog.store.capabilities import OBJECT_STORE
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore

ROW = pa.table({"id": pa.array([1], pa.int64())})
WITH_NAME = pa.table({"id": pa.array([2], pa.int64()), "name": ["a"]})
ADD_NAME = {"name": pa.string()}


class BucketLog(MemoryLogStore):
    capabilities = OBJECT_STORE
    fails_to_read: str | None = None

    def read(self, name: str) -> bytes:
        if name == self.fails_to_read:
            raise StorageError("could not read", path=name)
        return super().read(name)


class BucketFiles(MemoryFileStore):
    needs_read_back = False

    def __init__(self) -> None:
        super().__init__()
        self.after_write: list[Callable[[], Any]] = []

    def write(self, path: str, body: Any) -> ObjectMeta:
        written = super().write(path, body)
        while self.after_write:
            self.after_write.pop()()
        return written


class Bucket:
    """A table in an object store. Each handle on it is as another process has it."""

    def __init__(self, commits: int = 0) -> None:
        self.trips = RoundTrips()
        self.log, self.files = BucketLog(), BucketFiles()
        create_table(OpenTable(self.store), ROW.schema, (), {})
        for _ in range(commits):
            self.handle().append(ROW)

    @property
    def store(self) -> TableStore:
        return TableStore("memory:///t", self.log, self.files)

    def handle(self) -> txlog.Table:
        """A handle that has made a commit."""
        open_table = OpenTable(self.trips.watched(self.store))
        open_table.log.newest_state()
        return txlog.Table(open_table)

    def trips_of(self, work: Callable[[], object]) -> int:
        with self.trips.of():
            work()
            return self.trips.count

    def rows(self) -> int:
        return self.handle().snapshot().count()

    def orphans(self) -> set[str]:
        return set(self.files.objects) - set(self.handle().snapshot().files()["path"].to_pylist())


def test_an_append_waits_for_its_data_file_and_for_its_commit() -> None:
    bucket = Bucket()
    table = bucket.handle()
    table.append(ROW)
    assert bucket.trips_of(lambda: table.append(ROW)) == 2
    assert [(trip, name) for trip, name, _ in sorted(bucket.trips.requests)] == [
        (1, "read"),  # whether there is a newer version
        (1, "write"),
        (2, "put_if_absent"),
    ]


def test_the_first_append_of_a_handle_also_checks_the_store_in_the_meantime() -> None:
    bucket = Bucket()
    table = bucket.handle()
    assert bucket.trips_of(lambda: table.append(ROW)) == 3


def test_an_append_that_lost_a_race_waits_for_two_more_round_trips() -> None:
    bucket = Bucket()
    table, rival = bucket.handle(), txlog.Table(OpenTable(bucket.store))
    table.append(ROW)
    bucket.files.after_write.append(lambda: rival.append(ROW))
    assert bucket.trips_of(lambda: table.append(ROW)) == 2 + 2
    assert bucket.rows() == 3


@pytest.mark.parametrize("rows", [ROW, WITH_NAME], ids=["of the old columns", "of the new columns"])
def test_rows_are_written_again_where_the_table_was_given_another_column_meanwhile(rows: pa.Table) -> None:
    bucket = Bucket(commits=1)
    table = bucket.handle()
    bucket.handle().add_columns(ADD_NAME)
    result = table.append(rows)
    assert (result.version, result.attempts) == (3, 1)
    assert bucket.handle().snapshot().to_arrow().num_rows == 2
    assert table.snapshot().to_arrow(columns=["name"])["name"].to_pylist() == [
        None,
        *(rows.to_pydict().get("name", [None])),
    ]
    assert bucket.orphans() == set()


def test_rows_that_fit_no_version_of_the_table_are_refused_as_ever() -> None:
    bucket = Bucket()
    with pytest.raises(SchemaMismatchError, match="name"):
        bucket.handle().append(WITH_NAME)
    assert bucket.orphans() == set()


def test_a_look_that_fails_leaves_no_version_and_no_file() -> None:
    bucket = Bucket(commits=1)
    table = bucket.handle()
    table.append(ROW)
    bucket.log.fails_to_read = f"{3:020}.json"
    with pytest.raises(StorageError, match="could not read"):
        table.append(ROW)
    bucket.log.fails_to_read = None
    assert bucket.rows() == 2
    assert bucket.orphans() == set()


def test_rows_that_can_be_read_only_once_are_not_read_before_the_newest_version_is_known() -> None:
    bucket = Bucket(commits=1)
    table = bucket.handle()
    bucket.handle().add_columns(ADD_NAME)
    table.append(WITH_NAME.to_reader())
    assert bucket.rows() == 2
