"""A typical scheduled Spark application: it writes, and its last line comes right after its last commit.

In: tables as JSON, each with the kind of work, its location and its storage options; a folder with a Parquet file of
rows for each micro-batch. Out: nothing but the commits and what follows them. Neither a query nor the session is ended.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import txlog.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["WAYS"]


def batch(spark: SparkSession, uri: str, options: dict[str, str], folder: str) -> None:
    spark.read.parquet(f"{folder}/1.parquet").write.format("txlog").mode("append").options(**options).save(uri)


def stream(spark: SparkSession, uri: str, options: dict[str, str], folder: str) -> None:
    """One micro-batch."""
    _stream(spark, uri, options, folder, files_a_batch=2)


def stream_of_batches(spark: SparkSession, uri: str, options: dict[str, str], folder: str) -> None:
    """Two micro-batches: after the second, Spark ends the worker that committed it whenever it likes."""
    _stream(spark, uri, options, folder, files_a_batch=1)


def foreach_batch(spark: SparkSession, uri: str, options: dict[str, str], folder: str) -> None:
    write = txlog.spark.foreach_batch(uri, options=options)
    rows = spark.readStream.schema("id BIGINT").parquet(folder)
    to = rows.writeStream.foreachBatch(write).option("checkpointLocation", f"{folder}-{hash(uri)}-each")
    to.trigger(availableNow=True).start().awaitTermination()


def delete(spark: SparkSession, uri: str, options: dict[str, str], folder: str) -> None:
    stored = {name.removeprefix("storage."): value for name, value in options.items()}
    txlog.spark.delete(spark, uri, "id = 1", storage_options=stored)


def _stream(spark: SparkSession, uri: str, options: dict[str, str], folder: str, *, files_a_batch: int) -> None:
    rows = spark.readStream.schema("id BIGINT").option("maxFilesPerTrigger", files_a_batch).parquet(folder)
    place = f"{folder}-{hash(uri)}-{files_a_batch}"
    to = rows.writeStream.format("txlog").options(**options, checkpointLocation=place)
    to.trigger(availableNow=True).start(uri).awaitTermination()


WAYS = (stream_of_batches, stream, foreach_batch, batch, delete)


def main(tables: list[tuple[str, str, dict[str, str]]], folder: str) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for way, uri, stored in tables:
        globals()[way](spark, uri, {f"storage.{name}": value for name, value in stored.items()}, folder)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2])
