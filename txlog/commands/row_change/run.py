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
from txlog.commit.unsent_files import UnsentFiles
from txlog.errors import TxlogError
from txlog.log.proposal_builder import ProposalBuilder
from txlog.log.state import TableState
from txlog.result import WriteMetrics, WriteResult
from txlog.util import ambient
from txlog.util.logs import logger

__all__ = ["apply_in_transaction", "replayed", "run_prepared", "run_row_change", "state_to_change"]


DEAD_FRACTION_MAX = 0.5
"""Above this part of a file's rows marked as deleted, a change warns."""


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

    What it wrote is deleted where nothing was sent; after the first put nothing is, whatever is raised. Raises what
    ``OpenTable.commit_plan`` raises, and what the operation raises for arguments that do not fit the table.
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
    with_vectors = _uses_vectors(open_table, state, options, what, operation)
    with UnsentFiles(open_table.store.files) as unsent:
        change = RowChange(open_table, state, operation, options, unsent, with_vectors=with_vectors)
        if options.is_reexecuted:
            return _warned(open_table, open_table.commit_plan(change, state, unsent=unsent))
        # By Delta's rules: a commit that touches what was read, or the same files, is a conflict.
        proposal = change.execute(state)
        if not proposal.actions:
            return WriteResult(state.version, "committed", 0, "")
        return _warned(open_table, open_table.commit(proposal, state, change.metrics, unsent=unsent))


def _warned(open_table: OpenTable, result: WriteResult) -> WriteResult:
    """Vectors save the rewriting of a file, not the reading of its dead rows."""
    if result.metrics.dead_fraction > DEAD_FRACTION_MAX:
        logger.warning(
            "%s: v%s marks %.0f %% of a file's rows as deleted; readers still read the file: write such files again,"
            ' by mode="copy-on-write" or by another engine\'s OPTIMIZE',
            *(open_table.uri, result.version, 100 * result.metrics.dead_fraction),
        )
    return result


def apply_in_transaction(
    open_table: OpenTable,
    state: TableState,
    builder: ProposalBuilder,
    unsent: UnsentFiles,
    what: str,
    operation: RowOperation,
) -> WriteMetrics:
    """Put the change into a transaction that ``builder`` collects, whose own files count as being in the table.

    It is judged by Delta's rules with the rest of the transaction, and not executed again.
    """
    options = RowOptions(on_conflict="fail")
    with TxlogError.located(open_table.uri, state.version):
        check_changeable(state, what)
    with_vectors = _uses_vectors(open_table, state, options, what, operation)
    change = RowChange(open_table, state, operation, options, unsent, with_vectors=with_vectors)
    files = builder.live(open_table.log.files(state))
    done = change.apply(state, builder, files)
    change.declare_reads(builder, files)
    return done


def _uses_vectors(
    open_table: OpenTable, state: TableState, options: RowOptions, what: str, operation: RowOperation
) -> bool:
    with TxlogError.located(open_table.uri, state.version):
        with_vectors = uses_vectors(state, options)
        check_keeps_row_ids(state, what, with_vectors=with_vectors, replaces_rows=operation.replaces_rows)
    return with_vectors
