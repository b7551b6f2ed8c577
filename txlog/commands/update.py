"""UPDATE: sets columns of the rows for which a condition is true.

In: a condition, the columns to set and `RowOptions`. Out: a ``WriteResult``. ``tasks/operations/update`` makes the new
versions of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txlog.commands.row_change.options import RowOptions
from txlog.commands.row_change.run import run_row_change
from txlog.commit.open_table import OpenTable
from txlog.expressions.predicates import Predicate
from txlog.log.state import TableState
from txlog.result import WriteResult
from txlog.tasks.operations.update import UpdateRows, bound_update
from txlog.util import ambient

__all__ = ["update_rows"]


def update_rows(
    open_table: OpenTable, values: Mapping[str, Any], where: str | Predicate | None, options: RowOptions
) -> WriteResult:
    """Set columns of the rows for which ``where`` is true; None means all. Raises what `run_row_change` raises."""
    now = ambient.now()

    def bound(state: TableState) -> UpdateRows:
        return bound_update(values, where, state, now)

    return run_row_change(open_table, options, "an update", bound)
