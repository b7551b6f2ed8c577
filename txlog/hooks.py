"""Hooks: what a program may be told of each commit as it happens. Observers, never participants.

In: an object of the user's with any of the methods of `CommitHooks`, given to a table handle. Out: calls, on the
thread that commits. What a hook raises is logged and dropped, so that it can neither lose a commit nor double one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from txlog.errors import ConflictError
from txlog.result import WriteResult
from txlog.util.logs import logger

__all__ = ["CommitHooks", "LostRace", "call"]


@dataclass(frozen=True, slots=True)
class LostRace:
    """A version that another writer took first; the commit goes on above it, after a wait.

    ``attempts`` are the puts so far, ``waited_s`` the seconds spent waiting before this race.
    """

    txn_id: str
    version: int
    winner_operation: str
    attempts: int
    waited_s: float


class CommitHooks:
    """Derive from it and override what is of interest: ``Table.open(uri, hooks=MyHooks())``.

    Called on the committing thread, so be quick. A pickled handle takes no hooks along: they belong to a process.
    """

    def on_commit(self, table: str, result: WriteResult) -> None:
        """After a commit is in the log, durable; also where an equal replay was found in it (``result.outcome``)."""

    def on_retry(self, table: str, lost: LostRace) -> None:
        """After a lost race that does not conflict, before the wait and the next attempt."""

    def on_conflict(self, table: str, error: ConflictError) -> None:
        """Before a conflict is raised: nothing landed; ``error.reasons`` name each winner and what it did."""


def call(told: Callable[..., None], *arguments: object) -> None:
    """Call one method of a hook; an exception in it is a warning."""
    try:
        told(*arguments)
    except Exception:
        logger.warning("a hook failed, which changes nothing for the commit: %r", told, exc_info=True)
