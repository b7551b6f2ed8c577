"""`Report`: what `Table.report` returns. In: an open table. Out: one HTML page, to save or to show in a notebook."""

from __future__ import annotations

from txlog.core.progress import OnProgress, progress_of
from txlog.core.util import whole_number
from txlog.core.versions import OpenTable
from txlog.report.gather import gather
from txlog.report.page import page_of
from txlog.result.report import Report


def make_report(
    open_table: OpenTable, *, limit: int | None = None, orphans: bool = False, on_progress: OnProgress | None = None
) -> Report:
    """See `Table.report`."""
    commits = None if limit is None else whole_number("limit", limit, at_least=1, table=open_table.uri)
    facts = gather(open_table, commits=commits, lists_folder=orphans, on_step=progress_of(on_progress))
    return Report(open_table.uri, facts.table.version, page_of(facts), facts)
