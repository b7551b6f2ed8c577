"""Dates and times of Spark 2's calendar; the numbers are those of Spark's RebaseDateTime."""

from __future__ import annotations

import bisect
import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from txlog.core.format.arrow.old_calendar import OldCalendar, old_calendar
from txlog.errors import UnsupportedFeatureError

# From which day, in the old calendar, how many days are added.
SWITCHES = (-719164, -682945, -646420, -609895, -536845, -500320, -463795, -390745, -354220, -317695, -244645, -208120)
SWITCHES = (*SWITCHES, -171595, -141427)
DIFFERENCES = (2, 1, 0, -1, -2, -3, -4, -5, -6, -7, -8, -9, -10, 0)
DAY_US = 86_400_000_000
EVERY = OldCalendar(True, True, "UTC")


def days(*numbers: int | None) -> pa.Array:
    return pa.array(numbers, pa.int32()).view(pa.date32())


def moments(*numbers: int | None, tz: str | None = "UTC") -> pa.Array:
    return pa.array(numbers, pa.int64()).view(pa.timestamp("us", tz))


def expected(day: int) -> int:
    return day + DIFFERENCES[bisect.bisect_right(SWITCHES, day) - 1]


def rebased(array: pa.Array, calendar: OldCalendar = EVERY) -> pa.Array:
    return calendar.rebased(array, is_moment=True, column="c")


def test_every_day_since_the_first_year_is_the_one_that_spark_reads() -> None:
    every = range(SWITCHES[0], SWITCHES[-1] + 1000)
    assert rebased(days(*every)).view(pa.int32()).to_pylist() == [expected(day) for day in every]


def test_nulls_and_slices_stay_in_their_places() -> None:
    array = days(0, None, -171595, None, 5).slice(1, 3)
    assert rebased(array).to_pylist() == [None, dt.date(1500, 3, 1), None]
    assert rebased(days()).to_pylist() == []
    assert rebased(days(None)).to_pylist() == [None]


def test_a_moment_in_utc_keeps_its_time_of_day_and_changes_its_day() -> None:
    found = rebased(moments(-171595 * DAY_US + 1, None, -171594 * DAY_US - 1, 7))
    assert found.view(pa.int64()).to_pylist() == [
        expected(-171595) * DAY_US + 1,
        None,
        (expected(-171595) + 1) * DAY_US - 1,
        7,
    ]
    ticks = moments(-171595 * DAY_US, tz=None)
    assert rebased(ticks).type == pa.timestamp("us")
    assert EVERY.rebased(ticks, is_moment=False, column="c").equals(ticks)  # timestamp_ntz has one calendar


def test_in_another_zone_only_times_since_1900_are_known() -> None:
    calendar = OldCalendar(True, True, "America/New_York")
    since_1900 = moments(-2_208_988_800_000_000, None, 0)
    assert rebased(since_1900, calendar).equals(since_1900)
    with pytest.raises(UnsupportedFeatureError, match=r"column c has a time before 1900.*America/New_York"):
        rebased(moments(-2_208_988_800_000_001), calendar)
    assert rebased(days(-171595), calendar).to_pylist() == [dt.date(1500, 3, 1)]


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        (None, None),
        ({b"writer": b"x"}, None),
        ({b"org.apache.spark.version": b"4.1.0"}, None),
        ({b"org.apache.spark.version": b"2.4.8"}, OldCalendar(True, True, None)),
        ({b"org.apache.spark.version": b"3.0.1"}, OldCalendar(False, True, None)),
        (
            {b"org.apache.spark.version": b"4.1.0", b"org.apache.spark.legacyDateTime": b""},
            OldCalendar(True, False, None),
        ),
        (
            {b"org.apache.spark.legacyINT96": b"", b"org.apache.spark.timeZone": b"Asia/Tokyo"},
            OldCalendar(False, True, "Asia/Tokyo"),
        ),
    ],
)
def test_the_metadata_of_a_file_names_its_calendar(metadata: Any, found: OldCalendar | None) -> None:
    assert old_calendar(metadata) == found


def test_a_day_or_time_that_may_be_another_is_found_at_any_depth() -> None:
    old, new = days(-171595, None), days(0, None)
    for array, differs in ((old, True), (new, False)):
        nested = pa.StructArray.from_arrays([pa.ListArray.from_arrays([0, 1, 2], array)], ["l"])
        mapped = pa.MapArray.from_arrays([0, 2], pa.array([1, 2]), array)
        for each in (array, nested, mapped, array.dictionary_encode()):
            assert EVERY.differs(each) is differs
    assert EVERY.differs(moments(-(2**52)))
    assert EVERY.differs(pa.array([-(2**62)], pa.timestamp("ns")))
    assert not EVERY.differs(moments(0, None))
    assert not EVERY.differs(pa.array(["a"]))
