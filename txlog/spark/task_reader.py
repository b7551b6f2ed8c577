"""Scan tasks read in Spark's Python workers, for the data source and for files that Spark's own reader must not have.

In: tasks, a location and storage options. Out: record batches of exactly the types that Spark expects. Nothing here
can reach the log.
"""

from __future__ import annotations

import heapq
import inspect
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa

from txlog.read.scan_task import ScanTask, TaskReader
from txlog.spark.errors import crossing
from txlog.store.open import open_store

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from txlog.spark.stream_log import ChangeTask

__all__ = ["PickledTasks", "balanced", "dealt", "read_change_tasks", "read_tasks", "spark_arrow_schema"]

_PARTITION_BYTES = 16 << 20
_PARTITIONS_MIN, _PARTITIONS_MAX = 4, 256
_OPEN_BYTES = 256 << 10
"""Opening a file takes about as long as reading this much, where opens take requests."""
_SHARE_BYTES = 32 << 20
"""Files of twice this size are read by several tasks. A share costs an open and the reading of the footer."""


class _Task(Protocol):
    @property
    def size_bytes(self) -> int: ...


AnyTask = TypeVar("AnyTask", bound=_Task)


def read_tasks(
    path: str, storage_options: Mapping[str, str], tasks: Sequence[ScanTask], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows of the tasks, all of one selection, as ``schema``.

    Raises:
        TxlogErrorInSpark: Whatever `TaskReader.batches` raises, as `crossing` wraps it.
    """
    if not tasks:
        return
    with crossing():
        reader = TaskReader(open_store(path, storage_options), tasks[0].selection)
        for task in tasks:
            for batch in reader.batches(task):
                yield _as_spark_wants(batch, schema)


def read_change_tasks(
    path: str, storage_options: Mapping[str, str], tasks: Sequence[ChangeTask], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The changes of the tasks, all of one stream, as ``schema``.

    Raises:
        TxlogErrorInSpark: Whatever ``ChangeReader.batches`` raises, as `crossing` wraps it.
    """
    from txlog.read.change_rows import ChangeReader

    with crossing():
        first = tasks[0]
        reader = ChangeReader(open_store(path, storage_options), first.table, first.fields, first.predicate)
        for task in tasks:
            for batch in reader.batches(task.changes):
                yield _as_spark_wants(batch, schema)


def _as_spark_wants(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same columns under Spark's names and types, which differ at most in case and in which parts may be null."""
    if not len(schema):
        return batch
    columns = [column.cast(each.type) for column, each in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class PickledTasks:
    """A function for ``mapInArrow``: rows of one binary column, each a pickled list of tasks, to the tasks' rows."""

    def __init__(self, path: str, storage_options: Mapping[str, str], schema: StructType) -> None:
        self._path = path
        self._storage_options = dict(storage_options)
        self._schema = schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = spark_arrow_schema(self._schema)
        for batch in batches:
            for body in batch.column(0).to_pylist():
                yield from read_tasks(self._path, self._storage_options, pickle.loads(body), schema)


def spark_arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark wants from a Python worker for its own ``schema``."""
    from pyspark.sql.pandas import types

    # pyspark 4.1 has no such argument: its timestamps are in UTC.
    has_timezone = "timezone" in inspect.signature(types.to_arrow_schema).parameters
    return types.to_arrow_schema(schema, **({"timezone": "UTC"} if has_timezone else {}))


def dealt(tasks: Sequence[AnyTask], most: int = _PARTITIONS_MAX) -> list[list[AnyTask]]:
    """The tasks of each partition of a read: at most so many, of about equal size, never one for each of many files.

    The row groups of a large file are shared out to several.
    """
    tasks = [share for task in tasks for share in _shares(task)]
    wanted = -(-sum(task.size_bytes + _OPEN_BYTES for task in tasks) // _PARTITION_BYTES)
    return balanced(tasks, min(max(wanted, _PARTITIONS_MIN), most))


def _shares(task: AnyTask) -> list[AnyTask]:
    count = min(task.size_bytes // _SHARE_BYTES, _PARTITIONS_MAX)
    if count < 2 or not isinstance(task, ScanTask) or task.row_groups is not None:
        return [task]
    size_bytes = task.size_bytes // count
    return [replace(task, size_bytes=size_bytes, share=(number, count)) for number in range(count)]


def balanced(tasks: Sequence[AnyTask], groups: int) -> list[list[AnyTask]]:
    """The tasks in at most so many groups of about equal size, each in the order of the tasks; largest tasks first."""
    open_groups: list[tuple[int, int, list[int]]] = [(0, at, []) for at in range(min(groups, len(tasks)))]
    for at in sorted(range(len(tasks)), key=lambda at: -tasks[at].size_bytes):
        size_bytes, number, members = heapq.heappop(open_groups)
        # An open costs about as much as reading this many bytes.
        heapq.heappush(open_groups, (size_bytes + tasks[at].size_bytes + 4_000_000, number, [*members, at]))
    return [[tasks[at] for at in sorted(members)] for _, _, members in sorted(open_groups, key=lambda group: group[1])]
