"""DELETE: removes the rows for which a condition is true.

In: a condition and `RowOptions`. Out: a ``WriteResult``. ``tasks/operations/delete`` says which rows are deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from txlog.commands.row_change.options import RowOptions
from txlog.commands.row_change.run import run_row_change
from txlog.commit.open_table import OpenTable
from txlog.expressions.predicates import Predicate
from txlog.result import WriteResult
from txlog.tasks.operations.delete import Condition, DeleteRows
from txlog.util import ambient

if TYPE_CHECKING:
    from txlog.workers.given import GivenWorkers

__all__ = ["delete_rows"]


def delete_rows(
    open_table: OpenTable,
    where: str | Predicate | None,
    options: RowOptions,
    workers: GivenWorkers | None = None,
) -> WriteResult:
    """Delete the rows for which ``where`` is true; None means all. Raises what `run_row_change` raises."""
    now = ambient.now()
    places = open_table.given_workers(workers)
    if places is not None:
        from txlog.commands.row_change.parts import run_in_parts
        from txlog.tasks.specs import DeleteSpec

        result = run_in_parts(open_table, DeleteSpec(where, now), options, places)
        assert result is not None
        return result
    return run_row_change(open_table, options, "a delete", lambda state: DeleteRows(Condition(where, state, now)))
