"""How a commit ended: `CommitOutcome`, which becomes the caller's `WriteResult`, or a conflict error.

In: what a run of the commit loop counted, or why it lost. Out: a ``WriteResult``, or the exception.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

from txlog import errors
from txlog.errors import ConflictError, ConflictReason
from txlog.log.state import TableState
from txlog.result import Outcome, WriteMetrics, WriteResult

__all__ = ["CommitOutcome", "raise_conflict"]


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """``outcome`` is "committed" or "already_committed"; ``state`` is the table after our commit, if known."""

    version: int | None
    outcome: Outcome
    attempts: int
    lost_races: int
    waited_s: float
    lost_to: dict[str, int]
    state: TableState | None
    reexecutions: int = 0

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


def raise_conflict(reasons: tuple[ConflictReason, ...], table: str) -> NoReturn:
    """The exception for a lost race: the first reason gives its class, and the message lists all reasons."""
    kind: type[ConflictError] = getattr(errors, reasons[0].rule)
    text = "; ".join(str(reason) for reason in reasons)
    raise kind(f"{text}. Nothing landed; run it again.", table=table, reasons=reasons)
