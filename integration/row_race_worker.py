"""One process in a race of row changes: upserts of overlapping keys, appends, deletes or compactions, in a loop.

Each call says in its commit (``userMetadata``) what it did, so the log alone can be replayed: a call that a kill cut
short has landed if its commit is there, and otherwise never happened. Nothing in a call is random.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import txlog

__all__ = ["SCHEMA", "RowRace", "judge_feed", "replay", "row_work"]

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
NEW_IDS = 1_000_000
"""Keys from here on come from appends."""


@dataclass(frozen=True)
class RowRace:
    """What one worker does: ``calls`` times ``kind``, each upsert with ``rows`` of ``keys`` keys."""

    uri: str
    worker: int
    kind: str
    calls: int
    rows: int = 100
    keys: int = 2_000

    def upserted(self, number: int) -> pa.Table:
        chosen = np.random.default_rng([self.worker, number]).choice(self.keys, self.rows, replace=False)
        return pa.table({"id": chosen, "v": np.full(self.rows, self.worker * 1_000_000 + number)}, SCHEMA)

    def appended(self, number: int) -> pa.Table:
        first = NEW_IDS + (self.worker * 10_000 + number) * 10
        return pa.table({"id": range(first, first + 10), "v": [number] * 10}, SCHEMA)

    def deleted(self, number: int) -> tuple[int, int]:
        low = (number * 37) % self.keys
        return low, low + 5

    def apply(self, rows: dict[int, int], number: int) -> None:
        """What the call does to the rows of a table."""
        if self.kind in ("upsert", "append"):
            given = self.upserted(number) if self.kind == "upsert" else self.appended(number)
            rows.update(zip(given["id"].to_pylist(), given["v"].to_pylist(), strict=True))
        elif self.kind in ("delete", "update"):
            for key in range(*self.deleted(number)):
                if self.kind == "delete":
                    rows.pop(key, None)
                elif key in rows:
                    rows[key] += 1

    @property
    def ledger(self) -> Path:
        """Where the worker notes how often each upsert reran and how many seconds it took."""
        return Path(f"{self.uri}.worker{self.worker}.jsonl")

    def noted(self) -> list[tuple[int, float]]:
        if not self.ledger.exists():
            return []
        return [(int(count), float(s)) for count, s in map(json.loads, self.ledger.read_text().splitlines())]

    def reported(self, number: int) -> str:
        return json.dumps([self.kind, self.worker, number])


def row_work(race: RowRace, started: Any = None) -> None:
    """Make the calls that the log does not hold yet; an exception ends the process with a code."""
    table = txlog.Table.open(race.uri)
    if started is not None:
        started.wait(60)
    landed = {json.loads(message)[2] for message in _said(table) if json.loads(message)[:2] == [race.kind, race.worker]}
    for number in range(race.calls):
        if number not in landed:
            _CALLS[race.kind](table, race, number)


def _upsert(table: txlog.Table, race: RowRace, number: int) -> None:
    began_s = time.monotonic()
    done = table.upsert(race.upserted(number), ["id"], user_metadata=race.reported(number))
    with race.ledger.open("a") as ledger:
        ledger.write(json.dumps([done.metrics.reexecutions, time.monotonic() - began_s]) + "\n")


def _append(table: txlog.Table, race: RowRace, number: int) -> None:
    table.append(race.appended(number), user_metadata=race.reported(number))


def _delete(table: txlog.Table, race: RowRace, number: int) -> None:
    low, high = race.deleted(number)
    table.delete(f"id >= {low} AND id < {high}", user_metadata=race.reported(number))


def _update(table: txlog.Table, race: RowRace, number: int) -> None:
    low, high = race.deleted(number)
    table.update({"v": txlog.expr("v + 1")}, f"id >= {low} AND id < {high}", user_metadata=race.reported(number))


def _compact(table: txlog.Table, race: RowRace, number: int) -> None:
    """As an optimizer that knows only the classic rules: where it loses, it gives up."""
    try:
        with table.transaction(operation="OPTIMIZE", data_change=False, isolation="SnapshotIsolation") as txn:
            txn.append(txn.snapshot.to_arrow())
            txn.remove(txn.snapshot.files().column("path"))
    except txlog.ConflictError:
        pass


def _optimize(table: txlog.Table, race: RowRace, number: int) -> None:
    table.optimize()


_CALLS: dict[str, Callable[[txlog.Table, RowRace, int], None]] = {
    "upsert": _upsert,
    "append": _append,
    "delete": _delete,
    "update": _update,
    "compact": _compact,
    "optimize": _optimize,
}


def _said(table: txlog.Table) -> list[str]:
    """What the commits say that they did, oldest first."""
    return [commit["userMetadata"] for commit in reversed(table.history()) if commit.get("userMetadata")]


def replay(table: txlog.Table, races: list[RowRace], start: dict[int, int]) -> tuple[dict[int, int], list[Any]]:
    """The rows that the commits make one after the other, and what landed, in order."""
    rows, landed = dict(start), []
    by_worker = {race.worker: race for race in races}
    for message in _said(table):
        _, worker, number = json.loads(message)
        landed.append((worker, number))
        by_worker[worker].apply(rows, number)
    return rows, landed


def judge_feed(table: txlog.Table, expected: dict[int, int]) -> None:
    """Version by version the feed leads from no row to all of them: what it takes out is there, what it adds is not."""
    held: dict[int, int] = {}
    for version in range(table.version + 1):
        changes = table.changes(version, version).read_all().to_pylist()
        images = [row["_change_type"] for row in changes]
        assert images.count("update_preimage") == images.count("update_postimage")
        for row in changes:
            if row["_change_type"] in ("delete", "update_preimage"):
                assert held.pop(row["id"]) == row["v"], (version, row)
        for row in changes:
            if row["_change_type"] in ("insert", "update_postimage"):
                assert row["id"] not in held, (version, row)
                held[row["id"]] = row["v"]
    assert held == expected
