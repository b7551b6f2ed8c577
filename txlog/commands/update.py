"""UPDATE: sets columns of the rows for which a condition is true.

In: a condition, the columns to set and `RowOptions`. Out: a ``WriteResult``. ``tasks/operations/update`` makes the new
versions of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from txlog.commands.row_change.options import RowOptions
from txlog.commands.row_change.run import run_row_change
from txlog.commit.open_table import OpenTable
from txlog.expressions.predicates import Predicate
from txlog.log.state import TableState
from txlog.result import WriteResult
from txlog.tasks.operations.update import UpdateRows, bound_update
from txlog.util import ambient

if TYPE_CHECKING:
    from txlog.workers.given import GivenWorkers

__all__ = ["update_rows"]


def update_rows(
    open_table: OpenTable,
    values: Mapping[str, Any],
    where: str | Predicate | None,
    options: RowOptions,
    workers: GivenWorkers | None = None,
) -> WriteResult:
    """Set columns of the rows for which ``where`` is true; None means all. Raises what `run_row_change` raises."""
    now = ambient.now()
    places = open_table.given_workers(workers)
    if places is not None:
        from txlog.commands.row_change.parts import run_in_parts
        from txlog.tasks.specs import UpdateSpec

        result = run_in_parts(open_table, UpdateSpec(values, where, now), options, places)
        assert result is not None
        return result

    def bound(state: TableState) -> UpdateRows:
        return bound_update(values, where, state, now)

    return run_row_change(open_table, options, "an update", bound)
