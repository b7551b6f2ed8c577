"""`Plan`: a change of rows that the commit loop can execute again on a newer version instead of failing.

In: a version of the table. Out: the proposal that makes this change on it. Data files are immutable, so the effect of a
change on a file is computed once. After a lost race, only files that were not read yet cost work.

This is correct if (1) the change is a deterministic function of the rows it matches, of fixed input; (2) schema and
protocol are those it was made for, which the conflict rules ensure; (3) every live file of that version was read, or
excluded by a sound bound; (4) each ``remove`` names the file and vector that are live there; (5) that version is the
newest, which the put of the next one proves; (6) all files that the proposal names are durable; (7) the operation read
nothing else of the table.

The commit loop decides when: never while the outcome of a put is unknown, and outside of its turn in the commit queue
until little work is left, so that a long look-up blocks no other writer. What counts as little doubles each time.
"""

from __future__ import annotations

from typing import Protocol

from txlog.core.versions.decisions.proposal import Proposal, validate_proposal
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import DeltaLog
from txlog.errors import NotFoundError, TxlogError
from txlog.result import WriteMetrics

LITTLE_WORK_S = 0.05
"""A plan with at most this much work left is executed inside its turn of the commit queue; otherwise outside.

It doubles with each execution outside, so that a plan that other writers keep overtaking gets its turn eventually.
"""


class Plan(Protocol):
    """Used by one commit, on one thread."""

    def execute(self, state: TableState) -> Proposal:
        """The proposal on ``state``, always with the same ``txn_id``. All files that it names are durable when this
        returns.

        The commit loop calls it again only after it has seen a foreign commit at the version it tried, so that it never
        sends two bodies for one version. Raises an error if the change is impossible; nothing has landed then.
        """

    def remaining_work_s(self, state: TableState) -> float:
        """An estimate of how many seconds `execute` on ``state`` would take."""

    @property
    def metrics(self) -> WriteMetrics:
        """What the last executed proposal does."""


class Reexecution:
    """How far the plan of one commit is behind the newest version."""

    def __init__(self, log: DeltaLog, plan: Plan) -> None:
        self._log = log
        self._plan = plan
        self.is_behind = False
        """Files changed since the plan was executed."""
        self.count = 0
        self.outside = 0
        """How often it was executed outside of the turn."""

    def has_much_work(self, state: TableState | None) -> bool:
        """Whether an execution takes too long for a turn."""
        limit_s = LITTLE_WORK_S * (1 << self.outside)
        return state is not None and self._plan.remaining_work_s(state) > limit_s

    def execute(self, proposal: Proposal, state: TableState | None) -> Proposal:
        """The proposal on ``state``; the old one, still behind, if what the plan reads was cleaned up meanwhile."""
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
