"""Writers at once, threads and rivals that come in between: what goes through and what is a conflict."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from small_table import SCHEMA, ids_of, rows_of

import txlog
from tests.writes import write_batch
from txlog.core.operations import WriteOptions
from txlog.core.versions import OpenTable
from txlog.table import Table


@pytest.fixture
def table_in_memory(open_handle: Callable[..., OpenTable]) -> Callable[[], Table]:
    """Handles on one table in memory, which the first of them creates."""
    open_table = open_handle()
    write_batch(open_table, rows_of(1), WriteOptions(create=True))
    return lambda: Table(open_handle())


def test_one_handle_serves_many_threads(table_in_memory: Callable[[], Table]) -> None:
    table = table_in_memory()
    versions: list[int | None] = []

    def append(worker: int) -> None:
        versions.extend(table.append(rows_of(worker * 100 + number)).version for number in range(20))

    threads = [threading.Thread(target=append, args=(worker,)) for worker in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(versions) == 160
    assert {*versions} == {*range(1, table.version + 1)}, "appends at the same time may share a version"
    expected = [1, *(worker * 100 + number for worker in range(1, 9) for number in range(20))]
    assert ids_of(table) == expected
    assert ids_of(table_in_memory()) == expected


def test_writers_that_all_find_no_table_make_one_of_it(open_handle: Callable[..., OpenTable]) -> None:
    barrier = threading.Barrier(6)
    outcomes: list[tuple[int | None, str]] = []

    def first_write(number: int) -> None:
        open_table = open_handle()
        options = WriteOptions(create=True, partition_by=["day"])

        def rows() -> Iterator[pa.RecordBatch]:
            yield from rows_of(number).to_batches()
            barrier.wait()  # all of them are planned on "there is no table" by now

        result = write_batch(open_table, rows(), options)
        outcomes.append((result.version, result.outcome))

    threads = [threading.Thread(target=first_write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [(version, "committed") for version in range(6)]
    assert ids_of(Table(open_handle())) == list(range(6))


@pytest.mark.parametrize(
    ("schema", "properties", "error"),
    [
        (pa.schema([("id", pa.string())]), {}, txlog.ProtocolChangedError),
        (SCHEMA, {"delta.appendOnly": "true"}, None),
    ],
)
def test_a_first_write_that_finds_another_table_in_its_place_is_a_conflict(
    schema: pa.Schema, properties: dict[str, str], error: type[Exception] | None, tmp_path: Path
) -> None:
    def rows_with_a_rival() -> Iterator[pa.RecordBatch]:
        yield from rows_of(1).to_batches()
        Table.create(tmp_path / "t", schema, properties=properties)

    if error is not None:
        with pytest.raises(error):
            txlog.write(tmp_path / "t", rows_with_a_rival())
        assert Table.open(tmp_path / "t").snapshot().version == 0
    else:
        assert txlog.write(tmp_path / "t", rows_with_a_rival()).version == 1


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_a_table_that_appears_during_a_first_write_is_respected(mode: str, tmp_path: Path) -> None:
    def rows_with_a_rival() -> Iterator[pa.RecordBatch]:
        yield from rows_of(1).to_batches()
        txlog.write(tmp_path / "t", rows_of(2))

    if mode == "error":
        with pytest.raises(txlog.TableExistsError):
            txlog.write(tmp_path / "t", rows_with_a_rival(), mode=mode)
    else:
        assert txlog.write(tmp_path / "t", rows_with_a_rival(), mode=mode).outcome == "ignored"
    assert ids_of(Table.open(tmp_path / "t")) == [2]


def test_an_append_succeeds_alongside_an_overwrite_and_a_delete(tmp_path: Path) -> None:
    """A blind append reads nothing, so what other commits remove is no concern of its."""
    path = tmp_path / "t"
    txlog.write(path, rows_of(1))

    def rows_with_a_rival() -> Iterator[pa.RecordBatch]:
        yield from rows_of(2).to_batches()
        Table.open(path).overwrite(rows_of(3))
        deltalake.DeltaTable(str(path)).delete("id = 3")

    assert Table.open(path).append(rows_with_a_rival()).version == 3
    assert ids_of(Table.open(path)) == [2]


def test_an_append_during_an_overwrite_survives_it_by_the_tables_isolation(tmp_path: Path) -> None:
    """WriteSerializable, the default: the append counts as if it came after the overwrite."""
    path = tmp_path / "t"
    txlog.write(path, rows_of(1))

    def rows_with_a_rival() -> Iterator[pa.RecordBatch]:
        yield from rows_of(2).to_batches()
        Table.open(path).append(rows_of(3))

    result = Table.open(path).overwrite(rows_with_a_rival())
    assert result.metrics.lost_races >= 0
    assert ids_of(Table.open(path)) == [2, 3]


def test_an_append_during_an_overwrite_of_a_serializable_table_is_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "t"
    txlog.write(path, rows_of(1), properties={"delta.isolationLevel": "Serializable"})

    def rows_with_a_rival() -> Iterator[pa.RecordBatch]:
        yield from rows_of(2).to_batches()
        Table.open(path).append(rows_of(3))

    with pytest.raises(txlog.ConcurrentAppendError, match="v1"):
        Table.open(path).overwrite(rows_with_a_rival())
    assert ids_of(Table.open(path)) == [1, 3]


def test_two_concurrent_overwrites_are_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "t"
    txlog.write(path, rows_of(1))

    def rows_with_a_rival() -> Iterator[pa.RecordBatch]:
        yield from rows_of(2).to_batches()
        Table.open(path).overwrite(rows_of(3))

    with pytest.raises(txlog.ConflictError) as caught:
        Table.open(path).overwrite(rows_with_a_rival())
    assert caught.value.winner_version == 1
    assert ids_of(Table.open(path)) == [3]


def test_a_schema_change_during_an_append_is_a_conflict_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "t"
    txlog.write(path, rows_of(1))

    def rows_with_a_rival() -> Iterator[pa.RecordBatch]:
        yield from rows_of(2).to_batches()
        Table.open(path).add_columns(pa.schema([("new", pa.int8())]))

    with pytest.raises(txlog.MetadataChangedError) as caught:
        Table.open(path).append(rows_with_a_rival())
    assert (caught.value.winner_version, caught.value.winner_operation) == (1, "ADD COLUMNS")
    assert Table.open(path).append(rows_of(2)).version == 2
