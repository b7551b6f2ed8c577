"""What others committed to a table since a branch of it began, and whether the branch may go on without having seen it.

In: the table's commits, and what the branch read. Out: nothing, or the ConflictError with every reason. The rules are
those of any other commit (`decide`), but for rows that others deleted and files that they only moved: these are judged
row by row, with the files that the branch touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from msgspec.structs import replace

from txlog.branch.branch_work import BranchWork
from txlog.branch.known import app_id_of, published_by
from txlog.branch.touched_rows import NEXT_STEP, conflict
from txlog.core.format.actions import Action, AddFile, DeletionVectorDescriptor, RemoveFile
from txlog.core.format.commit_file import Commit
from txlog.core.format.paths import canonical_path
from txlog.errors import NotFoundError
from txlog.extend import TableState
from txlog.extend.commits import (
    Conflict,
    Isolation,
    Predicate,
    Proposal,
    ReadSet,
    ambient,
    decide,
    is_same_definition,
    raise_conflict,
)

_WRITTEN_TWICE = "discard the branch, and repeat its batches on a new one"


class Winners:
    """The commits of a table since a branch began. For one thread."""

    def __init__(self, work: BranchWork) -> None:
        self._work = work
        self._table = work.table
        self._origin = work.origin
        self._branch = work.state
        self._changes = work.changes
        self._commits: list[Commit] = []

    def check(self, state: TableState, operation: str, next_step: str = NEXT_STEP, *, deletes: bool = True) -> None:
        """Raises the ConflictError of commits up to ``state`` that added rows for which a condition may be true that
        the branch read by, or that changed what it read whole. ``deletes`` False leaves out the conditions of its
        deletes."""
        changes, defined = self._changes, self._branch
        if changes.is_blind:
            return
        if not is_same_definition(self._work.metadata_in_table(state), state.metadata):
            defined = state
        reads = changes.reads(defined.schema, deletes=deletes)
        if not (reads.whole_table or reads.changed or reads.read):
            return
        commits = self._until(state, next_step)
        read_sets = [ReadSet(reads.whole_table, reads.changed, frozenset())]
        if reads.read and not reads.whole_table:  # of rows that it only read, those that others remove count, too
            read_sets.append(ReadSet(predicates=reads.read, files=self._files_read(reads.read, defined, commits)))
        isolation = Isolation.SERIALIZABLE if changes.is_serializable else self._table.isolation(state)
        for number, read_set in enumerate(read_sets):
            judged = Proposal(
                txn_id=ambient.uuid4(),
                read_version=self._origin.base_version,
                actions=(),
                read_set=read_set,
                isolation=isolation,
                operation=operation,
                schema=defined.schema,
                partition_columns=defined.partition_columns,
                planned_on=state.metadata,
                planned_protocol=state.protocol,
            )
            by_row = number == 0 and not reads.whole_table
            decision = decide(judged, [self._of_rows(each, by_row=by_row) for each in commits])
            if isinstance(decision, Conflict):
                raise_conflict(decision.reasons, self._table.uri, next_step)

    def check_applications(self, state: TableState) -> None:
        """Raises the ConflictError of an application with which both the branch and its table went on."""
        for each in self._work.applications:
            theirs = state.transaction_version(each.app_id)
            if theirs is not None and theirs != each.before:
                detail = (
                    f"or an earlier commit recorded batch {theirs} of the application {each.app_id!r}, which wrote"
                    f" batch {each.version} to the branch: rows may be there twice"
                )
                conflict(self._table, "ConcurrentTransactionError", state, detail, _WRITTEN_TWICE)

    def _files_read(
        self, predicates: Sequence[Predicate], defined: TableState, commits: Sequence[Commit]
    ) -> frozenset[str] | None:
        """The files with rows for which a condition may be true, and those to which others moved such rows; None if the
        version that the branch began with was cleaned up."""
        log, found = self._table.log, set[str]()
        try:
            base = log.state_at(self._origin.base_version)
            for each in predicates:
                found.update(map(canonical_path, log.matching_files(base, each, defined)["path"].to_pylist()))
        except NotFoundError:
            return None
        for commit in commits:
            moved = [each for each in commit.actions if isinstance(each, AddFile | RemoveFile) and not each.data_change]
            if any(type(each) is RemoveFile and canonical_path(each.path) in found for each in moved):
                found.update(canonical_path(each.path) for each in moved if type(each) is AddFile)
        return frozenset(found)

    def _until(self, state: TableState, next_step: str) -> Sequence[Commit]:
        first = self._origin.base_version + 1 + len(self._commits)
        try:
            self._commits += self._table.log.commits_between(first, state.version)
        except NotFoundError:
            detail = "cleaned up the commits since the branch began, which nobody can look at any more"
            conflict(self._table, "ConcurrentDeleteReadError", state, detail, next_step)
        return self._commits[: state.version - self._origin.base_version]

    def _of_rows(self, commit: Commit, *, by_row: bool) -> Commit:
        """A commit with what it added and removed of others' rows. A publication of the branch itself is none."""
        if published_by(commit, app_id_of(self._origin)) is not None:
            return replace(commit, actions=())
        judged_by_row = set[str]()
        if commit.operation != "RESTORE" and by_row:
            judged_by_row = _marked_more(commit)
        kept = (
            action
            for action in commit.actions
            if _changes_rows(action) and canonical_path(action.path) not in judged_by_row
        )
        return replace(commit, actions=tuple(kept))


def _changes_rows(action: Action) -> TypeGuard[AddFile | RemoveFile]:
    return isinstance(action, AddFile | RemoveFile) and action.data_change


def _marked_more(commit: Commit) -> set[str]:
    """The files in which a commit deleted more rows, and added none."""
    before = {
        canonical_path(each.path): _dead(each.deletion_vector) for each in commit.actions if type(each) is RemoveFile
    }
    adds = {canonical_path(each.path): each.deletion_vector for each in commit.actions if type(each) is AddFile}
    return {path for path, vector in adds.items() if path in before and _dead(vector) > before[path]}


def _dead(vector: DeletionVectorDescriptor | None) -> int:
    return 0 if vector is None else vector.cardinality
