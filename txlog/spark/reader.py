"""What Spark calls for ``spark.read.format("txlog")``: planning on the driver, Arrow batches in the tasks.

In: the options of the read, a pinned version, and the columns that Spark wants. Out: partitions of scan tasks, and
their rows. ``txlog.spark.read`` is faster for whole tables, since Spark then reads the files itself.

`TxlogReader` does not override ``pushFilters``. Once Spark 4.2 has pushed filters down, it reuses that scan's
partitions for all scans of the same DataFrame, even with other filters or none; these would miss rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from txlog.core.format.change_data import FEED_FIELDS
from txlog.core.reading import ScanTask
from txlog.errors import InvalidInputError
from txlog.spark.assumed_zone import AssumedZone, assumed_zone, zone_of_read
from txlog.spark.errors import crossing
from txlog.spark.read_options import ReadOptions, StreamReadOptions
from txlog.spark.table_version import TableVersion, open_version
from txlog.spark.task_reader import read_tasks, spark_arrow_schema, task_partitions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


@dataclass
class TaskPartition(InputPartition):
    """The files that one Spark task reads. Plain data, without credentials."""

    tasks: list[ScanTask]
    assumed: AssumedZone | None = None


def opened(options: ReadOptions, version: int | None = None) -> TableVersion:
    """Open the version that a read's options name, or the pinned ``version``.

    Raises:
        TxlogError: What `open_version` raises.
    """
    if version is not None:
        return open_version(options.path, zone_of_read(options), options.storage_options, version)
    given = options.storage_options, options.version, options.timestamp
    return open_version(options.path, zone_of_read(options), *given)


def read_schema(table: TableVersion, options: ReadOptions) -> StructType:
    """The columns of a read in Spark's types.

    Raises:
        InvalidInputError: The options name a column that the table lacks.
    """
    from pyspark.sql.types import StructType

    types = table.spark_schema()
    return StructType([types[each.name] for each in table.select(options.columns).fields])


def stream_schema(table: TableVersion, options: StreamReadOptions) -> StructType:
    """The columns of a stream in Spark's types, with the change feed's columns at the end. Raises what `read_schema`
    raises."""
    from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

    types = table.spark_schema()
    fields = [types[each.name] for each in table.select(options.columns).fields]
    if options.read_change_feed:
        feed = zip(FEED_FIELDS, (StringType(), LongType(), TimestampType()), strict=True)
        fields += [StructField(each.name, found) for each, found in feed]
    return StructType(fields)


class TxlogReader(DataSourceReader):
    """One planned read. Spark pickles it for the tasks."""

    def __init__(self, options: ReadOptions, table: TableVersion, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        if problem := table.differing_type(schema):
            raise InvalidInputError(
                f"{problem}: cast it after the read", table=table.log.uri, version=table.state.version
            )
        self._plan = table.plan(schema.names, options.where)
        self._assumed = assumed_zone(options, options.timestamp, table.state.schema)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plan": None}

    def partitions(self) -> Sequence[InputPartition]:
        """Runs on the driver: prunes files by the log, and spreads the others over partitions by size."""
        with crossing():
            # If there were no partitions, Spark would call `read` once with None.
            groups = task_partitions([*self._plan.tasks()]) or [[]]
            return [TaskPartition(group, self._assumed) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Runs in a task."""
        assert isinstance(partition, TaskPartition)
        if partition.assumed is not None:
            with crossing():
                partition.assumed.check()
        schema = spark_arrow_schema(self._schema)
        return read_tasks(self._options.path, self._options.storage_options, partition.tasks, schema)
