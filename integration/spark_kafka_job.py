"""What `test_spark_kafka` has a Spark session of its own do: events into a topic, and by Kafka's source into tables.

    python integration/spark_kafka_job.py ADDRESS FOLDER SETTINGS

Each line of its input is a batch of events, as JSON: a list of keys and values, of which a value may be null. When a
batch is in the tables, it prints a line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pages import blocks
from spark_fixtures import INTERPRETED
from spark_jars import start_session

import txlog
import txlog.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TOPIC = "shop.public.orders"


def produce(spark: SparkSession, address: str, events: list[tuple[str | None, str | None]]) -> None:
    """Send messages in this order."""
    frame = spark.createDataFrame(events, "key string, value string").coalesce(1)
    frame.write.format("kafka").option("kafka.bootstrap.servers", address).option("topic", _TOPIC).save()


def follow_as_the_page_says(spark: SparkSession, address: str, folder: Path) -> None:
    """Run the program of the page until it has all that is in the topic, two messages at a time."""
    *_, program = blocks("docs/mirror.md")
    for place, own in (
        ("broker:9092", address),
        ("s3://bucket", str(folder)),
        ("/checkpoints", str(folder / "checkpoints")),
        (".load()", '.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 2).load()'),
        (".start()", ".trigger(availableNow=True).start().awaitTermination()"),
    ):
        assert place in program
        program = program.replace(place, own)
    exec(program, {"spark": spark, "txlog": txlog})


def follow_with_history(spark: SparkSession, address: str, folder: Path) -> None:
    """The same with every row that a key had, in the order of the database."""
    events = spark.readStream.format("kafka").option("kafka.bootstrap.servers", address).option("subscribe", _TOPIC)
    events = events.option("startingOffsets", "earliest").load()
    how: dict[str, Any] = {"sequence_by": "source.lsn", "stored_as_scd_type": 2}
    changes = txlog.spark.apply_changes(events, str(folder / "history"), ["id"], **how)
    changes = changes.option("checkpointLocation", str(folder / "checkpoints" / "history"))
    changes.trigger(availableNow=True).start().awaitTermination()


def main(address: str, folder: Path, settings: dict[str, str]) -> None:
    from pyspark.sql import SparkSession

    spark = start_session(SparkSession.builder.master("local[2]").config(map={**settings, **INTERPRETED}))
    spark.sparkContext.setLogLevel("OFF")
    for line in sys.stdin:
        produce(spark, address, json.loads(line))
        follow_as_the_page_says(spark, address, folder)
        follow_with_history(spark, address, folder)
        print("done", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))
