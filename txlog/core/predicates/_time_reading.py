"""Texts of dates and times, read by a pattern as Java's formatter reads them: ``to_date(s, 'M/d/yyyy')``.

In: a pattern in Spark's letters, and a text. Out: what a clock shows, or an instant if the pattern has an offset; or
``ValueError``.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import re

from txlog.core.predicates._time_patterns import MONTHS, pattern_parts

_ORDER = ("year", "month", "day", "hour", "minute", "second", "fraction")
_FIELDS = {
    **dict.fromkeys(("yyyy", "yy"), "year"),
    **dict.fromkeys(("M", "MM", "MMM", "MMMM"), "month"),
    **dict.fromkeys(("d", "dd"), "day"),
    **dict.fromkeys(("H", "HH", "h", "hh"), "hour"),
    **dict.fromkeys(("m", "mm"), "minute"),
    **dict.fromkeys(("s", "ss"), "second"),
    **{"S" * count: "fraction" for count in range(1, 10)},
}
_OFFSETS = {"X" * 3: r"Z|[+-][0-9]{2}:[0-9]{2}", "Z": r"[+-][0-9]{4}"}
_OFFSET_MAX = datetime.timedelta(hours=18)


def check_read(pattern: str, name: str) -> bool:
    """Whether a pattern has an offset. Raises ``ValueError`` for one that Java reads otherwise."""
    parts = pattern_parts(pattern, name)
    letters = [part for part in parts if part in _FIELDS]
    fields = [_FIELDS[part] for part in letters]
    has_offset = any(part in _OFFSETS for part in parts)
    is_whole = sorted(fields) == sorted(_ORDER[: len(fields)]) and bool(fields)
    has_half_days = any(part in ("h", "hh") for part in letters)
    once = sum(part in _OFFSETS for part in parts) <= 1 and parts.count("a") == has_half_days
    if not is_whole or not once or (has_offset and (name != "to_timestamp" or len(fields) < 3)):
        raise ValueError(
            f"{name}() takes a pattern with the year, then the month, day, hour, minute, second and fraction, each"
            f" once, h together with a, and in to_timestamp() an offset, not {pattern!r}"
        )
    for one, other in itertools.pairwise(parts):
        if _has_any_width(one, other) or _has_any_width(other, one):
            raise ValueError(f"{name}() takes {one} and {other} with a sign between them, in {pattern!r}")
    return has_offset


def _has_any_width(part: str, beside: str) -> bool:
    """Whether a part has any number of digits, and one beside it has digits too."""
    is_number = part in ("M", "d", "H", "h", "m", "s") or part[0] == "S"
    return is_number and beside in _FIELDS and beside not in ("MMM", "MMMM")


def moment_of(pattern: str, name: str, text: str) -> datetime.datetime:
    """What a text says. Raises ``ValueError``."""
    found = _expression(pattern, name).fullmatch(text)
    if found is None:
        raise ValueError("it has another form")
    given = {key: value for key, value in found.groupdict().items() if value is not None}
    numbers = {field: int(value) for field, value in given.items() if field in _ORDER and value.isdecimal()}
    if len(given.get("year", "")) == 2:
        numbers["year"] += 2000
    if "month" in given and not given["month"].isdecimal():
        numbers["month"] = _SHORT_MONTHS.index(given["month"][:3].lower()) + 1
    if "half" in given:
        if not 1 <= numbers["hour"] <= 12:
            raise ValueError("hour of AM and PM must be in 1..12")
        numbers["hour"] = numbers["hour"] % 12 + 12 * (given["half"].lower() == "pm")
    if "fraction" in given:
        del numbers["fraction"]
        numbers["microsecond"] = int(given["fraction"].ljust(6, "0")[:6])
    clock = datetime.datetime(**{"year": 1970, "month": 1, "day": 1} | numbers)  # type: ignore[arg-type]
    return clock if "offset" not in given else _instant(clock, given["offset"])


_SHORT_MONTHS = [each[:3].lower() for each in MONTHS]


def _instant(clock: datetime.datetime, offset: str) -> datetime.datetime:
    digits = "0000" if offset in "Zz" else offset[1:].replace(":", "")
    ahead = datetime.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    if ahead > _OFFSET_MAX or int(digits[2:]) > 59:
        raise ValueError(f"there is no offset {offset}")
    try:
        moved = clock + ahead if offset[0] == "-" else clock - ahead
    except OverflowError as error:
        raise ValueError(str(error)) from None
    return moved.replace(tzinfo=datetime.timezone.utc)


@functools.lru_cache(64)
def _expression(pattern: str, name: str) -> re.Pattern[str]:
    return re.compile("".join(map(_read, pattern_parts(pattern, name))), re.IGNORECASE | re.ASCII)


def _read(part: str) -> str:
    if part in _OFFSETS:
        return f"(?P<offset>{_OFFSETS[part]})"
    if part == "a":
        return "(?P<half>AM|PM)"
    if part not in _FIELDS:
        return re.escape(part.strip("'"))
    return f"(?P<{_FIELDS[part]}>{_form(part)})"


def _form(part: str) -> str:
    if part[0] == "S":
        return f"[0-9]{{1,{len(part)}}}"
    if part in ("MMM", "MMMM"):
        return _names(3 if part == "MMM" else None)
    return f"[0-9]{{{len(part)}}}" if len(part) > 1 else "[0-9]{1,9}"


def _names(length: int | None) -> str:
    return "|".join(each[:length] for each in MONTHS)
