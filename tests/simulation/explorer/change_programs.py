"""Programs of a story's actors that use a `Sink` of changes: upserts and deletes by key.

In: a `Session` on a table that ``has_rows``. Out: nothing. Each program declares how its checkpoint changes the rows
of the version on which it is committed: by the sink, by another instance of it, or by a recovery after a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa

from explorer.effects import HoldsBack, InSequence
from explorer.rows import Makes, Row
from explorer.session import Session
from explorer.world import CHANGES, SEALED, SEALED_CHANGES
from txlog.core.sink._recovery import Recovery
from txlog.core.sink._sink import Sink
from txlog.core.writing.committable import Committable
from txlog.core.writing.write_intent import MismatchAction
from txlog.errors import CommitStateUnknownError, TxlogError

__all__ = [
    "change_sink",
    "holding_sink",
    "recover_changes",
    "recover_held",
    "recover_sealed",
    "sink_in_sequence",
    "staging_change_sink",
    "staging_holding_sink",
    "upsert_in_sequence",
    "upsert_late",
]

Change: TypeAlias = tuple[str, int, str | None, int | None, int]
"""Row kind, key, partition, value and sequence."""


def change_sink(session: Session, *, app_id: str = "changes", number: int = 0) -> None:
    """Two tasks that both change one row; their committables are committed without staging."""
    door = _sink(session, app_id)
    with session.attempt((app_id, 1)) as attempt:
        attempt.is_blind, attempt.makes = False, _makes(number)
        attempt.result = door.commit(1, _written(session, door, _changes(number)))


def staging_change_sink(session: Session, *, app_id: str = "changes", number: int = 0) -> None:
    """One task, staged and sealed. Recovers what an earlier life has sealed."""
    door = _sink(session, app_id)
    if session.clock.incarnation:
        _recover(session, door, (app_id, 1), _makes(number))
    if door.last_checkpoint_id() == 1:
        return
    _seal(session, door, app_id, _written(session, door, [[change for task in _changes(number) for change in task]]))
    with session.attempt((app_id, 1)) as attempt:
        attempt.is_blind, attempt.makes = False, _makes(number)
        attempt.result = door.commit(1)


def recover_changes(session: Session, *, app_id: str = "changes", number: int = 0) -> None:
    """Another process, which commits the sealed checkpoints that it finds, with the keys that the seal names."""
    _recover(session, Sink(session.table(), app_id), (app_id, 1), _makes(number))


def recover_sealed(session: Session) -> None:
    """The same for a checkpoint that was sealed before the story began, in a world that ``is_sealed``."""
    keys = {change[1] for change in SEALED_CHANGES}
    new: list[Row] = [(key, part, v) for kind, key, part, v, _ in SEALED_CHANGES if part is not None and v is not None]
    _recover(
        session,
        Sink(session.table(), SEALED[0]),
        SEALED,
        lambda old: [row for row in old if row[0] not in keys] + new,
    )


# --- changes that do not fit ------------------------------------------------------------------------------------

_HELD = HoldsBack((("+U", 1, "b", 90), ("-D", 2, None, None), ("-D", 70, None, None), ("+I", 99, "a", 91)))
"""Beside appends of 1 and 99 and deletes of 1 and 2 each may fit a version and not the next; 70 is never there."""


def holding_sink(session: Session, *, app_id: str = "held") -> None:
    """A checkpoint whose changes that do not fit the table go into quarantine, committed without staging."""
    door = _holding(session, app_id)
    with session.attempt((app_id, 1)) as attempt:
        attempt.is_blind, attempt.effect = False, _HELD
        attempt.result = door.commit(1, _written(session, door, [_numbered(_HELD.changes)]))


def staging_holding_sink(session: Session, *, app_id: str = "held") -> None:
    """The same, staged and sealed. Recovers what an earlier life has sealed."""
    door = _holding(session, app_id)
    if session.clock.incarnation:
        _recover(session, door, (app_id, 1), None, _HELD)
    if door.last_checkpoint_id() == 1:
        return
    _seal(session, door, app_id, _written(session, door, [_numbered(_HELD.changes)]))
    with session.attempt((app_id, 1)) as attempt:
        attempt.is_blind, attempt.effect = False, _HELD
        attempt.result = door.commit(1)


def recover_held(session: Session, *, app_id: str = "held") -> None:
    """Another process with the same policy, which commits the sealed checkpoints that it finds."""
    _recover(session, _holding(session, app_id), (app_id, 1), None, _HELD)


def _holding(session: Session, app_id: str) -> Sink:
    table = session.table(fresh=session.clock.incarnation > 0)
    return Sink(table, app_id, mode="upsert", keys=["id"], row_kind="op", sequence_by="at", on_mismatch=_QUARANTINE)


_QUARANTINE: dict[str, MismatchAction] = {"missing": "quarantine", "several": "quarantine"}


# --- deleted keys that are kept ---------------------------------------------------------------------------------

_IN_SEQUENCE = pa.schema([field for field in CHANGES if field.name != "at"])
_DELETES = InSequence((("-D", 1, None, 20), ("+U", 3, "b", 15), ("-D", 50, None, 20)))
_LATE = InSequence((("+U", 1, "b", 15), ("+U", 3, "a", 14), ("+I", 50, "a", 15), ("-D", 99, None, 9)))
_NEWER = InSequence((("+U", 1, "a", 25), ("-D", 3, None, 12), ("+I", 99, "b", 9)))


def upsert_in_sequence(session: Session) -> None:
    """Upsert and delete rows of a table that keeps deleted keys, some of which it never had."""
    _upsert_in_sequence(session, _DELETES)


def upsert_late(session: Session) -> None:
    """Upsert rows that are older than what `upsert_in_sequence` deletes: they must not come back."""
    _upsert_in_sequence(session, _LATE)


def sink_in_sequence(session: Session, *, app_id: str = "in sequence") -> None:
    """A sink of such changes, some newer than those of the upserts."""
    table = session.table(fresh=session.clock.incarnation > 0)
    door = Sink(table, app_id, mode="upsert", keys=["id"], row_kind="op")
    with session.attempt((app_id, 1)) as attempt:
        attempt.is_blind, attempt.effect = False, _NEWER
        attempt.result = door.commit(1, _written(session, door, [_NEWER.changes], _IN_SEQUENCE))


def _upsert_in_sequence(session: Session, effect: InSequence) -> None:
    table, given = session.table(), _rows(effect.changes, _IN_SEQUENCE)
    with session.attempt() as attempt:
        attempt.is_blind, attempt.effect = False, effect
        attempt.result = table.upsert(given, ["id"], row_kind="op")


# --- steps ------------------------------------------------------------------------------------------------------


def _sink(session: Session, app_id: str) -> Sink:
    table = session.table(fresh=session.clock.incarnation > 0)
    return Sink(table, app_id, mode="upsert", keys=["id"], row_kind="op", sequence_by="at")


def _rows(changes: Sequence[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, change, strict=True)) for change in changes], schema)


def _numbered(changes: Sequence[tuple[str, int, str | None, int | None]]) -> list[Change]:
    return [(*change, number) for number, change in enumerate(changes)]


def _seal(session: Session, door: Sink, app_id: str, committables: list[Committable]) -> None:
    door.stage(*committables)
    if door.prepare(1, {each.task_id: each.attempt for each in committables}) is not None:
        session.run.ledger.sealed.add((app_id, 1))


_TAKEN_BACK: Row = (4, "b", 0)


def _changes(number: int) -> list[list[Change]]:
    """The changes of each task: a row that moves, a deleted row, a new row, a row that both tasks change, and one that
    is taken back if the table has it as the base made it."""
    value = 60 + 10 * number
    first: list[Change] = [("+U", 1, "b", value, 1), ("-D", 2, None, None, 1), ("+I", 50, "a", value, 1)]
    second: list[Change] = [("+U", 99, "a", value + 1, 1), ("+U", 50, "b", value + 2, 2), ("-U", *_TAKEN_BACK, 1)]
    return [first, second]


def _makes(number: int) -> Makes:
    value = 60 + 10 * number
    new: list[Row] = [(1, "b", value), (50, "b", value + 2), (99, "a", value + 1)]
    return lambda old: [row for row in old if row[0] not in (1, 2, 50, 99) and row != _TAKEN_BACK] + new


def _written(
    session: Session, door: Sink, tasks: Sequence[Sequence[tuple[object, ...]]], schema: pa.Schema = CHANGES
) -> list[Committable]:
    """The attempt of each task is the number of its life, so that two lives never stage under one name."""
    attempt = session.clock.incarnation * 16 + session.clock.number
    found = []
    for task_id, changes in enumerate(tasks):
        with door.task(1, task_id, attempt) as task:
            task.write(_rows(changes, schema))
        found.append(task.committable)
    return found


def _recover(
    session: Session, door: Sink, app: tuple[str, int], makes: Makes | None, effect: HoldsBack | None = None
) -> None:
    with session.attempt(app) as attempt:
        attempt.is_blind, attempt.makes, attempt.effect = False, makes, effect
        try:
            results = door.recover().results
        except CommitStateUnknownError:
            raise
        except TxlogError as error:
            results = (error.recovery or Recovery()).results
            session.run.record(f"{session.actor.name}: recovery stopped by {error}"[:150])
        attempt.result = results.get(app[1])
