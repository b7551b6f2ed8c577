"""Whether Java's rules of a session's time zone are those of Python, by which txlog reads times.

In: a session and the name of its zone. Out: the zone. Where the two databases of zones are of different years, moments
at which their clocks differ are refused (`time_zones.doubted`), in this process and in the session's tasks.
"""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np

from txlog.core import ambient
from txlog.core.format.time_zones import changes_of, doubted, offset_of, offsets

_FIRST_S, _LAST_S = 31_536_000, 4_102_444_800
"""1971 and 2100. Before, databases differ in history that few tables have (docs/guarantees.md)."""
_STEP_S = 7 * 86_400
_FOREVER_S = 1 << 62
_MOMENTS = "concat(sequence({first}L, {last}L, {step}L), transform(split('{near}', ','), x -> CAST(x AS BIGINT)))"
_AHEAD = "unix_seconds(from_utc_timestamp(timestamp_seconds(x), '{zone}')) - x"
_QUERY = f"SELECT transform({_MOMENTS}, x -> {_AHEAD}) FROM VALUES (1)"
"""What Java's rules say. Spark computes what it selects from VALUES while it plans, without a job."""
_known: dict[tuple[str, str], str] = {}


def agreed(spark: Any, zone: str) -> str:
    """The zone, whose rules were compared with those of the session's Java: once for each session."""
    if offset_of(zone) is not None:
        return zone
    found = (str(spark.conf.get("spark.app.id", "")), zone)
    if found not in _known:
        _known[found] = _compared(spark, zone)
    return _known[found]


def _compared(spark: Any, zone: str) -> str:
    changes = changes_of(zone, _FIRST_S, _LAST_S)
    near = [each - before for each in changes for before in (1, 0)] or [_FIRST_S]
    numbers = {"first": _FIRST_S, "last": _LAST_S, "step": _STEP_S, "near": ",".join(map(str, near))}
    ((ahead,),) = spark.sql(_QUERY.format(zone=zone, **numbers)).collect()
    moments = np.array([*range(_FIRST_S, _LAST_S + 1, _STEP_S), *near], np.int64)
    order = np.argsort(moments)
    moments, of_java = moments[order], np.array(ahead, np.int64)[order]
    of_python = offsets(moments, zone)
    differing = np.flatnonzero(of_java != of_python)
    if not len(differing):
        return zone
    past = differing[moments[differing] * 1000 < ambient.now_ms()]
    at = int(past[-1] if len(past) else differing[0])
    why = (
        "Java and Python have different databases of time zones here:"
        f" at {_clock(moments[at])} UTC, clocks there show {_clock(moments[at] + of_java[at])} by the rules of the"
        f" session's Java, and {_clock(moments[at] + of_python[at])} by Python's. So Spark's own WHERE would find other"
        " rows. Update the older one: Java itself, or the system's tzdata on each machine (or pip install -U tzdata)."
        " Or write the time with an offset, such as '2026-11-20 18:30:00-06:00', or set the session's time zone to one"
    )
    return doubted(zone, _spans(moments, differing), why)


def _spans(moments: Any, differing: Any) -> list[tuple[int, int]]:
    """The times between the moments before and after those that differ, joined where they touch. Rules that differ in
    the last years do so forever."""
    edges = [_FIRST_S, *map(int, moments), _FOREVER_S]
    found: list[tuple[int, int]] = []
    for at in map(int, differing):
        first, last = edges[at], edges[at + 2]
        if found and first <= found[-1][1]:
            first = found.pop()[0]
        found.append((first, last))
    if moments[differing[-1]] > _LAST_S - 2 * 366 * 86_400:
        found.append((found.pop()[0], _FOREVER_S))
    return found


def _clock(seconds: Any) -> str:
    return f"{datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=int(seconds)):%Y-%m-%d %H:%M}"
