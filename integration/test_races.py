"""Processes that write to one table at once: what was acknowledged is there, once, at its version; nobody fails."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

from race_worker import SCHEMA, Race
from races import (
    acknowledged,
    assert_sound,
    rows_as_deltalake_sees_them,
    rows_as_we_see_them,
    run,
    start,
    versions_in_the_log,
    wait,
)
from servers import S3Location

import txlog


def _race(folder: Path, workers: int, appends: int, engine: str = "txlog", uri: str = "", **more: Any) -> list[Race]:
    """Workers on one table, which is ``folder/t`` unless ``uri`` says otherwise, each with a ledger of its own."""
    return [
        Race(uri or str(folder / "t"), worker, appends, str(folder / f"ledger-{worker}.jsonl"), engine, **more)
        for worker in range(workers)
    ]


def _assert_nothing_lost_nothing_twice(races: list[Race], ledger: list[dict[str, Any]]) -> None:
    """Every acknowledgement is one row, one version and one ``txnId``, and there is nothing else."""
    appends = sum(race.appends for race in races)
    expected = {(race.worker, number) for race in races for number in range(race.appends)}
    assert {(entry["worker"], entry["number"]) for entry in ledger} == expected
    assert rows_as_we_see_them(races[0]) == dict.fromkeys(expected, 1)
    assert rows_as_deltalake_sees_them(races[0]) == dict.fromkeys(expected, 1)
    log = versions_in_the_log(races[0])
    assert {entry["version"]: entry["txn_id"] for entry in ledger}.items() <= log.items()
    assert len({entry["version"] for entry in ledger}) == appends


def test_sixteen_processes_append_fifty_times_each_and_nobody_fails(tmp_path: Path) -> None:
    races = _race(tmp_path, workers=16, appends=50)
    txlog.Table.create(races[0].uri, SCHEMA)
    ledger = run(races)
    _assert_nothing_lost_nothing_twice(races, ledger)
    assert len(versions_in_the_log(races[0])) == 1 + 800
    assert_sound(races[0])


def test_eight_processes_append_to_one_table_on_an_object_store(any_s3_location: S3Location, tmp_path: Path) -> None:
    place = any_s3_location
    races = _race(tmp_path, workers=8, appends=5, uri=place.uri, storage_options=place.storage_options)
    txlog.Table.create(place.uri, SCHEMA, storage_options=place.storage_options)
    ledger = run(races)
    _assert_nothing_lost_nothing_twice(races, ledger)
    assert_sound(races[0])


def test_jobs_that_all_find_no_table_create_one_together(tmp_path: Path) -> None:
    races = _race(tmp_path, workers=8, appends=2, engine="txlog.write")
    ledger = run(races)
    _assert_nothing_lost_nothing_twice(races, ledger)
    assert {entry["version"] for entry in ledger} == set(range(16))
    assert_sound(races[0])


def test_jobs_that_all_find_no_table_create_one_together_on_an_object_store(
    s3_location: S3Location, tmp_path: Path
) -> None:
    options = s3_location.storage_options
    races = _race(tmp_path, 4, 2, "txlog.write", s3_location.uri, storage_options=options)
    _assert_nothing_lost_nothing_twice(races, run(races))


def test_twins_of_one_job_land_each_checkpoint_once(tmp_path: Path) -> None:
    """Two drivers of a restarted job, both sure to be the one: each checkpoint is in the table exactly once."""
    races = _race(tmp_path, workers=4, appends=15, engine="txlog.twins")
    txlog.Table.create(races[0].uri, SCHEMA)
    ledger = run(races)
    committed = [entry for entry in ledger if entry["outcome"] == "committed"]
    assert sorted(entry["number"] for entry in committed) == list(range(15))
    assert len(ledger) == 4 * 15
    rows = rows_as_we_see_them(races[0])
    assert rows == {(entry["worker"], entry["number"]): 1 for entry in committed}
    assert rows_as_deltalake_sees_them(races[0]) == rows
    versions = {entry["number"]: entry["version"] for entry in committed}
    assert all(entry["version"] == versions[entry["number"]] for entry in ledger), "a replay names another version"
    assert txlog.Table.open(races[0].uri).snapshot().transaction_version("twins") == 14
    assert_sound(races[0])


def test_txlog_and_deltalake_append_at_once(tmp_path: Path) -> None:
    ours = _race(tmp_path, workers=3, appends=20)
    theirs = [
        Race(ours[0].uri, worker, 10, str(tmp_path / f"ledger-{worker}.jsonl"), "deltalake") for worker in (3, 4, 5)
    ]
    txlog.Table.create(ours[0].uri, SCHEMA)
    ledger = run([*ours, *theirs])
    expected = {(race.worker, number) for race in (*ours, *theirs) for number in range(race.appends)}
    assert {(entry["worker"], entry["number"]) for entry in ledger} == expected
    assert rows_as_we_see_them(ours[0]) == dict.fromkeys(expected, 1)
    assert rows_as_deltalake_sees_them(ours[0]) == dict.fromkeys(expected, 1)
    log = versions_in_the_log(ours[0])
    assert {entry["version"]: entry["txn_id"] for entry in ledger if "version" in entry}.items() <= log.items()
    assert len(log) == 1 + 60 + 30


def test_txlog_and_deltalake_append_at_once_on_an_object_store(s3_location: S3Location, tmp_path: Path) -> None:
    options = s3_location.storage_options
    ours = _race(tmp_path, 2, 5, uri=s3_location.uri, storage_options=options)
    theirs = [Race(s3_location.uri, 2, 5, str(tmp_path / "ledger-2.jsonl"), "deltalake", options)]
    txlog.Table.create(s3_location.uri, SCHEMA, storage_options=options)
    ledger = run([*ours, *theirs])
    expected = {(worker, number) for worker in range(3) for number in range(5)}
    assert {(entry["worker"], entry["number"]) for entry in ledger} == expected
    assert rows_as_we_see_them(ours[0]) == dict.fromkeys(expected, 1)
    assert rows_as_deltalake_sees_them(ours[0]) == dict.fromkeys(expected, 1)


def test_killed_processes_leave_what_was_acknowledged_and_at_most_one_append_more(tmp_path: Path) -> None:
    races = _race(tmp_path, workers=6, appends=30)
    txlog.Table.create(races[0].uri, SCHEMA)
    workers = start(races)
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.close()
    doomed = workers[:3]
    while len(acknowledged(races[:3])) < 5 and any(worker.poll() is None for worker in doomed):
        time.sleep(0.01)
    for worker in doomed:
        worker.send_signal(signal.SIGKILL)
    failures = wait(workers)
    assert len(failures) == 3
    assert all(f"exit code {-signal.SIGKILL}" in failure for failure in failures), failures
    ledger = {(entry["worker"], entry["number"]) for entry in acknowledged(races)}
    rows = rows_as_we_see_them(races[0])
    assert rows_as_deltalake_sees_them(races[0]) == rows
    assert ledger <= rows.keys()
    assert set(rows.values()) == {1}
    unacknowledged = rows.keys() - ledger
    assert {worker for worker, _ in unacknowledged} <= {0, 1, 2}
    assert len(unacknowledged) <= 3
    assert {(worker, number) for worker in (3, 4, 5) for number in range(30)} <= ledger
    versions_in_the_log(races[0])
    assert_sound(races[0])
