"""A source that Spark holds: it gives each part of the table the source rows whose keys are in the part's files, and
without keys every source row.

In: a materialised DataFrame, and files to change. Out: what the tasks report, a few hundred bytes for each file. Tasks
read the keys in their files, Spark shuffles each source row to the parts that hold its key, and one task for each part
changes its files.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from txlog.core import ambient
from txlog.core.changes.plan import SourceSummary
from txlog.core.changes.tasks import NewRows, PartOutcome, RowJob, change_part, keys_in_files, write_new_rows
from txlog.core.format.actions import AddFile
from txlog.core.format.bitmaps import unpack
from txlog.core.format.schema import LONG, Field, Struct
from txlog.core.predicates.terms.predicate import Predicate
from txlog.core.row_rules import KeyColumn
from txlog.core.writing import TaskIdentity
from txlog.spark.errors import crossing, typed_errors
from txlog.spark.rows.source import DATA, KEYS, NUMBER, part_source
from txlog.spark.schema import spark_type
from txlog.spark.spark_workers import RESULT, packed, unpacked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHUNK_ROWS = 1 << 17

Batches = Iterable[pa.RecordBatch]


class SparkSource(msgspec.Struct, frozen=True):
    """Implements ``SpreadSource``. ``rows`` comes from `prepare_source`. Raises what a task raises; Spark's own
    exceptions pass unchanged."""

    spark: SparkSession
    rows: DataFrame
    extent: SourceSummary

    def change(self, job: RowJob, parts: Sequence[Sequence[AddFile]], elsewhere: bytes) -> list[PartOutcome]:
        pickled = [pickle.dumps(part) for part in parts]
        extent = self.extent
        keys = extent.shape.table_keys
        within = None if extent.spec.reads_every_file else extent.key_range(job.table)
        keyed = Struct(tuple(Field(f"k{at}", key.type) for at, key in enumerate(keys)))
        with typed_errors():
            every = self._numbers(len(parts)).withColumnRenamed("id", "part")
            if keys:
                there = self._numbers(len(parts)).mapInArrow(
                    _reading_keys(job, pickled, keys, within),
                    spark_type(Struct((Field("part", LONG), Field(KEYS, keyed)))),
                )
                joined = self.rows.join(there, KEYS)
            else:
                joined = self.rows.crossJoin(every)
            joined = joined.select("part", NUMBER, DATA)
            if extent.spec.reads_every_file:
                joined = joined.unionByName(every, allowMissingColumns=True)
            # Spark keeps an explicit number of partitions. Otherwise it would merge some by their shuffled bytes, which
            # do not show how much work a part is.
            spread = joined.repartition(len(parts), "part")
            return unpacked(spread.groupBy("part").applyInArrow(_changing(job, pickled, elsewhere), RESULT))

    def write_new_rows(self, job: RowJob, matched: bytes, *, with_change_files: bool) -> list[NewRows]:
        with typed_errors():
            rows = self.rows.select(NUMBER, DATA)
            writing = _writing(job, matched, ambient.uuid4(), with_change_files=with_change_files)
            return unpacked(rows.mapInArrow(writing, RESULT))

    def _numbers(self, count: int) -> DataFrame:
        """The numbers of the parts, each in its own task."""
        return self.spark.range(0, count, 1, count)


# --- in tasks -------------------------------------------------------------------------------------------------------


def _changing(job: RowJob, parts: list[bytes], elsewhere: bytes) -> Callable[[pa.Table], pa.Table]:
    def change(joined: pa.Table) -> pa.Table:
        with crossing():
            adds = pickle.loads(parts[joined.column("part")[0].as_py()])
            source = part_source(joined.filter(joined.column(NUMBER).is_valid()))
            outcome = change_part(job, job.table.files, adds, source, elsewhere)
        return pa.Table.from_batches([packed(outcome)])

    return change


def _reading_keys(
    job: RowJob, parts: list[bytes], keys: Sequence[KeyColumn], within: Predicate | None
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with crossing():
                    found = keys_in_files(job, job.table.files, pickle.loads(parts[number]), keys, within)
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
        numbers = (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
        task = TaskIdentity(job_id, *numbers)
        parts = (part_source(pa.Table.from_batches(chunk)) for chunk in _chunks(batches))
        with crossing():
            written = write_new_rows(
                job, job.table.files, task, parts, unpack(matched), with_change_files=with_change_files
            )
        yield packed(written)

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
