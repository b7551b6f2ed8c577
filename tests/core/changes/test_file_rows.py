"""Rows that come out of data files for row changes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from txlog.core.changes.tasks import _file_rows as file_rows
from txlog.core.changes.tasks import _row_work as row_work
from txlog.core.changes.tasks._file_rows import plain_parts
from txlog.core.reading import _scan_task as scan_task

VECTORS = {"delta.enableDeletionVectors": "true"}


def test_long_text_that_a_dictionary_holds_once_is_given_in_parts() -> None:
    words = ["x" * 1000, "y" * 10, None]
    batch = pa.record_batch(
        {
            "id": pa.array(range(100), pa.int64()),
            "text": pa.array([words[number % 3] for number in range(100)]).dictionary_encode(),
        }
    )
    positions = np.arange(100, dtype=np.int64) * 2
    parts = list(plain_parts(positions, batch, part_bytes=8_000))
    assert len(parts) > 4
    assert all(part.column("text").nbytes < 9_000 for _, part in parts)
    assert np.array_equal(np.concatenate([here for here, _ in parts]), positions)
    whole = pa.Table.from_batches([part for _, part in parts])
    assert whole.schema.types == [pa.int64(), pa.string()]
    assert whole.to_pylist() == pa.Table.from_batches([batch]).to_pylist()


def test_text_that_fits_comes_in_one_piece() -> None:
    batch = pa.record_batch({"text": pa.array(["a", None, "a"]).dictionary_encode()})
    ((positions, part),) = plain_parts(np.arange(3, dtype=np.uint64), batch)
    assert positions.tolist() == [0, 1, 2]
    assert part.column("text").to_pylist() == ["a", None, "a"]


@pytest.mark.parametrize(("processors", "files", "uses_threads"), [(2, 2, False), (2, 1, True), (16, 2, True)], ids=str)
def test_keys_are_read_in_few_rows_at_a_time_by_as_many_threads_as_there_are_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processors: int, files: int, uses_threads: bool
) -> None:
    for module in (row_work, scan_task):
        monkeypatch.setattr(module, "SMALL_BYTES", 0)
    monkeypatch.setattr(file_rows, "LOOKED_INTO_ROWS", 100)
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    table = txlog.Table.create(tmp_path, pa.schema([("a", pa.int64()), ("b", pa.int64())]), properties=VECTORS)
    for number in range(files):
        table.append(pa.table({"a": range(1_000), "b": [number] * 1_000}))
    seen: list[tuple[int, bool]] = []

    def noted(parquet: Any, rows: int, groups: Any, columns: Any, *, use_threads: bool) -> Any:
        seen.append((rows, use_threads))
        return read(parquet, rows, groups, columns, use_threads=use_threads)

    read = pq.ParquetFile.iter_batches
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", noted)
    done = table.upsert(pa.table({"a": [0, 7, 999, 5_000], "b": [0, 0, files - 1, 0]}), ["a", "b"])
    assert (done.metrics.rows_updated, done.metrics.rows_inserted) == (3, 1)
    assert {*seen} == {(100, uses_threads)}
