"""`txlog overwrite`: what it replaces, what its dry run says, and how history shows it."""

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
    rows = pa.table({"id": [1, 2, 3], "day": ["mon", "mon", "tue"]})
    return Path(make_table(rows, partition_by=["day"]).uri)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    (tmp_path / "rows.csv").write_text("id,day\n9,mon\n")
    return tmp_path / "rows.csv"


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def found(table: Path) -> list[tuple[int, str]]:
    return sorted((row["id"], row["day"]) for row in txlog.Table.open(table).snapshot().to_arrow().to_pylist())


def test_overwrite_with_where_replaces_the_matching_rows(table: Path, rows: Path) -> None:
    done = run("overwrite", table, rows, "--where", "day = 'mon'")
    assert done.exit_code == 0, done.output
    assert f"1 row in place of 2 rows in 1 file: {table} is at version 1" in done.stdout
    assert found(table) == [(3, "tue"), (9, "mon")]
    history = " ".join(run("history", table).stdout.split())
    assert "WRITE overwrite where day = 'mon' +1 -2" in history


def test_overwrite_without_where_replaces_every_row(table: Path, rows: Path) -> None:
    done = run("overwrite", table, rows, "--json")
    reported = json.loads(done.stdout)
    assert (reported["version"], reported["rows"], reported["rows_deleted"], reported["files_removed"]) == (1, 1, 3, 2)
    assert found(table) == [(9, "mon")]


@pytest.mark.parametrize(
    ("where", "gone", "copied", "files"), [("day = 'mon'", 2, 0, 1), ("id >= 2", 2, 1, 2), (None, 3, 0, 2)]
)
def test_a_dry_run_says_how_many_rows_and_files_and_writes_nothing(
    table: Path, rows: Path, where: str | None, gone: int, copied: int, files: int
) -> None:
    condition = [] if where is None else ["--where", where]
    before = sorted(table.rglob("*"))
    reported = json.loads(run("overwrite", table, rows, *condition, "--dry-run", "--json").stdout)
    assert reported == {
        "table": str(table),
        "dry_run": True,
        "version": 0,
        "rows": 1,
        "rows_deleted": gone,
        "rows_copied": copied,
        "files_removed": files,
        "files_marked": 0,
    }
    shown = run("overwrite", table, rows, *condition, "--dry-run").stdout
    assert "1 row would replace" in shown
    assert sorted(table.rglob("*")) == before
    done = json.loads(run("overwrite", table, rows, *condition, "--json").stdout)
    assert [done[name] for name in ("rows_deleted", "rows_copied", "files_removed")] == [gone, copied, files]


def test_a_dry_run_counts_files_that_would_only_be_marked(table: Path, rows: Path) -> None:
    txlog.Table.open(table).set_properties({"delta.enableDeletionVectors": "true"})
    rows.write_text("id,day\n2,mon\n")
    reported = json.loads(run("overwrite", table, rows, "--where", "id = 2", "--dry-run", "--json").stdout)
    assert (reported["files_marked"], reported["files_removed"], reported["rows_copied"], reported["rows_deleted"]) == (
        1,
        0,
        0,
        1,
    )
    done = run("overwrite", table, rows, "--where", "id = 2")
    assert "1 row in place of 1 row in 1 file" in done.stdout
    assert found(table) == [(1, "mon"), (2, "mon"), (3, "tue")]


def test_a_dry_run_may_name_a_column_that_the_rows_add(table: Path, rows: Path) -> None:
    rows.write_text("id,day,source\n9,mon,x\n")
    added = ["--where", "source = 'x'", "--merge-schema"]
    reported = json.loads(run("overwrite", table, rows, *added, "--dry-run", "--json").stdout)
    done = json.loads(run("overwrite", table, rows, *added, "--json").stdout)
    assert reported["rows_deleted"] == done["rows_deleted"] == 0
    assert reported["rows"] == done["rows"] == 1


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_rows_that_do_not_match_where_are_refused(table: Path, rows: Path, more: list[str]) -> None:
    done = run("overwrite", table, rows, "--where", "day = 'tue'", *more)
    assert done.exit_code == 1
    assert "day = 'mon'" in done.stderr
    assert len(found(table)) == 3


def test_history_shows_removed_partitions_and_overwritten_ones(table: Path) -> None:
    opened = txlog.Table.open(table)
    opened.overwrite_partitions(pa.table({"id": [7], "day": ["tue"]}))
    with opened.transaction() as txn:
        txn.remove_partitions("day = 'mon'")
    shown = " ".join(run("history", table).stdout.split())
    assert "WRITE overwrite of partitions" in shown
    assert "DELETE where day = 'mon' -2" in shown


@pytest.mark.parametrize(("mode", "files"), [("merge-on-read", 1), ("copy-on-write", 0)])
def test_the_mode_decides_how_rows_are_removed_from_files_with_others(
    table: Path, rows: Path, mode: str, files: int
) -> None:
    txlog.Table.open(table).set_properties({"delta.enableDeletionVectors": "true"})
    rows.write_text("id,day\n2,mon\n")
    overwrite = ["overwrite", table, rows, "--where", "id = 2", "--row-mode", mode]
    assert json.loads(run(*overwrite, "--dry-run", "--json").stdout)["files_marked"] == files
    assert json.loads(run(*overwrite, "--json").stdout)["vectors"] == files
    assert len([*table.rglob("*.bin")]) == files


def test_a_mode_that_the_table_lacks_is_refused_with_the_command_that_enables_it(table: Path, rows: Path) -> None:
    done = run("overwrite", table, rows, "--where", "id = 2", "--row-mode", "merge-on-read")
    assert done.exit_code == 1
    said = " ".join(done.stderr.split())
    assert "--row-mode merge-on-read needs a table with deletion vectors" in said
    assert "txlog set URI delta.enableDeletionVectors=true, or leave --row-mode out" in said


def test_a_change_since_the_rows_version_is_a_conflict_unless_the_overwrite_may_rerun(table: Path, rows: Path) -> None:
    txlog.Table.open(table).update({"id": txlog.expr("id + 10")}, "day = 'mon'")
    overwrite = ["overwrite", table, rows, "--where", "day = 'mon'"]
    assert "read the table again" in " ".join(run(*overwrite, "--read-version", "0").stderr.split())
    assert found(table) == [(3, "tue"), (11, "mon"), (12, "mon")]
    assert "--read-version is 7, the newest version is 1" in run(*overwrite, "--read-version", "7").stderr
    assert (
        "Invalid --on-conflict 'retry': expected 'rerun' or 'fail'" in run(*overwrite, "--on-conflict", "retry").stderr
    )
    assert run(*overwrite, "--on-conflict", "rerun").exit_code == 0
    assert found(table) == [(3, "tue"), (9, "mon")]


@pytest.mark.parametrize("condition", [[], ["--where", "id >= 0"]], ids=["all", "where"])
def test_a_dry_run_leaves_out_rows_that_were_not_read_and_conflicts_as_the_overwrite_does(
    table: Path, tmp_path: Path, condition: list[str]
) -> None:
    handle = txlog.Table.open(table)
    version = handle.version
    handle.append(handle.to_arrow())
    (tmp_path / "none.csv").write_text("id,day\n")
    call = ["overwrite", table, tmp_path / "none.csv", *condition, "--read-version", version, "--json"]
    would, done = (json.loads(run(*call, *more).stdout) for more in (["--dry-run"], []))
    assert (would["rows_deleted"], would["files_removed"]) == (done["rows_deleted"], done["files_removed"]) == (3, 2)
    for more in (["--dry-run"], []):
        refused = run(*call, *more)
        assert refused.exit_code == 1
        assert "read the table again" in (refused.stdout or refused.stderr)
