"""`RowGuard`: the rows of a selective overwrite must lie inside the region that it replaces.

In: batches in the table's schema, on their way into files. Out: nothing, or the refusal that names the columns and
shows a row that lies outside: it would be added to rows of the table that nobody meant to touch.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from txlog.errors import InvalidInputError
from txlog.expressions.predicates import Predicate

__all__ = ["RowGuard", "false_or_unknown"]

_SHOWN_CHARACTERS_MAX = 200


def false_or_unknown(predicate: Predicate) -> Any:
    """The filter for the rows that a bound predicate does not keep: it is false there, or NULL."""
    import pyarrow.compute as pc

    return ~pc.coalesce(predicate.to_arrow_expression(), pc.scalar(False))


class RowGuard:
    """Lets rows pass for which ``predicate``, bound to the table's schema, is true."""

    def __init__(self, predicate: Predicate, table: str) -> None:
        self._predicate = predicate
        self._table = table
        self._outside = false_or_unknown(predicate)

    def check(self, rows: pa.RecordBatch, first_row: int) -> None:
        """Raises InvalidInputError where a row lies outside; ``first_row`` is the number of rows before these."""
        numbered = rows.append_column(_NUMBER, pa.array(range(first_row, first_row + rows.num_rows), pa.int64()))
        outside = numbered.filter(self._outside)
        if not outside.num_rows:
            return
        sample = outside.slice(0, 1).to_pylist()[0]
        values = ", ".join(f"{name} = {sample[name]!r}" for name in sorted(self._predicate.columns()))
        raise InvalidInputError(
            f"the data has rows outside of what it replaces: they do not satisfy {self._predicate}. The first is row"
            f" {sample[_NUMBER]}, counting from 0, with {values[:_SHOWN_CHARACTERS_MAX]}. Nothing was written; leave"
            " such rows out, or widen the predicate",
            table=self._table,
        )


_NUMBER = "row\0number"
