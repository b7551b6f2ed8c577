"""The bytes of one attempt of a commit, which depend on the version that it follows; and the outcome in the end.

In: a proposal and the table state that it follows. Out: an ``EncodedAttempt``, and the ``CommitOutcome`` of the last.
In-commit timestamps increase from version to version, and row ids continue after the winner's when a race is lost, so
each attempt is encoded again. PROTOCOL.md, "Commit Provenance Information", "In-Commit Timestamps", "Row Tracking".
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.format.commit_file import Commit, LogLimits, require_within
from txlog.core.store import Attempt, VersionLog
from txlog.core.versions.decisions.proposal import Proposal, commit_bytes, commit_facts
from txlog.core.versions.decisions.state import TableState
from txlog.errors import CorruptLogError, InvalidInputError, NotFoundError
from txlog.result import Outcome, WriteMetrics, WriteResult


class EncodedAttempt(msgspec.Struct, frozen=True):
    """One attempt, as it is put.

    ``proposal`` is kept for the next attempt; ``sent`` is what this one sends, with row ids.
    """

    attempt: Attempt
    proposal: Proposal
    sent: Proposal
    in_commit_timestamp_ms: int | None

    def commit(self) -> Commit:
        """The commit as it was written, so that the caller need not read it back."""
        facts = commit_facts(self.sent, self.in_commit_timestamp_ms)
        return Commit(self.attempt.version, self.sent.actions, facts, len(self.attempt.body), bool(self.sent.lines))


class CommitOutcome(msgspec.Struct, frozen=True):
    """``outcome`` is "committed" or "already_committed"; ``state`` is the table after our commit, if known.

    ``txn_id`` is that of the version, if known. ``holds_others``: it has appends of other handles too.
    """

    version: int | None
    outcome: Outcome
    attempts: int
    lost_races: int
    waited_s: float
    lost_to: dict[str, int]
    state: TableState | None
    reexecutions: int = 0
    txn_id: str = ""
    holds_others: bool = False

    def to_result(self, txn_id: str, metrics: WriteMetrics | None = None) -> WriteResult:
        """The acknowledgement of a write that did ``metrics``. A dropped replay has empty metrics."""
        did = metrics if metrics is not None and self.outcome == "committed" else WriteMetrics()
        did = replace(
            did,
            lost_races=self.lost_races,
            waited_s=self.waited_s,
            lost_to=self.lost_to,
            reexecutions=self.reexecutions,
        )
        return WriteResult(self.version, self.outcome, self.attempts, txn_id, did)


def encode_attempt(
    proposal: Proposal,
    state: TableState | None,
    versions: VersionLog,
    *,
    version: int,
    engine_info: str,
    attempts: int,
    waited_s: float,
    lost_to: Mapping[str, int],
    limits: LogLimits,
) -> EncodedAttempt:
    """The next attempt, for ``version``.

    Raises ``InvalidInputError`` if the commit is too large for any reader, and ``StorageError`` if the time of
    ``state`` has to be looked up and cannot be.
    """
    now_ms = ambient.now_ms()
    proposal, timestamp_ms = _timestamped(proposal, state, versions, now_ms)
    if proposal.protocol is not None:
        from txlog.core.versions.decisions.checkpoint_protection import with_protection

        proposal = with_protection(proposal, state)
    sent = _numbered(proposal, state)
    data = commit_bytes(
        sent,
        timestamp_ms=now_ms,
        engine_info=engine_info,
        in_commit_timestamp=timestamp_ms,
        attempts=attempts,
        waited_s=waited_s,
        lost_to=lost_to,
    )
    try:
        require_within(limits, data, version)
    except CorruptLogError as error:
        raise InvalidInputError(
            f"no reader could read this commit: {error.message}. It was not sent; write fewer rows at once"
        ) from None
    return EncodedAttempt(Attempt(version, data, sent.actions), proposal, sent, timestamp_ms)


def _timestamped(
    proposal: Proposal, state: TableState | None, versions: VersionLog, now_ms: int
) -> tuple[Proposal, int | None]:
    """The proposal, which may enable in-commit timestamps; and if the table has them, the timestamp in ms."""
    if proposal.metadata is None and (state is None or not state.properties.in_commit_timestamps):
        return proposal, None
    from txlog.core.versions.decisions.in_commit_timestamps import keeps_timestamps, next_timestamp_ms, with_enablement

    timestamp_ms = None
    if keeps_timestamps(proposal, state):
        timestamp_ms = next_timestamp_ms(now_ms=now_ms, previous_ms=_committed_ms(state, versions))
    return with_enablement(proposal, state, timestamp_ms), timestamp_ms


def _numbered(proposal: Proposal, state: TableState | None) -> Proposal:
    """The proposal; if the table tracks rows, with row ids above the winners'."""
    protocol = proposal.protocol or (state.protocol if state else None)
    if protocol is None or "rowTracking" not in (protocol.writer_features or ()):
        return proposal
    from txlog.core.versions.decisions.row_tracking import with_row_ids

    return with_row_ids(proposal, state)


def _committed_ms(state: TableState | None, versions: VersionLog) -> int | None:
    """When ``state`` was committed; None if unknown."""
    if state is None:
        return None
    if state.in_commit_timestamp_ms is not None:
        return state.in_commit_timestamp_ms
    try:
        return versions.stat(state.version).modified_ms
    except NotFoundError:
        return None
