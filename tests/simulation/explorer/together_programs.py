"""Programs of actors that share one handle, as threads of a process do: their appends may become one version.

In: a `Session`. Out: nothing; each answer that a program gets is checked at once. A crash ends one of the threads, as
Ctrl-C or an error in a hook does: the others live on. Who waits for another one may be resumed before that one moves.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from explorer.casting import LOST_ANSWERS, actors_of
from explorer.programs import ROW, append, ingest, resolve_for_others, set_properties
from explorer.run import Scenario
from explorer.session import Session
from txlog.errors import CommitStateUnknownError
from txlog.table import Table

__all__ = [
    "TOGETHER",
    "append_elsewhere",
    "append_in_turn",
    "append_in_turn_and_leave",
    "append_together",
    "append_together_and_leave",
    "ingest_in_turn",
    "ingest_together",
    "look_together",
]


def append_together(session: Session, *, times: int = 1) -> None:
    """Append rows through the handle that all share, one append after the other."""
    table = session.shared_table()
    for _ in range(times):
        _append(session, table)


def append_together_and_leave(session: Session) -> None:
    """Append through the shared handle, give up at the first lost answer, and ask what became of it."""
    table = session.shared_table(total_timeout=0.0)
    with session.attempt() as attempt:
        attempt.result = table.append(ROW)
    error = attempt.error
    if isinstance(error, CommitStateUnknownError) and error.version is not None:
        session.resolve(attempt, table, error.txn_id, error.version)


def ingest_together(session: Session, *, app_id: str = "app", checkpoint_id: int = 1) -> None:
    """Commit a checkpoint of an application through the shared handle."""
    table = session.shared_table()
    with session.attempt((app_id, checkpoint_id)) as attempt:
        attempt.result = table.append(ROW, app_id=app_id, checkpoint_id=checkpoint_id)


def look_together(session: Session) -> None:
    """Read through the shared handle, which then knows versions that those who append have not seen."""
    for _ in range(2):
        session.shared_table().snapshot()


def _append(session: Session, table: Table) -> None:
    with session.attempt() as attempt:
        attempt.result = table.append(ROW)


def append_in_turn(session: Session, *, times: int = 1, fresh: bool = False) -> None:
    """Append rows as a process of its own, which queues with the others of its machine."""
    table = session.table(fresh=fresh)
    for _ in range(times):
        _append(session, table)


def append_elsewhere(session: Session, *, times: int = 1) -> None:
    """Append rows on another machine, whose processes are in no queue of this one."""
    table = session.table(elsewhere=True)
    for _ in range(times):
        _append(session, table)


def append_in_turn_and_leave(session: Session) -> None:
    """The same; give up at the first lost answer, and ask what became of it."""
    table = session.table(total_timeout=0.0)
    with session.attempt() as attempt:
        attempt.result = table.append(ROW)
    error = attempt.error
    if isinstance(error, CommitStateUnknownError) and error.version is not None:
        session.resolve(attempt, table, error.txn_id, error.version)


def ingest_in_turn(session: Session, *, app_id: str = "app") -> None:
    """Commit a checkpoint of an application as a process of its own."""
    table = session.table()
    with session.attempt((app_id, 1)) as attempt:
        attempt.result = table.append(ROW, app_id=app_id, checkpoint_id=1)


_other = partial(ingest_together, app_id="other")
_twice_in_turn = partial(append_in_turn, times=2)
_late_in_turn = partial(append_in_turn, fresh=True)
_twice_elsewhere = partial(append_elsewhere, times=2)
_twice = partial(append_together, times=2)
_on_object_store: dict[str, Any] = {"store": "object", "kinds": (*LOST_ANSWERS, "refused")}


def _scenario(name: str, *programs: Any, restarts: int = 0, **options: Any) -> Scenario:
    return Scenario(name, actors_of(*programs, restarts=restarts), **options)


TOGETHER = (
    _scenario("three-append-together", append_together, append_together, append_together, faults=2, crashes=1),
    _scenario(
        "appenders-together-beside-one-alone",
        *(append_together, append_together, _twice, append),
        faults=2,
        crashes=2,
        **_on_object_store,
    ),
    _scenario(
        "appenders-together-ask-what-became-of-it",
        *(append_together_and_leave, append_together_and_leave, append_together_and_leave, append),
        faults=3,
        **_on_object_store,
    ),
    _scenario(
        "appenders-together-are-asked-for",
        *(append_together_and_leave, append_together_and_leave, append, resolve_for_others),
        faults=2,
        crashes=1,
        **_on_object_store,
    ),
    _scenario(
        "processes-in-turn",
        *(append_in_turn, _twice_in_turn, append_in_turn, ingest_in_turn),
        faults=2,
        crashes=2,
        queues=True,
        **_on_object_store,
    ),
    _scenario(
        "processes-in-turn-ask-what-became-of-it",
        *(append_in_turn_and_leave, append_in_turn_and_leave, append_in_turn_and_leave),
        faults=4,
        crashes=1,
        queues=True,
        **_on_object_store,
    ),
    _scenario(
        "processes-in-turn-are-refused",
        *(_twice_in_turn, _twice_in_turn, _twice_in_turn),
        faults=4,
        crashes=2,
        queues=True,
        store="object",
        kinds=("late", "refused"),
    ),
    _scenario(
        "processes-in-turn-and-a-definition-change",
        *(append_in_turn, _late_in_turn, ingest_in_turn, set_properties),
        queues=True,
        store="object",
    ),
    _scenario(
        "processes-in-turn-beside-another-machine",
        *(_twice_in_turn, _twice_in_turn, append_in_turn, _twice_elsewhere),
        queues=True,
        store="object",
    ),
    _scenario(
        "appenders-together-and-a-reader",
        *(_twice, _twice, _twice, look_together, look_together),
        crashes=2,
        store="object",
    ),
    _scenario(
        "appenders-together-are-refused",
        *(_twice, _twice, _twice),
        faults=4,
        crashes=2,
        store="object",
        kinds=("late", "refused"),
    ),
    _scenario(
        "applications-together", ingest_together, _other, append_together, ingest, faults=1, crashes=1, restarts=1
    ),
    _scenario("one-application-together-twice", ingest_together, ingest_together, _other, append, faults=2, crashes=1),
    _scenario(
        "appenders-together-and-a-definition-change",
        *(append_together, append_together, ingest_together, set_properties),
        faults=1,
        **_on_object_store,
    ),
    _scenario(
        "appenders-together-power-cut",
        *(append_together, append_together, ingest_together),
        power_cuts=1,
        splits_sync=True,
        crashes=1,
        restarts=1,
    ),
    _scenario(
        "appenders-together-number-rows",
        *(append_together, _twice, append),
        faults=2,
        crashes=1,
        properties=(("delta.enableRowTracking", "true"), ("delta.enableInCommitTimestamps", "true")),
    ),
    _scenario(
        "appenders-together-and-observers-that-fail",
        *(append_together, append_together, append),
        faults=3,
        crashes=1,
        observers_fail=True,
        pauses=True,
        store="object",
    ),
)
"""Several threads of one process, beside other writers; and several processes of one machine."""
