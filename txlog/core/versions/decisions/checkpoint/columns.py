"""The columns of live files and tombstones in the Parquet files of a checkpoint, classic or V2.

In: a table state, whose properties decide which statistics its checkpoints hold, and files as columns. Out: the
schema, a table for each row group, and the counts in the footer of written bytes. PROTOCOL.md, "Checkpoint Schema".

A new field of a checkpoint goes here. A field of ``add`` that the protocol does not define has no column: the schema is
fixed before the rows are seen, readers ignore such fields, and Spark and deltalake drop them as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.arrow.parquet_writer import open_writer
from txlog.core.format.column_mapping import physical_names, physical_schema
from txlog.core.format.file_columns import FILES_SCHEMA, TOMBSTONES_SCHEMA, partition_column
from txlog.core.format.package_bounds import all_null
from txlog.core.format.partition_values import decode_array
from txlog.core.format.schema import DataType, type_to_arrow
from txlog.core.format.statistics import StatisticsPolicy
from txlog.core.format.stats_struct import statistics_as_struct, statistics_type
from txlog.core.versions.decisions.checkpoint.order import RowGroup, row_groups_by_partition
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.decisions.typed_statistics import STATS_PARSED

if TYPE_CHECKING:
    from txlog.core.util import Apply

ROW_GROUP_ROWS = 65_536
ROW_GROUP_ROWS_MIN = 1024
_ROW_GROUP_BYTES = 128 << 20
_DICTIONARY_LEAVES = [
    "add.partitionValues.key_value.key",
    "add.partitionValues.key_value.value",
    "add.modificationTime",
    "remove.partitionValues.key_value.key",
    "remove.partitionValues.key_value.value",
    "remove.deletionTimestamp",
]


class FileColumns(msgspec.Struct, frozen=True):
    """The file actions in checkpoints of one table: which statistics, and whether partition values are typed too."""

    add: pa.StructType
    statistics: pa.StructType | None
    typed_partitions: tuple[tuple[str, DataType], ...]
    sorted_by: tuple[str, ...]
    only_counts_dead: bool = False
    """Whether only files with a deletion vector have statistics: the protocol requires their row counts."""

    @classmethod
    def of(cls, state: TableState) -> FileColumns:
        properties = state.properties
        sorted_by = physical_names(state.schema, state.partition_columns)
        has_none = not properties.write_stats_as_json and not properties.write_stats_as_struct
        may_have_dead = "deletionVectors" in (state.protocol.reader_features or ())
        has_json = properties.write_stats_as_json or (has_none and may_have_dead)
        members = [field for field in FILES_SCHEMA if field.name != "stats" or has_json]
        if not properties.write_stats_as_struct:
            return cls(pa.struct(members), None, (), sorted_by, only_counts_dead=has_none)
        policy = StatisticsPolicy.of(state.schema, properties, state.partition_columns)
        statistics = statistics_type(policy.leaves, features=state.protocol.writer_features or ())
        types = {field.name: field.type for field in physical_schema(state.schema).fields}
        partitions = tuple(
            (name, types[name]) for name in sorted_by if name in types
        )  # a damaged log may name columns that do not exist
        members.append(pa.field(STATS_PARSED, statistics))
        if partitions:
            values = pa.struct([(name, type_to_arrow(data_type)) for name, data_type in partitions])
            members.append(pa.field("partitionValues_parsed", values))
        return cls(pa.struct(members), statistics, partitions, sorted_by)

    def schema(self, small: Mapping[str, pa.StructType] | None = None) -> pa.Schema:
        """The columns of the ``small`` actions, then the file actions' columns."""
        remove = pa.struct(list(TOMBSTONES_SCHEMA))
        return pa.schema([*(small or {}).items(), ("add", self.add), ("remove", remove)])

    def adds(self, live: pa.Table, apply: Apply = map) -> Iterator[RowGroup]:
        """Row groups of ``live`` (``FILES_SCHEMA``), sorted by partition: tables of one column, ``add``.

        It parses statistics if ``live`` has no typed ones. ``apply`` maps over many rows.
        """
        for files in row_groups_by_partition(live, self.sorted_by, _group_rows(live)):
            yield partial(self._adds, files, apply)

    def removes(self, tombstones: pa.Table) -> Iterator[RowGroup]:
        """Row groups of ``tombstones`` (``TOMBSTONES_SCHEMA``): tables of one column, ``remove``."""
        for removed in row_groups_by_partition(tombstones, (), _group_rows(tombstones)):
            yield partial(_removes, removed)

    def _adds(self, group: RowGroup, apply: Apply) -> pa.Table:
        files = group()
        if self.statistics is not None and STATS_PARSED not in files.schema.names:
            files = files.combine_chunks()  # many JSON texts are parsed at a time
        return pa.table({"add": pa.chunked_array([self._add(batch, apply) for batch in files.to_batches()], self.add)})

    def _add(self, files: pa.RecordBatch, apply: Apply) -> pa.StructArray:
        values = dict(zip(files.schema.names, _all_false(files, "dataChange"), strict=True))
        if self.statistics is not None and STATS_PARSED not in values:
            values[STATS_PARSED] = statistics_as_struct(files.column("stats"), self.statistics, apply)
        if self.only_counts_dead:
            values["stats"] = pc.if_else(values["deletionVector"].is_valid(), values["stats"], None)
        if self.typed_partitions:
            typed = [decode_array(partition_column(files, name), kind) for name, kind in self.typed_partitions]
            names = [name for name, _ in self.typed_partitions]
            values["partitionValues_parsed"] = pa.StructArray.from_arrays(typed, names)
        return pa.StructArray.from_arrays([values[field.name] for field in self.add], fields=list(self.add))


def _removes(group: RowGroup) -> pa.Table:
    fields = list(TOMBSTONES_SCHEMA)
    chunks = [
        pa.StructArray.from_arrays(_all_false(batch, "dataChange"), fields=fields) for batch in group().to_batches()
    ]
    return pa.table({"remove": pa.chunked_array(chunks, pa.struct(fields))})


def _group_rows(files: pa.Table) -> int:
    """The number of rows in a row group.

    Wide rows get fewer per group, since writer and reader hold a whole row group in memory.
    """
    row_bytes = files.nbytes // max(1, files.num_rows)
    fitting: int = _ROW_GROUP_BYTES // max(1, row_bytes)
    return max(ROW_GROUP_ROWS_MIN, min(ROW_GROUP_ROWS, fitting))


def _all_false(batch: pa.RecordBatch, name: str) -> list[pa.Array]:
    """The batch's columns with ``name`` all false.

    Spark writes ``dataChange`` as false in checkpoints, so we do too.
    """
    place = batch.schema.get_field_index(name)
    columns = list(batch.columns)
    columns[place] = pa.repeat(pa.scalar(False), batch.num_rows)
    return columns


# --- Parquet ----------------------------------------------------------------------------------------------


COMPRESSIONS = ("zstd", "snappy")
"""The first makes smaller files. The second shrinks repetitive text by at most about 20 times, so no reader takes the
file for a decompression bomb."""


@contextmanager
def parquet_writer(
    sink: Any, schema: pa.Schema, compression: str = COMPRESSIONS[0]
) -> Iterator[Callable[[pa.Table], None]]:
    """A file with the settings of all our checkpoint files: what writes a table into it as one row group.

    The columns of the schema that the table lacks are null in it.
    """

    def write(columns: pa.Table) -> None:
        rows = columns.num_rows
        given = dict(zip(columns.schema.names, columns.columns, strict=True))
        arrays = [given[f.name] if f.name in given else all_null(rows, f.type) for f in schema]
        writer.write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=max(1, rows))

    writer = open_writer(
        sink,
        schema,
        [],
        compression=compression,
        compression_level=1 if compression == "zstd" else None,
        use_dictionary=_DICTIONARY_LEAVES,
        store_schema=False,
    )
    yield write
    writer.close()


def count_adds(metadata: Any) -> int:
    """The number of ``add`` actions according to a Parquet footer."""
    leaf = [metadata.schema.column(at).path for at in range(metadata.num_columns)].index("add.path")
    columns = [metadata.row_group(group).column(leaf) for group in range(metadata.num_row_groups)]
    return sum(column.num_values - column.statistics.null_count for column in columns)
