"""The job that the crash tests kill: every kind of write, each under a checkpoint_id, on one table.

It runs in its own process (`run`), and it notes each of its acts in a ledger, on another disk and synced, before the
next begins. At any numbered step (`steps`) it can die, or stop for a picture. `judged` says which state a table is in,
and that it is one of the job's own states.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import deltalake
import pyarrow as pa
from rows import assert_sound, counted, read_by_deltalake
from steps import go_on, note_steps, stop

import txlog
from txlog.core import ambient
from txlog.core.writing import _task_writer as task_writer

__all__ = [
    "ACTS",
    "APP_ID",
    "Job",
    "Waits",
    "acknowledged",
    "act_alone",
    "judged",
    "left",
    "outcome_of",
    "run",
    "run_watched",
]

_write, _fsync = os.write, os.fsync  # before `steps` stands in front of them

APP_ID = "job"
SCHEMA = pa.schema([("checkpoint", pa.int64()), ("number", pa.int64()), ("day", pa.string())])
PROPERTIES = {"delta.checkpointInterval": "3"}


@dataclass(frozen=True)
class Job:
    """Where the table is, and where the ledger, which must survive what happens to the table."""

    uri: str
    ledger: str
    storage_options: dict[str, str] = field(default_factory=dict)


# --- the acts ---------------------------------------------------------------------------------------------------


def _rows(checkpoint_id: int, first: int = 0, count: int = 4) -> pa.Table:
    numbers = range(first, first + count)
    days = [f"d{number % 2}" for number in numbers]
    return pa.table([[checkpoint_id] * count, list(numbers), days], schema=SCHEMA)


def _by_append(table: txlog.Table, checkpoint_id: int) -> None:
    table.append(_rows(checkpoint_id), app_id=APP_ID, checkpoint_id=checkpoint_id)


def _by_overwrite(table: txlog.Table, checkpoint_id: int) -> None:
    """Files of several row groups: such a file is written in pieces under a hidden name; a smaller one in one piece."""
    with mock.patch.object(task_writer, "ROW_GROUP_ROWS", 1):
        table.overwrite(_rows(checkpoint_id).to_batches(1), app_id=APP_ID, checkpoint_id=checkpoint_id)


def _by_sink(table: txlog.Table, checkpoint_id: int) -> None:
    sink = txlog.Sink(table, APP_ID)
    committables = []
    for task_id in (0, 1):
        with sink.task(checkpoint_id, task_id) as task:
            task.write(_rows(checkpoint_id, first=task_id * 2, count=2))
        committables.append(task.committable)
    sink.commit(checkpoint_id, committables)


def _by_transaction(table: txlog.Table, checkpoint_id: int) -> None:
    with table.transaction() as transaction:
        transaction.set_transaction(APP_ID, checkpoint_id)
        transaction.append(_rows(checkpoint_id))


def _by_clean_up(table: txlog.Table, checkpoint_id: int) -> None:
    """A Delta checkpoint besides those that follow commits by themselves; then all versions before it go."""
    _by_append(table, checkpoint_id)
    table.create_checkpoint()
    if "://" not in table.uri:
        for name in os.listdir(f"{table.uri}/_delta_log"):
            os.utime(f"{table.uri}/_delta_log/{name}", times=(0, 0))
    table.clean_up_log()


ACTS: tuple[Callable[[txlog.Table, int], None], ...] = (
    _by_sink,
    _by_append,
    _by_transaction,
    _by_overwrite,
    _by_clean_up,
)
"""Act n commits checkpoint n, which is four rows. Version 0 is the empty table."""


def _expected(last: int) -> Counter[tuple[int, int]]:
    """(checkpoint, number) of each row after checkpoint ``last``; an overwrite leaves its own rows alone."""
    overwrites = (number for number in range(last + 1) if ACTS[number] is _by_overwrite)
    return Counter(
        (checkpoint, number) for checkpoint in range(max(overwrites, default=0), last + 1) for number in range(4)
    )


class Waits(ambient.Ambient):
    """Only waiting takes time. What follows a commit depends on how long ago the last was: now the steps of a job are
    the same on every machine.
    """

    waited_s = 0.0

    def monotonic_s(self) -> float:
        return self.waited_s

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.waited_s += seconds


def run(job: Job, acts: int = len(ACTS)) -> None:
    """Do the first ``acts`` acts, from the last one on that is in the table already: that one is a replay then."""
    with ambient.use(Waits()):
        _run(job, acts)


def _run(job: Job, acts: int) -> None:
    table = txlog.Table.create(
        job.uri, SCHEMA, ["day"], properties=PROPERTIES, exist_ok=True, storage_options=job.storage_options
    )
    last = txlog.Sink(table, APP_ID).last_checkpoint_id() or 0
    with Path(job.ledger).open("ab", buffering=0) as ledger:
        for checkpoint_id in range(last, acts):
            ACTS[checkpoint_id](table, checkpoint_id)
            _write(ledger.fileno(), b"%d\n" % checkpoint_id)
            _fsync(ledger.fileno())
            # What follows a commit runs on a thread: without it, the numbers of the steps are always the same.
            table._open_table.post_commit.drain()


FIRST_EXIT_CODE = 100
OUTCOMES = ("ok", "StorageError", "CommitStateUnknownError", "CommitRetriesExhaustedError", "CorruptLogError")


def act_alone(job: Job, number: int) -> None:
    """One act, after a stop at which another program may begin to tamper; `outcome_of` reports its end."""
    table = txlog.Table.open(job.uri, storage_options=job.storage_options)
    table.snapshot().to_arrow()  # what is loaded late is loaded now
    os.kill(os.getpid(), signal.SIGSTOP)
    try:
        with ambient.use(Waits()):
            ACTS[number](table, number)
        outcome = "ok"
    except txlog.TxlogError as error:
        outcome = type(error).__name__
    # A file with the answer would be one more call to tamper with.
    sys.exit(FIRST_EXIT_CODE + OUTCOMES.index(outcome))


def outcome_of(exit_code: int | None) -> str:
    """What `act_alone` met, in ``OUTCOMES``; "killed", or "exit code 1" for anything unforeseen."""
    if exit_code == -signal.SIGKILL:
        return "killed"
    number = (exit_code or 0) - FIRST_EXIT_CODE
    return OUTCOMES[number] if 0 <= number < len(OUTCOMES) else f"exit code {exit_code}"


def acknowledged(job: Job) -> int:
    """The last checkpoint that was acknowledged to the job; -1 before the first."""
    ledger = Path(job.ledger)
    return max(map(int, ledger.read_text().split()), default=-1) if ledger.exists() else -1


def judged(job: Job) -> int:
    """The last checkpoint in the table (-1: none, or no table yet), which holds exactly the rows of a job that ended
    after it, by our reader and by deltalake's; and nothing in the table is wrong."""
    if not txlog.Table.exists(job.uri, storage_options=job.storage_options):
        return -1
    assert_sound(job.uri, job.storage_options)
    snapshot = txlog.Table.open(job.uri, storage_options=job.storage_options).snapshot()
    last = snapshot.transaction_version(APP_ID)
    last = -1 if last is None else last
    assert counted(snapshot.to_arrow(), "checkpoint", "number") == _expected(last)
    table = deltalake.DeltaTable(job.uri, storage_options=job.storage_options or None)
    assert table.version() == snapshot.version == last + 1
    rows = read_by_deltalake(table, "checkpoint", "number")
    assert counted(rows, "checkpoint", "number") == _expected(last)
    return last


_BY_CHANCE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{16}")


def left(job: Job) -> tuple[int, tuple[tuple[str, int], ...]]:
    """The state of things: what was acknowledged, and each file by its name but for chance, with its size."""
    folder = Path(job.uri)
    paths = folder.rglob("*")
    found = ((str(path.relative_to(folder)), path.stat().st_size if path.is_file() else -1) for path in paths)
    return acknowledged(job), tuple(sorted((_BY_CHANCE.sub("*", name), size) for name, size in found))


# --- deaths -----------------------------------------------------------------------------------------------------


def run_watched(job: Job, deed: str, at: int, reported: str) -> None:
    """`run`, and "tear": die in the middle of write ``at``. "stop" stops at every step, "none" at none.

    The file ``reported`` gets a line for each step, before it.
    """
    if deed == "tear":
        _tear_the_write(job.uri, at)
    note_steps(job.uri, reported, {"stop": stop, "tear": go_on, "none": go_on}[deed])
    run(job)


def _tear_the_write(root: str, at: int) -> None:
    """Write number ``at`` below ``root`` (writes alone are counted) ends in the middle, and the process with it."""
    numbers = itertools.count()

    def torn(descriptor: int, data: Any) -> int:
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith(os.path.realpath(root)) and next(numbers) == at:
            _write(descriptor, memoryview(data).cast("B")[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return _write(descriptor, data)

    os.write = torn
