"""Scenarios in which a branch is made, written, published, rebased and discarded beside writers of its table.

In: nothing. Out: `BRANCH_SCENARIOS`, of which only some schedules are explored.
"""

from __future__ import annotations

from functools import partial

from explorer.branch_programs import (
    append_to_branch,
    append_to_table,
    begin_branch,
    discard_and_vacuum,
    discard_branch,
    make_branch,
    map_columns_of_table,
    move_on_and_rebase,
    publish_branch,
    rebase_branch,
    remove_and_vacuum,
    remove_and_vacuum_at_once,
    remove_first_and_vacuum_at_once,
    remove_from_table,
    vacuum_table,
)
from explorer.casting import LOST_ANSWERS, actors_of
from explorer.run import Scenario

__all__ = ["BRANCH_SCENARIOS"]

_twice = partial(append_to_branch, times=2)
_keep = partial(publish_branch, keep=True)
_ROW_IDS = (("delta.enableRowTracking", "true"),)

_BESIDE_VACUUMS = tuple(
    Scenario(
        f"branch-{name}-beside-a-vacuum",
        actors_of(*programs),
        store="object",
        versions=3,
        trimmed=True,
        crashes=crashes,
        grouped=grouped,
    )
    for name, programs, crashes, grouped in (
        ("that-is-kept", (append_to_branch, _keep, remove_from_table, vacuum_table), 0, "branched"),
        ("that-is-rebased", (move_on_and_rebase, remove_and_vacuum), 0, "branched"),
        ("that-is-rebased-at-once", (rebase_branch, remove_and_vacuum_at_once), 0, "branched"),
        ("whose-rebase-dies", (rebase_branch, remove_and_vacuum_at_once), 1, "branched"),
        ("that-is-made", (make_branch, remove_and_vacuum), 0, "unbranched"),
        ("whose-maker-dies", (begin_branch, remove_first_and_vacuum_at_once), 0, "unbranched"),
        ("that-is-discarded-and-made", (discard_branch, make_branch, vacuum_table), 0, "branched"),
        ("that-is-written-after-its-end", (append_to_branch, discard_and_vacuum), 0, "branched"),
        ("that-is-made-after-its-end", (make_branch, append_to_branch, discard_and_vacuum), 0, "branched"),
    )
)
"""What a vacuum with a short retention may do to branches."""

_WITH_ROW_IDS = tuple(
    Scenario(
        f"branch-{name}-with-row-ids",
        actors_of(*programs, restarts=1),
        crashes=1,
        faults=1,
        store="object",
        kinds=LOST_ANSWERS,
        versions=3,
        properties=_ROW_IDS,
        grouped=grouped,
    )
    for name, programs, grouped in (
        ("that-is-made", (make_branch, append_to_branch, publish_branch, append_to_table), "unbranched"),
        ("that-is-rebased", (_twice, rebase_branch, _keep, append_to_table), "branched"),
        ("that-is-discarded-and-made", (discard_branch, make_branch, append_to_branch, append_to_table), "branched"),
    )
)
"""A branch of a table that tracks rows, for which the table sets ids aside."""

_OTHERS = tuple(
    Scenario(
        f"branch-{name}",
        actors_of(*programs, restarts=1),
        crashes=crashes,
        faults=faults,
        store=store,
        kinds=LOST_ANSWERS,
        versions=3,
        grouped=grouped,
    )
    for name, programs, crashes, faults, store, grouped in (
        ("that-is-made-twice", (make_branch, make_branch, append_to_table), 1, 1, "object", "unbranched"),
        ("that-is-made-and-written", (make_branch, append_to_branch, publish_branch), 1, 1, "local", "unbranched"),
        ("and-appenders", (_twice, publish_branch, append_to_table), 1, 1, "object", "branched"),
        ("that-is-published-twice", (append_to_branch, publish_branch, publish_branch), 1, 1, "object", "branched"),
        ("that-is-kept", (_twice, _keep, publish_branch), 1, 1, "local", "branched"),
        (
            "that-is-rebased",
            (append_to_branch, rebase_branch, publish_branch, append_to_table),
            1,
            1,
            "object",
            "branched",
        ),
        ("beside-a-delete", (append_to_branch, rebase_branch, _keep, remove_from_table), 1, 1, "object", "branched"),
        (
            "of-a-table-that-is-redefined",
            (append_to_branch, rebase_branch, publish_branch, map_columns_of_table),
            1,
            1,
            "object",
            "branched",
        ),
        ("that-is-discarded", (append_to_branch, discard_branch, publish_branch), 1, 1, "object", "branched"),
        ("that-is-discarded-and-made", (discard_branch, make_branch, append_to_branch), 1, 1, "local", "branched"),
    )
)
"""One branch of one table, with deaths and lost answers at every call on both logs."""

BRANCH_SCENARIOS = (*_BESIDE_VACUUMS, *_WITH_ROW_IDS, *_OTHERS)
