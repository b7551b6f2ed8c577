"""`txlog changes`: the rows that versions changed, as a table and as JSON."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

import txlog
from txlog.cli.app import app

FEED = {"delta.enableChangeDataFeed": "true"}


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(app, ["changes", *map(str, arguments)])


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    made = txlog.Table.create(str(tmp_path / "t"), "id int, price decimal(5,2), body binary", properties=FEED)
    made.append(pa.table({"id": [1, 2], "price": [Decimal("1.50"), None], "body": [b"\x01", None]}, made.schema))
    made.overwrite(pa.table({"id": range(150)}).cast(pa.schema([("id", pa.int32())])), schema_mode="merge")
    return made


def test_changes_prints_its_rows_as_one_json_document(table: txlog.Table) -> None:
    reported = json.loads(run(table.uri, "--from", 1, "--to", 1, "--json").stdout)
    assert [(row["id"], row["price"], row["body"]) for row in reported] == [(1, "1.50", "01"), (2, None, None)]
    assert {(row["_change_type"], row["_commit_version"]) for row in reported} == {("insert", 1)}
    assert reported[0]["_commit_timestamp"].endswith("+00:00")
    assert len(json.loads(run(table.uri, "--from", 0, "--json").stdout)) == 2 + 2 + 150


def test_changes_prints_the_first_rows_and_whether_there_are_more(table: txlog.Table) -> None:
    shown = run(table.uri, "--from", 1, "--columns", "id", "--where", "_change_type = 'delete'").stdout
    assert "_change_type" in shown
    assert [line.split()[:2] for line in shown.splitlines()[1:]] == [["1", "delete"], ["2", "delete"]]
    assert "more than 100 rows" in run(table.uri, "--from", 2, "--columns", "id").stdout
    assert "more than 3 rows" in run(table.uri, "--from", 1, "-n", 3).stdout
    assert run(table.uri, "--from", 3).stdout.strip() == "no changes"


def test_dates_beyond_pythons_years_are_text(tmp_path: Path) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), "d date, at timestamp", properties=FEED)
    late = pa.table([pa.array([3_000_000, 0], pa.int32()), pa.array([253_402_300_800_000_000, 0])], ["d", "at"])
    table.append(late.cast(pa.schema([("d", pa.date32()), ("at", pa.timestamp("us", "UTC"))])))
    reported = json.loads(run(table.uri, "--from", 1, "--json").stdout)
    shown = [("+10183-09-21", "+10000-01-01T00:00:00+00:00"), ("1970-01-01", "1970-01-01T00:00:00+00:00")]
    assert [(row["d"], row["at"]) for row in reported] == shown
    assert [tuple(line.split()[:2]) for line in run(table.uri, "--from", 1).stdout.splitlines()[1:]] == shown


def test_a_version_without_the_feed_is_an_error(tmp_path: Path) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), "id int")
    failed = run(table.uri, "--from", 0, "--json")
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["error"]["kind"] == "InvalidInputError"
    assert run(table.uri).exit_code == 2
