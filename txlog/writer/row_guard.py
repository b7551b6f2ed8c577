"""`RowGuard`: the rows of a selective overwrite must lie inside the region that it replaces.

In: batches in the table's schema, before they are written. Out: nothing, or an error that names the columns and shows a
row outside of the region. Such a row would be added to a part of the table that the overwrite does not replace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from txlog.errors import InvalidInputError, TxlogError

if TYPE_CHECKING:
    from txlog.expressions.predicates import Predicate

__all__ = ["RowGuard", "false_or_unknown"]

_SHOWN_CHARACTERS_MAX = 200


def false_or_unknown(predicate: Predicate, rows: pa.RecordBatch) -> pa.BooleanArray:
    """The rows for which a bound predicate is false or NULL. Raises InvalidInputError."""
    import pyarrow.compute as pc

    return pc.invert(pc.fill_null(predicate.evaluate(rows), False))


class RowGuard:
    """Accepts rows for which ``predicate``, bound to the table's schema, is true."""

    def __init__(self, predicate: Predicate, table: str, partition_columns: Sequence[str]) -> None:
        self._predicate = predicate
        self._table = table
        self._partition_columns = partition_columns

    def check(self, rows: pa.RecordBatch, first_row: int) -> None:
        """Raises InvalidInputError if a row is outside; ``first_row`` is the number of rows before these."""
        from txlog.writer.keys import with_stored_partition_values

        rows = with_stored_partition_values(rows, self._partition_columns)
        with TxlogError.located(self._table):
            outside = false_or_unknown(self._predicate, rows)
        first_outside = outside.index(True).as_py()
        if first_outside < 0:
            return
        sample = rows.slice(first_outside, 1).to_pylist()[0]
        values = ", ".join(f"{name} = {sample[name]!r}" for name in sorted(self._predicate.columns()))
        shown = f", with {values[:_SHOWN_CHARACTERS_MAX]}" if values else ""
        raise InvalidInputError(
            f"the data has rows outside of the part that it replaces: they do not satisfy {self._predicate}. The first"
            f" is row {first_row + first_outside}, counting from 0{shown}. Nothing was written;"
            " remove such rows from the data, or widen the predicate",
            table=self._table,
        )
