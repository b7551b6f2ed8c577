"""`txlog sql`, `tables` and `describe`: tables by name from a terminal."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

import txlog
from txlog.cli.app import app
from txlog.cli.console import Output
from txlog.statements import commands

SCRIPT = (
    "create table s.t (id int, name string); insert into s.t values (1, 'a'), (2, null); select * from s.t order by id"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


def run(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)], input=stdin)


def test_statements_run_and_rows_are_a_table(folder: Path) -> None:
    done = run("sql", SCRIPT, "--catalog", folder)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-4:] == ["id  name", " 1  a", " 2  null", "2 rows"]
    assert "\nversion 1: 2 rows, 1 file" in done.stdout
    refused = run("sql", "select approx_count_distinct(id) from s.t", "--catalog", folder)
    assert "--engine sail runs it in Sail and --dialect duckdb" in " ".join(refused.stderr.split())
    refused = run("sql", "select * from s.t where cast(name as date) = 2026-11-20", "--catalog", folder)
    assert refused.stderr.rstrip().endswith("write DATE '2026-11-20'"), "no other engine would help"
    assert run("tables", folder).stdout == "s.t\n"
    assert str(folder / "s" / "t") in run("describe", "s.t", "--catalog", folder).stdout


def test_rows_are_csv_that_append_reads_again(folder: Path) -> None:
    made = run("sql", "create table s.c (id int, name string, x binary, b boolean, m decimal(4, 2))", "-c", folder)
    assert made.exit_code == 0
    text = (
        "insert into s.c values (1, 'a,\"b\"', X'FF', true, 1.5), (2, '', null, false, null), (3, null, null, null, 0)"
    )
    done = run("sql", f"{text}; select id, name, b, m from s.c order by id", "-c", folder, "--csv")
    assert done.stdout == 'id,name,b,m\n1,"a,""b""",true,1.50\n2,"",false,\n3,,,0.00\n'
    assert "3 rows" in done.stderr
    nested = run("sql", "select array(1, null) as a, map('k', date '2024-02-29') as m, 1.5D as d", "--csv")
    assert nested.stdout == 'a,m,d\n"[1,null]","[[""k"",""2024-02-29""]]",1.5\n'
    spans = run("sql", "select interval '-1 02:03:04.5' day to second as a, interval 6 hours as b", "--csv")
    assert spans.stdout == "a,b\nINTERVAL '-1 02:03:04.5' DAY TO SECOND,INTERVAL '0 06:00:00' DAY TO SECOND\n"
    (folder / "rows.csv").write_text(done.stdout)
    uri = folder / "s" / "c"
    assert run("append", uri, folder / "rows.csv").exit_code == 0
    assert run("head", uri, "--where", "id < 3", "--columns", "id,name", "--csv").stdout.count('2,""\n') == 2
    assert run("head", uri, "--csv", "--json").exit_code == 2


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("selec 1", "did you mean SELECT?"),
        ("show tables", "--catalog"),
        ("select * from t", "pass the catalog (on the command line: --catalog), or write a location"),
        ("select * from delta.t", "delta.`./t`"),
        ("select * from parquet.`./t`", "parquet.`path` makes a table of Parquet files"),
        ("select * from './t'", "write a table by its location as delta.`./t`"),
        ("select * from ./t", "near '/': a table by its location is in backquotes"),
        ("select * from t where", "near 'where': a value or a keyword is missing"),
        ("select 1 2", "near '2': that is not expected there"),
        ("", 'pass one as an argument, as in txlog sql "select 1"'),
    ],
)
def test_an_error_says_what_to_write_in_its_place(text: str, hint: str) -> None:
    done = run("sql", stdin=text)
    assert done.exit_code == 1
    assert hint in " ".join(done.stderr.split())
    assert "Token" not in done.output


def test_a_missing_table_is_told_with_the_folder_where_it_is(folder: Path) -> None:
    def error(*options: object) -> str:
        return " ".join(run("sql", "select * from t", "--catalog", *options).stderr.split())

    assert f"The folder {folder} does not exist" in error(folder)
    txlog.write(folder / "t", pa.table({"id": [1]}))
    assert f"it would be the folder {folder}/default/t" in error(folder).lower()
    assert f"write delta.`{folder}/t` in SQL" in error(folder)
    assert "txlog head ./t" in run("tables", folder).stdout


def test_a_name_with_a_dot_in_backquotes_is_described_and_listed(folder: Path) -> None:
    assert run("sql", "create table `my.schema`.t (id int)", "--catalog", folder).exit_code == 0
    assert run("tables", folder).stdout == "`my.schema`.t\n"
    assert str(folder / "my.schema" / "t") in run("describe", "`my.schema`.t", "--catalog", folder).stdout
    assert "Invalid name" in run("describe", "`my.schema.t", "--catalog", folder).output


def test_a_map_is_shown_by_its_keys(folder: Path) -> None:
    shown = run("sql", f"{SCRIPT}; describe history s.t limit 1", "--catalog", folder).stdout.splitlines()[-2]
    assert "{'mode': 'Append', 'partitionBy': '[]'}" in shown


def test_dates_beyond_pythons_years_are_text(folder: Path) -> None:
    run("sql", "create table s.t (d date, m map<string, date>)", "--catalog", folder)
    late = pa.array([3_000_000], pa.int32()).cast(pa.date32())
    rows = pa.table({"d": late, "m": pa.MapArray.from_arrays([0, 1], ["a"], late)})
    txlog.Catalog(folder).table("s.t").append(rows)
    shown = run("sql", "select * from s.t", "--catalog", folder).stdout.splitlines()
    assert shown[1].split(maxsplit=1) == ["+10183-09-21", "{'a': '+10183-09-21'}"]
    reported = json.loads(run("sql", "select * from s.t", "--catalog", folder, "--json").stdout)
    assert reported["rows"] == [["+10183-09-21", [["a", "+10183-09-21"]]]]


def test_a_history_that_is_too_wide_for_the_terminal_is_shown_line_by_line_without_what_is_empty(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("sql", SCRIPT, "--catalog", folder)
    history = txlog.sql("describe history s.t", folder).read_all()
    out = Output(as_json=False)
    out.stdout.width = 80
    out.result(None, *commands._rows_shown(out, history, None))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split() for line in lines if line.startswith(("version ", "operation "))] == [
        ["version", "1"],
        ["operation", "WRITE"],
        ["version", "0"],
        ["operation", "CREATE", "TABLE"],
    ]
    assert not any(line.startswith("userName") for line in lines)
    assert lines[-1] == "2 rows"


def test_json_has_all_rows_and_every_result(folder: Path) -> None:
    found = json.loads(run("sql", SCRIPT, "-c", folder, "--json").stdout)
    assert found["results"][1]["version"] == 1
    assert found["results"][2] == {"columns": ["id", "name"], "rows": [[1, "a"], [2, None]]}
    alone = json.loads(run("sql", "select max(id) as m from s.t", "-c", folder, "--json").stdout)
    assert alone == {"columns": ["m"], "rows": [[2]]}
    assert json.loads(run("tables", folder, "--json").stdout)["tables"] == ["s.t"]


def test_text_comes_from_a_file_or_a_pipe_with_parameters(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "script.sql").write_text(SCRIPT)
    assert run("sql", "--file", tmp_path / "script.sql", "-c", folder).exit_code == 0
    piped = run("sql", "-c", folder, "--param", "name=a' or true", "--param", "n=1", stdin="select :n, :name")
    assert piped.stdout.splitlines()[1:] == ["1  a' or true", "1 row"]


def test_a_long_result_is_cut_and_says_so(folder: Path) -> None:
    done = run("sql", "select * from range(5)", "-c", folder, "--limit", 2)
    assert done.stdout.splitlines()[-1] == "the first 2 rows; --limit shows more"


def test_a_fault_is_one_message_with_its_place(folder: Path) -> None:
    done = run("sql", "select 1; delete form t", "-c", folder)
    assert done.exit_code == 1
    assert "line 1, column 18, form: expected FROM; nothing was run" in done.stderr
    assert done.stdout == ""
    assert run("sql", "select 1", "--file", "x").exit_code == 2


def test_a_prompt_takes_statements_up_to_a_semicolon_and_keeps_them(folder: Path, tmp_path: Path) -> None:
    txlog.sql("create table t (id int)", folder)
    ours, theirs = pty.openpty()
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "TERM": "dumb", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "txlog", "sql", "--catalog", str(folder)]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    os.write(ours, b"help\ninsert into t\nvalues (41);\nselect id + 1 as answer from t;\nbad;\n")
    os.write(ours, b"select 100 * length('a;\nb'); -- behind it\nquit\n")
    output = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while read := os.read(ours, 1 << 16):
            output += read
    process.wait(timeout=60)
    os.close(ours)
    assert process.returncode == 0
    assert b"42" in output
    assert output.index(b"a semicolon at the end of a line ends them") < output.index(b"42")
    assert b"no statement begins like this" in output
    assert b"400" in output
    assert "values (41);" in (tmp_path / "state" / "txlog" / "sql_history").read_text()


def test_the_tables_of_a_folder_that_does_not_exist_are_an_error(tmp_path: Path) -> None:
    assert run("tables", tmp_path).stdout == "there is no table\n"
    done = run("tables", tmp_path / "warehose")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"NotFoundError: {tmp_path}/warehose: there is no such folder\n"


def test_statements_are_utf_8_and_committed_writes_are_reported_whatever_the_locale_is(tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    made = "create table s.t (name string)"
    script.write_bytes(f"\ufeff{made}; insert into s.t values ('Änne 日本')".encode())
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    command = [sys.executable, "-m", "txlog", "sql", "--catalog", str(tmp_path / "c")]
    done = subprocess.run([*command, "--file", str(script)], env=environment, capture_output=True, check=True)
    assert b"version 1: 1 row" in done.stdout
    query = "select name from s.t"
    shown = subprocess.run(command, input=query.encode(), env=environment, capture_output=True, check=True).stdout
    assert "Änne 日本".encode("ascii", "backslashreplace") in shown


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("none.sql", None, "none.sql cannot be read: No such file"),
        ("latin.sql", "select 'ä'".encode("latin-1"), "is not UTF-8 text, at byte 8"),
    ],
)
def test_a_script_that_cannot_be_read_is_one_message(
    name: str, body: bytes | None, message: str, tmp_path: Path
) -> None:
    if body is not None:
        (tmp_path / name).write_bytes(body)
    done = run("sql", "--file", tmp_path / name, "--json")
    assert done.exit_code == 1
    assert message in json.loads(done.stdout)["error"]["message"]


def test_an_error_in_the_middle_of_a_script_comes_with_the_results_before_it(folder: Path) -> None:
    done = run("sql", f"{SCRIPT}; insert into s.t values ('x', 1)", "--catalog", folder, "--json")
    printed = json.loads(done.stdout)
    assert done.exit_code == 1
    assert printed["error"]["kind"] == "InvalidInputError"
    assert [each.get("version") for each in printed["results"]] == [None, 1, None]


def test_a_location_is_described_without_a_catalog_and_a_name_is_not(folder: Path) -> None:
    assert run("sql", SCRIPT, "--catalog", folder).exit_code == 0
    by_name = run("describe", "s.t", "--catalog", folder, "--json")
    by_location = run("describe", folder / "s" / "t", "--json")
    columns = slice(None, 3)
    assert json.loads(by_location.stdout)["rows"][columns] == json.loads(by_name.stdout)["rows"][columns]
    done = run("describe", "t")
    assert done.exit_code == 2
    assert all(hint in done.stderr for hint in ("--catalog", "./t"))


def test_a_name_to_describe_is_no_statement(folder: Path) -> None:
    assert run("sql", SCRIPT, "--catalog", folder).exit_code == 0
    done = run("describe", "x`; drop table `s`.`t`; describe `x", "--catalog", folder)
    assert (done.exit_code, run("tables", folder).stdout) == (1, "s.t\n")
    done = run("describe", "s`;drop table if exists delta;describe `t", "--catalog", folder)
    assert "Invalid name" in done.stderr


def test_the_file_named_by_a_dash_is_the_standard_input(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["sql", "--file", "-", "--json"], input="select 1 as one")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"] == [[1]]
