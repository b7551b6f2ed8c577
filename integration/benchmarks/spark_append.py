"""A warm Spark session appends one row: txlog's sink compared with Spark's Parquet writer and Spark's own Delta."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import Bench, in_turns, markdown_table, p99, wall_p50
from benchmarks.spark import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TITLE = "Spark, one row"

FORMATS = ("noop", "parquet", "delta", "txlog")


def run(bench: Bench) -> str:
    rounds, warm_up = bench.scale((40, 10), (3, 1))
    folder = bench.folder("spark-append")
    with session(bench) as spark:
        row = spark.range(0, 1, 1, 1).selectExpr("id", "'x' as name", "1.5D as value")
        bench.say(f"{rounds} rounds")
        contestants = {name: partial(_append, row, name, folder / name) for name in FORMATS}
        samples = in_turns(bench, contestants, rounds, warm_up)
        for name in ("delta", "txlog"):
            found = spark.read.format("delta").load(str(folder / name)).count()
            if found != rounds + warm_up:
                raise RuntimeError(f"{name} has {found} rows after {rounds + warm_up} appends")
    parquet_ms, delta_ms = wall_p50(samples["parquet"]), wall_p50(samples["delta"])
    lines = []
    for name, found in samples.items():
        middle_ms = wall_p50(found)
        lines.append(
            (
                name,
                f"{middle_ms:.0f}",
                f"{p99(sample.wall_ms for sample in found):.0f}",
                f"{middle_ms / parquet_ms:.2f}",
                f"{middle_ms / delta_ms:.2f}",
            )
        )
    table = markdown_table(["sink", "p50, ms", "p99, ms", "time : Parquet's", "time : Delta's"], lines)
    return f"{table}\n\n{rounds} appends each, alternating, after {warm_up} to warm up; each program has its own table."


def _append(row: DataFrame, name: str, target: Path) -> None:
    row.write.format(name).mode("append").save(str(target))
