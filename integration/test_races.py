"""Processes that write to one table at the same time, killed at random: acknowledged writes are there, once, and none
fails.

Up to 32 processes, on a local disk and on S3 servers, of txlog alone and alongside deltalake. `race_worker` says what
each of them notes and when; `races.judge` says what must be true in the end. The hunt has the largest races, all
servers, and a race of TXLOG_RACE_SECONDS. Each run kills by the same seed, unless TXLOG_RACE_SEED is another number or
`random`; the seed is printed with a failure.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from go_servers import GO_PACKAGES
from race_worker import SCHEMA, Race
from races import acknowledged, judge, rows_as_others_see_them, rows_as_we_see_them, run, run_and_kill
from rows import assert_sound
from servers import SERVERS, S3Location

import txlog

Record = Callable[[str, object], None]

on_one_server_or_in_the_hunt_on_each = pytest.mark.parametrize(
    "any_s3_server",
    ["localbucket", *(pytest.param(name, marks=pytest.mark.hunt(part="races")) for name in GO_PACKAGES)],
    indirect=True,
)


def _race(
    folder: Path, workers: int, calls: int, engine: str = "txlog", place: S3Location | None = None, first: int = 0
) -> list[Race]:
    """Workers on one table, which is ``folder/t`` unless ``place`` says otherwise, each with its own ledger."""
    uri, options = (place.uri, place.storage_options) if place else (str(folder / "t"), {})
    return [
        Race(uri, worker, calls, str(folder / f"ledger-{worker}.jsonl"), engine, options)
        for worker in range(first, first + workers)
    ]


def _create(race: Race) -> None:
    txlog.Table.create(race.uri, SCHEMA, storage_options=race.storage_options)


def _assert_all_is_there(races: list[Race], ledger: list[dict[str, Any]]) -> None:
    """Every call was acknowledged. On a disk each has its own version; on an object store processes may share one."""
    expected = {(race.worker, number) for race in races for number in range(race.calls)}
    assert {(entry["worker"], entry["number"]) for entry in ledger} == expected
    assert rows_as_we_see_them(races[0]) == dict.fromkeys(expected, 1)
    versions = [entry["version"] for entry in ledger if "version" in entry]
    assert "://" in races[0].uri or len(set(versions)) == len(versions)
    judge(races)


# --- no process dies --------------------------------------------------------------------------------------------


@pytest.mark.hunt(part="races")
def test_thirty_two_processes_append_twelve_times_each_and_none_fails(tmp_path: Path) -> None:
    races = _race(tmp_path, workers=32, calls=12)
    _create(races[0])
    _assert_all_is_there(races, run(races))


@on_one_server_or_in_the_hunt_on_each
def test_eight_processes_append_to_one_table_on_an_object_store(any_s3_location: S3Location, tmp_path: Path) -> None:
    races = _race(tmp_path, workers=8, calls=5, place=any_s3_location)
    _create(races[0])
    _assert_all_is_there(races, run(races))


@pytest.mark.hunt(part="races")
def test_jobs_that_all_find_no_table_create_one_together(tmp_path: Path) -> None:
    races = _race(tmp_path, workers=8, calls=2, engine="txlog.write")
    ledger = run(races)
    _assert_all_is_there(races, ledger)
    assert {entry["version"] for entry in ledger} == set(range(16))


@pytest.mark.hunt(part="races")
def test_jobs_that_all_find_no_table_create_one_together_on_an_object_store(
    s3_location: S3Location, tmp_path: Path
) -> None:
    races = _race(tmp_path, 4, 2, "txlog.write", s3_location)
    _assert_all_is_there(races, run(races))


def test_concurrent_runs_of_one_job_commit_each_checkpoint_once(tmp_path: Path) -> None:
    """Two drivers of a restarted job, both sure to be the one: each checkpoint is in the table exactly once."""
    races = _race(tmp_path, workers=4, calls=15, engine="txlog.twins")
    _create(races[0])
    ledger = run(races)
    committed = [entry for entry in ledger if entry["outcome"] == "committed"]
    assert sorted(entry["number"] for entry in committed) == list(range(15))
    assert len(ledger) == 4 * 15
    rows = rows_as_we_see_them(races[0])
    assert rows == {(entry["worker"], entry["number"]): 1 for entry in committed}
    assert all(found == rows for found in rows_as_others_see_them(races[0]).values())
    versions = {entry["number"]: entry["version"] for entry in committed}
    assert all(entry["version"] == versions[entry["number"]] for entry in ledger), "a replay names another version"
    assert txlog.Table.open(races[0].uri).snapshot().transaction_version("twins") == 14
    assert_sound(races[0].uri, races[0].storage_options)


@pytest.mark.hunt(part="races")
def test_txlog_and_deltalake_append_concurrently(tmp_path: Path) -> None:
    races = [*_race(tmp_path, 3, 20), *_race(tmp_path, 3, 10, "deltalake", first=3)]
    _create(races[0])
    _assert_all_is_there(races, run(races))


@pytest.mark.hunt(part="races")
def test_txlog_and_deltalake_append_concurrently_on_an_object_store(s3_location: S3Location, tmp_path: Path) -> None:
    races = [*_race(tmp_path, 2, 5, place=s3_location), *_race(tmp_path, 1, 5, "deltalake", s3_location, first=2)]
    _create(races[0])
    _assert_all_is_there(races, run(races))


# --- workers die, again and again -----------------------------------------------------------------------------


def _run_and_judge(races: list[Race], kills: int, seed: int, pause_s: float, record_property: Record) -> None:
    _create(races[0])
    killed = run_and_kill(races, kills, seed, pause_s)
    judge(races)
    begun = sum(entry["state"] == "begun" for race in races for entry in race.reported())
    answered = len(acknowledged(races))
    record_property(
        "measured",
        f"race (seed {seed}): {len(races)} workers, {killed} kills, {begun} calls begun, {answered} acknowledged, "
        f"{rows_as_we_see_them(races[0]).total()} rows",
    )
    assert killed >= kills // 2, "the race was over before it was dangerous"


@pytest.mark.hunt(part="races")
def test_thirty_two_processes_that_are_killed_and_started_again_lose_and_repeat_nothing(
    tmp_path: Path, seed: int, record_property: Record
) -> None:
    """Half of them plain writers, half jobs whose replays must end every checkpoint exactly once."""
    races = [*_race(tmp_path, 16, 12), *_race(tmp_path, 16, 12, "txlog.sink", first=16)]
    _run_and_judge(races, kills=30, seed=seed, pause_s=0.1, record_property=record_property)


@on_one_server_or_in_the_hunt_on_each
def test_processes_that_are_killed_on_an_object_store_lose_and_repeat_nothing(
    any_s3_location: S3Location, tmp_path: Path, seed: int, record_property: Record
) -> None:
    races = [
        *_race(tmp_path, 3, 12, place=any_s3_location),
        *_race(tmp_path, 3, 12, "txlog.sink", any_s3_location, first=3),
    ]
    _run_and_judge(races, kills=8, seed=seed, pause_s=0.1, record_property=record_property)


def test_concurrently_killed_txlog_and_deltalake_processes_lose_and_repeat_nothing(
    tmp_path: Path, seed: int, record_property: Record
) -> None:
    races = [
        *_race(tmp_path, 3, 15),
        *_race(tmp_path, 3, 15, "txlog.sink", first=3),
        *_race(tmp_path, 3, 10, "deltalake", first=6),
    ]
    _run_and_judge(races, kills=12, seed=seed, pause_s=0.2, record_property=record_property)


@pytest.mark.hunt(part="races")
@pytest.mark.timeout(0)
def test_killed_processes_lose_and_repeat_nothing_in_a_long_race_on_every_store(
    any_s3_location: S3Location, tmp_path: Path, seed: int, record_property: Record
) -> None:
    """Rounds of 32 processes on an S3 server, and as many with deltalake on the disk, until the time is over."""
    end_s = time.monotonic() + float(os.environ.get("TXLOG_RACE_SECONDS", "300")) / len(SERVERS)
    number = 0
    while time.monotonic() < end_s:
        number += 1
        for place in (None, S3Location(f"{any_s3_location.uri}-{number}", any_s3_location.storage_options)):
            folder = tmp_path / f"{number}-{'disk' if place is None else 's3'}"
            folder.mkdir()
            races = [
                *_race(folder, 14, 40, place=place),
                *_race(folder, 14, 40, "txlog.sink", place, first=14),
                *_race(folder, 4, 10, "deltalake", place, first=28),
            ]
            _run_and_judge(races, kills=40, seed=seed + number, pause_s=0.3, record_property=record_property)
