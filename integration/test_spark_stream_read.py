"""``spark.readStream.format("txlog")``: a stream from a table, compared with Delta's own source and in exchange with
it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from spark_helpers import as_rows, own_rows, refused

import txlog
import txlog.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string()})
PROPERTIES = {
    "delta.enableDeletionVectors": "true",
    "delta.columnMapping.mode": "name",
    "delta.enableChangeDataFeed": "true",
}


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "p": [f"p{each % 2}" for each in ids]}, schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    """Versions 1 and 2 add ids 0 to 3 and 4 to 7, in two partitions each; version 3 deletes id 2 by a vector."""
    table = txlog.Table.create(tmp_path / "t", SCHEMA, ["p"], PROPERTIES)
    table.append(rows_of(0, 1, 2, 3))
    table.append(rows_of(4, 5, 6, 7))
    table.delete("id = 2")
    return table


class Stream:
    """A stream from a table into another one, with one checkpoint, whichever source reads it."""

    def __init__(self, spark: SparkSession, table: txlog.Table, name: str, **options: Any) -> None:
        self.spark = spark
        self.table = table
        self.options = options
        self.target = Path(table.uri).parent / name
        self.checkpoint = Path(table.uri).parent / f"{name} checkpoint"

    def run(self, source: str = "txlog", **options: Any) -> list[dict[str, Any]]:
        """Read all that there is now, by Trigger.AvailableNow; the progress of each batch."""
        frame = self.spark.readStream.format(source).options(**self.options, **options).load(self.table.uri)
        writer = frame.writeStream.format("txlog").option("checkpointLocation", str(self.checkpoint))
        query = writer.trigger(availableNow=True).start(str(self.target))
        assert query.awaitTermination(120)
        return [each for each in query.recentProgress if each["numInputRows"]]

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in own_rows(self.target))


def test_a_stream_reads_what_is_there_then_what_is_added_within_its_limits_and_after_restarts(
    spark: SparkSession, table: txlog.Table
) -> None:
    stream = Stream(spark, table, "copy", maxFilesPerTrigger=3)
    assert [each["numInputRows"] for each in stream.run()] in ([5, 2], [6, 1])
    assert stream.ids() == [0, 1, 3, 4, 5, 6, 7]
    table.append(rows_of(8, 9))
    table.optimize()
    table.append(rows_of(10))
    progress = stream.run(maxBytesPerTrigger=1)
    assert [each["numInputRows"] for each in progress] == [1, 1, 1]
    assert stream.ids() == [0, 1, 3, 4, 5, 6, 7, 8, 9, 10]
    assert as_rows(spark.read.format("txlog").load(str(stream.target))) == as_rows(txlog.spark.read(spark, table.uri))


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize("first", ["delta", "txlog"])
def test_a_checkpoint_moves_between_deltas_source_and_txlogs(
    first: str, delta: SparkSession, table: txlog.Table
) -> None:
    """In the middle of the snapshot, in the middle of a version, and at the end."""
    other = "txlog" if first == "delta" else "delta"
    stream = Stream(delta, table, "copy", maxFilesPerTrigger=1)
    for number, source in enumerate((first, other, first)):
        query = start_slowly(stream, source)
        try:
            query.processAllAvailable() if number == 2 else wait_for_batches(query, 2)
        finally:
            query.stop()
        if number < 2:
            table.append(rows_of(*range(10 * number + 10, 10 * number + 14)))
    assert stream.ids() == [0, 1, 3, 4, 5, 6, 7, *range(10, 14), *range(20, 24)]


def start_slowly(stream: Stream, source: str) -> Any:
    """A query that has a moment between its batches in which it can be stopped."""
    frame = stream.spark.readStream.format(source).options(**stream.options).load(stream.table.uri)
    writer = frame.writeStream.format("txlog").option("checkpointLocation", str(stream.checkpoint))
    return writer.trigger(processingTime="300 milliseconds").start(str(stream.target))


def wait_for_batches(query: Any, count: int) -> None:
    for _ in range(1200):
        if query.exception() is not None:
            raise query.exception()
        if len([each for each in query.recentProgress if each["numInputRows"]]) >= count:
            return
        time.sleep(0.05)
    raise AssertionError("the stream made no progress")


@pytest.mark.hunt(part="spark")
def test_every_option_gives_the_rows_that_deltas_source_gives(delta: SparkSession, table: txlog.Table) -> None:
    table.update({"id": txlog.expr("id + 100")}, "p = 'p1'")
    table.append(rows_of(8, 9))
    table.delete("p = 'p0'")
    options: dict[str, dict[str, Any]] = {
        "changes": {"ignoreChanges": "true", "startingVersion": 1},
        "skipped": {"skipChangeCommits": "true", "startingVersion": 0},
        "deletes": {"ignoreDeletes": "true", "startingVersion": 5},
        "feed": {"readChangeFeed": "true", "startingVersion": 1, "maxFilesPerTrigger": 2},
        "snapshot": {"readChangeFeed": "true"},
    }
    for name, given in options.items():
        found = {}
        for source in ("txlog", "delta"):
            frame = delta.readStream.format(source).options(**given).load(table.uri)
            query = frame.writeStream.format("memory").queryName(f"{name}_{source}").trigger(availableNow=True).start()
            assert query.awaitTermination(120)
            found[source] = as_rows(delta.table(f"{name}_{source}"))
        assert found["txlog"] == found["delta"] != []


@pytest.mark.hunt(part="spark")
def test_a_schema_change_stops_a_stream_with_a_typed_error_and_a_restart_continues(
    spark: SparkSession, table: txlog.Table
) -> None:
    stream = Stream(spark, table, "copy")
    frame = spark.readStream.format("txlog").load(table.uri)
    writer = frame.writeStream.format("txlog").option("checkpointLocation", str(stream.checkpoint))
    query = writer.start(str(stream.target))
    try:
        query.processAllAvailable()
        table.append(rows_of(8))
        table.add_columns(pa.schema({"new": pa.int32()}))
        error = refused(lambda: query.awaitTermination(120))
    finally:
        query.stop()
    assert isinstance(error, txlog.SchemaMismatchError)
    assert error.version == 5
    stream_of_more = spark.readStream.format("txlog").load(table.uri)
    writer = stream_of_more.writeStream.format("txlog").option("checkpointLocation", str(stream.checkpoint))
    query = writer.option("mergeSchema", "true").trigger(availableNow=True).start(str(stream.target))
    assert query.awaitTermination(120)
    assert stream.ids() == [0, 1, 3, 4, 5, 6, 7, 8]
    table.delete("id = 8")
    error = refused(stream.run)
    assert isinstance(error, txlog.InvalidInputError)
    assert "skipChangeCommits" in error.message
