"""A Python data source that reads nothing: each of its tasks passes one ready Arrow batch to Spark, again and again.

No data source in Python can be faster than this one, for the same columns: what it takes is the way from Spark's Python
workers into Spark's rows. It is the floor in the table of `benchmarks.reading`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

NAME = "ready_batches"


def ready_batches(spark: SparkSession, batch: pa.RecordBatch, rows: int, tasks: int, file: Path) -> DataFrame:
    """A frame of ``rows`` rows that repeats a batch, which is kept in ``file``, evenly in all tasks.

    Raises:
        ValueError: The rows cannot be spread evenly.
    """
    times, rest = divmod(rows, batch.num_rows * tasks)
    if rest:
        raise ValueError(f"{rows} rows are no multiple of {tasks} tasks with batches of {batch.num_rows} rows")
    with pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
    spark.dataSource.register(ReadyBatches)
    options = {"times": str(times), "tasks": str(tasks)}
    return spark.read.format(NAME).options(**options).load(str(file))


class ReadyBatches(DataSource):
    """The source; its options are those that `ready_batches` sets."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(_batch(self.options["path"]).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(self.options["path"], int(self.options["times"]), int(self.options["tasks"]))


class _Reader(DataSourceReader):
    def __init__(self, file: str, times: int, tasks: int) -> None:
        self._file = file
        self._times = times
        self._tasks = tasks

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        batch = _batch(self._file)
        return (batch for _ in range(self._times))


def _batch(file: str) -> pa.RecordBatch:
    return pa.ipc.open_file(pa.memory_map(file)).get_batch(0)
