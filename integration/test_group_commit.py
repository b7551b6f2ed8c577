"""Writers of several machines that commit each other's appends and overwrites on an S3 server: killed, refused, and
beside deltalake.

Each process has a folder for temporary files of its own, so that the queue of one machine does not keep them apart, and
the network has a delay, so that they lose races. `race_worker` says what each of them notes, `races.judge` what must be
true in the end.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from race_worker import SCHEMA, Race
from races import acknowledged, judge, run, run_and_kill
from servers import S3Location, S3Server
from slow_network import slow_network

import txlog
from txlog.errors import TxlogError
from txlog.testing.faulty_s3 import FaultyS3, ListFault, PutFault

Record = Callable[[str, object], None]

PARTED = pa.schema([("id", pa.int64()), ("part", pa.string())])
_DELAY_S = 0.01
_CONTENTION = (
    PutFault.CONFLICT_409,
    PutFault.SLOW_DOWN_503,
    PutFault.LAND_503,
    PutFault.ERROR_500,
    PutFault.LAND_DROP,
    PutFault.DROP,
)
"""What S3 answers to requests that meet, or that are too many: nothing landed, or nobody knows. A 412 is no fault."""


@pytest.fixture
def place(s3_server: S3Server) -> Iterator[S3Location]:
    """A table's place on a server behind a network that takes its time."""
    with slow_network(s3_server.url, _DELAY_S) as network:
        location = s3_server.new_location()
        yield S3Location(location.uri, {**location.storage_options, "endpoint_url": network.url})


def _races(
    folder: Path, place: S3Location, workers: int, calls: int, engine: str = "txlog", first: int = 0
) -> list[Race]:
    return [
        Race(
            place.uri,
            worker,
            calls,
            str(folder / f"ledger-{worker}.jsonl"),
            engine,
            place.storage_options,
            str(folder / f"machine-{worker}"),
        )
        for worker in range(first, first + workers)
    ]


def _create(place: S3Location) -> txlog.Table:
    return txlog.Table.create(
        place.uri, SCHEMA, properties={"txlog.groupCommit": True}, storage_options=place.storage_options
    )


def _writers_of_versions(races: list[Race]) -> dict[int, set[int]]:
    """Which workers' appends each version carries, by their acknowledgements."""
    found: dict[int, set[int]] = {}
    for entry in acknowledged(races):
        if entry.get("outcome") == "committed":
            found.setdefault(entry["version"], set()).add(entry["worker"])
    return found


@pytest.mark.hunt(part="races")
def test_processes_commit_each_others_appends_while_deltalake_writes(place: S3Location, tmp_path: Path) -> None:
    _create(place)
    races = [
        *_races(tmp_path, place, 6, 12),
        *_races(tmp_path, place, 2, 12, "txlog.sink", first=6),
        *_races(tmp_path, place, 1, 4, "deltalake", first=8),
    ]
    ledger = run([race for race in races if race.engine != "deltalake"])
    run([race for race in races if race.engine == "deltalake"])
    judge(races)
    assert len(ledger) == 8 * 12
    assert max(len(workers) for workers in _writers_of_versions(races).values()) > 1, "no version carried several"


@pytest.mark.hunt(part="races")
def test_killed_processes_that_commit_each_others_appends_lose_and_repeat_nothing(
    place: S3Location, tmp_path: Path, record_property: Record
) -> None:
    """Rounds of one race, until a version carried several processes' appends: mostly the first does."""
    _create(place)
    races: list[Race] = []
    for seed in range(5):
        round_of = [
            *_races(tmp_path, place, 4, 5, first=10 * seed),
            *_races(tmp_path, place, 2, 5, "txlog.sink", first=10 * seed + 4),
            *_races(tmp_path, place, 1, 2, "deltalake", first=10 * seed + 6),
        ]
        races += round_of
        killed = run_and_kill(round_of, 4, seed, 0.3)
        if _judged(races, killed, record_property):
            return
    pytest.fail("no version carried several")


@pytest.mark.hunt(part="races")
def test_thirty_two_killed_processes_that_commit_each_others_appends_lose_and_repeat_nothing(
    place: S3Location, tmp_path: Path, record_property: Record
) -> None:
    _create(place)
    races = [*_races(tmp_path, place, 24, 12), *_races(tmp_path, place, 8, 12, "txlog.sink", first=24)]
    killed = run_and_kill(races, 30, 2, 0.3)
    assert _judged(races, killed, record_property)


def _judged(races: list[Race], killed: int, record_property: Record) -> int:
    """How many versions carried appends of several processes, after the judgement of a race with kills."""
    judge(races)
    versions = _writers_of_versions(races)
    several = sum(len(workers) > 1 for workers in versions.values())
    record_property("measured", f"{killed} kills, {len(versions)} versions, {several} of them of several processes")
    assert killed
    return several


# --- what the store answers when many meet --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_what_a_busy_store_answers_loses_and_repeats_nothing(seed: int) -> None:
    choose = random.Random(seed)
    answers: dict[int, str] = {}
    with FaultyS3() as server:
        uri, options = "s3://bucket/busy", {**server.storage_options, "timeout": "2s"}
        properties = {"txlog.groupCommit": True}
        txlog.Table.create(uri, {"id": pa.int64()}, properties=properties, storage_options=options)
        retry = txlog.RetryPolicy(total_timeout=60.0, min_wait=0.01, max_wait=0.1)

        def work(worker: int) -> None:
            table = txlog.Table.open(uri, storage_options=options, retry=retry)
            for number in range(6):
                see_others(table)
                row = worker * 100 + number
                try:
                    table.append(pa.table({"id": pa.array([row], pa.int64())}))
                    answers[row] = "committed"
                except txlog.CommitStateUnknownError as error:
                    server.clear_scripts()
                    landed = table.resolve(error.txn_id or "", error.version or 0)
                    answers[row] = "committed" if landed else "refused"
                except TxlogError:
                    answers[row] = "refused"

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(5)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            server.script(*choose.sample((*_CONTENTION, *[PutFault.NONE] * len(_CONTENTION)), k=4))
            server.script_lists(ListFault.NONE, choose.choice((ListFault.SLOW_DOWN_503, ListFault.ERROR_500)))
            for thread in threads:
                thread.join(0.05)
        server.clear_scripts()
        table = txlog.Table.open(uri, storage_options=options)
        found = sorted(table.snapshot().to_arrow()["id"].to_pylist())
        assert found == sorted(row for row, answer in answers.items() if answer == "committed")
        assert len(answers) == 30
        assert not table.verify().findings
        assert any(request.fault in _CONTENTION for request in server.requests)


@pytest.mark.hunt(part="races")
@pytest.mark.parametrize("seed", range(4))
def test_writers_that_replace_partitions_for_each_other_do_as_if_one_after_the_other(seed: int) -> None:
    """Handles on machines of their own replace and append to partitions, while the store refuses and loses answers."""
    choose = random.Random(seed)
    landed: dict[str, tuple[bool, str, int]] = {}
    with FaultyS3() as server:
        uri, options = "s3://bucket/replaced", {**server.storage_options, "timeout": "2s"}
        properties = {"txlog.groupCommit": True, "delta.enableChangeDataFeed": True}
        txlog.Table.create(uri, PARTED, ["part"], properties=properties, storage_options=options)
        retry = txlog.RetryPolicy(total_timeout=60.0, min_wait=0.01, max_wait=0.1)

        def work(worker: int) -> None:
            own = random.Random(100 * seed + worker)
            table = txlog.Table.open(uri, storage_options=options, retry=retry)
            for number in range(8):
                see_others(table)
                done = own.random() < 0.6, own.choice("abcd"), worker * 100 + number
                rows = pa.table({"id": [done[2]], "part": [done[1]]}, PARTED)
                try:
                    write = table.overwrite_partitions(rows, on_conflict="rerun") if done[0] else table.append(rows)
                    landed[write.txn_id] = done
                except txlog.CommitStateUnknownError as error:
                    server.clear_scripts()
                    if table.resolve(error.txn_id or "", error.version or 0):
                        landed[error.txn_id or ""] = done
                except TxlogError:
                    pass

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(6)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            server.script(*choose.sample((*_CONTENTION, *[PutFault.NONE] * len(_CONTENTION)), k=4))
            server.script_lists(ListFault.NONE, choose.choice((ListFault.SLOW_DOWN_503, ListFault.ERROR_500)))
            for thread in threads:
                thread.join(0.05)
        server.clear_scripts()
        table = txlog.Table.open(uri, storage_options=options)
        _judge_replaced(table, landed, deltalake.DeltaTable(uri, storage_options=options))


def _judge_replaced(table: txlog.Table, landed: dict[str, tuple[bool, str, int]], other: deltalake.DeltaTable) -> None:
    """Each partition has the rows of its last overwrite, and those that were appended after it, by the log."""
    expected: dict[str, list[int]] = {}
    carried = 0
    for entry in reversed(table.history()):
        listed = [each["txnId"] for each in entry["txlog"].get("joined", ())]
        carried += len(listed) > 1 and not entry["isBlindAppend"]
        for txn_id in listed or [entry["txnId"]]:
            if entry["operation"] == "WRITE":
                replaces, part, row = landed.pop(txn_id)
                expected[part] = [row] if replaces else [*expected.get(part, ()), row]
    assert not landed, "acknowledged, and not in the log"
    assert carried, "no version carried several overwrites"
    rows = sorted((part, row) for part, found in expected.items() for row in found)
    for found in (table.snapshot().to_arrow(), other.to_pyarrow_table()):
        assert sorted((row["part"], row["id"]) for row in found.to_pylist()) == rows
    left: Counter[tuple[str, int]] = Counter()
    for row in table.changes(1).read_all().to_pylist():
        left[row["part"], row["id"]] += {"insert": 1, "delete": -1}[row["_change_type"]]
    assert sorted(left.elements()) == rows
    assert not table.verify().findings


def see_others(table: Any) -> None:
    """Let the next append of a handle join the line at once, as if it had just seen others wait there."""
    table._open_table._commits.line.crowded_until_s = float("inf")
