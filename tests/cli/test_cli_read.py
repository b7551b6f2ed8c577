"""`txlog head` and `txlog count`, and what other commands say about the number of rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

import txlog
from txlog.cli.app import app

ROWS = pa.table({"id": list(range(20)), "day": ["mon", "tue"] * 10, "amount": [None, *range(1, 20)]})
VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.fixture
def table(make_table: Callable[..., txlog.Table]) -> txlog.Table:
    """Two files; five rows are marked as deleted."""
    table = make_table(ROWS, partition_by=["day"], properties=VECTORS)
    table.delete("id < 5")
    return table


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_head_shows_rows_in_a_table_and_all_values_as_json(table: txlog.Table) -> None:
    shown = run("head", table.uri, "-n", 2, "--columns", "id,amount", "--where", "day = 'tue'").stdout.splitlines()
    assert [line.split() for line in shown] == [["id", "amount"], ["5", "5"], ["7", "7"]]
    found = json.loads(run("head", table.uri, "--json", "-n", 100, "--version", 0).stdout)
    assert sorted(found, key=lambda row: row["id"]) == ROWS.to_pylist()
    assert run("head", table.uri, "--where", "id > 99").stdout.splitlines()[-1] == "no rows"
    assert len(run("head", table.uri).stdout.splitlines()) == 11
    assert "null" in run("head", table.uri, "--version", 0, "--where", "id = 0").stdout


def test_count_says_how_many_rows_a_version_has_and_which_match(table: txlog.Table) -> None:
    rows = duckdb.from_arrow(table.to_arrow())
    for where in ("day = 'mon'", "id > 11", "amount is null"):
        assert run("count", table.uri, "--where", where).stdout == f"{rows.filter(where).shape[0]}\n"
    assert run("count", table.uri).stdout == "15\n"
    assert json.loads(run("count", table.uri, "--version", 0, "--json").stdout) == {
        "table": table.uri,
        "version": 0,
        "rows": 20,
    }
    assert run("count", table.uri, "--version", 1, "--timestamp", "2026-01-01").exit_code == 2


def test_show_and_files_count_the_rows_that_a_reader_gets(table: txlog.Table) -> None:
    assert json.loads(run("show", table.uri, "--json").stdout)["rows"] == 15
    assert "15 rows, 2 files" in run("show", table.uri).stdout
    assert sorted(each["rows"] for each in json.loads(run("files", table.uri, "--json").stdout)) == [7, 8]


def test_a_table_without_statistics_has_an_unknown_number_of_rows_in_show_and_is_counted_by_count(
    make_table: Callable[..., txlog.Table],
) -> None:
    table = make_table(ROWS)
    log = Path(table.uri) / "_delta_log" / f"{table.version:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        line.get("add", {}).pop("stats", None)
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "an unknown number of rows" in run("show", table.uri).stdout
    assert run("count", table.uri).stdout == "20\n"


def test_the_name_and_the_description_given_to_create_are_shown(tmp_path: Path) -> None:
    made = run("create", tmp_path / "t", "--columns", "id bigint", "--name", "orders", "--description", "all orders")
    assert made.exit_code == 0, made.output
    shown = [" ".join(line.split()) for line in run("show", tmp_path / "t").stdout.splitlines()]
    assert {"name orders", "description all orders"} <= {*shown}
    theirs = deltalake.DeltaTable(tmp_path / "t").metadata()
    assert (theirs.name, theirs.description) == ("orders", "all orders")


def test_diff_rows_shows_the_rows_that_differ_between_two_versions(table: txlog.Table) -> None:
    table.upsert(pa.table({"id": [5, 50], "day": ["tue", "tue"], "amount": [55, 500]}), keys=["id"])
    shown = run("diff-rows", table.uri, 1, "--keys", "id", "--columns", "amount").stdout.splitlines()
    assert sorted(line.split() for line in shown[1:]) == sorted(
        [["50", "500", "insert"], ["5", "5", "update_preimage"], ["5", "55", "update_postimage"]]
    )
    found = json.loads(run("diff-rows", table.uri, 0, 1, "--json", "--where", "day = 'mon'").stdout)
    assert sorted((row["id"], row["_change_type"]) for row in found) == [(0, "delete"), (2, "delete"), (4, "delete")]
    assert run("diff-rows", table.uri, 1, 1).stdout == "no row differs\n"
    assert "and more" in run("diff-rows", table.uri, 0, 1, "-n", 2).stdout
