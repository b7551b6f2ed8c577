"""Programs of writers that wait for each other in a table's folder, and commit each other's appends.

In: a `Session` of a scenario that ``gathers``. Out: nothing; each answer that a program gets is checked at once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa

from explorer.programs import ROW, resolve_on
from explorer.row_programs import vacuum_later
from explorer.session import Session, see_others
from explorer.versions import Attempt
from txlog.table import Table
from txlog.table_transaction import Transaction

__all__ = [
    "append_as_before",
    "append_in_line",
    "append_in_line_and_leave",
    "append_in_line_and_resolve",
    "append_in_line_elsewhere",
    "append_in_line_for_days",
    "append_together_in_line",
    "gather_in_line",
    "ingest_in_line",
    "overwrite_in_line",
    "overwrite_in_line_and_leave",
    "overwrite_in_line_and_resolve",
    "replace_in_line",
    "stop_gathering",
    "vacuum_what_waits",
]


def append_in_line(session: Session, *, fresh: bool = False, times: int = 1) -> None:
    """Append blindly, as a writer that has just seen others wait: it leaves its append for others at once."""
    table = session.table(fresh=fresh)
    for _ in range(times):
        see_others(table)
        _append(session, table)


def append_in_line_elsewhere(session: Session, *, times: int = 2) -> None:
    """Append in line on another machine, whose processes are in no queue of this one."""
    table = session.table(elsewhere=True)
    for _ in range(times):
        see_others(table)
        _append(session, table)


gather_in_line = partial(append_in_line, fresh=True)
"""The same by a writer that opens the table only now, so that it has read none of its versions."""


def append_in_line_for_days(session: Session) -> None:
    """The same by a writer that does not give up when days pass."""
    _append(session, session.table(waits=True, total_timeout=10 * 86_400.0))


def append_in_line_and_leave(session: Session) -> None:
    """Leave an append for others, and take it back at once."""
    _append(session, session.table(waits=True, total_timeout=0.0))


def append_in_line_and_resolve(session: Session) -> None:
    """The same; if it is unknown what became of it, ask."""
    table = session.table(waits=True, total_timeout=0.0)
    resolve_on(session, _append(session, table), table)


def append_together_in_line(session: Session, *, times: int = 1) -> None:
    """Append in line through the handle that all such actors share, as threads of a process do."""
    table = session.shared_table()
    for _ in range(times):
        see_others(table)
        _append(session, table)


def ingest_in_line(session: Session, *, app_id: str = "app") -> None:
    """Commit a checkpoint of an application in line. A restart commits it again."""
    table = session.table(fresh=session.clock.incarnation > 0, waits=True)
    _append(session, table, (app_id, 1))


def overwrite_in_line(session: Session, *, part: str = "a", fresh: bool = False, times: int = 1) -> None:
    """Replace a partition, as a writer that has just seen others wait."""
    table = session.table(fresh=fresh)
    for _ in range(times):
        see_others(table)
        _overwrite(session, table, part)


def overwrite_in_line_and_leave(session: Session, *, part: str = "a") -> None:
    """Leave an overwrite for others, and take it back at once."""
    _overwrite(session, session.table(waits=True, total_timeout=0.0), part)


def overwrite_in_line_and_resolve(session: Session, *, part: str = "a") -> None:
    """The same; if it is unknown what became of it, ask."""
    table = session.table(waits=True, total_timeout=0.0)
    resolve_on(session, _overwrite(session, table, part), table)


def replace_in_line(session: Session, *, part: str = "a", app_id: str = "replaces") -> None:
    """Replace a partition as a checkpoint of an application. A restart commits it again."""
    _overwrite(session, session.table(fresh=session.clock.incarnation > 0, waits=True), part, (app_id, 1))


def append_as_before(session: Session, *, times: int = 2) -> None:
    """Append with a release that knows nothing of those that wait."""
    table = session.table(is_old=True)
    for _ in range(times):
        _append(session, table)


def vacuum_what_waits(session: Session) -> None:
    """If an append waits in line, let more than a day pass, and vacuum with a retention of a day."""
    folder = session.table(fresh=True)._open_table.store.waiting
    assert folder is not None
    if [*folder.list_from("")]:
        vacuum_later(session, hours=36)


def stop_gathering(session: Session) -> None:
    """Unset the property while others wait: what they have left must not land any more."""
    table = session.table()
    with session.attempt() as attempt:
        attempt.is_blind, attempt.changes_definition = False, True
        attempt.result = table.set_properties({"txlog.groupCommit": "false"})


def _overwrite(session: Session, table: Table, part: str, app: tuple[str, int] | None = None) -> Attempt:
    rows = ROW.set_column(1, "part", pa.array([part]))
    names: dict[str, Any] = {} if app is None else {"app_id": app[0], "checkpoint_id": app[1]}
    with session.attempt(app) as attempt:
        attempt.is_blind = False
        attempt.result = table.overwrite_partitions(rows, on_conflict="rerun", **names)
    return attempt


def _append(session: Session, table: Table, app: tuple[str, int] | None = None) -> Attempt:
    with session.attempt(app) as attempt:
        with table.transaction() as txn:
            attempt.read_version = txn.snapshot.version
            if app is not None:
                txn.set_transaction(*app)
            _write(session, txn)
        attempt.result = txn.result
    return attempt


def _write(session: Session, txn: Transaction) -> None:
    """Add a file as if the transaction had written it, without the time that Parquet takes."""
    add = session.new_file()
    session.run.world.files.make_durable([add.path], with_contents=True)
    txn._unsent.own([add.path])
    txn._builder.add(add)
