"""How long a put takes on this store. Every wait between attempts is scaled by it.

In: the duration of each put. Out: the median of the last few, so one slow put does not stretch the waits of a whole
process.
"""

from __future__ import annotations

from collections import deque

__all__ = ["RoundTrip"]

_REMEMBERED = 15


class RoundTrip:
    """The recent put durations of one store. Appending to a bounded deque is atomic, so it needs no lock."""

    __slots__ = ("_durations_s",)

    def __init__(self) -> None:
        self._durations_s: deque[float] = deque(maxlen=_REMEMBERED)

    def observe(self, duration_s: float) -> None:
        self._durations_s.append(duration_s)

    def median_s(self) -> float:
        """Median of the remembered durations in seconds; 0.0 before the first."""
        durations = sorted(self._durations_s)
        return durations[len(durations) // 2] if durations else 0.0
