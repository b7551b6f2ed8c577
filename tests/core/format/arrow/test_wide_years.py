"""Dates and timestamps outside of the years 1 to 9999, which pyarrow cannot make Python values of."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.format.arrow.wide_years import date_text, python_rows, python_value, python_values, timestamp_text

DAY_US = 86_400_000_000
ARROWS_DAYS = st.integers(-10_950_000, 10_950_000)  # of the years that Arrow can write
LATE, EARLY = 3_000_000, -719_600
TEXTS = {LATE: "+10183-09-21", EARLY: "-0001-10-21"}


def dates(*days: int | None) -> pa.Array:
    return pa.array(days, pa.int32()).cast(pa.date32())


@given(ARROWS_DAYS)
def test_a_date_is_written_as_arrow_writes_it_with_a_sign_before_five_digits(days: int) -> None:
    known = dates(days).cast(pa.string())[0].as_py()
    assert date_text(days) == (f"+{known}" if known[0] != "-" and len(known) > 10 else known)


@given(ARROWS_DAYS, st.integers(0, DAY_US - 1))
def test_a_timestamp_is_its_date_and_the_time_of_day(days: int, time_us: int) -> None:
    date, _, time = timestamp_text(days * DAY_US + time_us).partition("T")
    assert date == date_text(days)
    assert (
        datetime.time.fromisoformat(time) == (datetime.datetime.min + datetime.timedelta(microseconds=time_us)).time()
    )


def test_the_last_dates_of_a_type_have_a_text_too() -> None:
    assert python_values(dates(2**31 - 1, -(2**31))) == ["+5881580-07-11", "-5877641-06-23"]
    ends = pa.array([2**63 - 1, -(2**63)], pa.int64())
    assert python_values(ends.cast(pa.timestamp("us"))) == [
        "+294247-01-10T04:00:54.775807",
        "-290308-12-21T19:59:05.224192",
    ]
    assert python_values(ends.cast(pa.timestamp("us", "UTC")))[0] == "+294247-01-10T04:00:54.775807+00:00"


def test_every_other_value_is_what_pyarrow_makes_of_it() -> None:
    assert python_values(dates(LATE, 0, None, EARLY)) == [TEXTS[LATE], datetime.date(1970, 1, 1), None, TEXTS[EARLY]]
    column = pa.chunked_array([dates(1), dates(LATE)])
    assert python_values(column) == [datetime.date(1970, 1, 2), TEXTS[LATE]]
    assert python_rows(pa.table({"n": [1, 2], "d": column})) == [
        {"n": 1, "d": datetime.date(1970, 1, 2)},
        {"n": 2, "d": TEXTS[LATE]},
    ]


@pytest.mark.parametrize(
    ("wrapped", "expected"),
    [
        (pa.StructArray.from_arrays([dates(LATE), pa.array([7])], ["d", "n"]), {"d": TEXTS[LATE], "n": 7}),
        (pa.ListArray.from_arrays([0, 2], dates(LATE, 0)), [TEXTS[LATE], datetime.date(1970, 1, 1)]),
        (pa.MapArray.from_arrays([0, 2], ["a", "b"], dates(LATE, None)), [("a", TEXTS[LATE]), ("b", None)]),
        (
            pa.ListArray.from_arrays([0, 1], pa.StructArray.from_arrays([dates(EARLY)], ["d"])),
            [{"d": TEXTS[EARLY]}],
        ),
    ],
    ids=["struct", "list", "map", "list of structs"],
)
def test_dates_in_nested_values_are_text_too(wrapped: pa.Array, expected: Any) -> None:
    assert python_value(wrapped[0]) == expected
    assert python_values(wrapped) == [expected]


def test_a_map_can_be_a_dict() -> None:
    column = pa.MapArray.from_arrays([0, 1, 2], ["a", "b"], dates(LATE, EARLY))
    assert python_values(column, maps_as_pydicts="lossy") == [{"a": TEXTS[LATE]}, {"b": TEXTS[EARLY]}]
