"""The commands that rewrite, delete and bring back files: `txlog optimize`, `purge`, `vacuum`, `restore`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import txlog
from txlog.cli.app import app


@pytest.fixture
def table(make_table: Callable[..., txlog.Table]) -> txlog.Table:
    properties = {"delta.enableDeletionVectors": "true"}
    table = make_table(schema="id bigint, day string", partition_by=["day"], properties=properties)
    for first in (0, 10, 20):
        table.append(pa.table({"id": range(first, first + 10), "day": ["a"] * 5 + ["b"] * 5}))
    return table


def run(*arguments: Any) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_optimize_says_what_it_rewrote_and_then_that_nothing_is_left(table: txlog.Table) -> None:
    assert "would rewrite 6 files as 2" in run("optimize", table.uri, "--dry-run")
    assert table.version == 3
    assert "rewrote 3 files as 1" in run("optimize", table.uri, "--where", "day = 'a'", "--user-metadata", "x")
    facts = json.loads(run("optimize", table.uri, "--json"))
    assert (facts["versions"], facts["files_removed"], len(facts["paths_removed"])) == ([5], 3, 3)
    assert run("optimize", table.uri).startswith("nothing to rewrite: no small files to combine")


def test_a_size_is_a_number_of_bytes_or_has_a_unit(table: txlog.Table) -> None:
    for name in ("--target-file-size", "--max-bytes"):
        assert "would rewrite 6 files as 2" in run("optimize", table.uri, name, "10MB", "--dry-run")
        assert "nothing to rewrite" in run("optimize", table.uri, name, "10", "--dry-run")
        for text in ("0", "-5", "10xb", "1.5gb", ""):
            refused = CliRunner().invoke(app, ["optimize", table.uri, name, text])
            assert refused.exit_code == 2, text
            assert f"{text!r} is not a size: give bytes, or a unit as in 128mb" in " ".join(refused.stderr.split())


def test_refusals_of_vacuum_and_restore_name_options_of_the_command_line(table: txlog.Table) -> None:
    refused = CliRunner().invoke(app, ["vacuum", table.uri, "--retention-hours", "0"])
    assert refused.exit_code == 1
    assert "--retention-hours 0 is shorter" in refused.stderr
    assert "pass --force; else" in refused.stderr
    table.overwrite(table.to_arrow())
    table.vacuum(0, force=True)
    refused = CliRunner().invoke(app, ["restore", table.uri, "--version", "1"])
    assert "pass --allow-missing-files to leave" in refused.stderr


def test_a_dry_run_of_restore_and_vacuum_changes_nothing_and_the_run_does_what_it_said(table: txlog.Table) -> None:
    assert "would restore version 1: 0 files back (0 B), 4 files removed" in run(
        "restore", table.uri, "--version", 1, "--dry-run"
    )
    assert table.version == 3
    assert "restored version 1, as version 4" in run("restore", table.uri, "--version", 1)
    vacuum = ("vacuum", table.uri, "--retention-hours", 0, "--force")
    would = run(*vacuum, "--dry-run")
    named = [line for line in would.splitlines() if line.endswith(".parquet")]
    assert len(named) == 4
    assert "would delete 4 files" in would
    assert all((Path(table.uri) / name).exists() for name in named)
    assert "deleted 4 files" in run(*vacuum)
    assert not any((Path(table.uri) / name).exists() for name in named)


def test_purge_takes_deleted_rows_out_of_the_files(table: txlog.Table) -> None:
    table.delete("id in (1, 12)")
    assert "would rewrite 2 files as 2" in run("purge", table.uri, "--dry-run")
    reported = run("purge", table.uri)
    assert reported.startswith("rewrote 2 files as 2, ")
    assert "2 deletion vectors purged; version 5" in reported
    assert "deletes the old files, which still hold what was deleted" in reported
    assert run("purge", table.uri) == "nothing to rewrite: no live file has deleted rows or dropped columns\n"


def test_a_condition_on_other_columns_is_refused(table: txlog.Table) -> None:
    done = CliRunner().invoke(app, ["optimize", table.uri, "--where", "id > 3", "--json"])
    assert done.exit_code == 1
    assert "partition values alone do not decide" in json.loads(done.stdout)["error"]["message"]


def test_check_deleted_lists_the_files_with_deleted_rows_until_none_is_left(table: txlog.Table) -> None:
    deleted = table.delete("id in (1, 12)").version
    command = ["check-deleted", table.uri, "--version", str(deleted)]
    left = CliRunner().invoke(app, command)
    assert left.exit_code == 1
    assert left.stdout.count("the newest version  day=") == 2
    table.purge()
    table.vacuum(0, force=True)
    left = CliRunner().invoke(app, command)
    assert left.exit_code == 1
    assert "of the log may hold column bounds, until " in left.stdout
    assert left.stdout.endswith(f"no data file is left of what was deleted up to version {deleted}\n")
    facts = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert {each["kept_by"] for each in facts["remains"]} == {"the log"}
