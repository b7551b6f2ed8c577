"""Starting the processes of a race at once, and judging what they left: the table against their ledgers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import deltalake
from race_worker import Race

import txlog
from txlog.maintenance.verify import verify_table
from txlog.store.open import open_store

__all__ = [
    "acknowledged",
    "assert_sound",
    "rows_as_deltalake_sees_them",
    "rows_as_we_see_them",
    "run",
    "start",
    "versions_in_the_log",
    "wait",
]

WORKER = Path(__file__).with_name("race_worker.py")
TIMEOUT_S = 150


def start(races: Iterable[Race]) -> list[subprocess.Popen[str]]:
    """All processes, waiting for the start that `wait` or closing their standard input gives."""
    workers = [
        subprocess.Popen(
            [sys.executable, str(WORKER), json.dumps(asdict(race))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for race in races
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n", worker.communicate()[1]
    return workers


def wait(workers: Iterable[subprocess.Popen[str]]) -> list[str]:
    """Give the start where it is not given yet, wait for the end, and tell what the failed ones said last."""
    workers = list(workers)
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.close()
    failures = []
    for worker in workers:
        worker.stdin = None
        errors = worker.communicate(timeout=TIMEOUT_S)[1]
        if worker.returncode:
            failures.append(f"exit code {worker.returncode}: {errors[-2000:]}")
    return failures


def run(races: list[Race]) -> list[dict[str, Any]]:
    """Run the race, of which nobody may fail, and return the acknowledgements."""
    assert wait(start(races)) == []
    return acknowledged(races)


def acknowledged(races: Iterable[Race]) -> list[dict[str, Any]]:
    ledgers = dict.fromkeys(Path(race.ledger) for race in races)
    return [json.loads(line) for ledger in ledgers if ledger.exists() for line in ledger.read_text().splitlines()]


def rows_as_we_see_them(race: Race) -> Counter[tuple[int, int]]:
    """(worker, number) of every row, read through a handle that took no part in the race."""
    table = txlog.Table.open(race.uri, storage_options=race.storage_options)
    return _counted(table.snapshot().to_arrow())


def rows_as_deltalake_sees_them(race: Race) -> Counter[tuple[int, int]]:
    options = race.storage_options or None
    table = deltalake.DeltaTable(race.uri, storage_options=options)
    return _counted(deltalake.QueryBuilder().register("t", table).execute("select worker, number from t").read_all())


def versions_in_the_log(race: Race) -> dict[int, str]:
    """version -> ``txnId`` of every commit, as deltalake tells the history; the versions are dense from 0."""
    table = deltalake.DeltaTable(race.uri, storage_options=race.storage_options or None)
    found = {entry["version"]: entry.get("txnId", "") for entry in table.history()}
    assert sorted(found) == list(range(table.version() + 1))
    return found


def assert_sound(race: Race) -> None:
    """What `txlog verify` says: every commit parses, every file is there, every checkpoint equals the fold."""
    found = verify_table(open_store(race.uri, race.storage_options))
    assert found.findings == ()


def _counted(rows: Any) -> Counter[tuple[int, int]]:
    return Counter(zip(rows["worker"].to_pylist(), rows["number"].to_pylist(), strict=True))
