"""A table's feed, streamed by Spark into copies: equal to the table at its end, whatever keys its versions moved.

The oracle is plain Python (`feed_programs`); Spark's own Delta reads the copies.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from feed_programs import SCHEMA, Program, rows_of

import txlog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize("mode", ["upsert", "retract"])
def test_a_stream_of_a_feed_keeps_a_copy_equal_to_the_table(
    spark: SparkSession, read_delta: Callable[..., DataFrame], tmp_path: Path, mode: str
) -> None:
    program = Program(str(tmp_path / "table"), 7)
    program.run(8)
    program.shift()
    program.mirror()
    feed = spark.readStream.format("txlog").option("readChangeFeed", "true").option("startingVersion", 1)
    frame = feed.load(program.table.uri).repartition(3, "id")
    query = (
        frame.writeStream.format("txlog")
        .option("upsertKeys", "id")
        .option("rowKindColumn", "_change_type")
        .option("changelogMode", mode)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "copy"))
    )
    query.awaitTermination()
    copy = txlog.Table.open(tmp_path / "copy")
    assert copy.snapshot().schema.names == SCHEMA.names, "the feed's own columns are not stored"
    assert rows_of(read_delta(copy.uri).toArrow()) == program.rows
    rows = program.table.changes(1).read_all().drop_columns(["_commit_version", "_commit_timestamp"])
    changes = spark.createDataFrame(rows)
    writer = changes.write.format("txlog").mode("append").option("upsertKeys", "id")
    with pytest.raises(Exception, match="a change data feed without _commit_version"):
        writer.option("rowKindColumn", "_change_type").save(copy.uri)
