"""What a classic checkpoint holds, when one is due, and its bytes: one Parquet file, built by columns.

In: a head, its live files and its tombstones. Out: the bytes, counted again after they are written, and the hint
that names them. Protocol, metadata and application versions stand in a first row group of their own, so that
opening a table reads them and nothing else; files are sorted by partition, so that a reader can skip row groups.
PROTOCOL.md, "Checkpoints", "Checkpoint Schema".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from txlog.errors import CorruptLogError
from txlog.log.checkpoint_order import row_groups_by_partition
from txlog.log.files import FILES_SCHEMA, STRING_MAP, TOMBSTONES_SCHEMA, partition_column
from txlog.log.last_checkpoint import last_checkpoint_bytes
from txlog.log.retention import retained_tombstones, retained_transactions
from txlog.log.state import TableHead
from txlog.log.stats_struct import statistics_as_struct, statistics_type
from txlog.protocol.log_names import checkpoint_name
from txlog.protocol.partition_values import decode_array
from txlog.protocol.schema import DataType, Field, Struct, type_to_arrow
from txlog.protocol.statistics import StatisticsPolicy

__all__ = ["Checkpoint", "build_checkpoint", "checkpoint_is_due"]

_ROW_GROUP_ROWS = 65_536
_TEXTS = pa.list_(pa.field("element", pa.string()))
_DICTIONARY_LEAVES = [
    "add.partitionValues.key_value.key",
    "add.partitionValues.key_value.value",
    "add.modificationTime",
    "remove.partitionValues.key_value.key",
    "remove.partitionValues.key_value.value",
    "remove.deletionTimestamp",
]

# Children are nullable although the protocol requires them: Arrow writes no NOT NULL child below a null struct.
_SMALL_TYPES = {
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", _TEXTS),
            ("writerFeatures", _TEXTS),
        ]
    ),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", STRING_MAP)])),
            ("schemaString", pa.string()),
            ("partitionColumns", _TEXTS),
            ("configuration", STRING_MAP),
            ("createdTime", pa.int64()),
        ]
    ),
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "domainMetadata": pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
}

# --- when -------------------------------------------------------------------------------------------------

_COMMITS_MIN = 10
_COMMIT_COST_BYTES = 256 * 1024
_SHARE = 2


def checkpoint_is_due(head: TableHead, *, checkpoint_size_bytes: int) -> bool:
    """Whether to write a checkpoint at ``head``; ``checkpoint_size_bytes`` is the size of the last one, 0 without.

    ``delta.checkpointInterval`` decides where it is set. Otherwise one is due after ten commits or more, as soon
    as they cost a reader half of what the last checkpoint costs; a commit counts as 256 KiB, about a request's
    worth, beside its bytes. So the writing of checkpoints stays a fixed share of the bytes committed.
    """
    segment = head.segment
    commits = head.version - (segment.checkpoint.version if segment.checkpoint else 0)
    interval = head.properties.checkpoint_interval
    if interval is not None:
        return commits >= interval
    tail_cost = commits * _COMMIT_COST_BYTES + segment.tail_bytes
    return commits >= _COMMITS_MIN and tail_cost * _SHARE >= checkpoint_size_bytes


# --- what -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A built checkpoint. ``hint`` is the content for ``_last_checkpoint``."""

    version: int
    body: memoryview
    hint: bytes
    add_files: int
    actions: int


def build_checkpoint(head: TableHead, live: pa.Table, tombstones: pa.Table, *, now_ms: int) -> Checkpoint:
    """The classic checkpoint of ``head``. ``live`` is ``FILES_SCHEMA``, ``tombstones`` ``TOMBSTONES_SCHEMA``.

    Raises ``CorruptLogError`` where what was written does not hold every file: publish nothing then.
    """
    import pyarrow.parquet as pq

    small = _small_rows(head, now_ms)
    kept = retained_tombstones(tombstones, head.properties, now_ms=now_ms)
    adds = _AddColumns.of(head)
    schema = pa.schema([*_SMALL_TYPES.items(), ("add", adds.type), ("remove", pa.struct(list(TOMBSTONES_SCHEMA)))])
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=_DICTIONARY_LEAVES,
        store_schema=False,
    ) as writer:
        writer.write_batch(_row_group(schema, len(small), {root: _small_column(small, root) for root in _SMALL_TYPES}))
        for files in row_groups_by_partition(live, _physical_partition_columns(head), _ROW_GROUP_ROWS):
            writer.write_batch(_row_group(schema, files.num_rows, {"add": adds.column(files)}))
        for removed in row_groups_by_partition(kept, (), _ROW_GROUP_ROWS):
            column = pa.StructArray.from_arrays(_all_false(removed, "dataChange"), fields=list(TOMBSTONES_SCHEMA))
            writer.write_batch(_row_group(schema, removed.num_rows, {"remove": column}))
    body = sink.getvalue()
    actions = len(small) + live.num_rows + kept.num_rows
    _verify(body, head, add_files=live.num_rows, actions=actions)
    hint = last_checkpoint_bytes(head.version, actions=actions, size_bytes=body.size, add_files=live.num_rows)
    return Checkpoint(head.version, memoryview(body), hint, live.num_rows, actions)


def _verify(body: pa.Buffer, head: TableHead, *, add_files: int, actions: int) -> None:
    """Count what the footer says was written: a checkpoint that lacks a file loses rows for every reader."""
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(pa.BufferReader(body))
    paths = [metadata.schema.column(leaf).path for leaf in range(metadata.num_columns)].index("add.path")
    written = 0
    for group in range(metadata.num_row_groups):
        column = metadata.row_group(group).column(paths)
        written += column.num_values - column.statistics.null_count
    if written != add_files or metadata.num_rows != actions:
        raise CorruptLogError(
            f"the checkpoint built for version {head.version} holds {written} files and {metadata.num_rows} actions"
            f" instead of {add_files} and {actions}; it was not published",
            version=head.version,
            path=checkpoint_name(head.version),
        )


def _small_rows(head: TableHead, now_ms: int) -> list[dict[str, Any]]:
    transactions = retained_transactions(head.transactions.values(), head.properties, now_ms=now_ms)
    actions = [head.protocol, head.metadata, *transactions, *head.domains.values()]
    return [{action.KEY: action.to_json()} for action in actions]


def _small_column(rows: Sequence[Mapping[str, Any]], root: str) -> pa.Array:
    return pa.array([_with_pairs(row.get(root), _SMALL_TYPES[root]) for row in rows], _SMALL_TYPES[root])


def _with_pairs(value: Any, kind: pa.DataType) -> Any:
    """The value with each map as the list of pairs that Arrow takes."""
    if pa.types.is_map(kind) and isinstance(value, Mapping):
        return list(value.items())
    if pa.types.is_struct(kind) and isinstance(value, Mapping):
        return {field.name: _with_pairs(value.get(field.name), field.type) for field in kind}
    return value


def _row_group(schema: pa.Schema, length: int, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    arrays = [columns[f.name] if f.name in columns else pa.nulls(length, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _all_false(batch: pa.RecordBatch, name: str) -> list[pa.Array]:
    """The batch's columns, one of them all false: a checkpoint changes no data, and Spark says so in each row."""
    place = batch.schema.get_field_index(name)
    columns = list(batch.columns)
    columns[place] = pa.repeat(pa.scalar(False), batch.num_rows)
    return columns


@dataclass(frozen=True, slots=True)
class _AddColumns:
    """How the files' columns stand in a checkpoint of this table: which statistics, and partition values typed too."""

    type: pa.StructType
    statistics: pa.StructType | None
    partitions: tuple[tuple[str, DataType], ...]

    @classmethod
    def of(cls, head: TableHead) -> _AddColumns:
        properties = head.properties
        members = [field for field in FILES_SCHEMA if field.name != "stats" or properties.write_stats_as_json]
        if not properties.write_stats_as_struct:
            return cls(pa.struct(members), None, ())
        schema = _physical(head.schema) if properties.column_mapping_mode != "none" else head.schema
        names = _physical_partition_columns(head)
        statistics = statistics_type(StatisticsPolicy.of(schema, properties, names).leaves)
        types = {field.name: field.type for field in schema.fields}
        partitions = tuple((name, types[name]) for name in names)
        members.append(pa.field("stats_parsed", statistics))
        if partitions:
            typed = pa.struct([(name, type_to_arrow(data_type)) for name, data_type in partitions])
            members.append(pa.field("partitionValues_parsed", typed))
        return cls(pa.struct(members), statistics, partitions)

    def column(self, files: pa.RecordBatch) -> pa.StructArray:
        values = dict(zip(files.schema.names, _all_false(files, "dataChange"), strict=True))
        if self.statistics is not None:
            values["stats_parsed"] = statistics_as_struct(files.column("stats"), self.statistics)
        if self.partitions:
            typed = [decode_array(partition_column(files, name), data_type) for name, data_type in self.partitions]
            values["partitionValues_parsed"] = pa.StructArray.from_arrays(typed, [name for name, _ in self.partitions])
        return pa.StructArray.from_arrays([values[field.name] for field in self.type], fields=list(self.type))


def _physical_partition_columns(head: TableHead) -> tuple[str, ...]:
    """The names under which partition values are kept: those in the files, where the table maps its columns."""
    if head.properties.column_mapping_mode == "none":
        return head.partition_columns
    names = {field.name: _physical_name(field) for field in head.schema.fields}
    return tuple(names[name] for name in head.partition_columns)


def _physical(schema: Struct) -> Struct:
    return Struct(tuple(replace(f, name=_physical_name(f), type=_physical_type(f.type)) for f in schema.fields))


def _physical_type(data_type: DataType) -> DataType:
    return _physical(data_type) if isinstance(data_type, Struct) else data_type


def _physical_name(field: Field) -> str:
    return str(field.metadata.get("delta.columnMapping.physicalName", field.name))
