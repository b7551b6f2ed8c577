"""Programs of a story's actors that use a `SinkGroup` of two tables: coordinators, twins, operators.

In: a `Session` of a scenario that says ``grouped``. Out: nothing. The `Ledger` of the first table remembers which
checkpoints were reported as sealed, and which an operator gave up; `GROUPED` says which table has rows in which one.
"""

from __future__ import annotations

from explorer.session import Session
from explorer.world import GROUP
from txlog.core.sink._sink import Sink
from txlog.core.sink._sink_group import SinkGroup
from txlog.core.writing.committable import Committable, PendingFile

__all__ = [
    "GROUPED",
    "abandon_group",
    "coordinate",
    "discard_group",
    "group_of",
    "recover_group",
    "seal_group",
    "stage_group",
]

GROUPED = {0: (0, 0), 1: (1, 1), 2: (1, 0)}
"""For each checkpoint, the files of each of the two tables."""


def coordinate(session: Session, *, first: int = 1, last: int = 1) -> None:
    """As docs/sinks.md says: recover, discard what is partial, and continue where the tables say, to ``last``."""
    group = group_of(session)
    for recovery in group.recover():
        for checkpoint_id in recovery.partial:
            group.discard(checkpoint_id)
    done = group.last_checkpoint_id()
    for checkpoint_id in range(first if done is None else done + 1, last + 1):
        attempt = session.clock.incarnation * 16 + session.clock.number
        stage_group(session, group, checkpoint_id, attempt)
        if group.prepare(checkpoint_id, [{0: attempt}] * 2):
            session.run.ledger.sealed.add((GROUP[0], checkpoint_id))
            group.commit(checkpoint_id)


def seal_group(session: Session) -> None:
    """Seal what is staged before the story, and commit it."""
    group = group_of(session)
    if group.prepare(GROUP[1], [[0], [0]]):
        session.run.ledger.sealed.add(GROUP)
        group.commit(GROUP[1])


def recover_group(session: Session) -> None:
    """Another process commits what is sealed."""
    group_of(session).recover()


def discard_group(session: Session) -> None:
    """An operator discards a checkpoint, sealed or not. What was sealed before never lands then."""
    assert session.run.world.second is not None
    ledgers = session.run.ledger, session.run.world.second.ledger
    ledgers[0].discarded.add(GROUP)
    sealed = [ledger.sealed_files(GROUP) for ledger in ledgers]
    if group_of(session).discard(GROUP[1]) and not any(GROUP in ledger.apps for ledger in ledgers):
        for ledger, files in zip(ledgers, sealed, strict=True):
            ledger.taken_back |= files


def abandon_group(session: Session) -> None:
    """An operator gives a checkpoint up for good."""
    session.run.ledger.discarded.add(GROUP)
    group_of(session).abandon(GROUP[1])


# --- steps ------------------------------------------------------------------------------------------------------


def group_of(session: Session) -> SinkGroup:
    session.clock.attempt += 1
    return SinkGroup(*(Sink(table, GROUP[0]) for table in session.tables()))


def stage_group(session: Session, group: SinkGroup, checkpoint_id: int, attempt: int) -> None:
    for sink, rows in zip(group._sinks, GROUPED[checkpoint_id], strict=True):
        files = []
        for _ in range(rows):
            add = session.new_file(files=sink._table._open_table.store.files)
            files.append(
                PendingFile(add.path, add.size, 1, add.modification_time, dict(add.partition_values), add.stats)
            )
        seen = sink._table.snapshot()
        identity = (GROUP[0], checkpoint_id, session.clock.key(), 0, attempt)
        sink.stage(Committable(*identity, seen.table_id, seen.version, tuple(files)))
