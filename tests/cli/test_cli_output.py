"""How the command line's output looks: no padding, warnings as one line, applications, and help on every argument."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import txlog
from txlog.cli.app import app
from txlog.cli.show import history_shown


def _txlog(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def table(tmp_path: Path) -> str:
    (tmp_path / "in.csv").write_text("id,name\n1,a\n")
    done = _append(tmp_path, "--create", "--user-metadata", "first")
    assert done.exit_code == 0, done.stderr
    return str(tmp_path / "t")


def _append(folder: Path, *more: str) -> Result:
    identity = ("--app-id", "loader", "--checkpoint-id", "3")
    return _txlog("append", str(folder / "t"), str(folder / "in.csv"), *identity, *more)


def test_no_line_ends_with_spaces(table: str) -> None:
    for command in ("show", "history", "files", "verify"):
        done = _txlog(command, table)
        assert done.exit_code == 0, done.stderr
        assert done.stdout
        assert [line for line in done.stdout.splitlines() if line != line.rstrip()] == []


def test_show_tells_how_far_each_application_has_committed(table: str) -> None:
    assert "app loader      committed up to 3" in _txlog("show", table).stdout
    assert '"app_versions": {\n    "loader": 3\n  }' in _txlog("show", table, "--json").stdout


def test_a_dropped_replay_is_told_in_one_line_and_ends_the_program_well(table: str) -> None:
    for _ in range(3):
        done = _append(Path(table).parent)
        assert done.exit_code == 0
        assert done.stderr == f"warning: {table}: replay dropped: checkpoint 3 of 'loader' is in v0 already\n"


def test_the_files_to_append_are_explained(table: str) -> None:
    text = " ".join(_txlog("append", "--help").stdout.split())
    assert "what to append: .parquet, .csv" in text


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupted_append_leaves_nothing_and_says_so_in_one_line(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": range(200_000)}), rows)
    before = sorted(Path(table).rglob("*"))

    def interrupted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        if batch.column("id")[0].as_py():
            raise KeyboardInterrupt
        return batch

    monkeypatch.setattr("txlog.cli.data_files._lined_up", interrupted)
    done = CliRunner().invoke(app, ["append", table, str(rows), *(["--json"] if as_json else [])])
    assert done.exit_code == 130
    assert sorted(Path(table).rglob("*")) == before
    if as_json:
        assert json.loads(done.stdout)["error"]["kind"] == "Interrupted"
        assert done.stderr == ""
    else:
        assert (done.stdout, len(done.stderr.splitlines())) == ("", 1)
        assert done.stderr.startswith("Interrupted: nothing is half done")


def test_a_history_fits_a_terminal_of_80_columns_and_leaves_out_what_nobody_told(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    for number in range(3):
        table.append(pa.table({"id": range(10 ** (2 * number))}))
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(history_shown(table.history()))
    lines = console.export_text().splitlines()
    assert len(lines) == 5, "a line for each commit"
    assert "note" not in lines[0]
    assert all("txlog/0" in line for line in lines[1:])
    table.append(pa.table({"id": [1]}), user_metadata="by hand")
    assert "by hand" in _txlog("history", table.uri).stdout
