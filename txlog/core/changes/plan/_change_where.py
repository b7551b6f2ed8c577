"""DELETE and UPDATE: row changes of the rows for which a condition is true.

In: the change, and `RowOptions`. Out: a ``WriteResult``. ``core/changes/tasks/operations/_delete`` and
``core/changes/tasks/operations/_update`` say which rows are deleted, and make the new versions of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from txlog.core.changes.plan._options import RowOptions
from txlog.core.changes.plan._run import run_row_change
from txlog.core.versions import OpenTable
from txlog.result import WriteResult

if TYPE_CHECKING:
    from txlog.core.changes.tasks.operations import DeleteSpec, UpdateSpec
    from txlog.core.workers import GivenWorkers


def change_where(
    open_table: OpenTable, spec: DeleteSpec | UpdateSpec, options: RowOptions, workers: GivenWorkers | None = None
) -> WriteResult:
    """Make the change, on the workers if there are any. Raises what `run_row_change` raises."""
    places = open_table.given_workers(workers)
    if places is None:
        return run_row_change(open_table, options, spec.what, spec.bind)
    from txlog.core.changes.plan._distributed_tasks import run_in_parts

    result = run_in_parts(open_table, spec, options, places)
    assert result is not None
    return result
