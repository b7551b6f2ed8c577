"""What an overwrite would do, without writing: checks every row, and reads files that statistics do not decide.

In: data, and the options of the overwrite. Out: an `OverwritePreview`, for the newest version of the table. Data that
the overwrite would refuse is refused here too.
"""

from __future__ import annotations

from typing import Any

import msgspec

from txlog.core.format.file_columns import add_files_of
from txlog.core.operations._replaced_files import RowsReplacement, new_definition
from txlog.core.operations._unseen_changes import without_unseen
from txlog.core.operations._write_effects import Replaced
from txlog.core.operations._write_options import WriteOptions
from txlog.core.operations._write_planning import plan_for_rows
from txlog.core.versions import OpenTable
from txlog.core.writing.conform import completer_for
from txlog.core.writing.generated_columns import NumbersOfPreview
from txlog.core.writing.input import open_data
from txlog.core.writing.row_guard import RowGuard
from txlog.core.writing.unsent_files import UnsentFiles
from txlog.errors import TxlogError

__all__ = ["OverwritePreview", "preview_overwrite"]


class OverwritePreview(msgspec.Struct, frozen=True):
    """What an overwrite of a table at ``version`` would do.

    Attributes:
        version: The version it is based on.
        rows: The number of rows that would be written.
        rows_deleted: The number of rows that would be removed. Files removed as a whole count 0 if the log lacks their
            row counts.
        rows_copied: The number of rows that would be copied, since they share a file with removed rows.
        files_removed: The number of files that would be removed.
        files_marked: The number of files that would stay, with some of their rows marked as deleted.
    """

    version: int
    rows: int
    rows_deleted: int
    rows_copied: int
    files_removed: int
    files_marked: int


def preview_overwrite(open_table: OpenTable, data: Any, options: WriteOptions) -> OverwritePreview:
    """Compute what an overwrite of every row, or of the rows of a predicate, would do. Raises what it would raise."""
    job, stream = plan_for_rows(open_table, open_data(data), options)
    plan = job.plan
    computed = None if plan.computed is None else plan.computed.numbered_by(NumbersOfPreview())
    completer = completer_for(plan.schema, stream.schema, computed, open_table.uri, job.read_version)
    predicate = job.plan.rows_where
    guard = RowGuard(job.plan)
    rows = 0
    for batch in stream.batches:
        guard.check(completer.conform(batch, rows), rows)
        rows += batch.num_rows
    state = open_table.log.state_at(job.read_version)
    if predicate is None:
        replaced = Replaced()
        live = without_unseen(open_table, state, job, open_table.log.files(state))
        replaced.remove_whole(*add_files_of(live))
        would = replaced.metrics(())
    else:
        unsent = UnsentFiles(open_table.store.files)
        definition = new_definition(job)
        rows_replaced = RowsReplacement(open_table, state, predicate, unsent, options.row_mode, definition=definition)
        live = without_unseen(open_table, state, job, rows_replaced.candidates(state))
        with TxlogError.located(open_table.uri, state.version):
            would = rows_replaced.would_do(state, live)
    return OverwritePreview(
        state.version,
        rows,
        would.rows_deleted,
        would.rows_copied,
        would.files_removed,
        would.vectors,
    )
