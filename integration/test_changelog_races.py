"""Four upsert streams on one table, alongside appends and optimize, killed at any moment: the serial replay of the log.

Each round continues with the table of the previous round. The hunt runs 30 rounds of 6 checkpoints and 3 kills each
(TXLOG_RACE_ROUNDS, TXLOG_RACE_CHECKPOINTS); the numbers of the race are shown as ``measured``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import deltalake
import pyarrow as pa
from changelog_race_worker import ChangelogRace, replay, work
from races import kill_and_restart
from row_race_worker import SCHEMA, RowRace, judge_feed
from rows import assert_sound, read_by_deltalake

import txlog

STREAMS, KILLS = 4, 3
ROUNDS = int(os.environ.get("TXLOG_RACE_ROUNDS", "1"))
CHECKPOINTS = int(os.environ.get("TXLOG_RACE_CHECKPOINTS", "3"))
"""For each stream in each round; the same number of appends and calls of optimize run alongside."""
PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}


def _races(uri: str, done: int) -> list[ChangelogRace | RowRace]:
    """All processes of a round, after ``done`` checkpoints of each stream."""
    until = done + CHECKPOINTS
    appender = RowRace(uri, STREAMS, "append", until)
    streams = [ChangelogRace(uri, worker, until, appender) for worker in range(STREAMS)]
    return [*streams, appender, RowRace(uri, STREAMS + 1, "optimize", CHECKPOINTS)]


def _judge(table: txlog.Table, races: list[ChangelogRace | RowRace], start: dict[int, int]) -> dict[int, int]:
    expected, landed = replay(races, start)
    assert len(landed) == len(set(landed)), "a checkpoint or an append landed twice"
    streams = [race for race in races if isinstance(race, ChangelogRace)]
    wanted = {(race.app_id, number) for race in streams for number in range(race.checkpoints)}
    wanted |= {("append", number) for number in range(streams[0].appender.calls)}
    assert set(landed) == wanted, "a checkpoint or an append did not land"
    found = table.snapshot().to_arrow()
    assert found.num_rows == len(expected), "a key is there twice, or is lost"
    assert dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True)) == expected
    read = read_by_deltalake(deltalake.DeltaTable(table.uri), "id", "v")
    assert sorted(read["id"].to_pylist()) == sorted(expected)
    assert dict(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True)) == expected
    return expected


def test_four_killed_upsert_streams_equal_a_replay_of_the_log(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), SCHEMA, (), PROPERTIES)
    table.append(pa.table({"id": range(500), "v": [-1] * 500}, SCHEMA))
    expected = start = dict.fromkeys(range(500), -1)
    races: list[ChangelogRace | RowRace] = []
    killed = 0
    for number in range(ROUNDS):
        races = _races(table.uri, number * CHECKPOINTS)
        killed += kill_and_restart(work, races, KILLS, seed=16 + number, pause_s=(0.05, 0.4))
        expected = _judge(table, races, start)
    assert_sound(table.uri)
    judge_feed(table, expected)
    assert not [*Path(table.uri, "_txlog", "staging").glob("stream-*")], "something is staged still"
    reexecutions = sum(sum(race.reexecutions()) for race in races if isinstance(race, ChangelogRace))
    assert killed >= ROUNDS, "hardly a process was killed, so this shows little"
    assert reexecutions > 0, "no checkpoint lost a race, so this shows nothing"
    record_property(
        "measured",
        f"{ROUNDS} rounds of {STREAMS} streams x {CHECKPOINTS} checkpoints, {killed} killed, {table.version} versions,"
        f" {reexecutions} reruns",
    )
