"""`txlog sinks` and `txlog staging`: what an operator sees, in text and in JSON, and what is cleaned."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

import txlog
from txlog.cli.app import app
from txlog.result import in_milliseconds

SCHEMA = pa.schema([("id", pa.int64())])


def cli(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def table(make_table: Callable[..., txlog.Table]) -> txlog.Table:
    """Checkpoint 1 committed, 2 sealed, 3 partial."""
    table = make_table(schema=SCHEMA)
    sink = txlog.Sink(table, "orders/ü [1]")
    for checkpoint_id in (1, 2, 3):
        with sink.task(checkpoint_id, 7) as task:
            task.write(pa.table({"id": range(1500)}, schema=SCHEMA))
        sink.stage(task.committable)
        if checkpoint_id < 3:
            sink.prepare(checkpoint_id, [7])
    sink.commit(1)
    return table


def test_the_applications_of_a_table_are_listed(table: txlog.Table) -> None:
    shown = cli("sinks", table.uri)
    assert shown.exit_code == 0, shown.output
    state, line = shown.stdout.splitlines()
    assert state.split() == ["app_id", "checkpoint", "time", "(UTC)", "version", "rows"]
    assert line.startswith("orders/ü [1]")
    assert line.split()[-2:] == ["1", "1,500"]
    (facts,) = json.loads(cli("sinks", table.uri, "--json").stdout)
    assert (facts["app_id"], facts["checkpoint_id"], facts["version"], facts["rows"]) == ("orders/ü [1]", 1, 1, 1500)
    assert abs(facts["timestamp_ms"] - in_milliseconds(table.history(1)[0]["timestamp"])) < 10_000


def test_a_table_without_applications_says_so(tmp_path: Path) -> None:
    txlog.Table.create(tmp_path / "t", SCHEMA)
    assert cli("sinks", tmp_path / "t").stdout == "no application has written here with an app_id\n"
    assert cli("staging", tmp_path / "t").stdout == "nothing is staged\n"
    assert cli("staging", tmp_path / "t", "--clean").stdout == "removed nothing\n"
    assert json.loads(cli("staging", tmp_path / "t", "--json").stdout) == []


def test_staged_checkpoints_are_listed_and_unsealed_ones_are_cleaned(table: txlog.Table) -> None:
    lines = cli("staging", table.uri).stdout.splitlines()
    assert lines[1].split()[2:6] == ["2", "sealed", "append", "1"]
    assert lines[2].split()[2:5] == ["3", "partial", "1"]
    assert lines[-1] == "2 checkpoints"
    facts = json.loads(cli("staging", table.uri, "--json").stdout)
    assert [(each["checkpoint_id"], each["state"], each["mode"], each["rows"]) for each in facts] == [
        (2, "sealed", "append", 1500),
        (3, "partial", None, None),
    ]
    assert cli("staging", table.uri, "--clean").stdout == "removed nothing\n"
    for path in Path(table.uri, "_txlog").rglob("*"):
        os.utime(path, (0, 0))
    assert "would remove 1 checkpoint" in cli("staging", table.uri, "--clean", "--dry-run").stdout
    (gone,) = json.loads(cli("staging", table.uri, "--clean", "--older-than", 2, "--json").stdout)
    assert gone["checkpoint_id"] == 3
    assert [path.name for path in Path(table.uri, "_txlog", "staging").iterdir() if ".task." in path.name] == [
        facts[0]["names"][1]
    ]
    assert txlog.Sink(table, "orders/ü [1]").recover().partial == {}


def test_contradicting_options_are_refused(table: txlog.Table, tmp_path: Path) -> None:
    assert cli("staging", table.uri, "--dry-run").exit_code == 2
    assert cli("staging", table.uri, "--clean", "--older-than", 0.5).exit_code == 2
    for command in ("sinks", "staging"):
        absent = cli(command, tmp_path / "absent", "--json")
        assert absent.exit_code == 1
        assert json.loads(absent.stdout)["error"]["kind"] == "TableNotFoundError"


def test_a_checkpoint_that_nothing_is_staged_for_is_given_up_only_if_that_is_meant(table: txlog.Table) -> None:
    """A mistyped number would skip every checkpoint below it, and a mistyped name make an application."""
    for app_id, checkpoint_id, others in (("orders/ü [1]", 30, "staged are 2, 3"), ("order", 2, "has staged nothing")):
        done = cli("abandon", table.uri, "--app-id", app_id, "--checkpoint-id", checkpoint_id)
        assert done.exit_code == 1
        assert others in done.stderr
        assert "--unstaged" in done.stderr
    assert table.version == 1
    assert cli("abandon", table.uri, "--app-id", "orders/ü [1]", "--checkpoint-id", 2).exit_code == 0
    anyway = cli("abandon", table.uri, "--app-id", "order", "--checkpoint-id", 2, "--unstaged")
    again = cli("abandon", table.uri, "--app-id", "order", "--checkpoint-id", 2)
    assert "given up" in anyway.stdout
    assert "already in the table" in again.stdout
    assert table.version == 3
