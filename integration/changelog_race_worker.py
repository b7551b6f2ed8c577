"""One process in a race of upsert streams: a change sink whose checkpoints share keys with all others.

The writers of `row_race_worker` run alongside. Nothing in a checkpoint is random, and the log says which checkpoint of
which application each version is (its ``txn`` action), so the log alone can be replayed. A kill ends a life at any
moment; the next life recovers what was sealed, and rewrites what was not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from row_race_worker import SCHEMA, RowRace, row_work

import txlog

__all__ = ["ChangelogRace", "Landed", "replay", "work"]

TASKS = 2
CHANGES = pa.schema([("op", pa.string()), *SCHEMA])


@dataclass(frozen=True)
class ChangelogRace:
    """An upsert stream up to checkpoint ``checkpoints`` (exclusive), each with ``rows`` changes of ``keys`` keys, and
    deletes of what ``appender`` appends or is about to."""

    uri: str
    worker: int
    checkpoints: int
    appender: RowRace
    rows: int = 120
    keys: int = 1_000

    @property
    def app_id(self) -> str:
        return f"stream-{self.worker}"

    def changes(self, checkpoint_id: int) -> pa.Table:
        """Changes in order of arrival, a key more than once among them."""
        random = np.random.default_rng([self.worker, checkpoint_id])
        ids = random.choice(self.keys, self.rows)
        ops = random.choice(["+I", "+U", "-D"], self.rows, p=[0.4, 0.4, 0.2])
        values = (self.worker * 1_000 + checkpoint_id) * 1_000 + np.arange(self.rows)
        appended = self.appender.appended(int(random.choice(checkpoint_id + 2)))
        gone = appended.filter(pc.equal(pc.bit_wise_and(appended["id"], 3), self.worker)).select(["id"])
        return pa.concat_tables(
            [
                pa.table({"op": ops, "id": ids, "v": values}, CHANGES),
                pa.table({"op": ["-D"] * len(gone), "id": gone["id"], "v": [None] * len(gone)}, CHANGES),
            ]
        )

    def apply(self, rows: dict[int, int], checkpoint_id: int) -> None:
        """What the checkpoint does, row by row."""
        for row in self.changes(checkpoint_id).to_pylist():
            if row["op"] == "-D":
                rows.pop(row["id"], None)
            else:
                rows[row["id"]] = row["v"]

    @property
    def ledger(self) -> Path:
        """Where the stream notes how often each of its commits reran."""
        return Path(f"{self.uri}.{self.app_id}.jsonl")

    def reexecutions(self) -> list[int]:
        return [int(line) for line in self.ledger.read_text().split()] if self.ledger.exists() else []


Landed = list[tuple[str, int]]
"""What landed, in order: applications with checkpoints, and other writers with the numbers of their calls."""


def work(race: ChangelogRace | RowRace, started: Any = None) -> None:
    """The life of one process of the race; an exception ends the process with a code."""
    if isinstance(race, RowRace):
        row_work(race, started)
        return
    sink = txlog.Sink(txlog.Table.open(race.uri), race.app_id, mode="upsert", keys=["id"], row_kind="op")
    for checkpoint_id in sink.recover().partial:
        sink.discard(checkpoint_id)
    last = sink.last_checkpoint_id()
    if started is not None:
        started.wait(60)
    for checkpoint_id in range(0 if last is None else last + 1, race.checkpoints):
        _write(race, sink, checkpoint_id)
        result = sink.commit(checkpoint_id)
        with race.ledger.open("a") as ledger:
            ledger.write(f"{result.metrics.reexecutions}\n")


def _write(race: ChangelogRace, sink: txlog.Sink, checkpoint_id: int) -> None:
    """Every key to the task it belongs to, then the seal."""
    rows = race.changes(checkpoint_id)
    task_of_row = sink.partition_of(rows, TASKS)
    for task_id in range(TASKS):
        with sink.task(checkpoint_id, task_id) as task:
            task.write(rows.filter(pc.equal(task_of_row, task_id)))
        sink.stage(task.committable)
    sink.prepare(checkpoint_id, range(TASKS), fingerprint=f"offset {checkpoint_id}")


def replay(races: list[ChangelogRace | RowRace], start: dict[int, int]) -> tuple[dict[int, int], Landed]:
    """The rows that the versions make one after the other, and what landed, in order."""
    rows = dict(start)
    landed: Landed = []
    streams = {race.app_id: race for race in races if isinstance(race, ChangelogRace)}
    others = {race.worker: race for race in races if isinstance(race, RowRace)}
    for path in sorted(Path(races[0].uri, "_delta_log").glob("*.json")):
        if not path.stem.isdigit():
            continue
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        message = next((each["commitInfo"].get("userMetadata") for each in actions if "commitInfo" in each), None)
        for txn in (each["txn"] for each in actions if "txn" in each):
            streams[txn["appId"]].apply(rows, txn["version"])
            landed.append((txn["appId"], txn["version"]))
        if message is not None:
            kind, worker, number = json.loads(message)
            landed.append((kind, number))
            others[worker].apply(rows, number)
    return rows, landed
