"""Ends a branch that is thrown away, or that publications do not end: its last commit says so.

In: the open branch. Out: its last version. A branch that is published ends without it, since the table's log says so.
The branch's files that the table does not have go with the next vacuum of the table that finds its last commit older
than the retention: until then whoever reads the branch finds what is there. If somebody writes to it later, it is open
again. So the vacuum first closes the branch, by a commit at the version that such a writer would take: either that
commit lands, and nobody can write to the branch any more, or the writer's, and the branch stays.
"""

from __future__ import annotations

import contextlib

from msgspec.structs import replace

from txlog.branch.known import Origin, info_of, look_at, origin_of, table_and_branch
from txlog.core.format.actions import Protocol, operation_parameters
from txlog.core.format.features import DELETED_BRANCH, merged
from txlog.core.format.properties import BRANCH
from txlog.errors import ConflictError, CorruptLogError
from txlog.extend import OpenTable, TableState
from txlog.extend.commits import Isolation, OperationInfo, ProposalBuilder, ambient
from txlog.result import WriteResult


def discard(open_table: OpenTable) -> WriteResult:
    """Discard the branch. Raises what `Table.discard` raises."""
    while True:
        _, state, origin = table_and_branch(open_table)
        if origin.ended_at == state.version:
            return WriteResult(state.version, "already_committed", 0, "")
        done = end(open_table, state, origin, "DISCARD BRANCH")
        if done is not None:
            return done


def end(branch: OpenTable, state: TableState, origin: Origin, operation: str) -> WriteResult | None:
    """End the branch after ``state``; None if somebody wrote to it since. Raises what a commit raises."""
    return _marked(branch, state, replace(origin, ended_at=state.version + 1), operation)


def close(table: OpenTable, branch: OpenTable, version: int) -> None:
    """Close a branch whose newest version is still this one, if it ended. Raises what a commit raises."""
    with contextlib.suppress(CorruptLogError):  # a release that closed none was interrupted while it deleted the branch
        readable, begun = look_at(branch)
        state = readable or begun
        origin = None if state is None else origin_of(state)
        if state is None or origin is None or state.version != version:
            return
        if not origin.is_closed:
            if readable is not None and info_of(table.log.newest_state(), branch, state, origin).status == "open":
                return
            closed = replace(origin, ended_at=version + 1, is_closed=True)
            refuses = merged(state.protocol, Protocol(3, 7, (DELETED_BRANCH,), (DELETED_BRANCH,)))
            if _marked(branch, state, closed, "CLOSE BRANCH", refuses) is None:
                return
        if readable is not None:  # what comes before goes
            branch.log.write_checkpoint(branch.log.newest_state())


def keep(open_table: OpenTable) -> None:
    """Have no publication end the branch. Raises what a commit raises."""
    while True:
        _, state, origin = table_and_branch(open_table)
        if origin.is_kept or origin.ended_at == state.version:
            return
        if _marked(open_table, state, replace(origin, is_kept=True), "KEEP BRANCH") is not None:
            return


def begin_rebase(branch: OpenTable, state: TableState, origin: Origin, version: int) -> bool:
    """Have vacuums of the table keep the files of its ``version`` until the branch has moved there; False if somebody
    wrote to the branch since ``state``. Raises what a commit raises."""
    reading = replace(origin, reads=version, reads_since_ms=ambient.now_ms())
    return _marked(branch, state, reading, "BEGIN REBASE") is not None


def _marked(
    branch: OpenTable, state: TableState, origin: Origin, operation: str, protocol: Protocol | None = None
) -> WriteResult | None:
    configuration = {**state.metadata.configuration, BRANCH: origin.to_text()}
    builder = ProposalBuilder(state)
    builder.define(replace(state.metadata, configuration=configuration), protocol)
    builder.read_table()  # what somebody writes meanwhile is not ended unseen
    info = OperationInfo(operation, operation_parameters(branch=origin.name))
    try:
        done = branch.commit_change(builder, info, Isolation.SERIALIZABLE)
    except ConflictError:
        return None
    return done if done.version == state.version + 1 else None
