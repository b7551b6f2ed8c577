"""`SparkWorkers`: a Spark session's executors as workers.

In: a function and its arguments, which are pickled. Out: its results. One Spark job runs all items, each in its own
task. Classic sessions and Spark Connect work alike.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pyarrow as pa

from txlog.spark.errors import crossing, typed_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["RESULT", "SparkWorkers", "packed", "unpacked"]

In = TypeVar("In")
Out = TypeVar("Out")

RESULT = "result binary"
"""The schema of the rows in which tasks report."""


class SparkWorkers(msgspec.Struct, frozen=True):
    """Implements ``Workers``. Results arrive when all tasks of the job have ended. Spark's own exceptions pass
    unchanged."""

    spark: SparkSession

    def map(self, work: Callable[[In], Out], items: Sequence[In]) -> Iterator[tuple[int, Out]]:
        if not items:
            return
        pickled = [pickle.dumps(item) for item in items]

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    with crossing():
                        result = work(pickle.loads(pickled[number]))
                    yield packed((number, result))

        with typed_errors():
            numbers = self.spark.range(0, len(items), 1, len(items))
            found = unpacked(numbers.mapInArrow(run, RESULT))
        yield from found


def packed(result: Any) -> pa.RecordBatch:
    """A result as the row that a task reports."""
    body = zlib.compress(pickle.dumps(result), 1)
    return pa.RecordBatch.from_arrays([pa.array([body], pa.binary())], names=["result"])


def unpacked(reports: DataFrame) -> list[Any]:
    """The results of all tasks. Runs the job."""
    return [pickle.loads(zlib.decompress(bytes(row[0]))) for row in reports.collect()]
