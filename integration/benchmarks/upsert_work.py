"""One row change in a separate process: `python -m benchmarks.upsert_work WORK CONTESTANT TABLE SOURCE ROUNDS`.

Time begins with opening the table and ends when the call returns; a small change to another table comes first, so
everything is imported. Memory is the peak above what the process held just before. Prints a JSON list with one sample
for each round; rounds after the first continue with the handle.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from benchmarks.bulk import _forget_peak, _status_mb
from benchmarks.upsert_tables import (
    VECTORS,
    WITH_VECTORS,
    WITHOUT_KEY_CACHE,
    load,
    make_table,
    source_rows,
    tree_bytes,
)

Change = Callable[[pa.Table], object]

CONDITION = "user_id < 10000"  # of a million: one row in a hundred, in every file
NEAR = "id BETWEEN 1000 AND 50999"  # one row in a hundred, in the first of files that are ranges
STREAM_ROWS = 1_000


def change_by(work: str, contestant: str, table: str) -> Change:
    """Opens the table; the returned function makes the change once."""
    if contestant == "deltalake":
        return _by_deltalake(work, table)
    import txlog

    without_cache = contestant == WITHOUT_KEY_CACHE
    handle = txlog.Table.open(table, key_cache_size=0 if without_cache else None)
    changes: dict[str, Change] = {
        "upsert": lambda rows: handle.upsert(rows, ["id"]),
        "delete": lambda _: handle.delete(CONDITION),
        "delete_near": lambda _: handle.delete(NEAR),
        "update": lambda _: handle.update({"price": txlog.expr("price + 1")}, CONDITION),
    }
    return changes[work]


def _by_deltalake(work: str, table: str) -> Change:
    from deltalake import DeltaTable

    handle = DeltaTable(table)

    def merge(rows: pa.Table) -> object:
        merger = handle.merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
        return merger.when_matched_update_all().when_not_matched_insert_all().execute()

    changes: dict[str, Change] = {
        "upsert": merge,
        "delete": lambda _: handle.delete(CONDITION),
        "delete_near": lambda _: handle.delete(NEAR),
        "update": lambda _: handle.update(updates={"price": "price + 1"}, predicate=CONDITION),
    }
    return changes[work]


def measure(work: str, contestant: str, table: str, source: str, rounds: int) -> list[dict[str, float]]:
    _warm_up(work, contestant)
    if contestant in (WITH_VECTORS, WITHOUT_KEY_CACHE):
        import txlog

        txlog.Table.open(table).set_properties(VECTORS)
    rows, before_bytes = load(source), tree_bytes(Path(table))
    change: Change | None = None
    samples = []
    for number in range(rounds):
        here = rows if rounds == 1 else rows.slice(number * STREAM_ROWS, STREAM_ROWS).combine_chunks()
        base_mb = _forget_peak()
        cpu_s, begin_s = time.process_time(), time.perf_counter()
        if change is None:
            change = change_by(work, contestant, table)
        change(here)
        wall_s, cpu_s = time.perf_counter() - begin_s, time.process_time() - cpu_s
        sample = {"wall_ms": wall_s * 1e3, "cpu_ms": cpu_s * 1e3, "extra_mb": _status_mb("VmHWM") - base_mb}
        samples.append(sample)
    written_mb = (tree_bytes(Path(table)) - before_bytes) / 1e6 / rounds
    return [{**sample, "written_mb": written_mb} for sample in samples]


def _warm_up(work: str, contestant: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small"
        make_table(path, "random", 100, 2)
        change = change_by(work, contestant, str(path))
        change(source_rows("random", 10, 100))


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:5], int(sys.argv[5]))))
