"""Bugs in how rows are counted, each put into txlog's own code on purpose.

In: pytest's ``MonkeyPatch``. Out: the bug, until the patch is undone; `IDENTITY_MUTANTS` is part of
``mutants.MUTANTS``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from txlog.core.format.actions import AddFile, RemoveFile
from txlog.core.maintenance import _restored_definition as restored_definition
from txlog.core.versions import _number_ranges as number_ranges
from txlog.core.versions.decisions import conflicts, proposal, proposal_builder

__all__ = ["IDENTITY_MUTANTS"]

Mutant = Callable[[pytest.MonkeyPatch], None]


def two_put_the_same_range_aside(patch: pytest.MonkeyPatch) -> None:
    """Whoever loses the race for a range goes on with the numbers that it had in mind."""
    patch.setattr(
        conflicts, "_changes_plans", lambda winner: any(type(each) in (AddFile, RemoveFile) for each in winner.actions)
    )


def sets_marks_back(patch: pytest.MonkeyPatch) -> None:
    """A change of the definition, and a restore, commit the marks that they have read."""
    for module in (proposal, proposal_builder, restored_definition):
        patch.setattr(module, "with_latest_marks", lambda metadata, newest: metadata)


def gives_a_range_out_twice(patch: pytest.MonkeyPatch) -> None:
    """A handle begins its range anew for each write."""
    real = number_ranges._taken

    def taken(mine: Any, column: Any, count: int) -> Any:
        first, left = mine.first, mine.left
        found = real(mine, column, count)
        mine.first, mine.left = first, left
        return found

    patch.setattr(number_ranges, "_taken", taken)


IDENTITY_MUTANTS: dict[str, tuple[Mutant, str]] = {
    "two_put_the_same_range_aside": (two_put_the_same_range_aside, "counting-appenders"),
    "sets_marks_back": (sets_marks_back, "counting-appender-and-definer"),
    "gives_a_range_out_twice": (gives_a_range_out_twice, "counting-appender-and-restorer"),
}
