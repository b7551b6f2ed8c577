"""`RowCheck`: what an append would make of some rows, without writing them.

In: an open table, an Arrow schema, record batches. Out: the rows as the table has them, or the error that the append
would raise. For programs that say yes or no to rows now, and write them later with the rows of others.
"""

from __future__ import annotations

import pyarrow as pa

from txlog.core.operations._write_options import WriteOptions
from txlog.core.operations._write_planning import plan_write
from txlog.core.versions import OpenTable
from txlog.core.writing import Conformer, completer_for, idle_as_null, require_utf8
from txlog.errors import InvalidInputError, SchemaMismatchError, TxlogError


class RowCheck:
    """Checks rows of one Arrow schema by the definition that the table is known to have. Thread-safe; holds no rows.

    Args:
        table: The table.
        schema: The columns of the rows.

    Raises:
        SchemaMismatchError: The columns do not fit the table; the message lists all that differ.
        TxlogError: What `Table.append` raises before it takes a row.
    """

    def __init__(self, table: OpenTable, schema: pa.Schema) -> None:
        self._uri = table.uri
        state = table.known_state()
        self._plan = plan = plan_write(table, schema, WriteOptions(), state).plan
        self.metadata = state.metadata
        """The definition that the rows are checked by."""
        self._rows = completer_for(plan.schema, schema, plan.computed, plan.table, plan.read_version)
        self._guard = None
        if plan.has_rules:
            from txlog.core.writing import RowGuard

            self._guard = RowGuard(plan)

    @classmethod
    def of(cls, table: OpenTable, rows: pa.RecordBatch) -> tuple[RowCheck, pa.RecordBatch]:
        """The check for these rows, and the rows, in which a column without a value has the table's type: it counts as
        one of nulls. Raises what the constructor raises."""
        try:
            return cls(table, rows.schema), rows
        except SchemaMismatchError:
            fitting = idle_as_null(table.known_state().schema, rows)
            if fitting.schema.equals(rows.schema):
                raise
            return cls(table, fitting.schema), fitting

    @property
    def completes_rows(self) -> bool:
        """Whether the table computes columns of new rows: an append then takes the rows as they came."""
        return not isinstance(self._rows, Conformer)

    def taken(self, rows: pa.RecordBatch, first_row: int = 0) -> pa.RecordBatch:
        """The rows in the table's columns and types; in one that computes columns, with these.

        Args:
            rows: Rows of the schema, whose memory is sound (``validate(full=True)``).
            first_row: The number of rows before these, for messages.

        Raises:
            InvalidInputError: A row cannot be stored: the message names the row, the column and the value.
        """
        require_utf8(rows, first_row)
        taken = self._rows.conform(rows, first_row)
        if self._guard is not None:
            with TxlogError.located(self._uri):
                self._guard.check(taken, first_row)
        return taken

    def refused_rows(self, rows: pa.RecordBatch) -> dict[int, str]:
        """Why each row that cannot be stored is refused, by its number from 0. It halves the rows to find them."""
        found: dict[int, str] = {}
        waiting = [(0, rows.num_rows)]
        while waiting:
            start, count = waiting.pop()
            try:
                self.taken(rows.slice(start, count), start)
            except InvalidInputError as error:
                if count == 1:
                    found[start] = error.message
                    continue
                half = count // 2
                waiting += [(start + half, count - half), (start, half)]
        return found
