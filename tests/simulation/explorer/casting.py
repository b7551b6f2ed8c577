"""Programs become actors: what each may do to the log, to staged work and to Iceberg metadata, and how it runs.

In: programs. Out: `Actor` values for a scenario, and scenarios about rows.
"""

from __future__ import annotations

from typing import Any

from explorer.branch_programs import discard_and_vacuum, remove_and_vacuum, remove_and_vacuum_at_once, vacuum_table
from explorer.change_programs import (
    change_sink,
    holding_sink,
    recover_changes,
    recover_held,
    recover_sealed,
    sink_in_sequence,
    staging_change_sink,
    staging_holding_sink,
)
from explorer.export_programs import (
    append_and_export,
    clean_up_exports,
    delete_and_export,
    export,
    export_anew,
    foreign_iceberg_commit,
    move_on_and_export,
)
from explorer.gathering_programs import vacuum_what_waits
from explorer.group_programs import abandon_group, coordinate, discard_group, recover_group, seal_group
from explorer.joint_programs import (
    append_to_both,
    append_to_first,
    append_to_second,
    claim_in_first,
    claim_in_second,
    read_both,
)
from explorer.other_engines import append_unsynced, clean_up_in_time, clean_up_now, move_on_and_clean_up
from explorer.programs import (
    Program,
    append_and_maintain,
    checkpoint,
    clean_up_at_once,
    clean_up_later,
    lose_commits,
    maintain,
)
from explorer.row_programs import tag_version, update_and_vacuum_later, vacuum_later, vacuum_rows
from explorer.run import Scenario
from explorer.session import Actor
from explorer.sink_programs import (
    abandon,
    clean_staging_later,
    discard,
    recover,
    sink,
    staging_and_leaving,
    staging_backlog,
    staging_nothing,
    staging_sink,
)

__all__ = ["CLEANERS", "LOST_ANSWERS", "OTHERS", "actors_of", "of_rows"]

LOST_ANSWERS = ("fail_before", "fail_after", "conflict", "late")
OTHERS = (append_unsynced, clean_up_now, clean_up_in_time, move_on_and_clean_up)
CLEANERS = (maintain, append_and_maintain, clean_up_later, clean_up_at_once, discard_and_vacuum, *OTHERS[1:])
_CHECKPOINTERS = (checkpoint, *CLEANERS)
_STAGERS: tuple[Any, ...] = (
    *(sink, staging_sink, staging_and_leaving, staging_backlog, staging_nothing, recover, discard, clean_staging_later),
    *(change_sink, staging_change_sink, recover_changes, recover_sealed, abandon),
    *(holding_sink, staging_holding_sink, recover_held, sink_in_sequence),
    *(coordinate, recover_group, discard_group, abandon_group, seal_group),
    *(append_to_both, append_to_first, append_to_second, claim_in_first, claim_in_second, read_both),
)
_VACUUMS = (
    discard_and_vacuum,
    remove_and_vacuum,
    remove_and_vacuum_at_once,
    vacuum_table,
    vacuum_rows,
    vacuum_later,
    update_and_vacuum_later,
    vacuum_what_waits,
)
_TAGGERS = (tag_version,)
_EXPORT_CLEANERS = (clean_up_exports, export_anew)
_EXPORTERS = (
    export,
    append_and_export,
    move_on_and_export,
    delete_and_export,
    foreign_iceberg_commit,
    *_EXPORT_CLEANERS,
)


def actors_of(
    *programs: Program,
    restarts: int | tuple[int, ...] = 0,
    all_checkpoint: bool = False,
    behind_ms: int = 0,
    sleep: bool = False,
    dies: Program | None = None,
) -> tuple[Actor, ...]:
    """An actor for each program, restarted after a crash up to ``restarts`` times (one number, or one for each
    program).

    ``all_checkpoint``: commits write checkpoints when these are due, and clean up the log later. Each actor's clock is
    ``behind_ms`` behind that of the actor before it. ``sleep``: the machines of actors that do not clean up are
    suspended while time passes. ``dies``: only the actor of this program may crash.
    """
    lives = (restarts,) * len(programs) if isinstance(restarts, int) else restarts
    return tuple(
        Actor(
            f"{_function(program).__name__}-{number}",
            program,
            lives[number - 1],
            checkpoints=all_checkpoint or program in _CHECKPOINTERS,
            deletes=all_checkpoint or program in CLEANERS or _function(program) is lose_commits,
            stages=_function(program) in _STAGERS,
            vacuums=_function(program) in _VACUUMS,
            tags=_function(program) in _TAGGERS,
            exports=_function(program) in _EXPORTERS,
            cleans_exports=_function(program) in _EXPORT_CLEANERS,
            dies=dies is None or program is dies,
            behind_ms=behind_ms * number,
            sleeps=sleep and program not in CLEANERS,
        )
        for number, program in enumerate(programs, start=1)
    )


def of_rows(
    name: str,
    *programs: Program,
    restarts: int | tuple[int, ...] = 0,
    dies: Program | None = None,
    versions: int = 3,
    **options: Any,
) -> Scenario:
    """A scenario in which the rows of each version are checked against the operations, applied one by one."""
    actors = actors_of(*programs, restarts=restarts, dies=dies)
    return Scenario(name, actors, versions=versions, has_rows=True, **options)


def _function(program: Any) -> Any:
    return getattr(program, "func", program)
