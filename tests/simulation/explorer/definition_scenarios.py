"""Scenarios of a table whose columns change beside those who write, move and read its rows.

In: nothing. Out: `DEFINITION_SCENARIOS`, each small enough to be explored completely, and `LARGE_DEFINITION_SCENARIOS`,
for sampling.
"""

from __future__ import annotations

from typing import Any

from explorer.casting import LOST_ANSWERS, of_rows
from explorer.definition_programs import (
    append_without_key,
    drop_note,
    exchange_names,
    follow_rows,
    rename_in_two_steps,
    rename_value,
    require_key,
    upsert_with_note,
    widen_value,
)
from explorer.programs import Program
from explorer.row_programs import append_keys, delete_where, optimize_rows, restore_rows
from explorer.run import Scenario

__all__ = ["DEFINITION_SCENARIOS", "LARGE_DEFINITION_SCENARIOS"]


def _of_columns(name: str, *programs: Program, **options: Any) -> Scenario:
    return of_rows(name, *programs, mapped=True, **options)


DEFINITION_SCENARIOS = (
    _of_columns("renamer-and-upserter", rename_value, upsert_with_note, faults=1, kinds=LOST_ANSWERS),
    _of_columns("renamer-and-appender", rename_value, append_keys, faults=1, kinds=LOST_ANSWERS),
    _of_columns("renamer-power-cut", rename_value, append_keys, power_cuts=1, splits_sync=True),
    _of_columns("exchanger-of-names-and-upserter", exchange_names, upsert_with_note),
    _of_columns("exchanger-of-names-and-widener", exchange_names, widen_value, faults=1, kinds=LOST_ANSWERS),
    _of_columns("renamer-in-two-steps-and-deleter", rename_in_two_steps, delete_where),
    _of_columns("widener-and-optimizer", widen_value, optimize_rows, versions=5),
    _of_columns("widener-and-upserter", widen_value, upsert_with_note, faults=1, kinds=LOST_ANSWERS),
    _of_columns("dropper-and-optimizer", drop_note, optimize_rows, versions=5),
    _of_columns("renamer-and-follower", rename_in_two_steps, follow_rows),
    _of_columns("requirer-and-appender", require_key, append_without_key, faults=1, kinds=LOST_ANSWERS),
    _of_columns("requirer-appender-and-optimizer", require_key, append_without_key, optimize_rows, versions=5),
    _of_columns("renamer-and-restorer", rename_value, restore_rows, versions=4, trimmed=True),
)
"""Changes of columns beside other writers."""

LARGE_DEFINITION_SCENARIOS = (
    _of_columns("renamer-widener-upserter-and-appender", rename_value, widen_value, upsert_with_note, append_keys),
    _of_columns("dropper-restorer-and-upserter", drop_note, restore_rows, upsert_with_note, versions=4, trimmed=True),
    _of_columns("renamer-follower-and-upserter", rename_in_two_steps, follow_rows, upsert_with_note),
)
"""The same with more actors: too many schedules to explore them all."""
