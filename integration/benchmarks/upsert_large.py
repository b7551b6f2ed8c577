"""An upsert of many rows into a much larger table: five million, half of them new, into fifty million of ten columns.

The rows come as a stream of batches, in no order, and the upsert runs in a fresh process: `python -m
benchmarks.upsert_large TABLE LAYOUT ROWS CHANGED`. Its memory is the process's peak, including Python, its packages and
pages of mapped temporary files.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import Bench, fresh_process, markdown_table, peak_mb
from benchmarks.tables import mixed_rows
from benchmarks.upsert_tables import LAYOUTS, VECTORS, key_of

_SCATTER = 2_654_435_761, 1_500_450_271  # coprime to every row count that is a power of ten or half of one
_BATCH_ROWS = 100_000
_LAYOUTS = ("random", "strings")


def large(bench: Bench) -> str:
    """Make each table, upsert into it, and report time and memory."""
    rows, files, changed = bench.scale((50_000_000, 100, 5_000_000), (20_000, 4, 2_000))
    lines = []
    for layout in _LAYOUTS:
        table = bench.folder(f"large-{layout}")
        bench.say(f"making {rows:,} rows: {LAYOUTS[layout]}")
        _make_table(table, layout, rows, files)
        os.sync()
        done = fresh_process("-m", "benchmarks.upsert_large", str(table), layout, str(rows), str(changed))
        found = json.loads(done.stdout.splitlines()[-1])
        bench.record(what="large", layout=layout, rows=rows, changed=changed, **found)
        bench.say(f"{changed:,} rows into {rows:,}: {found['wall_s']:.1f} s, {found['peak_mb']:.0f} MB")
        lines.append((LAYOUTS[layout], f"{found['wall_s']:.1f}", f"{found['cpu_s']:.1f}", f"{found['peak_mb']:.0f}"))
        bench.folder(table.name)
    return (
        f"{markdown_table([f'{changed:,} rows into {rows:,}', 's', 'CPU s', 'memory, MB'], lines)}\n\nTen columns,"
        f" {files} files, half of the rows new, given as a stream of batches. All of the process's memory at its peak,"
        " that of Python and its packages included."
    )


def _make_table(path: Path, layout: str, rows: int, files: int) -> None:
    """The same values in each file, except the keys: drawing fifty million would take longer than the rest."""
    import txlog

    per_file = rows // files
    data = mixed_rows(per_file, 50)
    data = data.set_column(0, "id", key_of(layout, np.arange(per_file)))
    table = txlog.Table.create(path, data.schema, properties=VECTORS)
    names = [f"part-{number:05}.parquet" for number in range(files)]
    for number, name in enumerate(names):
        keys = np.arange(number * per_file, (number + 1) * per_file, dtype=np.int64) * _SCATTER[0] % rows
        pq.write_table(data.set_column(0, "id", key_of(layout, keys)), path / name, compression="snappy")
    table.add_files(names)


def _source(layout: str, rows: int, changed: int) -> pa.RecordBatchReader:
    """Rows with keys from the table and new ones, in turns, made while they are read."""
    per_batch = min(_BATCH_ROWS, changed)
    data = mixed_rows(per_batch, 50)
    data = data.set_column(0, "id", key_of(layout, np.arange(per_batch)))

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, changed, per_batch):
            numbers = np.arange(first // 2, (first + per_batch) // 2, dtype=np.int64)
            keys = np.empty(per_batch, np.int64)
            keys[0::2], keys[1::2] = numbers * _SCATTER[1] % rows, rows + numbers
            yield from data.set_column(0, "id", key_of(layout, keys)).combine_chunks().to_batches()

    return pa.RecordBatchReader.from_batches(data.schema, batches())


def _measure(path: str, layout: str, rows: int, changed: int) -> dict[str, float]:
    import txlog

    rows_given = _source(layout, rows, changed)
    cpu_s, begin_s = time.process_time(), time.perf_counter()
    done = txlog.Table.open(path).upsert(rows_given, ["id"]).metrics
    found = {"wall_s": time.perf_counter() - begin_s, "cpu_s": time.process_time() - cpu_s, "peak_mb": peak_mb()}
    if (done.rows_inserted, done.rows_updated) != (changed - changed // 2, changed // 2):
        raise RuntimeError(f"half of {changed:,} rows are new, and {done.rows_inserted:,} were inserted")
    return found


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
