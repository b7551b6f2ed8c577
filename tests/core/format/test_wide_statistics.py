"""Statistics with a deletion vector: every bound stays true for the remaining rows."""

from __future__ import annotations

import json

import orjson
import pytest

from txlog.core.format.schema import DOUBLE, LONG, Decimal, Field, Struct
from txlog.core.format.statistics_read import StatisticsReader
from txlog.core.format.wide_statistics import wide_statistics

SCHEMA = Struct(
    (Field("n", LONG), Field("d", Decimal(30, 10)), Field("x", DOUBLE), Field("s", Struct((Field("m", LONG),))))
)


def text(**members: object) -> str:
    return orjson.dumps({"numRecords": 10, **members}).decode()


def test_bounds_stay_and_are_called_wide() -> None:
    found = json.loads(wide_statistics(text(minValues={"n": 1}, maxValues={"n": 9}), num_records=10))
    assert found == {"numRecords": 10, "minValues": {"n": 1}, "maxValues": {"n": 9}, "tightBounds": False}


def test_digits_of_decimals_and_of_large_integers_stay_as_they_were_written() -> None:
    exact = '{"numRecords":10,"minValues":{"d":12345678901234567890.1234567891,"n":9223372036854775807,"x":1e-320}}'
    wide = wide_statistics(exact, num_records=10)
    for digits in ("12345678901234567890.1234567891", "9223372036854775807", "1e-320"):
        assert digits in wide
    assert StatisticsReader(SCHEMA).read(wide).minimum == StatisticsReader(SCHEMA).read(exact).minimum


@pytest.mark.parametrize(
    ("count", "dead_before", "is_tight", "expected"),
    [
        (0, 0, True, 0),
        (10, 0, True, 10),
        (4, 0, True, 4),
        (7, 3, True, 10),  # all of the rows that were left are null
        (7, 3, False, 7),
        (10, 3, False, 10),
        (0, 10, True, 0),
    ],
)
def test_null_counts_mean_none_all_or_some(count: int, dead_before: int, is_tight: bool, expected: int) -> None:
    stats = text(nullCount={"n": count, "s": {"m": count}}, tightBounds=is_tight)
    found = json.loads(wide_statistics(stats, num_records=10, dead_before=dead_before))
    assert found["nullCount"] == {"n": expected, "s": {"m": expected}}


@pytest.mark.parametrize("stats", [None, "", "no json", "[1]", "null", '{"minValues": {"s": "\\ud800"}}'])
def test_unreadable_statistics_become_a_count_of_rows(stats: str | None) -> None:
    assert json.loads(wide_statistics(stats, num_records=7)) == {"numRecords": 7, "tightBounds": False}


def test_statistics_that_are_wide_already_stay_the_same_text() -> None:
    wide = (
        '{"nullCount":{"n":3,"s":{"m":10}}, '
        '"minValues":{"d":12345678901234567890.10},"numRecords":10,"tightBounds":false}'
    )
    assert wide_statistics(wide, num_records=10, dead_before=2) == wide
    assert json.loads(wide_statistics(wide, num_records=11))["numRecords"] == 11
