"""`Plan`: a change of rows that the commit loop executes again on a newer version instead of giving it up.

In: a version of the table. Out: the proposal that makes this change on it. Data files are immutable, so what a change
does to one of them is found once; after a lost race only files that were not looked into yet cost work.

Sound exactly where (1) the change is a deterministic function of the rows it matches, of fixed input; (2) schema and
protocol are those it was made for, which the conflict rules hold; (3) every live file of that version was looked into,
or excluded by a sound bound; (4) each ``remove`` names the file and vector that are live there; (5) that version is the
newest, which put-if-absent on the next one proves; (6) what the proposal names is durable; (7) the operation read
nothing else of the table.
"""

from __future__ import annotations

from typing import Protocol

from txlog.log.proposal import Proposal
from txlog.log.state import TableState
from txlog.result import WriteMetrics

__all__ = ["LITTLE_WORK_S", "Plan"]

LITTLE_WORK_S = 0.05
"""A plan with no more work than this left is executed inside its turn of the commit queue; with more, outside."""


class Plan(Protocol):
    """Used by one commit, on one thread."""

    def execute(self, state: TableState) -> Proposal:
        """The proposal on ``state``, always with one ``txn_id``. All that it names is durable when it is returned.

        The commit loop calls it again only after it has seen a foreign commit where it tried, so that one version
        number never gets two bodies. Raises what makes the change impossible; nothing has landed then.
        """

    def remaining_work_s(self, state: TableState) -> float:
        """About how many seconds `execute` on ``state`` would take."""

    @property
    def metrics(self) -> WriteMetrics:
        """What the proposal executed last does."""
