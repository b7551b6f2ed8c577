"""Begins the log of a table that has very many files from its first version on, such as a branch or a clone.

In: a proposal that defines the table and adds no file, and the files as columns. Out: version 1 of a log as it is after
a cleanup: a commit, and the checkpoint that has the files. The commit decides who begins the log, as any commit does.
There is no version 0, so that no reader takes the commit alone for a table without files. PROTOCOL.md, "Checkpoints",
"Metadata Cleanup".
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from txlog.core.versions._commit_context import CommitContext
from txlog.core.versions._commit_loop import CommitRun, Peers
from txlog.core.versions.decisions.proposal import Proposal
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import DeltaLog, list_log
from txlog.errors import TableNotFoundError, UnsupportedFeatureError

_FIRST: Final = 1


def begin_log(context: CommitContext, proposal: Proposal, files: pa.Table) -> TableState | None:
    """The first version, with its files; None if another writer's commit is there. Raises as `OpenTable.begin`."""
    log = context.log
    if log.store.owner is not None:
        raise UnsupportedFeatureError("the owner of the table's versions makes its first one", table=log.uri)
    totals = files.num_rows, pc.sum(files.column("size")).as_py() or 0
    run = CommitRun(context, replace(proposal, beside=totals), None, Peers(), first=_FIRST)
    commit = run.take_first()
    return None if commit is None else log.begin(commit, files)


def begun(log: DeltaLog) -> TableState | None:
    """See `OpenTable.begun`."""
    try:
        listing = list_log(log.store)
    except TableNotFoundError:
        return None
    if listing.checkpoints or [*listing.commits] != [_FIRST]:
        return None
    return log.defined_by(log.read_commit(_FIRST))
