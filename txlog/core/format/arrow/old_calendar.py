"""Dates and times in files that Spark wrote with the calendar of Spark 2: Julian before 1582-10-15.

In: a file's key-value metadata, and its date and timestamp columns. Out: the same columns as today's calendar names
them, or a typed error. The same day has another number in both calendars, so a file from Spark 2, or one written with
``spark.sql.parquet.datetimeRebaseModeInWrite=LEGACY``, means other days than its numbers say. Spark's
``DataSourceUtils.datetimeRebaseSpec`` and ``RebaseDateTime`` read them so; PROTOCOL.md does not speak of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from txlog.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_VERSION = b"org.apache.spark.version"
_DATES_AND_TIMES = b"org.apache.spark.legacyDateTime"
_INT96 = b"org.apache.spark.legacyINT96"
_ZONE = b"org.apache.spark.timeZone"
_UTC = {"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z", "UCT", "Zulu", "+00:00", "GMT+00:00", "UTC+00:00"}

_FIRST_GREGORIAN_DAY = -141_427
"""1582-10-15, in days since 1970-01-01: from here on both calendars have the same numbers."""
_JULIAN_SHIFT = 719_470
"""Days from 0000-03-01 of the Julian calendar to 1970-01-01."""
_GREGORIAN_SHIFT = 719_468
_DAY_US = 86_400_000_000
_YEAR_1900_US = -2_208_988_800_000_000
"""Before, zones had local times that the two calendars of Java disagree on."""


class OldCalendar(msgspec.Struct, frozen=True):
    """Which columns of a file have the old calendar: dates and ``int64`` times, ``int96`` times; and their zone."""

    has_dates_and_times: bool
    has_int96: bool
    zone: str | None

    def differs(self, array: pa.Array) -> bool:
        """Whether a date or time, at any depth, may be another one in today's calendar."""
        if isinstance(array, pa.DictionaryArray):
            return self.differs(array.dictionary)
        if pa.types.is_map(array.type):
            return self.differs(array.keys) or self.differs(array.items)
        if pa.types.is_struct(array.type):
            return any(map(self.differs, array.flatten()))
        if pa.types.is_nested(array.type):
            return self.differs(array.flatten())
        if pa.types.is_date32(array.type):
            return self.has_dates_and_times and bool((_numbers(array, "i4", 0) < _FIRST_GREGORIAN_DAY).any())
        if not pa.types.is_timestamp(array.type):
            return False
        moments = array.cast(pa.timestamp("us", array.type.tz), safe=False)
        return bool((_numbers(moments, "i8", _YEAR_1900_US) < _YEAR_1900_US).any())

    def rebased(self, array: pa.Array, *, is_moment: bool, column: str) -> pa.Array:
        """A date or timestamp column in today's calendar; ``is_moment`` if the table's type has a zone.

        Raises UnsupportedFeatureError for a time before 1900 in another zone than UTC.
        """
        if pa.types.is_date32(array.type):
            return _with_numbers(array, "i4", _rebased_days) if self.has_dates_and_times else array
        is_int96 = array.type.tz is None  # pyarrow reads other moments with a zone
        if not is_moment or not (self.has_int96 if is_int96 else self.has_dates_and_times):
            return array
        array = array.cast(pa.timestamp("us", array.type.tz), safe=False)
        if self.zone in _UTC:
            return _with_numbers(array, "i8", _rebased_moments)
        if bool((_numbers(array, "i8", _YEAR_1900_US) < _YEAR_1900_US).any()):
            raise UnsupportedFeatureError(
                f"column {column} has a time before 1900, and Spark wrote the file with the calendar of Spark 2 in the"
                f" zone {self.zone or '(unknown)'}, which txlog converts for UTC only. Have Spark write these rows"
                " again, or read other columns or rows",
                features=("legacyDateTime",),
            )
        return array


def old_calendar(metadata: Mapping[bytes, bytes] | None) -> OldCalendar | None:
    """What a file's key-value metadata says; None if all its dates and times have today's calendar."""
    if not metadata or (_VERSION not in metadata and _DATES_AND_TIMES not in metadata and _INT96 not in metadata):
        return None
    version = metadata.get(_VERSION, b"9")
    dates, int96 = version < b"3.0.0" or _DATES_AND_TIMES in metadata, version < b"3.1.0" or _INT96 in metadata
    zone = metadata[_ZONE].decode() if _ZONE in metadata else None
    return OldCalendar(dates, int96, zone) if dates or int96 else None


def _rebased_days(days: NDArray[Any]) -> NDArray[Any]:
    """Days of the Julian calendar before 1582-10-15 become the days of the same name in the Gregorian one.

    A February 29 that the latter lacks becomes March 1. Years begin in March here.
    """
    day = days.astype(np.int64) + _JULIAN_SHIFT
    year = (4 * day + 3) // 1461
    day_of_year = day - 1461 * year // 4
    gregorian = 365 * year + year // 4 - year // 100 + year // 400 + day_of_year - _GREGORIAN_SHIFT
    found: NDArray[Any] = np.where(days < _FIRST_GREGORIAN_DAY, gregorian, days)
    return found


def _rebased_moments(moments: NDArray[Any]) -> NDArray[Any]:
    days = moments // _DAY_US
    found: NDArray[Any] = _rebased_days(days) * _DAY_US + (moments - days * _DAY_US)
    return found


def _numbers(array: pa.Array, kind: str, null: int) -> NDArray[Any]:
    found: NDArray[Any] = np.frombuffer(array.buffers()[1] or b"", kind, len(array) + array.offset)[array.offset :]
    return np.where(np.asarray(array.is_valid()), found, null) if array.null_count else found


def _with_numbers(array: pa.Array, kind: str, rebased: Any) -> pa.Array:
    """``array`` with new numbers, and the same nulls."""
    numbers = _numbers(array, kind, 0)
    if not len(numbers) or int(numbers.min()) >= (_FIRST_GREGORIAN_DAY * (1 if kind == "i4" else _DAY_US)):
        return array
    mask = np.asarray(array.is_null()) if array.null_count else None
    return pa.array(rebased(numbers).astype(kind), mask=mask).view(array.type)
