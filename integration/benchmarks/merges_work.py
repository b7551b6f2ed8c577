"""One merge in a separate process: `python -m benchmarks.merges_work WORK CONTESTANT TABLE SOURCE`.

`make` and `source_of` make the tables and the sources of each work, and `MERGES` has its condition and clauses. Time
begins with opening the table and ends when the call returns; a small merge into another table comes first. Prints a
JSON object: wall and CPU time, and the peak of memory above what the process held before.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.bulk import _forget_peak, _status_mb
from benchmarks.upsert_tables import VECTORS, WITH_VECTORS, load

SCHEMA = pa.schema(
    [("id", pa.int64()), ("at", pa.int64()), ("current", pa.bool_()), ("ended", pa.int64()), ("text", pa.string())]
)
_NEW = {"id": "s.id", "at": "s.at", "current": "true", "text": "s.text"}


@dataclass(frozen=True)
class Merge:
    """The condition and the clauses, as SQL and as calls of a builder (txlog's; deltalake's has the same names)."""

    on: str
    sql: str
    clauses: Callable[[Any, Callable[..., Any]], Any]


MERGES = {
    "range": Merge(
        "t.at >= s.low and t.at < s.high",
        "when matched then update set text = s.text",
        lambda merge, updates: updates(merge.when_matched_update, {"text": "s.text"}),
    ),
    "history": Merge(
        "t.id = s.key and t.current",
        "when matched then update set current = false, ended = s.at"
        " when not matched then insert (id, at, current, text) values (s.id, s.at, true, s.text)",
        lambda merge, updates: updates(
            updates(merge.when_matched_update, {"current": "false", "ended": "s.at"}).when_not_matched_insert, _NEW
        ),
    ),
    "deduplication": Merge(
        "t.id = s.id",
        "when not matched then insert (id, at, current, text) values (s.id, s.at, true, s.text)",
        lambda merge, updates: updates(merge.when_not_matched_insert, _NEW),
    ),
}


def make(path: Path, rows: int, files: int) -> None:
    """A table of current rows: ids in no order, times in order."""
    import txlog

    table = txlog.Table.create(path, SCHEMA)
    ids = np.random.default_rng(1).permutation(rows)
    for part in np.array_split(np.arange(rows), files):
        table.append(
            pa.table(
                {
                    "id": ids[part],
                    "at": part,
                    "current": np.ones(len(part), bool),
                    "ended": pa.nulls(len(part), pa.int64()),
                    "text": pa.array([f"text of {number % 997}" for number in part.tolist()]),
                },
                SCHEMA,
            )
        )


def source_of(work: str, changed: int, of_table: int, ranges: int) -> pa.Table:
    """``changed`` rows change, or ``ranges`` of a hundredth of all rows together are updated."""
    random = np.random.default_rng(3)
    if work == "range":
        low = np.sort(random.choice(of_table // 1000, ranges, replace=False)) * 1000
        return pa.table({"low": low, "high": low + of_table // ranges // 100, "text": ["new"] * ranges})
    known = random.choice(of_table, changed if work == "history" else changed // 2, replace=False)
    times = np.full(len(known), of_table)
    if work == "history":
        keys = pa.concat_arrays([pa.array(known), pa.nulls(len(known), pa.int64())])
        both = np.concatenate([known, known])
        texts = ["moved"] * len(both)
        return pa.table({"key": keys, "id": both, "at": np.concatenate([times, times]), "text": texts})
    ids = np.concatenate([known, np.arange(of_table, of_table + changed - len(known))])
    return pa.table({"id": ids, "at": np.full(len(ids), of_table), "text": ["seen"] * len(ids)})


def merge_by(work: str, contestant: str, table: str, rows: pa.Table) -> None:
    merge = MERGES[work]
    names = {"source_alias": "s", "target_alias": "t"}
    if contestant == "deltalake":
        from deltalake import DeltaTable

        theirs = DeltaTable(table).merge(rows, merge.on, **names)
        merge.clauses(theirs, lambda clause, values: clause(updates=values)).execute()
        return
    import txlog

    ours = txlog.Table.open(table).merge(rows, merge.on, **names)
    merge.clauses(
        ours, lambda clause, values: clause({name: txlog.expr(text) for name, text in values.items()})
    ).execute()


def measure(work: str, contestant: str, table: str, source: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small"
        make(small, 5_000, 2)
        merge_by(work, contestant, str(small), source_of(work, 10, 5_000, 2))
    if contestant == WITH_VECTORS:
        import txlog

        txlog.Table.open(table).set_properties(VECTORS)
    rows, base_mb = load(source), _forget_peak()
    cpu_s, begin_s = time.process_time(), time.perf_counter()
    merge_by(work, contestant, table, rows)
    wall_s, cpu_s = time.perf_counter() - begin_s, time.process_time() - cpu_s
    return {"wall_ms": wall_s * 1e3, "cpu_ms": cpu_s * 1e3, "extra_mb": _status_mb("VmHWM") - base_mb}


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:5])))
