"""Processes that change the same rows together, some killed: none fails, and the table is the serial replay of its log.

Upserters of overlapping keys alongside an appender, a deleter, an updater and compactors. `row_race_worker` says what
each does. The hunt runs 8 upserters of 25 calls each, and kills as often as each is called (TXLOG_RACE_UPSERTERS,
TXLOG_RACE_CALLS); the numbers of the race are shown as ``measured``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import deltalake
import polars
import pyarrow as pa
import pytest
from races import kill_and_restart, run_to_the_end
from row_race_worker import SCHEMA, RowRace, judge_feed, replay, row_work
from rows import assert_sound, read_by_deltalake

import txlog

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
QUIET = ("compact", "optimize")
"""What changes no row, and has no place in the replay."""
CALLS = int(os.environ.get("TXLOG_RACE_CALLS", "6"))
UPSERTERS = int(os.environ.get("TXLOG_RACE_UPSERTERS", "4"))
KILLS = max(5, CALLS)


def _table(folder: Path, properties: dict[str, str]) -> tuple[txlog.Table, dict[int, int]]:
    table = txlog.Table.create(str(folder / "t"), SCHEMA, (), properties)
    for first in range(0, 2_000, 500):
        table.append(pa.table({"id": range(first, first + 500), "v": [-1] * 500}, SCHEMA))
    return table, dict.fromkeys(range(2_000), -1)


def _races(folder: Path, upserters: int) -> list[RowRace]:
    kinds = ["upsert"] * upserters + ["append", "delete", "update", "compact", "optimize"]
    return [RowRace(str(folder / "t"), worker, kind, CALLS) for worker, kind in enumerate(kinds)]


def _judge(table: txlog.Table, races: list[RowRace], start: dict[int, int]) -> None:
    expected, landed = replay(table, races, start)
    done = {(race.worker, number) for race in races if race.kind not in QUIET for number in range(race.calls)}
    without_match = {(r.worker, n) for r in races if r.kind in ("delete", "update") for n in range(r.calls)}
    assert len(landed) == len(set(landed)), "a call landed twice"
    assert done - without_match <= set(landed) <= done, "a call did not land"
    found = table.snapshot().to_arrow()
    assert found.num_rows == len(expected), "a key is there twice, or is lost"
    assert dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True)) == expected
    assert_sound(table.uri)
    others = polars.read_delta(table.uri).select("id", "v").rows()
    assert dict(others) == expected
    read = read_by_deltalake(deltalake.DeltaTable(table.uri), "id", "v")
    assert dict(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True)) == expected
    if table.snapshot().properties.get("delta.enableChangeDataFeed") == "true":
        judge_feed(table, expected)


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param(VECTORS, id="vectors"),
        pytest.param(FEED, id="copies and feed", marks=pytest.mark.hunt(part="races")),
    ],
)
def test_upserts_of_the_same_keys_all_succeed_alongside_every_other_writer(
    tmp_path: Path, properties: dict[str, str], record_property: Callable[[str, object], None]
) -> None:
    table, start = _table(tmp_path, properties)
    races = _races(tmp_path, UPSERTERS)
    began_s = time.monotonic()
    run_to_the_end(row_work, races)
    seconds = time.monotonic() - began_s
    _judge(table, races, start)
    record_property("measured", f"{len(races)} processes x {CALLS} row changes in {seconds:.1f} s: {_raced(races)}")


def _raced(races: list[RowRace]) -> str:
    """How the upserts fared. Fails if none of them reran: then there was no race."""
    upserts = [noted for race in races if race.kind == "upsert" for noted in race.noted()]
    reexecutions = sum(count for count, _ in upserts)
    assert reexecutions > 0, "no upsert lost a race, so this shows nothing"
    times_ms = sorted(1000 * seconds for _, seconds in upserts)
    at = {part: times_ms[min(len(times_ms) - 1, len(times_ms) * part // 100)] for part in (50, 99)}
    return f"{len(upserts)} upserts, {reexecutions} reruns, p50 {at[50]:.0f} ms, p99 {at[99]:.0f} ms"


def test_upserters_that_are_killed_and_started_again_leave_the_replay_of_the_log(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    table, start = _table(tmp_path, {**VECTORS, **FEED})
    races = _races(tmp_path, UPSERTERS)
    first, commits = table.version, CALLS * sum(race.kind in ("upsert", "append") for race in races)

    def share_done() -> float:
        return (table.version - first) / commits

    killed = kill_and_restart(row_work, races, KILLS, seed=15, pause_s=(0.01, 0.05), share_done=share_done)
    _judge(table, races, start)
    assert killed == KILLS, "the race was over before all kills, so this shows less than it says"
    record_property("measured", f"{len(races)} processes x {CALLS} row changes, {killed} killed: {_raced(races)}")
