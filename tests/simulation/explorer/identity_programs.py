"""Programs of a story's actors on a table that is ``counted``.

In: a `Session`. Out: nothing. `RowHistory` checks the numbers of all rows that an actor adds, whatever its program is.
"""

from __future__ import annotations

from explorer.row_programs import append_keys
from explorer.session import Session

__all__ = ["append_twice", "describe"]


def append_twice(session: Session) -> None:
    """Append with one handle, which keeps what is left of its range for the second time."""
    append_keys(session)
    append_keys(session)


def describe(session: Session) -> None:
    """Change the metadata by a commit that says nothing about numbers."""
    table = session.table()
    with session.attempt() as attempt:
        attempt.is_blind, attempt.changes_definition = False, True
        attempt.result = table.describe(f"by {session.clock.number}")
