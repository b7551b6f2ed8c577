"""The values that rows of a changelog must have: those of a new row, and NOT NULL.

In: rows, which may lack columns, and which rows are new. Out: the same, or an error with the column and the row.
Deleted rows need only their keys, so NOT NULL does not apply to all rows. A value that a change does not have is not
null: a database leaves out what an update did not touch, by leaving out the column or with a placeholder
(``_unavailable_values``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from txlog.changelog.merge_engines.engine import MergeEngine
from txlog.core.format.schema import Struct
from txlog.core.row_rules import KeyColumn, without_generated
from txlog.core.writing import absent_columns, conformer_for, has_required, without_unavailable
from txlog.errors import InvalidInputError, SchemaMismatchError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def require_values(
    schema: Struct,
    keys: Sequence[KeyColumn],
    engine: MergeEngine | None,
    rows: pa.RecordBatch,
    are_new: NDArray[np.bool_],
    first_row: int,
) -> pa.RecordBatch:
    """The rows of one batch, if new rows have all values. In a partial update a value that is unavailable is null.

    Args:
        schema: The table's schema.
        keys: The key columns, which every row must have.
        engine: The table's merge engine, or None.
        rows: The rows as they came, without columns that only tell about the change.
        are_new: Which of them are neither -U nor -D.
        first_row: The number of rows before these, for error messages.

    Raises:
        SchemaMismatchError: The rows lack a column, and would put nulls into rows.
        InvalidInputError: A value is unavailable, and no old value is kept.
    """
    absent = absent_columns(without_generated(schema), rows.schema)
    of_key = [path for path in absent if any(f"{key.name}.".startswith(f"{path}.") for key in keys)]
    leaves = engine is not None and engine.leaves_absent_values
    if of_key:
        raise SchemaMismatchError(f"the changes lack {', '.join(of_key)}, which identifies a row")
    if not are_new.any():
        return rows
    if absent and not leaves:
        what = "a new row replaces the whole old one, and" if engine is None else f"merge-engine {engine.name}"
        raise SchemaMismatchError(
            f"the changes lack {', '.join(absent)} from row {first_row} on (counting from 0): {what} would put nulls"
            " there. Add the columns; only deleted rows may lack them. Merge-engine partial-update leaves columns that"
            " rows lack as they are"
        )
    for group in engine.groups if engine is not None else ():
        lacked = [name for name in (*group.sequence, *group.columns) if name in absent]
        if lacked and len(lacked) < len(group.sequence) + len(group.columns):
            raise SchemaMismatchError(
                f"the changes lack {', '.join(lacked)} from row {first_row} on (counting from 0), but have other"
                f" columns of the sequence group of {', '.join(group.sequence)}, in which nulls count as values: write"
                " all columns of a sequence group, or none"
            )
    keeps_old = None if engine is None or not leaves else lambda name: engine.group_of(name) is None
    return without_unavailable(rows, are_new, first_row, keeps_old)


def check_columns(schema: Struct, rows: pa.RecordBatch, counts: NDArray[np.bool_], first_row: int, reason: str) -> None:
    """Refuse a null in a column that ``schema`` requires.

    Args:
        schema: The table's schema.
        rows: The rows, with the columns of ``schema``.
        counts: The rows to check.
        first_row: The number of rows before these, for error messages.
        reason: Why the row needs the value, for error messages.

    Raises:
        InvalidInputError: A required value is null.
    """
    for field, column in zip(schema.fields, rows.columns, strict=True):
        if field.nullable or not column.null_count:
            continue
        missing = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False) & counts)
        if len(missing):
            row = first_row + int(missing[0])
            raise InvalidInputError(
                f"column {field.name} must not be null, but is in row {row} (counting from 0), {reason}"
            )


def check_members(schema: Struct, rows: pa.RecordBatch, counts: NDArray[np.bool_], first_row: int) -> None:
    """The same for struct fields whose struct is not null."""
    at = [place for place, field in enumerate(schema.fields) if has_required(field.type)]
    if not at:
        return
    fields = tuple(replace(schema.fields[place], nullable=True) for place in at)
    found = rows.select(at)
    if not counts.all():
        mask = pa.array(counts)
        columns = [pc.if_else(mask, column, pa.scalar(None, column.type)) for column in found.columns]
        found = pa.RecordBatch.from_arrays(columns, schema=found.schema)
    conformer_for(Struct(fields), found.schema).conform(found, first_row)
