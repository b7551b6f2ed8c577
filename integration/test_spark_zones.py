"""Times without a zone, in the time zones of sessions: txlog's expressions and doors against what Spark itself says.

The rows stand around the moments at which each zone's clocks change, by Java's own rules.
"""

from __future__ import annotations

import datetime
import os
import shutil
import zoneinfo
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from spark_fixtures import INTERPRETED
from spark_helpers import refused, save

import txlog
import txlog.spark
from txlog.core.format import time_zones
from txlog.core.format.schema import from_arrow
from txlog.core.predicates import evaluate, parse
from txlog.errors import InvalidInputError, UnsupportedFeatureError
from txlog.spark import zone_rules
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
    "+05:30",
]
VALUES = [
    *("CAST(ts AS DATE)", "CAST(ts AS TIMESTAMP_NTZ)", "CAST(tn AS TIMESTAMP)", "CAST(dt AS TIMESTAMP)"),
    *("CAST(concat(moment, 'Z') AS TIMESTAMP)", "CAST(concat(moment, '-03:30') AS TIMESTAMP)"),
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
    *(
        "months_between(ts, tn)",
        "months_between(dt, ts, false)",
        "dateadd(HOUR, 30, ts)",
        "dateadd(DAY, weekday(dt), ts)",
    ),
    *("datediff(MONTH, ts, tn)", "datediff(HOUR, dt, ts)", "unix_timestamp(tn)", "unix_timestamp(ts)"),
    *("next_day(ts, 'MON')", "EXTRACT(DOY FROM ts)", "dt + INTERVAL 3 HOURS", "date_format(ts, 'EEE d h a')"),
    *("CASE WHEN hour(ts) < 12 THEN dt ELSE ts END", "CASE WHEN ts > tn THEN ts ELSE tn END", "ts = tn"),
]
HOURS = [datetime.datetime(2024, 3, 9) + datetime.timedelta(hours=hours) for hours in range(60)]
"""Around the night in which clocks change in New York; six hours are in a file."""
CONDITIONS = [
    "ts >= '2024-03-10 00:00:00' AND ts < '2024-03-11 00:00:00'",
    "CAST(ts AS DATE) = '2024-03-10'",
    "ts < TIMESTAMP '2024-03-10 02:30:00'",
    "ts < DATE '2024-03-10' OR hour(ts) = 3",
    "tn > TIMESTAMP '2024-03-10 02:45:00' AND tn < TIMESTAMP '2024-03-10 12:00:00'",
    "ts + INTERVAL 1 DAY < '2024-03-10 18:00:00'",
    "date_trunc('DAY', ts) = '2024-03-10'",
    "ts IN ('2024-03-09 19:00:00', TIMESTAMP '2024-03-10 05:30:00') OR ts = CAST(tn AS TIMESTAMP)",
]
"""Each finds rows in every zone whose offset is whole hours, or half an hour beside them."""
NEW = "select 1000L as id, timestamp'2024-03-10 20:00:00' as ts, timestamp_ntz'2024-03-10 20:00:00' as tn"
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
    near += [OLDEST, datetime.datetime(3, 1, 3), datetime.datetime(9997, 12, 28, 23, 59, 59, 999999)]
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
    before = datetime.datetime.now(datetime.timezone.utc)
    frame = in_zone(spark, zone).createDataFrame(rows, struct_type(ROWS))
    theirs = frame.orderBy("id").selectExpr("id", *texts).toArrow()
    after = datetime.datetime.now(datetime.timezone.utc)  # a day of the zone may have begun meanwhile
    found = []
    for number, text in enumerate(texts, 1):
        ours = evaluate(parse(text, SCHEMA, zone=zone, now=before), rows)
        expected = theirs.column(number).combine_chunks().cast(ours.type)
        if not ours.equals(expected) and "current_" in text:
            ours = evaluate(parse(text, SCHEMA, zone=zone, now=after), rows)
        if not ours.equals(expected):
            at = next(row for row in range(len(ours)) if ours[row] != expected[row])
            shown = rows.slice(at, 1).select(["ts", "tn"]).to_pylist()[0]
            found.append(f"{zone}: {text} at {shown} is {ours[at]}, and {expected[at]} in Spark")
    return found


def agreed_since(spark: SparkSession, zone: str, changes: Sequence[datetime.datetime]) -> datetime.datetime:
    """A year after the last week, or change of clocks, in which Python's database says another time than Java's."""
    first = datetime.datetime(1, 1, 1)
    if zone not in zoneinfo.available_timezones():
        return first
    weeks = [datetime.datetime(1800, 1, 1) + datetime.timedelta(weeks=number) for number in range(12_750)]
    before = [each - datetime.timedelta(seconds=1) for each in changes]
    moments = sorted(each.replace(tzinfo=datetime.timezone.utc) for each in [*weeks, *changes, *before])
    frame = in_zone(spark, zone).createDataFrame(pa.table({"ts": pa.array(moments, ROWS.field("ts").type)}))
    shown = frame.selectExpr("ts", "CAST(ts AS TIMESTAMP_NTZ) AS clock").toArrow().to_pylist()
    python = zoneinfo.ZoneInfo(zone)
    others = [row["ts"] for row in shown if row["ts"].astimezone(python).replace(tzinfo=None) != row["clock"]]
    return max(others).replace(tzinfo=None) + datetime.timedelta(days=366) if others else first


def test_expressions_have_the_values_of_spark_in_the_zone_of_the_session(spark: SparkSession) -> None:
    found = []
    for zone in ZONES:
        changes = changes_of(spark, zone)
        found += differing(spark, zone, rows_around(changes[:: max(1, len(changes) // 8)]), VALUES)
    assert not found, "\n".join(found)


ONLY_IN_QUERIES = [
    *("try_cast(clock AS TIMESTAMP)", "from_utc_timestamp(ts, 'Europe/Berlin')"),
    *("to_utc_timestamp(ts, 'Europe/Berlin')", "CAST(dt AS TIMESTAMP) - INTERVAL 1 WEEK + INTERVAL 25 HOURS"),
]


def query_values() -> list[str]:
    return [*VALUES, *ONLY_IN_QUERIES]


def differing_in_queries(spark: SparkSession, zone: str, rows: pa.Table, texts: Sequence[str], at: Path) -> list[str]:
    """The texts whose values in a query are not Spark's, each with the first row."""
    txlog.write(at, rows, mode="overwrite")
    frame = in_zone(spark, zone).createDataFrame(rows, struct_type(ROWS))
    theirs = frame.orderBy("id").selectExpr("id", *texts).toArrow()
    found = []
    for number, text in enumerate(texts, 1):
        try:
            result = txlog.sql(f"SELECT {text} AS x FROM delta.`{at}` ORDER BY id", time_zone=zone).read_all()
        except InvalidInputError as error:
            found.append(f"{zone}: {text}: {error}")
            continue
        expected = theirs.column(number).combine_chunks()
        ours = result.column(0).combine_chunks().cast(expected.type)
        if not ours.equals(expected):
            row = next(row for row in range(len(ours)) if ours[row] != expected[row])
            shown = rows.slice(row, 1).select(["ts", "tn"]).to_pylist()[0]
            found.append(f"{zone}: {text} at {shown} is {ours[row]}, and {expected[row]} in Spark")
    return found


def test_queries_have_the_values_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    found = []
    for zone in ["America/New_York", "Australia/Lord_Howe"]:
        changes = changes_of(spark, zone, 1970)
        rows = rows_around(changes[:: max(1, len(changes) // 4)])
        found += differing_in_queries(spark, zone, rows, query_values(), tmp_path / "t")
    assert not found, "\n".join(found)


@pytest.mark.hunt(part="zones")
def test_queries_have_the_values_of_spark_in_zones_of_each_kind(spark: SparkSession, tmp_path: Path) -> None:
    found = []
    for zone in [*ZONES[:-1], "America/Havana", "Africa/Casablanca", "Antarctica/Troll", "Asia/Kathmandu", "Etc/GMT-9"]:
        for at in range(0, max(1, len(changes := changes_of(spark, zone, 1950, 2027))), 40):
            rows = rows_around(changes[at : at + 40])
            found += differing_in_queries(
                spark, zone, rows, query_values(), tmp_path / f"{zone} {at}".replace("/", "-")
            )
    assert not found, "\n".join(found)


@pytest.mark.hunt(part="zones")
def test_expressions_have_the_values_of_spark_in_all_zones_around_all_changes(spark: SparkSession) -> None:
    """Where Python's database of zones says another thing than Java's (docs/guarantees.md), only what is later."""
    found = []
    known = {*spark._jvm.java.time.ZoneId.getAvailableZoneIds()}
    for zone in sorted({*ZONES, "EST", "GMT-9", "-00:01", *(zoneinfo.available_timezones() & known)}):
        changes = changes_of(spark, zone, 1800, 2045)
        agree = agreed_since(spark, zone, changes)
        for at in range(0, max(1, len(changes)), 40):
            rows = rows_around(changes[at : at + 40])
            rows = rows.filter(pc.greater(rows["ts"], pa.scalar(agree, rows["ts"].type)))
            rows = rows.set_column(0, "id", pa.array(range(len(rows))))
            found += differing(spark, zone, rows, VALUES)
    assert not found, "\n".join(found)


# --- doors --------------------------------------------------------------------------------------------------------

Door = Callable[[SparkSession, str, str], Any]
LATER = "ts = timestamp'2200-01-01 00:00:00Z'"


def _replaced(spark: SparkSession, path: str, where: str) -> None:
    rows = spark.sql(f"select * from ({NEW}) where {where}")
    save(rows, Path(path), "overwrite", replaceWhere=where)


def _streamed(spark: SparkSession, path: str, where: str) -> None:
    """Deletes what a stream with the condition reads."""
    seen: list[int] = []
    stream = spark.readStream.format("txlog").option("where", where).option("timeZone", spark.conf.get(ZONE)).load(path)
    writer = stream.writeStream.foreachBatch(lambda batch, _: seen.extend(row.id for row in batch.collect()))
    writer.option("checkpointLocation", f"{path} checkpoint").trigger(availableNow=True).start().awaitTermination()
    txlog.Table.open(path).delete(txlog.col("id").is_in(seen))


def _read(spark: SparkSession, path: str, where: str) -> None:
    frame = spark.read.format("txlog").option("where", where).option("timeZone", spark.conf.get(ZONE)).load(path)
    txlog.Table.open(path).delete(txlog.col("id").is_in([row.id for row in frame.collect()]))


def _read_natively(spark: SparkSession, path: str, where: str) -> None:
    found = [row.id for row in txlog.spark.read(spark, path, where=where).collect()]
    txlog.Table.open(path).delete(txlog.col("id").is_in(found))


def _merged(spark: SparkSession, path: str, where: str) -> None:
    merge = txlog.spark.merge(spark, path, spark.sql("select 1 as one"), "true")
    merge.when_matched_delete(where).execute()


def _in_python(spark: SparkSession, path: str, where: str) -> None:
    txlog.Table.open(path, time_zone=spark.conf.get(ZONE)).delete(where)


def _sql(text: str) -> Door:
    return lambda spark, path, where: txlog.spark.sql(spark, text.format(f"delta.`{path}`", where))


DOORS: dict[str, Door] = {
    "replaceWhere": _replaced,
    "delete": txlog.spark.delete,
    "update": lambda spark, path, where: txlog.spark.update(spark, path, {"id": txlog.expr("id + 5000")}, where),
    "merge": _merged,
    "read": _read_natively,
    "format of reads": _read,
    "format of streams": _streamed,
    "Table": _in_python,
    "SQL's DELETE": _sql("delete from {} where {}"),
    "SQL's UPDATE": _sql("update {} set id = id + 5000 where {}"),
    "SQL's MERGE": _sql("merge into {} t using (select 1 as one) s on {} when matched then delete"),
    "SQL's INSERT REPLACE WHERE": _sql(f"insert into {{0}} replace where {{1}} select * from ({NEW}) where {{1}}"),
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Files that conditions may skip, and clock times beside the instants. Made in Python, in UTC."""
    made = txlog.Table.create(tmp_path / "t", "id bigint, ts timestamp, tn timestamp_ntz")
    for first in range(0, len(HOURS), 6):
        hours = HOURS[first : first + 6]
        instants = [each.replace(tzinfo=datetime.timezone.utc) for each in hours]
        made.append(pa.table({"id": range(first, first + 6), "ts": instants, "tn": hours}))
    return tmp_path / "t"


def touched(path: Path) -> set[int]:
    """Which rows are gone, or were changed."""
    return {*range(len(HOURS))} - {*txlog.Table.open(path).to_arrow().column("id").to_pylist()}


def misses(spark: SparkSession, zone: str, table: Path, pairs: Iterable[tuple[str, str]]) -> list[str]:
    """The doors that touched other rows than Spark's filter with the same text finds in the files themselves."""
    rows = in_zone(spark, zone).createDataFrame(txlog.Table.open(table).to_arrow(), struct_type(ROWS_OF_TABLE)).cache()
    found = []
    for number, (door, where) in enumerate(pairs):
        expected = {row.id for row in rows.where(where).select("id").collect()}
        path = table.with_name(f"{zone} {number}".replace("/", "-"))
        shutil.copytree(table, path)
        DOORS[door](spark, str(path), where)
        if touched(path) != expected or not expected:
            found.append(f"{zone}: {door} with {where}: {sorted(touched(path))}, Spark's where: {sorted(expected)}")
    return found


ROWS_OF_TABLE = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("tn", pa.timestamp("us"))])


def test_each_door_touches_the_rows_that_sparks_own_filter_finds(spark: SparkSession, table: Path) -> None:
    others = {"Table", "format of reads", "SQL's UPDATE"}  # are tried elsewhere, or by the hunt
    pairs = [(door, CONDITIONS[number % len(CONDITIONS)]) for number, door in enumerate(DOORS) if door not in others]
    assert misses(spark, "America/New_York", table, pairs) == []


@pytest.mark.hunt(part="zones")
@pytest.mark.parametrize("zone", ["America/New_York", "Australia/Melbourne", "+05:30", "-11:00", "UTC"])
def test_each_door_reads_each_condition_as_spark_does(zone: str, spark: SparkSession, table: Path) -> None:
    assert misses(spark, zone, table, [(door, where) for door in DOORS for where in CONDITIONS]) == []


def test_a_time_of_a_version_is_read_in_the_zone_of_the_session(spark: SparkSession, table: Path) -> None:
    in_zone(spark, "Australia/Melbourne")
    now = datetime.datetime.now(datetime.timezone.utc).timestamp()
    versions = txlog.Table.open(table).version + 1
    for version in range(versions):
        os.utime(table / "_delta_log" / f"{version:020}.json", (now - (versions - version) * 3 * 3600,) * 2)
    after_third = datetime.datetime.fromtimestamp(now - (versions - 3) * 3 * 3600 + 3600, datetime.timezone.utc)
    (text,) = spark.createDataFrame([(after_third,)], "at timestamp").selectExpr("CAST(at AS STRING)").first()
    text, path = text.partition(".")[0], str(table)
    assert txlog.spark.read(spark, path, timestamp=text).count() == 18
    assert txlog.spark.sql(spark, f"select count(*) from delta.`{path}` timestamp as of '{text}'").first()[0] == 18
    here = spark.read.format("txlog").option("timestampAsOf", text)
    assert here.option("timeZone", "Australia/Melbourne").load(path).count() == 18
    error = refused(spark.read.format("txlog").option("timestampAsOf", text).load(path).collect)
    assert "timeZone', 'Australia/Melbourne'" in error.message
    assert (
        spark.read.format("txlog").option("timestampAsOf", f"{after_third:%Y-%m-%dT%H:%M:%SZ}").load(path).count() == 18
    )
    stream = spark.readStream.format("txlog").option("startingTimestamp", text).load(path).writeStream.format("noop")
    query = stream.option("checkpointLocation", f"{path} stream").trigger(availableNow=True).start()
    assert "timeZone', 'Australia/Melbourne'" in refused(query.awaitTermination).message
    txlog.spark.sql(spark, f"restore table delta.`{path}` to timestamp as of '{text}'")
    assert txlog.Table.open(path).to_arrow().num_rows == 18


OLD_VALUES = "spark.databricks.delta.write.utcTimestampPartitionValues"
DOORS_OF_OLD_VALUES: dict[str, Callable[[SparkSession, str], Any]] = {
    "a read": lambda spark, uri: txlog.spark.read(spark, uri),
    "a condition": lambda spark, uri: txlog.spark.read(spark, uri, where="ts > '2024-01-11'", columns=["id"]),
    "a query": lambda spark, uri: txlog.spark.sql(spark, f"SELECT * FROM delta.`{uri}` WHERE ts > '2024-01-11'"),
    "a delete": lambda spark, uri: txlog.spark.delete(spark, uri, "ts > '2024-01-11'"),
    "a delete in SQL": lambda spark, uri: txlog.spark.sql(spark, f"DELETE FROM delta.`{uri}` WHERE ts > '2024-01-11'"),
    "an update": lambda spark, uri: txlog.spark.update(spark, uri, {"id": txlog.expr("id + 1")}),
    "optimize": lambda spark, uri: txlog.spark.optimize(spark, uri),
}


def test_partition_values_that_spark_reads_in_the_zone_of_the_session_are_refused_but_where_that_is_utc(
    delta: SparkSession, read_delta: Callable[..., Any], tmp_path: Path
) -> None:
    """Spark's Delta wrote them without their zone, and still does if a setting says so."""
    uri, later = str(tmp_path / "old"), "ts > '2024-01-11'"
    delta.conf.set(OLD_VALUES, "false")
    delta.conf.set(ZONE, "+05:30")
    rows = delta.sql("SELECT id, TIMESTAMP '2024-01-10 23:30:00' + make_interval(0, 0, 0, id) AS ts FROM range(2)")
    rows.write.format("delta").partitionBy("ts").save(uri)
    assert read_delta(uri).where(later).count() == 1
    for door in DOORS_OF_OLD_VALUES.values():
        with pytest.raises(UnsupportedFeatureError, match="a timestamp without a zone"):
            door(delta, uri)
    delta.conf.set(ZONE, "UTC")
    assert sorted(txlog.spark.read(delta, uri).collect()) == sorted(read_delta(uri).collect())
    assert txlog.spark.delete(delta, uri, later).metrics.rows_deleted == 1


def test_a_session_that_sets_no_zone_has_that_of_its_java(spark: SparkSession, table: Path) -> None:
    """A task does not see a setting that nobody made."""
    rows = spark.createDataFrame(txlog.Table.open(table).to_arrow(), struct_type(ROWS_OF_TABLE))
    spark.conf.unset(ZONE)
    expected = {row.id for row in rows.where(CONDITIONS[0]).select("id").collect()}
    _replaced(spark, str(table), CONDITIONS[0])
    assert touched(table) == expected != set()


# --- databases of different years ---------------------------------------------------------------------------------


@pytest.fixture
def old_zone(tmp_path: Path) -> Iterator[str]:
    """A zone of which Python knows the rules of some years ago, when it had summer time. Java knows the end of that."""

    def forget() -> None:
        zoneinfo.ZoneInfo.clear_cache()
        for cache in (time_zones._zone, time_zones._day):
            cache.cache_clear()
        for known in (time_zones._doubts, zone_rules._known):
            known.clear()

    before, old = zoneinfo.TZPATH, tmp_path / "zones"
    (old / "America").mkdir(parents=True)
    (here,) = [folder for folder in map(Path, before) if (folder / "America/Chicago").exists()][:1]
    shutil.copy(here / "America/Chicago", old / "America/Mexico_City")
    zoneinfo.reset_tzpath([old, *before])
    forget()
    yield "America/Mexico_City"
    zoneinfo.reset_tzpath(before)
    forget()


def test_times_for_which_java_has_other_rules_than_python_are_refused_and_all_others_are_as_in_spark(
    spark: SparkSession, table: Path, old_zone: str
) -> None:
    in_summer, in_winter = "ts >= '2024-03-10 12:00:00'", "ts >= '2024-03-09 04:00:00' AND id % 7 = 1"
    doors = {"delete": in_summer, "read": in_summer, "SQL's DELETE": in_summer, "merge": "hour(ts) = 7"}
    by_python = txlog.Table.open(table, time_zone=old_zone).to_arrow(where=in_summer)
    rows = in_zone(spark, old_zone).createDataFrame(txlog.Table.open(table).to_arrow(), struct_type(ROWS_OF_TABLE))
    assert rows.where(in_summer).count() != by_python.num_rows
    for door, where in doors.items():
        with pytest.raises(InvalidInputError, match=r"rules of America/Mexico_City\. Java and Python"):
            DOORS[door](spark, str(table), where)
    assert touched(table) == set()
    assert misses(spark, old_zone, table, [(door, in_winter) for door in doors]) == []
