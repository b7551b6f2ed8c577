"""Bugs in changes of columns and in what feels them, each put into txlog's own code on purpose.

In: pytest's ``MonkeyPatch``. Out: the bug, until the patch is undone; `DEFINITION_MUTANTS` is part of
``mutants.MUTANTS``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from txlog.core.definition import _checked_definition as checked_definition
from txlog.core.format.actions import Metadata
from txlog.core.reading import _parquet_columns as parquet_columns
from txlog.core.versions.decisions import conflicts

__all__ = ["DEFINITION_MUTANTS"]

Mutant = Callable[[pytest.MonkeyPatch], None]


def takes_a_change_of_columns_for_none(patch: pytest.MonkeyPatch) -> None:
    """A writer that lost to a change of the definition goes on as if it had lost to an append."""
    real = conflicts._protocol_and_metadata

    def without_metadata(proposal: Any, winner: Any) -> Any:
        is_changed = any(type(action) is Metadata for action in winner.actions)
        return iter(()) if is_changed and winner.version else real(proposal, winner)

    patch.setattr(conflicts, "_protocol_and_metadata", without_metadata)


def checks_a_new_rule_once(patch: pytest.MonkeyPatch) -> None:
    """Rows that others add between the check and the commit are not checked."""
    real = checked_definition._CheckedChange._unchecked

    def at_first(self: Any, state: Any) -> Any:
        found = real(self, state)
        return found.slice(0, 0) if self._checked else found

    patch.setattr(checked_definition._CheckedChange, "_unchecked", at_first)


def finds_columns_in_files_by_their_new_names(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(parquet_columns, "physical_name", lambda field: field.name)


DEFINITION_MUTANTS: dict[str, tuple[Mutant, str]] = {
    "takes_a_change_of_columns_for_none": (takes_a_change_of_columns_for_none, "renamer-and-appender"),
    "checks_a_new_rule_once": (checks_a_new_rule_once, "requirer-and-appender"),
    "finds_columns_in_files_by_their_new_names": (finds_columns_in_files_by_their_new_names, "renamer-and-appender"),
}
