"""The Spark jobs of a row change: they give parts of the table to tasks, and source rows to these parts.

In: files to change, or the numbers of the source rows that matched. Out: what the tasks report, a few hundred bytes
for each file. A small source is sent to every task as a whole. A large one is joined in Spark: tasks read the keys in
their files, Spark shuffles each source row to the parts that hold its key, and one task for each part changes its
files.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from txlog.expressions.predicates import Predicate
from txlog.protocol.actions import AddFile
from txlog.protocol.bitmaps import unpack
from txlog.protocol.schema import LONG, Field, Struct
from txlog.spark.errors import crossing
from txlog.spark.rows.part import NewRows, PartOutcome, PartSource, RowJob, change_part, keys_in_files, write_new_rows
from txlog.spark.rows.source import DATA, KEYS, NUMBER, part_source, typed_errors
from txlog.spark.rows.target import Extent
from txlog.spark.schema import spark_type
from txlog.util import ambient
from txlog.writer.keys import KeyColumn
from txlog.writer.write_plan import TaskIdentity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkJobs", "parts_of"]

_PART_BYTES = 32 << 20
_PARTS_MAX = 2_000
_OUTCOME = "outcome binary"
_CHUNK_ROWS = 1 << 17

Batches = Iterable[pa.RecordBatch]


class SparkJobs:
    """Runs the parts of one change in one session."""

    def __init__(self, spark: SparkSession, job: RowJob, source: tuple[DataFrame, Extent] | None) -> None:
        self._spark = spark
        self._job = job
        self._source = source

    def change(self, adds: Sequence[AddFile], elsewhere: bytes) -> list[PartOutcome]:
        """Change these files in Spark tasks.

        Args:
            adds: The files.
            elsewhere: A serialized bitmap, as for `change_part`.

        Raises:
            TxlogError: Whatever `change_part` raises in a task. Spark's own exceptions pass unchanged.
        """
        parts = [pickle.dumps(part) for part in parts_of(adds)]
        with typed_errors():
            few = None if self._source is None else self._source[1].few
            if self._source is None or few is not None:
                changing = _changing(self._job, parts, few, elsewhere)
                return _reported(self._numbers(len(parts)).mapInArrow(changing, _OUTCOME))
            return _reported(self._joined(parts, elsewhere, *self._source))

    def write_new_rows(self, matched: bytes, *, with_change_files: bool) -> list[NewRows]:
        """Write the rows that the source adds, given the numbers of the source rows that match."""
        assert self._source is not None
        with typed_errors():
            rows = self._source[0].select(NUMBER, DATA)
            writing = _writing(self._job, matched, ambient.uuid4(), with_change_files=with_change_files)
            return _reported(rows.mapInArrow(writing, _OUTCOME))

    def _joined(self, parts: list[bytes], elsewhere: bytes, rows: DataFrame, extent: Extent) -> DataFrame:
        """The outcomes of all parts, each changed with the source rows whose keys are in its files."""
        keys = extent.shape.table_keys
        within = None if extent.spec.reads_every_file else extent.key_range(self._job.state())
        keyed = Struct(tuple(Field(f"k{at}", key.type) for at, key in enumerate(keys)))
        there = self._numbers(len(parts)).mapInArrow(
            _reading_keys(self._job, parts, keys, within),
            spark_type(Struct((Field("part", LONG), Field(KEYS, keyed)))),
        )
        joined = rows.join(there, KEYS).select("part", NUMBER, DATA)
        if extent.spec.reads_every_file:
            every = self._numbers(len(parts)).withColumnRenamed("id", "part")
            joined = joined.unionByName(every, allowMissingColumns=True)
        # Spark keeps an explicit number of partitions. It would merge some of them by the shuffled bytes, which do not
        # show how much work a part is.
        spread = joined.repartition(len(parts), "part")
        return spread.groupBy("part").applyInArrow(_changing_joined(self._job, parts, elsewhere), _OUTCOME)

    def _numbers(self, count: int) -> DataFrame:
        """The numbers of the parts, each in a task of its own."""
        return self._spark.range(0, count, 1, count)


def parts_of(adds: Sequence[AddFile]) -> list[list[AddFile]]:
    """Split the files into parts of about equal size, in their order."""
    size = max(_PART_BYTES, sum(add.size for add in adds) // _PARTS_MAX)
    parts: list[list[AddFile]] = []
    left = 0
    for add in adds:
        if not parts or left < add.size:
            parts.append([])
            left = size
        parts[-1].append(add)
        left -= add.size
    return parts


# --- in tasks -------------------------------------------------------------------------------------------------------


def _changing(
    job: RowJob, parts: list[bytes], few: PartSource | None, elsewhere: bytes
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def change(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with crossing():
                    outcome = change_part(job, job.store(), pickle.loads(parts[number]), few, elsewhere)
                yield pa.RecordBatch.from_arrays(_report(outcome), names=["outcome"])

    return change


def _changing_joined(job: RowJob, parts: list[bytes], elsewhere: bytes) -> Callable[[pa.Table], pa.Table]:
    def change(joined: pa.Table) -> pa.Table:
        with crossing():
            adds = pickle.loads(parts[joined.column("part")[0].as_py()])
            source = part_source(joined.filter(joined.column(NUMBER).is_valid()))
            outcome = change_part(job, job.store(), adds, source, elsewhere)
        return pa.table(_report(outcome), names=["outcome"])

    return change


def _reading_keys(
    job: RowJob, parts: list[bytes], keys: Sequence[KeyColumn], within: Predicate | None
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with crossing():
                    found = keys_in_files(job, job.store(), pickle.loads(parts[number]), keys, within)
                for start in range(0, len(found), _CHUNK_ROWS):
                    here = found.slice(start, _CHUNK_ROWS)
                    part = pa.repeat(pa.scalar(number, pa.int64()), len(here))
                    yield pa.RecordBatch.from_arrays([part, here], names=["part", KEYS])

    return read


def _writing(
    job: RowJob, matched: bytes, job_id: str, *, with_change_files: bool
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def write(batches: Batches) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        task = TaskIdentity(job_id, context.partitionId(), context.taskAttemptId())
        parts = (part_source(pa.Table.from_batches(chunk)) for chunk in _chunks(batches))
        with crossing():
            written = write_new_rows(
                job, job.store(), task, parts, unpack(matched), with_change_files=with_change_files
            )
        yield pa.RecordBatch.from_arrays(_report(written), names=["outcome"])

    return write


def _chunks(batches: Batches) -> Iterator[list[pa.RecordBatch]]:
    """Collect batches into lists of at least ``_CHUNK_ROWS`` rows: the operation is bound once for each list."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= _CHUNK_ROWS:
            yield waiting
            waiting = []
    if any(each.num_rows for each in waiting):
        yield waiting


def _report(outcome: PartOutcome | NewRows) -> list[pa.Array]:
    return [pa.array([zlib.compress(pickle.dumps(outcome), 1)], pa.binary())]


def _reported(outcomes: DataFrame) -> list[Any]:
    return [pickle.loads(zlib.decompress(bytes(row[0]))) for row in outcomes.collect()]
