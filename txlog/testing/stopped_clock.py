"""A wall clock that moves only when a test moves it.

In: how far to move it. Out: the time for everything that runs under ``ambient.use(StoppedClock())``. The other clocks
are real.
"""

from __future__ import annotations

from txlog.core import ambient

__all__ = ["StoppedClock"]

_HOUR_MS = 3_600_000


class StoppedClock(ambient.Ambient):
    """Wall time moves only on request.

    Attributes:
        moment_ms: The time in milliseconds since the epoch; a test may set it.
    """

    def __init__(self) -> None:
        self.moment_ms = 1_790_000_000_000

    def now_ms(self) -> int:
        return self.moment_ms

    def pass_hours(self, hours: float) -> None:
        self.moment_ms += round(hours * _HOUR_MS)
