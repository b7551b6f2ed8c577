"""`txlog report`: one file, from the log alone unless asked."""

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


def _run(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def table(make_table: Callable[..., txlog.Table]) -> txlog.Table:
    table = make_table(pa.table({"id": [0]}))
    table.append(pa.table({"id": [1]}))
    return table


def test_report_writes_one_page_and_lists_what_to_do(table: txlog.Table, tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    done = _run("report", table.uri, "-o", page)
    assert done.exit_code == 0, done.output
    first, advice = done.stdout.splitlines()
    assert first.startswith(f"{page}: version 1, 1 thing to do (")
    assert advice == f"- Combine 2 files into 1: txlog optimize {table.uri}"
    html = page.read_text(encoding="utf-8")
    assert html.startswith("<!DOCTYPE html>")
    assert "from the log alone" in html


def test_report_lists_the_folder_only_if_asked(table: txlog.Table, tmp_path: Path) -> None:
    Path(table.uri, "orphan.parquet").write_bytes(b"abc")
    shown = json.loads(_run("report", table.uri, "-o", tmp_path / "r.html", "--json").stdout)
    assert shown["deletion"] is None
    assert (shown["version"], shown["file"]) == (1, str(tmp_path / "r.html"))
    assert shown["size_bytes"] == (tmp_path / "r.html").stat().st_size
    shown = json.loads(_run("report", table.uri, "-o", tmp_path / "r.html", "--orphans", "--json").stdout)
    assert next(each["kept_by"] for each in shown["deletion"]["remains"]) == "no version"
    assert "the table&#x27;s folder" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_report_reads_as_many_commits_as_asked(table: txlog.Table, tmp_path: Path) -> None:
    shown = json.loads(_run("report", table.uri, "-o", tmp_path / "r.html", "-n", 1, "--json").stdout)
    assert (shown["timeline"]["commits"], shown["is_partial"]) == (1, True)


def test_a_report_that_cannot_be_written_or_has_no_table_fails(table: txlog.Table, tmp_path: Path) -> None:
    failed = _run("report", table.uri, "-o", tmp_path / "nowhere" / "r.html")
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert "the report cannot be written" in failed.stderr
    missing = _run("report", tmp_path / "no-table", "-o", tmp_path / "r.html")
    assert missing.exit_code == 1
    assert "TableNotFoundError" in missing.stderr
    assert not (tmp_path / "r.html").exists()
