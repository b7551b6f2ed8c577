"""Stories of writers that commit each other's appends through the table's folder.

In: nothing. Out: `GATHERING_SCENARIOS`, small enough to be explored completely; `LARGE_GATHERING_SCENARIOS`, of which
some schedules are explored; `GATHERERS`, programs for random stories.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from explorer.casting import actors_of
from explorer.gathering_programs import (
    append_as_before,
    append_in_line,
    append_in_line_and_leave,
    append_in_line_and_resolve,
    append_in_line_elsewhere,
    append_in_line_for_days,
    append_together_in_line,
    gather_in_line,
    ingest_in_line,
    overwrite_in_line,
    overwrite_in_line_and_leave,
    overwrite_in_line_and_resolve,
    replace_in_line,
    stop_gathering,
    vacuum_what_waits,
)
from explorer.programs import Program, append, append_and_resolve, overwrite, resolve_for_others, set_properties
from explorer.row_programs import vacuum_rows
from explorer.run import Scenario
from explorer.together_programs import append_in_turn

__all__ = ["GATHERERS", "GATHERING_SCENARIOS", "LARGE_GATHERING_SCENARIOS", "SLOW_S"]

SLOW_S = 0.2  # where commits without an intent wait until those ahead count as crashed


_twice_in_turn = partial(append_in_turn, times=2)
_overwrite_other = partial(overwrite_in_line, part="b")
_overwrite_other_late = partial(overwrite_in_line, part="b", fresh=True)


def _of_gatherers(name: str, *programs: Program, restarts: int = 0, **options: Any) -> Scenario:
    actors = actors_of(*programs, restarts=restarts)
    return Scenario(name, actors, store="object", versions=2, gathers=True, **options)


GATHERING_SCENARIOS = (
    _of_gatherers("two-in-line", append_in_line, append_in_line),
    _of_gatherers("one-in-line-and-one-that-leaves", append_in_line, append_in_line_and_leave),
    _of_gatherers("one-in-line-crashes", append_in_line, append_in_line, crashes=1),
    _of_gatherers("one-in-line-beside-an-older-release", append_in_line, append_as_before),
)

LARGE_GATHERING_SCENARIOS = (
    _of_gatherers("two-overwrites-in-line", overwrite_in_line, _overwrite_other, crashes=1, faults=1),
    _of_gatherers(
        "overwrites-of-one-partition-in-line", overwrite_in_line, overwrite_in_line, _overwrite_other, crashes=1
    ),
    _of_gatherers(
        "overwrites-and-appends-in-line",
        *(overwrite_in_line, append_in_line, _overwrite_other, append_in_line),
        faults=1,
        crashes=1,
    ),
    _of_gatherers("late-to-overwrites-in-line", overwrite_in_line, _overwrite_other, _overwrite_other_late),
    _of_gatherers("an-overwrite-in-line-leaves", overwrite_in_line_and_leave, _overwrite_other),
    _of_gatherers("an-overwrite-in-line-asks", overwrite_in_line_and_resolve, _overwrite_other, append, faults=2),
    _of_gatherers(
        "an-overwrite-in-line-beside-an-older-release", overwrite_in_line, _overwrite_other, append_as_before
    ),
    _of_gatherers(
        "overwrites-in-line-and-a-new-definition",
        *(overwrite_in_line, _overwrite_other_late, set_properties),
        crashes=1,
        round_trip_s=SLOW_S,
    ),
    _of_gatherers(
        "overwrites-in-turn-and-in-line",
        *(overwrite_in_line, _overwrite_other, append_in_turn, append_in_line_elsewhere),
        faults=1,
        crashes=1,
        queues=True,
    ),
    _of_gatherers(
        "one-overwrite-twice-in-line", replace_in_line, replace_in_line, _overwrite_other, crashes=1, restarts=1
    ),
    _of_gatherers(
        "two-in-line-and-a-new-definition",
        *(append_in_line, gather_in_line, set_properties),
        crashes=1,
        round_trip_s=SLOW_S,
    ),
    _of_gatherers("three-in-line", append_in_line, append_in_line, gather_in_line, faults=1, crashes=1),
    _of_gatherers("answers-are-lost-in-line", append_in_line, append_in_line, faults=2),
    _of_gatherers("one-fails-in-line", append_in_line, append_in_line, faults=1, kinds=("refused",)),
    _of_gatherers("late-to-the-line", append_in_line, append_in_line, gather_in_line),
    _of_gatherers("one-in-line-asks", append_in_line, append_in_line_and_resolve, gather_in_line, faults=1),
    _of_gatherers(
        "another-asks-for-those-in-line", append_in_line_and_leave, resolve_for_others, append_in_line, faults=2
    ),
    _of_gatherers(
        "one-application-twice-in-line", ingest_in_line, ingest_in_line, append_in_line, crashes=1, restarts=1
    ),
    _of_gatherers(
        "threads-in-line",
        *(append_together_in_line, append_together_in_line, append_together_in_line, append_in_line),
        faults=1,
        crashes=1,
        round_trip_s=SLOW_S,
    ),
    _of_gatherers(
        "threads-in-line-and-a-new-definition",
        *(append_together_in_line, append_together_in_line, append_in_line, set_properties),
        crashes=1,
        round_trip_s=SLOW_S,
    ),
    _of_gatherers(
        "processes-in-turn-and-in-line",
        *(append_in_turn, append_in_line, append_in_line_and_resolve, append_in_line_elsewhere),
        faults=2,
        crashes=1,
        queues=True,
    ),
    _of_gatherers(
        "processes-in-turn-as-the-line-ends",
        *(_twice_in_turn, _twice_in_turn, append_in_line_elsewhere, stop_gathering),
        crashes=1,
        queues=True,
        round_trip_s=SLOW_S,
    ),
    _of_gatherers("the-line-ends", append_in_line, append_in_line, stop_gathering, crashes=1, round_trip_s=SLOW_S),
    _of_gatherers(
        "changes-wait-among-appends", append_in_line, overwrite, append_in_line, faults=1, round_trip_s=SLOW_S
    ),
    _of_gatherers("a-vacuum-beside-the-line", append_in_line, append_in_line, vacuum_rows, crashes=1, trimmed=True),
    _of_gatherers("a-vacuum-after-a-day-in-line", append_in_line_for_days, vacuum_what_waits, trimmed=True),
)

GATHERERS: tuple[Program, ...] = (
    append_in_line,
    append_in_line,
    partial(append_in_line, times=2),
    gather_in_line,
    append_in_line_and_leave,
    append_in_line_and_resolve,
    append_together_in_line,
    partial(append_together_in_line, times=2),
    append_as_before,
    append,
    partial(append, times=3),
    append_and_resolve,
    resolve_for_others,
    overwrite_in_line,
    _overwrite_other,
    overwrite_in_line_and_leave,
    overwrite_in_line_and_resolve,
    replace_in_line,
    ingest_in_line,
    partial(ingest_in_line, app_id="other"),
    set_properties,
    stop_gathering,
    overwrite,
)
"""Those that meet in line on a table whose writers commit each other's appends."""
