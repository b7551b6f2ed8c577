"""Programs become actors: what each may do to the log, to staged work and to Iceberg metadata, and how it lives.

In: programs. Out: `Actor` values for a scenario, and scenarios about rows.
"""

from __future__ import annotations

from typing import Any

from txlog.testing.change_programs import change_sink, recover_changes, recover_sealed, staging_change_sink
from txlog.testing.export_programs import (
    append_and_export,
    clean_up_exports,
    delete_and_export,
    export,
    export_anew,
    foreign_iceberg_commit,
    move_on_and_export,
)
from txlog.testing.other_engines import append_unsynced, clean_up_in_time, clean_up_now, move_on_and_clean_up
from txlog.testing.programs import (
    Program,
    append_and_maintain,
    checkpoint,
    clean_up_at_once,
    clean_up_later,
    maintain,
)
from txlog.testing.row_programs import vacuum_rows
from txlog.testing.run import Scenario
from txlog.testing.session import Actor
from txlog.testing.sink_programs import (
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
CLEANERS = (maintain, append_and_maintain, clean_up_later, clean_up_at_once, *OTHERS[1:])
_CHECKPOINTERS = (checkpoint, *CLEANERS)
_STAGERS: tuple[Any, ...] = (
    *(sink, staging_sink, staging_and_leaving, staging_backlog, staging_nothing, recover, discard, clean_staging_later),
    *(change_sink, staging_change_sink, recover_changes, recover_sealed),
)
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
    """An actor for each program, begun again after a crash so often, or as often as ``restarts`` says of each.

    ``all_checkpoint`` where commits are followed by checkpoints, and in time by a clean-up, by themselves. Each is
    ``behind_ms`` behind the one before it. The machines of those who do not clean up ``sleep`` while time passes.
    Only the actor of the program ``dies`` may crash, where one is given.
    """
    lives = (restarts,) * len(programs) if isinstance(restarts, int) else restarts
    return tuple(
        Actor(
            f"{_function(program).__name__}-{number}",
            program,
            lives[number - 1],
            checkpoints=all_checkpoint or program in _CHECKPOINTERS,
            deletes=all_checkpoint or program in CLEANERS,
            stages=_function(program) in _STAGERS,
            vacuums=program is vacuum_rows,
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
    """A scenario whose rows are held against those of the operations one by one."""
    actors = actors_of(*programs, restarts=restarts, dies=dies)
    return Scenario(name, actors, versions=versions, has_rows=True, **options)


def _function(program: Any) -> Any:
    return getattr(program, "func", program)
