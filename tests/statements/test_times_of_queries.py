"""Times without a zone in queries, against Python's own rules of time zones."""

from __future__ import annotations

import datetime
import zoneinfo
from pathlib import Path

import pyarrow as pa
import pytest

import txlog
from txlog.errors import InvalidInputError


@pytest.fixture
def catalog(tmp_path: Path) -> txlog.Catalog:
    return txlog.Catalog(tmp_path / "warehouse")


def first_of(clock: datetime.datetime, zone: str) -> datetime.datetime:
    """The instant of a clock time by Python's own rules: of two, the first one."""
    return clock.replace(tzinfo=zoneinfo.ZoneInfo(zone), fold=0).astimezone(datetime.timezone.utc)


NIGHTS = [  # whose clocks go back: an hour, half an hour, at midnight
    ("Europe/Berlin", datetime.datetime(2026, 10, 25, 2, 30)),
    ("America/New_York", datetime.datetime(2026, 11, 1, 1, 15)),
    ("Australia/Lord_Howe", datetime.datetime(2026, 4, 5, 1, 45)),
    ("America/Havana", datetime.datetime(2026, 11, 1, 0, 0)),
    ("CST", datetime.datetime(2026, 11, 1, 1, 15)),  # America/Chicago
    ("Europe/Berlin", datetime.datetime(2026, 3, 29, 2, 30)),  # and forward: no clock shows this
]


@pytest.mark.parametrize(("zone", "clock"), NIGHTS)
def test_a_query_and_a_delete_of_one_text_take_one_instant_where_clocks_change(
    catalog: txlog.Catalog, zone: str, clock: datetime.datetime
) -> None:
    instant = first_of(clock, zone.replace("CST", "America/Chicago"))
    moments = [instant + datetime.timedelta(minutes=15 * count) for count in range(-12, 13)]
    catalog.write("t", pa.table({"id": pa.array(range(-12, 13), pa.int32()), "ts": moments}))
    catalog.write("clocks", pa.table({"tn": [clock], "text": [str(clock)]}))

    def ids(where: str) -> list[int]:
        return sorted(
            txlog.sql(f"select id from t where {where}", catalog, time_zone=zone).read_all()["id"].to_pylist()
        )

    before = [*range(-12, 0)]
    for where in (
        f"ts < '{clock}'",
        f"ts < timestamp '{clock}'",
        f"ts < cast('{clock}' as timestamp)",
        f"ts < to_timestamp('{clock}')",
        f"ts between '1900-01-01' and '{clock - datetime.timedelta(seconds=1)}'",
        f"ts < timestamp_ntz '{clock}'",
        f"coalesce(ts, date '{clock.date()}') < timestamp '{clock}' and ts < current_date()",
        "ts < (select max(cast(tn as timestamp)) from clocks)",
        "ts < (select max(try_cast(text as timestamp)) from clocks)",
        "exists (select 1 from clocks where cast(clocks.text as timestamp) > ts)",
    ):
        assert ids(where) == before, where
    assert ids(f"ts in ('{clock}', '1900-01-01 00:00:00')") == [0]
    assert ids(f"ts = '{instant:%Y-%m-%d %H:%M:%S}Z'") == [0]
    txlog.sql(f"delete from t where ts < '{clock}'", catalog, time_zone=zone)
    assert ids("true") == [*range(13)]


def test_a_text_that_looks_like_a_time_stays_a_text_in_a_query(catalog: txlog.Catalog) -> None:
    catalog.write("t", pa.table({"text": ["2026-10-25 02:30:00"]}))
    found = txlog.sql(
        "select text, '2026-10-25 02:30:00' as same from t where text = '2026-10-25 02:30:00'",
        catalog,
        time_zone="Europe/Berlin",
    )
    assert found.read_all().to_pylist() == [{"text": "2026-10-25 02:30:00", "same": "2026-10-25 02:30:00"}]


@pytest.mark.parametrize(
    ("query", "instead"),
    [
        ("select ts + interval (id) day as x from t", "an interval other than a whole number and a unit"),
        ("select explode(sequence(ts, ts, interval 1 day)) as x from t", "where days have 23 to 25 hours"),
        (
            "select count(*) over (order by ts range between interval 1 day preceding and current row) as x from t",
            "a RANGE of days of timestamps in Europe/Berlin",
        ),
        ("select ts at time zone 'Asia/Tokyo' as x from t", "is not supported"),
    ],
)
def test_a_query_whose_instants_nobody_compared_with_sparks_is_refused(
    catalog: txlog.Catalog, query: str, instead: str
) -> None:
    at = datetime.datetime(2026, 1, 1)
    catalog.write(
        "t", pa.table({"id": [1], "ts": [at.replace(tzinfo=datetime.timezone.utc)], "tn": [at], "dt": [at.date()]})
    )
    with pytest.raises(InvalidInputError, match=instead):
        txlog.sql(query, catalog, time_zone="Europe/Berlin").read_all()


def test_times_of_another_zone_are_those_of_its_clocks(catalog: txlog.Catalog) -> None:
    text = "select from_utc_timestamp('{}', 'Europe/Berlin') as there, to_utc_timestamp('{}', 'Europe/Berlin') as here"
    found = txlog.sql(text.format("2026-10-25 00:30:00Z", "2026-10-25 02:30:00Z"), catalog).read_all().to_pylist()
    utc = datetime.timezone.utc
    there = datetime.datetime(2026, 10, 25, 2, 30, tzinfo=utc)
    assert found == [{"there": there, "here": first_of(there.replace(tzinfo=None), "Europe/Berlin")}]
