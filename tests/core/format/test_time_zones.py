"""Zones by name, and moments in them, against Python's own datetimes."""

from __future__ import annotations

import datetime
import itertools
import zoneinfo

import numpy as np
import pytest

from txlog.core.format import time_zones
from txlog.core.format.time_zones import clock_times, instant, instants, offset_of, zone_name
from txlog.errors import InvalidInputError, UnsupportedFeatureError

EPOCH = datetime.datetime(1970, 1, 1)
US = datetime.timedelta(microseconds=1)


def micros(text: str) -> int:
    return (datetime.datetime.fromisoformat(text) - EPOCH) // US


@pytest.mark.parametrize("name", ["UTC", "Z", "GMT", "+00:00", "GMT+0", "Etc/UTC", "Zulu", "-0", "UTC+00:00"])
def test_all_names_of_utc_are_one(name: str) -> None:
    assert zone_name(name) == "UTC"


def test_a_zone_of_python_is_its_name() -> None:
    assert zone_name(zoneinfo.ZoneInfo("Europe/Berlin")) == "Europe/Berlin"
    assert zone_name(zoneinfo.ZoneInfo("UTC")) == "UTC"


@pytest.mark.parametrize(
    ("name", "hours"),
    [
        ("+2", 2),
        ("+02", 2),
        ("+0200", 2),
        ("-09:30", -9.5),
        ("GMT+2", 2),
        ("UTC-05:30", -5.5),
        ("UT+18:00", 18),
        ("+1:30", 1.5),
        ("EST", -5),
        ("HST", -10),
        ("+01:02:03", 1 + 2 / 60 + 3 / 3600),
    ],
)
def test_an_offset_is_read_in_every_form_that_spark_takes(name: str, hours: float) -> None:
    assert offset_of(zone_name(name)) == round(hours * 3600)


@pytest.mark.parametrize(
    "name", ["Europe/Berln", "+19:00", "+130", "Europe", "../etc/passwd", "", "UTC+25", "+02:60", 5]
)
def test_an_unknown_zone_is_refused_by_name(name: object) -> None:
    with pytest.raises(InvalidInputError, match="Invalid time_zone"):
        zone_name(name)


def test_a_machine_without_a_database_of_zones_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*given: object) -> None:
        raise zoneinfo.ZoneInfoNotFoundError

    monkeypatch.setattr(zoneinfo, "ZoneInfo", none)
    monkeypatch.setattr(zoneinfo, "available_timezones", set)
    time_zones._zone.cache_clear()
    with pytest.raises(UnsupportedFeatureError, match="pip install tzdata"):
        zone_name("Asia/Tokyo")
    time_zones._zone.cache_clear()


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "+05:45"]
)
def test_clock_times_are_those_of_datetime_at_every_hour_of_years(zone: str) -> None:
    tz = zoneinfo.ZoneInfo(zone) if "/" in zone else datetime.timezone(datetime.timedelta(minutes=345))
    begin = datetime.datetime(2010, 12, 1, tzinfo=datetime.timezone.utc)
    moments = [begin + datetime.timedelta(hours=hours) for hours in range(24 * 500)]
    given = np.array([(each.replace(tzinfo=None) - EPOCH) // US for each in moments])
    shown = [(each.astimezone(tz).replace(tzinfo=None) - EPOCH) // US for each in moments]
    assert clock_times(given, zone).tolist() == shown
    assert instants(np.array(shown), zone, given).tolist() == given.tolist()


def test_a_time_that_no_clock_shows_is_moved_later_and_one_shown_twice_is_the_earlier() -> None:
    zone = "America/New_York"
    assert instant(micros("2024-03-10T02:30:00"), zone) == micros("2024-03-10T07:30:00")
    assert instant(micros("2024-11-03T01:30:00"), zone) == micros("2024-11-03T05:30:00")
    twice = np.array([micros("2024-11-03T01:30:00")])
    assert instants(twice, zone, np.array([micros("2024-11-03T08:00:00")])).tolist() == [micros("2024-11-03T06:30:00")]


def test_a_day_that_begins_in_a_gap_begins_with_the_first_time_after_it() -> None:
    day = micros("1919-03-31T00:00:00")  # in Toronto, half past eleven was followed by half past twelve
    assert instant(day, "America/Toronto", starts_days=True) == micros("1919-03-31T04:30:00")
    assert instant(day, "America/Toronto") == micros("1919-03-31T05:00:00")


def test_years_beyond_datetime_follow_the_rules_of_the_last_ones() -> None:
    cycle = 146_097 * 86_400 * 1_000_000  # 400 years
    summer = micros("2024-07-01T12:00:00")
    far = np.array([summer + 200 * cycle, summer - 200 * cycle])
    assert (clock_times(far, "Europe/Berlin") - far).tolist() == [7_200_000_000, (53 * 60 + 28) * 1_000_000]
    assert instants(clock_times(far, "Europe/Berlin"), "Europe/Berlin").tolist() == far.tolist()
    with pytest.raises(OverflowError):
        clock_times(np.array([2**63 - 5]), "+01:00")


def test_no_zone_changes_its_clocks_twice_within_two_days() -> None:
    """What `instants` and its search for a change of clocks rely on."""
    from zoneinfo._zoneinfo import ZoneInfo  # the one that shows its changes

    near = []
    for name in zoneinfo.available_timezones():
        changes = ZoneInfo(name)._trans_utc  # type: ignore[attr-defined]
        near += [name for before, after in itertools.pairwise(changes) if after - before < 48 * 3600]
    assert near == []
