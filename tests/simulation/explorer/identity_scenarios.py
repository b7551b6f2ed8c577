"""Scenarios of a table with an identity column: every actor that adds rows puts ranges of numbers aside before.

In: nothing. Out: `IDENTITY_SCENARIOS`, each small enough to be explored completely, and `LARGE_IDENTITY_SCENARIOS`, for
sampling.
"""

from __future__ import annotations

from typing import Any

from explorer.casting import LOST_ANSWERS, of_rows
from explorer.identity_programs import append_one_by_one, describe
from explorer.programs import Program
from explorer.row_programs import append_keys, delete_where, insert_absent, optimize_rows, restore_rows, upsert
from explorer.run import Scenario

__all__ = ["IDENTITY_SCENARIOS", "LARGE_IDENTITY_SCENARIOS"]


def _of_numbers(name: str, *programs: Program, **options: Any) -> Scenario:
    return of_rows(name, *programs, counted=True, **options)


IDENTITY_SCENARIOS = (
    _of_numbers("counting-appenders", append_keys, append_keys, faults=1, kinds=LOST_ANSWERS),
    _of_numbers("counting-appenders-power-cut", append_keys, append_keys, power_cuts=1, splits_sync=True),
    _of_numbers("counting-appender-and-inserter", append_keys, insert_absent),
    _of_numbers("counting-appender-and-definer", append_one_by_one, describe),
    _of_numbers("counting-appender-and-deleter", append_keys, delete_where),
    _of_numbers("counting-appender-and-optimizer", append_keys, optimize_rows, versions=5),
    _of_numbers("counting-appender-and-restorer", append_one_by_one, restore_rows, versions=4, trimmed=True),
)
"""Writers that count beside those who do not."""

LARGE_IDENTITY_SCENARIOS = (
    _of_numbers(
        "counting-appenders-upserter-and-restorer", append_one_by_one, append_keys, upsert, restore_rows, versions=4
    ),
    _of_numbers("counting-appenders-and-definer", append_one_by_one, append_keys, describe),
)
"""The same with more actors: too many schedules to explore them all."""
