"""Reads scan tasks in Spark's Python workers, for the data source and for files that Spark's own reader would misread.

In: tasks, a location and storage options. Out: record batches of exactly the types that Spark expects. Nothing here
can reach the log.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from txlog.core.catalogs import open_place
from txlog.core.reading import OPEN_BYTES, AnyTask, ScanTask, TaskReader, balanced, in_shares
from txlog.spark.errors import crossing

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from txlog.core.reading import ChangeTask

_PARTITION_BYTES = 16 << 20
_PARTITIONS_MIN, _PARTITIONS_MAX = 4, 256
_SHARE_BYTES = 32 << 20
"""A file of at least twice this size is read by several tasks. Each of them opens the file and reads its footer."""


def read_tasks(
    path: str, storage_options: Mapping[str, str], tasks: Sequence[ScanTask], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Read the rows of tasks that all belong to one selection.

    Args:
        path: The table's location.
        storage_options: Options of the store.
        tasks: The tasks; without tasks there is no batch.
        schema: The names and types of the batches that Spark expects.

    Yields:
        Record batches of ``schema``.

    Raises:
        TxlogErrorInSpark: What `TaskReader.batches` raises, as `crossing` wraps it.
    """
    if not tasks:
        return
    with crossing():
        reader = TaskReader(open_place(path, storage_options), tasks[0].selection)
        for batch in reader.in_order(tasks, wants_all=True):
            yield _as_spark_wants(batch, schema)


def read_change_tasks(
    path: str, storage_options: Mapping[str, str], tasks: Sequence[ChangeTask], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Read the changes of tasks that all belong to one stream.

    Args:
        path: The table's location.
        storage_options: Options of the store.
        tasks: At least one task.
        schema: The names and types of the batches that Spark expects.

    Yields:
        Record batches of ``schema``.

    Raises:
        TxlogErrorInSpark: What ``ChangeReader.batches`` raises, as `crossing` wraps it.
    """
    from txlog.core.reading import ChangeReader

    with crossing():
        first = tasks[0]
        reader = ChangeReader(open_place(path, storage_options), first.table, first.fields, first.predicate)
        for task in tasks:
            for batch in reader.batches(task.changes):
                yield _as_spark_wants(batch, schema)


def _as_spark_wants(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same columns with Spark's names and types, which differ at most in case and nullability."""
    if not len(schema):
        return batch
    columns = [column.cast(each.type) for column, each in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class PickledTasks:
    """A function for ``mapInArrow`` from one binary column, whose values are pickled lists of tasks, to their rows.

    Spark's plans show it by ``name``.
    """

    def __init__(self, name: str, path: str, storage_options: Mapping[str, str], schema: StructType) -> None:
        self.__name__ = name
        self._path = path
        self._storage_options = dict(storage_options)
        self._schema = schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = spark_arrow_schema(self._schema)
        for batch in batches:
            for body in batch.column(0).to_pylist():
                yield from read_tasks(self._path, self._storage_options, pickle.loads(body), schema)


def spark_arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects from a Python worker for its own ``schema``."""
    from pyspark.sql.pandas import types

    # pyspark 4.1 has no argument `timezone`: its timestamps are in UTC.
    has_timezone = "timezone" in inspect.signature(types.to_arrow_schema).parameters
    return types.to_arrow_schema(schema, **({"timezone": "UTC"} if has_timezone else {}))


def task_partitions(tasks: Sequence[AnyTask], most: int = _PARTITIONS_MAX) -> list[list[AnyTask]]:
    """Spread tasks over partitions of about equal size. Small files share a partition; large files use several.

    Args:
        tasks: The tasks of a read.
        most: The maximum number of partitions.

    Returns:
        The tasks of each partition. Shares of the row groups replace a large file's task.
    """
    tasks = [share for task in tasks for share in in_shares(task, _SHARE_BYTES, _PARTITIONS_MAX)]
    wanted = -(-sum(task.size_bytes + OPEN_BYTES for task in tasks) // _PARTITION_BYTES)
    return balanced(tasks, min(max(wanted, _PARTITIONS_MIN), most))
