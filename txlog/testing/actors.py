"""Who acts in a story: small programs that write to one table as users and engines do, through txlog's own doors.

In: a `Session`. Out: nothing; what each program was told is judged as it is told. The scenarios at the end put them
together: `SCENARIOS` by name, and `any_story`, a family from which the first choices pick actors and faults.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from txlog.errors import CommitStateUnknownError
from txlog.log.predicates import col
from txlog.sink.committable import Committable, PendingFile
from txlog.sink.sink import Sink
from txlog.table import Table
from txlog.testing.invariants import Attempt
from txlog.testing.run import Scenario
from txlog.testing.schedule import Choices
from txlog.testing.session import Actor, Session
from txlog.transaction import Transaction

__all__ = ["SCENARIOS", "any_story"]

_ROW = pa.table({"id": pa.array([1], pa.int64()), "part": ["a"]})

Program = Callable[[Session], None]
Fill = Callable[[Attempt, Transaction], None]


# --- programs ---------------------------------------------------------------------------------------------------


def append(session: Session, *, fresh: bool = False, times: int = 1) -> None:
    """Blind appends, one after the other, on one handle."""
    table = session.table(fresh=fresh)
    for _ in range(times):
        _commit(session, table, lambda attempt, txn: txn.add(session.new_file()))


def append_and_resolve(session: Session) -> None:
    """An append that gives up at the first lost answer, then asks what became of it."""
    table = session.table(total_timeout=0.0)
    attempt = _commit(session, table, lambda attempt, txn: txn.add(session.new_file()))
    error = attempt.error
    if isinstance(error, CommitStateUnknownError) and error.txn_id is not None and error.version is not None:
        session.resolve(attempt, table, error.txn_id, error.version)


def append_what_was_read(session: Session, *, part: str = "a", serializable: bool = False) -> None:
    """Read a partition and add to it: two of these must not both be planned on the same rows."""

    def fill(attempt: Attempt, txn: Transaction) -> None:
        attempt.is_blind, attempt.is_serializable = False, serializable
        attempt.reads.add(part)
        attempt.read_files.update(session.read(txn, col("part") == part))
        txn.add(session.new_file(part))

    _commit(session, session.table(), fill, isolation="Serializable" if serializable else None)


def append_after_all_read(session: Session) -> None:
    append_what_was_read(session, serializable=True)


def overwrite(session: Session) -> None:
    """Replace every row there is."""

    def fill(attempt: Attempt, txn: Transaction) -> None:
        attempt.is_blind = False
        attempt.reads.add(None)
        txn.remove(*session.read(txn))
        txn.add(session.new_file())

    _commit(session, session.table(), fill)


def delete_files(session: Session, *, part: str = "a") -> None:
    """Remove the files of a partition, whole; nothing where there is none."""

    def fill(attempt: Attempt, txn: Transaction) -> None:
        attempt.is_blind = False
        paths = txn.snapshot.files(col("part") == part).column("path").to_pylist()
        attempt.read_files.update(paths)
        if paths:
            txn.remove(*paths)
        else:
            attempt.is_blind = True

    _commit(session, session.table(), fill, operation="DELETE")


def rewrite(session: Session, *, part: str = "a") -> None:
    """Move the rows of a partition to one new file, as an optimizer does: no data changes."""

    def fill(attempt: Attempt, txn: Transaction) -> None:
        attempt.is_blind, attempt.changes_data = False, False
        paths = txn.snapshot.files(col("part") == part).column("path").to_pylist()
        attempt.read_files.update(paths)
        if paths:
            txn.remove(*paths)
            txn.add(session.new_file(part, data_change=False))

    _commit(session, session.table(), fill, operation="OPTIMIZE", data_change=False)


def ingest(session: Session, *, app_id: str = "app", first: int = 1, last: int = 2) -> None:
    """Checkpoints of an application, in order, as metadata alone: a restart begins with the first again."""
    table = session.table(fresh=session.clock.incarnation > 0)
    for checkpoint_id in range(first, last + 1):

        def fill(attempt: Attempt, txn: Transaction, checkpoint_id: int = checkpoint_id) -> None:
            txn.set_transaction(app_id, checkpoint_id)
            txn.add(session.new_file())

        attempt = _commit(session, table, fill, app=(app_id, checkpoint_id))
        if attempt.answer != "committed":
            return


def ingest_once(session: Session) -> None:
    ingest(session, last=1)


def sink(session: Session, *, app_id: str = "app", last: int = 2) -> None:
    """The same through `Sink`, with rows: what a task wrote is committed, and committed again after a restart."""
    table = session.table(fresh=session.clock.incarnation > 0)
    door = Sink(table, app_id)
    for checkpoint_id in range(1, last + 1):
        with session.attempt((app_id, checkpoint_id)) as attempt:
            with door.task(checkpoint_id) as writer:
                writer.write(_ROW)
            attempt.result = door.commit(checkpoint_id, [writer.committable])
        if attempt.answer != "committed":
            return


def staging_sink(session: Session, *, app_id: str = "app") -> None:
    """A task and its coordinator: what an earlier life left is recovered, then a checkpoint staged, sealed, committed.

    The task's attempt is the number of its life, so that two lives never stage under one name.
    """
    table = session.table(fresh=session.clock.incarnation > 0)
    door = Sink(table, app_id)
    if session.clock.incarnation:
        _recover(session, door)
    if door.last_checkpoint_id() == 1:
        return
    add, attempt_number = session.new_file(), session.clock.incarnation * 16 + session.clock.number
    session.files.make_durable([add.path])
    file = PendingFile(add.path, add.size, 1, add.modification_time, dict(add.partition_values), add.stats)
    seen = table.snapshot()
    door.stage(Committable(app_id, 1, session.clock.key(), 0, attempt_number, seen.table_id, seen.version, (file,)))
    if door.prepare(1, {0: attempt_number}) is not None:
        session.run.ledger.sealed.add((app_id, 1))
    with session.attempt((app_id, 1)) as attempt:
        attempt.result = door.commit(1)


def recover(session: Session, *, app_id: str = "app") -> None:
    """Another process that ends what it finds sealed."""
    _recover(session, Sink(session.table(), app_id))


def _recover(session: Session, door: Sink) -> None:
    with session.attempt((door._app_id, 1)) as attempt:
        attempt.result = door.recover().results.get(1)


def set_properties(session: Session) -> None:
    """Change the table's definition: every concurrent writer must notice."""
    table = session.table()
    with session.attempt() as attempt:
        attempt.is_blind, attempt.changes_definition = False, True
        attempt.result = table.set_properties({"owner": attempt.key})


def checkpoint(session: Session) -> None:
    """Write a checkpoint of the newest version, and say so in the hint."""
    session.table(fresh=True).create_checkpoint()


def clean_up_later(session: Session) -> None:
    """More than a month later, clean up what no retained version needs."""
    session.let_days_pass(40)
    session.table(fresh=True).clean_up_log()


def maintain(session: Session) -> None:
    """Write a checkpoint, and later clean up."""
    session.table(fresh=True).create_checkpoint()
    clean_up_later(session)


def append_and_maintain(session: Session) -> None:
    """Move the table on, so that a version that somebody still aims at is among those that go."""
    append(session, times=2)
    maintain(session)


def clean_up_at_once(session: Session) -> None:
    """Write a checkpoint and clean up: everything is young, so nothing may go."""
    table = session.table(fresh=True)
    table.create_checkpoint()
    table.clean_up_log()


def read(session: Session) -> None:
    """Look at the table twice: each look is a version that is or was the newest, and time goes forward."""
    table = session.table(fresh=True)
    seen = -1
    for _ in range(2):
        snapshot = table.snapshot()
        told = {app_id: txn.version for app_id, txn in snapshot._head.transactions.items()}
        paths = set(snapshot.files().column("path").to_pylist())
        session.run.ledger.check_reader(snapshot.version, told, snapshot.table_id, paths, not_before=seen)
        seen = snapshot.version


def _commit(
    session: Session, table: Table, fill: Fill, *, app: tuple[str, int] | None = None, **options: Any
) -> Attempt:
    with session.attempt(app) as attempt:
        with table.transaction(**options) as txn:
            attempt.read_version = txn.snapshot.version
            fill(attempt, txn)
        attempt.result = txn.result
    return attempt


# --- scenarios --------------------------------------------------------------------------------------------------


_CLEANERS = (maintain, append_and_maintain, clean_up_later, clean_up_at_once)
_CHECKPOINTERS = (checkpoint, *_CLEANERS)


def _actors(*programs: Program, restarts: int = 0) -> tuple[Actor, ...]:
    return tuple(
        Actor(_name(program, number), program, restarts, program in _CHECKPOINTERS, program in _CLEANERS)
        for number, program in enumerate(programs, start=1)
    )


def _name(program: Any, number: int) -> str:
    return f"{getattr(program, 'func', program).__name__}-{number}"


_SMALL = (
    Scenario("two-appenders", _actors(append, append), faults=2, crashes=1),
    Scenario("two-appenders-object-store", _actors(append, append), faults=1, crashes=1, store="object"),
    Scenario("two-appenders-power-cut", _actors(append, append), crashes=1, power_cuts=1, splits_sync=True),
    Scenario("one-application-twice", _actors(ingest_once, ingest_once, restarts=1), faults=1, crashes=1),
    Scenario("application-goes-back", _actors(partial(ingest, first=2, last=2), partial(ingest, first=1, last=1))),
    Scenario("asks-what-became-of-it", _actors(append_and_resolve, append), faults=2),
    Scenario("overwriter-and-appender", _actors(overwrite, append_what_was_read), faults=1, versions=2),
    Scenario("rewriter-and-deleter", _actors(rewrite, delete_files), faults=1, versions=2),
    Scenario("serializable-reader", _actors(append_after_all_read, append), faults=1, versions=2),
    Scenario("three-appenders", _actors(append, append, overwrite), versions=2),
    Scenario("definition-changes", _actors(set_properties, append, append), versions=2),
    Scenario(
        "definition-changes-lying-lists", _actors(set_properties, append, append), faults=1, kinds=("hole", "stale")
    ),
    Scenario("checkpointer", _actors(checkpoint, append, read), versions=2),
    Scenario("cleaner", _actors(maintain, append), versions=3, deletes=True),
    Scenario("cleaner-of-a-young-log", _actors(clean_up_at_once, append), versions=2, deletes=True),
    Scenario("cleaner-after-a-crash", _actors(checkpoint, clean_up_later), crashes=1, versions=3, deletes=True),
    Scenario("sink-and-recovery", _actors(staging_sink, recover)),
    Scenario("sink-restarts", _actors(staging_sink, restarts=1), faults=1, crashes=1),
    Scenario("sink-power-cut", _actors(staging_sink, restarts=1), crashes=1, power_cuts=1, splits_sync=True),
    Scenario("sink-and-appender-power-cut", _actors(append, staging_sink), power_cuts=1, splits_sync=True),
    Scenario("cleaner-and-sleeper", _actors(maintain, append), versions=3, unseen=2, deletes=True),
)

SCENARIOS = {scenario.name: scenario for scenario in _SMALL}
"""Scenarios small enough to be explored whole."""

_LIGHT: tuple[Program, ...] = (
    append,
    partial(append, times=2),
    partial(append, fresh=True),
    append_and_resolve,
    ingest,
    partial(ingest, app_id="other"),
    set_properties,
)
"""Those that read and write no data file: a thousand stories a second."""

_ANYBODY: tuple[Program, ...] = (
    *_LIGHT,
    append_what_was_read,
    append_after_all_read,
    overwrite,
    delete_files,
    rewrite,
    sink,
    partial(sink, app_id="other"),
    partial(staging_sink, app_id="staged"),
    partial(recover, app_id="staged"),
    checkpoint,
    maintain,
    append_and_maintain,
    clean_up_at_once,
    read,
)


def any_story(choices: Choices) -> Scenario:
    """Two to four actors, up to three faults, two crashes and a power cut."""
    cast: tuple[Program, ...] = (_LIGHT, _ANYBODY)[choices.choose(2, calm=0.6)]
    programs = [cast[choices.choose(len(cast))] for _ in range(2 + choices.choose(3))]
    return Scenario(
        "any",
        _actors(*programs, restarts=choices.choose(2)),
        faults=choices.choose(4),
        crashes=choices.choose(3),
        power_cuts=choices.choose(2, calm=0.5),
        store=("local", "object")[choices.choose(2)],
        deletes=not set(programs).isdisjoint(_CLEANERS),
        pauses=bool(choices.choose(2)),
        splits_sync=bool(choices.choose(2)),
        versions=1 + choices.choose(3),
    )
