"""`txlog delete`, `update` and `upsert`: what they do, what their dry runs say, and how they are called wrongly."""

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

VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.fixture(params=[{}, VECTORS], ids=["copies", "vectors"])
def table(make_table: Callable[..., txlog.Table], request: pytest.FixtureRequest) -> Path:
    rows = pa.table({"id": [1, 2, 3, 4], "day": ["mon", "mon", "tue", "tue"]})
    return Path(make_table(rows, partition_by=["day"], properties=request.param).uri)


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def found(table: Path) -> list[tuple[int, str]]:
    return sorted((row["id"], row["day"]) for row in txlog.Table.open(table).snapshot().to_arrow().to_pylist())


def version(table: Path) -> int:
    return txlog.Table.open(table).snapshot().version


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    (tmp_path / "rows.csv").write_text("id,day\n1,wed\n9,wed\n")
    return tmp_path / "rows.csv"


def test_rows_are_deleted_updated_and_upserted(table: Path, rows: Path) -> None:
    done = run("delete", table, "--where", "id = 4")
    assert f"1 row deleted: {table} is at version 1" in done.stdout
    done = run("update", table, "--set", "day=upper(day)", "--set", "id=id + 10", "--where", "id = 3")
    assert f"1 row updated: {table} is at version 2" in done.stdout
    done = run("upsert", table, rows, "--key", "id")
    assert f"1 row inserted, 1 row updated: {table} is at version 3" in done.stdout
    assert found(table) == [(1, "wed"), (2, "mon"), (9, "wed"), (13, "TUE")]
    assert run("delete", table, "--all").exit_code == 0
    assert found(table) == []
    history = " ".join(run("history", table).stdout.split())
    for operation in ("DELETE", "UPDATE", "MERGE"):
        assert operation in history


def test_a_column_that_a_json_file_lacks_is_not_null(
    make_table: Callable[..., txlog.Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    table = make_table(pa.table({"id": [1], "v": ["a"], "w": [1]}))
    lacking, whole = tmp_path / "lacking.json", tmp_path / "whole.json"
    lacking.write_text('{"id": 1, "w": 2}\n')
    whole.write_text('{"id": 7, "v": "b", "w": 2}\n')
    merge = ("merge", table.uri, lacking, "--on", "target.id = source.id", "--update-all")
    for refused in (("upsert", table.uri, lacking, "--key", "id"), merge):
        done = run(*refused)
        assert (done.exit_code, "lacks v" in done.output) == (1, True), done.output
    together = run("upsert", table.uri, whole, lacking, "--key", "id")
    assert "whole.json has the column v" in together.output
    assert "lacking.json lacks it" in together.output
    lines = tmp_path / "lines.json"
    lines.write_text('{"id": 7, "v": null, "w": 2}\n{"id": 1, "w": 2}\n')
    assert "line 2 lacks 'v'" in run("upsert", table.uri, lines, "--key", "id").output
    lines.write_text('{"id": 7, "v": "x", "w": 2, "op": "new"}\n{"id": 7, "op": "gone"}\n')
    kinds = ("--row-kind", "op", "--row-kinds", "new=+U", "--row-kinds", "gone=-D")
    assert run("upsert", table.uri, lines, "--key", "id", *kinds).exit_code == 0
    done = run("upsert", table.uri, lacking, "--key", "id", "--missing-columns", "default")
    assert done.exit_code == 0, done.output
    assert txlog.Table.open(table.uri).to_arrow().to_pylist() == [{"id": 1, "v": "a", "w": 2}]


@pytest.mark.parametrize(
    ("command", "counts"),
    [
        (["delete", "--where", "id in (1, 3, 4)"], (0, 0, 3)),
        (["delete", "--all"], (0, 0, 4)),
        (["update", "--set", "day='x'", "--where", "id = 1"], (0, 1, 0)),
        (["upsert", "rows", "--key", "id"], (1, 1, 0)),
        (["upsert", "rows", "--key", "id", "--when-matched", "ignore"], (1, 0, 0)),
    ],
)
def test_a_dry_run_reports_the_rows_that_would_change_and_writes_nothing(
    table: Path, rows: Path, command: list[str], counts: tuple[int, int, int]
) -> None:
    name, *rest = [str(rows) if each == "rows" else each for each in command]
    files = {path.name for path in table.rglob("*")}
    reported = json.loads(run(name, table, *rest, "--dry-run", "--json").stdout)
    assert (reported["rows_inserted"], reported["rows_updated"], reported["rows_deleted"]) == counts
    assert (reported["dry_run"], reported["version"]) == (True, 0)
    assert "dry run" in run(name, table, *rest, "--dry-run").stdout
    assert ({path.name for path in table.rglob("*")}, version(table)) == (files, 0)
    done = json.loads(run(name, table, *rest, "--json").stdout)
    assert (done["rows_inserted"], done["rows_updated"], done["rows_deleted"]) == counts
    assert (done["rows_copied"], done["vectors"], done["files_removed"]) == (
        reported["rows_copied"],
        reported["files_marked"],
        reported["files_removed"],
    )


@pytest.mark.parametrize(
    "arguments",
    [["delete"], ["delete", "--where", "id = 1", "--all"], ["update"], ["update", "--set", "day"], ["upsert"]],
)
def test_a_call_that_does_not_say_what_to_do_is_a_usage_error(table: Path, arguments: list[str]) -> None:
    name, *rest = arguments
    assert run(name, table, *rest).exit_code == 2
    assert version(table) == 0


def test_an_assignment_may_have_spaces_as_in_sql_but_not_name_a_column_twice(table: Path) -> None:
    done = run("update", table, "--set", "day = 'x'", "--where", "true")
    assert done.exit_code == 0, done.output
    before = version(table)
    done = run("update", table, "--set", "day = 'y'", "--set", "day='z'")
    assert done.exit_code == 2
    assert "twice" in done.output
    assert version(table) == before


@pytest.mark.parametrize("body", [b"PAR1" + bytes(40) + b"PAR1", b"PAR1\x15\xff\xff\x04\x00\x00\x00PAR1", b""])
def test_a_damaged_file_of_rows_is_named(table: Path, tmp_path: Path, body: bytes) -> None:
    before, damaged = version(table), tmp_path / "damaged.parquet"
    damaged.write_bytes(body)
    done = run("upsert", table, damaged, "--key", "id")
    assert done.exit_code != 0
    assert "damaged.parquet cannot be read as parquet" in " ".join(done.output.split())
    assert version(table) == before


def test_a_condition_that_does_not_fit_is_reported(table: Path) -> None:
    done = run("delete", table, "--where", "nope = 1", "--json")
    assert done.exit_code == 1
    assert "nope" in json.loads(done.stdout or done.stderr)["error"]["message"]


CHANGES = "op,id,day,at\nc,1,tue,2\nc,1,mon,1\nu,2,fri,1\ngone,3,,9\nc,9,sun,5\n"


def test_rows_with_kinds_are_upserted_and_deleted_by_the_sequence(make_table: Callable[..., txlog.Table]) -> None:
    rows = pa.table({"id": [1, 2, 3], "day": ["mon", "thu", "tue"], "at": [0, 3, 4]})
    table = Path(make_table(rows, properties=VECTORS).uri)
    (table.parent / "changes.csv").write_text(CHANGES)
    how = ["--key", "id", "--row-kind", "op", "--sequence-by", "at", "--merge-engine", "deduplicate"]
    how += [str(table.parent / "changes.csv"), "--row-kinds"]
    words = ["gone=-D", "--row-kinds", "c=+I", "--row-kinds", "u=+U"]
    reported = json.loads(run("upsert", table, *how, *words, "--dry-run", "--json").stdout)
    done = json.loads(run("upsert", table, *how, *words, "--json").stdout)
    assert found(table) == [(1, "tue"), (2, "thu"), (9, "sun")]
    for each in (reported, done):
        assert (each["rows_inserted"], each["rows_updated"], each["rows_deleted"]) == (1, 1, 1)
    (table.parent / "changes.csv").write_text("op,id,day,at\n1,9,sun,6\n0,8,sat,1\n")
    assert run("upsert", table, *how, "1=-D", "--row-kinds", "0=+I").exit_code == 0
    assert found(table) == [(1, "tue"), (2, "thu"), (8, "sat")]
    refused = run("upsert", table, *how, "c=+X", "--json")
    assert (
        "Invalid row_kinds['c'] '+X': expected '+I', '-U', '+U' or '-D'"
        in json.loads(refused.stdout or refused.stderr)["error"]["message"]
    )


def test_a_merge_engine_of_the_call_or_of_the_table_merges_rows_of_one_key(
    make_table: Callable[..., txlog.Table],
) -> None:
    table = Path(make_table(pa.table({"id": [1, 2], "sold": [10, 20]}), properties=VECTORS).uri)
    (table.parent / "sold.jsonl").write_text('{"id": 1, "sold": 5}\n{"id": 1, "sold": 6}\n{"id": 3, "sold": 7}\n')
    upsert = ["upsert", str(table), str(table.parent / "sold.jsonl"), "--key", "id"]
    engine = ["--merge-engine", "aggregation", "--merge-option", "fields.sold.aggregate-function=sum"]
    done = run(*upsert, *engine)
    assert f"1 row inserted, 1 row updated: {table} is at version 1" in done.stdout
    assert run(*upsert).exit_code == 1, "without an engine a key that is there twice is an error"
    run("set", table, "txlog.merge-engine=aggregation", "txlog.fields.sold.aggregate-function=sum")
    run(*upsert)
    rows = txlog.Table.open(table).snapshot().to_arrow().to_pylist()
    assert {row["id"]: row["sold"] for row in rows} == {1: 32, 2: 20, 3: 14}
    refused = run(*upsert, "--merge-engine", "first-row", "--json")
    assert "differ from txlog.merge-engine = first-row" in (refused.stdout or refused.stderr)


def test_a_column_that_the_table_lacks_orders_a_changelog_and_is_stored_only_if_it_is_added(
    table: Path, tmp_path: Path
) -> None:
    (tmp_path / "changes.csv").write_text("id,day,at,op\n1,wed,7,u\n2,mon,5,d\n9,wed,1,c\n")
    call = ["upsert", table, tmp_path / "changes.csv", "--key", "id", "--row-kind", "op"]
    assert "at  table has no such column, data int64  -> drop it, or add it with --merge-schema" in run(*call).output
    beside = run(*call, "--sequence-by", "at", "--dry-run")
    assert "1 row would be inserted" in beside.output, beside.output
    would = run(*call, "--sequence-by", "at", "--merge-schema", "--dry-run")
    assert "1 row would be inserted" in would.output, would.output
    assert len(found(table)) == 4
    assert run(*call, "--sequence-by", "at", "--merge-schema").exit_code == 0
    rows = txlog.Table.open(table).to_arrow().sort_by("id").select(["id", "day", "at"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [(1, "wed", 7), (3, "tue", None), (4, "tue", None), (9, "wed", 1)]


def test_advice_to_set_a_property_names_the_command(table: Path) -> None:
    said = run("changes", table, "--from", "0").output
    assert "txlog set URI delta.enableChangeDataFeed=true turns it on" in said
    assert run("set", table, "delta.appendOnly=true").exit_code == 0
    assert "txlog set URI --unset delta.appendOnly" in run("delete", table, "--all").output


def test_a_dry_run_of_a_checkpoint_that_is_in_the_table_reports_it_as_the_command_does(table: Path, rows: Path) -> None:
    once = ["--app-id", "job", "--checkpoint-id", "1", "--json"]
    calls = [
        ["delete", table, "--where", "id = 1"],
        ["update", table, "--set", "day='x'"],
        ["upsert", table, rows, "--key", "id"],
        ["overwrite", table, rows],
    ]
    assert json.loads(run(*calls[0], *once, "--dry-run").stdout)["rows_deleted"] == 1
    assert run(*calls[0], *once).exit_code == 0
    for call in calls:
        would, done = (json.loads(run(*call, *once, *more).stdout) for more in (["--dry-run"], []))
        assert (would["outcome"], would["version"], would["rows"]) == ("already_committed", 1, 0)
        assert (done["outcome"], done["version"], done["rows"]) == ("already_committed", 1, 0)
    assert version(table) == 1
