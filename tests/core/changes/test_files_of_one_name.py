"""A foreign writer removes a data file and adds another one under its name: what a handle knew of it does not count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

import txlog
from txlog.core.definition import create_table
from txlog.core.format.actions import AddFile
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.log_names import commit_name
from txlog.core.store import TableStore
from txlog.core.versions import OpenTable
from txlog.table import Table
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
OLD, NEW = (1, 2, 3, 40), (3, 45, 1, 60)
"""The ids of both files: 1 is at another position, 2 only in the old one, 45 only in the new one, 30 within both."""


class Swapped:
    """A table in memory, and a foreign writer that swaps one of its files for another of the same name and size."""

    def __init__(self, properties: dict[str, str]) -> None:
        self.log, self.files = MemoryLogStore(), MemoryFileStore()
        create_table(OpenTable(self.store), SCHEMA, [], properties)
        self.old = self.written(OLD, 1_000)
        self.commit({"add": self.old.to_json()})

    @property
    def store(self) -> TableStore:
        return TableStore("memory://table", self.log, self.files)

    @property
    def table(self) -> Table:
        return Table(OpenTable(self.store))

    def written(self, ids: Sequence[int], modified_ms: int) -> AddFile:
        sink = pa.BufferOutputStream()
        pq.write_table(
            pa.table({"id": ids, "v": [0] * len(ids)}, SCHEMA), sink, compression="none", use_dictionary=False
        )
        body = sink.getvalue().to_pybytes()
        self.files.objects["a.parquet"] = (body, modified_ms)
        stats = {"numRecords": len(ids), "minValues": {"id": min(ids)}, "maxValues": {"id": max(ids)}}
        return AddFile("a.parquet", {}, len(body), modified_ms, True, orjson.dumps(stats).decode())

    def commit(self, *actions: dict[str, Any]) -> None:
        lines = [{"commitInfo": {"operation": "WRITE"}}, *actions]
        version = max(int(name.split(".")[0]) for name in self.log.objects) + 1
        self.log.put_if_absent(commit_name(version), b"".join(orjson.dumps(line) + b"\n" for line in lines))

    def remove(self) -> None:
        (live,) = (add for add in self.adds() if add.path == "a.parquet")
        self.commit({"remove": live.removed(deletion_timestamp=5_000, data_change=True).to_json()})

    def bring(self, modified_ms: int) -> None:
        new = self.written(NEW, modified_ms)
        assert new.size == self.old.size
        self.commit({"add": new.to_json()})

    def adds(self) -> list[AddFile]:
        log = self.table._open_table.log
        return add_files_of(log.files(log.newest_state()))

    def values(self) -> dict[int, int]:
        found = self.table.to_arrow().to_pylist()
        assert len({row["id"] for row in found}) == len(found), "each key once"
        return {row["id"]: row["v"] for row in found}


def rows(*ids: int, v: int) -> pa.Table:
    return pa.table({"id": ids, "v": [v] * len(ids)}, SCHEMA)


@pytest.fixture(params=[{"delta.enableDeletionVectors": "true"}, {}], ids=["vectors", "copies"])
def swapped(request: pytest.FixtureRequest) -> Swapped:
    return Swapped(request.param)


def upsert(table: Table, data: pa.Table) -> None:
    table.upsert(data, ["id"])


def merge(table: Table, data: pa.Table) -> None:
    table.merge(data, ["id"]).when_matched_update_all().when_not_matched_insert_all().execute()


@pytest.mark.parametrize("change", [upsert, merge])
def test_a_removed_files_cached_keys_do_not_serve_a_later_file_of_its_name_and_size(
    swapped: Swapped, change: Callable[[Table, pa.Table], None]
) -> None:
    table = swapped.table
    for number in range(3):
        change(table, rows(30 + number, v=1))
    swapped.remove()
    swapped.bring(modified_ms=9_000)
    change(table, rows(1, 2, v=7))
    assert swapped.values() == {3: 0, 45: 0, 60: 0, 30: 1, 31: 1, 32: 1, 1: 7, 2: 7}


@pytest.mark.parametrize("change", [upsert, merge])
def test_cached_keys_of_a_file_that_left_the_table_do_not_count(
    swapped: Swapped, change: Callable[[Table, pa.Table], None]
) -> None:
    table = swapped.table
    for number in range(8):  # so that the file that leaves is a small part of what is cached
        table.append(rows(10 + number, *range(1_000 + 100 * number, 1_100 + 100 * number), v=1))
    for number in range(3):
        change(table, rows(30 + number, v=1))
    swapped.remove()
    change(table, rows(33, v=1))
    swapped.bring(modified_ms=swapped.old.modification_time)
    change(table, rows(1, 2, v=7))
    found = {each: v for each, v in swapped.values().items() if each in (*OLD, *NEW) or 30 <= each < 40}
    assert found == {3: 0, 45: 0, 60: 0, 30: 1, 31: 1, 32: 1, 33: 1, 1: 7, 2: 7}


@pytest.mark.parametrize("change", [upsert, merge])
def test_cached_keys_do_not_count_in_a_table_that_replaced_theirs(
    swapped: Swapped, change: Callable[[Table, pa.Table], None]
) -> None:
    """Like Spark's CREATE OR REPLACE TABLE: the log continues, with another table id."""
    table = swapped.table
    for number in range(3):
        change(table, rows(30 + number, v=1))
    swapped.remove()
    metadata = table._open_table.log.newest_state().metadata
    swapped.commit({"metaData": replace(metadata, id="another").to_json()})
    swapped.bring(modified_ms=swapped.old.modification_time)
    change(table, rows(1, 2, v=7))
    assert swapped.values() == {3: 0, 45: 0, 60: 0, 30: 1, 31: 1, 32: 1, 1: 7, 2: 7}


CHANGES: dict[str, tuple[Callable[[Table], Any], dict[int, int]]] = {
    "delete": (lambda t: t.delete("id in (1, 2)"), {3: 0, 45: 0, 60: 0}),
    "update": (lambda t: t.update({"v": txlog.expr("id + 10")}, "id in (1, 2)"), {3: 0, 45: 0, 60: 0, 1: 11}),
    "upsert": (lambda t: upsert(t, rows(1, 2, v=7)), {3: 0, 45: 0, 60: 0, 1: 7, 2: 7}),
    "merge": (lambda t: merge(t, rows(1, 2, v=7)), {3: 0, 45: 0, 60: 0, 1: 7, 2: 7}),
    "a delete whose statistics exclude the first file": (lambda t: t.delete("id in (45, 50)"), {3: 0, 1: 0, 60: 0}),
}


def losing_to_the_swap(swapped: Swapped) -> Table:
    """A handle whose first put comes after the foreign writer has swapped the file."""
    ours = swapped.table
    log = ours._open_table.store.log
    real = log.put_if_absent

    def put(name: str, body: bytes) -> Any:
        log.put_if_absent = real  # type: ignore[method-assign]
        swapped.remove()
        swapped.bring(modified_ms=9_000)
        return real(name, body)

    log.put_if_absent = put  # type: ignore[method-assign]
    return ours


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_after_a_lost_race_looks_again_into_a_file_with_a_reused_name(swapped: Swapped, change: str) -> None:
    do, expected = CHANGES[change]
    swapped.table.append(rows(50, v=1))
    do(losing_to_the_swap(swapped))
    assert {each: v for each, v in swapped.values().items() if each != 50} == expected


def test_a_compaction_after_a_lost_race_keeps_the_rows_of_a_file_with_a_reused_name(
    swapped: Swapped,
) -> None:
    swapped.table.append(rows(50, v=1))
    losing_to_the_swap(swapped).optimize()
    assert swapped.values() == {3: 0, 45: 0, 1: 0, 60: 0, 50: 1}
