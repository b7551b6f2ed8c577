"""When to retry, and after how long: a table handle's policy, and the policy for reads.

In: `RetryPolicy` and the store's measured round trip. Out: `Pacing`, which sleeps between the attempts of one
commit and decides when to give up; `Patience`, which also tells the user what the commit waits for; `read_again`, which
repeats one read. The loops are in `_retry_loops`, which the first failed attempt imports: a commit without contention
does not pay for the import. Nothing here repeats a put: only the committer knows whether a second put is safe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Real
from typing import TypeVar

import msgspec
from msgspec.structs import force_setattr

from txlog.core import ambient
from txlog.core.util import invalid, logger, whole_number
from txlog.errors import InvalidInputError, StorageError

_REFERENCE_ROUND_TRIP_S = 0.1
_READ_ATTEMPTS = 3
_READ_FIRST_WAIT_S = 0.2

T = TypeVar("T")


class RetryPolicy(msgspec.Struct, frozen=True):
    """How long a commit keeps trying.

    Each wait is drawn at random from a window that starts at ``min_wait``, doubles with each failed attempt and ends at
    ``max_wait`` (full jitter). After a lost race, the window is ``min_wait`` again: the store works, and a writer that
    waits longer each time would starve while others win. Both are for a store whose put takes 100 ms: on a faster store
    both shrink with the measured round trip, on a slower store ``min_wait`` grows.

    Args:
        max_attempts: The maximum number of attempts. None means that only time limits them.
        min_wait: The first window, in seconds.
        max_wait: The longest window, in seconds.
        total_timeout: Time from the first attempt until the commit gives up, in seconds. The last wait is shortened
            to end then.

    Raises:
        InvalidInputError: A value is not a number of the right kind, or ``min_wait`` exceeds ``max_wait``.
    """

    max_attempts: int | None = None
    min_wait: float = 0.1
    max_wait: float = 60.0
    total_timeout: float = 1800.0

    def __post_init__(self) -> None:
        if self.max_attempts is not None:
            force_setattr(self, "max_attempts", whole_number("max_attempts", self.max_attempts, at_least=1))
        for name in ("min_wait", "max_wait", "total_timeout"):
            value = getattr(self, name)
            if not isinstance(value, Real) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
                raise invalid(name, value, "a number of seconds, 0 or more")
            force_setattr(self, name, float(value))
        if self.min_wait > self.max_wait:
            raise InvalidInputError(f"min_wait ({self.min_wait} s) must not exceed max_wait ({self.max_wait} s)")

    def window_s(self, attempt: int, round_trip_s: float) -> float:
        """The longest wait in seconds after an attempt.

        Args:
            attempt: The number of the attempt, counted from 1.
            round_trip_s: The measured time of a put in seconds, 0.0 if not measured yet.

        Returns:
            The window that the wait is drawn from, in seconds.
        """
        scale = round_trip_s / _REFERENCE_ROUND_TRIP_S or 1.0
        longest = min(self.max_wait, self.max_wait * scale)
        # Doubling stops mattering long before 2**64.
        return min(longest, self.min_wait * scale * 2.0 ** min(attempt - 1, 64))

    def pacing(self, round_trip_s: Callable[[], float]) -> Pacing:
        """Start the clock of one commit.

        Args:
            round_trip_s: Returns the measured time of a put in seconds. Called before each wait.

        Returns:
            The pacing of this commit.
        """
        return Pacing(self, round_trip_s)


class Pacing:
    """A `RetryPolicy` applied to one commit. ``attempts`` counts the attempts begun, including the first."""

    def __init__(self, policy: RetryPolicy, round_trip_s: Callable[[], float]) -> None:
        self.attempts = 1
        self._policy = policy
        self._round_trip_s = round_trip_s
        self._started_s = ambient.monotonic_s()
        self._bounded_by_count = True
        self._is_steady = False
        self._failures = 0  # attempts that ended in anything but a lost race
        self._pauses: Iterator[bool] | None = None

    def elapsed_s(self) -> float:
        return ambient.monotonic_s() - self._started_s

    def pause(self, *, bounded_by_count: bool = True, is_steady: bool = False) -> bool:
        """Wait before the next attempt. Returns False immediately if the policy has ended.

        With ``bounded_by_count=False`` only time ends the policy: a blind append that loses races does nothing wrong.
        With ``is_steady``, after a lost race, the wait is not longer than the first.
        """
        from txlog.core.store._retry_loops import pauses

        self._bounded_by_count, self._is_steady = bounded_by_count, is_steady
        self._failures += not is_steady
        if self._pauses is None:
            self._pauses = pauses(self._has_ended, self._wait_s)
        if not next(self._pauses, False):
            return False
        self.attempts += 1
        return True

    def is_over(self) -> bool:
        """Whether the policy's time has passed."""
        return self.elapsed_s() >= self._policy.total_timeout

    def _has_ended(self) -> bool:
        limit = self._policy.max_attempts
        if limit is not None and self._bounded_by_count and self.attempts >= limit:
            return True
        return self.is_over()

    def _wait_s(self) -> float:
        window_s = self._policy.window_s(1 if self._is_steady else self._failures, self._round_trip_s())
        remaining_s = max(0.0, self._policy.total_timeout - self.elapsed_s())
        return min(ambient.uniform(0.0, window_s), remaining_s)


class Patience:
    """How long one commit may still try, and what the store has said last. Used on one thread.

    ``table`` is for a warning. ``let_others`` is called before each pause, so that other writers go on meanwhile.
    """

    def __init__(
        self, policy: RetryPolicy, round_trip_s: Callable[[], float], table: str, let_others: Callable[[], None]
    ) -> None:
        self.waited_s = 0.0
        self.last_words = ""
        """What the store said last, to a put or a read that settled nothing."""
        self._policy = policy
        self._table = table
        self._let_others = let_others
        self._pacing = policy.pacing(round_trip_s)
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
            last_s = max(0.0, self._policy.total_timeout - self._pacing.elapsed_s())
            where = self._table, version, last_s, self.said()
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


def read_again(read: Callable[[], T], is_transient: Callable[[BaseException], bool]) -> T:
    """Call ``read`` and return its result. A transient error is retried a few times; the last error is raised
    unchanged."""
    try:
        return read()
    except Exception as error:
        if not is_transient(error):
            raise
    from txlog.core.store._retry_loops import call_again

    ambient.sleep(ambient.uniform(0.0, _READ_FIRST_WAIT_S))
    return call_again(read, is_transient, attempts=_READ_ATTEMPTS - 1, first_wait_s=2 * _READ_FIRST_WAIT_S)
