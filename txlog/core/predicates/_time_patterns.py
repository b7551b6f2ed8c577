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

__all__ = ["TIME_PATTERNS", "pattern_parts", "written_by"]

TIME_PATTERNS = ("yyyy", "MM", "dd", "HH", "mm", "ss")
"""The letters that a pattern may have. Each has a fixed number of digits."""

_PATTERN_PARTS = re.compile(r"([A-Za-z])\1*|[-/:., _]|'[A-Za-z]+'")


def pattern_parts(pattern: str, name: str) -> list[str]:
    """The parts of a pattern that the function ``name`` takes: field letters, or text. Raises ``ValueError``."""
    parts = [found[0] for found in _PATTERN_PARTS.finditer(pattern)]
    if "".join(parts) != pattern or any(part[0].isalpha() and part not in TIME_PATTERNS for part in parts):
        raise ValueError(
            f"{name}() supports the letters {', '.join(TIME_PATTERNS)}, the characters -/:., _ and words in quotes"
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


class _Fields:
    """What calendar and clock show at each of some microseconds since 1970."""

    def __init__(self, numbers: Any) -> None:
        self._numbers = numbers
        self.days = np.floor_divide(numbers, _DAY_US)

    @cached_property
    def seconds(self) -> Any:
        """Of the day."""
        return np.floor_divide(self._numbers - self.days * _DAY_US, _SECOND_US).astype(np.int32)

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
