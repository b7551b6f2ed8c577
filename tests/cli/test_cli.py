"""The command line end to end, on local disk: what it prints, its exit codes, and what deltalake then reads."""

from __future__ import annotations

import decimal
import gzip
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from txlog.cli.app import app

TENDING = ["checkpoint", "compact-log", "clean-up-log", "iceberg", "restore", "tag", "tags", "untag", "vacuum"]
SINKS = ["sinks", "staging", "abandon"]
COMMANDS = [
    "create",
    "append",
    "overwrite",
    "show",
    "history",
    "files",
    "changes",
    "diff",
    "merge",
    "report",
    "verify",
    "probe-store",
    *TENDING,
    *SINKS,
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """An empty table, partitioned by day."""
    path = tmp_path / "table"
    assert txlog("create", path, "--columns", "id bigint not null, name string, day date", "-p", "day").exit_code == 0
    return path


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text('id,name,day\n1,ann,2026-11-20\n2,"",2026-11-21\n3,,2026-11-21\n')
    return path


# --- create -----------------------------------------------------------------------------------------------------


def test_create_makes_the_requested_columns_partitions_and_properties(tmp_path: Path) -> None:
    columns = "id bigint not null, price decimal(12,2), tags array<string>, spot struct<x: double>, at timestamp_ntz"
    created = txlog("create", tmp_path / "t", "--columns", columns, "-p", "id", "--property", "delta.appendOnly=true")
    assert created.exit_code == 0, created.output
    read = deltalake.DeltaTable(tmp_path / "t")
    fields = json.loads(read.schema().to_json())["fields"]
    assert [field["name"] for field in fields] == ["id", "price", "tags", "spot", "at"]
    assert [field["nullable"] for field in fields] == [False, True, True, True, True]
    assert (fields[1]["type"], fields[4]["type"]) == ("decimal(12,2)", "timestamp_ntz")
    assert read.metadata().partition_columns == ["id"]
    assert read.metadata().configuration == {"delta.appendOnly": "true"}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"id: long", "it is not JSON, from line 1, column 1 on"),
        (b"\xff\xfe", "it is not JSON"),
        (b"[]", "it must be an object, not a list"),
    ],
)
def test_the_error_for_an_invalid_schema_file_says_what_to_write(tmp_path: Path, body: bytes, why: str) -> None:
    (tmp_path / "schema.json").write_bytes(body)
    refused = txlog("create", tmp_path / "t", "--schema", tmp_path / "schema.json")
    assert refused.exit_code == 1
    assert f"schema.json does not contain a Delta schema: {why}" in refused.stderr
    example = refused.stderr[refused.stderr.index("{") : refused.stderr.rindex("}") + 1]
    (tmp_path / "schema.json").write_text(example)
    assert txlog("create", tmp_path / "t", "--schema", tmp_path / "schema.json").exit_code == 0


@pytest.mark.parametrize(
    "columns", ["id bigint, day string", "id bigint, " + ", ".join(f"c{n} string" for n in range(99))]
)
def test_columns_in_sql_that_are_given_as_a_schema_file_are_refused_with_the_option_to_use(
    tmp_path: Path, columns: str
) -> None:
    refused = txlog("create", tmp_path / "t", "--schema", columns, "--json")
    message = json.loads(refused.stdout)["error"]["message"]
    assert refused.exit_code == 2
    assert message.endswith(f"--columns '{columns}'")
    assert txlog("create", tmp_path / "t", "--columns", columns).exit_code == 0


def test_a_schema_file_that_is_absent_is_named(tmp_path: Path) -> None:
    for path, what in ((tmp_path / "none.json", "is not a file"), (tmp_path, "is a folder")):
        refused = txlog("create", tmp_path / "t", "--schema", path, "--json")
        assert refused.exit_code == 2
        assert f"{str(path)!r} {what}" in json.loads(refused.stdout)["error"]["message"]


def test_create_takes_the_columns_of_a_data_file_or_of_a_schema_file(tmp_path: Path, table: Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "like.parquet")
    assert txlog("create", tmp_path / "t1", "--like", tmp_path / "like.parquet").exit_code == 0
    (tmp_path / "schema.json").write_text(deltalake.DeltaTable(table).schema().to_json())
    assert txlog("create", tmp_path / "t2", "--schema", tmp_path / "schema.json").exit_code == 0
    assert [field.name for field in deltalake.DeltaTable(tmp_path / "t1").schema().fields] == ["a", "b"]
    assert deltalake.DeltaTable(tmp_path / "t2").schema() == deltalake.DeltaTable(table).schema()


def test_create_refuses_an_existing_table_without_exist_ok(table: Path) -> None:
    again = txlog("create", table, "--columns", "id bigint")
    assert (again.exit_code, again.stdout) == (1, "")
    assert again.stderr.startswith("TableExistsError: ")
    assert "--exist-ok" in again.stderr
    assert len(again.stderr.splitlines()) == 1
    columns = "id bigint not null, name string, day date"
    assert txlog("create", table, "--columns", columns, "-p", "day", "--exist-ok").exit_code == 0
    other = txlog("create", table, "--columns", "id string not null, day date", "--exist-ok")
    assert other.exit_code == 1
    assert "id  table bigint NOT NULL, asked for as string NOT NULL" in other.stderr
    assert "it is partitioned by day, and you asked for one that is not partitioned" in other.stderr
    assert deltalake.DeltaTable(table).version() == 0


@pytest.mark.parametrize(
    "columns", ["id", "id foo", "id bigint primary key", "id varchar(0)", "price decimal(50,2)", "", "id 'x"]
)
def test_invalid_columns_are_refused_and_no_table_is_created(tmp_path: Path, columns: str) -> None:
    refused = txlog("create", tmp_path / "t", "--columns", columns)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("InvalidInputError: ")
    assert "timestamp_ntz" in refused.stderr or columns not in ("id", "id foo", "")
    assert not (tmp_path / "t").exists()


# --- append -----------------------------------------------------------------------------------------------------


def test_append_reads_csv_by_the_tables_types(table: Path, csv_file: Path) -> None:
    appended = txlog("append", table, csv_file)
    assert appended.exit_code == 0, appended.output
    assert appended.stdout.startswith("3 rows in 2 files (")
    assert [(row["id"], row["name"], str(row["day"])) for row in rows_of(table)] == [
        (1, "ann", "2026-11-20"),
        (2, "", "2026-11-21"),
        (3, None, "2026-11-21"),
    ]


def test_append_takes_many_files_of_all_formats_as_one_version(table: Path, csv_file: Path, tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"day": pa.array([20000], pa.int32()).cast(pa.date32()), "id": [4]}), tmp_path / "a.parquet"
    )
    (tmp_path / "b.jsonl").write_text('{"id": 5, "day": "2026-11-22"}\n{"id": 6, "name": "eve"}\n')
    with gzip.open(tmp_path / "c.tsv.gz", "wt") as file:
        file.write("name\tid\nfay\t7\n")
    appended = txlog("append", table, csv_file, tmp_path / "a.parquet", tmp_path / "b.jsonl", tmp_path / "c.tsv.gz")
    assert appended.exit_code == 0, appended.output
    assert deltalake.DeltaTable(table).version() == 1
    assert [(row["id"], row["name"]) for row in rows_of(table)] == [
        (1, "ann"),
        (2, ""),
        (3, None),
        (4, None),
        (5, None),
        (6, "eve"),
        (7, "fay"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "reported"),
    [
        (
            "a.csv",
            b"id,day\n1,2026-11-20\none,2026-11-20\n",
            "Row #3: CSV conversion error to int64: invalid value 'one'",
        ),
        ("b.csv", b"id,day\n1,20/11/2026\n", "In CSV column #1 (day): Row #2: "),
        (
            "c.tsv.gz",
            gzip.compress(b"day\tid\n2026-11-20\tN/A\n", mtime=0),
            "invalid value 'N/A'. If it means null, pass --null N/A",
        ),
        ("n.csv", b'price\n"9,5"\n', "If the comma is a decimal point, pass --decimal-comma"),
        ("o.csv", b"id,day\n1,2026-11-31\n", "invalid value '2026-11-31'. There is no such day"),
        ("d.csv", b"id,at\n1,2026-11-20 18:30:00\n", "expected a zone offset in '2026-11-20 18:30:00'"),
        ("e.csv", b"id;day\n1;2026-11-20\n", "its columns are separated by ';', but it was read with ','"),
        ("n.csv", b"id;p\n1;3,5\n", "its columns are separated by ';', but it was read with ','"),
        ("f.csv", b"id,nom\n1,m\xfcller\n", "column 'nom' is not UTF-8: convert the file"),
        (
            "g.csv",
            b"id,name\n1,m\xfcller\n",
            "In CSV column #1 (name): Row #2: CSV conversion error to string: invalid UTF8",
        ),
        ("h.csv", b"price\n1.234\n", "In CSV column #0 (price): "),
        ("i.csv", b"wall\n2026-11-20T18:30:00Z\n", "expected no zone offset in '2026-11-20T18:30:00Z'"),
        ("l.csv", b"id,name\n1,a,b\n", "Row #2: Expected 2 columns, got 3: 1,a,b"),
        ("m.csv", b"", "Empty CSV file"),
        ("a.json", b"", "Empty JSON"),
        (
            "b.json",
            b"id: 1",
            "read as json, one object on each line: JSON parse error: Invalid value. in row 0",
        ),
        (
            "c.json",
            b'[{"id": 1}]',
            "The file is one array: write its objects one to a line",
        ),
        ("e.json", b'{"id": 1}\n{"id": "x"}', "Column(/id) changed from number to string in row 1"),
        ("g.json", b'{"id": 1.5}', "Failed to convert JSON to int64"),
        ("h.json", b'{"day": "20/11/2026"}', "Failed to parse string: '20/11/2026'"),
        ("k.json", b'{"id": 1, "id": 2}', "Column(/id) was specified twice in row 0"),
        ("l.txt", b"", "has no known suffix (.parquet, .csv"),
    ],
)
def test_the_error_for_an_unreadable_text_file_is_arrows_with_the_file_and_the_row(
    tmp_path: Path, name: str, content: bytes, reported: str
) -> None:
    columns = "id bigint, name string, day date, at timestamp, wall timestamp_ntz, price decimal(9,2), paid boolean"
    assert txlog("create", tmp_path / "t", "--columns", columns).exit_code == 0
    (tmp_path / name).write_bytes(content)
    refused = txlog("append", tmp_path / "t", tmp_path / name)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("InvalidInputError: ")
    assert name in refused.stderr
    assert len(refused.stderr) < 500
    assert reported in refused.stderr
    assert deltalake.DeltaTable(tmp_path / "t").version() == 0


def test_the_error_for_a_json_file_says_after_how_many_rows_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow counts the rows of each block that it reads."""
    monkeypatch.setattr("txlog.loading.data_files.BLOCK_BYTES", 1 << 12)
    assert txlog("create", tmp_path / "t", "--columns", "id bigint").exit_code == 0
    (tmp_path / "a.json").write_text('{"id": 1}\n' * 2_000 + '{"id": "x"}\n')
    said = " ".join(txlog("append", tmp_path / "t", tmp_path / "a.json").stderr.split())
    before, row = re.search(r"each line, after ([\d,]+) rows: .* in row (\d+)", said).groups()  # type: ignore[union-attr]
    assert int(before.replace(",", "")) + int(row) == 2_000


def test_json_that_is_not_utf8_is_refused_with_the_file_the_column_and_the_row(tmp_path: Path) -> None:
    assert txlog("create", tmp_path / "t", "--columns", "id bigint, name string").exit_code == 0
    (tmp_path / "a.json").write_bytes(b'{"id": 1, "name": "x"}\n{"id": 2, "name": "%s"}\n' % "été".encode("latin-1"))
    for arguments in ([tmp_path / "t"], [tmp_path / "new", "--create"]):
        refused = txlog("append", *arguments, tmp_path / "a.json")
        assert refused.exit_code == 1
        said = " ".join(refused.stderr.split())
        assert "a.json: column 'name' is not UTF-8 in row 1, counting from 0: convert the file" in said
    assert deltalake.DeltaTable(tmp_path / "t").version() == 0


def test_parquet_that_is_not_utf8_is_refused_with_the_file_the_column_and_the_row(tmp_path: Path) -> None:
    names = pa.array([b"ok", None, "été".encode("latin-1")]).view(pa.string())
    pq.write_table(pa.table({"id": [1, 2, 3], "name": names}), tmp_path / "a.parquet")
    assert txlog("create", tmp_path / "t", "--columns", "id bigint, name string").exit_code == 0
    refused = txlog("append", tmp_path / "t", tmp_path / "a.parquet")
    assert refused.exit_code == 1
    assert "a.parquet: column 'name' is not UTF-8 in row 2" in " ".join(refused.stderr.split())


def test_json_and_csv_give_the_same_timestamps(tmp_path: Path) -> None:
    assert txlog("create", tmp_path / "t", "--columns", "at timestamp, wall timestamp_ntz, day date").exit_code == 0
    (tmp_path / "a.csv").write_text("at,wall,day\n2026-11-20T18:30:00+01:00,2026-11-20 18:30:00.25,2026-11-20\n")
    (tmp_path / "b.json").write_text(
        '{"at": "2026-11-20T18:30:00+01:00", "wall": "2026-11-20 18:30:00.25", "day": "2026-11-20"}\n{"at": null}\n'
    )
    appended = txlog("append", tmp_path / "t", tmp_path / "a.csv", tmp_path / "b.json")
    assert appended.exit_code == 0, appended.output
    found = pa.table(deltalake.DeltaTable(tmp_path / "t").to_pyarrow_table()).to_pylist()
    of_csv, of_json, empty = sorted(found, key=lambda row: row["at"] is None)
    assert of_csv == of_json
    assert of_csv["at"].isoformat() == "2026-11-20T17:30:00+00:00"
    assert empty == {"at": None, "wall": None, "day": None}


def test_columns_without_a_value_create_no_table_and_the_error_names_them(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,name\n1,\n")
    for arguments in (["append", tmp_path / "t", tmp_path / "rows.csv", "--create"], ["create", "t", "--like"]):
        refused = txlog(*arguments, *([tmp_path / "rows.csv"] if "--like" in arguments else []))
        assert refused.exit_code == 1
        assert "rows.csv, which decide about types, have no value in name" in " ".join(refused.stderr.split())
        assert "--columns 'name string, ...'" in refused.stderr


def test_no_table_is_created_without_the_column_that_the_folders_of_its_files_name(tmp_path: Path) -> None:
    (tmp_path / "day=2026-11-20").mkdir()
    (tmp_path / "day=2026-11-20" / "a.csv").write_text("id\n1\n")
    refused = txlog("append", tmp_path / "t", tmp_path / "day=2026-11-20" / "a.csv", "--create")
    said = " ".join(refused.stderr.split())
    assert "lacks the column 'day', which the name of its folder gives" in said
    assert "txlog convert FOLDER makes a table of a whole folder" in said
    assert not (tmp_path / "t").exists()


def test_a_column_whose_first_value_comes_late_is_said_to_have_none_in_the_first_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txlog.loading.data_files.BLOCK_BYTES", 1 << 12)
    (tmp_path / "late.csv").write_text("a,b\n" + "1,\n" * 6_000 + "1,x\n")
    said = " ".join(txlog("append", tmp_path / "t", tmp_path / "late.csv", "--create").stderr.split())
    assert "the first rows of " in said
    assert "late.csv, which decide about types, have no value in b: create the table with all its columns" in said


def test_the_error_for_contradicting_columns_names_both_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x\n1,2026-11-20\n")
    (tmp_path / "b.json").write_text('{"id": 2, "x": [1]}')
    refused = txlog("append", tmp_path / "t", tmp_path / "a.csv", tmp_path / "b.json", "--create")
    assert refused.exit_code == 1
    assert f"column 'x' is date32[day] in {tmp_path / 'a.csv'} and list<item: int64> in" in refused.stderr


def test_append_reads_compressed_json_that_arrow_closes_before_the_last_batch(table: Path, tmp_path: Path) -> None:
    with gzip.open(tmp_path / "rows.jsonl.gz", "wt") as file:
        file.writelines(f'{{"id": {number}, "day": "2026-11-20"}}\n' for number in range(300))
    appended = txlog("append", table, tmp_path / "rows.jsonl.gz")
    assert appended.exit_code == 0, appended.output
    assert [row["id"] for row in rows_of(table)] == list(range(300))


def test_append_creates_the_table_with_create(tmp_path: Path, csv_file: Path) -> None:
    assert txlog("append", tmp_path / "new", csv_file).exit_code == 1
    assert txlog("append", tmp_path / "new", csv_file, "--create", "-p", "day").exit_code == 0
    assert txlog("append", tmp_path / "new", csv_file, "--create").exit_code == 0
    assert deltalake.DeltaTable(tmp_path / "new").metadata().partition_columns == ["day"]
    assert len(rows_of(tmp_path / "new")) == 6


@pytest.mark.parametrize("arguments", [["-p", "day,id"], ["-p", "day", "--partition-by", "id"], ["-p", "day, id"]])
def test_partition_columns_are_given_as_a_comma_list_or_one_at_a_time(
    tmp_path: Path, csv_file: Path, arguments: list[str]
) -> None:
    assert txlog("create", tmp_path / "t1", "--columns", "id int, x int, day date", *arguments).exit_code == 0
    assert txlog("append", tmp_path / "t2", csv_file, "--create", *arguments).exit_code == 0
    for name in ("t1", "t2"):
        assert deltalake.DeltaTable(tmp_path / name).metadata().partition_columns == ["day", "id"]


def test_append_is_exactly_once_with_an_app_id(table: Path, csv_file: Path) -> None:
    arguments = ["append", table, csv_file, "--app-id", "nightly", "--checkpoint-id", "7", "--json"]
    first, second = txlog(*arguments), txlog(*arguments)
    assert (json.loads(first.stdout)["outcome"], json.loads(second.stdout)["outcome"]) == (
        "committed",
        "already_committed",
    )
    assert len(rows_of(table)) == 3


def test_a_new_column_is_refused_and_named_and_added_on_request(table: Path, tmp_path: Path) -> None:
    (tmp_path / "wider.csv").write_text("id,day,extra\n1,2026-11-20,9\n")
    refused = txlog("append", table, tmp_path / "wider.csv")
    assert refused.exit_code == 1
    assert "extra" in refused.stderr
    assert "--merge-schema" in refused.stderr
    assert txlog("append", table, tmp_path / "wider.csv", "--merge-schema").exit_code == 0
    assert rows_of(table)[0]["extra"] == 9


def test_a_pipe_is_refused_with_what_to_do(table: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rows.csv")
    refused = txlog("append", table, tmp_path / "rows.csv")
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"InvalidInputError: {tmp_path / 'rows.csv'} is a pipe or a device")
    assert f"Write it to a file first: cat {tmp_path / 'rows.csv'} > copy.csv" in refused.stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bad.csv", "id,name,day\nx,ann,2026-11-20\n"),
        ("torn.csv", 'id,name,day\n1,"ann,2026-11-20\n'),
        ("bad.json", '[{"id": 1}]'),
        ("bad.parquet", "no parquet"),
        ("rows.dat", "id\n1\n"),
        ("empty.csv", ""),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_nothing_is_written(
    table: Path, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    refused = txlog("append", table, tmp_path / name)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("InvalidInputError: ")
    assert name in refused.stderr
    assert deltalake.DeltaTable(table).version() == 0


def test_a_bad_row_late_in_the_last_file_leaves_nothing_behind(table: Path, csv_file: Path, tmp_path: Path) -> None:
    rows = "".join(f"{number},n,2026-11-20\n" for number in range(200_000))
    (tmp_path / "late.csv").write_text(f"id,name,day\n{rows}oops,n,2026-11-20\n")
    refused = txlog("append", table, csv_file, tmp_path / "late.csv")
    assert refused.exit_code == 1
    assert "late.csv" in refused.stderr
    assert not list(table.rglob("*.parquet"))


@pytest.mark.parametrize(("given", "mark"), [(";", ";"), ("|", "|"), ("tab", "\t"), ("\\t", "\t")])
def test_csv_with_another_delimiter_is_read_if_the_option_names_it(
    table: Path, tmp_path: Path, given: str, mark: str
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("id,name,day\n1,'a,b',2026-11-20\n".replace(",", mark).replace("'", '"'))
    refused = txlog("append", table, rows)
    assert f"use --delimiter {shlex.quote('tab' if mark == chr(9) else mark)}" in refused.stderr
    assert txlog("append", table, rows, "--delimiter", given).exit_code == 0
    assert [(row["id"], row["name"]) for row in rows_of(table)] == [(1, f"a{mark}b")]


def test_a_delimiter_of_two_characters_is_refused(table: Path, csv_file: Path) -> None:
    assert txlog("append", table, csv_file, "--delimiter", ";;").exit_code == 2


def test_numbers_in_csv_may_have_a_decimal_comma(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("id;price;rate\n1;1,50;0,25\n2;-3;\n")
    arguments = ("append", tmp_path / "t", rows, "--delimiter", ";")
    made = txlog("create", tmp_path / "t", "--columns", "id int, price decimal(6, 2), rate double")
    assert (made.exit_code, txlog(*arguments).exit_code) == (0, 1)
    assert txlog(*arguments, "--decimal-comma").exit_code == 0
    assert [tuple(row.values()) for row in rows_of(tmp_path / "t")] == [
        (1, decimal.Decimal("1.50"), 0.25),
        (2, decimal.Decimal(-3), None),
    ]


def test_csv_without_a_header_has_the_tables_columns_in_their_order(table: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("1,ann,2026-11-20\n2,bob,2026-11-21\n")
    assert txlog("append", table, rows, "--no-header").exit_code == 0
    assert [(row["id"], row["name"]) for row in rows_of(table)] == [(1, "ann"), (2, "bob")]
    rows.write_text("1,ann,yesterday\n")
    assert (
        "In CSV column #2 (day): Row #1: CSV conversion error to date32[day]: invalid value 'yesterday'"
        in txlog("append", table, rows, "--no-header").stderr
    )
    rows.write_text("1,ann\n")
    assert txlog("append", table, rows, "--no-header").exit_code == 1
    new = txlog("append", tmp_path / "new", rows, "--no-header", "--create")
    assert (new.exit_code, "txlog create" in new.stderr, (tmp_path / "new").exists()) == (1, True, False)


def test_an_option_names_the_strings_that_mean_null_in_csv(table: Path, tmp_path: Path) -> None:
    (tmp_path / "na.csv").write_text("id,name,day\n1,NA,2026-11-20\n2,NA,NA\n")
    assert txlog("append", table, tmp_path / "na.csv").exit_code == 1
    assert txlog("append", table, tmp_path / "na.csv", "--null", "NA").exit_code == 0
    assert [(row["name"], row["day"] is None) for row in rows_of(table)] == [(None, False), (None, True)]


# --- show, history, files ---------------------------------------------------------------------------------------


def test_show_prints_a_version_as_text_and_as_json(table: Path, csv_file: Path) -> None:
    txlog("append", table, csv_file)
    text = txlog("show", table).stdout
    for shown in ("3 rows, 2 files", "partitioned by  day", "reader 1, writer 2", "not null", " UTC"):
        assert shown in text
    facts = json.loads(txlog("show", table, "--json").stdout)
    assert (facts["version"], facts["rows"], facts["files"], facts["partition_columns"]) == (1, 3, 2, ["day"])
    assert facts["size_bytes"] == sum(path.stat().st_size for path in table.rglob("*.parquet"))
    assert facts["columns"][0] == {"name": "id", "type": "bigint", "nullable": False}
    assert json.loads(txlog("show", table, "--version", "0", "--json").stdout)["rows"] == 0


def test_history_lists_the_newest_first_with_what_each_did(table: Path, csv_file: Path) -> None:
    txlog("append", table, csv_file, "--user-metadata", "first load")
    entries = json.loads(txlog("history", table, "--json").stdout)
    assert [entry["version"] for entry in entries] == [1, 0]
    assert entries[0]["operationMetrics"]["numOutputRows"] == "3"
    text = txlog("history", table, "-n", "1").stdout
    assert "first load" in text
    assert "CREATE TABLE" not in text


def test_files_lists_the_files_of_a_version_and_a_predicate_filters_them(table: Path, csv_file: Path) -> None:
    txlog("append", table, csv_file)
    listed = json.loads(txlog("files", table, "--json").stdout)
    assert {file["path"] for file in listed} == {
        str(path.relative_to(table)) for path in table.rglob("*.parquet") if "_delta_log" not in path.parts
    }
    assert sorted(file["rows"] for file in listed) == [1, 2]
    kept = json.loads(txlog("files", table, "--where", "day = DATE '2026-11-20'", "--json").stdout)
    assert [file["partition"] for file in kept] == [{"day": "2026-11-20"}]
    assert txlog("files", table, "--limit", "1").stdout.splitlines()[-1].startswith("1 of 2 files")


# --- verify, probe-store ----------------------------------------------------------------------------------------


def test_verify_passes_a_sound_table_and_fails_a_broken_one_with_file_and_line(table: Path, csv_file: Path) -> None:
    txlog("append", table, csv_file)
    sound = txlog("verify", table)
    assert (sound.exit_code, sound.stdout.split(":")[0]) == (0, "sound")
    read = txlog("verify", table, "--footers")
    assert "2 data files by name and size, read 2 footers and compared their row counts with the log's" in read.stdout
    alone = txlog("verify", table, "--footers", "--no-data-files")
    assert "looked up no data file, read 2 footers" in alone.stdout
    assert json.loads(txlog("verify", table, "--footers", "--json").stdout)["footers"] == 2
    commit = table / "_delta_log" / "00000000000000000001.json"
    commit.write_text(
        commit.read_text() + '{"remove":{"path":"gone.parquet","dataChange":true,"deletionTimestamp":1}}\n'
    )
    assert "read 2 commits and 0 checkpoints, looked up 2 data files by name and size, without" in sound.stdout
    assert "does not read the data files" in " ".join(txlog("verify", "--help").stdout.split())
    broken = txlog("verify", table)
    assert broken.exit_code == 1
    assert f"{commit.name}:{len(commit.read_text().splitlines())}" in broken.stdout
    facts = json.loads(txlog("verify", table, "--json").stdout)
    assert not facts["sound"]
    assert facts["findings"][0]["path"] == commit.name


def test_verify_can_skip_data_files_and_check_acknowledged_versions(table: Path, csv_file: Path) -> None:
    acknowledged = json.loads(txlog("append", table, csv_file, "--json").stdout)["txn_id"]
    next(table.rglob("*.parquet")).unlink()
    broken = txlog("verify", table)
    assert broken.exit_code == 1
    assert "restore it from a copy, or take it out of the table" in broken.stdout
    log_alone = txlog("verify", table, "--no-data-files", "--acknowledged", f"1={acknowledged}")
    assert log_alone.exit_code == 0
    assert "looked up no data file" in log_alone.stdout
    assert txlog("verify", table, "--no-data-files", "--acknowledged", "1=another").exit_code == 1


def test_probe_store_finds_the_local_disk_safe_and_leaves_nothing(tmp_path: Path) -> None:
    facts = json.loads(txlog("probe-store", tmp_path / "t", "--json").stdout)
    assert (facts["safe"], facts["winners"]) == (True, 1)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


# --- errors -----------------------------------------------------------------------------------------------------


def test_an_error_in_json_has_kind_message_and_place(tmp_path: Path) -> None:
    failed = txlog("show", tmp_path / "none", "--json")
    error = json.loads(failed.stdout)["error"]
    assert (failed.exit_code, failed.stderr) == (1, "")
    assert (error["kind"], error["table"]) == ("TableNotFoundError", str(tmp_path / "none"))
    assert error["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["create", "t"],
        ["create", "t", "--columns", "a int", "--schema", __file__],
        ["append", "t"],
        ["append", "t", "no-such-file.csv"],
        ["append", "t", __file__, "--app-id", "a"],
        ["append", "t", __file__, "--format", "orc"],
        ["append", "t", __file__, "-p", "day"],
        ["show", "t", "--version", "-1"],
        ["show", "t", "--version", "1", "--timestamp", "2026-11-20"],
        ["show", "t", "-o", "region"],
        ["verify", "t", "--acknowledged", "x=y"],
        ["no-such-command"],
    ],
)
def test_a_usage_error_exits_with_2(arguments: list[str]) -> None:
    assert txlog(*arguments).exit_code == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_accepts_json(command: str) -> None:
    explained = txlog(command, "--help")
    assert explained.exit_code == 0
    assert "--json" in explained.stdout
    options = [line for line in explained.stdout.splitlines() if line.lstrip().startswith("-")]
    assert not [line for line in options if "<" in line], "a placeholder says what to write, not Python's type of it"


def test_python_m_txlog_is_the_command_and_a_failure_is_one_line(tmp_path: Path) -> None:
    run = [sys.executable, "-m", "txlog", "history", str(tmp_path / "none")]
    failed = subprocess.run(run, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith("TableNotFoundError: ")
    assert len(failed.stderr.splitlines()) == 1


def txlog(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def rows_of(table: Path) -> list[dict[str, Any]]:
    rows = pa.table(deltalake.DeltaTable(table).to_pyarrow_table()).sort_by("id")
    return [dict(row) for row in rows.to_pylist()]
