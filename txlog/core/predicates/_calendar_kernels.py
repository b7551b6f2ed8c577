"""Functions of the calendar between two moments, with numpy: how many months or days, and the next day of a name.

In: a call and its arguments as arrays or scalars of days or timestamps. Out: an array, or a scalar if all arguments are
scalars. A null argument makes the result null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.schema import type_to_arrow
from txlog.core.format.time_zones import clock_times, instants
from txlog.core.predicates.terms.arguments import as_arrays, as_given
from txlog.core.predicates.terms.tree import Call
from txlog.core.util import UTC

_DAY_US = 86_400_000_000
_SECONDS_OF_MONTH = 31 * 86_400
_FAR_US = 10_950_000 * _DAY_US  # in the year 31950

DAYS_OF_WEEK = {
    name: at
    for at, names in enumerate(
        ("th thu thursday", "fr fri friday", "sa sat saturday", "su sun sunday", "mo mon monday", "tu tue tuesday")
    )
    for name in names.split()
} | dict.fromkeys(("we", "wed", "wednesday"), 6)
"""The days of the week by their names, counted from that of 1970-01-01."""

UNITS_BETWEEN = {
    **{"microsecond": 1, "millisecond": 1000, "second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000},
    **{"day": _DAY_US, "week": 7 * _DAY_US, "month": -1, "quarter": -3, "year": -12},
}
"""The microseconds of each unit, or with a minus its months."""


def _with_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that calls ``function(call, *integers)`` with numpy's arrays."""

    def kernel(call: Call, *given: Any) -> Any:
        whole = as_arrays(given)
        numbers = [pc.fill_null(_integers(each), 0).to_numpy(zero_copy_only=False) for each in whole]
        is_null = np.any([each.is_null().to_numpy(zero_copy_only=False) for each in whole], axis=0)
        found = function(call, *numbers)
        kind = type_to_arrow(call.type)
        made = pa.array(found, pa.int32() if pa.types.is_date32(kind) else kind, mask=is_null).cast(kind)
        return as_given(given, made)

    return kernel


def _integers(values: pa.Array) -> pa.Array:
    """Days as they are counted, and microseconds."""
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    return values.cast(pa.int64())


def _month_and_day(days: Any) -> tuple[Any, Any]:
    """The month since 1970, and the day in it from 0."""
    months = days.astype("M8[D]").astype("M8[M]")
    return months.astype(np.int64), days - months.astype("M8[D]").astype(np.int64)


def _is_last(months: Any, day: Any) -> Any:
    """Whether it is the last day of its month."""
    firsts = [(months + step).astype("M8[M]").astype("M8[D]").astype(np.int64) for step in (0, 1)]
    return day == firsts[1] - firsts[0] - 1


def _months_between(call: Call, end: Any, start: Any) -> Any:
    """Whole months between equal days and between last days; else a month has 31 days."""
    is_rounded, zone = call.options[:2]
    (end, end_s), (start, start_s) = _day_and_second(end, zone), _day_and_second(start, zone)
    (end_month, end_day), (start_month, start_day) = _month_and_day(end), _month_and_day(start)
    whole = (end_month - start_month).astype(np.float64)
    is_whole = (end_day == start_day) | (_is_last(end_month, end_day) & _is_last(start_month, start_day))
    rest_s = (end_day - start_day) * 86_400 + end_s - start_s
    exact = whole + rest_s / float(_SECONDS_OF_MONTH)
    if is_rounded:
        exact = np.floor(exact * 1e8 + 0.5) / 1e8
    return np.where(is_whole, whole, exact)


def _day_and_second(moments: Any, zone: str) -> tuple[Any, Any]:
    """The day in the zone, and the seconds since it began."""
    days = (moments if zone == UTC else clock_times(moments, zone)) // _DAY_US
    begin = days * _DAY_US if zone == UTC else instants(days * _DAY_US, zone, starts_days=True)
    return days, (moments - begin) // 1_000_000


def _between(call: Call, start: Any, end: Any) -> Any:
    """How many whole units pass from one moment to another, towards zero."""
    size = UNITS_BETWEEN[call.options[0]]
    if max(np.abs(each).max(initial=0) for each in (start, end)) > _FAR_US:
        raise pa.ArrowInvalid("timestampdiff() takes years from -28000 to 31900")
    if size > 0:
        return _cut(end - start, size)
    start_day, end_day = start // _DAY_US, end // _DAY_US
    start_us, end_us = start - start_day * _DAY_US, end - end_day * _DAY_US
    end_day = end_day - ((end_day > start_day) & (end_us < start_us)) + ((end_day < start_day) & (end_us > start_us))
    (start_month, first), (end_month, last) = _month_and_day(start_day), _month_and_day(end_day)
    return _cut(_cut((end_month * 32 + last) - (start_month * 32 + first), 32), -size)


def _cut(number: Any, size: int) -> Any:
    """The quotient towards zero."""
    return np.sign(number) * (np.abs(number) // size)


def _next_day(call: Call, days: Any) -> Any:
    """The first day of this name behind each day."""
    return days + 1 + (DAYS_OF_WEEK[call.options[0]] - 1 - days) % 7


CALENDAR_KERNELS: dict[str, Callable[..., Any]] = {
    "months_between": _with_numpy(_months_between),
    "timestampdiff": _with_numpy(_between),
    "next_day": _with_numpy(_next_day),
}
