"""Scenarios of streams of changes: checkpoints that are given up, changes that are held back, deleted keys that stay.

In: nothing. Out: `STREAM_SCENARIOS`, each small enough to be explored completely, and `LARGE_STREAM_SCENARIOS`, for
sampling.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from explorer.casting import LOST_ANSWERS, actors_of, of_rows
from explorer.change_programs import (
    change_sink,
    holding_sink,
    recover_held,
    sink_in_sequence,
    staging_change_sink,
    staging_holding_sink,
    upsert_in_sequence,
    upsert_late,
)
from explorer.group_programs import abandon_group, coordinate, discard_group, recover_group, seal_group
from explorer.joint_programs import (
    append_to_both,
    append_to_first,
    append_to_second,
    claim_in_first,
    claim_in_second,
    read_both,
)
from explorer.programs import Program
from explorer.row_programs import append_keys, compact_rows, delete_where, optimize_rows
from explorer.run import Scenario
from explorer.sink_programs import abandon, staging_and_leaving, staging_backlog, staging_nothing, staging_sink

__all__ = ["GROUP_SCENARIOS", "JOINT_SCENARIOS", "KEEPS_DELETED_KEYS", "LARGE_STREAM_SCENARIOS", "STREAM_SCENARIOS"]

KEEPS_DELETED_KEYS = (
    ("txlog.merge-engine", "deduplicate"),
    ("txlog.sequence.field", "v"),
    ("txlog.tombstone-retention", "interval 7 days"),
)


def _in_sequence(name: str, *programs: Program, **options: Any) -> Scenario:
    return of_rows(name, *programs, properties=KEEPS_DELETED_KEYS, **options)


_later = partial(coordinate, first=0, last=2)
_from_the_empty = partial(coordinate, first=0)
_nothing_then_rows = partial(staging_nothing, rows=(0, 1))

GROUP_SCENARIOS = tuple(
    Scenario(
        name, actors_of(*programs, restarts=restarts), crashes=crashes, faults=faults, store=store, grouped=grouped
    )
    for name, programs, crashes, restarts, faults, store, grouped in (
        ("group-and-operator-that-discards", (recover_group, discard_group), 0, 0, 0, "object", "sealed"),
        ("group-and-operator-that-abandons", (recover_group, abandon_group), 1, 0, 0, "object", "sealed"),
        ("two-groups-and-operator-that-discards", (*[recover_group] * 2, discard_group), 1, 0, 0, "object", "sealed"),
        ("group-coordinator-and-discarder", (recover_group, coordinate, discard_group), 0, 0, 0, "object", "sealed"),
        ("group-coordinator-and-abandoner", (coordinate, discard_group, abandon_group), 1, 1, 0, "object", "sealed"),
        ("group-that-loses-answers", (recover_group, discard_group), 1, 0, 1, "local", "sealed"),
        ("group-that-is-sealed-beside-a-start", (seal_group, coordinate), 0, 0, 0, "object", "staged"),
        ("group-that-is-sealed-beside-two-starts", (seal_group, coordinate, coordinate), 0, 0, 0, "object", "staged"),
        (
            "group-that-is-sealed-beside-a-discarder",
            (seal_group, coordinate, discard_group),
            1,
            1,
            0,
            "object",
            "staged",
        ),
        ("two-coordinators", (_from_the_empty, _from_the_empty), 2, 1, 0, "object", "new"),
        ("two-coordinators-that-lose-answers", (coordinate, coordinate), 1, 1, 1, "local", "new"),
        ("coordinators-of-several-checkpoints", (_later, _later), 2, 1, 0, "object", "new"),
    )
)
"""Two tables that one checkpoint feeds, with twins, deaths, discards, recoveries and what operators give up."""

_twice_to_both = partial(append_to_both, times=2)

JOINT_SCENARIOS = tuple(
    Scenario(
        f"joint-{name}",
        actors_of(*programs, restarts=restarts),
        crashes=crashes,
        faults=faults,
        store=store,
        kinds=LOST_ANSWERS,
        grouped="joint",
    )
    for name, programs, crashes, restarts, faults, store in (
        ("transaction-that-dies", (append_to_both, append_to_first), 1, 0, 0, "object"),
        ("transaction-that-dies-beside-the-decision", (append_to_both, append_to_second), 1, 0, 0, "object"),
        ("transaction-beside-an-appender", (append_to_both, append_to_first, append_to_second), 0, 0, 0, "object"),
        ("transaction-that-loses-answers", (append_to_both, append_to_first), 0, 0, 2, "object"),
        ("transaction-on-disk", (append_to_both, append_to_first), 1, 0, 1, "local"),
        ("two-transactions", (append_to_both, _twice_to_both), 1, 1, 1, "object"),
        ("transactions-and-a-reader", (append_to_both, append_to_both, read_both), 1, 0, 0, "object"),
        ("transaction-and-a-reader-that-loses-answers", (append_to_both, append_to_first, read_both), 1, 0, 1, "local"),
        ("claims", (claim_in_first, claim_in_second), 0, 0, 0, "object"),
        ("claims-that-die", (claim_in_first, claim_in_second, claim_in_first), 2, 1, 1, "object"),
        (
            "claims-and-appenders",
            (claim_in_first, claim_in_second, append_to_both, append_to_second),
            1,
            0,
            1,
            "object",
        ),
    )
)
"""Two tables that transactions change together, with deaths, lost answers, other writers of each, and readers."""

STREAM_SCENARIOS = (
    Scenario("sink-whose-checkpoint-is-abandoned", actors_of(staging_sink, abandon)),
    Scenario("sink-that-died-and-is-abandoned", actors_of(staging_and_leaving, abandon), crashes=1),
    of_rows("change-sink-and-abandoner", staging_change_sink, partial(abandon, app_id="changes")),
    of_rows("holding-sink-and-appender", holding_sink, append_keys, faults=1, kinds=LOST_ANSWERS),
    of_rows("holding-sink-and-deleter", holding_sink, delete_where, faults=1, kinds=LOST_ANSWERS),
    of_rows("holding-sink-power-cut", staging_holding_sink, restarts=1, power_cuts=1, splits_sync=True),
    of_rows("holding-sink-restarts", staging_holding_sink, restarts=1, crashes=1),
    _in_sequence("late-upserter", upsert_in_sequence, upsert_late, faults=1, kinds=LOST_ANSWERS),
    _in_sequence("late-upserter-and-sink", upsert_in_sequence, upsert_late, sink_in_sequence),
    _in_sequence("late-upserter-and-optimizer", upsert_late, optimize_rows, upsert_in_sequence),
    _in_sequence("deleting-upserter-power-cut", upsert_in_sequence, upsert_late, power_cuts=1, splits_sync=True),
)
"""What operators give up, what commits hold back and what deletes leave, alongside other writers."""

LARGE_STREAM_SCENARIOS = (
    *GROUP_SCENARIOS,
    *JOINT_SCENARIOS,
    Scenario("sink-without-rows-and-its-twin", actors_of(_nothing_then_rows, _nothing_then_rows), store="object"),
    Scenario("backlog-whose-first-is-abandoned", actors_of(staging_backlog, abandon), crashes=1),
    Scenario("abandoned-power-cut", actors_of(staging_sink, abandon, restarts=1), power_cuts=1, splits_sync=True),
    Scenario("abandoner-loses-answers", actors_of(staging_sink, abandon), faults=2, kinds=LOST_ANSWERS),
    of_rows(
        "two-change-sinks-appender-and-compactor",
        *(change_sink, partial(change_sink, app_id="other changes", number=1), append_keys, compact_rows),
        versions=5,
    ),
    of_rows("holding-sink-and-its-twin", holding_sink, holding_sink, append_keys),
    of_rows("holding-sink-appender-and-deleter", holding_sink, append_keys, delete_where),
    of_rows("holding-sink-and-recovery", staging_holding_sink, recover_held, append_keys),
    _in_sequence("late-sink-and-optimizers", upsert_in_sequence, sink_in_sequence, optimize_rows, optimize_rows),
)
"""The same with more actors: too many schedules to explore them all."""
