"""The tables whose rows change, and the source rows: by layout, in the requested number of files.

In: rows, files and a layout. Out: tables that are only linked to afterwards, since data files never change. Half of the
source rows have a key from the table.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.tables import mixed_rows

VECTORS = {"delta.enableDeletionVectors": "true"}
WITH_VECTORS, BY_DEFAULT = "txlog, deletion vectors", "txlog, default (copies)"
"""How benchmarks name txlog: on a table with deletion vectors, and on one with default properties."""
WITHOUT_KEY_CACHE = "txlog without its key cache"
LAYOUTS = {
    "random": "integers, in no order",
    "clustered": "integers, each file a range",
    "range": "integers, all of one range",
    "strings": "strings of 36 characters, in no order",
}
TABLE_OF = {"range": "clustered"}
"""The layouts of keys that are upserted into another layout's table."""

_SCATTER = 2_654_435_761  # an odd factor: the products of different numbers below 2^61 are different modulo 2^61
_NARROW = ("id", "name", "price", "quantity")


def key_of(layout: str, numbers: Any) -> pa.Array:
    """The keys with these numbers."""
    if layout != "strings":
        return pa.array(numbers, pa.int64())
    scattered = np.asarray(numbers, dtype=np.int64) * _SCATTER % (1 << 61)
    return pc.utf8_lpad(pa.array(scattered).cast(pa.string()), 36, padding="0")


def make_table(path: Path, layout: str, rows: int, files: int, *, narrow: bool = False, row_groups: int = 1) -> None:
    """``rows`` in ``files`` of ``row_groups``, with all ten columns or four."""
    import txlog

    data = mixed_rows(rows, 50)
    numbers = np.arange(rows) if layout == "clustered" else np.random.default_rng(1).permutation(rows)
    data = data.set_column(0, "id", key_of(layout, numbers))
    if narrow:
        data = data.select(list(_NARROW))
    table = txlog.Table.create(path, data.schema)
    per_file = rows // files
    names = [f"part-{number:05}.parquet" for number in range(files)]
    for number, name in enumerate(names):
        part = data.slice(number * per_file, per_file)
        pq.write_table(part, path / name, compression="snappy", row_group_size=-(-per_file // row_groups))
    table.add_files(names)


def source_rows(layout: str, rows: int, of_table: int, seed: int = 3, *, narrow: bool = False) -> pa.Table:
    """Half with keys from a table of ``of_table`` rows (spread over it, or one range), half with new keys."""
    random = np.random.default_rng(seed)
    half = rows // 2
    known = np.arange(half) + of_table // 2 if layout == "range" else random.choice(of_table, half, replace=False)
    first_new = of_table + (seed * rows if layout != "range" else 0)
    numbers = np.concatenate([known, np.arange(first_new, first_new + rows - half)])
    data = mixed_rows(rows, 50).set_column(0, "id", key_of(layout, numbers))
    return data.select(list(_NARROW)) if narrow else data


def linked(table: Path, target: Path) -> Path:
    """The same table in another folder, with linked files."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(table, target, copy_function=os.link)
    return target


def save(rows: pa.Table, path: Path) -> Path:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows)
    return path


def load(path: str | Path) -> pa.Table:
    with pa.OSFile(str(path), "rb") as file:
        return pa.ipc.open_file(file).read_all()


def tree_bytes(path: Path) -> int:
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
