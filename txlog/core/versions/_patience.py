"""`Patience`: how long one commit may still try, and what the store has said last.

In: the handle's ``RetryPolicy``. Out: pauses, one warning to the log if the store takes nothing, and the words for the
error in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from txlog.core.util import ambient
from txlog.core.util.logs import logger
from txlog.core.versions._commit_context import CommitContext
from txlog.errors import StorageError

__all__ = ["Patience"]


class Patience:
    """Used by one commit, on one thread. ``let_others``: called before each pause, so that others go on meanwhile."""

    def __init__(self, context: CommitContext, let_others: Callable[[], None]) -> None:
        self.waited_s = 0.0
        self.last_words = ""
        """What the store said last, to a put or a read that settled nothing."""
        self._context = context
        self._let_others = let_others
        self._pacing = context.retry.pacing(context.log.versions.round_trip_s)
        self._has_warned = False

    def is_over(self) -> bool:
        """Whether the time of the policy has passed."""
        return self._pacing.is_over()

    def pause(self, *, bounded_by_count: bool = True, is_steady: bool = False) -> bool:
        """Wait as the policy says, and return whether there is another attempt after it."""
        self._let_others()
        with self.waiting():
            return self._pacing.pause(bounded_by_count=bounded_by_count, is_steady=is_steady)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the block as time that the commit waited."""
        began_s = ambient.monotonic_s()
        try:
            yield
        finally:
            self.waited_s += ambient.monotonic_s() - began_s

    def warn(self, version: int) -> None:
        """Once in a commit: its writer waits for the store, and should know why."""
        if not self._has_warned:
            self._has_warned = True
            last_s = max(0.0, self._context.retry.total_timeout - self._pacing.elapsed_s())
            where = self._context.log.uri, version, last_s, self.said()
            logger.warning("%s: the store does not take v%d; it is tried again for up to %.0f s%s", *where)

    def until_answered(self, request: Callable[[], None], version: int) -> None:
        """Make a request that the commit of ``version`` needs, again by the policy while the store gives no answer."""
        while True:
            try:
                return request()
            except StorageError as error:
                self.last_words = error.message
                if not error.was_unanswered:
                    raise
                self.warn(version)
                if not self.pause():
                    raise

    def said(self) -> str:
        """The store's last words, as the end of a sentence."""
        return f"; the store's last answer: {self.last_words}" if self.last_words else ""
