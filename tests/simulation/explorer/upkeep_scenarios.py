"""Scenarios in which upkeep meets writers: compactions, vacuums, restores, tags, recoveries of sealed work, exports.

In: nothing. Out: `UPKEEP_SCENARIOS`, each small enough to be explored completely, and `LARGE_SCENARIOS`, for sampling.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from explorer.casting import LOST_ANSWERS, actors_of, of_rows
from explorer.change_programs import recover_sealed
from explorer.export_programs import (
    append_and_export,
    clean_up_exports,
    delete_and_export,
    export,
    export_anew,
    foreign_iceberg_commit,
    move_on_and_export,
)
from explorer.other_engines import append_unsynced
from explorer.programs import Program
from explorer.row_programs import (
    append_keys,
    delete_where,
    optimize_rows,
    restore_rows,
    tag_version,
    update_and_vacuum_later,
    upsert,
    vacuum_later,
    vacuum_rows,
)
from explorer.run import Scenario

__all__ = ["LARGE_SCENARIOS", "LONG_RETENTION", "UPKEEP_SCENARIOS"]

LONG_RETENTION = ("delta.deletedFileRetentionDuration", "interval 1000 days")


def _of_upkeep(name: str, *programs: Program, versions: int = 4, **options: Any) -> Scenario:
    """On a table whose newest version removed a file long ago; the table's own retention keeps that file."""
    aged: dict[str, Any] = {"versions": versions, "aged": True, "trimmed": True, "properties": (LONG_RETENTION,)}
    return of_rows(name, *programs, **aged, **options)


def _of_recovery(name: str, *programs: Program, **options: Any) -> Scenario:
    """On such a table with changes that an application sealed long ago before it died: recovered, if need be twice."""
    return _of_upkeep(name, *programs, sealed=True, **options)


def _of_exports(name: str, *programs: Program, **options: Any) -> Scenario:
    """On a table whose Iceberg metadata lacks one version."""
    return Scenario(name, actors_of(*programs), versions=3, exported=True, **options)


UPKEEP_SCENARIOS = (
    of_rows("deleter-and-optimizer", delete_where, optimize_rows, versions=5),
    of_rows("two-optimizers", optimize_rows, optimize_rows, versions=5),
    _of_upkeep("restorer-and-vacuum", restore_rows, vacuum_rows),
    _of_upkeep("upserter-and-vacuum", upsert, vacuum_rows),
    _of_upkeep("restorer-and-appender", restore_rows, append_keys),
    _of_upkeep("restorer-and-optimizer", restore_rows, optimize_rows),
    _of_upkeep("optimizer-and-vacuum-of-the-same-day", optimize_rows, partial(vacuum_later, hours=12), versions=6),
    _of_upkeep("vacuum-of-old-vectors", partial(update_and_vacuum_later, hours=36)),
    _of_recovery("recovery-and-optimizer", recover_sealed, optimize_rows, versions=6),
    _of_exports("two-exporters-that-die", export, export, crashes=1),
    _of_exports("exporter-beside-others-that-sync-nothing", append_unsynced, export, power_cuts=1),
    _of_exports("exporter-and-foreign-iceberg-writer", move_on_and_export, foreign_iceberg_commit),
)
"""What a vacuum, a restore, a tag, a compaction, a recovery and an export may do to each other."""

LARGE_SCENARIOS = (
    _of_recovery("recovery-and-vacuum", recover_sealed, vacuum_rows, crashes=1, restarts=1, dies=recover_sealed),
    _of_recovery("recovery-and-restorer", recover_sealed, restore_rows, crashes=1, restarts=1, dies=recover_sealed),
    _of_recovery("recovery-restorer-and-vacuum", recover_sealed, restore_rows, vacuum_rows),
    _of_recovery("recovery-optimizer-and-vacuum", recover_sealed, optimize_rows, vacuum_rows, versions=6),
    _of_recovery("recovery-and-two-optimizers", recover_sealed, optimize_rows, optimize_rows, versions=6),
    _of_recovery("two-recoveries-and-vacuum", recover_sealed, recover_sealed, vacuum_rows),
    _of_upkeep("tagger-and-vacuum", tag_version, vacuum_rows),
    _of_upkeep("tagger-and-vacuum-object-store", tag_version, vacuum_rows, store="object"),
    _of_upkeep("upserter-tagger-and-vacuum", upsert, tag_version, vacuum_rows, crashes=1),
    _of_upkeep("upserter-restorer-tagger-and-vacuum", upsert, restore_rows, tag_version, vacuum_rows),
    _of_exports("two-exporters-lose-answers", export, export, faults=2, crashes=1, kinds=LOST_ANSWERS),
    _of_exports("exporters-and-appender", append_and_export, export),
    _of_exports("exporters-power-cut", export, export, power_cuts=1, splits_sync=True),
    _of_exports("exporter-and-rebuild", move_on_and_export, export_anew, aged=True, store="object"),
    _of_exports("exporters-and-clean-up", export, clean_up_exports, move_on_and_export),
    _of_exports("exporters-and-deleter", delete_and_export, export, optimize_rows, has_rows=True),
)
"""The same with more actors: too many schedules to explore them all."""
