"""The only access to time, sleep and randomness.

Nothing else in txlog reads a clock, sleeps, or draws random numbers (ruff's banned-api enforces this), so a test or a
schedule explorer can control all of them: ``with ambient.use(my_ambient): ...``.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

Out = TypeVar("Out")

# On Linux, CLOCK_BOOTTIME includes the time while the machine was suspended; CLOCK_MONOTONIC does not.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", 1))


class Instant(NamedTuple):
    """A moment, read from two clocks. `age_s` returns how long ago it was."""

    monotonic_s: float
    wall_ms: int


class Lanes:
    """The threads that a pool would have, for an `Ambient` that uses none. ``free_at`` is when each has ended its last
    call, in the unit of the ambient."""

    __slots__ = ("free_at",)

    def __init__(self, most: int) -> None:
        self.free_at = [0] * most


class Ambient:
    """The real clocks and random numbers. Subclass it to script them."""

    uses_threads = True
    """Whether work may be split among threads. False if one thread decides the order of everything."""

    def without_thread(self, work: Callable[[], Out], lanes: Lanes) -> Callable[[], Out]:
        """What one of ``lanes`` would do, where there are no threads; the function that is returned gives the result.

        Here the work is done immediately, and its error is raised with the result. Subclass it to do the work later, or
        to measure what threads would save.
        """
        try:
            result = work()
        except Exception as error:
            failure = error

            def fail() -> Out:
                raise failure

            return fail
        return lambda: result

    def beside(self, work: Callable[[], Out]) -> Callable[[], Out]:
        """The same for a single call whose result is needed later, or never."""
        return self.without_thread(work, Lanes(1))

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000  # noqa: TID251

    def monotonic_s(self) -> float:
        return time.clock_gettime(_CLOCK)

    def suspended_s(self) -> float:
        monotonic = getattr(time, "CLOCK_MONOTONIC", _CLOCK)
        return time.clock_gettime(_CLOCK) - time.clock_gettime(monotonic)

    def wait(self, event: threading.Event, seconds: float) -> None:
        """Wait until the event is set, for a bounded time."""
        event.wait(seconds)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: TID251

    def uniform(self, low: float, high: float) -> float:
        import random  # noqa: TID251  an append without a lost race draws no number

        return random.uniform(low, high)

    def uuid4(self) -> str:
        # Each write needs several UUIDs. `uuid.UUID` takes three times as long, and its module is slow to import.
        digits = bytearray(os.urandom(16))
        digits[6] = digits[6] & 0x0F | 0x40
        digits[8] = digits[8] & 0x3F | 0x80
        text = digits.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


_REAL = Ambient()
_current: ContextVar[Ambient] = ContextVar("txlog_ambient", default=_REAL)


@contextlib.contextmanager
def use(ambient: Ambient) -> Iterator[Ambient]:
    """Replace the ambient of this context (thread or task) during a ``with`` block."""
    token = _current.set(ambient)
    try:
        yield ambient
    finally:
        _current.reset(token)


def now() -> datetime.datetime:
    """The current time in UTC, to the millisecond."""
    return datetime.datetime.fromtimestamp(now_ms() / 1000, datetime.timezone.utc)


def now_ms() -> int:
    """Wall-clock time, milliseconds since the Unix epoch (UTC)."""
    return _current.get().now_ms()


def monotonic_s() -> float:
    """A clock that never goes back, in seconds, for measuring durations and deadlines."""
    return _current.get().monotonic_s()


def instant() -> Instant:
    """The current moment, for a later call of `age_s`."""
    current = _current.get()
    return Instant(current.monotonic_s(), current.now_ms())


def age_s(since: Instant) -> float:
    """Seconds since ``since``, for rules that stop trusting a value after some time.

    Either clock may have missed time: some monotonic clocks stop while a machine is suspended, and wall time can be set
    back. So the larger age counts. At worst, the caller rechecks a value that was still valid.
    """
    now = instant()
    return max(now.monotonic_s - since.monotonic_s, (now.wall_ms - since.wall_ms) / 1000)


def suspended_s() -> float:
    """How long this machine has been suspended since boot, in seconds; 0 if the platform does not report it."""
    return _current.get().suspended_s()


def wait(event: threading.Event, seconds: float) -> None:
    """Wait until another thread has set the event, for a bounded time."""
    _current.get().wait(event, seconds)


def sleep(seconds: float) -> None:
    _current.get().sleep(seconds)


def uses_threads() -> bool:
    """Whether work may be split among threads."""
    return _current.get().uses_threads


def without_thread(work: Callable[[], Out], lanes: Lanes) -> Callable[[], Out]:
    return _current.get().without_thread(work, lanes)


def beside(work: Callable[[], Out]) -> Callable[[], Out]:
    return _current.get().beside(work)


def uniform(low: float, high: float) -> float:
    """A random number in ``[low, high]``, for jitter."""
    return _current.get().uniform(low, high)


def uuid4() -> str:
    """A random UUID (RFC 4122, version 4) as a string of 36 characters."""
    return _current.get().uuid4()
