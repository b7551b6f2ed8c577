"""Optimize and cluster on Spark: txlog's tasks compared with Spark's Delta, and with txlog in one process.

All rewrite linked copies of one table of small files, in turns, with the same target size; txlog syncs what it writes.
A clustering is also judged by how many files may hold a box of a tenth of each column's values, by the bounds in the
log, and by how long Spark's Delta takes to count the rows in one.
"""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import txlog
import txlog.spark
from benchmarks.compaction import rows_of, share_in_a_box
from benchmarks.measure import Bench, best_in_bold, markdown_table, timed, times
from benchmarks.spark import session
from benchmarks.upsert_tables import linked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TITLE = "Optimize and cluster on Spark"

_ALONE, _ON_SPARK, _DELTA = "txlog, one process", "txlog on Spark", "Spark's Delta"
_BY = ["x", "y"]
_WORKS = {
    "compact": "`OPTIMIZE`",
    "order": "`OPTIMIZE ... ZORDER BY (x, y)`, `optimize(zorder_by=...)`",
    "cluster": "`OPTIMIZE` of a table with `CLUSTER BY (x, y)`",
}
_STEP = 100_000
_BOXES = 10


def run(bench: Bench) -> str:
    files, rows, rounds = bench.scale((200, 25_000, 3), (4, 100, 1))
    plain = bench.folder("small-files")
    bench.say(f"writing {files:,} files of {rows:,} rows")
    table = txlog.Table.create(plain, rows_of(0, 1).schema)
    for number in range(files):
        table.append(rows_of(number, rows))
    target_bytes = 10 * table.size_bytes // files
    clustered = linked(plain, bench.folder("clustered"))
    txlog.Table.open(clustered).cluster_by(_BY)
    with session(bench) as spark:
        spark.conf.set("spark.databricks.delta.optimize.maxFileSize", target_bytes)
        spark.conf.set("spark.databricks.delta.optimize.minFileSize", target_bytes)
        lines = [
            _line(bench, spark, work, clustered if work == "cluster" else plain, target_bytes, rounds)
            for work in _WORKS
        ]
    names = (_ALONE, _ON_SPARK, _DELTA)
    header = [
        f"{files:,} files of {rows:,} rows",
        *(f"{name}, s" for name in names),
        *("Delta : txlog on Spark", "on Spark : one process"),
        *("new files: " + " / ".join(names), "share of files in a box", "count in a box, s"),
    ]
    return (
        f"{markdown_table(header, lines)}\n\nMedians of {rounds} rounds after one to warm up, in one session on two"
        f" cores, to files of about {target_bytes / 1e6:.1f} MB. The last three columns are in the same order; the last"
        f" one is the median of {_BOXES} boxes, counted by Spark's Delta."
    )


def _works(spark: SparkSession, work: str, target_bytes: int) -> Mapping[str, Callable[[str], object]]:
    by = _BY if work == "order" else None
    statement = " ZORDER BY (x, y)" if work == "order" else ""
    return {
        _ALONE: lambda uri: txlog.Table.open(uri).optimize(zorder_by=by, target_file_size=target_bytes),
        _ON_SPARK: lambda uri: txlog.spark.optimize(spark, uri, zorder_by=by, target_file_size=target_bytes),
        _DELTA: lambda uri: spark.sql(f"OPTIMIZE delta.`{uri}`{statement}").collect(),
    }


def _line(bench: Bench, spark: SparkSession, work: str, source: Path, target_bytes: int, rounds: int) -> list[str]:
    contestants = _works(spark, work, target_bytes)
    names = list(contestants)
    wall_s: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        for name in names[turn % 3 :] + names[: turn % 3]:
            # Another folder each time: Delta keeps what it knows of a table by its path.
            copy = linked(source, bench.folder(f"copies-{work}/{names.index(name)}-{turn}"))
            os.sync()
            sample = timed(lambda name=name, copy=copy: contestants[name](str(copy)))  # type: ignore[misc]
            if turn:
                wall_s[name].append(sample.wall_ms / 1e3)
                bench.record(work=work, contestant=name, round=turn, wall_ms=sample.wall_ms)
                bench.say(f"{work}, {name}: {sample.wall_ms:.0f} ms")
    copies = [bench.scratch / f"copies-{work}" / f"{at}-{rounds}" for at in range(len(names))]
    files = [txlog.Table.open(copy).num_files for copy in copies]
    shares = [share_in_a_box(copy, _BY) for copy in copies]
    counts_s = _counts_s(spark, copies)
    for name, *found in zip(names, files, shares, counts_s, strict=True):
        bench.record(work=work, contestant=name, files=found[0], share=found[1], count_s=found[2])
    shutil.rmtree(bench.scratch / f"copies-{work}")
    alone, on_spark, delta = middle_s = [statistics.median(wall_s[name]) for name in names]
    return [
        _WORKS[work],
        *best_in_bold(middle_s, [f"{each:.2f}" for each in middle_s]),
        times(on_spark, delta),
        times(alone, on_spark),
        " / ".join(map(str, files)),
        " / ".join(best_in_bold(shares, [f"{each:.1%}" for each in shares])),
        " / ".join(best_in_bold(counts_s, [f"{each:.2f}" for each in counts_s])),
    ]


def _counts_s(spark: SparkSession, tables: Sequence[Path]) -> list[float]:
    """The median times that Spark's Delta takes to count the rows in a box, in turns after one to warm up."""
    found: list[list[float]] = []
    for number in range(_BOXES + 1):
        low = number * 50_000
        box = f"x BETWEEN {low} AND {low + _STEP} AND y BETWEEN {low} AND {low + _STEP}"
        counts = [f"SELECT count(*) FROM delta.`{table}` WHERE {box}" for table in tables]
        found.append([timed(lambda count=count: spark.sql(count).collect()).wall_ms / 1e3 for count in counts])  # type: ignore[misc]
    return [statistics.median(of_table) for of_table in zip(*found[1:], strict=True)]
