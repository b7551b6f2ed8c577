"""Values that a change of a row does not have: Debezium's placeholder for what an update left as it was.

In: rows that replace others. Out: the same without the placeholder, or an error. A database does not tell what an
update did not touch (PostgreSQL's TOAST), and Debezium then writes ``unavailable.value.placeholder``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.arrow.arrays import flags_of
from txlog.core.wording import setting
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_UNAVAILABLE: Final = "__debezium_unavailable_value"
_SEARCHED_BYTES = 1 << 20  # of so much text a search costs less than a comparison of each value


def refuse_unavailable(rows: pa.RecordBatch, first_row: int) -> None:
    """Refuse Debezium's placeholder in rows that replace others: the old value would be lost.

    Raises ``InvalidInputError`` naming the column and the row.
    """
    without_unavailable(rows, np.ones(rows.num_rows, dtype=bool), first_row, None)


def without_unavailable(
    rows: pa.RecordBatch, are_new: NDArray[np.bool_], first_row: int, keeps_old: Callable[[str], bool] | None
) -> pa.RecordBatch:
    """The rows with null in place of the placeholder, in columns whose null keeps the old value.

    Args:
        rows: The rows.
        are_new: Which of them replace others; the placeholder in the rest is left as it is.
        first_row: The number of rows before these, for error messages.
        keeps_old: Whether a null of a column keeps the old value; None: no column's does.

    Raises:
        InvalidInputError: The placeholder is in a column whose old value would be lost.
    """
    for at, name in enumerate(rows.schema.names):
        there = _are_unavailable(rows.column(at))
        if there is None or not (there & are_new).any():
            continue
        if keeps_old is None or not keeps_old(name):
            row = first_row + int(np.argmax(there & are_new))
            raise InvalidInputError(
                f"column {name} has {_UNAVAILABLE} in row {row} (counting from 0): Debezium did not get the value,"
                " since the update left it as it was, and the row would lose it. Let the database log whole rows"
                " (PostgreSQL: ALTER TABLE ... REPLICA IDENTITY FULL), or keep the old value with"
                f" {setting('merge_engine', 'partial-update')}, outside of sequence groups"
            )
        kept = pc.if_else(pa.array(there & are_new), pa.scalar(None, rows.schema.types[at]), rows.column(at))
        rows = rows.set_column(at, rows.schema.field(at).with_nullable(True), kept)
    return rows


def _are_unavailable(column: pa.Array) -> NDArray[np.bool_] | None:
    """Which values are Debezium's placeholder; None: none is. Of a list, its only element is."""
    kind: Any = column.type
    if pa.types.is_dictionary(kind):
        return _are_unavailable(column.cast(kind.value_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        is_single = flags_of(pc.equal(pc.list_value_length(column), 1))
        if not is_single.any():
            return None
        inner = _are_unavailable(column.filter(pa.array(is_single)).flatten())
        if inner is None:
            return None
        found = np.zeros(len(column), dtype=bool)
        found[is_single] = inner
        return found
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if not (is_text or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        return None
    body = None if pa.types.is_string_view(kind) else column.buffers()[2]
    if body is not None and body.size <= _SEARCHED_BYTES and _UNAVAILABLE.encode() not in body.to_pybytes():
        return None
    wanted = _UNAVAILABLE if is_text else _UNAVAILABLE.encode()
    return flags_of(pc.equal(column, pa.scalar(wanted, kind)))
