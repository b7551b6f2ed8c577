"""Conflict detection: (read set, actions, winners, isolation) -> Rebase | Reexecute | Conflict | (Already)Committed.

A proposal was planned on one version; others have committed since. `decide` looks at all of their commits: first for
our own ``txnId`` (our put landed, its answer was lost), then for our own ``app_id`` (another process committed the same
work), only then for conflicts: every way in which a winner invalidates what the proposal read or wrote, under its
isolation level. No store, no clock. Of joined appends, those that cannot go on with the others are named: each of them
is then decided alone.

A proposal made by a plan is not checked by its files: if a winner changed files, the plan reruns.

The rules, in order, are the rules of Delta's ConflictChecker, stricter in one point: any winning metadata change
conflicts, without a list of allowed changes, except for one that only moves high-water marks of identity columns: then
a change of the definition takes the marks over. A plan continues after metadata changes that do not affect how rows are
written. A winning upgrade of the protocol conflicts unless it only adds features that concern none of our actions, and
we change no protocol. One rule is txlog's own: a vacuum that begins conflicts with a restore.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from txlog.core.format.actions import AddFile, DomainMetadata, Metadata, Protocol, RemoveFile, SetTransaction
from txlog.core.format.column_mapping import physical_fields
from txlog.core.format.commit_file import Commit
from txlog.core.format.partition_values import partition_key
from txlog.core.format.paths import canonical_path
from txlog.core.versions.decisions.definition_changes import (
    is_same_definition,
    keeps_write_rules,
    only_adds_harmless_features,
)
from txlog.core.versions.decisions.exactly_once import AlreadyCommitted, FingerprintMismatch, fingerprints_differ
from txlog.core.versions.decisions.fences import fenced_off
from txlog.core.versions.decisions.joined_appends import holds, txn_ids
from txlog.core.versions.decisions.proposal import Isolation, Proposal
from txlog.core.versions.decisions.state import BegunVacuum, begun_vacuum
from txlog.core.wording import in_python, spelled
from txlog.errors import ConflictReason

if TYPE_CHECKING:
    from txlog.core.predicates.skipping import Pruner
    from txlog.core.versions.decisions.state import TableState


_PLANNING_MAX_MS = 3_600_000
"""A deletion vector is written before its commit is planned, whose time is all that is known of it: by so much at the
most."""


class Rebase(msgspec.Struct, frozen=True):
    """Nothing conflicts up to ``version``: propose ``version + 1`` (see `Proposal.rebased`). ``metadata`` is what the
    last winner that moved high-water marks says; None if none did."""

    version: int
    metadata: Metadata | None = None


class Reexecute(msgspec.Struct, frozen=True):
    """Nothing conflicts up to ``version``, but files changed: let the plan make a proposal for ``version + 1``."""

    version: int


class Committed(msgspec.Struct, frozen=True):
    """This very transaction is in the log, as ``version``."""

    version: int


class Conflict(msgspec.Struct, frozen=True):
    """The proposal is not valid on top of the winners; at least one reason, by ascending winner."""

    reasons: tuple[ConflictReason, ...]


class SplitAppends(msgspec.Struct, frozen=True):
    """Of joined appends, these are not valid up to ``version`` as they are: each must be committed, or fail, alone."""

    version: int
    txn_ids: frozenset[str]


Decision: TypeAlias = Rebase | Reexecute | Conflict | Committed | AlreadyCommitted | SplitAppends


def decide(proposal: Proposal, winners: Sequence[Commit]) -> Decision:
    """Check a proposal against every commit after its ``base_version``, up to the newest version.

    ``winners`` ascend without a gap. They may be parsed with ``files=False`` if the proposal's ``needs_winning_files``
    is False.
    """
    versions = [winner.version for winner in winners]
    first = proposal.base_version + 1
    assert versions == list(range(first, first + len(winners))), f"winners of v{first - 1} have gaps: {versions}"
    for winner in winners:
        if holds(winner, proposal.txn_id):
            return Committed(winner.version)
    if proposal.members:
        return _decide_members(proposal, winners)
    for winner in winners:
        if proposal.txn_id in fenced_off(winner):
            return Conflict((_reason(winner, "ConcurrentTransactionError", "says that this transaction never lands"),))
    for winner in winners:
        if _holds_our_work(proposal, winner) and not _differs(proposal, winner):
            return AlreadyCommitted(winner.version)
    pruners = _pruners(proposal)
    reasons = [reason for winner in winners for reason in _conflicts(proposal, winner, pruners)]
    if reasons:
        return Conflict(tuple(reasons))
    newest = first - 1 + len(winners)
    if proposal.is_reexecutable and any(map(_changes_plans, winners)):
        return Reexecute(newest)
    return Rebase(newest, _last_metadata(winners))


def _last_metadata(winners: Sequence[Commit]) -> Metadata | None:
    found = [action for winner in winners for action in winner.actions if type(action) is Metadata]
    return found[-1] if found else None


def _decide_members(proposal: Proposal, winners: Sequence[Commit]) -> Rebase | SplitAppends:
    """Which of joined appends are in the log already, or meet a conflict: they may end differently, so none is the
    answer for all."""
    newest = proposal.base_version + len(winners)
    taken = {txn_id for winner in winners for txn_id in (*txn_ids(winner), *fenced_off(winner))}
    moved = {action.app_id for winner in winners for action in winner.actions if type(action) is SetTransaction}
    is_redefined = any(
        type(action) is Protocol or (type(action) is Metadata and not _goes_on_with(proposal.members[0], action))
        for winner in winners
        for action in winner.actions
    )
    apart = frozenset(
        each.txn_id
        for each in proposal.members
        if is_redefined or each.txn_id in taken or any(mine.app_id in moved for mine in each.set_transactions)
    )
    return SplitAppends(newest, apart) if apart else Rebase(newest)


def decide_unread(proposal: Proposal, before: TableState | None, after: TableState) -> Decision:
    """Check a proposal that lost to commits which were cleaned up before they were read, by two versions of the table.

    ``before`` is the version that the proposal follows, None if it creates the table; ``after`` is the newest one. What
    they do not show counts as a conflict. ``AlreadyCommitted`` has no version; it is no answer for a proposal with a
    fingerprint, which only the lost commit could confirm.
    """
    has_plan = proposal.is_reexecutable
    reasons: list[tuple[str, str]] = []
    if not proposal.is_blind_append and not has_plan:
        detail = "and later commits were cleaned up from the log before this one could look at them"
        reasons.append(("ConcurrentDeleteReadError", detail))
    if before is None or not (before.protocol == after.protocol or _is_harmless(proposal, after.protocol)):
        reasons.append(("ProtocolChangedError", "or a later, cleaned-up commit changed the protocol"))
    is_same = keeps_write_rules if has_plan else operator.eq if proposal.metadata else is_same_definition
    if before is None or not is_same(before.metadata, after.metadata):
        reasons.append(("MetadataChangedError", "or a later, cleaned-up commit changed the metadata"))
    transactions = proposal.set_transactions
    seen = {mine.app_id: after.transaction_version(mine.app_id) for mine in transactions}
    asked = [*seen, *proposal.read_set.app_ids]
    moved = [
        each
        for each in asked
        if before is not None and after.transaction_version(each) != before.transaction_version(each)
    ]
    is_same_work = proposal.fingerprint is None and not proposal.members
    if moved and is_same_work and seen and all(seen[mine.app_id] == mine.version for mine in transactions):
        return AlreadyCommitted(None)
    reasons += [("ConcurrentTransactionError", f"or a later commit moved app_id {each!r}") for each in moved]
    if reasons:
        first = proposal.base_version + 1
        return Conflict(tuple(ConflictReason(rule, first, "unknown", detail) for rule, detail in reasons))
    return Reexecute(after.version) if has_plan else Rebase(after.version)


# --- the rules ----------------------------------------------------------------------------------------------


def _conflicts(proposal: Proposal, winner: Commit, pruners: Sequence[Pruner]) -> Iterator[ConflictReason]:
    yield from _protocol_and_metadata(proposal, winner)
    yield from _domains(proposal, winner)
    yield from _transactions(proposal, winner)
    yield from _vacuums(proposal, winner)
    if not proposal.needs_winning_files:
        return
    assert not winner.files_skipped, f"v{winner.version} was parsed without the files that this proposal depends on"
    if proposal.is_reexecutable:
        return
    yield from _changed_source(proposal, winner)
    yield from _files_described_again(proposal, winner)
    yield from _added_files(proposal, winner, pruners)
    removes = [action for action in winner.actions if type(action) is RemoveFile]
    if removes:
        yield from _removed_files_read(proposal, winner, removes, pruners)
        yield from _removed_files_removed(proposal, winner, removes)
    yield from _removed_files_added_again(proposal, winner, removes)


def _protocol_and_metadata(proposal: Proposal, winner: Commit) -> Iterator[ConflictReason]:
    for action in winner.actions:
        if type(action) is Protocol and not _is_harmless(proposal, action):
            did = "created the table" if winner.version == 0 else "changed the table's protocol"
            yield _reason(winner, "ProtocolChangedError", did)
            break
    else:
        if proposal.creates_table:
            yield _reason(winner, "ProtocolChangedError", "wrote to the table that this transaction creates")
    for action in winner.actions:
        if type(action) is Metadata and not _goes_on_with(proposal, action):
            yield _reason(winner, "MetadataChangedError", "changed the table's schema, partitioning or properties")
            break


def _is_harmless(proposal: Proposal, protocol: Protocol) -> bool:
    """Whether an upgrade of the protocol leaves alone all that the proposal does. A vacuum checks every protocol."""
    planned_on = proposal.planned_protocol
    if planned_on is None or proposal.protocol is not None:
        return False
    acts = proposal.adds or proposal.removes or proposal.metadata or proposal.set_transactions or proposal.domains
    return bool(acts) and only_adds_harmless_features(planned_on, protocol)


def _goes_on_with(proposal: Proposal, metadata: Metadata) -> bool:
    """Whether the proposal means the same with this definition of the table: only high-water marks of identity columns
    moved or, if a plan made it that leaves the definition alone, nothing that affects how rows are written."""
    planned_on = proposal.planned_on
    if planned_on is None:
        return False
    is_same = keeps_write_rules if proposal.is_reexecutable and proposal.metadata is None else is_same_definition
    return is_same(planned_on, metadata)


def _domains(proposal: Proposal, winner: Commit) -> Iterator[ConflictReason]:
    ours = proposal.read_set.domains.union(action.domain for action in proposal.domains)
    for action in winner.actions if ours else ():
        if type(action) is DomainMetadata and action.domain in ours:
            yield _reason(
                winner,
                "ConcurrentTransactionError",
                f"changed metadata domain {action.domain!r}, which this transaction depends on",
            )


def _transactions(proposal: Proposal, winner: Commit) -> Iterator[ConflictReason]:
    """An application that we write counts as read: the check before the commit was about its last version."""
    ours = {action.app_id: action.version for action in proposal.set_transactions}
    read = proposal.read_set.app_ids
    for action in winner.actions if ours or read else ():
        if type(action) is not SetTransaction or not (action.app_id in ours or action.app_id in read):
            continue
        yield _reason(winner, "ConcurrentTransactionError", _transaction_detail(proposal, winner, action, ours))


def _transaction_detail(proposal: Proposal, winner: Commit, theirs: SetTransaction, ours: dict[str, int]) -> str:
    mine = ours.get(theirs.app_id)
    their_fingerprint = fingerprints_differ(proposal.fingerprint, winner, theirs.app_id, theirs.version)
    if mine == theirs.version and proposal.fingerprint is not None and their_fingerprint is not None:
        mismatch = FingerprintMismatch(
            theirs.app_id, theirs.version, winner.version, proposal.fingerprint, their_fingerprint
        )
        return f"committed a different checkpoint under the same id: {spelled(mismatch.message, in_python)}"
    moved = f"moved application {theirs.app_id!r} to checkpoint {theirs.version}"
    return f"{moved}, which this transaction read" if mine is None else f"{moved}, this transaction is its {mine}"


def _vacuums(proposal: Proposal, winner: Commit) -> Iterator[ConflictReason]:
    """A vacuum that began before a restore may not know what comes back: the restore must check its files again. And
    one with a short retention deletes the files of whoever has written them, and not committed them yet."""
    if winner.operation != "VACUUM START":
        return
    if proposal.read_set.whole_table and not proposal.adds_are_new:
        detail = f"began a vacuum, which may delete files that this {proposal.operation} brings back"
        yield _reason(winner, "ConcurrentDeleteReadError", detail)
    begun = begun_vacuum(winner)
    if begun is not None and proposal.adds_are_new:
        yield from filter(None, [endangered(proposal, begun)])


def endangered(proposal: Proposal, vacuum: BegunVacuum) -> ConflictReason | None:
    """The conflict with a vacuum that may delete new files of the proposal, since no commit names them yet."""
    if all(written_ms > vacuum.cutoff_ms for written_ms in _files_written_ms(proposal)):
        return None
    detail = f"began a vacuum with so short a retention that it deletes files of this {proposal.operation}"
    return ConflictReason("ConcurrentDeleteReadError", vacuum.version, "VACUUM START", detail)


def _files_written_ms(proposal: Proposal) -> Iterator[int]:
    """When the new data files were written, and at the earliest the files of new deletion vectors."""
    replaced = {action.path: action.deletion_timestamp for action in proposal.removes}
    for add in proposal.adds:
        if add.path not in replaced:
            yield add.modification_time
        elif add.deletion_vector is not None and add.deletion_vector.storage_type != "i":
            yield (replaced[add.path] or add.modification_time) - _PLANNING_MAX_MS


def _files_described_again(proposal: Proposal, winner: Commit) -> Iterator[ConflictReason]:
    """A restore compares row ids: it must not miss that the files which stay lost theirs, or got others."""
    if not proposal.read_set.whole_table or proposal.adds_are_new:
        return
    adds = [action for action in winner.actions if type(action) is AddFile and not action.data_change]
    if adds:
        detail = f"changed what the log says of {_files(adds)}, which this {proposal.operation} read"
        yield _reason(winner, "ConcurrentAppendError", detail)


def _changed_source(proposal: Proposal, winner: Commit) -> Iterator[ConflictReason]:
    """Changes of the rows from which this transaction made its own. Moved rows are the same rows."""
    level = proposal.read_set.source
    if level is None or _counts_as_later(proposal, winner, level):
        return
    made = f"from which this {proposal.operation} made its rows"
    adds = [action for action in winner.actions if type(action) is AddFile and action.data_change]
    if adds:
        yield _reason(winner, "ConcurrentAppendError", f"added {_files(adds)} to the table, {made}")
    removes = [action for action in winner.actions if type(action) is RemoveFile and action.data_change]
    if removes:
        yield _reason(winner, "ConcurrentDeleteReadError", f"removed {_files(removes)} of the table, {made}")


def _added_files(proposal: Proposal, winner: Commit, pruners: Sequence[Pruner]) -> Iterator[ConflictReason]:
    """Concurrently added rows that this transaction would have read."""
    read = proposal.read_set
    level = proposal.effective_isolation
    if level is Isolation.SNAPSHOT or _counts_as_later(proposal, winner, level):
        return
    # Files that only hold moved rows are left out: these rows were in files that the same commit removed, and the
    # rules of removed files cover them.
    adds = [action for action in winner.actions if type(action) is AddFile and action.data_change]
    if read.whole_table and adds:
        yield _reason(
            winner,
            "ConcurrentAppendError",
            f"added {_files(adds)} to the table, which this {proposal.operation} read whole",
        )
    for predicate, pruner in zip(read.predicates, pruners, strict=True):
        matching = [add for add in adds if pruner.may_match(add.partition_values, add.stats)]
        if matching:
            detail = f"added {_files(matching)} that may match {predicate}, which this {proposal.operation} read"
            yield _reason(winner, "ConcurrentAppendError", detail)
    inside = [add for add in adds if _is_in_partitions(proposal, add)]
    if inside:
        detail = f"added {_files(inside)} to a partition that this {proposal.operation} read"
        yield _reason(winner, "ConcurrentAppendError", detail)


def _removed_files_read(
    proposal: Proposal, winner: Commit, removes: Sequence[RemoveFile], pruners: Sequence[Pruner]
) -> Iterator[ConflictReason]:
    read = proposal.read_set
    if read.whole_table:
        yield _reason(
            winner,
            "ConcurrentDeleteReadError",
            f"removed {_files(removes)} of the table, which this {proposal.operation} read whole",
        )
        return
    inside = [remove for remove in removes if _is_in_partitions(proposal, remove)]
    if inside:
        detail = f"removed {_files(inside)} of a partition that this {proposal.operation} read"
        yield _reason(winner, "ConcurrentDeleteReadError", detail)
    if read.files is not None:
        paths = {canonical_path(path) for path in read.files}
        gone = [remove for remove in removes if canonical_path(remove.path) in paths]
        if gone:
            yield _reason(
                winner, "ConcurrentDeleteReadError", f"removed {_files(gone)}, which this {proposal.operation} read"
            )
    else:
        for predicate, pruner in zip(read.predicates, pruners, strict=True):
            gone = [r for r in removes if r.partition_values is None or pruner.may_match(r.partition_values, r.stats)]
            if gone:
                detail = f"removed {_files(gone)} that may match {predicate}, which this {proposal.operation} read"
                yield _reason(winner, "ConcurrentDeleteReadError", detail)


def _removed_files_removed(
    proposal: Proposal, winner: Commit, removes: Sequence[RemoveFile]
) -> Iterator[ConflictReason]:
    """Compares paths only: of two deletion vectors made for one file at the same time, one would be lost."""
    ours = {canonical_path(remove.path) for remove in proposal.removes}
    gone = [remove for remove in removes if canonical_path(remove.path) in ours]
    if gone:
        detail = f"removed {_files(gone)}, which this {proposal.operation} removes too"
        yield _reason(winner, "ConcurrentDeleteDeleteError", detail)


def _removed_files_added_again(
    proposal: Proposal, winner: Commit, removes: Sequence[RemoveFile]
) -> Iterator[ConflictReason]:
    """New statistics of a file that we remove do not matter, but new ids of its rows do: ours would differ."""
    ours = {canonical_path(remove.path): remove for remove in proposal.removes}
    known = {canonical_path(remove.path) for remove in removes}
    for action in winner.actions if ours else ():
        if type(action) is not AddFile or canonical_path(action.path) in known:
            continue
        mine = ours.get(canonical_path(action.path))
        if mine is not None and mine.base_row_id != action.base_row_id:
            detail = f"gave row ids to {action.path}, which this {proposal.operation} removes"
            yield _reason(winner, "ConcurrentDeleteDeleteError", detail)


def _is_in_partitions(proposal: Proposal, action: AddFile | RemoveFile) -> bool:
    """Whether a file belongs to a partition that was read whole; a remove without partition values may."""
    partitions = proposal.read_set.partitions
    if partitions is None:
        return False
    if action.partition_values is None:
        return True
    fields = physical_fields(proposal.schema, proposal.partition_columns)
    return partition_key(action.partition_values, fields) in partitions


# --- helpers ------------------------------------------------------------------------------------------------


def _holds_our_work(proposal: Proposal, winner: Commit) -> bool:
    """Whether the winner set every application that we set, to the version that we set."""
    ours = {(action.app_id, action.version) for action in proposal.set_transactions}
    if not ours:
        return False
    theirs = {(action.app_id, action.version) for action in winner.actions if type(action) is SetTransaction}
    return ours <= theirs


def _differs(proposal: Proposal, winner: Commit) -> bool:
    """Whether the winner's checkpoints, which are ours, were made from other input."""
    return any(
        fingerprints_differ(proposal.fingerprint, winner, mine.app_id, mine.version) is not None
        for mine in proposal.set_transactions
    )


def _changes_plans(winner: Commit) -> bool:
    """Whether the winner changed files, even by only moving rows, which makes earlier row positions invalid; or the
    table's definition, which all written files follow."""
    return any(type(action) in (AddFile, RemoveFile, Metadata) for action in winner.actions)


def _counts_as_later(proposal: Proposal, winner: Commit, level: Isolation) -> bool:
    """Whether the winner declared itself a blind append, which this level orders after us."""
    is_blind = winner.commit_info is not None and winner.commit_info.is_blind_append
    return is_blind and level is Isolation.WRITE_SERIALIZABLE and proposal.metadata is None


def _pruners(proposal: Proposal) -> list[Pruner]:
    if not proposal.read_set.predicates:
        return []
    from txlog.core.predicates.skipping import Pruner  # not imported for a blind append

    return [
        Pruner(predicate, proposal.schema, proposal.partition_columns) for predicate in proposal.read_set.predicates
    ]


def _reason(winner: Commit, rule: str, detail: str) -> ConflictReason:
    return ConflictReason(rule, winner.version, winner.operation, detail)


def _files(actions: Sequence[AddFile] | Sequence[RemoveFile]) -> str:
    first = actions[0].path
    return first if len(actions) == 1 else f"{len(actions)} files ({first} and others)"
