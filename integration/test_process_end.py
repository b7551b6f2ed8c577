"""Jobs that append one row and end, on a real S3 server: the work after their commits is done. In the hunt, on local
disk too, where tests/core/versions/upkeep has each ending.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
from request_gate import gate
from servers import S3Location, S3Server
from short_job import ENDINGS, ROW

import txlog
from txlog.core import ambient
from txlog.core.store import open_store

JOB = Path(__file__).with_name("short_job.py")
ALWAYS = (
    "exception",
    "pool_worker",
)  # the others end a job on local disk in tests/iceberg/test_process_end.py
NAMES = [
    pytest.param(each.__name__, marks=() if each.__name__ in ALWAYS else pytest.mark.hunt(part="ends"))
    for each in ENDINGS
]


@pytest.fixture(params=["on S3", pytest.param("on local disk", marks=pytest.mark.hunt(part="ends"))])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> S3Location:
    if request.param == "on S3":
        location: S3Location = request.getfixturevalue("s3_location")
        return location
    return S3Location(str(tmp_path / "a table"), {}, tmp_path / "a table")


def end_a_job(place: S3Location, ending: str = "last_line", **environment: str) -> str:
    """Run one job to its end and return what it wrote to stderr."""
    return run(str(JOB), ending, place.uri, json.dumps(place.storage_options), **environment)


def run(*arguments: str, **environment: str) -> str:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **environment})
    return done.stderr


def table_of(place: S3Location, versions: int, **properties: str) -> txlog.Table:
    """A table of that many appends, without a checkpoint."""
    properties = {"delta.checkpointInterval": "100", **properties}
    table = txlog.Table.create(
        place.uri, ROW.schema, properties=properties, storage_options=place.storage_options or None
    )
    for _ in range(versions):
        table.append(ROW)
    table._open_table.post_commit.drain()
    return table


def log_names(place: S3Location) -> set[str]:
    store = open_store(place.uri, place.storage_options).log
    return {file.name for file in store.list_from("")}


def checkpoints_of(place: S3Location) -> list[int]:
    return sorted(int(name[:20]) for name in log_names(place) if ".checkpoint" in name)


def named_by_the_hint(place: S3Location) -> int:
    body = open_store(place.uri, place.storage_options).log.read("_last_checkpoint")
    return int(json.loads(body)["version"])


def test_jobs_that_append_one_row_each_write_a_checkpoint_an_interval(place: S3Location) -> None:
    txlog.Table.create(
        place.uri, ROW.schema, properties={"delta.checkpointInterval": "4"}, storage_options=place.storage_options
    )
    assert [end_a_job(place) for _ in range(5)] == [""] * 5
    assert checkpoints_of(place) == [4]
    assert named_by_the_hint(place) == 4


@pytest.mark.parametrize("ending", NAMES)
def test_however_a_job_ends_it_has_written_the_checkpoint_that_was_due(place: S3Location, ending: str) -> None:
    table = table_of(place, 8)
    table.set_properties({"delta.checkpointInterval": "10"})
    printed = end_a_job(place, ending)
    assert "the commit is safe" not in printed
    assert checkpoints_of(place) == [10], printed
    assert named_by_the_hint(place) == 10


@pytest.mark.hunt(part="ends")
def test_the_append_command_has_written_the_checkpoint_that_was_due(place: S3Location, tmp_path: Path) -> None:
    table_of(place, 8).set_properties({"delta.checkpointInterval": "10"})
    pa.csv.write_csv(ROW, rows := tmp_path / "rows.csv")
    options = [f"--storage-option={key}={value}" for key, value in place.storage_options.items()]
    printed = run("-m", "txlog", "append", place.uri, str(rows), *options)
    assert checkpoints_of(place) == [10], printed
    assert "the commit is safe" not in printed


@pytest.mark.hunt(part="ends")
def test_a_job_that_ends_has_exported_its_commit_to_iceberg(place: S3Location) -> None:
    table_of(place, 3, **{"txlog.iceberg": "v2"})
    assert end_a_job(place) == ""
    table = txlog.Table.open(place.uri, storage_options=place.storage_options)
    assert "version=4, nothing new to export" in repr(table.export_iceberg())


@pytest.mark.hunt(part="ends")
def test_a_job_that_ends_has_cleaned_up_the_log(place: S3Location) -> None:
    table = table_of(place, 2)
    table.set_properties({"delta.checkpointInterval": "1", "delta.logRetentionDuration": "interval 30 days"})
    table._open_table.post_commit.drain()
    assert place.folder is not None
    old_s = ambient.now_ms() / 1000 - 60 * 86_400
    for path in (place.folder / "_delta_log").iterdir():
        os.utime(path, (old_s, old_s))
    assert end_a_job(place) == ""
    assert checkpoints_of(place) == [3, 4]
    assert {int(name[:20]) for name in log_names(place) if name.endswith(".json")} == {3, 4}


@pytest.mark.hunt(part="ends")
def test_a_job_that_ends_has_compacted_small_files(place: S3Location) -> None:
    table = table_of(place, 0, **{"delta.autoOptimize.autoCompact": "true"})
    with table.transaction() as txn:
        for _ in range(60):
            txn.append(ROW)
    for _ in range(7):
        table.append(ROW)
    assert end_a_job(place) == ""
    after = txlog.Table.open(place.uri, storage_options=place.storage_options)
    assert after.version == 10, "a compaction follows version 9"
    assert after.count() == 68


@pytest.mark.hunt(part="ends")
@pytest.mark.parametrize("is_set", [True, False], ids=["with an interval", "without one"])
def test_the_next_job_writes_the_checkpoint_that_a_killed_one_left_undone(place: S3Location, is_set: bool) -> None:
    if is_set:
        table_of(place, 8).set_properties({"delta.checkpointInterval": "10"})
        due = 10
    else:
        due = 10 if place.storage_options else 100
        table = txlog.Table.create(place.uri, ROW.schema, storage_options=place.storage_options)
        for _ in range(due - 1):
            table.append(ROW)
        table._open_table.post_commit.drain()
    end_a_job(place, "killed")
    assert checkpoints_of(place) == []
    assert end_a_job(place) == ""
    assert checkpoints_of(place) == [due + 1]
    assert end_a_job(place) == ""
    assert checkpoints_of(place) == [due + 1]


def test_a_job_whose_store_stops_answering_ends_in_time_and_the_next_job_does_the_rest(s3_server: S3Server) -> None:
    place = s3_server.new_location()
    table_of(place, 8, **{"txlog.iceberg": "v2"}).set_properties({"delta.checkpointInterval": "10"})
    has_ended = threading.Event()

    def answers(_: int, what: str) -> bool:
        is_held = any(part in what for part in (".checkpoint", "_iceberg/"))
        return not (is_held and has_ended.wait(300))

    with gate(s3_server.url, answers) as address:
        behind = replace(place, storage_options={**place.storage_options, "endpoint_url": address})
        printed = end_a_job(behind, TXLOG_END_WAIT_S="2")
        has_ended.set()
    assert printed.count("\n") == 1, printed
    for what in (f"the checkpoint of {place.uri} at v10", f"the Iceberg export of {place.uri} at v10", "within 2 s"):
        assert what in printed
    assert checkpoints_of(place) == []
    assert end_a_job(place) == ""
    assert checkpoints_of(place) == [11]
    table = txlog.Table.open(place.uri, storage_options=place.storage_options)
    assert "version=11, nothing new to export" in repr(table.export_iceberg())
