"""One row change from its arguments to its acknowledgement.

In: an open table, `RowOptions` and a function that makes the operation for a version. Out: a ``WriteResult``. If an
application's checkpoint is already in the table, it answers before it reads a row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.changes.plan._change import RowChange
from txlog.core.changes.plan._dead_rows import warn_of_dead_rows
from txlog.core.changes.plan._local_tasks import change_locally, would_do
from txlog.core.changes.plan._options import RowOptions, check_changeable, note_of_copies, uses_vectors
from txlog.core.changes.tasks import RowOperation
from txlog.core.format.properties import BRANCH
from txlog.core.versions import OpenTable, Steps, ToCommit
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import UnsentFiles
from txlog.errors import TxlogError
from txlog.result import WriteMetrics, WriteResult

if TYPE_CHECKING:
    from txlog.core.changes.plan._change_files import ChangeFiles
    from txlog.core.definition import Definition


def state_to_change(open_table: OpenTable, options: RowOptions, what: str) -> TableState:
    """The version that a change is based on: the newest, or ``read_version``. Refuses append-only tables.

    Raises ``InvalidInputError``, ``UnsupportedFeatureError``, ``NotFoundError`` for a version that cannot be read.
    """
    state = open_table.writable_state()
    read_version = options.commit.read_version
    if read_version is not None and read_version != state.version:
        state = open_table.log.state_at(read_version)
        open_table.check_writable(state)
    with TxlogError.located(open_table.uri, state.version):
        check_changeable(state, what)
    return state


def replayed(open_table: OpenTable, state: TableState, options: RowOptions) -> WriteResult | None:
    """The answer for a checkpoint that is already in the table; None if it is new, or without an application."""
    if options.commit.transaction is None:
        return None
    found = open_table.replay_of(state, *options.commit.transaction, options.commit.fingerprint)
    return WriteResult(found.version, "already_committed", 0, ambient.uuid4()) if found else None


def run_row_change(
    open_table: OpenTable,
    options: RowOptions,
    what: str,
    operation_for: Callable[[TableState], RowOperation],
) -> WriteResult:
    """Make the change and commit it. ``what`` names it in error messages. A change without effect commits nothing,
    but to a branch.

    Its files are deleted if nothing was sent, and kept after the first put, whatever it raises. Raises what
    ``OpenTable.commit_plan`` raises, and what the operation raises for arguments that do not fit the table.
    """
    with open_table.log.files_ahead():
        state = state_to_change(open_table, options, what)
        found = replayed(open_table, state, options)
        if found is not None:
            return found
        with TxlogError.located(open_table.uri, state.version):
            operation = operation_for(state)
        return open_table.run(prepared_steps(open_table, state, options, operation))


def prepared_steps(
    open_table: OpenTable,
    state: TableState,
    options: RowOptions,
    operation: RowOperation,
    definition: Definition | None = None,
    unsent: UnsentFiles | None = None,
) -> Steps[WriteResult]:
    """`run_row_change` for an operation that is already bound: to ``state``, or to ``definition`` if given.

    The change then commits the definition too. ``unsent`` owns other files. Raises what `run_row_change` raises.
    """
    with TxlogError.located(open_table.uri, state.version):
        with_vectors = uses_vectors(state, options.mode)
    if options.dry_run:
        open_table.log.check_zones(state)
        would = would_do(
            open_table,
            state,
            operation,
            options,
            open_table.log.files(state),
            with_vectors=with_vectors,
            definition=definition,
        )
        return WriteResult(state.version, "dry_run", 0, "", would)
    with contextlib.ExitStack() as stack:
        if unsent is None:
            unsent = stack.enter_context(open_table.unsent_files())
        change, tasks = change_locally(
            open_table,
            state,
            operation,
            options,
            unsent,
            with_vectors=with_vectors,
            definition=definition,
            change_files=_change_files_of(open_table, state, unsent, definition),
        )
        result = yield from row_change_steps(open_table, state, options, change, unsent)
        tasks.remember(change)
        operation.report()
        return result


def row_change_steps(
    open_table: OpenTable, state: TableState, options: RowOptions, change: RowChange, unsent: UnsentFiles
) -> Steps[WriteResult]:
    """Execute a row change on ``state``, which `OpenTable.run` commits. Raises what `run_row_change` raises.

    The first result of a handle whose change copied many rows says so.
    """
    # A branch records what a change read, even if that found no row.
    is_recorded = BRANCH in state.metadata.configuration and change.reads_rows
    if options.commit.is_reexecuted("rerun"):
        result = yield from open_table.plan_steps(change, state, unsent=unsent, is_empty_too=is_recorded)
    else:
        # Delta's rules: a commit that touches what was read, or the same files, is a conflict.
        proposal = change.execute(state)
        if not proposal.actions and not is_recorded:
            return WriteResult(state.version, "committed", 0, "")
        result = yield ToCommit(proposal, state, change.metrics, unsent=unsent)
    if change.done.dead_fractions:
        warn_of_dead_rows(open_table, result.version, change.done.dead_fractions)
    note = None if open_table.has_noted_copies else note_of_copies(state, options.mode, result.metrics)
    if note is None:
        return result
    open_table.has_noted_copies = True
    return replace(result, notes=(*result.notes, note))


def _change_files_of(
    open_table: OpenTable, state: TableState, unsent: UnsentFiles, definition: Definition | None
) -> ChangeFiles | None:
    """None for a table whose change feed is off: most are."""
    if definition is None and not state.properties.enable_change_data_feed:
        return None
    from txlog.core.changes.plan._change_files import ChangeFiles

    return ChangeFiles.of(open_table, state, unsent, None if definition is None else definition.metadata)


def change_in_transaction(
    open_table: OpenTable,
    state: TableState,
    unsent: UnsentFiles,
    what: str,
    operation: RowOperation,
    options: RowOptions,
    change_files: ChangeFiles | None,
) -> Callable[[ProposalBuilder, TableState], WriteMetrics]:
    """The change as a step of a transaction, whose own files count as part of the table: it puts the change of a
    version's rows into the transaction's proposal, and returns what it does.

    Delta's rules judge it with the rest of the transaction. ``change_files`` are the transaction's, if its table has a
    change data feed.
    """
    with TxlogError.located(open_table.uri, state.version):
        check_changeable(state, what)
        with_vectors = uses_vectors(state, options.mode)
    change, _ = change_locally(
        open_table, state, operation, options, unsent, with_vectors=with_vectors, change_files=change_files
    )
    return lambda builder, state: change.apply(state, builder, builder.live(open_table.log.files(state)))
