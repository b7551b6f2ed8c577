"""`RowGuard`: the rules for every new row: the table's constraints, the lengths of its varchar and char columns, and
the region that a selective overwrite replaces. A row outside that region would be added to a part of the table that the
overwrite keeps.

In: batches in the table's schema, before they are written. Out: nothing, or an error that names the rule and shows a
row that breaks it. Rows are judged as readers will see them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from txlog.core.row_rules import Constraint, TextLimit, first_not_true
from txlog.errors import InvalidInputError, TxlogError

if TYPE_CHECKING:
    from txlog.core.predicates.terms.predicate import Predicate
    from txlog.core.writing._write_plan import WritePlan


class RowGuard:
    """Accepts the rows that a plan may write."""

    def __init__(self, plan: WritePlan) -> None:
        self._table = plan.table
        self._partition_columns = plan.partition_columns
        self._schema, self._time_zone = plan.schema, plan.time_zone
        self._where = plan.rows_where
        self._constraints = plan.constraints
        self._text_limits = plan.text_limits

    def check(self, rows: pa.RecordBatch, first_row: int) -> None:
        """Raises InvalidInputError if a row breaks a rule; ``first_row`` is the number of rows before these."""
        for limit in self._text_limits:
            self._check_length(limit, rows, first_row)
        if self._where is None and not self._constraints:
            return
        from txlog.core.row_rules import with_stored_partition_values

        rows = with_stored_partition_values(rows, self._partition_columns)
        with TxlogError.located(self._table):
            if self._where is not None:
                self._check_region(self._where, rows, first_row)
            for constraint in self._constraints:
                self._check_constraint(constraint, rows, first_row)

    def _check_length(self, limit: TextLimit, rows: pa.RecordBatch, first_row: int) -> None:
        found = limit.too_long(rows)
        if found is not None:
            at, length = found
            raise InvalidInputError(
                f"column {limit.name} is {limit.sql}, and row {first_row + at} of the written rows, counting from"
                f" 0, has a value of {length:,} characters there; the limit is {limit.length:,}, and spaces at the end"
                " count. Nothing was committed; shorten such values, or give the column a longer type (alter_column)",
                table=self._table,
                row=first_row + at,
            )

    def _check_region(self, where: Predicate, rows: pa.RecordBatch, first_row: int) -> None:
        found = first_not_true(where, rows)
        if found is not None:
            at, values = found
            raise InvalidInputError(
                f"the data has rows outside the part that it replaces: they do not satisfy {where}. The first"
                f" is row {first_row + at}, counting from 0{values and f', with {values}'}. Nothing was written;"
                " remove such rows from the data, or widen the condition",
                row=first_row + at,
            )

    def _check_constraint(self, constraint: Constraint, rows: pa.RecordBatch, first_row: int) -> None:
        found = constraint.violation(rows)
        if found is not None:
            at, values = found
            raise InvalidInputError(
                f"a row violates the {constraint.name}, which is {constraint.sql}{values and f', with {values}'}:"
                f" row {first_row + at} of the written rows, counting from 0. A condition that is NULL is"
                " violated too. Nothing was committed; correct such rows, or leave them out"
                + constraint.zone_note(self._schema, self._time_zone),
                row=first_row + at,
            )
