"""What follows a commit: one checkpoint an interval for all writers of a table, and one at a time in a process."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

import txlog
from txlog.core.store import PutOutcome
from txlog.core.versions._open_table import OpenTable
from txlog.core.versions.decisions.retention import checkpoint_is_due

ROW = pa.table({"id": pa.array([1], pa.int64())})
EVERY_TEN = {"delta.checkpointInterval": "10"}


def checkpoints_of(table: txlog.Table) -> list[int]:
    return sorted(int(path.name[:20]) for path in (Path(table.uri) / "_delta_log").glob("*.checkpoint.parquet"))


def append_and_drain(table: txlog.Table) -> None:
    table.append(ROW)
    table._open_table.post_commit.drain()


def test_writers_in_turns_write_one_checkpoint_an_interval_between_them(tmp_path: Path) -> None:
    first = txlog.Table.create(tmp_path / "t", ROW.schema, properties=EVERY_TEN)
    handles = [first, txlog.Table.open(first.uri), txlog.Table.open(first.uri)]
    for number in range(45):
        append_and_drain(handles[number % 3])
    assert checkpoints_of(first) == [10, 20, 30, 40]


def test_another_writer_writes_an_overdue_checkpoint_and_the_rest_notice(
    tmp_path: Path,
) -> None:
    first = txlog.Table.create(tmp_path / "t", ROW.schema, properties=EVERY_TEN)
    silent, second, third = first, txlog.Table.open(first.uri), txlog.Table.open(first.uri)
    silent._open_table.post_commit.after = lambda state, txn_id=None: None  # type: ignore[method-assign]
    for _ in range(20):
        append_and_drain(silent)
    append_and_drain(second)
    append_and_drain(third)
    assert checkpoints_of(first) == [21]
    assert not checkpoint_is_due(third._open_table.log.newest_state(), checkpoint_size_bytes=0)


KILLED_AT_ONCE = """
import os, sys, time
import pyarrow as pa
import txlog
from txlog.core.versions.files._checkpoint_writer import CheckpointWriter

write = CheckpointWriter.write
CheckpointWriter.write = lambda self, state: time.sleep(1) or write(self, state)  # as of a large table
txlog.Table.open(sys.argv[1]).append(pa.table({"id": pa.array([1], pa.int64())}))
os._exit(0)
"""


@pytest.mark.parametrize(("versions", "written"), [(28, []), (29, [30])])
def test_a_checkpoint_three_intervals_late_is_written_even_by_a_job_that_is_killed_at_once(
    tmp_path: Path, versions: int, written: list[int]
) -> None:
    table = txlog.Table.create(tmp_path / "t", ROW.schema, properties=EVERY_TEN)
    table._open_table.post_commit.after = lambda state, txn_id=None: None  # type: ignore[method-assign]
    for _ in range(versions):
        table.append(ROW)
    subprocess.run([sys.executable, "-c", KILLED_AT_ONCE, table.uri], check=True, timeout=120)
    assert checkpoints_of(table) == written


def test_a_hint_at_a_missing_checkpoint_keeps_no_writer_from_writing_the_next_one(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", ROW.schema, properties=EVERY_TEN)
    for _ in range(9):
        append_and_drain(table)
    hint = Path(table.uri) / "_delta_log" / "_last_checkpoint"
    hint.write_bytes(orjson.dumps({"version": 9, "size": 3}))
    append_and_drain(table)
    assert checkpoints_of(table) == [10]


def checkpoints_in_memory(scripted_log: Any) -> list[str]:
    return sorted(name for name in scripted_log.inner.objects if name.endswith(".checkpoint.parquet"))


def test_while_one_checkpoint_is_being_written_no_other_begins(table: OpenTable, scripted_log: Any) -> None:
    """A busy writer does not queue checkpoints behind a slow one: the next begins when it is done."""
    go_on, begun = threading.Event(), threading.Event()

    def slow_checkpoint(real: Any, name: str, body: bytes) -> PutOutcome:
        if "checkpoint" in name:
            begun.set()
            assert go_on.wait(60)
        return real(name, body)  # type: ignore[no-any-return]

    txlog.Table(table).set_properties({"delta.checkpointInterval": "1"})
    table.post_commit.drain()
    before = checkpoints_in_memory(scripted_log)
    scripted_log.script["put_if_absent"] = [slow_checkpoint] * 10
    txlog.Table(table).append(ROW)
    assert begun.wait(60)
    for _ in range(3):
        txlog.Table(table).append(ROW)
    go_on.set()
    table.post_commit.drain()
    assert len(checkpoints_in_memory(scripted_log)) == len(before) + 1


IMPORT_LOCK_KEPT = """
import _imp, sys
import pyarrow as pa
import txlog

table = txlog.Table.create(sys.argv[1], {"id": pa.int64()})
row = pa.table({"id": [1]})
for _ in range(8):
    table.append(row)
table._open_table.post_commit.drain()
_imp.acquire_lock()                # as an import that Ctrl-C broke off may leave it
table.append(row)
table._open_table.post_commit.drain()  # on a slow machine version 9 gets a checksum file too
table.append(row)                  # version 10 gets a checksum file, in the background
print(table.version)
"""


def test_a_process_ends_after_ctrl_c_broke_an_import_off(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_LOCK_KEPT, str(tmp_path / "t")], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.returncode) == ("10\n", 0), done.stderr
    assert (tmp_path / "t" / "_delta_log" / f"{10:020}.crc").exists()
