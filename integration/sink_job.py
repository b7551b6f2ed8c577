"""The sinks that the crash tests kill: an application that stages, seals, commits and ends its checkpoints.

Each function here is the whole life of a process: `run` is an application in one process, `stage` one task of a
distributed one and `coordinate` its coordinator. `judged` says what the table holds.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import deltalake
import pyarrow as pa
from rows import assert_sound, counted, read_by_deltalake
from steps import note_steps, stop

import txlog

__all__ = ["SinkJob", "coordinate", "judged", "prepared", "recover", "run", "stage", "stopping", "watched"]

APP_ID = "orders/ünï"
SCHEMA = pa.schema([("checkpoint", pa.int64()), ("task", pa.int64()), ("number", pa.int64())])
ROWS = 3


@dataclass(frozen=True)
class SinkJob:
    """``checkpoints`` checkpoints of ``tasks`` tasks. Those in ``empty`` have no rows.

    Where it ``upserts``, the rows of a checkpoint replace those of the one before it, and the table `begins` with rows:
    each task replaces all but one of its own, which goes.
    """

    uri: str
    checkpoints: int
    tasks: int = 2
    empty: tuple[int, ...] = ()
    upserts: bool = False
    storage_options: dict[str, str] = field(default_factory=dict)

    def create(self) -> txlog.Table:
        properties = {"delta.enableDeletionVectors": "true"} if self.upserts else {}
        return txlog.Table.create(
            self.uri, SCHEMA, properties=properties, exist_ok=True, storage_options=self.storage_options
        )

    def begin(self) -> txlog.Table:
        """The table before the first checkpoint."""
        table = self.create()
        if self.upserts:
            keys = [(task_id, number) for task_id in range(self.tasks) for number in range(ROWS + 1)]
            task_ids, numbers = zip(*keys, strict=True)
            table.append(pa.table([[-1] * len(keys), task_ids, numbers], schema=SCHEMA))
        return table

    def sink(self) -> txlog.Sink:
        table = txlog.Table.open(self.uri, storage_options=self.storage_options)
        if self.upserts:
            return txlog.Sink(table, APP_ID, mode="upsert", keys=["task", "number"], row_kind="op")
        return txlog.Sink(table, APP_ID)

    def rows(self, checkpoint_id: int, task_id: int) -> pa.Table:
        count = 0 if checkpoint_id in self.empty else ROWS
        if not self.upserts:
            return pa.table([[checkpoint_id] * count, [task_id] * count, list(range(count))], schema=SCHEMA)
        numbers = list(range(count + 1))
        rows = pa.table([[checkpoint_id] * len(numbers), [task_id] * len(numbers), numbers], schema=SCHEMA)
        return rows.append_column("op", pa.array(["+U"] * count + ["-D"]))

    def fingerprint(self, checkpoint_id: int) -> str:
        return f"offsets of {checkpoint_id}"

    def expected(self) -> Counter[tuple[int, int, int]]:
        return Counter(
            (checkpoint_id, task_id, number)
            for checkpoint_id in range(self.checkpoints - 1 if self.upserts else 0, self.checkpoints)
            for task_id in range(self.tasks)
            for number in range(0 if checkpoint_id in self.empty else ROWS)
        )


# --- an application in one process ------------------------------------------------------------------------------


def run(job: SinkJob, note: Callable[[str], None] = lambda done: None) -> None:
    """Recover what an earlier run left, then continue after the last checkpoint in the table.

    ``note`` is called immediately for each acknowledged step: "staged 2", "sealed" and "committed".
    """
    job.create()
    sink = job.sink()
    for checkpoint_id in sink.recover().partial:
        sink.discard(checkpoint_id)
    last = sink.last_checkpoint_id()
    for checkpoint_id in range(0 if last is None else last + 1, job.checkpoints):
        _sealed(job, sink, checkpoint_id, note)
        sink.commit(checkpoint_id)
        note("committed")
        # What follows a commit runs on a thread: without it, the numbers of the steps are always the same.
        sink._open_table.post_commit.drain()


def prepared(job: SinkJob) -> None:
    """Every checkpoint sealed and none committed; and one more that is partial."""
    job.create()
    sink = job.sink()
    for checkpoint_id in range(job.checkpoints):
        _sealed(job, sink, checkpoint_id)
    _staged(job, sink, job.checkpoints, 0, 0)


def recover(job: SinkJob) -> None:
    sink = job.sink()
    sink.recover()
    sink._open_table.post_commit.drain()


def watched(life: Callable[[SinkJob], None], job: SinkJob, reported: str) -> None:
    """``life(job)``, which stops itself before each step. The file ``reported`` gets a line for each."""
    note_steps(job.uri, reported, stop)
    life(job)


def stopping(job: SinkJob, reported: str, ledger: str) -> None:
    """`run`, which stops itself before each step. ``told`` gets a line for each; ``ledger`` what was acknowledged."""
    notes = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    write = os.write

    def note(done: str) -> None:
        write(notes, f"{done}\n".encode())

    note_steps(job.uri, reported, stop)
    run(job, note)


def _sealed(
    job: SinkJob, sink: txlog.Sink, checkpoint_id: int, note: Callable[[str], None] = lambda done: None
) -> None:
    for task_id in range(job.tasks):
        _staged(job, sink, checkpoint_id, task_id, 0)
        note(f"staged {task_id}")
    sink.prepare(checkpoint_id, range(job.tasks), fingerprint=job.fingerprint(checkpoint_id))
    note("sealed")


def _staged(job: SinkJob, sink: txlog.Sink, checkpoint_id: int, task_id: int, attempt: int) -> None:
    with sink.task(checkpoint_id, task_id, attempt) as task:
        task.write(job.rows(checkpoint_id, task_id))
    sink.stage(task.committable)


# --- an application of many processes ---------------------------------------------------------------------------


def stage(job: SinkJob, checkpoint_id: int, task_id: int, attempt: int) -> None:
    """One attempt of one task. Its exit code 0 shows its coordinator that it is done."""
    _staged(job, job.sink(), checkpoint_id, task_id, attempt)


def coordinate(job: SinkJob, checkpoint_id: int, attempts: dict[int, int]) -> None:
    """Finish what an earlier coordinator left; then this checkpoint, made of the attempts that reported success."""
    sink = job.sink()
    sink.recover()
    sink.prepare(checkpoint_id, attempts, fingerprint=job.fingerprint(checkpoint_id))
    sink.commit(checkpoint_id)


# --- judging ----------------------------------------------------------------------------------------------------


def judged(job: SinkJob) -> Counter[tuple[int, int, int]]:
    """The rows of a table in which nothing is wrong, by our reader and by deltalake's."""
    assert_sound(job.uri, job.storage_options)
    snapshot = txlog.Table.open(job.uri, storage_options=job.storage_options).snapshot()
    other = deltalake.DeltaTable(job.uri, storage_options=job.storage_options or None)
    assert other.version() == snapshot.version
    found = counted(snapshot.to_arrow(), *SCHEMA.names)
    assert found == counted(read_by_deltalake(other), *SCHEMA.names)
    return found
