"""One Parquet file of a checkpoint: how often it is opened, and what is read from it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from txlog.core.format.commit_file import DEFAULT_LIMITS
from txlog.core.versions.decisions.files import FILES_SCHEMA
from txlog.core.versions.files._checkpoint_parquet import CheckpointParquet

ADD = pa.struct([FILES_SCHEMA.field(name) for name in ("path", "size", "stats")])


def checkpoint_of(num_files: int, stats: str) -> bytes:
    rows = [
        {"path": f"part-{number}.parquet", "size": number, "stats": f"{stats}{number}"} for number in range(num_files)
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"add": pa.array(rows, ADD)}), sink, compression="none", use_dictionary=False)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize(("num_files", "stats", "opens"), [(20, "", 1), (2_000, "x" * 100, 3)], ids=["small", "large"])
def test_a_small_file_is_opened_once_and_a_large_one_for_each_read(num_files: int, stats: str, opens: int) -> None:
    body = checkpoint_of(num_files, stats)
    opened: list[Any] = []

    def open_source() -> pa.BufferReader:
        opened.append(None)
        return pa.BufferReader(body)

    file = CheckpointParquet("a.parquet", open_source, DEFAULT_LIMITS, is_remote=False)
    paths = [batch.column("add").field("path") for batch in file.batches(file.groups(), ["add.path"])]
    assert [path for column in paths for path in column.to_pylist()] == [f"part-{n}.parquet" for n in range(num_files)]
    sizes = [
        row["size"]
        for piece in file.pieces("add", ["path", "size"], None)
        for batch in piece.read()
        for row in batch.column("add").to_pylist()
    ]
    assert sizes == list(range(num_files))
    assert len(opened) == opens
