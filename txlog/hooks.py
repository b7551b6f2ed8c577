"""Hooks: callbacks that observe each commit as it happens. A hook cannot influence a commit.

In: the user's `CommitHooks` object, given to a table handle. Out: calls on the thread that commits. An exception from a
hook is logged and dropped, so it can neither lose a commit nor cause a second one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import datetime

import msgspec

from txlog.core import ambient
from txlog.core.util import logger
from txlog.errors import ConflictError
from txlog.result import WriteResult

__all__ = ["CommitHooks", "LostRace", "Step", "call", "timed"]


class LostRace(msgspec.Struct, frozen=True):
    """A version that another writer took first. The commit continues with a later version after a wait.

    Attributes:
        txn_id: The id of the commit that lost the race.
        version: The version that the other writer took.
        winner_operation: The operation that the winner recorded, such as ``"OPTIMIZE"``.
        attempts: The number of commits sent so far.
        waited_s: The time spent waiting before this race, in seconds.
    """

    txn_id: str
    version: int
    winner_operation: str
    attempts: int
    waited_s: float


class Step(msgspec.Struct, frozen=True):
    """A step of the work on a table that has ended.

    Attributes:
        name: ``"plan"``: an append or overwrite is checked against the table, or a change finds its rows and writes
            their new versions; ``"write"``: rows become data files; ``"commit"``: from the first attempt to the answer;
            ``"rerun"``: a change is planned again after a lost race, inside of its commit; ``"checkpoint"``, in the
            background; ``"vacuum"``.
        began: When it began, in UTC.
        seconds: How long it took.
        error: What ended it early, if anything did.
    """

    name: str
    began: datetime
    seconds: float
    error: BaseException | None = None


class CommitHooks:
    """Base class for hooks. Override the methods you need: ``Table.open(uri, hooks=MyHooks())``.

    txlog calls the methods on the committing thread, and `on_step` for checkpoints on a thread of its own, so they
    should return quickly. Hooks belong to one process: pickling a table handle drops them.
    """

    def on_commit(self, table: str, result: WriteResult) -> None:
        """Called after a commit is durable in the log, or after a replay was found there (see ``result.outcome``).

        Args:
            table: The URI of the table.
            result: What the write call is about to return.
        """

    def on_retry(self, table: str, lost: LostRace) -> None:
        """Called after a lost race without a conflict, before the wait and the next attempt.

        Args:
            table: The URI of the table.
            lost: The version that was lost, and the winner.
        """

    def on_conflict(self, table: str, error: ConflictError) -> None:
        """Called before a conflict is raised. Nothing landed.

        Args:
            table: The URI of the table.
            error: The error that is about to be raised. ``error.reasons`` names each winner and what it did.
        """

    def on_step(self, table: str, step: Step) -> None:
        """Called after each step of a write, of upkeep and of a vacuum, on the thread that did it.

        Args:
            table: The URI of the table.
            step: What was done, and how long it took.
        """


@contextlib.contextmanager
def timed(hooks: CommitHooks | None, table: str, name: str) -> Iterator[None]:
    """Report the block as a step, also if it raises. Without hooks, no clock is read."""
    if hooks is None:
        yield
        return
    began, began_s, error = ambient.now(), ambient.monotonic_s(), None
    try:
        yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        call(hooks.on_step, table, Step(name, began, ambient.monotonic_s() - began_s, error))


def call(hook: Callable[..., None], *arguments: object) -> None:
    """Call one method of a hook. An exception from it is logged as a warning."""
    try:
        hook(*arguments)
    except Exception:
        logger.warning("a hook failed, which changes nothing for the commit: %r", hook, exc_info=True)
