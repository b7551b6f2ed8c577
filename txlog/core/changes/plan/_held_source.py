"""Upserts and merges on workers whose source the driver holds: Arrow data of the caller.

In: a spec, and rows that are already as the table wants them. Out: a ``WriteResult``. Each task gets all source rows
and some files of the table; this process writes the rows that are inserted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from txlog.core.changes.plan._distributed_tasks import change_on_workers, defined_as, table_of_tasks
from txlog.core.changes.plan._options import RowOptions, uses_vectors
from txlog.core.changes.plan._target import SourceSummary
from txlog.core.changes.tasks import PartSource, SourceSpec
from txlog.core.format.schema import from_arrow
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.core.workers import Workers, require_crossing
from txlog.errors import TxlogError
from txlog.result import WriteResult

if TYPE_CHECKING:
    from txlog.core.definition import Definition


def change_with_held_source(
    open_table: OpenTable,
    state: TableState,
    spec: SourceSpec,
    rows: pa.Table,
    num_given: int,
    options: RowOptions,
    workers: Workers,
    definition: Definition | None = None,
) -> WriteResult:
    """Execute the change on ``workers``, and commit it. ``num_given`` rows were given, of which ``rows`` are used.

    ``definition`` is as for `change_on_workers`. Raises what that raises, and ``InvalidInputError`` before a task
    begins for what cannot be sent to the workers.
    """
    if workers.crosses:
        require_crossing(spec, f"{spec.what} with this condition or these values", open_table.uri)
    with TxlogError.located(open_table.uri, state.version):
        with_vectors = uses_vectors(state, options.mode)
        bound_to = table_of_tasks(open_table, defined_as(state, definition))
        shape = spec.shape(bound_to, from_arrow(rows.schema), open_table.uri)
    held = PartSource(rows, np.arange(rows.num_rows))
    extent = SourceSummary(spec, shape, rows.num_rows, num_given, (), held)
    change = open_table, state, spec, options, extent, workers, None
    return change_on_workers(*change, with_vectors=with_vectors, definition=definition)
