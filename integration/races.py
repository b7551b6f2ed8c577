"""Starts the processes of a race together, kills some, and judges what they left: the table against the ledgers."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import deltalake
import duckdb
from fault_tools import end_of, event, process
from race_worker import Race, work
from rows import assert_sound, counted, read_by_deltalake

import txlog

__all__ = [
    "acknowledged",
    "judge",
    "kill_and_restart",
    "rows_as_others_see_them",
    "rows_as_we_see_them",
    "run",
    "run_and_kill",
    "run_to_the_end",
]


def run(races: Sequence[Race]) -> list[dict[str, Any]]:
    """Run the race, in which no process may fail, and return the acknowledgements."""
    run_to_the_end(work, races)
    refused = [entry for race in races for entry in race.reported() if entry["state"] in ("refused", "unknown")]
    assert refused == []
    return acknowledged(races)


def run_and_kill(races: Sequence[Race], kills: int, seed: int, pause_s: float) -> int:
    """Run the race, kill a worker that is at work, again and again, and start another in its place.

    Returns how many kills there were. ``pause_s`` is the longest wait before one. A worker without a ledger waits for
    the start: killed then, it could keep the others from starting.
    """
    return kill_and_restart(work, races, kills, seed, (0, pause_s), at_work=lambda race: bool(race.reported()))


def run_to_the_end(life: Callable[..., None], races: Sequence[Any]) -> None:
    """Run ``life(race, started)`` for each race in its own process, all starting together; none may fail."""
    started = event()
    workers = [process(life, race, started) for race in races]
    started.set()
    assert [end_of(worker) for worker in workers] == [0] * len(workers)


def kill_and_restart(
    life: Callable[..., None],
    races: Sequence[Any],
    kills: int,
    seed: int,
    pause_s: tuple[float, float],
    at_work: Callable[[Any], bool] = lambda race: True,
    share_done: Callable[[], float] = lambda: 1.0,
) -> int:
    """As `run_to_the_end`, but kill a worker again and again, and run ``life(race)`` in its place.

    Returns how many kills there were. ``pause_s`` is the shortest and the longest wait before one. With ``share_done``,
    which returns the share of the work that is done, the kills are spread over the race however fast the machine is.
    """
    choose = random.Random(seed)
    started = event()
    workers = [process(life, race, started) for race in races]
    started.set()
    killed = 0
    while killed < kills:
        time.sleep(choose.uniform(*pause_s))
        if share_done() < (killed + 1) / (kills + 1) and any(worker.is_alive() for worker in workers):
            continue
        alive = [index for index, worker in enumerate(workers) if worker.is_alive()]
        if not alive:
            break
        victim = choose.choice(alive)
        if not at_work(races[victim]):
            continue
        workers[victim].kill()
        killed += end_of(workers[victim]) == -signal.SIGKILL
        workers[victim] = process(life, races[victim])
    assert [end_of(worker) for worker in workers] == [0] * len(workers)
    return killed


def acknowledged(races: Sequence[Race]) -> list[dict[str, Any]]:
    return [entry for race in races for entry in race.reported() if entry["state"] == "acknowledged"]


def judge(races: Sequence[Race]) -> None:
    """What every race must leave, whatever befell its workers.

    Acknowledged rows are there, nothing is there twice, what was refused is not there, what was begun and never
    answered is there once or not at all, and a worker that replays has all of its rows in. Every reader agrees, the
    versions are dense, and each acknowledged version still holds the transaction that it acknowledged.
    """
    rows = rows_as_we_see_them(races[0])
    for reader, found in rows_as_others_see_them(races[0]).items():
        assert found == rows, f"{reader} sees other rows"
    assert set(rows.values()) <= {1}, "a row is there twice"
    ledger = acknowledged(races)
    reported = {(entry["worker"], entry["number"]) for entry in ledger}
    assert reported <= rows.keys(), "an acknowledged row is missing"
    begun, refused = _numbers(races, "begun"), _numbers(races, "refused")
    assert not refused & rows.keys(), "a row is in the table although an error said that nothing landed"
    assert rows.keys() <= begun
    for race in races:
        if race.engine == "txlog.sink":
            assert {(race.worker, number) for number in range(race.calls)} <= reported, "a job did not come to its end"
    log = versions_in_the_log(races[0])
    assert all(entry["txn_id"] in log[entry["version"]] for entry in ledger if _names_a_version(entry))
    assert_sound(races[0].uri, races[0].storage_options)


def _names_a_version(entry: dict[str, Any]) -> bool:
    return entry.get("outcome") == "committed"


def _numbers(races: Sequence[Race], state: str) -> set[tuple[int, int]]:
    return {(race.worker, entry["number"]) for race in races for entry in race.reported() if entry["state"] == state}


def rows_as_we_see_them(race: Race) -> Counter[tuple[int, int]]:
    """(worker, number) of every row, read through a handle that took no part in the race."""
    table = txlog.Table.open(race.uri, storage_options=race.storage_options)
    return counted(table.snapshot().to_arrow(), "worker", "number")


def rows_as_others_see_them(race: Race) -> dict[str, Counter[tuple[int, int]]]:
    table = deltalake.DeltaTable(race.uri, storage_options=race.storage_options or None)
    dataset = duckdb.connect().register("t", table.to_pyarrow_dataset())
    return {
        "deltalake": counted(read_by_deltalake(table, "worker", "number"), "worker", "number"),
        "duckdb": counted(dataset.sql("select worker, number from t").to_arrow_table(), "worker", "number"),
    }


def _txn_ids(entry: dict[str, Any]) -> list[str]:
    return [each["txnId"] for each in (entry, *entry.get("txlog", {}).get("joined", ())) if "txnId" in each]


def versions_in_the_log(race: Race) -> dict[int, list[str]]:
    """version -> ``txnId`` of every commit and of the appends that it carries, as in the history that deltalake reads;
    the versions are dense from 0."""
    table = deltalake.DeltaTable(race.uri, storage_options=race.storage_options or None)
    found = {entry["version"]: _txn_ids(entry) for entry in table.history()}
    assert sorted(found) == list(range(table.version() + 1))
    return found
