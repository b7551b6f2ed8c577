"""One small file per micro-batch: txlog's streaming sink compared with Spark's Parquet sink and Spark's own Delta.

The source makes a hundred rows per batch and costs next to nothing; `noop` writes them nowhere: the cost that all
share. A batch's time is what Spark itself reports for the whole batch (``durationMs.triggerExecution``): offsets,
planning, the task, the commit.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Bench, markdown_table, p99
from benchmarks.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TITLE = "Structured Streaming, one small file per micro-batch"

SINKS = {"noop": "noop", "parquet": "parquet", "delta": "delta", "delta, tuned": "delta", "txlog": "txlog"}
SNAPSHOT_PARTITIONS = "spark.databricks.delta.snapshotPartitions"


def run(bench: Bench) -> str:
    batches, rounds = bench.scale((40, 2), (5, 1))
    found: dict[str, list[float]] = {name: [] for name in SINKS}
    with session(bench) as spark:
        for turn in range(rounds):
            names = list(SINKS)
            for name in names[turn:] + names[:turn]:
                # Delta's default suits clusters; two is what suits this machine.
                spark.conf.set(SNAPSHOT_PARTITIONS, "2" if name == "delta, tuned" else "50")
                took_ms = batches_of(bench, spark, name, batches, turn)
                bench.say(f"{name}: p50 {statistics.median(took_ms):.0f} ms")
                found[name] += took_ms
    return _report(found, rounds, _warm_up(bench))


def batches_of(bench: Bench, spark: SparkSession, name: str, batches: int, turn: int = 0) -> list[float]:
    """The milliseconds of each of ``batches`` micro-batches of a new query into a new table."""
    warm_up = _warm_up(bench)
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(batches + warm_up + 100))
    # A folder for each query: Delta remembers a folder's table, and would keep reading it.
    target = bench.folder(f"stream-{turn}-{name.replace(', ', '-')}")
    query = start_query(spark, SINKS[name], target)
    try:
        wait_for(
            query,
            lambda: last_batch(query) >= batches + warm_up,
            lambda: bench.say(f"{name}: batch {last_batch(query):,} of {batches + warm_up:,}"),
        )
        counted = [progress for progress in query.recentProgress if warm_up <= progress["batchId"] < batches + warm_up]
    finally:
        query.stop()
    for progress in counted:
        bench.record(sink=name, round=turn, batch=progress["batchId"], duration_ms=dict(progress["durationMs"]))
    if SINKS[name] in ("txlog", "delta"):
        _check(spark, target, batches + warm_up)
    return [float(progress["durationMs"]["triggerExecution"]) for progress in counted]


def _warm_up(bench: Bench) -> int:
    """The first batches of each query do not count: they start Python workers and compile its plan."""
    return bench.scale(10, 2)


def start_query(spark: SparkSession, sink: str, target: Path, interval: str = "0 seconds", **options: str) -> Any:
    """A query of a hundred rows in one partition each ``interval``."""
    source = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=100, numPartitions=1).load()
    writer = source.writeStream.format(sink).option("checkpointLocation", f"{target}-checkpoint").options(**options)
    return writer.trigger(processingTime=interval).start(str(target))


def last_batch(query: Any) -> int:
    return int((query.lastProgress or {}).get("batchId", -1))


def wait_for(query: Any, done: Callable[[], bool], report: Callable[[], object] = lambda: None) -> None:
    """Wait until ``done``; ``report`` shows the progress every half minute."""
    told_s = time.monotonic()
    while not done():
        if not query.isActive:
            raise RuntimeError(f"the query ended: {query.exception()}")
        if time.monotonic() - told_s > 30:
            told_s = time.monotonic()
            report()
        time.sleep(0.25)


def _check(spark: SparkSession, target: Path, batches: int) -> None:
    """Check that every timed batch is in the table, complete."""
    rows = spark.read.format("delta").load(str(target)).selectExpr("count(value)", "count(distinct value)").first()
    assert rows is not None
    if rows[0] != rows[1] or rows[0] < 100 * batches:
        raise RuntimeError(f"{rows[0]} rows, {rows[1]} different ones, after {batches} batches of 100")


def _report(found: dict[str, list[float]], rounds: int, warm_up: int) -> str:
    middle = {name: statistics.median(took_ms) for name, took_ms in found.items()}
    lines = []
    for name, took_ms in found.items():
        lines.append(
            (
                name,
                f"{middle[name]:.0f}",
                f"{p99(took_ms):.0f}",
                f"{middle[name] / middle['parquet']:.2f}",
                f"{middle[name] / middle['delta']:.2f}",
            )
        )
    table = markdown_table(["sink", "p50, ms", "p99, ms", "time : Parquet's", "time : Delta's"], lines)
    return (
        f"{table}\n\n{len(found['txlog'])} batches each, {rounds} alternating queries, without the first {warm_up}"
        " batches"
        f" of each. txlog takes {middle['txlog'] / middle['parquet']:.2f} times as long as the Parquet sink, and is"
        f" {middle['delta'] / middle['txlog']:.1f} times as fast as Delta's; with `{SNAPSHOT_PARTITIONS}` tuned from 50"
        f" to 2 for this machine, {middle['delta, tuned'] / middle['txlog']:.1f} times."
    )
