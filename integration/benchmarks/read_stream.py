"""Following a table as a stream: ``readStream.format("txlog")`` compared with Spark's own Delta source.

One table of many small versions, read in micro-batches of a few files each, and one of large files, read as a single
batch. The sink is `noop`, so a batch's time is the source's: offsets, planning and the rows of its files. It is what
Spark itself reports for the whole batch (``durationMs.triggerExecution``). A query ends when it has read the table.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import txlog
from benchmarks.measure import Bench, markdown_table
from benchmarks.reading import many_columns
from benchmarks.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TITLE = "Following a table as a stream"

SOURCES = ("delta", "txlog")
FILES_OF_A_BATCH = 10


def run(bench: Bench) -> str:
    versions, rows_of_version = bench.scale((200, 1_000), (20, 100))
    large_files, rows_of_file = bench.scale((4, 2_500_000), (2, 1_000))
    rounds = bench.scale(5, 1)
    small = _made(bench, "small", versions, rows_of_version)
    large = _made(bench, "large", large_files, rows_of_file)
    with session(bench) as spark:
        batches = _in_turns(bench, spark, small, rounds, FILES_OF_A_BATCH)
        whole = _in_turns(bench, spark, large, rounds, 1_000_000)
    large_rows = large_files * rows_of_file
    return (
        f"{_of_batches(batches)}\n\n{versions} versions of one file and {rows_of_version:,} rows,"
        f" {FILES_OF_A_BATCH} files a batch; {rounds} queries each, alternating, without the first batch of each.\n\n"
        f"{_of_whole(whole, large_rows)}\n\nAll {large_rows:,} rows of 9 columns as one batch; {rounds} queries each."
    )


def _made(bench: Bench, name: str, versions: int, rows: int) -> Path:
    """A table of ``versions`` appends, one file each."""
    path = bench.folder(f"read-stream-{name}")
    table = txlog.Table.create(path, many_columns(0, 1).schema)
    for version in range(versions):
        table.append(many_columns(version * rows, rows))
    return path


def _in_turns(bench: Bench, spark: SparkSession, path: Path, rounds: int, files: int) -> dict[str, list[list[float]]]:
    """For each source and round, the milliseconds of every batch. Each source's first query does not count."""
    found: dict[str, list[list[float]]] = {source: [] for source in SOURCES}
    for turn in range(-1, rounds):
        for source in SOURCES[turn % 2 :] + SOURCES[: turn % 2]:
            took_ms = _batches_of(bench, spark, source, path, turn, files)
            if turn >= 0:
                found[source].append(took_ms)
    if len({len(took_ms) for queries in found.values() for took_ms in queries}) != 1:
        raise RuntimeError(f"the sources took different numbers of batches: {found}")
    return found


def _batches_of(bench: Bench, spark: SparkSession, source: str, path: Path, turn: int, files: int) -> list[float]:
    checkpoint = bench.folder(f"read-stream-checkpoint-{path.name}-{turn}-{source}")
    rows = spark.readStream.format(source).option("maxFilesPerTrigger", str(files)).load(str(path))
    seen = rows.observe("seen", *_seen())
    writer = seen.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = writer.start()
    if not query.awaitTermination(600):
        query.stop()
        raise RuntimeError(f"{source} has not read {path} in ten minutes")
    counted = [each for each in query.recentProgress if "seen" in each["observedMetrics"]]
    _check(path, counted)
    for each in counted:
        bench.record(source=source, path=path.name, round=turn, duration_ms=dict(each["durationMs"]))
    return [float(each["durationMs"]["triggerExecution"]) for each in counted]


def _seen() -> list[Any]:
    from pyspark.sql import functions as F

    return [F.count(F.lit(1)).alias("rows"), F.sum("id").alias("ids")]


def _check(path: Path, batches: list[Any]) -> None:
    """Check that each row of the table was in one batch."""
    ids = txlog.Table.open(path).to_arrow(columns=["id"])["id"].to_numpy()
    seen = [each["observedMetrics"]["seen"] for each in batches]
    found = (sum(each["rows"] for each in seen), sum(each["ids"] or 0 for each in seen))
    if found != (len(ids), int(ids.sum())):
        raise RuntimeError(f"{found} are the number and sum of the ids that were read from {path}")


def _of_batches(found: dict[str, list[list[float]]]) -> str:
    batch_ms = {
        source: statistics.median(ms for query in queries for ms in query[1:]) for source, queries in found.items()
    }
    lines = []
    for source, queries in found.items():
        whole_s = statistics.median(sum(query) for query in queries) / 1e3
        ratio = f"{batch_ms[source] / batch_ms['delta']:.2f}"
        lines.append((source, len(queries[0]), f"{batch_ms[source]:.0f}", ratio, f"{whole_s:.1f}"))
    return markdown_table(["source", "batches", "p50 of a batch, ms", "time : Delta's", "all batches, s"], lines)


def _of_whole(found: dict[str, list[list[float]]], rows: int) -> str:
    whole_ms = {source: statistics.median(sum(query) for query in queries) for source, queries in found.items()}
    lines = [
        (
            source,
            f"{took_ms:.0f}",
            f"{rows / took_ms * 1e3:,.0f}",
            f"{took_ms / whole_ms['delta']:.2f}",
        )
        for source, took_ms in whole_ms.items()
    ]
    return markdown_table(["source", "one large batch, ms", "rows/s", "time : Delta's"], lines)
