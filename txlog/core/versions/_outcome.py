"""How a commit ended: `CommitOutcome`, which becomes the caller's `WriteResult`, or a conflict error.

In: the counts of a run of the commit loop, or the reasons for a conflict. Out: a ``WriteResult``, or the exception.
"""

from __future__ import annotations

from typing import NoReturn

import msgspec
from msgspec.structs import replace

from txlog import errors
from txlog.core.store import TableStore
from txlog.core.versions.decisions.proposal import Proposal
from txlog.core.versions.decisions.state import TableState
from txlog.errors import CommitStateUnknownError, ConflictError, ConflictReason
from txlog.result import Outcome, WriteMetrics, WriteResult

__all__ = [
    "READ_AGAIN",
    "RUN_AGAIN",
    "WRITE_AGAIN",
    "CommitOutcome",
    "next_step_after_conflict",
    "raise_conflict",
    "unknown_outcome",
]


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


RUN_AGAIN = "run it again"
WRITE_AGAIN = "its files do not fit any more, so committing them again cannot help: write the checkpoint again"
READ_AGAIN = (
    "the rows were made from an older version, so running it again cannot help: read the table again, and make the"
    " rows, or the change, from that version"
)


def next_step_after_conflict(proposal: Proposal) -> str:
    """What the caller of a transaction that conflicts can do."""
    return READ_AGAIN if proposal.is_tied_to_version else RUN_AGAIN


def unknown_outcome(store: TableStore, txn_id: str, version: int, why: str) -> CommitStateUnknownError:
    """The error for a commit that may have landed as ``version``, or may still land there."""
    table = store.known_as or store.uri
    place = f"txlog.resolve({table!r}, " if version == 0 else "table.resolve("  # there may be no table to open
    return CommitStateUnknownError(
        f"commit {txn_id} may or may not be in the log: {why}. Do not run it again blindly:"
        f" {place}{txn_id!r}, {version}) finds out whether it is",
        table=table,
        version=version,
        txn_id=txn_id,
    )


def raise_conflict(reasons: tuple[ConflictReason, ...], table: str, next_step: str = RUN_AGAIN) -> NoReturn:
    """The exception for a lost race: the first reason gives its class, and the message lists all reasons.

    ``next_step`` is what its caller can do: `RUN_AGAIN`, `READ_AGAIN` for a change tied to a version, or
    `WRITE_AGAIN` for staged files.
    """
    kind: type[ConflictError] = getattr(errors, reasons[0].rule)
    text = "; ".join(str(reason) for reason in reasons)
    raise kind(f"{text}. Nothing landed; {next_step}.", table=table, reasons=reasons)
