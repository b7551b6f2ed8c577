"""One row change from its arguments to its acknowledgement.

In: an open table, `RowOptions` and what makes the operation for a version. Out: a ``WriteResult``. A replay of an
application's checkpoint is answered before a row is read.
"""

from __future__ import annotations

from collections.abc import Callable

from txlog.commands.row_change.change import RowChange
from txlog.commands.row_change.operation import RowOperation
from txlog.commands.row_change.options import RowOptions, check_changeable, check_keeps_row_ids, uses_vectors
from txlog.commit.open_table import OpenTable
from txlog.errors import TxlogError
from txlog.log.state import TableState
from txlog.result import WriteResult
from txlog.util import ambient

__all__ = ["replayed", "run_prepared", "run_row_change", "state_to_change"]


def state_to_change(open_table: OpenTable, options: RowOptions, what: str) -> TableState:
    """The version that a change is made for: the newest, or ``read_version``. Refuses tables whose rows stay.

    Raises ``InvalidInputError``, ``UnsupportedFeatureError``, ``NotFoundError`` for a version that cannot be read.
    """
    state = open_table.writable_state()
    if options.read_version is not None and options.read_version != state.version:
        state = open_table.log.state_at(options.read_version)
        open_table.check_writable(state)
    with TxlogError.located(open_table.uri, state.version):
        check_changeable(state, what)
    return state


def replayed(open_table: OpenTable, state: TableState, options: RowOptions) -> WriteResult | None:
    """The answer for a checkpoint that is in the table already; None where it is new, or has no application."""
    if options.app_id is None or options.checkpoint_id is None:
        return None
    found = open_table.replay_of(state, options.app_id, options.checkpoint_id, options.fingerprint)
    return WriteResult(found.version, "already_committed", 0, ambient.uuid4()) if found else None


def run_row_change(
    open_table: OpenTable,
    options: RowOptions,
    what: str,
    operation_for: Callable[[TableState], RowOperation],
) -> WriteResult:
    """Make the change and commit it. ``what`` names it in refusals; one that finds nothing to do commits nothing.

    After the first put no file that it wrote is deleted, whatever is raised. Raises what ``OpenTable.commit_plan``
    raises, and what the operation raises for arguments that do not fit the table.
    """
    state = state_to_change(open_table, options, what)
    found = replayed(open_table, state, options)
    if found is not None:
        return found
    with TxlogError.located(open_table.uri, state.version):
        operation = operation_for(state)
    return run_prepared(open_table, state, options, what, operation)


def run_prepared(
    open_table: OpenTable, state: TableState, options: RowOptions, what: str, operation: RowOperation
) -> WriteResult:
    """The same for an operation that is bound to ``state`` already. Raises as `run_row_change`."""
    with TxlogError.located(open_table.uri, state.version):
        with_vectors = uses_vectors(state, options)
        check_keeps_row_ids(state, what, with_vectors=with_vectors, makes_images=operation.makes_images)
    change = RowChange(open_table, state, operation, options, with_vectors=with_vectors)
    return (
        open_table.commit_plan(change, state) if options.is_reexecuted else _committed_once(open_table, change, state)
    )


def _committed_once(open_table: OpenTable, change: RowChange, state: TableState) -> WriteResult:
    """By Delta's rules: a commit that touches what was read, or the same files, is a conflict."""
    proposal = change.execute(state)
    if not proposal.actions:
        return WriteResult(state.version, "committed", 0, "")
    return open_table.commit(proposal, state, change.metrics)
