"""Executing the `Plan` of one commit again, on the newest version, after commits that changed files.

In: a plan, and the version that the commit is on. Out: the proposal on that version. The commit loop decides when:
never while the outcome of a put is unknown, and outside of its turn in the commit queue until little work is left, so
that a long look-up blocks no other writer. What counts as little doubles each time.
"""

from __future__ import annotations

from txlog.commit.plan import LITTLE_WORK_S, Plan
from txlog.errors import NotFoundError, TxlogError
from txlog.log.proposal import Proposal, validate_proposal
from txlog.log.state import TableState
from txlog.log_files.delta_log import DeltaLog

__all__ = ["Reexecution"]


class Reexecution:
    """How far the plan of one commit is behind the newest version. Without a plan it is never behind."""

    def __init__(self, log: DeltaLog, plan: Plan | None) -> None:
        self._log = log
        self._plan = plan
        self.is_behind = False
        """Files changed since the plan was executed."""
        self.count = 0
        self.outside = 0
        """How often it was executed outside of the turn."""

    def has_much_work(self, state: TableState | None) -> bool:
        """Whether there is a plan whose execution takes too long for a turn."""
        plan, limit_s = self._plan, LITTLE_WORK_S * (1 << self.outside)
        return plan is not None and state is not None and plan.remaining_work_s(state) > limit_s

    def execute(self, proposal: Proposal, state: TableState | None) -> Proposal:
        """The proposal on ``state``; the old one, still behind, if what the plan reads was cleaned up meanwhile."""
        assert self._plan is not None
        assert state is not None
        try:
            executed = self._plan.execute(state)
        except NotFoundError:  # vacuumed or cleaned up: an error only if the newest version still needs it
            if self._log.reload().version == state.version:
                raise
            return proposal
        assert executed.txn_id == proposal.txn_id
        assert executed.base_version == state.version
        with TxlogError.located(self._log.uri, state.version):
            validate_proposal(executed, append_only=state.properties.append_only)
        self.is_behind = False
        self.count += 1
        return executed
