"""What `test_spark_s3` runs in its own process: Spark with Hadoop's S3A, whose jars must be there from the start.

In: a table's location in a bucket, and the settings of the session. Out: a line of JSON for each thing that was tried.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from spark_fixtures import INTERPRETED
from spark_jars import start_session

import txlog
import txlog.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 80
"""More than `txlog.spark.read` reads one by one."""
FEW = 6
"""For what takes a while with each of them."""


class Job:
    """What is tried with the table at ``uri``, which Spark reaches by Hadoop's settings alone."""

    def __init__(self, spark: SparkSession, uri: str, storage_options: dict[str, str]) -> None:
        self.spark = spark
        self.uri = uri
        self.storage_options = storage_options

    def run(self) -> Iterator[tuple[str, Any]]:
        """What each attempt found, one after the other."""
        self._made(self.uri, PARTITIONS)
        self._made(f"{self.uri}-few")
        tried: list[Callable[[], Any]] = [
            self.read,
            self.read_of_one_partition,
            self.read_of_an_older_version,
            self.read_of_a_path_with_a_space,
            self.source,
            self.source_without_options,
            self.write,
            self.stream,
            self.changes,
            self.settings_of_hadoop_alone,
        ]
        for each in tried:
            yield each.__name__, each()

    def read(self) -> Any:
        frames = [txlog.spark.read(self.spark, uri) for uri in (self.uri, self.uri.replace("s3://", "s3a://"))]
        return [[is_native(frame), rows_of(frame)] for frame in frames]

    def read_of_one_partition(self) -> Any:
        frame = txlog.spark.read(self.spark, self.uri, where="day = 7")
        return [is_native(frame), rows_of(frame)]

    def read_of_an_older_version(self) -> Any:
        return rows_of(txlog.spark.read(self.spark, self.uri, version=1))

    def read_of_a_path_with_a_space(self) -> Any:
        spaced = self._made(f"{self.uri} again")
        frame = txlog.spark.read(self.spark, spaced.uri)
        return [is_native(frame), rows_of(frame)]

    def source(self) -> Any:
        options = txlog.spark.storage_options(self.spark)
        return rows_of(self.spark.read.format("txlog").options(**options).load(f"{self.uri}-few"))

    def source_without_options(self) -> Any:
        try:
            self.spark.read.format("txlog").option("storage.max_retries", 0).load(self.uri).collect()
        except Exception as error:
            found = txlog.spark.error_from(error)
            return None if found is None else [found.kind, found.message]

    def write(self) -> Any:
        target = f"{self.uri}-copy"
        frame, options = txlog.spark.read(self.spark, f"{self.uri}-few"), txlog.spark.storage_options(self.spark)
        for mode in ("append", "overwrite"):
            writer = frame.write.format("txlog").mode(mode).options(partitionBy="day", **options)
            writer.save(target.replace("s3://", "s3a://"))
        return rows_of(txlog.spark.read(self.spark, target))

    def stream(self) -> Any:
        target, counted = f"{self.uri}-stream", f"{self.uri}-each"
        options = txlog.spark.storage_options(self.spark)
        frame = self.spark.readStream.format("txlog").options(**options).load(f"{self.uri}-few")
        place = Path.cwd().as_uri()  # Hadoop makes folders in a bucket by keys that not every server here knows
        sink = frame.writeStream.format("txlog").options(**options, checkpointLocation=f"{place}/sink")
        each = frame.writeStream.foreachBatch(txlog.spark.foreach_batch(s3a(counted), app_id="each"))
        each = each.option("checkpointLocation", f"{place}/each")
        queries = [sink.trigger(availableNow=True).start(target), each.trigger(availableNow=True).start()]
        for query in queries:
            query.awaitTermination()
        return [rows_of(txlog.spark.read(self.spark, each)) for each in (target, counted)]

    def changes(self) -> Any:
        """Rows that Spark's tasks change, in a copy."""
        target = self._made(f"{self.uri}-changed").uri
        txlog.spark.delete(self.spark, target, "day = 3")
        txlog.spark.update(self.spark, s3a(target), {"number": txlog.expr("number + 1000")}, "day = 4")
        return rows_of(txlog.spark.read(self.spark, target))

    def settings_of_hadoop_alone(self) -> Any:
        """Settings that a program gave to Hadoop's configuration, which the session does not list."""
        configuration = self.spark.sparkContext._jsc.hadoopConfiguration()
        configuration.set("fs.s3a.bucket.other.access.key", "of that bucket")
        found = txlog.spark.storage_options(self.spark, "s3a://other/t")
        return [found["storage.access_key_id"], txlog.spark.storage_options(self.spark)["storage.access_key_id"]]

    def _made(self, uri: str, partitions: int = FEW) -> txlog.Table:
        """Renamed columns, and a deleted row in each third partition."""
        properties = {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"}
        schema = pa.schema({"number": pa.int64(), "day": pa.int32()})
        table = txlog.Table.create(uri, schema, ["day"], properties, storage_options=self.storage_options)
        days = pa.array([at % partitions for at in range(4 * partitions)], pa.int32())
        table.append(pa.table({"number": range(4 * partitions), "day": days}, schema=schema))
        table.delete(f"number < {partitions} and day % 3 = 0")
        return table


def s3a(uri: str) -> str:
    return uri.replace("s3://", "s3a://")


def is_native(frame: DataFrame) -> bool:
    return "MapInArrow" not in str(frame._jdf.queryExecution().toString())


def rows_of(frame: DataFrame) -> list[list[int]]:
    return sorted([row.number, row.day] for row in frame.collect())


def main(uri: str, storage_options: dict[str, str], settings: dict[str, str]) -> None:
    from pyspark.sql import SparkSession

    spark = start_session(SparkSession.builder.master("local[2]").config(map={**settings, **INTERPRETED}))
    spark.sparkContext.setLogLevel("OFF")
    for name, found in Job(spark, uri, storage_options).run():
        print(json.dumps({"tried": name, "found": found}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], *map(json.loads, sys.argv[2:]))
