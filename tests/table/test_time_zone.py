"""``time_zone=``: every door of a handle reads times without a zone in it. Python's datetimes say which are meant."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import txlog
from txlog.errors import InvalidInputError, UnsupportedFeatureError

ZONE = "America/New_York"
BEGIN = datetime(2024, 3, 9, tzinfo=timezone.utc)  # the day before clocks change there
HOURS = [BEGIN + timedelta(hours=hours) for hours in range(72)]


def clock(moment: datetime) -> datetime:
    return moment.astimezone(ZoneInfo(ZONE)).replace(tzinfo=None)


SUNDAY = {at for at, moment in enumerate(HOURS) if clock(moment).date() == date(2024, 3, 10)}
"""The rows of a day that has 23 hours there."""

OF_SUNDAY = [
    "ts >= '2024-03-10 00:00:00' AND ts < '2024-03-11 00:00:00'",
    "ts >= DATE '2024-03-10' AND ts < TIMESTAMP '2024-03-11'",
    "CAST(ts AS DATE) = '2024-03-10'",
    "date_trunc('DAY', ts) = '2024-03-10'",
    "date_format(ts, 'MM-dd') = '03-10'",
    (txlog.col("ts") >= datetime(2024, 3, 10)) & (txlog.col("ts") < "2024-03-11 00:00:00"),
]


def ids(table: Any, where: Any = None) -> set[int]:
    return {*table.to_arrow(where=where).column("id").to_pylist()}


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    """Some rows in each of several files, which conditions may skip."""
    made = txlog.Table.create(tmp_path / "t", "id bigint, ts timestamp, tn timestamp_ntz", time_zone=ZONE)
    for first in range(0, 72, 8):
        rows = {
            "id": range(first, first + 8),
            "ts": HOURS[first : first + 8],
            "tn": [*map(clock, HOURS[first : first + 8])],
        }
        made.append(
            pa.table(rows, pa.schema([("id", "int64"), ("ts", pa.timestamp("us", "UTC")), ("tn", pa.timestamp("us"))]))
        )
    return made


@pytest.mark.parametrize("where", OF_SUNDAY, ids=str)
def test_a_condition_means_the_day_of_the_zone_in_reads_and_deletes(where: Any, table: txlog.Table) -> None:
    assert ids(table, where) == SUNDAY
    assert ids(table.snapshot(), where) == SUNDAY
    assert {row["id"] for batch in table.follow(0, where=where) for row in batch.rows.to_pylist()} == SUNDAY
    with table.transaction() as transaction:
        assert set(transaction.read(where=where).column("id").to_pylist()) == SUNDAY
    table.delete(where)
    assert ids(table) == {*range(72)} - SUNDAY


def test_the_same_text_means_another_day_in_utc(table: txlog.Table) -> None:
    assert ids(txlog.Table.open(table.uri), OF_SUNDAY[0]) == {*range(24, 48)} != SUNDAY


def test_a_handle_keeps_its_zone_in_another_process_and_so_does_a_snapshot(table: txlog.Table) -> None:
    for kept in (table, table.snapshot()):
        assert ids(pickle.loads(pickle.dumps(kept)), OF_SUNDAY[0]) == SUNDAY


@pytest.mark.parametrize("workers", [None, 2])
def test_updates_and_merges_read_conditions_and_values_in_the_zone(workers: int | None, table: txlog.Table) -> None:
    places = None if workers is None else ThreadPoolExecutor(workers)
    table.update({"ts": txlog.expr("TIMESTAMP '2024-07-01 00:00:00'")}, OF_SUNDAY[0], workers=places)
    july = datetime(2024, 7, 1, 4, tzinfo=timezone.utc)
    assert ids(table, txlog.col("ts") == july) == SUNDAY
    days = pa.table({"d": [date(2024, 3, 11)]})
    merge = table.merge(days, "CAST(target.ts AS DATE) = source.d", workers=places)
    monday = {at for at, moment in enumerate(HOURS) if clock(moment).date() == date(2024, 3, 11)}
    assert merge.when_matched_update({"ts": txlog.expr("source.d")}).execute().metrics.rows_updated == len(monday)
    assert ids(table, txlog.col("ts") == datetime(2024, 3, 11, 4, tzinfo=timezone.utc)) == monday
    table.update({"ts": datetime(2024, 1, 1)}, "id = 0")
    table.update({"ts": txlog.lit(datetime(2024, 1, 1))}, "id = 1")
    assert ids(table, txlog.col("ts") == datetime(2024, 1, 1, 5, tzinfo=timezone.utc)) == {0, 1}


def test_an_overwrite_replaces_the_day_of_the_zone_and_refuses_rows_of_another(table: txlog.Table) -> None:
    late = datetime(2024, 3, 11, 3, 59, tzinfo=timezone.utc)
    rows = pa.table({"id": [100], "ts": [late], "tn": [clock(late)]})
    table.overwrite(rows, where=OF_SUNDAY[0])
    assert ids(table) == {*range(72)} - SUNDAY | {100}
    with pytest.raises(InvalidInputError, match="outside the part"):
        table.overwrite(rows.set_column(1, "ts", pa.array([late + timedelta(minutes=1)])), where=OF_SUNDAY[0])


def test_times_of_versions_are_read_in_the_zone(table: txlog.Table) -> None:
    times = [each["timestamp"] for each in table.history()]
    for moment in (clock(times[3]), clock(times[3]).isoformat()):
        assert table.snapshot(timestamp=moment).version == table.history()[3]["version"]
    tomorrow = times[0].astimezone(ZoneInfo(ZONE)).date() + timedelta(days=1)
    assert table.snapshot(timestamp=tomorrow).version == table.version


def test_generated_columns_defaults_and_constraints_are_computed_in_the_zone_of_the_writer(tmp_path: Path) -> None:
    columns = (
        "id bigint, ts timestamp, day date GENERATED ALWAYS AS (CAST(ts AS DATE)),"
        " at timestamp DEFAULT TIMESTAMP '2024-01-01 00:00:00'"
    )
    here = txlog.Table.create(tmp_path / "t", columns, partition_by="day", time_zone=ZONE)
    here.add_constraint("noon", "hour(ts) <= 12")
    noon = datetime(2024, 1, 2, 17, tzinfo=timezone.utc)
    rows = pa.table({"id": [1, 2], "ts": [noon, noon - timedelta(hours=14)]})
    here.append(rows.slice(0, 1))
    with pytest.raises(InvalidInputError, match="noon"):
        here.append(rows.slice(1, 1))
    there = txlog.Table.open(tmp_path / "t")
    with pytest.raises(InvalidInputError, match="noon"):
        there.append(rows.slice(0, 1))
    there.append(rows.slice(1, 1))
    found = sorted(here.to_arrow().to_pylist(), key=lambda row: int(row["id"]))
    assert [row["day"] for row in found] == [date(2024, 1, 2), date(2024, 1, 2)]
    assert [row["at"].hour for row in found] == [5, 0]
    with pytest.raises(InvalidInputError, match=f"times are in {ZONE}, the time_zone of this writer"):
        here.update({"id": txlog.expr("id + 10")}, "id = 2")
    here.drop_constraint("noon")
    here.update({"id": txlog.expr("id + 10")})  # sets no column of the expression: the rows keep what they have
    assert {row["day"] for row in here.to_arrow().to_pylist()} == {date(2024, 1, 2)}
    with pytest.raises(InvalidInputError, match=f"times are in {ZONE}"):
        here.append(rows.slice(0, 1).append_column("day", pa.array([date(2024, 1, 1)])))


def test_a_clock_column_is_compared_with_an_instant_as_an_instant(table: txlog.Table) -> None:
    """In the hour that no clock shows, a later time of the clock may be an earlier instant, as Spark has it."""
    clocks = [datetime.fromisoformat(f"2024-03-10 {each}") for each in ("02:15", "02:45", "03:10", "03:50")]
    table.overwrite(pa.table({"id": range(4), "ts": [BEGIN] * 4, "tn": clocks}))
    assert ids(table, "tn > TIMESTAMP '2024-03-10 03:30:00'") == {1, 3}
    assert ids(table, "tn = TIMESTAMP '2024-03-10 03:10:00'") == {2}
    assert ids(table, "tn IN (TIMESTAMP '2024-03-10 03:15:00')") == {0}
    assert ids(table, "tn > '2024-03-10 02:30:00'") == {1, 2, 3}  # as a string, it is a time of the clock


@pytest.mark.parametrize("zone", ["Mars/Olympus", "+25:00", None])
def test_a_zone_that_does_not_exist_is_refused_at_each_door(zone: Any, tmp_path: Path) -> None:
    txlog.Table.create(tmp_path / "t", "id bigint")
    doors: tuple[Callable[[], object], ...] = (
        lambda: txlog.Table.open(tmp_path / "t", time_zone=zone),
        lambda: txlog.Table.create(tmp_path / "new", "id bigint", time_zone=zone),
        lambda: txlog.write(tmp_path / "t", pa.table({"id": [1]}), time_zone=zone),
        lambda: txlog.sql("select 1", time_zone=zone),
    )
    for door in doors:
        with pytest.raises(InvalidInputError, match="Invalid time_zone"):
            door()
    assert not (tmp_path / "new").exists()


def test_an_interval_of_days_keeps_the_time_that_a_clock_shows(table: txlog.Table) -> None:
    """On the night in between, clocks go forward: the two noons are 23 hours apart."""
    noon = {at for at, moment in enumerate(HOURS) if clock(moment) == datetime(2024, 3, 9, 12)}
    assert ids(table, "ts + INTERVAL 1 DAY = '2024-03-10 12:00:00'") == noon
    assert ids(table, "ts + INTERVAL 23 HOURS = '2024-03-10 12:00:00'") == noon
    following = {at for at, moment in enumerate(HOURS) if clock(moment) == datetime(2024, 3, 10, 12)}
    assert ids(table, "ts - INTERVAL 1 DAY = '2024-03-09 12:00:00'") == following


# --- partition values without a zone --------------------------------------------------------------------------------


OLD_TEXTS = {"2024-01-10T23:30:00.000000Z": "2024-01-10 23:30:00", "2024-07-10T23:30:00.000000Z": "2024-07-10 23:30:00"}


@pytest.fixture(params=["logged", "checkpointed"])
def old_table(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A table that is partitioned by timestamps, as Delta wrote it before it stored their zone."""
    uri = str(tmp_path / "old")
    moments = [datetime.fromisoformat(text) for text in ("2024-01-10T23:30:00+00:00", "2024-07-10T23:30:00+00:00")]
    rows = pa.table({"id": [1, 2], "ts": pa.array(moments, pa.timestamp("us", "UTC"))})
    table = txlog.Table.create(uri, rows.schema, partition_by=["ts"])
    table.append(rows)
    log = tmp_path / "old" / "_delta_log" / f"{1:020}.json"
    body = log.read_text()
    for text, old in OLD_TEXTS.items():
        assert f'"ts":"{text}"' in body
        body = body.replace(f'"ts":"{text}"', f'"ts":"{old}"')
    log.write_text(body)
    for checksum in log.parent.glob("*.crc"):
        checksum.unlink()
    if request.param == "checkpointed":
        txlog.Table.open(uri).create_checkpoint()
    return uri


WHERE = "ts >= '2024-07-10 12:00:00'"
NEW = pa.table(
    {"id": [3], "ts": pa.array([datetime(2024, 7, 10, 23, 30, tzinfo=timezone.utc)], pa.timestamp("us", "UTC"))}
)
DOORS_OF_OLD_VALUES: dict[str, Callable[[txlog.Table], Any]] = {
    "a condition": lambda table: table.to_arrow(["id"], where=WHERE),
    "all columns": lambda table: table.to_arrow(),
    "a query": lambda table: txlog.sql(f"SELECT * FROM delta.`{table.uri}` WHERE {WHERE}", time_zone=ZONE).read_all(),
    "a delete": lambda table: table.delete(WHERE),
    "a delete in SQL": lambda table: txlog.sql(f"DELETE FROM delta.`{table.uri}` WHERE {WHERE}", time_zone=ZONE),
    "a delete in a transaction": lambda table: _delete_in_a_transaction(table),
    "an update": lambda table: table.update({"id": 7}, "id = 1"),
    "an upsert": lambda table: table.upsert(NEW, ["id"]),
    "a merge": lambda table: table.merge(NEW, ["id"]).when_matched_delete().execute(),
    "an overwrite of rows": lambda table: table.overwrite(NEW, where=WHERE),
    "an overwrite of partitions": lambda table: table.overwrite_partitions(NEW),
    "optimize": lambda table: table.optimize(),
    "optimize of partitions": lambda table: table.optimize(where=WHERE),
}


def _delete_in_a_transaction(table: txlog.Table) -> None:
    with table.transaction() as transaction:
        transaction.delete(WHERE)


@pytest.mark.parametrize("door", DOORS_OF_OLD_VALUES)
def test_a_partition_value_without_a_zone_is_refused_in_a_zone_that_reads_another_instant(
    door: str, old_table: str
) -> None:
    with pytest.raises(UnsupportedFeatureError, match="a timestamp without a zone") as caught:
        DOORS_OF_OLD_VALUES[door](txlog.Table.open(old_table, time_zone=ZONE))
    assert caught.value.path in str(caught.value)
    assert ZONE in str(caught.value)
    assert txlog.Table.open(old_table).snapshot().version == 1


def test_a_partition_value_without_a_zone_is_read_in_utc(old_table: str) -> None:
    table = txlog.Table.open(old_table)
    assert table.to_arrow(["id"], where=WHERE)["id"].to_pylist() == [2]
    assert table.delete(WHERE).version == 2


def test_a_zone_without_other_instants_and_columns_without_partition_values_are_free(old_table: str) -> None:
    txlog.Table.open(old_table).delete("id = 2")
    assert txlog.Table.open(old_table, time_zone="Europe/London").delete("id = 1").version == 3  # UTC in winter
    abroad = txlog.Table.open(old_table, time_zone=ZONE)
    assert abroad.to_arrow(["id"], where="id > 0").num_rows == 0
    assert abroad.append(NEW).version == 4
