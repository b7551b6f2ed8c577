"""`Rows`, which `Table.changes` and `Table.diff_rows` return: every value as it is in the table, in each library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import txlog
from txlog.core.reading import Rows
from txlog.errors import CorruptLogError, InvalidInputError

BIG = 2**60 + 1
READS: dict[str, Callable[[txlog.Table], Rows]] = {
    "changes": lambda table: table.changes(1, columns=["id", "note"]),
    "diff_rows": lambda table: table.diff_rows(0, columns=["id", "note"]),
}


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    table = txlog.Table.create(tmp_path, "id bigint, note string", properties={"delta.enableChangeDataFeed": "true"})
    table.append(pa.table({"id": pa.array([BIG, None], pa.int64()), "note": ["a", "b"]}))
    return table


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_big_integer_beside_a_null_reaches_pandas_as_it_is(
    table: txlog.Table, read: Callable[[txlog.Table], Rows]
) -> None:
    ids = read(table).to_pandas().sort_values("note")["id"]
    assert int(ids.iloc[0]) == BIG
    assert ids.isna().tolist() == [False, True]
    assert read(table).to_pandas(dtype_backend="pyarrow").dtypes["id"] == "int64[pyarrow]"


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_rows_go_to_other_libraries_and_print_as_a_table(
    table: txlog.Table, read: Callable[[txlog.Table], Rows]
) -> None:
    rows = read(table)
    assert rows.schema.names[:3] == ["id", "note", "_change_type"]
    assert [line.split()[:2] for line in repr(rows).splitlines()[:2]] == [["id", "note"], [str(BIG), "a"]]
    assert ">null</td>" in rows._repr_html_()
    assert rows.read_all()["note"].to_pylist() == rows.to_polars()["note"].to_list() == ["a", "b"]
    assert pl.DataFrame(read(table))["id"].to_list() == [BIG, None]
    assert duckdb.from_arrow(read(table)).max("id").fetchall() == [(BIG,)]
    looped = read(table)
    assert pa.Table.from_batches(looped, looped.schema)["id"].to_pylist() == [BIG, None]
    with pytest.raises(InvalidInputError, match="read as a stream, which ends with the last of them: ask for them"):
        looped.to_pandas()


@pytest.mark.parametrize("name", ["read_pandas", "read_next_batch", "to_pylist"])
def test_what_a_pyarrow_reader_has_is_answered_with_what_to_use(table: txlog.Table, name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"a Rows has no {name}: use rows"):
        getattr(table.changes(1), name)


def test_a_damaged_file_behind_rows_that_are_written_elsewhere_keeps_its_error(tmp_path: Path) -> None:
    def damaged() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [1]})
        raise CorruptLogError("the file part-0.parquet is damaged", table="t")

    copy = txlog.Table.create(tmp_path / "copy", "id bigint")
    rows = Rows(pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), damaged()))
    with pytest.raises(CorruptLogError, match=r"part-0\.parquet is damaged"):
        copy.append(rows)
