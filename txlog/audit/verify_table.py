"""`Table.verify`: the check of a whole table, for a table that is open.

In: an open table. Out: a `Verification`.
"""

from __future__ import annotations

from collections.abc import Sequence

from txlog.audit.verify import verify_table
from txlog.core.progress import OnProgress
from txlog.core.versions import OpenTable
from txlog.core.workers import GivenWorkers
from txlog.result.audits import Verification


def verify(
    open_table: OpenTable,
    *,
    data_files: bool,
    footers: bool,
    keys: Sequence[str] | None,
    on_progress: OnProgress | None,
    workers: GivenWorkers | None,
) -> Verification:
    """Check the table. Raises what `Table.verify` raises."""
    return verify_table(
        open_table.store,
        data_files=data_files,
        footers=footers,
        keys=keys,
        on_progress=on_progress,
        tasks=open_table.task_store(),
        workers=open_table.given_workers(workers),
    )
