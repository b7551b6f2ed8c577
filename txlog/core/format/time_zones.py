"""Time zones by the names that Spark knows, and moments in them.

In: the name of a zone, and moments as microseconds: instants since the epoch, or what a clock in the zone shows. Out:
the other of the two. As in Java, and so in Spark, a time that no clock shows (summer time begins) is moved later by the
length of the gap, and a time that a clock shows twice (summer time ends) is the earlier of the two.

The rules are those of Python's database of zones. Where an engine that must agree has others, `doubted` says so, and
moments in those times are refused, here and in every process that gets the zone.
"""

from __future__ import annotations

import datetime
import functools
import re
import zoneinfo
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from txlog.core.util import UTC, invalid
from txlog.core.wording import argument
from txlog.errors import InvalidInputError, UnsupportedFeatureError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HOURS_MAX = 18
FARTHEST = ("-18:00", "+18:00")
"""Two zones in which no text of a time without a zone, and no day, means the same."""
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?:(\d{1,2})(?::(\d{1,2})(?::(\d\d))?)?|(\d\d)(\d\d)(\d\d)?)", re.ASCII
)
_OF_UTC = frozenset({"Z", "UTC", "UT", "GMT", "GMT0", "Zulu", "Universal", "UCT", "Greenwich"})
_SHORT = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
    "EST": "-05:00",
    "MST": "-07:00",
    "HST": "-10:00",
}
"""What Java's ``ZoneId.SHORT_IDS`` makes of names with three letters, by which Spark reads them."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_DAY_S = 86_400
_WEEK_S = 7 * _DAY_S
_CYCLE_S = 146_097 * _DAY_S  # 400 years, after which all rules of the calendar repeat
_FIRST_S, _LAST_S = -62_135_510_400, 240_000_000_000  # 0001-01-02, and a moment in the year 9575
_NEAR_S = 16 * 3600  # longer than any zone ever was ahead of UTC or behind it
_MICROSECONDS = 1_000_000


def zone_name(name: object, *, what: str = "time_zone") -> str:
    """The checked name of a zone; "UTC" for each name of it, so that callers can compare.

    Args:
        name: An offset as in "+02:00" or "GMT+2", the name of a region as in "Europe/Berlin", "UTC" or "Z";
            or a ``ZoneInfo`` of one.
        what: The argument that has the name.

    Raises:
        InvalidInputError: There is no such zone.
        UnsupportedFeatureError: This machine has no database of time zones.
    """
    if isinstance(name, datetime.tzinfo):
        name = getattr(name, "key", name)
    if not isinstance(name, str):
        raise invalid(what, name, "the name of a time zone, such as 'Europe/Berlin' or '+02:00'")
    found = _zone(name, what)
    is_utc = isinstance(found, datetime.timezone) and found.utcoffset(None) == datetime.timedelta(0)
    return UTC if is_utc else name


def instant(clock_us: int, zone: str, *, starts_days: bool = False) -> int:
    """The instant, in microseconds since the epoch, at which a clock in the zone shows this time. See `instants`."""
    return clock_us if zone == UTC else int(instants(np.array([clock_us], np.int64), zone, starts_days=starts_days)[0])


def clock_times(instants_us: NDArray[np.int64], zone: str) -> NDArray[np.int64]:
    """What a clock in the zone shows at these instants.

    Raises:
        OverflowError: A time is beyond 64 bits.
        InvalidInputError: The rules of the zone are in doubt at one of the instants.
    """
    if zone == UTC:
        return instants_us
    seconds = instants_us // _MICROSECONDS
    _require_undoubted(seconds, seconds, zone)
    return _moved(instants_us, offsets(seconds, zone))


def instants(
    clock_us: NDArray[np.int64], zone: str, near_us: NDArray[np.int64] | None = None, *, starts_days: bool = False
) -> NDArray[np.int64]:
    """The instants at which a clock in the zone shows these times.

    Args:
        clock_us: What the clock shows.
        zone: The zone.
        near_us: Instants whose offset decides between the two instants of a time that is shown twice.
        starts_days: Whether a time that no clock shows means the first time that follows, as it does for the beginning
            of a day.

    Raises:
        OverflowError: An instant is beyond 64 bits.
        InvalidInputError: The rules of the zone are in doubt near one of the times.
    """
    if zone == UTC:
        return clock_us
    shown = clock_us // _MICROSECONDS
    _require_undoubted(shown - _NEAR_S, shown + _NEAR_S, zone)
    before, after = offsets(shown - _NEAR_S, zone), offsets(shown + _NEAR_S, zone)
    moved = _moved(clock_us, -before)
    doubtful = np.flatnonzero(before != after)
    if not len(doubtful):
        return moved
    here, one, other = shown[doubtful], before[doubtful], after[doubtful]
    holds_before = offsets(here - one, zone) == one
    holds_after = offsets(here - other, zone) == other
    is_after = holds_after & ~holds_before
    if near_us is not None:
        is_after |= holds_after & (offsets(near_us[doubtful] // _MICROSECONDS, zone) == other)
    moved[doubtful[is_after]] = _moved(clock_us[doubtful[is_after]], -other[is_after])
    if starts_days:
        for at in doubtful[~holds_before & ~holds_after]:
            moved[at] = _change_of(zone, int(shown[at] - after[at]), int(shown[at] - before[at])) * _MICROSECONDS
    return moved


def full_name(zone: str) -> str:
    """What a name of three letters stands for, and any other name itself."""
    return _SHORT.get(zone, zone)


def _moved(moments_us: NDArray[np.int64], seconds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Raises ``OverflowError`` for a moment beyond 64 bits."""
    moved: NDArray[np.int64] = moments_us + seconds * _MICROSECONDS
    if np.any((moved > moments_us) != (seconds > 0)):
        raise OverflowError("a time is beyond the years of a timestamp")
    return moved


def offsets(seconds: NDArray[np.int64], zone: str) -> NDArray[np.int64]:
    """How many seconds a clock in the zone is ahead of UTC, at each of these seconds since the epoch."""
    tz = _zone(zone)
    if isinstance(tz, datetime.timezone):
        return np.full(len(seconds), _offset_at(zone, 0), np.int64)
    days, place = np.unique(seconds // _DAY_S, return_inverse=True)
    facts = np.array([_day(zone, int(day)) for day in days], np.int64).reshape(-1, 3)[place.reshape(-1)]
    return np.where(seconds < facts[:, 2], facts[:, 0], facts[:, 1])


def changes_of(zone: str, first: int, last: int) -> list[int]:
    """The seconds since the epoch, of those after ``first`` and until ``last``, at which clocks in the zone change: one
    of each week in which they do."""
    weeks = [*range(first, last, _WEEK_S), last]
    ahead = [_offset_at(zone, each) for each in weeks]
    return [_change_of(zone, weeks[at - 1], weeks[at]) for at in range(1, len(weeks)) if ahead[at] != ahead[at - 1]]


def offset_of(zone: str) -> int | None:
    """How many seconds clocks in the zone are ahead of UTC; None for a region, where that changes."""
    return _offset_at(zone, 0) if isinstance(_zone(zone), datetime.timezone) else None


# --- doubts ---------------------------------------------------------------------------------------------------


class _DoubtedZone(str):
    """The name of a zone whose rules are in doubt at some times. Who unpickles it, knows that too."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return doubted, (str(self), *_doubts[self])


_doubts: dict[str, tuple[Sequence[tuple[int, int]], str]] = {}


def doubted(zone: str, spans: Sequence[tuple[int, int]], why: str) -> str:
    """The zone, of which moments in these spans are refused from now on, also by processes to which it is sent.

    Args:
        zone: The name of the zone.
        spans: The first and last second of each, since the epoch, in order.
        why: What is in doubt, and what to do about it.
    """
    _doubts[zone] = (spans, why)
    return _DoubtedZone(zone)


def _require_undoubted(first: NDArray[np.int64], last: NDArray[np.int64], zone: str) -> None:
    """Raises ``InvalidInputError`` if anything from a first to its last second is in a doubted span."""
    found = _doubts.get(zone)
    if found is None or not len(first):
        return
    spans, why = np.array(found[0], np.int64), found[1]
    next_span = np.minimum(np.searchsorted(spans[:, 1], first), len(spans) - 1)
    is_doubted = (spans[next_span, 0] <= last) & (spans[next_span, 1] >= first)
    if is_doubted.any():
        at = int(np.argmax(is_doubted))
        moment = _EPOCH + datetime.timedelta(seconds=min((int(first[at]) + int(last[at])) // 2, _LAST_S))
        raise InvalidInputError(f"a time near {moment:%Y-%m-%d %H:%M:%S} depends on the rules of {zone}. {why}")


# --- zones ----------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _zone(name: str, what: str = "time_zone") -> datetime.tzinfo:
    meant = _SHORT.get(name, name)
    found = _OFFSET.fullmatch(meant)
    if found is not None:
        return _fixed(name, what, found)
    if meant.removeprefix("Etc/") in _OF_UTC:
        return datetime.timezone.utc
    try:
        return zoneinfo.ZoneInfo(meant)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):  # OSError: the name of a folder
        pass
    if not zoneinfo.available_timezones():
        raise UnsupportedFeatureError(
            f"{argument(what)} is {name!r}, and this machine has no database of time zones: install the system's"
            " tzdata, or pip install tzdata",
            features=(what,),
        )
    expected = "the name of a time zone, such as 'Europe/Berlin', '+02:00', 'GMT+2' or 'UTC'"
    raise invalid(what, name, expected)


def _fixed(name: str, what: str, found: re.Match[str]) -> datetime.tzinfo:
    parts = [int(part) for part in found.groups()[1:] if part is not None]
    hours, minutes, seconds = (*parts, 0, 0)[:3]
    offset = datetime.timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if minutes > 59 or seconds > 59 or offset > datetime.timedelta(hours=_HOURS_MAX):
        raise invalid(what, name, f"an offset of at most {_HOURS_MAX} hours, such as '+02:00'")
    return datetime.timezone(-offset if found["sign"] == "-" else offset)


@functools.lru_cache(maxsize=1 << 17)
def _day(zone: str, day: int) -> tuple[int, int, int]:
    """The offsets at the beginning and end of a day in UTC, and the first second of the second one."""
    low, high = day * _DAY_S, (day + 1) * _DAY_S
    first, last = _offset_at(zone, low), _offset_at(zone, high)
    if first == last:
        return first, last, high
    return first, last, _change_of(zone, low, high)


def _change_of(zone: str, low: int, high: int) -> int:
    """The first second after ``low``, and at most ``high``, whose offset is not that of ``low``."""
    first = _offset_at(zone, low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _offset_at(zone, middle) == first else (low, middle)
    return high


def _offset_at(zone: str, second: int) -> int:
    if second > _LAST_S:
        second = _LAST_S - _CYCLE_S + (second - _LAST_S) % _CYCLE_S
    moment = _EPOCH + datetime.timedelta(seconds=max(second, _FIRST_S))
    found: Any = moment.astimezone(_zone(zone)).utcoffset()
    return int(found // datetime.timedelta(seconds=1))
