"""Tombstones: deleted keys with their sequence, so an older row that arrives later does not bring them back.

In: deletes. Out: the rows of data files whose rows are all dead from the start, by a deletion vector
(``_tombstone_files``). Readers never see such a row. A key lookup reads dead rows anyway, so every txlog writer finds
it, on any version and after any lost race. OPTIMIZE joins the files, and drops tombstones older than
``txlog.tombstone-retention``; other engines' compaction drops them all.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from txlog.changelog.merge_engines.engine import MergeEngine
from txlog.changelog.partial_columns import column_of_parts
from txlog.core.format.arrow.arrays import one_array
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.properties import TOMBSTONE_RETENTION, TableProperties
from txlog.core.format.schema import Array, Map, Struct, to_arrow
from txlog.core.format.tombstones import retention_ms
from txlog.core.row_rules import KeyColumn
from txlog.core.writing import has_required
from txlog.errors import InvalidInputError


def check_tombstones(configuration: Mapping[str, str], schema: Struct, engine: MergeEngine | None) -> None:
    """Raises ``InvalidInputError`` if tombstones are requested but the table cannot keep them."""
    if TOMBSTONE_RETENTION not in configuration:
        return
    needed = None
    if engine is not None and engine.why_no_tombstones is not None:
        needed = f"txlog.merge-engine = deduplicate: {engine.why_no_tombstones}"
    elif engine is None or not engine.sequence:
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
    kept: dict[tuple[str, ...], pa.Array] = {(name,): one_array(deletes.column(name)) for name in sequence}
    kept |= {key.path: one_array(key.of(deletes)) for key in keys}
    columns = []
    for field, arrow in zip(schema.fields, to_arrow(schema), strict=True):
        column = column_of_parts(kept, (field.name,), arrow.type, deletes.num_rows)
        if not field.nullable and column.null_count:
            column = pc.fill_null(column, _default(arrow.type))
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=to_arrow(schema))


def expired_before_ms(table: DefinedTable, now_ms: int) -> int:
    """Older tombstones are dropped."""
    kept_ms = retention_ms(table.metadata.configuration)
    return now_ms + 1 if kept_ms is None else now_ms - kept_ms


def _default(kind: pa.DataType) -> pa.Scalar:
    """A value for a column that must not be null, in rows that nobody reads. Text is not empty, since an empty
    partition value counts as null."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pa.scalar("0" if pa.types.is_string(kind) else b"0", kind)
    if pa.types.is_boolean(kind):
        return pa.scalar(False)
    return pa.scalar(decimal.Decimal(0) if pa.types.is_decimal(kind) else 0, kind)
