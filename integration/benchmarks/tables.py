"""The data to write: one row; and many rows of ten columns with mixed types.

Run as a program, it grows a table by one-row appends: in a separate process, so what follows the commits (checkpoints)
has ended when the process has.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.measure import fresh_process

ONE_ROW = pa.table({"id": pa.array([1], pa.int64()), "name": ["x"], "value": [1.5]})


def grow(path: Path, version: int) -> None:
    """Append single rows with txlog until the table is at ``version``."""
    fresh_process("-m", "benchmarks.tables", str(path), str(version))


def copy_for_each(base: Path, names: list[str]) -> dict[str, Path]:
    """A copy of the table for each of ``names``, so all begin with the same files and the same log.

    deltalake's copy gets its own checkpoint at that version, where its own interval would have put one.
    """
    from deltalake import DeltaTable

    copies = {name: base.with_name(f"{base.name}-{name}") for name in names}
    for name, path in copies.items():
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(base, path)
        if name == "deltalake":
            DeltaTable(path).create_checkpoint()
    return copies


def mixed_rows(rows: int, partitions: int) -> pa.Table:
    """Ten columns, about a hundred bytes per row; ``part`` has ``partitions`` values, in no order."""
    random = np.random.default_rng(20)
    names = pa.array([f"customer {number:06}" for number in range(20_000)])
    notes = pa.array([f"{number:016x}-{number * 7919:016x}" for number in random.integers(0, 2**40, 50_000).tolist()])
    parts = pa.array([f"p{number:04}" for number in range(partitions)])
    month_us = 30 * 24 * 60 * 60 * 1_000_000
    start = np.datetime64("2026-01-01T00:00:00", "us")
    return pa.table(
        {
            "id": np.arange(rows, dtype=np.int64),
            "user_id": random.integers(0, 1_000_000, rows),
            "quantity": random.integers(0, 100, rows, dtype=np.int32),
            "price": random.random(rows) * 1000,
            "score": random.standard_normal(rows, dtype=np.float32),
            "moment": pa.array(start + random.integers(0, month_us, rows), pa.timestamp("us", "UTC")),
            "name": names.take(pa.array(random.integers(0, len(names), rows))),
            "note": notes.take(pa.array(random.integers(0, len(notes), rows))),
            "flag": pa.array(random.random(rows) < 0.5),
            "part": parts.take(pa.array(random.integers(0, partitions, rows))),
        }
    )


def _grow(path: str, version: int) -> None:
    import txlog

    if not txlog.Table.exists(path):
        txlog.Table.create(path, ONE_ROW.schema)
    table = txlog.Table.open(path)
    while table.snapshot().version < version:
        table.append(ONE_ROW)


if __name__ == "__main__":
    _grow(sys.argv[1], int(sys.argv[2]))
