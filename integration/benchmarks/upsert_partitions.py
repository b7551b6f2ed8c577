"""What changes cost where every file is small: one row in each of many partitions, beside the append of these rows."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.measure import Bench, best_in_bold, markdown_table, timed
from benchmarks.upsert_tables import BY_DEFAULT, VECTORS, WITH_VECTORS

_NAMES = (BY_DEFAULT, WITH_VECTORS, "deltalake")
_ON = "t.id = s.id AND t.p = s.p"


def many_partitions(bench: Bench) -> str:
    partitions = bench.scale(3_000, 20)
    works = ("append", "update", "merge", "upsert", "delete")
    found: dict[tuple[str, str], float] = {}
    for work in works:
        for name in _NAMES:
            _measured(bench, work, name, 5)  # everything is imported
            samples = [_measured(bench, work, name, partitions) for _ in range(bench.scale(3, 1))]
            found[work, name] = statistics.median(samples)
            bench.say(f"{partitions:,} partitions of a row, {work}, {name}: {found[work, name]:.0f} ms")
    lines = []
    for work in works:
        wall_ms = [found[work, name] for name in _NAMES]
        cells = [
            f"{each:.0f} ({each / found['append', name]:.1f}x)" for each, name in zip(wall_ms, _NAMES, strict=True)
        ]
        lines.append([work, *best_in_bold(wall_ms, cells)])
    table = markdown_table(["all rows", *(f"{name}, ms" for name in _NAMES)], lines)
    return (
        f"{table}\n\n{partitions:,} partitions with a file of one row each; in brackets, how many times as long as the"
        " append. The delete takes one of two rows of each file. Median of three."
    )


def _rows(partitions: int, each: int) -> pa.Table:
    ids = range(partitions * each)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "p": pa.array([number % partitions for number in ids], pa.int64()),
            "v": [float(number) for number in ids],
            "text": [f"text {number}" for number in ids],
        }
    )


def _measured(bench: Bench, work: str, name: str, partitions: int) -> float:
    """Milliseconds for one change of a new table."""
    path, rows = bench.folder("partitions"), _rows(partitions, 2 if work == "delete" else 1)
    make = _by_deltalake if name == "deltalake" else _by_txlog
    change = make(path, work, name, rows)
    time.sleep(0 if bench.quick else 0.2)
    sample = timed(change)
    bench.record(
        what=f"{partitions} partitions", work=work, contestant=name, wall_ms=sample.wall_ms, cpu_ms=sample.cpu_ms
    )
    return sample.wall_ms


def _by_txlog(path: Path, work: str, name: str, rows: pa.Table) -> Callable[[], Any]:
    import txlog

    properties = VECTORS if name == WITH_VECTORS else {}
    table = txlog.Table.create(path, rows.schema, partition_by=["p"], properties=properties)
    if work != "append":
        table.append(rows)
    changes: dict[str, Callable[[], Any]] = {
        "append": lambda: table.append(rows),
        "update": lambda: table.update({"v": txlog.expr("v + 1")}, "v >= 0"),
        "merge": lambda: (
            table.merge(rows, _ON, source_alias="s", target_alias="t")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        ),
        "upsert": lambda: table.upsert(rows, ["id", "p"]),
        "delete": lambda: table.delete(f"id < {rows.num_rows // 2} AND v >= 0"),
    }
    return changes[work]


def _by_deltalake(path: Path, work: str, name: str, rows: pa.Table) -> Callable[[], Any]:
    from deltalake import DeltaTable, write_deltalake

    if work != "append":
        write_deltalake(str(path), rows, partition_by=["p"])
        table = DeltaTable(str(path))

    def merge() -> Any:
        merger = table.merge(rows, _ON, source_alias="s", target_alias="t")
        return merger.when_matched_update_all().when_not_matched_insert_all().execute()

    changes: dict[str, Callable[[], Any]] = {
        "append": lambda: write_deltalake(str(path), rows, partition_by=["p"]),
        "update": lambda: table.update(updates={"v": "v + 1"}, predicate="v >= 0"),
        "merge": merge,
        "upsert": merge,
        "delete": lambda: table.delete(f"id < {rows.num_rows // 2} AND v >= 0"),
    }
    return changes[work]
