"""`txlog set`: properties of a table are set and unset, and wrong calls are explained."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

import txlog
from txlog.cli.app import app


@pytest.fixture
def table(make_table: Callable[..., txlog.Table]) -> Path:
    return Path(make_table(pa.table({"id": [1]})).uri)


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def properties(table: Path) -> dict[str, str]:
    return dict(txlog.Table.open(table).snapshot().properties)


def test_properties_are_set_and_unset(table: Path) -> None:
    before = txlog.Table.open(table).version
    done = run("set", table, "delta.appendOnly=true", "team=a=b", "--user-metadata", "why")
    assert done.exit_code == 0, done.output
    assert f"is at version {before + 1}" in done.stdout
    assert "delta.appendOnly=true" in done.stdout
    assert properties(table) == {"delta.appendOnly": "true", "team": "a=b"}
    assert txlog.Table.open(table).history(1)[0]["userMetadata"] == "why"
    done = run("set", table, "--unset", "team", "delta.appendOnly=false", "--json")
    found = json.loads(done.stdout)
    assert found == {"table": str(table), "version": before + 3, "properties": {"delta.appendOnly": "false"}}
    assert run("set", table, "--unset", "delta.appendOnly").exit_code == 0
    assert properties(table) == {}


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        ((), 2, "pass KEY=VALUE"),
        (("delta.appendOnly",), 2, "KEY=VALUE"),
        (("team=a", "--unset", "team"), 2, "both set and unset"),
        (("delta.appendOnly=perhaps",), 1, "delta.appendOnly"),
        (("--unset", "team"), 1, "not set"),
        (("delta.appendOnly=true", "--unset", "team"), 1, "property 'team' is not set; the table has: none"),
    ],
)
def test_set_with_wrong_arguments_says_what_to_give(
    table: Path, arguments: tuple[str, ...], exit_code: int, said: str
) -> None:
    before = txlog.Table.open(table).version
    done = run("set", table, *arguments)
    assert done.exit_code == exit_code
    assert said in " ".join(done.output.split())
    assert txlog.Table.open(table).version == before


@pytest.mark.parametrize("tried", ["alter", "config", "unset", "properties"])
def test_commands_with_similar_names_suggest_txlog_set(tried: str) -> None:
    assert "txlog set" in " ".join(run(tried, "x").output.split())


def test_errors_of_a_column_change_name_options(table: Path) -> None:
    done = run("alter-column", table, "id", "--first", "--after", "id")
    assert done.exit_code == 1
    assert "pass --first or --after, not both" in " ".join(done.stderr.split())
    done = run("alter-column", table, "id")
    assert "pass one of --type, --nullable, --comment, --default, --first, --after" in " ".join(done.stderr.split())
