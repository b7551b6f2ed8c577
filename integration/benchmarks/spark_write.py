"""Spark writes ten million rows: txlog's sink compared with Spark's Parquet writer and Spark's own Delta.

The `noop` sink reads the same source and writes nothing: the cost that all share.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import Bench, Sample, in_turns, markdown_table, wall_p50
from benchmarks.spark import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TITLE = "Spark, many rows"

FORMATS = ("noop", "parquet", "delta", "txlog")
COLUMNS = (
    "id",
    "hash(id) % 1000000 as user_id",
    "cast(hash(id, 1) % 100 as int) as quantity",
    "rand(1) * 1000 as price",
    "cast(randn(2) as float) as score",
    "timestamp_micros(1767225600000000 + id * 259) as moment",
    "concat('customer ', hash(id, 2) % 10000) as name",
    "sha1(cast(hash(id, 3) % 25000 as string)) as note",
    "rand(4) < 0.5 as flag",
    "concat('p', id % 50) as part",
)


def run(bench: Bench) -> str:
    rows, rounds = bench.scale((10_000_000, 3), (20_000, 1))
    source, target = bench.folder("spark-source"), bench.folder("spark-target")
    with session(bench) as spark:
        bench.say(f"making {rows:,} rows")
        spark.range(0, rows, 1, 8).selectExpr(*COLUMNS).write.parquet(str(source))
        frame = spark.read.parquet(str(source))
        bench.say(f"{rounds} rounds")
        samples = in_turns(
            bench,
            {name: partial(_write, frame, name, target) for name in FORMATS},
            rounds,
            warm_up=1,
            prepare=partial(shutil.rmtree, target, ignore_errors=True),
            rows=rows,
        )
    source_mb = sum(path.stat().st_size for path in source.glob("*.parquet")) / 1e6
    return _report(samples, f"{rows:,} rows of ten columns ({source_mb:.0f} MB of Parquet), medians of {rounds} rounds")


def _write(frame: DataFrame, name: str, target: Path) -> None:
    frame.write.format(name).mode("append").save(str(target))


def _report(samples: dict[str, list[Sample]], what: str) -> str:
    noop_s, parquet_s, delta_s = (wall_p50(samples[name]) / 1e3 for name in ("noop", "parquet", "delta"))
    lines = []
    for name, found in samples.items():
        middle_s = wall_p50(found) / 1e3
        lines.append(
            (
                name,
                f"{middle_s:.2f}",
                f"{min(sample.wall_ms for sample in found) / 1e3:.2f}",
                f"{middle_s - noop_s:.2f}",
                f"{middle_s / parquet_s:.2f}",
                f"{middle_s / delta_s:.2f}",
            )
        )
    table = markdown_table(["sink", "s", "best, s", "over noop, s", "time : Parquet's", "time : Delta's"], lines)
    return (
        f"{table}\n\n{what}, alternating, after one to warm up, in one session on two cores; txlog's time includes"
        " syncing."
    )
