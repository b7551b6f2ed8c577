"""The commands that change columns: each does what the method of its name does, and says what it did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import txlog
from txlog.cli.app import app


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, [*arguments])
    assert done.exit_code == code, done.output + done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture
def uri(tmp_path: Path) -> str:
    place = str(tmp_path / "t")
    columns = "id int, note string, place struct<city: string, zip: string>"
    run("create", place, "--columns", columns, "--column-mapping", "name")
    table = txlog.Table.open(place)
    table.append(pa.Table.from_pylist([{"id": 1, "note": "n", "place": {"city": "Rome", "zip": "1"}}], table.schema))
    return place


def test_columns_are_renamed_dropped_and_altered(uri: str) -> None:
    assert "version 2: note is now remark" in run("rename-column", uri, "note", "remark").replace("\n", " ")
    assert "dropped place.zip" in run("drop-columns", uri, "place.zip").replace("\n", " ")
    run("set", uri, "delta.enableTypeWidening=true")
    run("alter-column", uri, "id", "--type", "bigint", "--not-null", "--comment", "the key", "--after", "remark")
    run("alter-column", uri, "remark", "--default", "'none'", "--first")
    assert "nothing to change" in run("alter-column", uri, "id", "--not-null").replace("\n", " ")
    run("alter-column", uri, "id", "--nullable")
    run("add-columns", uri, "day date, place struct<country: string>")
    table = txlog.Table.open(uri)
    assert table.schema.names == ["remark", "id", "place", "day"]
    assert table.schema.field("id").type == pa.int64()
    assert table.to_arrow().to_pylist() == [
        {"remark": "n", "id": 1, "place": {"city": "Rome", "country": None}, "day": None}
    ]


def test_the_result_in_json_has_the_version_and_the_notes(uri: str) -> None:
    found: dict[str, Any] = json.loads(run("rename-column", uri, "note", "remark", "--json"))
    assert found == {"table": uri, "version": 2, "changed": True}
    found = json.loads(run("set", uri, "delta.enableTypeWidening=true", "--json"))
    assert "Readers need typeWidening" in found["notes"][0]


def test_an_error_says_which_command_to_run(tmp_path: Path) -> None:
    place = str(tmp_path / "plain")
    run("create", place, "--columns", "id int, v int")
    told = " ".join(run("rename-column", place, "id", "key", code=1).split())
    assert "txlog set URI delta.columnMapping.mode=name" in told
    assert "nulls without an error" in told
    told = " ".join(run("alter-column", place, "id", "--type", "bigint", code=1).split())
    assert "txlog set URI delta.enableTypeWidening=true" in told
    run("alter-column", place, "id", code=1)
    run("set-description", place, code=2)


def test_the_description_of_a_table_is_set_and_removed(uri: str) -> None:
    run("set-description", uri, "all orders", "--name", "orders")
    metadata = txlog.Table.open(uri)._open_table.log.newest_state().metadata
    assert (metadata.description, metadata.name) == ("all orders", "orders")
    run("set-description", uri, "")
    assert txlog.Table.open(uri)._open_table.log.newest_state().metadata.description is None


def test_the_history_shows_what_was_changed(uri: str) -> None:
    run("rename-column", uri, "place.city", "town")
    run("alter-column", uri, "place.town", "--comment", "x")
    shown = run("history", uri)
    assert "RENAME COLUMN place.city to place.town" in shown
    assert "CHANGE COLUMN place.town" in shown
