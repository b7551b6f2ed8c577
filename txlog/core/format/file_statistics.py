"""The partition values and the statistics of live files as typed columns, under the table's names.

In: live files, as ``FILES_SCHEMA``, and the table's definition. Out: a table with structs that mirror the schema, or a
row for each partition. Bounds are what the log has: of a long string a prefix, of a timestamp whole milliseconds.
PROTOCOL.md, "Per-file Statistics", "Partition Value Serialization".
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.arrow.arrays import from_numbers, numbers_or
from txlog.core.format.column_mapping import physical_names, physical_schema
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.file_columns import partition_column
from txlog.core.format.partition_values import decode_array
from txlog.core.format.schema import Struct, leaf_paths, type_to_arrow
from txlog.core.format.stats_struct import recorded_rows, statistics_as_struct, statistics_type

_MEMBERS = {"numRecords": "num_records", "nullCount": "null_count", "minValues": "min", "maxValues": "max"}


def with_statistics(files: pa.Table, table: DefinedTable) -> pa.Table:
    """The files with columns of statistics in place of ``partitionValues`` and ``stats``.

    ``partition`` is a struct of the partition columns. ``num_records`` counts the rows in the file, deleted ones
    included; ``null_count``, ``min`` and ``max`` are structs of the other columns. Null where the log has no statistic.

    Raises:
        CorruptLogError: A partition value is not of its column's type.
    """
    data_columns = Struct(tuple(each for each in table.schema.fields if each.name not in table.partition_columns))
    named = statistics_type(leaf_paths(data_columns), has_booleans=True)
    stored = statistics_type(leaf_paths(physical_schema(data_columns)), has_booleans=True)
    parts: list[pa.Array] = []
    for batch in files.select(["stats"]).to_batches():
        parts.append(_renamed(statistics_as_struct(batch.column("stats"), stored), named))
    statistics = pa.chunked_array(parts, named)
    found = files.drop_columns(["stats", "partitionValues"])
    if table.partition_columns:
        found = found.append_column("partition", _partitions(files, table))
    for name, column in _MEMBERS.items():
        if named.get_field_index(name) >= 0:
            found = found.append_column(column, pc.struct_field(statistics, name))
    return found


def partitions_table(files: pa.Table, table: DefinedTable) -> pa.Table:
    """The partitions that have ``files``, in order: ``partition`` (a struct of typed values), ``num_files``,
    ``size_bytes``, and ``num_rows``, the live rows; null where the log does not count the rows of a file.

    Raises:
        CorruptLogError: A partition value is not of its column's type.
    """
    values = _partitions(files, table)
    names = [f"{at}" for at in range(values.type.num_fields)]
    keys = [pc.struct_field(values, at) for at in range(len(names))]
    counted = pa.table([*keys, files.column("size"), live_row_counts(files)], names=[*names, "size", "rows"])
    totals = [("size", "count"), ("size", "sum"), ("rows", "sum", pc.ScalarAggregateOptions(skip_nulls=False))]
    found = counted.group_by(names, use_threads=False).aggregate(totals)
    found = found.sort_by([(name, "ascending") for name in names])
    keys = [found.column(name).combine_chunks() for name in names]
    return pa.table(
        {
            "partition": pa.StructArray.from_arrays(keys, fields=list(values.type)),
            "num_files": found.column("size_count"),
            "size_bytes": found.column("size_sum"),
            "num_rows": found.column("rows_sum"),
        }
    )


def live_row_counts(files: pa.Table) -> pa.ChunkedArray:
    """The live rows of each file by its statistics and its deletion vector; null where the log does not count them."""
    counts = []
    for batch in files.select(["stats", "deletionVector"]).to_batches():
        rows = recorded_rows(batch.column("stats"))
        dead = numbers_or(batch.column("deletionVector").field("cardinality"), 0)
        counts.append(from_numbers(rows - dead, rows >= 0))
    return pa.chunked_array(counts, pa.int64())


def _partitions(files: pa.Table, table: DefinedTable) -> pa.ChunkedArray:
    """The partition of each file."""
    types = {field.name: field.type for field in table.schema.fields}
    columns = table.partition_columns
    fields = [pa.field(name, type_to_arrow(types[name])) for name in columns]
    parts = [
        pa.StructArray.from_arrays(
            [
                decode_array(partition_column(batch, stored), types[name])
                for name, stored in zip(columns, physical_names(table.schema, columns), strict=True)
            ],
            fields=fields,
        )
        for batch in files.select(["partitionValues"]).to_batches()
    ]
    return pa.chunked_array(parts, pa.struct(fields))


def _renamed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same values under other names of struct fields."""
    if not pa.types.is_struct(kind):
        return values
    members = [_renamed(values.field(at), kind.field(at).type) for at in range(kind.num_fields)]
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=values.is_null())
