"""Scan tasks read in Spark's Python workers, for the data source and for files that Spark's own reader must not have.

In: tasks, a location and storage options. Out: record batches of exactly the types that Spark expects. Nothing here
can reach the log.
"""

from __future__ import annotations

import heapq
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from txlog.read.scan_task import ScanTask, TaskReader
from txlog.spark.errors import crossing
from txlog.store.open import open_store

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["PickledTasks", "balanced", "read_tasks", "spark_arrow_schema"]


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
                # The types differ at most in which parts may be null.
                columns = [batch.column(each.name).cast(each.type) for each in schema]
                yield pa.RecordBatch.from_arrays(columns, schema=schema) if columns else batch


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
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def balanced(tasks: Sequence[ScanTask], groups: int) -> list[list[ScanTask]]:
    """The tasks in at most so many groups of about equal size, each in the order of the tasks; largest tasks first."""
    open_groups: list[tuple[int, int, list[int]]] = [(0, at, []) for at in range(min(groups, len(tasks)))]
    for at in sorted(range(len(tasks)), key=lambda at: -tasks[at].size_bytes):
        size_bytes, number, members = heapq.heappop(open_groups)
        # An open costs about as much as reading this many bytes.
        heapq.heappush(open_groups, (size_bytes + tasks[at].size_bytes + 4_000_000, number, [*members, at]))
    return [[tasks[at] for at in sorted(members)] for _, _, members in sorted(open_groups, key=lambda group: group[1])]
