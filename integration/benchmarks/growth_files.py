"""The files of the benchmark `growth` that are real: 100,000 small ones on a local disk, links of a few data files.

Links share their bytes, so the files cost directory entries and little space; each has a name, a footer and rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from benchmarks.growth_log import FILE_ROWS

__all__ = ["STEPS", "make_files", "step_of"]

_PARTITIONS = 100
_ROWS = 100

STEPS = {
    "add_files": "add_files of the folder",
    "list": "list all files",
    "filter": "list files: a partition and a range of `id`",
    "append": "append one row",
    "optimize": "optimize of one partition",
    "vacuum": "vacuum, dry run, which lists the folder",
    "verify": "verify of the log",
    "verify all": "verify, each file looked up",
}
"""In this order: each begins with the table that the one before left."""


def make_files(table: Path, files: int) -> None:
    """An empty table, and in its folders the files to add: one written file for each partition, and links to it."""
    import pyarrow.parquet as pq

    import txlog

    txlog.Table.create(str(table), pa.schema({"id": pa.int64(), "p": pa.string()}), partition_by=["p"])
    for partition in range(_PARTITIONS):
        folder = table / f"p=d{partition:04d}"
        folder.mkdir()
        first = folder / "part-00000.parquet"
        low = partition * FILE_ROWS
        pq.write_table(pa.table({"id": pa.array(range(low, low + _ROWS), pa.int64())}), first)
        for number in range(1, files // _PARTITIONS):
            os.link(first, folder / f"part-{number:05d}.parquet")


def step_of(name: str, path: str) -> Callable[[], object]:
    """One of `STEPS` on the table at ``path``."""
    from txlog import Table

    row = pa.table({"id": pa.array([1], pa.int64()), "p": ["d0007"]})
    return {
        "add_files": lambda: Table.open(path).add_files(""),
        "list": lambda: Table.open(path).snapshot().files().num_rows,
        "filter": lambda: Table.open(path).snapshot().files(f"p = 'd0007' AND id < {8 * FILE_ROWS}").num_rows,
        "append": lambda: Table.open(path).append(row),
        "optimize": lambda: Table.open(path).optimize("p = 'd0007'"),
        "vacuum": lambda: Table.open(path).vacuum(dry_run=True),
        "verify": lambda: Table.open(path).verify(data_files=False),
        "verify all": lambda: Table.open(path).verify(),
    }[name]
