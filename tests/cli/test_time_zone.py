"""`txlog --time-zone`: the zone of times without one, for every command."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

import txlog
from txlog.cli.app import app

HOURS = [datetime.datetime(2024, 1, 1, hour, tzinfo=datetime.timezone.utc) for hour in range(24)]
OF_BERLIN = "at < '2024-01-01 03:00:00'"


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    txlog.write(path, pa.table({"hour": range(24), "at": HOURS}))
    return path


def run(*arguments: object, zone: str = "Europe/Berlin", **environment: str) -> Result:
    given = ["--time-zone", zone] if zone else []
    return CliRunner().invoke(app, [*given, *map(str, arguments)], env=environment)


def left(table: str) -> list[int]:
    return sorted(txlog.Table.open(table).to_arrow().column("hour").to_pylist())


def test_a_condition_is_read_in_the_zone(table: str) -> None:
    assert run("delete", table, "--where", OF_BERLIN).exit_code == 0
    assert left(table) == [*range(2, 24)]
    assert run("delete", table, "--where", OF_BERLIN, zone="").exit_code == 0
    assert left(table) == [*range(3, 24)]  # and in UTC without the option


def test_the_environment_may_name_the_zone(table: str) -> None:
    assert (
        run(
            "update", table, "--set", "hour=hour + 100", "--where", OF_BERLIN, zone="", TXLOG_TIME_ZONE="+01:00"
        ).exit_code
        == 0
    )
    assert left(table) == [*range(2, 24), 100, 101]


def test_queries_and_statements_of_sql_agree(table: str) -> None:
    counted = run("sql", f"select count(*) as n from delta.`{table}` where {OF_BERLIN}", "--json")
    assert json.loads(counted.stdout)["rows"] == [[2]]
    assert run("sql", f"delete from delta.`{table}` where {OF_BERLIN}").exit_code == 0
    assert left(table) == [*range(2, 24)]


def test_the_time_of_a_version_is_read_in_the_zone(table: str) -> None:
    txlog.Table.open(table).delete("hour = 0")
    since = txlog.Table.open(table).snapshot(0).timestamp.timestamp()
    clock = datetime.datetime.fromtimestamp(since, datetime.timezone(datetime.timedelta(hours=9)))
    shown = run("show", table, "--timestamp", clock.replace(tzinfo=None).isoformat(), "--json", zone="Asia/Tokyo")
    assert json.loads(shown.stdout)["rows"] == 24


def test_the_zone_may_stand_before_or_after_the_command(table: str) -> None:
    for version, (before, after) in enumerate([(["--time-zone", "Europe/Berlin"], []), ([], ["--time-zone=+01:00"])]):
        done = run(*before, "delete", table, *after, "--where", f"{OF_BERLIN} AND hour = {version}", zone="")
        assert done.exit_code == 0, done.output
        assert version not in left(table)
    counted = run(
        "sql", f"select count(*) as n from delta.`{table}` where {OF_BERLIN}", "--time-zone", "+02:00", zone=""
    )
    assert counted.exit_code == 0
    assert run("sql", "--", "--time-zone", zone="").exit_code == 1, "what follows -- is no option"
    lacking = run("history", table, "--time-zone", zone="")
    assert (lacking.exit_code, "'--time-zone' requires an argument" in lacking.output) == (2, True)


def test_an_unknown_zone_of_the_environment_is_named_by_its_variable(table: str) -> None:
    failed = run("history", table, zone="", TXLOG_TIME_ZONE="Mars/Olympus")
    assert "Invalid TXLOG_TIME_ZONE 'Mars/Olympus'" in failed.output
    failed = run("history", table, zone="Mars/Olympus", TXLOG_TIME_ZONE="UTC")
    assert "Invalid --time-zone 'Mars/Olympus'" in failed.output, "the option goes before the variable"


def test_an_unknown_zone_is_a_typed_error(table: str) -> None:
    failed = run("history", table, zone="Mars/Olympus")
    assert failed.exit_code == 1
    assert "Invalid --time-zone 'Mars/Olympus'" in failed.output


def test_a_preview_refuses_partition_values_that_mean_other_instants_in_the_zone(tmp_path: Path) -> None:
    uri = str(tmp_path / "old")
    txlog.write(uri, pa.table({"hour": [0], "at": HOURS[:1]}), partition_by=["at"])
    log = tmp_path / "old" / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('"at":"2024-01-01T00:00:00.000000Z"', '"at":"2024-01-01 00:00:00"'))
    for checksum in log.parent.glob("*.crc"):
        checksum.unlink()
    assert run("delete", uri, "--where", OF_BERLIN, "--dry-run", zone="UTC").exit_code == 0
    refused = run("delete", uri, "--where", OF_BERLIN, "--dry-run")
    assert refused.exit_code != 0
    assert "a timestamp without a zone" in " ".join(refused.output.split())
