"""Lost updates: what other writers changed in a region after the version that its new rows come from.

In: the rows that an overwrite replaces (`Region`), and commits that its caller has not read. Out: `UnseenChanges`: the
reasons not to replace them, or the files to leave alone. The overwrite itself is planned on a version that includes
these commits; ``core/versions/decisions/conflicts`` checks later commits. No store, no clock.

An unseen blind append counts as later than the overwrite, as in a race under WriteSerializable: its rows stay. A commit
that only moved rows is not a change, unless it moved such rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import msgspec

from txlog.core.format.actions import AddFile, RemoveFile
from txlog.core.format.column_mapping import physical_fields
from txlog.core.format.commit_file import Commit
from txlog.core.format.partition_values import partition_key
from txlog.core.format.paths import canonical_path
from txlog.core.format.schema import Struct
from txlog.core.predicates.terms.predicate import Predicate
from txlog.core.versions.decisions.joined_appends import files_of
from txlog.core.versions.decisions.proposal import Isolation
from txlog.errors import ConflictReason


class Region(msgspec.Struct, frozen=True):
    """The rows of a table version that an overwrite replaces: a ``predicate``'s, or whole ``partitions``.

    ``predicate`` is bound to the schema, ``partitions`` are named as by ``partition_values.partition_key``; one of them
    is None. ``files_before`` are the files that held such rows in the version that the caller last read, as comparable
    paths.
    """

    schema: Struct
    partition_columns: tuple[str, ...]
    predicate: Predicate | None
    partitions: frozenset[tuple[str | None, ...]] | None
    files_before: frozenset[str]

    def judge(self) -> Callable[[AddFile], bool]:
        """Returns a function that decides whether a file may hold rows of the region."""
        partitions = self.partitions
        if partitions is not None:
            fields = physical_fields(self.schema, self.partition_columns)
            return lambda add: partition_key(add.partition_values, fields) in partitions
        from txlog.core.predicates.skipping import Pruner

        assert self.predicate is not None
        pruner = Pruner(self.predicate, self.schema, self.partition_columns)
        return lambda add: pruner.may_match(add.partition_values, add.stats)


class UnseenChanges(msgspec.Struct, frozen=True):
    """``reasons`` why the region must not be replaced; ``later`` are files to leave alone, as comparable paths."""

    reasons: tuple[ConflictReason, ...]
    later: frozenset[str]


def unseen_changes(
    region: Region,
    commits: Sequence[Commit],
    own: Collection[int],
    isolation: Isolation,
    own_appends: Collection[str] = (),
) -> UnseenChanges:
    """Check every commit after the version that the caller last read, in ascending order, parsed with their files.

    ``own`` are the caller's own versions, and ``own_appends`` the caller's appends in versions that hold others' too:
    they are not a reason, but other writers' changes of their rows are.
    """
    may_hold = region.judge()
    inside = set(region.files_before)
    later: set[str] = set()
    reasons: list[ConflictReason] = []
    for commit in commits:
        adds = [action for action in commit.actions if type(action) is AddFile]
        mine, my_removes = files_of(commit, own_appends) if own_appends else ([], [])
        if mine:
            inside.update(canonical_path(add.path) for add in mine if may_hold(add))
            my_paths = {add.path for add in mine}
            adds = [add for add in adds if add.path not in my_paths]
        gone = {remove.path for remove in my_removes}
        removes = [each for each in commit.actions if type(each) is RemoveFile and each.path not in gone]
        is_blind = commit.commit_info is not None and commit.commit_info.is_blind_append
        if commit.version not in own and is_blind and isolation is not Isolation.SERIALIZABLE and not removes:
            later.update(canonical_path(add.path) for add in adds)
            continue
        held = [add for add in adds if may_hold(add)]
        if commit.version not in own:
            reasons += _changes(commit, held, removes, inside, later)
        inside.update(canonical_path(add.path) for add in held)
    return UnseenChanges(tuple(reasons), frozenset(later))


def _changes(
    commit: Commit, held: Sequence[AddFile], removes: Sequence[RemoveFile], inside: set[str], later: set[str]
) -> Iterator[ConflictReason]:
    about = (commit.version, commit.operation)
    added = [add.path for add in held if add.data_change]
    if added:
        yield ConflictReason("ConcurrentAppendError", *about, f"added {_files(added)} to what this WRITE replaces")
    removed = [remove.path for remove in removes if remove.data_change and canonical_path(remove.path) in inside]
    if removed:
        detail = f"removed {_files(removed)} of what this WRITE replaces"
        yield ConflictReason("ConcurrentDeleteReadError", *about, detail)
    moved = [remove.path for remove in removes if canonical_path(remove.path) in later]
    if moved:
        detail = f"moved rows of {_files(moved)}, which were appended after the version that this WRITE comes from"
        yield ConflictReason("ConcurrentDeleteReadError", *about, detail)


def _files(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{len(paths)} files ({paths[0]} and others)"
