"""Programs of a story's actors that use a `Sink` of changes: upserts and deletes by key.

In: a `Session` on a table that ``has_rows``. Out: nothing. Each program declares how its checkpoint changes the rows
of the version on which it is committed: by the sink, by another instance of it, or by a recovery after a crash.
"""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa

from txlog.errors import CommitStateUnknownError, TxlogError
from txlog.sink.recovery import Recovery
from txlog.sink.sink import Sink
from txlog.testing.rows import Makes, Row
from txlog.testing.session import Session
from txlog.testing.world import CHANGES, SEALED, SEALED_CHANGES
from txlog.writer.committable import Committable

__all__ = ["change_sink", "recover_changes", "recover_sealed", "staging_change_sink"]

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
    committables = _written(session, door, [[change for task in _changes(number) for change in task]])
    door.stage(*committables)
    if door.prepare(1, {each.task_id: each.attempt for each in committables}) is not None:
        session.run.ledger.sealed.add((app_id, 1))
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


def _sink(session: Session, app_id: str) -> Sink:
    table = session.table(fresh=session.clock.incarnation > 0)
    return Sink(table, app_id, mode="upsert", keys=["id"], row_kind="op", sequence_by="at")


def _changes(number: int) -> list[list[Change]]:
    """The changes of each task: a row that moves, a deleted row, a new row, and a row that both tasks change."""
    value = 60 + 10 * number
    first: list[Change] = [("+U", 1, "b", value, 1), ("-D", 2, None, None, 1), ("+I", 50, "a", value, 1)]
    second: list[Change] = [("+U", 99, "a", value + 1, 1), ("+U", 50, "b", value + 2, 2), ("-U", 4, "b", 0, 1)]
    return [first, second]


def _makes(number: int) -> Makes:
    value = 60 + 10 * number
    new: list[Row] = [(1, "b", value), (50, "b", value + 2), (99, "a", value + 1)]
    return lambda old: [row for row in old if row[0] not in (1, 2, 50, 99)] + new


def _written(session: Session, door: Sink, tasks: list[list[Change]]) -> list[Committable]:
    """The attempt of each task is the number of its life, so that two lives never stage under one name."""
    attempt = session.clock.incarnation * 16 + session.clock.number
    found = []
    for task_id, changes in enumerate(tasks):
        rows = [dict(zip(CHANGES.names, change, strict=True)) for change in changes]
        with door.task(1, task_id, attempt) as task:
            task.write(pa.Table.from_pylist(rows, CHANGES))
        found.append(task.committable)
    return found


def _recover(session: Session, door: Sink, app: tuple[str, int], makes: Makes) -> None:
    with session.attempt(app) as attempt:
        attempt.is_blind, attempt.makes = False, makes
        try:
            results = door.recover().results
        except CommitStateUnknownError:
            raise
        except TxlogError as error:
            results = getattr(error, "recovery", Recovery()).results
            session.run.record(f"{session.actor.name}: recovery stopped by {error}"[:150])
        attempt.result = results.get(app[1])
