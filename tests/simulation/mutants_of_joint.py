"""Bugs of transactions over several tables, each put into txlog's own code on purpose.

In: pytest's ``MonkeyPatch``. Out: the bug, until the patch is undone. `JOINT_MUTANTS` names the scenario that finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from txlog.core.versions import _commit_together as commit_together
from txlog.core.versions import _prepared_tables as prepared_tables
from txlog.core.versions import _read_together as read_together
from txlog.core.versions._commit_loop import CommitRun
from txlog.core.versions._commit_together import _Together

__all__ = ["JOINT_MUTANTS"]

Mutant = Callable[[pytest.MonkeyPatch], None]


def commits_above_a_prepared_version(patch: pytest.MonkeyPatch) -> None:
    """A writer does not see that a transaction over several tables may still write here."""
    patch.setattr(CommitRun, "_has_to_wait", lambda self, prepared: False)


def decides_after_it_was_given_up(patch: pytest.MonkeyPatch) -> None:
    """A writer that was slow overlooks the fence below its decision."""
    patch.setattr(commit_together, "decision_of", lambda decider, found, state: None)


def checks_nothing_that_it_read(patch: pytest.MonkeyPatch) -> None:
    """Prepared tables are taken as they were read."""

    def rebase(self: Any, part: Any, state: Any) -> None:
        part.valid = part.valid.rebased(state.version)

    patch.setattr(_Together, "_check", rebase)


def takes_no_decision_for_no(patch: pytest.MonkeyPatch) -> None:
    """A writer that has waited rolls a table back without a word in the deciding table's log."""
    real = prepared_tables.decision_of
    patch.setattr(prepared_tables, "decision_of", lambda *given: real(*given) or False)


def reads_the_newest_version_of_each_table(patch: pytest.MonkeyPatch) -> None:
    """Readers do not go back behind what has reached only some tables."""
    patch.setattr(read_together._Cut, "whole", lambda self: list(self._first))


def looks_at_each_table_once(patch: pytest.MonkeyPatch) -> None:
    """A transaction that ran between the looks at two tables is whole in one of them only."""
    patch.setattr(read_together._Cut, "_note", lambda self, commits: None)


JOINT_MUTANTS: dict[str, tuple[Mutant, str]] = {
    mutant.__name__: (mutant, scenario)
    for mutant, scenario in (
        (commits_above_a_prepared_version, "joint-transaction-that-dies"),
        (decides_after_it_was_given_up, "joint-two-transactions"),
        (checks_nothing_that_it_read, "joint-claims"),
        (takes_no_decision_for_no, "joint-transaction-beside-an-appender"),
        (reads_the_newest_version_of_each_table, "joint-transactions-and-a-reader"),
        (looks_at_each_table_once, "joint-transactions-and-a-reader"),
    )
}
"""Each bug, and the scenario of ``explorer.actors`` whose exploration must find it."""
