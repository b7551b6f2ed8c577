"""What Spark calls for ``spark.read.format("txlog")``: planning on the driver, Arrow batches in the tasks.

In: the options of the read, a pinned version, and the columns that Spark wants. Out: partitions of scan tasks, and
their rows. ``txlog.spark.read`` is faster for whole tables, since there Spark reads the files itself.

``pushFilters`` is not overridden. Spark 4.2 keeps the partitions of the last scan whose filters it pushed down for all
scans of the same DataFrame, also for those with other filters or none, and they would miss rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from txlog.errors import InvalidInputError
from txlog.read.scan_task import ScanTask
from txlog.spark.errors import crossing
from txlog.spark.read_options import ReadOptions
from txlog.spark.table_version import TableVersion, open_version
from txlog.spark.task_reader import balanced, read_tasks, spark_arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["TaskPartition", "TxlogReader", "opened", "read_schema"]

_PARTITION_BYTES = 16 << 20
_PARTITIONS_MIN, _PARTITIONS_MAX = 4, 256


@dataclass
class TaskPartition(InputPartition):
    """The files that one Spark task reads. Plain data, without credentials."""

    tasks: list[ScanTask]


def opened(options: ReadOptions, version: int | None = None) -> TableVersion:
    """The version that a read's options name, or the one that was pinned before. Raises as `open_version`."""
    if version is not None:
        return open_version(options.path, options.storage_options, version)
    return open_version(options.path, options.storage_options, options.version, options.timestamp)


def read_schema(table: TableVersion, options: ReadOptions) -> StructType:
    """The columns of a read in Spark's types. Raises InvalidInputError for one that the table lacks."""
    from pyspark.sql.types import StructType

    types = table.spark_schema()
    fields = table.plan(options.columns).selection.fields
    return StructType([types[each.name] for each in fields])


class TxlogReader(DataSourceReader):
    """One planned read. Spark pickles it for the tasks."""

    def __init__(self, options: ReadOptions, table: TableVersion, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._check_types(table)
        self._plan = table.plan(schema.names, options.where)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plan": None}

    def partitions(self) -> Sequence[InputPartition]:
        """Runs on the driver: prunes files by the log, and deals them out by size."""
        with crossing():
            tasks = list(self._plan.tasks())
            wanted = -(-sum(task.size_bytes for task in tasks) // _PARTITION_BYTES)
            groups = min(max(wanted, _PARTITIONS_MIN), _PARTITIONS_MAX)
            # Spark reads a source without partitions by one call with None.
            return [TaskPartition(group) for group in balanced(tasks, groups)] or [TaskPartition([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task."""
        assert isinstance(partition, TaskPartition)
        schema = spark_arrow_schema(self._schema)
        return read_tasks(self._options.path, self._options.storage_options, partition.tasks, schema)

    def _check_types(self, table: TableVersion) -> None:
        """The user may have given a schema: some of the table's columns, with their types."""
        types = table.spark_schema()
        for each in self._schema:
            found = next((field for field in types if field.name.lower() == each.name.lower()), None)
            if found is not None and found.dataType.simpleString() != each.dataType.simpleString():
                raise InvalidInputError(
                    f"column {each.name} is a {found.dataType.simpleString()}, not a {each.dataType.simpleString()}:"
                    " cast it after the read",
                    table=table.log.uri,
                    version=table.state.version,
                )
