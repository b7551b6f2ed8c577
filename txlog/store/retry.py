"""When to try again, and after how long: the policy of a table handle, and the one for reads.

In: `RetryPolicy` and the store's measured round trip. Out: `Pacing`, which sleeps between the attempts of one
commit and says when to give up; `read_again`, which repeats one read. tenacity does the looping, on the ambient
clock, and is imported by the first attempt that fails, so that a commit without contention does not pay for it.
A put is never repeated here: only the committer knows whether a second one is safe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, TypeVar

from txlog.errors import InvalidInputError
from txlog.util import ambient
from txlog.util.api_hints import explains_calls
from txlog.util.arguments import described, whole_number

if TYPE_CHECKING:
    import tenacity

__all__ = ["Pacing", "RetryPolicy", "read_again"]

_REFERENCE_ROUND_TRIP_S = 0.1
_READ_ATTEMPTS = 3
_READ_FIRST_WAIT_S = 0.2

T = TypeVar("T")


@explains_calls
@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a commit keeps trying. All times are in seconds.

    ``max_attempts``: None for no limit but time. ``min_wait`` and ``max_wait``: the first and the longest window a
    wait is drawn from (full jitter), on a store whose put takes 100 ms; on a faster store both shrink with its
    measured round trip, on a slower one the first grows. ``total_timeout``: from the first attempt; the last wait is
    cut to end there. Raises InvalidInputError for values that cannot work.
    """

    max_attempts: int | None = None
    min_wait: float = 0.1
    max_wait: float = 60.0
    total_timeout: float = 1800.0

    def __post_init__(self) -> None:
        if self.max_attempts is not None:
            object.__setattr__(self, "max_attempts", whole_number("max_attempts", self.max_attempts, at_least=1))
        for name in ("min_wait", "max_wait", "total_timeout"):
            value = getattr(self, name)
            if not isinstance(value, Real) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
                raise InvalidInputError(f"{name} must be a number of seconds from 0, is {described(value)}")
            object.__setattr__(self, name, float(value))
        if self.min_wait > self.max_wait:
            raise InvalidInputError(f"min_wait ({self.min_wait} s) must not exceed max_wait ({self.max_wait} s)")

    def window_s(self, attempt: int, round_trip_s: float) -> float:
        """The longest wait after attempt number ``attempt`` (from 1); a ``round_trip_s`` of 0.0 means unmeasured."""
        scale = round_trip_s / _REFERENCE_ROUND_TRIP_S or 1.0
        longest = min(self.max_wait, self.max_wait * scale)
        # Doubling stops mattering long before 2**64.
        return min(longest, self.min_wait * scale * 2.0 ** min(attempt - 1, 64))

    def pacing(self, round_trip_s: Callable[[], float]) -> Pacing:
        """Start the clock of one commit. ``round_trip_s`` is asked before each wait."""
        return Pacing(self, round_trip_s)


class Pacing:
    """One commit's run of a `RetryPolicy`. ``attempts`` is the number begun, the first included."""

    def __init__(self, policy: RetryPolicy, round_trip_s: Callable[[], float]) -> None:
        self.attempts = 1
        self._policy = policy
        self._round_trip_s = round_trip_s
        self._started_s = ambient.monotonic_s()
        self._bounded_by_count = True
        self._loop: Iterator[tenacity.AttemptManager] | None = None
        self._attempt: tenacity.AttemptManager | None = None

    def elapsed_s(self) -> float:
        return ambient.monotonic_s() - self._started_s

    def pause(self, *, bounded_by_count: bool = True) -> bool:
        """Wait before the next attempt; False, at once, when the policy has ended.

        ``bounded_by_count=False`` lets time alone end it: a blind append that loses races is making no mistake.
        """
        import tenacity

        self._bounded_by_count = bounded_by_count
        if self._loop is None or self._attempt is None:
            self._loop = iter(
                tenacity.Retrying(
                    sleep=ambient.sleep,
                    stop=self._has_ended,
                    wait=self._wait_s,
                    retry=tenacity.retry_always,
                )
            )
            self._attempt = next(self._loop)
        with self._attempt:
            pass
        try:
            self._attempt = next(self._loop)
        except tenacity.RetryError:
            return False
        self.attempts += 1
        return True

    def is_over(self) -> bool:
        """Whether the policy's time has passed."""
        return self.elapsed_s() >= self._policy.total_timeout

    def _has_ended(self, _: tenacity.RetryCallState) -> bool:
        limit = self._policy.max_attempts
        if limit is not None and self._bounded_by_count and self.attempts >= limit:
            return True
        return self.is_over()

    def _wait_s(self, _: tenacity.RetryCallState) -> float:
        window_s = self._policy.window_s(self.attempts, self._round_trip_s())
        remaining_s = max(0.0, self._policy.total_timeout - self.elapsed_s())
        return min(ambient.uniform(0.0, window_s), remaining_s)


def read_again(read: Callable[[], T], is_transient: Callable[[BaseException], bool]) -> T:
    """The answer of ``read``, asked a few times while its error is transient; the last error is raised as it is."""
    try:
        return read()
    except Exception as error:
        if not is_transient(error):
            raise
    import tenacity

    retrying = tenacity.Retrying(
        sleep=ambient.sleep,
        stop=tenacity.stop_after_attempt(_READ_ATTEMPTS - 1),
        wait=lambda state: ambient.uniform(0.0, _READ_FIRST_WAIT_S * 2**state.attempt_number),
        retry=tenacity.retry_if_exception(is_transient),
        reraise=True,
    )
    ambient.sleep(ambient.uniform(0.0, _READ_FIRST_WAIT_S))
    return retrying(read)
