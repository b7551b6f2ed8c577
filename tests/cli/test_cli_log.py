"""The commands that tend the log, the summary of files, and histories that a person can read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

import txlog
from txlog.cli.app import app
from txlog.core.operations._operation_text import bytes_written, described, files_changed, rows_changed

DAY_S = 86_400


def _run(*arguments: Any) -> Result:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done


def _shown(*arguments: Any) -> Any:
    return json.loads(_run(*arguments, "--json").stdout)


def rows(*values: int, day: str | None = "a") -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64()), "day": pa.array([day] * len(values), pa.string())})


@pytest.fixture
def table(make_table: Callable[..., txlog.Table]) -> txlog.Table:
    schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
    table = make_table(rows(0), schema, ["day"], {"delta.checkpointInterval": "1000"})
    for number in (1, 2):
        table.append(rows(number))
    table.append(rows(7, day=None))
    return table


# --- the log ----------------------------------------------------------------------------------------------------------


def test_checkpoint_writes_a_checkpoint_that_deltalake_starts_from(table: txlog.Table) -> None:
    assert _shown("checkpoint", table.uri) == {"table": table.uri, "version": 4}
    log = Path(table.uri, "_delta_log")
    for version in range(4):
        (log / f"{version:020d}.json").unlink()
    assert sorted(deltalake.DeltaTable(table.uri).to_pyarrow_table()["id"].to_pylist()) == [0, 1, 2, 7]
    assert _run("checkpoint", table.uri).stdout == "version 4 has a checkpoint\n"


def test_verify_says_what_to_do_about_each_kind_of_damage(table: txlog.Table) -> None:
    log = Path(table.uri, "_delta_log")
    _run("checkpoint", table.uri)
    next(log.glob("*.checkpoint.parquet")).write_bytes(b"PAR1")
    next(Path(table.uri, "day=a").glob("*.parquet")).unlink()
    reported = CliRunner().invoke(app, ["verify", table.uri]).stdout
    assert (
        "A missing data file: restore it from a copy, or take it out of the table with txlog repair --remove"
        in reported,
        "A truncated data file" in reported,
        "A damaged checkpoint" in reported,
        "A damaged or missing commit" in reported,
    ) == (True, False, True, False)
    (log / f"{2:020d}.json").write_bytes(b"")
    assert "A damaged or missing commit" in CliRunner().invoke(app, ["verify", table.uri]).stdout


def test_compact_log_prints_the_versions_that_the_new_file_combines(table: txlog.Table) -> None:
    reported = _shown("compact-log", table.uri)["compaction"]
    name = Path(table.uri, "_delta_log", reported["name"])
    assert (reported["first_version"], reported["last_version"], reported["size_bytes"]) == (0, 4, name.stat().st_size)
    assert _run("compact-log", table.uri).stdout.startswith("versions 0 to 4 as one file of 6 actions: ")


def test_compact_log_says_so_if_there_is_nothing_to_compact(table: txlog.Table) -> None:
    table.create_checkpoint()
    assert _shown("compact-log", table.uri) == {"table": table.uri, "compaction": None}
    assert _run("compact-log", table.uri).stdout.startswith("nothing to compact")


def test_clean_up_log_deletes_the_files_that_its_dry_run_listed(table: txlog.Table) -> None:
    assert _run("clean-up-log", table.uri).stdout.startswith("nothing to delete")
    table.create_checkpoint()
    table.append(rows(9))
    log = Path(table.uri, "_delta_log")
    table._open_table.post_commit.drain()
    for path in log.glob("*.crc"):  # how many there are depends on how fast the commits followed each other
        path.unlink()
    for path in log.iterdir():
        modified_s = path.stat().st_mtime - 40 * DAY_S
        os.utime(path, (modified_s, modified_s))
    planned = _shown("clean-up-log", table.uri, "--dry-run")
    assert (planned["dry_run"], planned["first_version"], planned["files"]) == (True, 4, 4)
    text = _run("clean-up-log", table.uri, "--dry-run").stdout.splitlines()
    assert text[:-1] == planned["names"]
    assert text[-1].startswith("would delete 4 files, ")
    assert text[-1].endswith("; the first version is then 4")
    assert all((log / name).exists() for name in planned["names"])
    assert _run("clean-up-log", table.uri).stdout.endswith("; the first version is now 4\n")
    assert not any((log / name).exists() for name in planned["names"])


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_summary_counts_files_as_deltalake_lists_them(table: txlog.Table) -> None:
    table.overwrite(rows(1, 2))
    table.append(rows(3))
    reported = _shown("show", table.uri, "--files-summary")
    files = deltalake.DeltaTable(table.uri).get_add_actions().to_struct_array().to_pylist()
    sizes = [file["size_bytes"] for file in files]
    assert (reported["files"], reported["size_bytes"]) == (len(sizes), sum(sizes)) == (2, sum(sizes))
    assert [(found["files"], found["size_bytes"]) for found in reported["sizes"]] == [(2, sum(sizes))] + [(0, 0)] * 6
    assert reported["partitions"] == [{"values": {"day": "a"}, "files": 2, "size_bytes": sum(sizes), "small_files": 2}]
    assert (reported["small_files"], reported["mergeable_files"]) == (2, 2)
    assert (reported["removed_files"], reported["expired_files"]) == (4, 0)


def test_a_summary_of_an_older_version_and_of_an_empty_one(table: txlog.Table) -> None:
    reported = _shown("show", table.uri, "--files-summary", "--version", 4)
    assert [(found["values"], found["files"]) for found in reported["partitions"]] == [
        ({"day": "a"}, 3),
        ({"day": None}, 1),
    ]
    assert (reported["small_files"], reported["mergeable_files"]) == (4, 3)
    text = _run("show", table.uri, "--files-summary", "--version", 4).stdout
    assert "day=null" in text
    assert "2 partitions" in text
    assert "4 files below 32 MB" in text
    assert _shown("show", table.uri, "--files-summary", "--version", 0)["files"] == 0
    assert "0 files, 0 B\n" in _run("show", table.uri, "--files-summary", "--version", 0).stdout


def test_each_size_is_in_the_bin_whose_range_it_falls_in(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    sizes = [0, 999_999, 1_000_000, 31_999_999, 32_000_000, 10**9, 10**12]
    add = {"partitionValues": {}, "modificationTime": 1, "dataChange": True}
    lines = [{"add": {**add, "path": f"f{size}", "size": size}} for size in sizes]
    log = Path(table.uri, "_delta_log", f"{1:020d}.json")
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    reported = _shown("show", table.uri, "--files-summary")
    assert [found["files"] for found in reported["sizes"]] == [2, 1, 1, 1, 0, 0, 2]
    assert (reported["smallest_bytes"], reported["median_bytes"], reported["largest_bytes"]) == (0, 31_999_999, 10**12)
    assert reported["partitions"] == [{"values": {}, "files": 7, "size_bytes": sum(sizes), "small_files": 4}]
    text = _run("show", table.uri, "--files-summary").stdout
    assert "1 GB or more" in text
    assert "partition " not in text


# --- history ----------------------------------------------------------------------------------------------------------


def test_history_shows_operations_in_readable_form(table: txlog.Table) -> None:
    table.overwrite(rows(1))
    table.set_properties({"delta.appendOnly": "true"})
    lines = _run("history", table.uri).stdout.splitlines()
    assert "SET TBLPROPERTIES delta.appendOnly=true" in lines[1]
    assert "WRITE overwrite partitioned by day" in lines[2]
    assert "+1  +1 -4" in lines[2]
    assert "WRITE append" in lines[3]
    assert "CREATE TABLE partitioned by day delta.checkpointInterval=1000" in lines[7]


@pytest.mark.parametrize(
    ("entry", "reported"),
    [
        (  # as Spark writes them
            {
                "operation": "MERGE",
                "operationParameters": {
                    "predicate": '["(id#1 = id#2)"]',
                    "matchedPredicates": '[{"actionType":"update"}]',
                },
                "operationMetrics": {
                    "numTargetRowsInserted": "1",
                    "numTargetRowsUpdated": "2",
                    "numTargetRowsDeleted": "0",
                    "numOutputRows": "9",
                    "numTargetFilesAdded": "2",
                    "numTargetFilesRemoved": "1",
                    "numTargetBytesAdded": "2000",
                },
            },
            ("MERGE on (id#1 = id#2)", "+1 ~2", "+2 -1", "2.0 kB"),
        ),
        (
            {
                "operation": "DELETE",
                "operationParameters": {"predicate": '["(id < 3)"]'},
                "operationMetrics": {"numDeletedRows": "6", "numAddedFiles": "0", "numRemovedFiles": "1"},
            },
            ("DELETE where (id < 3)", "-6", "-1", ""),
        ),
        (
            {
                "operation": "RESTORE",
                "operationParameters": {"version": "3", "timestamp": None},
                "operationMetrics": {"numRestoredFiles": "2", "numRemovedFiles": "1", "numOfFilesAfterRestore": "4"},
            },
            ("RESTORE to version 3", "", "+2 -1", ""),
        ),
        ({"operation": "STREAMING UPDATE", "operationParameters": {"outputMode": "Append", "epochId": "7"}},
         ("STREAMING UPDATE epoch 7",)),
        (  # as deltalake does
            {
                "operation": "UPDATE",
                "operationParameters": {"predicate": "p = 'b'"},
                "operationMetrics": {"num_added_files": 1, "num_removed_files": 1, "num_updated_rows": 2},
            },
            ("UPDATE where p = 'b'", "~2", "+1 -1", ""),
        ),
        ({"operation": "WRITE", "operationParameters": {"mode": "ErrorIfExists", "partitionBy": "[]"}},
         ("WRITE create",)),
        ({}, ("unknown", "", "", "")),
        ({"operation": 5, "operationParameters": "x", "operationMetrics": ["y"]}, ("5", "", "", "")),
        ({"operation": "X", "operationParameters": {"mode": [1], "properties": 3, "columns": [None, {"column": 1}]}},
         ("X [1] None, 1", "", "", "")),
    ],
)  # fmt: skip
def test_history_describes_the_commits_of_every_engine(entry: dict[str, Any], reported: tuple[str, ...]) -> None:
    found = (described(entry), rows_changed(entry), files_changed(entry), bytes_written(entry))
    assert found[: len(reported)] == reported
