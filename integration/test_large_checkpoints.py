"""Checkpoints whose contents are far larger than their files, at full size: they are published, and a fresh handle and
deltalake read them.

A file of such a checkpoint looks like a decompression bomb: few bytes, much memory. tests/core/versions/files has the
same in small, under tighter limits, with V2 checkpoints too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import txlog
from txlog.core.format.commit_file import DEFAULT_LIMITS

pytestmark = pytest.mark.hunt(part="large")

COMMIT_FILES = 5_000
Stats = dict[str, Any]


def test_30_000_files_with_the_same_long_statistics_are_read_from_their_checkpoint(tmp_path: Path) -> None:
    columns = [f"a_column_with_a_long_name_{number:03}" for number in range(400)]
    stats = {"numRecords": 2, "nullCount": dict.fromkeys(columns, 2)}
    as_text = {"delta.checkpoint.writeStatsAsStruct": "false", "delta.dataSkippingNumIndexedCols": "-1"}

    decoded_bytes = 30_000 * len(json.dumps(stats, separators=(",", ":")))
    assert decoded_bytes > DEFAULT_LIMITS.checkpoint_memory_min_bytes

    checkpoint_of(tmp_path, columns, 30_000, lambda number: stats, as_text)

    table = txlog.Table.open(tmp_path)
    files = table.snapshot().files()
    assert files.num_rows == 30_000
    assert set(files["stats"].to_pylist()) == {json.dumps(stats, separators=(",", ":"))}
    assert table.count() == 60_000
    assert num_files_of_deltalake(tmp_path) == 30_000


def test_a_table_of_1_000_sparse_columns_is_read_from_its_checkpoint_of_typed_statistics(tmp_path: Path) -> None:
    num_files = 12_000
    columns = [f"c{number:03}" for number in range(1_000)]

    def stats(number: int) -> Stats:
        name = columns[number % len(columns)]
        return {
            "numRecords": 1,
            "minValues": {name: number},
            "maxValues": {name: number + 1},
            "nullCount": {name: 0},
        }

    typed = {
        "delta.checkpoint.writeStatsAsStruct": "true",
        "delta.checkpoint.writeStatsAsJson": "false",
        "delta.dataSkippingNumIndexedCols": "-1",
    }
    slots_bytes = 3 * len(columns) * num_files * 8
    assert slots_bytes > DEFAULT_LIMITS.checkpoint_memory_min_bytes

    checkpoint_of(tmp_path, columns, num_files, stats, typed)

    table = txlog.Table.open(tmp_path)
    files = table.snapshot().files()
    assert files.num_rows == num_files
    found = dict(zip(files["path"].to_pylist(), map(json.loads, files["stats"].to_pylist()), strict=True))
    assert all(found[path_of(number)]["minValues"] == stats(number)["minValues"] for number in range(num_files))
    # Column c007 has statistics in every 1,000th file; of the others nothing is known.
    known = {path_of(number) for number in range(7, num_files, 1_000)}
    above = table.snapshot().files("c007 > 5000")["path"].to_pylist()
    assert known & set(above) == {path_of(number) for number in range(7, num_files, 1_000) if number + 1 > 5_000}
    assert num_files_of_deltalake(tmp_path) == num_files


def path_of(number: int) -> str:
    return f"part-{number:05}.parquet"


def checkpoint_of(
    path: Path, columns: list[str], num_files: int, stats: Callable[[int], Stats], properties: dict[str, str]
) -> None:
    """Checkpoint a table after another writer added this many files (never opened) to its log; older commits go."""
    schema = pa.schema([(name, pa.int64()) for name in columns])
    txlog.Table.create(path, schema, properties={"delta.checkpointInterval": "1000", **properties})
    log = path / "_delta_log"
    for version, first in enumerate(range(0, num_files, COMMIT_FILES), start=1):
        lines = [
            {
                "add": {
                    "path": path_of(number),
                    "partitionValues": {},
                    "size": 1_000,
                    "modificationTime": 1_700_000_000_000,
                    "dataChange": True,
                    "stats": json.dumps(stats(number), separators=(",", ":")),
                }
            }
            for number in range(first, min(first + COMMIT_FILES, num_files))
        ]
        (log / f"{version:020}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    version = txlog.Table.open(path).create_checkpoint()
    assert version == -(-num_files // COMMIT_FILES)
    for commit in log.glob("*.json"):
        if commit.stem.isdigit() and int(commit.stem) < version:
            commit.unlink()


def num_files_of_deltalake(path: Path) -> int:
    return len(deltalake.DeltaTable(str(path)).file_uris())
