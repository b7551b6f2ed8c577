"""The last batches of applications (``txn``), which a branch shares with its table: so a batch that either has lands
once, whichever of the two it is repeated on.

A branch begins with the table's, a rebase takes over what others recorded, and a publication records in the table what
the branch did (`BranchWork.applications`). If both went on with the same application, that is a conflict (`Winners`),
since each may have rows of one batch. txlog's own applications stay where they are. PROTOCOL.md, "Transaction
Identifiers".
"""

from __future__ import annotations

from collections.abc import Container

from txlog.branch.known import APP_IDS
from txlog.extend import TableState
from txlog.extend.commits import PREPARED, ProposalBuilder

_NONE = -1
"""Before the first batch of an application."""


def begin_with(builder: ProposalBuilder, table: TableState, there: TableState | None) -> None:
    """A branch of a version of the table begins, in the log of an earlier branch if there is one: whose batches went
    with it, unless the table has them."""
    follow(builder, table, there)
    theirs = _shared(table)
    for app_id, version in ({} if there is None else _shared(there)).items():
        if app_id not in theirs and version > _NONE:
            builder.set_transaction(app_id, _NONE)


def follow(builder: ProposalBuilder, table: TableState, branch: TableState | None, but: Container[str] = ()) -> None:
    """Record on the branch what the table has, ``but`` for some applications."""
    known = {} if branch is None else _shared(branch)
    for app_id, version in _shared(table).items():
        if known.get(app_id) != version and app_id not in but:
            builder.set_transaction(app_id, version)


def _shared(state: TableState) -> dict[str, int]:
    return {
        app_id: each.version
        for app_id, each in state.transactions.items()
        if app_id != PREPARED and not app_id.startswith(APP_IDS)
    }
