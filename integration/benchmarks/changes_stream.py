"""Micro-batches of changes into one large table, hundreds in a row, with the upkeep that their small files need.

The same rows as an append and as an upsert, in turns, through a sink in Python; and in Spark queries, compared with the
usual way to do it: `foreachBatch` with Delta's own MERGE. Nine keys in ten are from the table.
"""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import Bench, Sample, timed
from benchmarks.stream import last_batch, wait_for
from benchmarks.tables import mixed_rows
from benchmarks.upsert_tables import VECTORS, linked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_ROWS = 1_000
UPKEEP_EVERY = 50
_SCATTER = 2_654_435_761


@dataclass(slots=True)
class Stream:
    """What one sink did: its micro-batches, and the rounds of upkeep between them."""

    batches: list[Sample] = field(default_factory=list)
    upkeep: list[Sample] = field(default_factory=list)

    @property
    def upkeep_share(self) -> float:
        """Upkeep's part of all CPU time."""
        upkeep_ms, batches_ms = (sum(each.cpu_ms for each in samples) for samples in (self.upkeep, self.batches))
        return upkeep_ms / (upkeep_ms + batches_ms)

    def p50(self, part: slice = slice(None)) -> float:
        return statistics.median(each.wall_ms for each in self.batches[part])


def by_sinks(bench: Bench, table: Path, rows: int, batches: int) -> dict[str, Stream]:
    """An append and an upsert of the same rows, in turns; after every `UPKEEP_EVERY` batches ``table.maintain`` through
    a separate handle, as a maintainer alongside the stream would."""
    import txlog

    paths = {name: linked(table, bench.scratch / f"sink-{name}") for name in ("append", "upsert")}
    found = {name: Stream() for name in paths}
    sinks, maintainers = {}, {}
    for name, path in paths.items():
        handle = txlog.Table.open(path)
        handle.set_properties(VECTORS)
        options: dict[str, Any] = {"mode": "upsert", "keys": ["id"]} if name == "upsert" else {}
        sinks[name] = txlog.Sink(handle, "benchmark", **options)
        maintainers[name] = txlog.Table.open(path)
    names = list(paths)
    values = mixed_rows(BATCH_ROWS, 50)
    for number in range(batches):
        batch = _batch(values, number, rows)
        for name in names[number % 2 :] + names[: number % 2]:
            os.sync()
            sample = timed(partial(_checkpoint, sinks[name], number, batch))
            found[name].batches.append(sample)
            bench.record(what="micro-batch", sink=name, batch=number, wall_ms=sample.wall_ms, cpu_ms=sample.cpu_ms)
        if (number + 1) % UPKEEP_EVERY == 0 or number + 1 == batches:
            for name, maintainer in maintainers.items():
                sample = timed(maintainer.maintain)
                found[name].upkeep.append(sample)
                bench.record(what="upkeep", sink=name, batch=number, wall_ms=sample.wall_ms, cpu_ms=sample.cpu_ms)
    _check(paths["upsert"], rows, batches)
    return found


def _checkpoint(sink: Any, number: int, batch: pa.RecordBatch) -> None:
    with sink.task(number) as task:
        task.write(batch)
    sink.stage(task.committable)
    sink.prepare(number, [0])
    sink.commit(number)


def _batch(values: pa.Table, number: int, of_table: int) -> pa.RecordBatch:
    ids = np.arange(number * BATCH_ROWS, (number + 1) * BATCH_ROWS) * _SCATTER % _num_keys(of_table)
    return values.set_column(0, "id", pa.array(ids)).combine_chunks().to_batches()[0]


def _num_keys(of_table: int) -> int:
    """Nine in ten of these keys are in the table. The scatter is prime: different numbers below are different keys."""
    return of_table * 10 // 9


def _check(path: Path, rows: int, batches: int) -> None:
    """Check that each key of the table and the batches is there once."""
    import txlog

    ids = txlog.Table.open(path).snapshot().to_arrow(columns=["id"])["id"].to_numpy()
    given = np.arange(batches * BATCH_ROWS) * _SCATTER % _num_keys(rows)
    if not np.array_equal(np.sort(ids), np.union1d(np.arange(rows), given)):
        raise RuntimeError(f"{path} does not hold each key once")


# --- Spark ----------------------------------------------------------------------------------------------------------


def by_spark(bench: Bench, table: Path, rows: int) -> dict[str, list[float]]:
    """The milliseconds of each micro-batch of queries in one session, without the first ones."""
    from benchmarks.spark import session

    found = {}
    batches = {"append": bench.scale((10, 40), (1, 2)), "upsert": bench.scale((10, 40), (1, 2))}
    with session(bench) as spark:
        for name in (*batches, "foreachBatch and MERGE"):
            warm_up, counted = batches.get(name, bench.scale((2, 6), (1, 1)))
            # A query that was stopped may still write into its folder, so each has its own.
            target = linked(table, bench.scratch / f"spark-{name.split()[0]}")
            query = _query(bench, spark, name, target, rows)
            try:
                wait_for(query, lambda query=query, until=warm_up + counted: last_batch(query) >= until)  # type: ignore[misc]
                progress = [each for each in query.recentProgress if warm_up <= each["batchId"] < warm_up + counted]
            finally:
                query.stop()
            found[name] = [float(each["durationMs"]["triggerExecution"]) for each in progress]
            for each in progress:
                bench.record(what="spark", sink=name, batch=each["batchId"], duration_ms=dict(each["durationMs"]))
            bench.say(f"Spark, {name}: p50 {statistics.median(found[name]):.0f} ms")
    return found


def _query(bench: Bench, spark: SparkSession, name: str, target: Path, rows: int) -> Any:
    import txlog

    txlog.Table.open(target).set_properties(VECTORS)
    source = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=BATCH_ROWS, numPartitions=1).load()
    changed = source.selectExpr(
        f"value * {_SCATTER} % {_num_keys(rows)} AS id",
        "value % 1000000 AS user_id",
        "CAST(value % 100 AS INT) AS quantity",
        "value / 7.0D AS price",
        "CAST(value AS FLOAT) AS score",
        "timestamp AS moment",
        "concat('customer ', value) AS name",
        "concat('note ', value * 7919) AS note",
        "value % 2 = 0 AS flag",
        "concat('p', value % 50) AS part",
    )
    checkpoints = bench.folder(f"spark-checkpoints-{name.split()[0]}")
    writer = changed.writeStream.option("checkpointLocation", str(checkpoints)).trigger(processingTime="0 seconds")
    if name == "append":
        return writer.format("txlog").start(str(target))
    if name == "upsert":
        return writer.format("txlog").option("upsertKeys", "id").start(str(target))

    def merge(batch: DataFrame, batch_id: int) -> None:
        batch.createOrReplaceTempView("changes")
        batch.sparkSession.sql(
            f"MERGE INTO delta.`{target}` t USING changes s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    return writer.foreachBatch(merge).start()
