"""How the command line's output looks: no padding, warnings as one line, applications, and help on every argument."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import txlog
from txlog.cli import main
from txlog.cli.app import app
from txlog.cli.show import history_shown
from txlog.core.util import how_to_install
from txlog.result import human_size, in_milliseconds


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


def test_show_prints_the_last_checkpoint_of_each_application(table: str) -> None:
    assert "app loader      committed up to 3" in _txlog("show", table).stdout
    assert '"app_versions": {\n    "loader": 3\n  }' in _txlog("show", table, "--json").stdout


def test_a_dropped_replay_is_told_on_stdout_and_warns_of_nothing(table: str) -> None:
    for _ in range(3):
        done = _append(Path(table).parent)
        assert done.exit_code == 0
        assert done.stderr == ""
        assert done.stdout == f"{table} already contains these rows in version 0: nothing was written\n"


def test_a_dropped_replay_and_an_append_are_reported_in_a_sentence(table: str, tmp_path: Path) -> None:
    assert (
        _append(Path(table).parent).stdout == f"{table} already contains these rows in version 0: nothing was written\n"
    )
    appended = _txlog("append", table, str(tmp_path / "in.csv")).stdout
    size = human_size(json.loads(_txlog("files", table, "--json").stdout)[-1]["size_bytes"])
    assert appended == f"1 row in 1 file ({size}) appended to {table} as version 1\n"


def test_all_times_in_json_are_ms_under_one_name(table: str) -> None:
    shown = json.loads(_txlog("show", table, "--json").stdout)
    (commit,) = json.loads(_txlog("history", table, "--json").stdout)
    (application,) = json.loads(_txlog("sinks", table, "--json").stdout)
    assert "timestamp" not in shown.keys() | commit.keys() | application.keys()
    committed = txlog.Table.open(table).snapshot().timestamp
    assert shown["timestamp_ms"] == commit["timestamp_ms"] == in_milliseconds(committed)
    assert abs(application["timestamp_ms"] - shown["timestamp_ms"]) < 60_000
    at = _txlog("show", table, "--timestamp", str(shown["timestamp_ms"]), "--json")
    assert json.loads(at.stdout)["version"] == shown["version"]
    early = _txlog("show", table, "--timestamp", str(shown["timestamp_ms"] - 1))
    assert (early.exit_code, "the oldest that can be read" in early.stderr) == (1, True)


def test_the_path_of_each_file_is_whole_and_on_one_line_however_narrow_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("deep-" * 12) / "t"
    txlog.write(folder, pa.table({"id": [1], "name": ["a b/c"]}), partition_by="name")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("txlog.cli.console.PIPE_WIDTH", 40)
    lines = _txlog("files", str(folder)).stdout.splitlines()
    assert len(lines) == 3
    path = Path(lines[1][lines[1].index(str(folder)) :])
    assert path.is_file()
    (fact,) = json.loads(_txlog("files", str(folder), "--json").stdout)
    assert (fact["uri"], fact["path"]) == (str(path), f"name=a%20b%252Fc/{path.name}")


def test_files_show_the_least_and_the_greatest_value_of_each_column_and_its_nulls(tmp_path: Path) -> None:
    rows = pa.table(
        {"id": pa.array([3, None, 1]), "place": [{"city": "Rome"}, {"city": "Bonn"}, None], "day": ["a", "a", "a"]}
    )
    txlog.write(tmp_path, rows, partition_by="day")
    lines = [line.split() for line in _txlog("files", str(tmp_path), "--statistics").stdout.splitlines()]
    (fact,) = json.loads(_txlog("files", str(tmp_path), "--statistics", "--json").stdout)
    least, greatest = pc.min_max(rows["id"]).as_py().values()
    assert fact["statistics"] == {
        "id": {"min": least, "max": greatest, "null_count": rows["id"].null_count},
        "place.city": {"min": "Bonn", "max": "Rome", "null_count": 1},
    }
    assert ["id", "1", "3", "1", fact["path"]] in lines
    assert ["place.city", "Bonn", "Rome", "1", fact["path"]] in lines


def test_the_list_of_commands_shows_whole_sentences_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    listed = _txlog("--help").stdout.partition("Commands:")[2]
    assert "..." not in listed
    assert "Rewrite small files, and files with many dead rows, as larger ones" in " ".join(listed.split())


def test_the_help_of_append_explains_its_files(table: str) -> None:
    text = " ".join(_txlog("append", "--help").stdout.split())
    assert "the rows: .parquet, .csv" in text


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupted_append_leaves_nothing_and_says_so_in_one_line(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": range(200_000)}), rows)
    before = sorted(Path(table).rglob("*"))

    read = pq.ParquetFile.iter_batches

    def interrupted(*asked: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        yield next(read(*asked, **options))
        raise KeyboardInterrupt

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", interrupted)
    done = CliRunner().invoke(app, ["append", table, str(rows), *(["--json"] if as_json else [])])
    assert done.exit_code == 130
    assert sorted(Path(table).rglob("*")) == before
    if as_json:
        assert json.loads(done.stdout)["error"]["kind"] == "Interrupted"
        assert done.stderr == ""
    else:
        assert (done.stdout, len(done.stderr.splitlines())) == ("", 1)
        assert done.stderr.startswith("Interrupted: the write is complete or absent")


def test_a_history_fits_a_terminal_of_80_columns_and_omits_empty_columns(tmp_path: Path) -> None:
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


def _history_at(width: int, table: txlog.Table) -> list[str]:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(history_shown(table.history()))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_in_a_narrow_terminal_operations_wrap_only_between_words(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": range(12_345)}))
    table.overwrite(pa.table({"id": range(12_345)}), user_metadata="the nightly correction of the day before")
    table.set_properties({"delta.appendOnly": "false"})
    lines = _history_at(80, table)
    assert "note" not in lines[0]
    assert any("  WRITE overwrite  " in line and line.endswith("kB") for line in lines)
    words = " ".join(" ".join(lines).split())
    assert "the nightly correction of the day before" in words
    assert "delta.appendOnly=false" in words
    assert lines[-1] == f"all by txlog/{txlog.__version__}"
    wide = _history_at(160, table)
    assert len(wide) == 5
    assert wide[0].endswith("note")


def test_a_narrow_history_names_each_writer_where_there_are_several(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    table.overwrite(pa.table({"id": range(12_345)}))
    deltalake.DeltaTable(table.uri).delete("id = 1")
    lines = _history_at(80, table)
    assert [line.strip() for line in lines if " by " in line] == [
        f"by delta-rs:py-{deltalake.__version__}",
        *[f"by txlog/{txlog.__version__}"] * 2,
    ]
    assert max(map(len, lines)) <= 80


KEYS = {
    "show": "app_versions clustering_columns columns description files iceberg id name partition_columns properties"
    " protocol rows size_bytes table timestamp_ms version",
    "show --files-summary": "deleted_rows expired_files files files_with_deleted_rows largest_bytes median_bytes"
    " mergeable_files partitions removed_bytes removed_files size_bytes sizes small_below_bytes small_bytes small_files"
    " smallest_bytes table version",
    "files": "modified_ms partition path rows size_bytes uri",
    "verify": "checkpoints commits data_files findings footers sound table version",
    "probe-store": "notes problems racers round_trip_s safe table winners",
    "checkpoint": "table version",
    "iceberg": "attempts catalog_entry metadata_location snapshots table version",
    "compact-log": "compaction table",
    "clean-up-log": "dry_run files first_version names size_bytes table",
    "vacuum": "dry_run files mode paths retention_hours size_bytes table version",
    "tag a": "created_ms name table version",
    "tags": "table tags",
    "restore --version 0": "bytes_removed bytes_restored dry_run files files_removed files_restored missing"
    " restored_version size_bytes table version",
    "sinks": "app_id checkpoint_id rows timestamp_ms version",
}


@pytest.mark.parametrize("command", KEYS)
def test_the_keys_of_each_commands_json_are_as_documented(table: str, command: str) -> None:
    name, *options = command.split()
    answer = json.loads(_txlog(name, table, *options, "--json").stdout)
    assert sorted(answer[0] if isinstance(answer, list) else answer) == KEYS[command].split()


@pytest.mark.parametrize(
    "arguments",
    [
        ["append", "t", "no-such-file.csv", "--json"],
        ["show", "--json"],
        ["show", "t", "--verson", "1", "--json"],
        ["show", "t", "--json", "--version", "1", "--timestamp", "2026-11-20"],
        ["create", "t", "--json"],
        ["shwo", "t", "--json"],
        ["--wrong", "show", "--json"],
    ],
)
def test_a_usage_error_with_json_is_printed_as_json(arguments: list[str]) -> None:
    failed = _txlog(*arguments)
    assert (failed.exit_code, failed.stderr) == (2, "")
    error = json.loads(failed.stdout)["error"]
    assert error["kind"] == "UsageError"
    assert error["message"]
    plain = _txlog(*(argument for argument in arguments if argument != "--json"))
    assert (plain.exit_code, plain.stdout) == (2, "")
    assert error["message"] in " ".join(plain.stderr.split()) or arguments[0] == "append"


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("read", 'txlog head URI shows rows, and txlog sql "select * from delta.`URI`" queries them'),
        ("cat", "txlog sql"),
        ("ls", "use txlog files"),
        ("write", "use txlog append"),
        ("info", "use txlog show"),
        ("gc", "use txlog vacuum"),
        ("rollback", "use txlog restore"),
        ("undo", "use txlog restore URI --version NUMBER"),
        ("compact", "use txlog optimize"),
        ("z-order", "use txlog optimize --zorder-by COLUMNS"),
        ("shwo", "Did you mean 'show'?"),
        ("version", "use txlog --version"),
        ("help", "use txlog -h"),
        ("nonsense", "No such command 'nonsense'"),
    ],
)
def test_the_error_for_an_unknown_command_names_the_one_to_use(command: str, hint: str) -> None:
    failed = _txlog(command, "t")
    assert failed.exit_code == 2
    assert hint in " ".join(failed.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("sql", "select", "1"), 'write the whole statement in quotes, as in txlog sql "select 1"'),
        (
            ("head", "sales.orders", "--catalog", "w"),
            "No such option: --catalog; give the table's location, which txlog describe NAME --catalog URI prints",
        ),
        (("sql", "-e", "select 1"), 'No such option: -e; pass the statement alone, as in txlog sql "select 1"'),
        (("sql", "-c", "select 1"), '-c names the catalog; the statement is an argument: txlog sql "select 1"'),
        (("-V",), "txlog --version shows the version"),
        (("head", "./t", "--where", "id", "=", "1"), 'after --where, as in --where "id = 1"'),
        (("delete", "./t", "id=1"), 'after --where, as in --where "id = 1"'),
        (("check", "./t@dev", "id > 0"), 'after --check, as in --check "id > 0"'),
        (("check", "./t", "dev"), "write the branch after the location, as in txlog check ./orders@dev"),
        (("create", "./t", "id int"), 'after --columns, as in --columns "id int, day date"'),
        (("restore", "./t", "3"), "write a version after --version"),
        (("publish", "./t", "dev"), "as in txlog publish ./orders@dev"),
        (("checkpoint", "./t", "3"), "it takes URI; quote an argument that has spaces"),
    ],
)
def test_the_error_for_an_argument_or_option_too_many_says_where_it_belongs(
    arguments: tuple[str, ...], hint: str
) -> None:
    failed = _txlog(*arguments)
    assert failed.exit_code == 2
    assert hint in " ".join(failed.stderr.split())
    shown = json.loads(_txlog(*arguments, "--json").stdout)["error"]
    assert hint in shown["message"]


@pytest.mark.parametrize("command", [command for command in KEYS if command != "probe-store"])
def test_an_error_of_any_command_is_a_json_document_too(tmp_path: Path, command: str) -> None:
    name, *options = command.split()
    failed = _txlog(name, str(tmp_path / "nowhere"), *options, "--json")
    assert (failed.exit_code, failed.stderr) == (1, "")
    assert json.loads(failed.stdout)["error"]["kind"] == "TableNotFoundError"
    assert not (tmp_path / "nowhere").exists()


def test_an_append_to_a_missing_table_names_the_command_that_creates_one(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id\n1\n")
    failed = _txlog("append", str(tmp_path / "t"), str(tmp_path / "in.csv"))
    assert failed.exit_code == 1
    assert "txlog append --create" in failed.stderr


def test_the_error_for_a_duplicate_column_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "twice.csv").write_text("id,id\n1,2\n")
    reported = _txlog("create", str(tmp_path / "t"), "--like", str(tmp_path / "twice.csv")).stderr
    assert f"{tmp_path / 'twice.csv'} has 2 columns named 'id'" in reported


RUN_EACH = """
import contextlib, json, sys
from txlog.cli import main

sys.stderr = sys.stdout
for arguments in json.loads(sys.argv[1]):
    sys.argv[1:] = arguments
    with contextlib.suppress(SystemExit):
        main()
    print("AND THEN")
"""


@pytest.mark.parametrize("no_color", ["1", ""])
def test_no_color_takes_bold_away_too(table: str, no_color: str) -> None:
    environment = {**os.environ, "FORCE_COLOR": "1", "NO_COLOR": no_color, "TERM": "xterm-256color"}
    commands = (["history", table], ["files", table], ["show", f"{table}/nowhere"])
    run = subprocess.run(
        [sys.executable, "-c", RUN_EACH, json.dumps(commands)], capture_output=True, text=True, env=environment
    )
    shown = [each for each in run.stdout.split("AND THEN\n") if each]
    assert len(shown) == len(commands), run.stdout + run.stderr
    for each in shown:
        styles = re.findall(r"\x1b\[[0-9;]*m", each)  # progress also moves the cursor
        assert bool(styles) == (not no_color)


def test_ctrl_c_while_the_command_loads_prints_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("txlog.cli.app.app", interrupted)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_the_command_says_what_to_install(missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; from txlog.cli import main; main()"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stderr == f"The txlog command needs {missing}: {how_to_install('cli')}\n"
    assert "Traceback" not in run.stderr


def test_no_text_of_a_table_acts_on_the_terminal(tmp_path: Path) -> None:
    acting = "\x1b[31m\x1b]0;title\x07\x9b2J\u202e"
    folder, column = tmp_path / "w" / "s" / "t", "a\x1b[2J"
    properties = {"delta.columnMapping.mode": "name", f"my{acting}": acting}
    table = txlog.Table.create(folder, pa.schema([(column, pa.string())]), None, properties, description=acting)
    table.append(pa.table({column: [acting]}), user_metadata=acting, app_id=acting, checkpoint_id=1)
    catalog = ["--catalog", str(tmp_path / "w")]
    for command in (
        ["show", str(folder)],
        ["history", str(folder)],
        ["sinks", str(folder)],
        ["describe", "s.t", *catalog],
        ["sql", "table s.t", *catalog],
        ["show", f"{tmp_path}/{acting}"],
    ):
        for more in ([], ["--json"]):
            done = _txlog(*command, *more)
            assert not {*"\x1b\x07\x9b\u202e"} & {*done.stdout, *done.stderr}, command
    shown = json.loads(_txlog("show", str(folder), "--json").stdout)
    assert shown["properties"][f"my{acting}"] == acting


def _shell(line: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", f'set -o pipefail; "{sys.executable}" -m txlog "$@" {line}', "bash", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("options", [(), ("--json",)])
@pytest.mark.parametrize(("line", "why"), [("> /dev/full", "No space left on device"), (">&-", "Bad file descriptor")])
def test_an_append_whose_result_cannot_be_printed_says_that_it_is_committed(
    table: str, tmp_path: Path, line: str, why: str, options: tuple[str, ...]
) -> None:
    done = _shell(line, "append", table, str(tmp_path / "in.csv"), *options)
    assert done.returncode == 3, done.stderr
    assert "the command is done (v1 was committed), but its result could not be printed" in done.stderr
    assert why in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert txlog.Table.open(table).version == 1


def test_a_pipe_that_its_reader_closes_early_ends_a_command_quietly(table: str, tmp_path: Path) -> None:
    done = _shell("| (exec <&-; true)", "append", table, str(tmp_path / "in.csv"))
    assert (done.returncode, done.stderr) == (3, "")
    assert txlog.Table.open(table).version == 1


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_an_error_that_stdout_cannot_take_goes_to_stderr_in_one_line(tmp_path: Path, options: tuple[str, ...]) -> None:
    failed = _shell("> /dev/full", "show", str(tmp_path / "absent"), *options)
    assert failed.returncode == 1
    assert failed.stderr.startswith("TableNotFoundError: "), failed.stderr
    assert len(failed.stderr.splitlines()) == 1, failed.stderr


def test_a_script_runs_to_its_end_though_a_result_cannot_be_printed(table: str) -> None:
    script = f"insert into delta.`{table}` values (2, 'b'); insert into delta.`{table}` values (3, 'c')"
    done = _shell("> /dev/full", "sql", script)
    assert done.returncode == 3, done.stderr
    assert txlog.Table.open(table).version == 2
