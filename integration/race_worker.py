"""One process of a race: it waits for the start, writes, and keeps a ledger of what was acknowledged to it.

    python race_worker.py '{"uri": ..., "worker": 3, "appends": 50, "ledger": ..., ...}'

It says "ready" and starts when its standard input closes. The ledger has a JSON line for each acknowledgement,
on disk before the next write begins, so that it outlives a kill.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import txlog

SCHEMA = pa.schema([("worker", pa.int64()), ("number", pa.int64())])


@dataclass(frozen=True)
class Race:
    """What one worker does. ``engine`` is "txlog", "deltalake", "txlog.write" (no table yet) or "txlog.twins"."""

    uri: str
    worker: int
    appends: int
    ledger: str
    engine: str = "txlog"
    storage_options: dict[str, str] = field(default_factory=dict)

    def row(self, number: int) -> pa.Table:
        """One row, made of bytes: to look at Python values pyarrow would load pandas in every process."""
        values = (value.to_bytes(8, "little") for value in (self.worker, number))
        columns = [pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(value)]) for value in values]
        return pa.Table.from_arrays(columns, schema=SCHEMA)


def _appends(race: Race) -> Iterator[dict[str, Any]]:
    table = txlog.Table.open(race.uri, storage_options=race.storage_options)
    for number in range(race.appends):
        result = table.append(race.row(number))
        yield _told(number, result)


def _first_writes(race: Race) -> Iterator[dict[str, Any]]:
    for number in range(race.appends):
        result = txlog.write(race.uri, race.row(number), storage_options=race.storage_options)
        yield _told(number, result)


def _checkpoints_of_one_application(race: Race) -> Iterator[dict[str, Any]]:
    """Twins of one job: all of them write every checkpoint, one of them may land it."""
    table = txlog.Table.open(race.uri, storage_options=race.storage_options)
    for number in range(race.appends):
        result = table.append(race.row(number), app_id="twins", checkpoint_id=number)
        yield _told(number, result)


def _appends_by_deltalake(race: Race) -> Iterator[dict[str, Any]]:
    import deltalake

    retries = deltalake.CommitProperties(max_commit_retries=1000)
    for number in range(race.appends):
        deltalake.write_deltalake(
            race.uri,
            race.row(number),
            mode="append",
            storage_options=race.storage_options or None,
            commit_properties=retries,
        )
        yield {"number": number}


def _told(number: int, result: txlog.WriteResult) -> dict[str, Any]:
    return {"number": number, **result.to_dict()}


ENGINES = {
    "txlog": _appends,
    "txlog.write": _first_writes,
    "txlog.twins": _checkpoints_of_one_application,
    "deltalake": _appends_by_deltalake,
}


def main() -> None:
    race = Race(**json.loads(sys.argv[1]))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    with Path(race.ledger).open("a") as ledger:
        for acknowledged in ENGINES[race.engine](race):
            ledger.write(json.dumps({"worker": race.worker, **acknowledged}) + "\n")
            ledger.flush()
            os.fsync(ledger.fileno())


if __name__ == "__main__":
    main()
