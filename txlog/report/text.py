"""Times and durations of a report, for people."""

from __future__ import annotations

from txlog.core.format.properties import DAY_MS
from txlog.result import counted, utc_text

_UNITS = ((DAY_MS, "day"), (DAY_MS // 24, "hour"), (60_000, "minute"), (1_000, "second"))


def age(duration_ms: int) -> str:
    """``3 hours``: in the largest unit of which there are at least two, or exactly one."""
    for size_ms, unit in _UNITS:
        if duration_ms >= 2 * size_ms or duration_ms == size_ms:
            return counted(duration_ms // size_ms, unit)
    return "a moment"


def span(duration_ms: int) -> str:
    """``250 ms``, ``1.5 s``, ``3 minutes``."""
    if duration_ms < 1_000:
        return f"{duration_ms} ms"
    if duration_ms < 120_000:
        return f"{duration_ms / 1000:.3g} s"
    return age(duration_ms)


def dated(timestamp_ms: int | None) -> str:
    """``2026-11-20 21:00:00 UTC``."""
    return "" if timestamp_ms is None else f"{utc_text(timestamp_ms)} UTC"
