"""The patterns of dates and times: which ones Spark and txlog read and write alike.

In: a pattern in Spark's letters, and times. Out: the pattern's parts, and the times written by it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.util import cached_property

TIME_PATTERNS = ("yyyy", "MM", "dd", "HH", "mm", "ss")
"""The letters that a pattern may have. Each has a fixed number of digits."""

_WRITTEN = (
    *("yy", "y", "M", "MMM", "MMMM", "d", "E", "EEE", "EEEE", "H", "h", "hh", "a", "m", "s", "SSS", "SSSSSS"),
    *("Q", "QQQ"),
)
"""More of them, which date_format() writes."""

_READ = (
    *("yy", "M", "MMM", "MMMM", "d", "H", "h", "hh", "a", "m", "s", "X" * 3, "Z"),
    *("S" * count for count in range(1, 10)),
)
"""And those that to_date() and to_timestamp() read."""

_PATTERN_PARTS = re.compile(r"([A-Za-z])\1*|[-/:., _]|'[A-Za-z]+'")


def pattern_parts(pattern: str, name: str) -> list[str]:
    """The parts of a pattern that the function ``name`` takes: field letters, or text. Raises ``ValueError``."""
    parts = [found[0] for found in _PATTERN_PARTS.finditer(pattern)]
    known = (*TIME_PATTERNS, *(_WRITTEN if name == "date_format" else _READ))
    shown = [each for each in known if each == "SSS" or each[0] != "S" or len(each) in (1, 6)]
    if "".join(parts) != pattern or any(part[0].isalpha() and part not in known for part in parts):
        raise ValueError(
            f"{name}() supports the letters {', '.join(shown)}, the characters -/:., _ and words in quotes"
            f" like 'T', not {pattern!r}"
        )
    return parts


_SECOND_US = 1_000_000
_DAY_US = 86_400 * _SECOND_US
_FIRST_US, _LAST_US = -719_162 * _DAY_US, 2_932_897 * _DAY_US - 1  # of the years 1 to 9999
_BYTES_MAX = 2**31 - 1
"""How many bytes of text an Arrow array of strings may have."""


def written_by(parts: list[str], moments: pa.Array) -> pa.Array:
    """Timestamps as text. Every text has as many bytes as the pattern, so the digits of all rows are written at once.

    Raises ``ArrowInvalid`` for a year that engines write differently.
    """
    given = moments.cast(pa.int64())
    ends = pc.min_max(given)
    if ends["min"].is_valid and not _FIRST_US <= ends["min"].as_py() <= ends["max"].as_py() <= _LAST_US:
        raise pa.ArrowInvalid("date_format() takes years from 1 to 9999")
    numbers = pc.fill_null(given, 0).to_numpy(zero_copy_only=False)
    fields = _Fields(numbers)
    if any(part in _WRITTEN for part in parts):
        return _joined_by(parts, fields, given)
    texts = [part.strip("'").encode() for part in parts]
    width = sum(map(len, texts))
    if width * len(numbers) > _BYTES_MAX:
        raise pa.ArrowInvalid(f"date_format() makes more than {_BYTES_MAX} bytes of text at once")
    found = np.empty(len(numbers), [(f"p{at}", f"V{len(text)}") for at, text in enumerate(texts)])
    for at, (part, text) in enumerate(zip(parts, texts, strict=True)):
        if part in TIME_PATTERNS:
            first, beyond = _PARTS[part]
            found[f"p{at}"] = _digits(len(part), first)[beyond(fields)]
        else:
            found[f"p{at}"] = np.void(text)
    offsets = np.arange(len(numbers) + 1, dtype=np.int64) * width
    valid = pc.is_valid(given).buffers()[1] if given.null_count else None
    return pa.StringArray.from_buffers(
        len(numbers), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(found), valid, given.null_count
    )


def _joined_by(parts: list[str], fields: _Fields, given: pa.Array) -> pa.Array:
    """The same for parts whose texts have several lengths."""
    columns = []
    for part in parts:
        if part[0].isalpha():
            texts, place = _texts_of(part), _PLACES[part](fields)
            columns.append(texts.take(pa.array(place.astype(np.int32))))
        else:
            columns.append(pa.scalar(part.strip("'"), pa.string()))
    written = pc.binary_join_element_wise(*columns, pa.scalar("", pa.string()))
    return pc.if_else(pc.is_valid(given), written, pa.nulls(1, pa.string())[0]) if given.null_count else written


class _Fields:
    """What calendar and clock show at each of some microseconds since 1970."""

    def __init__(self, numbers: Any) -> None:
        self._numbers = numbers
        self.days = np.floor_divide(numbers, _DAY_US)

    @cached_property
    def seconds(self) -> Any:
        """Of the day."""
        return np.floor_divide(self._numbers - self.days * _DAY_US, _SECOND_US).astype(np.int32)

    @property
    def micros(self) -> Any:
        """Of the second."""
        return np.mod(self._numbers, _SECOND_US)

    @cached_property
    def _month(self) -> Any:
        return self.days.astype("M8[D]").astype("M8[M]")

    @cached_property
    def months(self) -> Any:
        """Since the year 0."""
        return self._month.astype(np.int32) + 1970 * 12

    @property
    def day(self) -> Any:
        """Of the month, from 0."""
        return self.days - self._month.astype("M8[D]").astype(np.int64)


_PARTS: dict[str, tuple[int, Callable[[_Fields], Any]]] = {
    "yyyy": (0, lambda fields: fields.months // 12),
    "MM": (1, lambda fields: fields.months % 12),
    "dd": (1, lambda fields: fields.day),
    "HH": (0, lambda fields: fields.seconds // 3600),
    "mm": (0, lambda fields: fields.seconds // 60 % 60),
    "ss": (0, lambda fields: fields.seconds % 60),
}
"""For each part of a pattern, its first number, and how far beyond it a moment is."""


@functools.cache
def _digits(count: int, first: int) -> Any:
    """The texts of all numbers with so many digits."""
    texts = [f"{number:0{count}}".encode() for number in range(first, 10**count)]
    return np.array(texts, f"S{count}").view(f"V{count}")


_PLACES: dict[str, Callable[[_Fields], Any]] = {
    **{part: beyond for part, (_, beyond) in _PARTS.items()},
    "yy": lambda fields: fields.months // 12 % 100,
    "y": lambda fields: fields.months // 12,
    **dict.fromkeys(("M", "MMM", "MMMM"), lambda fields: fields.months % 12),
    "d": lambda fields: fields.day,
    **dict.fromkeys(("E", "EEE", "EEEE"), lambda fields: (fields.days + 3) % 7),
    "H": lambda fields: fields.seconds // 3600,
    **dict.fromkeys(("h", "hh"), lambda fields: fields.seconds // 3600 % 12),
    "a": lambda fields: fields.seconds // 43_200,
    "m": lambda fields: fields.seconds // 60 % 60,
    "s": lambda fields: fields.seconds % 60,
    "SSS": lambda fields: fields.micros // 1000,
    "SSSSSS": lambda fields: fields.micros,
    **dict.fromkeys(("Q", "QQQ"), lambda fields: fields.months % 12 // 3),
}
"""Which of its texts each part has."""

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@functools.cache
def _texts_of(part: str) -> pa.Array:
    """The texts of a part, in Spark's English."""
    twelve = [12, *range(1, 12)]
    known: dict[str, Any] = {
        **{"MMM": [name[:3] for name in MONTHS], "MMMM": MONTHS, "EEEE": _DAYS, "a": ("AM", "PM")},
        **{part: [name[:3] for name in _DAYS] for part in ("E", "EEE")},
        **{"h": map(str, twelve), "hh": (f"{hour:02}" for hour in twelve), "QQQ": ("Q1", "Q2", "Q3", "Q4")},
    }
    if part in known:
        return pa.array(list(known[part]), pa.string())
    first = 1 if part in ("M", "MM", "d", "dd", "Q") else 0
    width = len(part) if len(part) > 1 else 0
    count = 10_000 if part == "y" else 10 ** max(width, 2)
    return pa.array([f"{number:0{width}}" for number in range(first, count)], pa.string())
