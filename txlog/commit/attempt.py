"""The bytes of one attempt of a commit, which depend on the version that it follows.

In: a proposal and the table state that it follows. Out: an ``Attempt``. In-commit timestamps increase from version to
version, and row ids continue after those of the winner of a lost race, so each attempt is encoded again.
PROTOCOL.md, "Commit Provenance Information", "In-Commit Timestamps", "Row Tracking".
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from txlog.errors import CorruptLogError, InvalidInputError, NotFoundError
from txlog.log.in_commit_timestamps import keeps_timestamps, next_timestamp_ms, with_enablement
from txlog.log.proposal import Proposal, commit_bytes, commit_facts
from txlog.log.state import TableState
from txlog.protocol.commit_file import Commit, Limits, require_within
from txlog.protocol.log_names import commit_name
from txlog.store.base import LogStore
from txlog.util import ambient

__all__ = ["Attempt", "encode_attempt"]


class Attempt(msgspec.Struct, frozen=True):
    """One attempt.

    ``proposal`` is kept for the next attempt; ``sent`` is what this one sends, with row ids; ``data`` its bytes.
    """

    data: bytes
    proposal: Proposal
    sent: Proposal
    in_commit_timestamp_ms: int | None

    def commit(self, version: int) -> Commit:
        """The commit as it was written, so that the caller need not read it back."""
        facts = commit_facts(self.sent, self.in_commit_timestamp_ms)
        return Commit(version, self.sent.actions, facts, len(self.data))


def encode_attempt(
    proposal: Proposal,
    state: TableState | None,
    store: LogStore,
    *,
    engine_info: str,
    attempts: int,
    waited_s: float,
    lost_to: Mapping[str, int],
    limits: Limits,
) -> Attempt:
    """The next attempt's commit file.

    Raises ``InvalidInputError`` if the commit is too large for any reader, and ``StorageError`` if the time of
    ``state`` has to be looked up and cannot be.
    """
    now_ms = ambient.now_ms()
    timestamp_ms = None
    if keeps_timestamps(proposal, state):
        timestamp_ms = next_timestamp_ms(now_ms=now_ms, previous_ms=_committed_ms(state, store))
    proposal = with_enablement(proposal, state, timestamp_ms)
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
        require_within(limits, data, state.version + 1 if state else 0)
    except CorruptLogError as error:
        raise InvalidInputError(
            f"no reader could read this commit: {error.message}. It was not sent; write fewer rows at once"
        ) from None
    return Attempt(data, proposal, sent, timestamp_ms)


def _numbered(proposal: Proposal, state: TableState | None) -> Proposal:
    """The proposal; if the table tracks rows, with row ids above those of the winners."""
    protocol = proposal.protocol or (state.protocol if state else None)
    if protocol is None or "rowTracking" not in (protocol.writer_features or ()):
        return proposal
    from txlog.log.row_tracking import with_row_ids

    return with_row_ids(proposal, state)


def _committed_ms(state: TableState | None, store: LogStore) -> int | None:
    """When ``state`` was committed; None if unknown."""
    if state is None:
        return None
    if state.in_commit_timestamp_ms is not None:
        return state.in_commit_timestamp_ms
    try:
        return store.stat(commit_name(state.version)).modified_ms
    except NotFoundError:
        return None
