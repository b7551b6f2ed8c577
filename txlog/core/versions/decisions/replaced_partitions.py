"""Overwrites of partitions that writers commit for each other: which may share a version, and what each removes there.

In: the proposal of an overwrite of partitions that reruns, of this writer or from another one's intent; and the live
files of a version. Out: whether others may execute it; and the proposal as it follows that version. Pure.

Such an overwrite depends on nothing but the table's definition: it replaces whatever its partitions hold, and they are
those of its own files. So its intent needs to name no file that it removes, and whoever commits it removes what the
partitions hold then. It never conflicts, and waits in line once. Overwrites of different partitions have the same
result in each order, so they may share a version. Two of one partition do not: the files of the first would never be
in the table. Nor does an overwrite share a version with an append: a stream that skips versions with changed rows would
skip the append, and other engines would take it for one that read rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from txlog.core.format.actions import AddFile, RemoveFile, SetTransaction
from txlog.core.format.column_mapping import physical_fields
from txlog.core.format.commit_file import Commit
from txlog.core.format.partition_values import partition_key
from txlog.core.format.properties import BRANCH
from txlog.core.versions.decisions.fences import fenced_off
from txlog.core.versions.decisions.proposal import Proposal
from txlog.core.versions.decisions.state import PREPARED

Partition: TypeAlias = "tuple[str | None, ...]"
"""As ``partition_values.partition_key`` names it."""
LiveFiles: TypeAlias = Callable[[Collection[Partition]], Sequence[AddFile]]
"""The live files of these partitions in the version that a commit follows."""


def may_be_executed_by_others(proposal: Proposal) -> bool:
    """Whether writers that have not planned this overwrite may commit it, with or without others."""
    read = proposal.read_set
    return (
        proposal.replaces_partitions
        and proposal.is_reexecutable
        and bool(proposal.adds and proposal.partition_columns)
        and proposal.adds_are_new
        and not proposal.creates_table
        and not proposal.is_tied_to_version
        and not (read.app_ids or read.domains or read.source or read.other_tables)
        and all(type(each) in (SetTransaction, AddFile, RemoveFile) for each in proposal.actions)
        and len(proposal.set_transactions) <= 1
        and all(each.app_id != PREPARED for each in proposal.set_transactions)
        and (proposal.planned_on is None or BRANCH not in proposal.planned_on.configuration)
    )


def replaced_by(*proposals: Proposal) -> set[Partition]:
    """The partitions that these overwrites replace."""
    return {key for proposal in proposals for key in _partitions(proposal, proposal.adds)}


def is_overtaken(proposal: Proposal, since: Iterable[Commit]) -> bool:
    """Whether one of these versions may have replaced or deleted rows of its partitions.

    Then its own writer alone may commit it, which thereby shows that it still runs. If it has crashed, its job may have
    been run again, and what was committed then must not be undone.
    """
    mine = replaced_by(proposal)
    for commit in since:
        if (commit.commit_info is not None and commit.commit_info.is_blind_append) or fenced_off(commit):
            continue
        files = [each for each in commit.actions if isinstance(each, AddFile | RemoveFile)]
        changed = [each for each in files if each.data_change]
        if not files and commit.files_skipped:
            return True
        if any(each.partition_values is None for each in changed) or not mine.isdisjoint(
            _partitions(proposal, changed)
        ):
            return True
    return False


def without_removes(proposal: Proposal) -> Proposal:
    """The overwrite before it is executed."""
    return replace(proposal, actions=tuple(each for each in proposal.actions if type(each) is not RemoveFile))


def executed(proposals: Sequence[Proposal], live: LiveFiles, now_ms: int) -> list[Proposal]:
    """The overwrites as each of them follows the version that has these files. ``now_ms`` is when they are removed."""
    found: dict[Partition, list[AddFile]] = {key: [] for key in replaced_by(*proposals)}
    files = live(found) if found else ()
    for file, key in zip(files, _partitions(proposals[0], files) if files else (), strict=True):
        found[key].append(file)
    return [_executed(each, found, now_ms) for each in proposals]


def _executed(proposal: Proposal, live: Mapping[Partition, Sequence[AddFile]], now_ms: int) -> Proposal:
    files = [file for key in replaced_by(proposal) for file in live[key]]
    removes = [file.removed(deletion_timestamp=now_ms, data_change=True) for file in files]
    counted = {"numRemovedFiles": len(files), "numRemovedBytes": sum([file.size for file in files])}
    return replace(
        proposal,
        actions=(*proposal.set_transactions, *removes, *proposal.adds),
        operation_metrics=proposal.operation_metrics | {name: str(count) for name, count in counted.items()},
    )


def _partitions(proposal: Proposal, files: Iterable[AddFile | RemoveFile]) -> list[Partition]:
    """The partition of each of the files, as the log compares values."""
    fields = physical_fields(proposal.schema, proposal.partition_columns)
    return [partition_key(file.partition_values or {}, fields) for file in files]
