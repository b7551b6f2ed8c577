"""Processes that write to one table whose commits a catalog decides, while everything fails: the processes are killed,
the server is killed and started again, and answers are lost before and after the server acts. Acknowledged writes are
there, once, what was refused is not, and every version is published in the end, for an engine that shares no code.
"""

from __future__ import annotations

import itertools
import json
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from race_worker import SCHEMA, Race
from races import acknowledged, rows_as_we_see_them, run_and_kill
from rows import counted, read_by_deltalake
from unity_proxy import UnityProcess, cutting_proxy

import txlog
from txlog.errors import ForkedTableError

NAME = "main.s.t"
SHARED = (-1, 0)
"""The key that every upsert changes besides its own."""


@pytest.mark.parametrize(
    ("appenders", "upserters", "calls", "kills", "restarts", "pause_s"),
    [
        pytest.param(3, 1, 5, 2, 1, 0.1, id="short"),
        pytest.param(8, 4, 25, 16, 6, 1.5, id="long", marks=pytest.mark.hunt(part="races")),
    ],
)
def test_no_commit_is_lost_or_doubled_whoever_dies(
    tmp_path: Path, appenders: int, upserters: int, calls: int, kills: int, restarts: int, pause_s: float
) -> None:
    server = UnityProcess(tmp_path / "server")
    done = threading.Event()
    try:
        with cutting_proxy(server, share=0.2, seed=1) as url, ThreadPoolExecutor(1) as pool:
            options = {"catalog": url}
            table = txlog.Table.create(f"uc://{NAME}", SCHEMA, storage_options=options)
            races = [
                Race(
                    f"uc://{NAME}",
                    worker,
                    calls,
                    str(tmp_path / f"ledger-{worker}.jsonl"),
                    "txlog" if worker < appenders else "txlog.upsert",
                    options,
                )
                for worker in range(appenders + upserters)
            ]
            restarting = pool.submit(server.restart_now_and_then, restarts, 3.0, 2, done)
            killed = run_and_kill(races, kills, seed=3, pause_s=pause_s)
            done.set()
            restarted = restarting.result()
        options["catalog"] = server.url
        _judge(races, table.uri, options)
        print(f"{killed} kills, {restarted} restarts, {len(acknowledged(races))} acknowledged")
        assert killed
    finally:
        done.set()
        server.kill()


def _judge(races: list[Race], location: str, options: dict[str, str]) -> None:
    rows = rows_as_we_see_them(Race(races[0].uri, 0, 0, "", storage_options=options))
    assert rows.pop(SHARED, 1) == 1
    assert set(rows.values()) <= {1}, "a row is there twice"
    of_state = {state: set[tuple[int, int]]() for state in ("begun", "acknowledged", "refused", "unknown")}
    for race in races:
        for entry in race.reported():
            of_state[entry["state"]].add((entry["worker"], entry["number"]))
    assert of_state["acknowledged"] <= rows.keys(), "an acknowledged row is missing"
    assert not of_state["refused"] & rows.keys(), "a row is there although an error said that nothing landed"
    assert rows.keys() <= of_state["begun"]
    table = txlog.Table.open(races[0].uri, storage_options=options)
    assert table.verify().is_sound
    log = Path(location) / "_delta_log"
    table._open_table.store.versions.publish(table.version)
    published = sorted(path.name for path in log.glob("*.json") if len(path.name) == 25)
    assert published == [f"{version:020}.json" for version in range(table.version + 1)], "a version is not published"
    txn_ids = [_txn_ids(log / name) for name in published]
    assert all(
        entry["txn_id"] in txn_ids[entry["version"]] for entry in acknowledged(races) if entry["outcome"] == "committed"
    )
    others = counted(read_by_deltalake(_without_catalog(Path(location)), "worker", "number"), "worker", "number")
    others.pop(SHARED, None)
    assert others == rows, "deltalake reads other rows from what was published"


@pytest.mark.parametrize(
    ("writers", "kills"),
    [pytest.param(3, 3, id="short"), pytest.param(6, 25, id="long", marks=pytest.mark.hunt(part="races"))],
)
def test_no_acknowledged_commit_is_lost_by_a_server_that_forgets_its_last_second(
    tmp_path: Path, writers: int, kills: int
) -> None:
    """As one whose database is not synced at each commit, killed -9. Whoever gets the error repairs the table."""
    server = UnityProcess(tmp_path / "server", sync_ms=400)
    uri, options = f"uc://{NAME}", {"catalog": server.url}
    table = txlog.Table.create(uri, SCHEMA, storage_options=options)
    time.sleep(1)  # the table itself is remembered
    done = threading.Event()
    forks: list[ForkedTableError] = []

    def opened() -> txlog.Table:
        retry = txlog.RetryPolicy(min_wait=0.01, max_wait=0.1, total_timeout=30)
        return txlog.Table.open(uri, storage_options=options, retry=retry)

    acknowledged: list[tuple[int, int]] = []

    def write(worker: int) -> None:
        mine = opened()
        for number in itertools.count():
            if done.is_set():
                return
            row = pa.table({"worker": [worker], "number": [number]}, SCHEMA)
            try:
                mine.append(row)
                acknowledged.append((worker, number))
            except ForkedTableError as error:
                forks.append(error)
                with suppress(txlog.TxlogError):  # another one repairs it, or the server is away
                    opened().repair(remove=True)
            except txlog.CommitStateUnknownError:
                pass
            except txlog.TxlogError as error:
                if "Open it again" in str(error) or "Open the table again" in str(error):
                    mine = opened()

    try:
        with ThreadPoolExecutor(writers) as pool:
            running = [pool.submit(write, worker) for worker in range(writers)]
            for _ in range(kills + 1):
                before = len(acknowledged)
                while len(acknowledged) < before + 2 * writers and not all(each.done() for each in running):
                    time.sleep(0.01)
                server.kill()  # while the last ones are newer than what the server has on disk
                server.start()
            done.set()
            for each in running:
                each.result()
        last = txlog.Table.open(uri, storage_options=options)
        last.repair(remove=True)
        rows = counted(last.to_arrow(), "worker", "number")
        print(f"{kills} kills, {len(forks)} forks met, {len(acknowledged)} acknowledged, {len(rows)} rows")
        assert acknowledged
        assert rows.keys() >= set(acknowledged), "an acknowledged row is missing"
        assert set(rows.values()) == {1}, "a row is there twice"
        assert last.verify().is_sound
        assert (
            counted(read_by_deltalake(_without_catalog(Path(table.uri)), "worker", "number"), "worker", "number")
            == rows
        )
    finally:
        done.set()
        server.kill()


def _txn_ids(path: Path) -> list[str]:
    info: dict[str, Any] = json.loads(path.read_bytes().splitlines()[0])["commitInfo"]
    return [each["txnId"] for each in (info, *info.get("txlog", {}).get("joined", ())) if "txnId" in each]


def _without_catalog(location: Path) -> deltalake.DeltaTable:
    """A copy of what was published, as a plain table: no other Python library reads one that a catalog manages."""
    copy = Path(shutil.copytree(location, location.with_name("plain")))
    log = copy / "_delta_log"
    for path in log.iterdir():
        if path.is_dir() or len(path.name) != 25:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    first = log / f"{0:020}.json"
    actions = [json.loads(line) for line in first.read_bytes().splitlines()]
    for action in actions:
        for features in ("readerFeatures", "writerFeatures"):
            if features in action.get("protocol", {}):
                for name in ("catalogManaged", "vacuumProtocolCheck"):  # neither changes what the rows are
                    action["protocol"][features].remove(name)
    first.write_text("\n".join(map(json.dumps, actions)))
    return deltalake.DeltaTable(copy)
