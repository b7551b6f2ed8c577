"""The operations on branches as methods of `Table` call them: entries of the group ``txlog.operations``.

In: an open table, which is the branch except for `branch` and `branches`. Out: what the methods return.
"""

from __future__ import annotations

from txlog.branch.audited import audit
from txlog.branch.checking import check
from txlog.branch.creation import make_branch
from txlog.branch.ending import discard
from txlog.branch.known import branches, table_and_branch
from txlog.branch.publication import publish
from txlog.branch.rebase import rebase
from txlog.errors import InvalidInputError
from txlog.extend import OpenTable

__all__ = ["audit", "base_of_branch", "branches", "check", "discard", "make_branch", "publish", "rebase"]


def base_of_branch(open_table: OpenTable) -> int:
    """The version of the branch that has the rows it began with. Raises InvalidInputError if none has."""
    _, state, origin = table_and_branch(open_table)
    if origin.own_version > origin.made_at:
        raise InvalidInputError(
            f"the branch was rebased on version {origin.base_version} of its table, and no version of the branch has"
            f" just these rows: pass {origin.made_at} as the version before to compare it with what it began with, or"
            f" {origin.own_version} to see what was done since",
            table=open_table.uri,
            version=state.version,
        )
    return origin.own_version
