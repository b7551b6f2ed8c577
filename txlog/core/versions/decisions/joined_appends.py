"""Many appends in one commit: which may be joined, their joined proposal, and what a commit in the log holds of each.

In: proposals of blind appends, or of overwrites of partitions (`replaced_partitions`), and commits that were read. Out:
one `Proposal` for all that may be joined, with a list of them under ``commitInfo.txlog.joined``; and from such a
commit, the `JoinedAppend` of each. Every reader that asks "is this commit mine?" or "which fingerprint has this
checkpoint?" asks here. To other readers, and to older releases, a joined commit is an ordinary blind append, or an
ordinary overwrite. Pure: the caller passes ids.

What may be joined: commits that only add new files (and at most one ``txn``), read nothing, and were planned on the
same definition of the table; or overwrites of different partitions. A commit holds one checkpoint of an application,
and each file once.
PROTOCOL.md, "Commit Provenance Information", "Transaction Identifiers", "Action Reconciliation".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from txlog.core.format.actions import AddFile, RemoveFile
from txlog.core.format.paths import canonical_path
from txlog.core.versions.decisions.definition_changes import is_same_definition
from txlog.core.versions.decisions.state import PREPARED

if TYPE_CHECKING:
    from txlog.core.format.commit_file import Commit
    from txlog.core.versions.decisions.proposal import Proposal
    from txlog.core.versions.decisions.state import TableState

MEMBERS_MAX = 1000
"""The most appends of one commit."""
BYTES_MAX = 16 << 20
"""The most bytes of one joined commit; a larger append is committed alone."""


class JoinedAppend(msgspec.Struct, frozen=True):
    """One append of a joined commit, as the commit records it.

    ``app_id`` and ``version`` come from its ``txn``, if it has one. Its files are the next ``files`` adds of the
    commit, in the order of the members; ``rows`` is None if its writer did not count them. What it replaced are the
    next ``removed`` removes.
    """

    txn_id: str
    app_id: str | None = None
    version: int | None = None
    fingerprint: str | None = None
    user_metadata: str | None = None
    files: int = 0
    rows: int | None = None
    bytes: int = 0
    removed: int = 0


# --- what may be joined -------------------------------------------------------------------------------------------


def may_join(proposal: Proposal) -> bool:
    """Whether an append may be joined with others at all."""
    return (
        bool(proposal.actions)
        and proposal.is_blind_append
        and proposal.adds_are_new
        and not proposal.creates_table
        and not proposal.is_tied_to_version
        and not (proposal.read_set.app_ids or proposal.read_set.domains or proposal.domains)
        and len(proposal.set_transactions) <= 1
        and all(each.app_id != PREPARED for each in proposal.set_transactions)
    )


def fits(proposal: Proposal, planned_on: TableState, newest: TableState) -> bool:
    """Whether an append that was planned on one version, and never sent, is valid on top of ``newest``: the table's
    definition is the same, and nobody has moved the append's application since."""
    return (
        newest.version >= planned_on.version
        and planned_on.protocol == newest.protocol
        and is_same_definition(planned_on.metadata, newest.metadata)
        and all(
            planned_on.transaction_version(each.app_id) == newest.transaction_version(each.app_id)
            for each in proposal.set_transactions
        )
    )


class Joining:
    """Collects the appends of one commit, in order, or its overwrites of partitions. Each must pass `may_join`, or be
    executed on one version, and all must be valid on the same version."""

    def __init__(self, *first: Proposal) -> None:
        """``first`` is one of them, or several that were joined before."""
        self.members = [*first]
        self._like = _kind(first[0])
        self._app_ids = {each.app_id for member in first for each in member.set_transactions}
        self._paths = {*_paths(first)}
        self._partitions = _replaced_by(*first)
        self._bytes = sum(member.size_bytes for member in first)

    def take(self, *proposals: Proposal) -> bool:
        """Add an append, or several that belong together, and return True, if all may share a commit with the earlier
        ones."""
        transactions = [each.app_id for proposal in proposals for each in proposal.set_transactions]
        files = _paths(proposals)
        app_ids, paths = {*transactions}, {*files}
        replaced = [_replaced_by(proposal) for proposal in proposals]
        partitions = set().union(*replaced)
        size_bytes = self._bytes + sum(proposal.size_bytes for proposal in proposals)
        if (
            len(self.members) + len(proposals) > MEMBERS_MAX
            or size_bytes > BYTES_MAX
            or len(app_ids) < len(transactions)
            or app_ids & self._app_ids
            or len(paths) < len(files)
            or paths & self._paths
            or len(partitions) < sum(map(len, replaced))
            or partitions & self._partitions
            or any(_kind(proposal) != self._like for proposal in proposals)
        ):
            return False
        self.members += proposals
        self._app_ids |= app_ids
        self._paths |= paths
        self._partitions |= partitions
        self._bytes = size_bytes
        return True

    def proposal(self, txn_id: str, version: int) -> Proposal:
        """The commit of all members, valid on ``version``, under a new id. A single member is committed under its own
        id."""
        first, *others = self.members
        if not others:
            return first.rebased(max(version, first.base_version))
        metadata = {each.user_metadata for each in self.members}
        return replace(
            first,
            txn_id=txn_id,
            read_version=version,
            checked_version=None,
            actions=tuple(action for each in self.members for action in each.actions),
            operation_metrics=_summed([each.operation_metrics for each in self.members]),
            user_metadata=first.user_metadata if len(metadata) == 1 else None,
            fingerprint=None,
            members=tuple(self.members),
        )


def _kind(proposal: Proposal) -> tuple[Any, ...]:
    """What a commit records once, so all its members must agree."""
    how = proposal.operation, proposal.operation_parameters, proposal.isolation, proposal.tags
    return *how, proposal.replaces_partitions


def _paths(proposals: Sequence[Proposal]) -> list[str]:
    """The files that they add and remove, as the log compares paths."""
    return [canonical_path(file.path) for each in proposals for files in (each.adds, each.removes) for file in files]


def _replaced_by(*proposals: Proposal) -> set[tuple[str | None, ...]]:
    """The partitions that overwrites replace."""
    if not any(proposal.replaces_partitions for proposal in proposals):
        return set()
    from txlog.core.versions.decisions.replaced_partitions import replaced_by  # not imported for an append

    return replaced_by(*proposals)


def _summed(metrics: Sequence[dict[str, str]]) -> dict[str, str]:
    """The sums of metrics, without metrics that are not numbers or that some members lack."""
    first, *others = metrics
    names = [name for name in first if all(name in each for each in others)]
    return {
        name: str(sum(int(each[name]) for each in metrics))
        for name in names
        if all(each[name].isdecimal() for each in metrics)
    }


# --- what a commit holds ------------------------------------------------------------------------------------------


def members(commit: Commit) -> tuple[JoinedAppend, ...]:
    """The appends that a joined commit lists; none for every other commit. Leaves out malformed entries: this is
    provenance, and any writer may have written it."""
    return tuple(map(_member, _listed(commit)))


def _listed(commit: Commit) -> Iterator[dict[str, Any]]:
    own = commit.commit_info.fields.get("txlog") if commit.commit_info else None
    listed = own.get("joined") if type(own) is dict else None
    if type(listed) is list:
        yield from (each for each in listed if type(each) is dict and type(each.get("txnId")) is str)


def _member(fields: dict[str, Any]) -> JoinedAppend:
    return JoinedAppend(
        fields["txnId"],
        _text(fields, "appId"),
        _number(fields, "version"),
        _text(fields, "fingerprint"),
        _text(fields, "userMetadata"),
        _number(fields, "files") or 0,
        _number(fields, "rows"),
        _number(fields, "bytes") or 0,
        _number(fields, "removed") or 0,
    )


def _text(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    return value if type(value) is str else None


def _number(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    return value if type(value) is int else None


def member(commit: Commit, txn_id: str) -> JoinedAppend | None:
    """The append with this id in a joined commit; None if the commit does not list it."""
    return next((_member(each) for each in _listed(commit) if each["txnId"] == txn_id), None)


def member_of_checkpoint(commit: Commit, app_id: str, version: int) -> JoinedAppend | None:
    """The append of this checkpoint in a joined commit; None if the commit does not list it."""
    return next((each for each in members(commit) if (each.app_id, each.version) == (app_id, version)), None)


def txn_ids(commit: Commit) -> Iterator[str]:
    """The id of the commit, and of every append in it."""
    if commit.txn_id is not None:
        yield commit.txn_id
    for each in _listed(commit):
        yield each["txnId"]


def files_of(commit: Commit, txn_ids: Collection[str]) -> tuple[list[AddFile], list[RemoveFile]]:
    """The files that these members added to a joined commit, and removed, which was parsed with its files."""
    adds = [action for action in commit.actions if type(action) is AddFile]
    removes = [action for action in commit.actions if type(action) is RemoveFile]
    added: list[AddFile] = []
    removed: list[RemoveFile] = []
    at, at_remove = 0, 0
    for each in members(commit):
        if each.txn_id in txn_ids:
            added += adds[at : at + each.files]
            removed += removes[at_remove : at_remove + each.removed]
        at, at_remove = at + each.files, at_remove + each.removed
    return added, removed


def holds(commit: Commit, txn_id: str) -> bool:
    """Whether the transaction with this id is in the commit: as the commit itself, or as an append in it."""
    return txn_id in txn_ids(commit)


def fingerprint_of(commit: Commit, app_id: str, version: int) -> str | None:
    """The source of a checkpoint in the commit; None if the commit does not say."""
    if commit.commit_info is None:
        return None
    found = member_of_checkpoint(commit, app_id, version)
    return commit.commit_info.fingerprint if found is None else found.fingerprint
