"""Rows of files that are too large for short cuts: text that lies in dictionaries, several row groups, many batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import txlog
from tests.other_writers import commit_files
from txlog.core.format.arrow.parquet_footer import check_footer, indexed_columns, read_footer

ROWS = 150_000
MODES = pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    random = np.random.default_rng(5)
    words = pa.array([None, "", *(f"word {number:04}" for number in range(3_000))])
    few = words.take(pa.array(random.integers(0, len(words), ROWS)))
    many = pa.array([f"{number:x}" for number in random.integers(0, 2**40, ROWS).tolist()])
    return pa.table(
        {
            "id": np.arange(ROWS),
            "few": few,
            "bytes": few.cast(pa.binary()),
            "many": many,
            # In the end there are so many different ones that the writer gives up its dictionary.
            "mixed": pa.chunked_array([few.slice(0, ROWS // 2), many.slice(ROWS // 2)]),
            "inside": pa.StructArray.from_arrays([few], names=["few"]),
        }
    )


@pytest.fixture
def table(tmp_path: Path, rows: pa.Table) -> txlog.Table:
    table = txlog.Table.create(tmp_path / "t", rows.schema, properties={"delta.enableDeletionVectors": "true"})
    pq.write_table(rows, tmp_path / "t" / "a.parquet", row_group_size=60_000, dictionary_pagesize_limit=64 << 10)
    commit_files(table, "a.parquet")
    return table


def found(table: txlog.Table) -> pa.Table:
    return table.snapshot().to_arrow().sort_by("id").combine_chunks()


@MODES
def test_rows_that_stay_keep_their_values(table: txlog.Table, rows: pa.Table, mode: Any) -> None:
    table.delete("id % 7 = 3", row_mode=mode)
    left = rows.filter(pa.array(np.arange(ROWS) % 7 != 3))
    assert found(table).equals(left.combine_chunks())


@MODES
def test_rows_that_are_updated_keep_their_other_values(table: txlog.Table, rows: pa.Table, mode: Any) -> None:
    table.update({"many": txlog.expr("concat(few, '!')")}, "id % 1000 = 7", row_mode=mode)
    is_changed = pa.array(np.arange(ROWS) % 1_000 == 7)
    changed = pc.if_else(is_changed, pc.binary_join_element_wise(rows["few"], "!", ""), rows["many"])
    assert found(table).equals(rows.set_column(3, "many", changed).combine_chunks())


def test_a_copy_lacks_the_values_of_deleted_rows(table: txlog.Table, tmp_path: Path) -> None:
    table.delete("few = 'word 0017'", row_mode="copy-on-write")
    (path,) = table.snapshot().files().column("path").to_pylist()
    assert pq.read_table(tmp_path / "t" / path).num_rows < ROWS
    values = pc.unique(pq.read_table(tmp_path / "t" / path, read_dictionary=["few"])["few"].chunk(0).dictionary)
    assert "word 0017" not in values.to_pylist()


def test_columns_that_are_only_dictionaries_are_recognized_by_their_sizes(table: txlog.Table, tmp_path: Path) -> None:
    with pa.OSFile(str(tmp_path / "t" / "a.parquet")) as file:
        footer = read_footer(file)
    metadata = pq.ParquetFile(pa.BufferReader(footer)).metadata
    check_footer(footer, metadata)
    assert indexed_columns(metadata, {"few", "bytes", "many", "mixed"}) == ["few", "bytes"]
