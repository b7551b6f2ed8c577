"""Tombstones: deleted keys with their sequence, so an older row that arrives later does not bring them back.

In: deletes, and files of them. Out: data files whose rows are all dead from the start, by a deletion vector. Readers
never see such a row. A key lookup reads dead rows anyway, so every txlog writer finds it, on any version and after any
lost race. The tag ``txlog.tombstones`` marks such a file. OPTIMIZE joins them, and drops tombstones older than
``txlog.tombstone-retention``; other engines' compaction drops them all.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from txlog.errors import InvalidInputError
from txlog.protocol.actions import AddFile
from txlog.protocol.bitmaps import bitmap_of
from txlog.protocol.defined_table import DefinedTable
from txlog.protocol.deletion_vector import vector_path
from txlog.protocol.properties import TOMBSTONE_RETENTION, TableProperties, interval_ms
from txlog.protocol.schema import Array, Map, Struct, to_arrow
from txlog.protocol.wide_statistics import wide_statistics
from txlog.store.base import FileStore
from txlog.writer.committable import PendingFile
from txlog.writer.convert import has_required
from txlog.writer.keys import KeyColumn
from txlog.writer.merge_engines.engine import MergeEngine
from txlog.writer.unsent_files import UnsentFiles
from txlog.writer.vector_file import write_vectors

__all__ = [
    "check_tombstones",
    "expired_before_ms",
    "is_tombstones",
    "retention_ms",
    "tombstone_adds",
    "tombstone_rows",
]

_TAG = "txlog.tombstones"
_NO_TOMBSTONES = {
    "first-row": "first-row takes no deletes, so there is none to remember",
    "partial-update": "in a partial-update, an older row could still fill nulls of a row that came after the delete;"
    " a sequence group retracts values and keeps its sequence",
    "aggregation": "in an aggregation, an older row could still be added to a row that came after the delete;"
    " last_value retracts values and keeps the row with its sequence",
}
"""Why a tombstone is not enough if a new row is merged with older ones: it disappears once its key has a row again."""


def retention_ms(configuration: Mapping[str, str]) -> int | None:
    """How long tombstones are kept; None if the table keeps none. Raises ``InvalidInputError`` if it does not say."""
    return interval_ms(configuration, TOMBSTONE_RETENTION)


def is_tombstones(add: AddFile) -> bool:
    """Whether a live file holds only tombstones."""
    return _TAG in (add.tags or {}) and add.deletion_vector is not None


def check_tombstones(configuration: Mapping[str, str], schema: Struct, engine: MergeEngine | None) -> None:
    """Raises ``InvalidInputError`` if tombstones are requested but the table cannot keep them."""
    if TOMBSTONE_RETENTION not in configuration:
        return
    needed = None
    if engine is not None and engine.name in _NO_TOMBSTONES:
        needed = f"txlog.merge-engine = deduplicate: {_NO_TOMBSTONES[engine.name]}"
    elif engine is None or engine.name != "deduplicate" or not engine.sequence:
        needed = "txlog.merge-engine = deduplicate and txlog.sequence.field, which says when a row was deleted"
    elif not TableProperties.of(configuration).enable_deletion_vectors:
        needed = "delta.enableDeletionVectors = true, since readers must not see a tombstone"
    if needed is not None:
        raise InvalidInputError(f"{TOMBSTONE_RETENTION} needs {needed}")
    for field in schema.fields:
        is_nested = isinstance(field.type, Struct | Array | Map)
        if is_nested and (not field.nullable or (isinstance(field.type, Struct) and has_required(field.type))):
            raise InvalidInputError(
                f"{TOMBSTONE_RETENTION} leaves all columns but keys and sequence empty, and {field.name} must not be:"
                " nested columns and their fields must be nullable"
            )


def tombstone_rows(
    schema: Struct, keys: Sequence[KeyColumn], sequence: Sequence[str], deletes: pa.Table
) -> pa.RecordBatch:
    """The rows of these deletes with only their keys and sequence; NOT NULL columns hold a default.

    No rule of the table applies to them, since no reader sees them.
    """
    kept: dict[tuple[str, ...], pa.Array] = {(name,): _one(deletes.column(name)) for name in sequence}
    kept |= {key.path: _one(key.of(deletes)) for key in keys}
    columns = []
    for field, arrow in zip(schema.fields, to_arrow(schema), strict=True):
        column = _column(kept, (field.name,), arrow.type, deletes.num_rows)
        if not field.nullable and column.null_count:
            column = pc.fill_null(column, _default(arrow.type))
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=to_arrow(schema))


def tombstone_adds(
    files: FileStore, written: Iterable[PendingFile], unsent: UnsentFiles, *, modified_ms: int | None = None
) -> list[AddFile]:
    """The ``add`` actions of tombstone files, whose rows a durable vector marks.

    ``modified_ms`` is when the youngest of them was made, if not now.
    """
    pending = list(written)
    vectors, _ = write_vectors(files, [bitmap_of(np.arange(file.num_rows)) for file in pending])
    unsent.own(path.path for path in map(vector_path, vectors) if path is not None)
    found = []
    for file, vector in zip(pending, vectors, strict=True):
        add = file.to_add()
        found.append(
            replace(
                add,
                deletion_vector=vector,
                stats=wide_statistics(add.stats, num_records=file.num_rows),
                tags={**(add.tags or {}), _TAG: "true"},
                modification_time=add.modification_time if modified_ms is None else modified_ms,
            )
        )
    return found


def expired_before_ms(table: DefinedTable, now_ms: int) -> int:
    """Older tombstones are dropped."""
    kept_ms = retention_ms(table.metadata.configuration)
    return now_ms + 1 if kept_ms is None else now_ms - kept_ms


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _column(kept: dict[tuple[str, ...], pa.Array], path: tuple[str, ...], kind: pa.DataType, count: int) -> pa.Array:
    """A column whose fields may be kept in part; null if none is."""
    if path in kept:
        return kept[path]
    if not any(each[: len(path)] == path for each in kept):
        return pa.nulls(count, kind)
    members = [_column(kept, (*path, field.name), field.type, count) for field in kind]
    return pa.StructArray.from_arrays(members, fields=list(kind))


def _default(kind: pa.DataType) -> pa.Scalar:
    """A value for a column that must not be null, in rows that nobody reads. Text is not empty, since an empty
    partition value counts as null."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pa.scalar("0" if pa.types.is_string(kind) else b"0", kind)
    if pa.types.is_boolean(kind):
        return pa.scalar(False)
    return pa.scalar(decimal.Decimal(0) if pa.types.is_decimal(kind) else 0, kind)
