"""Programs of a story's actors that use a `Sink`: tasks and coordinators that stage, seal, commit, crash and recover.

In: a `Session`. Out: nothing; each answer that a program gets is checked at once. The `Ledger` also remembers which
checkpoints were reported as sealed, since these must be in the table after a recovery.
"""

from __future__ import annotations

from explorer.programs import ROW
from explorer.session import Session
from explorer.versions import Attempt
from txlog.core.sink._inspection import AGE_MIN_MS, clean_staging
from txlog.core.sink._recovery import Recovery
from txlog.core.sink._sink import Sink, SinkMode
from txlog.core.writing.committable import Committable, PendingFile
from txlog.errors import TxlogError

__all__ = [
    "abandon",
    "clean_staging_later",
    "discard",
    "recover",
    "sink",
    "staging_and_leaving",
    "staging_backlog",
    "staging_nothing",
    "staging_sink",
]


def sink(session: Session, *, app_id: str = "app", last: int = 2, mode: SinkMode = "append") -> None:
    """Write and commit checkpoints with rows, and commit them again after a restart."""
    table = session.table(fresh=session.clock.incarnation > 0)
    door = Sink(table, app_id, mode=mode)
    for checkpoint_id in range(1, last + 1):
        with session.attempt((app_id, checkpoint_id)) as attempt:
            _declare(attempt, mode)
            with door.task(checkpoint_id) as writer:
                writer.write(ROW)
            attempt.result = door.commit(checkpoint_id, [writer.committable])
        if attempt.answer != "committed":
            return


def staging_sink(session: Session, *, app_id: str = "app", mode: SinkMode = "append") -> None:
    """Recover what an earlier life left; then stage, seal and commit a checkpoint, step by step."""
    door = _restarted(session, app_id, mode)
    if door.last_checkpoint_id() == 1:
        return
    _seal(session, door, app_id, 1)
    with session.attempt((app_id, 1)) as attempt:
        _declare(attempt, mode)
        attempt.result = door.commit(1)


def staging_and_leaving(session: Session, *, app_id: str = "app") -> None:
    """Seal a checkpoint, and leave its commit to a recovery."""
    door = _restarted(session, app_id, "append")
    if door.last_checkpoint_id() is None:
        _seal(session, door, app_id, 1)


def staging_nothing(session: Session, *, rows: tuple[int, ...] = (0, 0)) -> None:
    """Seal and commit checkpoints without rows: none makes a version, and the next one does not wait."""
    door = _restarted(session, "quiet", "append")
    for checkpoint_id, number in enumerate(rows, start=1):
        _seal(session, door, "quiet", checkpoint_id, rows=number)
        door.commit(checkpoint_id)


def staging_backlog(session: Session, *, app_id: str = "app") -> None:
    """Seal two checkpoints before the first is committed."""
    door = _restarted(session, app_id, "append")
    last = door.last_checkpoint_id() or 0
    for checkpoint_id in range(last + 1, 3):
        _seal(session, door, app_id, checkpoint_id)
    _recover(session, door, app_id)


def recover(session: Session, *, app_id: str = "app") -> None:
    """Commit, from another process, the checkpoints that are sealed."""
    _recover(session, Sink(session.table(), app_id), app_id)


def discard(session: Session, *, app_id: str = "app") -> None:
    """Discard a checkpoint, as an operator does, so that no recovery waits for it."""
    session.run.ledger.discarded.add((app_id, 1))
    Sink(session.table(), app_id).discard(1)


def abandon(session: Session, *, app_id: str = "app") -> None:
    """Give up a checkpoint, as an operator does, whether it is staged, sealed, committed or none of these."""
    door = Sink(session.table(), app_id)
    with session.attempt((app_id, 1)) as attempt:
        attempt.is_blind, attempt.changes_data = None, False
        attempt.result = door.abandon(1).result


def clean_staging_later(session: Session) -> None:
    """Wait for a day, and remove staged files that are not needed. Sealed ones must stay."""
    session.let_days_pass(1)
    clean_staging(session.table(fresh=True)._open_table, AGE_MIN_MS)


# --- steps ------------------------------------------------------------------------------------------------------


def _restarted(session: Session, app_id: str, mode: SinkMode) -> Sink:
    door = Sink(session.table(fresh=session.clock.incarnation > 0), app_id, mode=mode)
    if session.clock.incarnation:
        _recover(session, door, app_id)
    return door


def _declare(attempt: Attempt, mode: SinkMode) -> None:
    attempt.is_blind = mode == "append"
    if mode == "overwrite":
        attempt.reads.add(None)


def _seal(session: Session, door: Sink, app_id: str, checkpoint_id: int, rows: int = 1) -> None:
    """Stage and seal files. The attempt is the number of the life, so two lives never stage under one name."""
    attempt_number = session.clock.incarnation * 16 + session.clock.number
    files = []
    for _ in range(rows):
        add = session.new_file()
        session.files.make_durable([add.path], with_contents=True)
        files.append(PendingFile(add.path, add.size, 1, add.modification_time, dict(add.partition_values), add.stats))
    seen = door._table.snapshot()
    job_id = session.clock.key()
    door.stage(Committable(app_id, checkpoint_id, job_id, 0, attempt_number, seen.table_id, seen.version, tuple(files)))
    if door.prepare(checkpoint_id, {0: attempt_number}) is not None and rows:
        session.run.ledger.sealed.add((app_id, checkpoint_id))


def _recover(session: Session, door: Sink, app_id: str) -> None:
    """Recover, and check each commit of the recovery. For the clock, they are one attempt."""
    session.clock.attempt += 1
    try:
        results = door.recover().results
    except TxlogError as error:
        results = (error.recovery or Recovery()).results
        session.run.record(f"{session.actor.name}: recovery stopped by {error}"[:150])
    for checkpoint_id, result in results.items():
        session.run.record(f"{session.actor.name}: recovered {checkpoint_id}: {result}"[:150])
        if result.outcome != "empty":
            found = Attempt(session.clock.key(), session.actor.name, app=(app_id, checkpoint_id), result=result)
            found.answer = "committed"
            session.run.ledger.check_answer(found)
