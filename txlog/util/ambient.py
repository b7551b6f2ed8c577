"""The one door for time, sleep and chance.

Nothing else in txlog reads a clock, sleeps, or draws randomness (ruff's banned-api holds this), so
that a test, or a schedule explorer, can own all of them: ``with ambient.use(my_ambient): ...``.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import random  # noqa: TID251
import time
from collections.abc import Iterator
from contextvars import ContextVar
from typing import NamedTuple

__all__ = [
    "Ambient",
    "Instant",
    "age_s",
    "instant",
    "monotonic_s",
    "now",
    "now_ms",
    "sleep",
    "suspended_s",
    "uniform",
    "use",
    "uuid4",
]

# Linux counts the time that a machine was suspended here, and not in CLOCK_MONOTONIC.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", 1))


class Instant(NamedTuple):
    """A moment, as two clocks saw it; `age_s` tells how long ago it was."""

    monotonic_s: float
    wall_ms: int


class Ambient:
    """The real world. Subclass it to script time and chance."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000  # noqa: TID251

    def monotonic_s(self) -> float:
        return time.clock_gettime(_CLOCK)

    def suspended_s(self) -> float:
        monotonic = getattr(time, "CLOCK_MONOTONIC", _CLOCK)
        return time.clock_gettime(_CLOCK) - time.clock_gettime(monotonic)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: TID251

    def uniform(self, low: float, high: float) -> float:
        return random.uniform(low, high)

    def uuid4(self) -> str:
        # Each write needs several: `uuid.UUID` takes three times as long over one, and its module a while to import.
        digits = bytearray(os.urandom(16))
        digits[6] = digits[6] & 0x0F | 0x40
        digits[8] = digits[8] & 0x3F | 0x80
        text = digits.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


_REAL = Ambient()
_current: ContextVar[Ambient] = ContextVar("txlog_ambient", default=_REAL)


@contextlib.contextmanager
def use(ambient: Ambient) -> Iterator[Ambient]:
    """Replace the ambient of this context (thread or task) for the length of a ``with`` block."""
    token = _current.set(ambient)
    try:
        yield ambient
    finally:
        _current.reset(token)


def now() -> datetime.datetime:
    """The time now, in UTC, to the millisecond."""
    return datetime.datetime.fromtimestamp(now_ms() / 1000, datetime.timezone.utc)


def now_ms() -> int:
    """Wall-clock time, milliseconds since the Unix epoch (UTC)."""
    return _current.get().now_ms()


def monotonic_s() -> float:
    """A clock that never goes back, in seconds, for measuring durations and deadlines."""
    return _current.get().monotonic_s()


def instant() -> Instant:
    """Now, for `age_s` to be asked about later."""
    current = _current.get()
    return Instant(current.monotonic_s(), current.now_ms())


def age_s(since: Instant) -> float:
    """Seconds since ``since``, for rules under which something becomes too old to be trusted.

    Either clock may have missed time: some monotonic clocks stand still while a machine is suspended, and wall time can
    be set back. The one that counted more is believed. At worst something that could be trusted is looked at again.
    """
    now = instant()
    return max(now.monotonic_s - since.monotonic_s, (now.wall_ms - since.wall_ms) / 1000)


def suspended_s() -> float:
    """How long this machine has been suspended since it was started; 0 where that cannot be told."""
    return _current.get().suspended_s()


def sleep(seconds: float) -> None:
    _current.get().sleep(seconds)


def uniform(low: float, high: float) -> float:
    """A random number in ``[low, high]``, for jitter."""
    return _current.get().uniform(low, high)


def uuid4() -> str:
    """A random UUID (RFC 4122, version 4) as 36 characters of text."""
    return _current.get().uuid4()
