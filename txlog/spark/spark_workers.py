"""`SparkWorkers`: a Spark session's executors as workers.

In: a function and its arguments, which are pickled. Out: its results. One Spark job runs all items, each in its own
task; a second stage gets what the tasks exchange. Classic sessions and Spark Connect work alike.
"""

from __future__ import annotations

import contextlib
import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pyarrow as pa

from txlog.spark.errors import crossing, typed_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from txlog.core.workers import Piece

In = TypeVar("In")
Out = TypeVar("Out")

_UNKNOWN_SLOTS = 32
CLOSURE_BYTES = 8 << 20

RESULT = "result binary"
"""The schema of the rows in which tasks report."""


class SparkWorkers(msgspec.Struct, frozen=True):
    """Implements ``Workers``. Results arrive when all tasks of the job have ended. Spark's own exceptions pass
    unchanged."""

    spark: SparkSession

    @property
    def crosses(self) -> bool:
        return True

    @property
    def shares_disk(self) -> bool:
        return False

    @property
    def slots(self) -> int:
        """The session's default parallelism, which Connect does not show."""
        with contextlib.suppress(Exception):
            return max(1, int(self.spark.sparkContext.defaultParallelism))
        return _UNKNOWN_SLOTS

    def map(self, work: Callable[[In], Out], items: Sequence[In]) -> Iterator[tuple[int, Out]]:
        if not items:
            return

        def run(number: int, item: In) -> Iterator[pa.RecordBatch]:
            yield packed((number, work(item)))

        with typed_errors():
            found = unpacked(self._tasks(run, items, RESULT))
        yield from found

    def shuffle(
        self,
        route: Callable[[In], Iterator[Piece]],
        items: Sequence[In],
        reduce: Callable[[int, Iterable[Piece]], Out],
        groups: int,
    ) -> Iterator[tuple[int, Out]]:
        """Implements ``ShufflingWorkers``: Spark's shuffle moves the pieces, so no row in them is converted."""
        if not items:
            return

        def routed(number: int, item: In) -> Iterator[pa.RecordBatch]:
            for group, order, body in route(item):
                columns = [pa.array([group], pa.int64()), pa.array([order], pa.int64()), pa.array([body], pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, names=["group", "order", "body"])

        def gathered(pieces: pa.Table) -> pa.Table:
            rows = zip(*(pieces.column(name).to_pylist() for name in ("group", "order", "body")), strict=True)
            found = sorted(rows, key=itemgetter(1))
            with crossing():
                result = reduce(found[0][0], found)
            return pa.Table.from_batches([packed((found[0][0], result))])

        with typed_errors():
            pieces = self._tasks(routed, items, "group bigint, order bigint, body binary")
            # Spark keeps an explicit number of partitions, so each group is a task's work.
            spread = pieces.repartition(groups, "group")
            done = unpacked(spread.groupBy("group").applyInArrow(gathered, RESULT))
        yield from done

    def _tasks(
        self, run: Callable[[int, Any], Iterator[pa.RecordBatch]], items: Sequence[Any], schema: str
    ) -> DataFrame:
        """The rows that ``run`` makes of the number of each item and the item, each in a task of its own."""
        pickled = [pickle.dumps(item) for item in items]
        numbers = self.spark.range(0, len(items), 1, len(items))
        if sum(map(len, pickled)) > CLOSURE_BYTES:
            # Every Python worker would get all of them; so the JVM holds them, and each task gets its own.
            bodies = self.spark.createDataFrame(pa.table({"id": range(len(items)), "item": pa.array(pickled)}))
            numbers = numbers.join(bodies.hint("broadcast"), "id").select("id", "item")
            pickled = []

        def each(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                own = batch.column(1).to_pylist() if batch.num_columns > 1 else None
                for at, number in enumerate(batch.column(0).to_pylist()):
                    item = pickle.loads(pickled[number] if own is None else own[at])
                    with crossing():
                        yield from run(number, item)

        return numbers.mapInArrow(each, schema)


def packed(result: Any) -> pa.RecordBatch:
    """A result as the row that a task reports."""
    body = zlib.compress(pickle.dumps(result), 1)
    return pa.RecordBatch.from_arrays([pa.array([body], pa.binary())], names=["result"])


def unpacked(reports: DataFrame) -> list[Any]:
    """The results of all tasks. Runs the job."""
    return [pickle.loads(zlib.decompress(bytes(row[0]))) for row in reports.collect()]
