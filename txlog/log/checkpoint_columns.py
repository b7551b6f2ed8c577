"""How live files and tombstones stand in the Parquet files of a checkpoint, classic or V2, built by columns.

In: a head, which says what statistics its checkpoints hold, and files as columns. Out: the schema, record batches of
one row group each, and what the footer of written bytes says they hold. PROTOCOL.md, "Checkpoint Schema".

A field of ``add`` that the protocol does not know has no column: a checkpoint's schema is fixed before its rows are
seen, the protocol has readers ignore such fields and asks nobody to carry them on, and Spark and deltalake drop
them as well. The fields it does know are all kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from txlog.log.checkpoint_order import row_groups_by_partition
from txlog.log.files import FILES_SCHEMA, TOMBSTONES_SCHEMA, partition_column
from txlog.log.state import TableHead
from txlog.log.stats_struct import statistics_as_struct, statistics_type
from txlog.protocol.column_mapping import physical_names, physical_schema
from txlog.protocol.partition_values import decode_array
from txlog.protocol.schema import DataType, type_to_arrow
from txlog.protocol.statistics import StatisticsPolicy

__all__ = ["FileColumns", "count_adds", "parquet_writer", "row_group"]

_ROW_GROUP_ROWS = 65_536
_ROW_GROUP_BYTES = 128 << 20
_DICTIONARY_LEAVES = [
    "add.partitionValues.key_value.key",
    "add.partitionValues.key_value.value",
    "add.modificationTime",
    "remove.partitionValues.key_value.key",
    "remove.partitionValues.key_value.value",
    "remove.deletionTimestamp",
]


@dataclass(frozen=True, slots=True)
class FileColumns:
    """The file actions in checkpoints of one table: which statistics, and whether partition values are typed too."""

    add: pa.StructType
    statistics: pa.StructType | None
    typed_partitions: tuple[tuple[str, DataType], ...]
    sorted_by: tuple[str, ...]

    @classmethod
    def of(cls, head: TableHead) -> FileColumns:
        properties = head.properties
        sorted_by = physical_names(head.schema, head.partition_columns)
        members = [field for field in FILES_SCHEMA if field.name != "stats" or properties.write_stats_as_json]
        if not properties.write_stats_as_struct:
            return cls(pa.struct(members), None, (), sorted_by)
        policy = StatisticsPolicy.of(head.schema, properties, head.partition_columns)
        statistics = statistics_type(policy.leaves)
        types = {field.name: field.type for field in physical_schema(head.schema).fields}
        partitions = tuple((name, types[name]) for name in sorted_by)
        members.append(pa.field("stats_parsed", statistics))
        if partitions:
            typed = pa.struct([(name, type_to_arrow(data_type)) for name, data_type in partitions])
            members.append(pa.field("partitionValues_parsed", typed))
        return cls(pa.struct(members), statistics, partitions, sorted_by)

    def schema(self, small: Mapping[str, pa.StructType] | None = None) -> pa.Schema:
        """The file actions behind the ``small`` ones."""
        remove = pa.struct(list(TOMBSTONES_SCHEMA))
        return pa.schema([*(small or {}).items(), ("add", self.add), ("remove", remove)])

    def adds(self, live: pa.Table) -> Iterator[pa.RecordBatch]:
        """``live`` (``FILES_SCHEMA``) by partition, in pieces of a row group: batches of one column, ``add``."""
        for files in row_groups_by_partition(live, self.sorted_by, _group_rows(live)):
            yield pa.RecordBatch.from_arrays([self._add(files)], ["add"])

    def removes(self, tombstones: pa.Table) -> Iterator[pa.RecordBatch]:
        """``tombstones`` (``TOMBSTONES_SCHEMA``) in pieces of a row group: batches of one column, ``remove``."""
        for removed in row_groups_by_partition(tombstones, (), _group_rows(tombstones)):
            column = pa.StructArray.from_arrays(_all_false(removed, "dataChange"), fields=list(TOMBSTONES_SCHEMA))
            yield pa.RecordBatch.from_arrays([column], ["remove"])

    def _add(self, files: pa.RecordBatch) -> pa.StructArray:
        values = dict(zip(files.schema.names, _all_false(files, "dataChange"), strict=True))
        if self.statistics is not None:
            values["stats_parsed"] = statistics_as_struct(files.column("stats"), self.statistics)
        if self.typed_partitions:
            typed = [decode_array(partition_column(files, name), kind) for name, kind in self.typed_partitions]
            names = [name for name, _ in self.typed_partitions]
            values["partitionValues_parsed"] = pa.StructArray.from_arrays(typed, names)
        return pa.StructArray.from_arrays([values[field.name] for field in self.add], fields=list(self.add))


def _group_rows(files: pa.Table) -> int:
    """Rows in a row group: fewer where they are wide, since writer and reader hold one whole."""
    row_bytes = files.nbytes // max(1, files.num_rows)
    fitting: int = _ROW_GROUP_BYTES // max(1, row_bytes)
    return max(1024, min(_ROW_GROUP_ROWS, fitting))


def _all_false(batch: pa.RecordBatch, name: str) -> list[pa.Array]:
    """The batch's columns, one of them all false: a checkpoint changes no data, and Spark says so in each row."""
    place = batch.schema.get_field_index(name)
    columns = list(batch.columns)
    columns[place] = pa.repeat(pa.scalar(False), batch.num_rows)
    return columns


# --- Parquet ----------------------------------------------------------------------------------------------


def parquet_writer(sink: Any, schema: pa.Schema) -> Any:
    """A ``ParquetWriter`` with the settings of all our checkpoint files."""
    import pyarrow.parquet as pq

    return pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=_DICTIONARY_LEAVES,
        store_schema=False,
    )


def row_group(schema: pa.Schema, columns: pa.RecordBatch) -> pa.RecordBatch:
    """``columns`` with all the others of ``schema`` null."""
    given = dict(zip(columns.schema.names, columns.columns, strict=True))
    arrays = [given[f.name] if f.name in given else pa.nulls(columns.num_rows, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def count_adds(metadata: Any) -> int:
    """How many files a Parquet footer says were written."""
    leaf = [metadata.schema.column(at).path for at in range(metadata.num_columns)].index("add.path")
    columns = [metadata.row_group(group).column(leaf) for group in range(metadata.num_row_groups)]
    return sum(column.num_values - column.statistics.null_count for column in columns)
