"""NOT NULL in changelogs: checks which rows must have the values that the table requires.

In: rows whose columns and struct fields may all be null, and which rows to check. Out: nothing, or an error with the
column and the row. Deleted rows need only their keys, so NOT NULL does not apply to all rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from txlog.errors import InvalidInputError
from txlog.protocol.schema import Struct
from txlog.writer.conform import conformer_for
from txlog.writer.convert import has_required

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["check_columns", "check_members"]


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
