"""One process of a race: it waits for the start, makes its calls, and keeps a ledger of each, before and after.

The ledger has a JSON line for each event, on disk before the next event, so it outlives a kill: ``{"worker": 3,
"number": 7, "state": "begun"}``, then "acknowledged" with the result of the call, "refused" if a typed error says that
nothing landed, "unknown" if it is unknown. A worker restarted with the ledger of a dead one continues after it: a plain
writer with the next number, since the last may have landed; one with checkpoints repeats the last one, since a replay
lands nothing twice.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import txlog

__all__ = ["ENGINES", "SCHEMA", "Race", "turn", "work"]

SCHEMA = pa.schema([("worker", pa.int64()), ("number", pa.int64())])
Call = Callable[[int], dict[str, Any]]


@dataclass(frozen=True)
class Race:
    """What one worker does: ``calls`` writes of one row each. ``engine`` is one of ``ENGINES``. ``machine`` is its own
    folder for temporary files, as on a machine of its own.
    """

    uri: str
    worker: int
    calls: int
    ledger: str
    engine: str = "txlog"
    storage_options: dict[str, str] = field(default_factory=dict)
    machine: str = ""

    def row(self, number: int) -> pa.Table:
        return pa.table([[self.worker], [number]], schema=SCHEMA)

    def reported(self) -> list[dict[str, Any]]:
        """The ledger; a last line that a kill cut short was not acknowledged to anybody."""
        ledger = Path(self.ledger)
        lines = ledger.read_bytes().splitlines(keepends=True) if ledger.exists() else []
        return [json.loads(line) for line in lines if line.endswith(b"\n")]

    @property
    def replays(self) -> bool:
        return self.engine in ("txlog.sink", "txlog.twins")

    def next_number(self) -> int:
        numbers = [entry["number"] for entry in self.reported() if not self.replays or entry["state"] == "acknowledged"]
        return max(numbers, default=-1) + 1


def work(race: Race, started: Any = None, call: Call | None = None) -> None:
    """The worker's whole life. ``started`` is the event that all of them wait for; one that comes later does not.

    ``call`` is what it does, where that is none of ``ENGINES``.
    """
    if race.machine:
        Path(race.machine).mkdir(exist_ok=True)
        os.environ["TMPDIR"], tempfile.tempdir = race.machine, None
    call = call or ENGINES[race.engine](race)
    if started is not None:
        started.wait()
    first = race.next_number()
    ledger = os.open(race.ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(number: int, state: str, **reported: Any) -> None:
        os.write(
            ledger, (json.dumps({"worker": race.worker, "number": number, "state": state, **reported}) + "\n").encode()
        )
        os.fsync(ledger)

    for number in range(first, race.calls):
        note(number, "begun")
        try:
            reported = call(number)
        except txlog.CommitStateUnknownError as error:
            note(number, "unknown", version=error.version, txn_id=error.txn_id)
        except txlog.TxlogError as error:
            note(number, "refused", error=str(error))
        else:
            note(number, reported.pop("state", "acknowledged"), **reported)


def _by_txlog(race: Race) -> Call:
    table = txlog.Table.open(race.uri, storage_options=race.storage_options)
    return lambda number: table.append(race.row(number)).to_dict()


def _by_txlog_in_turns(race: Race) -> Call:
    """At the same time as its like, and never while one worker has the table to itself."""
    append = _by_txlog(race)

    def call(number: int) -> dict[str, Any]:
        with turn(race, alone=False):
            return append(number)

    return call


def _by_first_write(race: Race) -> Call:
    """No table yet: the first process creates it."""
    return lambda number: txlog.write(race.uri, race.row(number), storage_options=race.storage_options).to_dict()


def _by_twins(race: Race) -> Call:
    """Twins of one job: all of them write every checkpoint, one of them may land it."""
    table = txlog.Table.open(race.uri, storage_options=race.storage_options)
    return lambda number: table.append(race.row(number), app_id="twins", checkpoint_id=number).to_dict()


def _by_sink(race: Race) -> Call:
    """A separate job for each worker, by committables."""
    sink = txlog.Sink(txlog.Table.open(race.uri, storage_options=race.storage_options), f"job-{race.worker}")

    def call(number: int) -> dict[str, Any]:
        with sink.task(number) as task:
            task.write(race.row(number))
        return sink.commit(number, [task.committable]).to_dict()

    return call


def _by_upsert(race: Race) -> Call:
    """Upserts that conflict: each has a row of its own, and one that all of them change."""
    table = txlog.Table.open(race.uri, storage_options=race.storage_options)

    def call(number: int) -> dict[str, Any]:
        rows = pa.concat_tables([race.row(number), pa.table([[-1], [0]], schema=SCHEMA)])
        return table.upsert(rows, ["worker", "number"]).to_dict()

    return call


def _by_deltalake(race: Race) -> Call:
    """Its errors do not say whether the commit landed."""
    import deltalake

    retries = deltalake.CommitProperties(max_commit_retries=1000)

    def call(number: int) -> dict[str, Any]:
        options = race.storage_options or None
        try:
            deltalake.write_deltalake(
                race.uri, race.row(number), mode="append", storage_options=options, commit_properties=retries
            )
        except (OSError, deltalake.exceptions.DeltaError) as error:
            return {"state": "unknown", "error": str(error)}
        return {}

    return call


@contextmanager
def turn(race: Race, *, alone: bool) -> Iterator[None]:
    """Hold the table of ``race``, alone or with others. Who wants it alone is waited for at the door, by all."""
    mode = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    with open(f"{race.uri}.door", "ab") as door, open(f"{race.uri}.turn", "ab") as inside:
        fcntl.flock(door, mode)
        fcntl.flock(inside, mode)
        if not alone:
            fcntl.flock(door, fcntl.LOCK_UN)
        yield


ENGINES: dict[str, Callable[[Race], Call]] = {
    "txlog": _by_txlog,
    "txlog.turns": _by_txlog_in_turns,
    "txlog.write": _by_first_write,
    "txlog.twins": _by_twins,
    "txlog.sink": _by_sink,
    "txlog.upsert": _by_upsert,
    "deltalake": _by_deltalake,
}
