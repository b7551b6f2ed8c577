"""DELETE: removes the rows for which a condition is true.

In: a condition and `RowOptions`. Out: a ``WriteResult``. ``tasks/operations/delete`` says which rows are deleted.
"""

from __future__ import annotations

from txlog.commands.row_change.options import RowOptions
from txlog.commands.row_change.run import run_row_change
from txlog.commit.open_table import OpenTable
from txlog.expressions.predicates import Predicate
from txlog.result import WriteResult
from txlog.tasks.operations.delete import Condition, DeleteRows
from txlog.util import ambient

__all__ = ["delete_rows"]


def delete_rows(open_table: OpenTable, where: str | Predicate | None, options: RowOptions) -> WriteResult:
    """Delete the rows for which ``where`` is true; None means all. Raises what `run_row_change` raises."""
    now = ambient.now()
    return run_row_change(open_table, options, "a delete", lambda state: DeleteRows(Condition(where, state, now)))
