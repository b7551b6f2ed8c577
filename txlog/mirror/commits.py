"""Commits of complete transactions to several tables, and what a killed mirror left of them.

In: the changes of each table, and the position behind them. Out: one version for each table. Several tables have one
checkpoint of a `SinkGroup`, which is a transaction over them: from its seal on, all of them get it, even if the source
never comes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import txlog
from txlog.errors import InvalidInputError
from txlog.mirror.target import MirrorTable
from txlog.mirror.transactions import WaitingChanges


def apply(waiting: Sequence[WaitingChanges], end: int, *, together: bool = True) -> dict[str, int]:
    """Commit what waits, as the checkpoint ``end``. Returns the changes of each table.

    Several tables get it by one seal, unless it need not be ``together``.
    """
    for _, changes, _ in waiting:
        changes.convert()
    for table, changes, new in waiting:
        if new is not None:
            types = {column.name: column.type for column in new.stream}
            table.change_columns(new.columns, types, new.changed_at)
        if {*changes.columns} != {*table.state.columns}:  # a killed mirror has changed them, or this one just did
            changes.move(table.state.columns, new.stream if new is not None else table.stream_columns())
    emptied = [each for each in waiting if each.changes.is_truncated]
    for table, changes, _ in emptied:
        if table.retracts:  # what a delete of a row means there, a transaction does not know
            table.table.delete(all=True, app_id=f"{table.state.application}/truncated", checkpoint_id=end)
        else:
            table.replaced(changes, end)
            table.position = end
    rest = [each for each in waiting if each not in emptied or (each.table.retracts and each.changes.num_rows)]
    rest = [each for each in rest if each.changes.num_rows]
    staged = [[table.staged(changes, end)] for table, changes, _ in rest]
    if len(rest) == 1 or not together:
        for (table, *_), committables in zip(rest, staged, strict=True):
            table.sink.commit(end, committables)
    elif rest:
        group = txlog.SinkGroup(*(each.table.sink for each in rest))
        group.prepare(end, staged)
        group.commit(end)
    for table, _, _ in rest:
        table.position = end
    return {table.shown: changes.num_rows for table, changes, _ in waiting}


def recover(tables: Iterable[MirrorTable]) -> None:
    """End the sealed checkpoints that a killed mirror left, and give up what it did not seal.

    Raises InvalidInputError if one of the tables of a checkpoint is not mirrored any more.
    """
    by_id = {each.table.snapshot().table_id: each for each in tables}
    sealed = {(number, ids) for each in by_id.values() for number, ids in each.sink.sealed().items()}
    for number, ids in sorted(sealed):
        missing = [each for each in ids if each not in by_id]
        if missing:
            raise InvalidInputError(
                f"the checkpoint {number} of the mirror was sealed for tables that it does not have any more: run it"
                " once with all tables that it had when it was ended"
            )
        group = txlog.SinkGroup(*(by_id[each].sink for each in ids))
        for recovery in group.recover():
            for partial in recovery.partial:
                group.discard(partial)
    for each in by_id.values():
        for partial in each.sink.recover().partial:
            each.sink.discard(partial)
        each.position = each.sink.last_checkpoint_id()


def passed(tables: Iterable[MirrorTable]) -> int:
    """Up to where the tables have the source's log, or know that nothing in it is theirs; 0 for new ones."""
    return max((max(each.position or 0, each.passed) for each in tables), default=0)
