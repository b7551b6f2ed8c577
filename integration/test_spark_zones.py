"""Times without a zone, in the time zones of sessions: txlog's expressions and doors against what Spark itself says.

The rows stand around the moments at which each zone's clocks change, by Java's own rules.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from spark_fixtures import INTERPRETED

from txlog.expressions.evaluate import evaluate
from txlog.expressions.sql import parse
from txlog.protocol.schema import from_arrow
from txlog.spark.schema import struct_type

ZONE = "spark.sql.session.timeZone"
ROWS = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("tn", pa.timestamp("us")),
        ("dt", pa.date32()),
        ("moment", pa.string()),
        ("clock", pa.string()),
    ]
)
SCHEMA = from_arrow(ROWS)
ZONES = [
    "America/New_York",  # gaps and overlaps
    "Australia/Lord_Howe",  # of half an hour
    "America/Sao_Paulo",  # a day without its first hour
    "Pacific/Apia",  # a year without a day
    "Africa/Casablanca",  # winter time in Ramadan
    "+05:30",
    "EST",
]
VALUES = [
    *("CAST(ts AS DATE)", "CAST(ts AS TIMESTAMP_NTZ)", "CAST(tn AS TIMESTAMP)", "CAST(dt AS TIMESTAMP)"),
    *("CAST(moment AS TIMESTAMP)", "to_timestamp(moment)", "to_timestamp(clock, 'yyyy-MM-dd HH:mm')"),
    *(f"{part}(ts)" for part in ("year", "quarter", "month", "day", "hour", "minute", "second")),
    *(f"{part}(ts)" for part in ("dayofyear", "dayofweek", "weekday", "weekofyear", "last_day")),
    *("EXTRACT(SECOND FROM ts)", "EXTRACT(HOUR FROM ts)", "hour(tn)", "year(tn)"),
    *(f"date_trunc('{unit}', ts)" for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")),
    *("date_trunc('DAY', tn)", "date_trunc('HOUR', dt)", "trunc(ts, 'MONTH')"),
    *(f"date_format({value}, 'yyyy-MM-dd HH:mm:ss')" for value in ("ts", "tn", "dt")),
    *("datediff(ts, dt)", "datediff(dt, tn)", "date_add(ts, 1)", "add_months(ts, 1)", "to_date(ts)"),
    *("ts + INTERVAL 1 DAY", "ts - INTERVAL 1 DAY", "ts + INTERVAL 2 WEEKS", "ts + INTERVAL 30 HOURS"),
    *("ts - INTERVAL 30 HOURS", "ts - INTERVAL 90 MINUTES", "ts + INTERVAL 1 MONTH", "ts - INTERVAL 6 MONTHS"),
    *("ts + INTERVAL 1 YEAR", "tn + INTERVAL 1 DAY", "dt + INTERVAL 1 DAY", "coalesce(dt, ts)", "greatest(dt, ts)"),
    *("unix_seconds(ts)", "unix_seconds(CAST(tn AS TIMESTAMP))", "current_date()", "CAST(current_timestamp() AS DATE)"),
    "CASE WHEN hour(ts) < 12 THEN dt ELSE ts END",
]
OLDEST = datetime.datetime(1800, 1, 1)


def changes_of(spark: SparkSession, zone: str, since: int = 1900, until: int = 2040) -> list[datetime.datetime]:
    """The instants at which the zone's clocks change, by Java's rules."""
    rules = spark._jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils.getZoneId(zone).getRules()
    found, instant = [], spark._jvm.java.time.Instant.parse(f"{since}-01-01T00:00:00Z")
    while (change := rules.nextTransition(instant)) is not None:
        instant = change.getInstant()
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=instant.getEpochSecond())
        if moment.year >= until:
            break
        found.append(moment)
    return found


def rows_around(moments: Iterable[datetime.datetime]) -> pa.Table:
    """Rows with these moments, with others near them, and with each as the clock of several zones may show it."""
    minutes = (-1441, -661, -61, -1, 0, 1, 29, 59, 61, 121, 840)
    near = [each + datetime.timedelta(minutes=count) for each in moments for count in minutes]
    near += [OLDEST, datetime.datetime(1, 1, 3), datetime.datetime(9999, 12, 28, 23, 59, 59, 999999)]
    near += [datetime.datetime(year, month, 31, 23, 30) for year in (1899, 2000, 2100, 2500) for month in (3, 12)]
    clocks = [each + datetime.timedelta(hours=hours) for each in near for hours in (0, -5, 10)]
    seen = list(dict.fromkeys(zip([each for each in near for _ in range(3)], clocks, strict=True)))
    columns = [
        range(len(seen)),
        [moment.replace(tzinfo=datetime.timezone.utc) for moment, _ in seen],
        [clock for _, clock in seen],
        [clock.date() for _, clock in seen],
        [f"{clock:%Y}".zfill(4) + f"{clock:-%m-%d %H:%M:%S}" for _, clock in seen],
        [f"{clock:%Y}".zfill(4) + f"{clock:-%m-%d %H:%M}" for _, clock in seen],
    ]
    return pa.table([pa.array(values, kind) for values, kind in zip(columns, ROWS.types, strict=True)], ROWS)


def in_zone(spark: SparkSession, zone: str) -> SparkSession:
    for name, value in {**INTERPRETED, "spark.sql.ansi.enabled": "true", ZONE: zone}.items():
        spark.conf.set(name, value)
    return spark


def differing(spark: SparkSession, zone: str, rows: pa.Table, texts: Sequence[str]) -> list[str]:
    """The texts whose values differ from Spark's, each with the first row."""
    now = datetime.datetime.now(datetime.timezone.utc)
    frame = in_zone(spark, zone).createDataFrame(rows, struct_type(ROWS))
    theirs = frame.orderBy("id").selectExpr("id", *texts).toArrow()
    found = []
    for number, text in enumerate(texts, 1):
        expression = parse(text, SCHEMA, zone=zone, now=now)
        ours = evaluate(expression, rows)
        expected = theirs.column(number).combine_chunks().cast(ours.type)
        if not ours.equals(expected):
            at = next(row for row in range(len(ours)) if ours[row] != expected[row])
            shown = rows.slice(at, 1).select(["ts", "tn"]).to_pylist()[0]
            found.append(f"{zone}: {text} at {shown} is {ours[at]}, and {expected[at]} in Spark")
    return found


def test_expressions_have_the_values_of_spark_in_the_zone_of_the_session(spark: SparkSession) -> None:
    found = []
    for zone in ZONES:
        changes = changes_of(spark, zone)
        found += differing(spark, zone, rows_around(changes[:: max(1, len(changes) // 12)]), VALUES)
    assert found == []


@pytest.mark.hunt(part="zones")
def test_expressions_have_the_values_of_spark_in_all_zones_around_all_changes(spark: SparkSession) -> None:
    import zoneinfo

    found = []
    known = {*spark._jvm.java.time.ZoneId.getAvailableZoneIds()}
    for zone in sorted(zoneinfo.available_timezones() & known):
        changes = changes_of(spark, zone, 1800, 2045)
        for at in range(0, max(1, len(changes)), 40):
            found += differing(spark, zone, rows_around(changes[at : at + 40]), VALUES)
    assert found == []
