"""Programs of a story's actors that change the columns of a table, and those that feel it most.

In: a `Session` on a table that is ``mapped``. Out: nothing. No change of columns changes a row: `RowHistory` reads the
files, whose names never change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from explorer.rows import ROW_SCHEMA, Row, table_of
from explorer.session import Session
from explorer.versions import InvariantBroken
from txlog.errors import TxlogError
from txlog.result import WriteResult
from txlog.table import Table

__all__ = [
    "append_without_key",
    "drop_note",
    "exchange_names",
    "follow_rows",
    "rename_in_two_steps",
    "rename_value",
    "require_key",
    "upsert_with_note",
    "widen_value",
]


def rename_value(session: Session) -> None:
    """Give the values another name. Writers that name the old one are refused from then on."""
    _define(session, lambda table: table.rename_column("v", "w"))


def rename_in_two_steps(session: Session) -> None:
    """Give the values another name, and their own again: writers that were planned before must still conflict."""
    rename_value(session)
    _define(session, lambda table: table.rename_column("w", "v"))


def exchange_names(session: Session) -> None:
    """Let two columns exchange their names in one version."""

    def exchange(table: Table) -> WriteResult:
        with table.transaction() as txn:
            txn.rename_column("v", "x")
            txn.rename_column("note", "v")
            txn.rename_column("x", "note")
        return txn.result

    _define(session, exchange)


def drop_note(session: Session) -> None:
    """Drop a column, and add one of its name."""
    _define(session, lambda table: table.drop_columns("note"))
    _define(session, lambda table: table.add_columns(pa.schema([("note", pa.string())])))


def widen_value(session: Session) -> None:
    """Give the values a wider type."""
    _define(session, lambda table: table.alter_column("v", type="bigint"))


def require_key(session: Session) -> None:
    """Forbid rows without a key, unless there are some, or others add some in between."""
    _define(session, lambda table: table.alter_column("id", nullable=False))


def upsert_with_note(session: Session) -> None:
    """Upsert rows with all columns, by the names that they had at first."""
    value = 10 * session.clock.number + session.clock.incarnation
    rows: list[Row] = [(1, "b", value), (99, "a", value)]
    given = table_of(rows).append_column("note", pa.nulls(len(rows), pa.string()))
    table = session.table()
    with session.attempt() as attempt:
        attempt.is_blind = False
        attempt.makes = lambda old: [row for row in old if row[0] not in (1, 99)] + rows
        attempt.result = table.upsert(given, ["id"])


def append_without_key(session: Session) -> None:
    """Append a row without a key."""
    row: Any = (None, "a", 10 * session.clock.number)
    table = session.table()
    with session.attempt() as attempt:
        attempt.makes = lambda old: [*old, row]
        attempt.result = table.append(table_of([row]))


def follow_rows(session: Session) -> None:
    """Read what each version added, as a stream: all of it, or an error that says which column has changed."""
    table, read = session.table(fresh=True), dict[int, list[Any]]()
    session.clock.attempt += 1
    names = [name for name in ROW_SCHEMA.names if name in table.schema.names]
    try:
        for batch in table.follow(0, on_change="added", columns=names):
            read.setdefault(batch.version, []).extend(tuple(row.values()) for row in batch.rows.to_pylist())
    except TxlogError:
        return
    places = [ROW_SCHEMA.names.index(name) for name in names]
    for version, rows in read.items():
        adds = [action["add"] for action in session.run.ledger.versions[version].actions if "add" in action]
        expected = [row for add in adds if add["dataChange"] for row in session.rows.rows_of(add)]
        meant = sorted((tuple(row[place] for place in places) for row in expected), key=repr)
        if len(names) == len(ROW_SCHEMA.names) and sorted(rows, key=repr) != meant:
            raise InvariantBroken("a stream reads what was added", f"of v{version} it read {rows}, not {meant}")


def _define(session: Session, change: Callable[[Table], WriteResult]) -> None:
    table = session.table()
    with session.attempt() as attempt:
        attempt.is_blind, attempt.changes_definition = False, True
        attempt.result = change(table)
