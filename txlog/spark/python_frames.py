"""DataFrames of scan tasks that txlog's reader reads in Spark's Python workers.

In: a session and tasks. Out: a DataFrame. This supports every file that a log may name and every condition. The rows go
through the Arrow pipe between Spark and Python, which costs about as much as reading the files.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec
import pyarrow as pa

from txlog.core.reading import ScanTask, Selection
from txlog.core.util import repr_without
from txlog.spark.table_version import TableVersion
from txlog.spark.task_reader import PickledTasks, task_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TASKS_MAX = 64
_SCHEME = re.compile(r"^[A-Za-z0-9]+:/+")


class PythonFrames(msgspec.Struct, frozen=True):
    """Makes the DataFrames of one table version. ``storage_options`` may hold secrets, so the repr leaves it out."""

    spark: SparkSession
    table: TableVersion
    location: str
    storage_options: Mapping[str, str]

    __repr__ = repr_without("storage_options")

    def of(self, tasks: Sequence[ScanTask], selection: Selection) -> DataFrame:
        """The rows of ``tasks``, which all belong to ``selection``."""
        from pyspark.sql.types import StructField, StructType

        types = self.table.spark_schema()
        schema = StructType([StructField(each.name, types[each.name].dataType) for each in selection.fields])
        if not tasks:
            return self.spark.createDataFrame([], schema)
        parts = [pickle.dumps(part) for part in task_partitions(tasks, _TASKS_MAX)]
        rows = self.spark.createDataFrame(pa.table({"tasks": pa.array(parts, pa.binary())})).repartition(len(parts))
        name = name_in_plans(self.table.log.uri)
        return rows.mapInArrow(PickledTasks(name, self.location, self.storage_options, schema), schema)


def name_in_plans(uri: str) -> str:
    """How Spark's plans show that a DataFrame reads a table in Python workers."""
    return f"txlog.spark.read({without_scheme(uri)})"


def without_scheme(uri: str) -> str:
    """A location without its scheme, since Hadoop's schemes differ: s3a for s3, ``file:/`` for none."""
    return unquote(_SCHEME.sub("", uri, count=1)).strip("/")
