"""Programs of a story's actors on a table that is ``counted``.

In: a `Session`. Out: nothing. `RowHistory` checks the numbers of all rows that an actor adds, whatever its program is.
"""

from __future__ import annotations

from explorer.rows import Row, table_of
from explorer.session import Session
from txlog.table import Table

__all__ = ["append_one_by_one", "describe"]


def append_one_by_one(session: Session) -> None:
    """Append with one handle, which knows its range the second time."""
    table = session.table()
    for key, value in ((1, 1), (99, 2)):
        _append(session, table, [(key, "b", value)])


def describe(session: Session) -> None:
    """Change the metadata by a commit that says nothing about numbers."""
    table = session.table()
    with session.attempt() as attempt:
        attempt.is_blind, attempt.changes_definition = False, True
        attempt.result = table.set_description(f"by {session.clock.number}")


def _append(session: Session, table: Table, rows: list[Row]) -> None:
    with session.attempt() as attempt:
        attempt.is_blind, attempt.makes = True, lambda old: old + rows
        attempt.result = table.append(table_of(rows))
