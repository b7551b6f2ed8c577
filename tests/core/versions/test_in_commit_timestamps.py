"""Tables whose commits carry their own time: later than all before, whatever the clock and the races do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from txlog.core import ambient
from txlog.core.definition import create_table
from txlog.core.format.log_names import commit_name
from txlog.core.versions._open_table import OpenTable
from txlog.core.versions._resolve_unknown import resolve
from txlog.result import in_milliseconds
from txlog.table import Table
from txlog.testing.stopped_clock import StoppedClock

ENABLED = {"delta.enableInCommitTimestamps": "true"}


class Clock(StoppedClock):
    def sleep(self, seconds: float) -> None:
        pass


@pytest.fixture
def clock() -> Iterator[Clock]:
    with ambient.use(Clock()) as clock:
        assert isinstance(clock, Clock)
        yield clock


@pytest.fixture
def open_table(open_handle: Callable[..., OpenTable]) -> OpenTable:
    return open_handle()


def create(open_table: OpenTable, **properties: str) -> Table:
    create_table(open_table, pa.schema([("id", pa.int64())]), (), properties)
    return Table(open_table)


def rows(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def first_line(open_table: OpenTable, version: int) -> dict[str, Any]:
    line = orjson.loads(open_table.store.log.read(commit_name(version)).split(b"\n")[0])
    return dict(line["commitInfo"])


def stamps(open_table: OpenTable) -> list[int | None]:
    last = open_table.log.newest_state().version
    return [first_line(open_table, version).get("inCommitTimestamp") for version in range(last + 1)]


def test_every_commit_records_its_time_even_while_the_clock_goes_back(open_table: OpenTable, clock: Clock) -> None:
    table = create(open_table, **ENABLED)
    assert "inCommitTimestamp" in (open_table.log.newest_state().protocol.writer_features or ())
    table.append(rows(1))
    clock.moment_ms -= 10_000
    table.append(rows(2))
    clock.moment_ms += 60_000
    table.append(rows(3))
    start = 1_790_000_000_000
    assert stamps(open_table) == [start, start + 1, start + 2, start + 50_000]
    assert [in_milliseconds(entry["timestamp"]) for entry in table.history()] == [
        start + 50_000,
        start + 2,
        start + 1,
        start,
    ]


def test_a_handle_that_did_not_see_the_last_commit_still_comes_after_it(
    open_handle: Callable[..., OpenTable], clock: Clock
) -> None:
    ahead, behind = open_handle(), open_handle()
    table = create(ahead, **ENABLED)
    late = Table(behind)
    late.append(rows(1))
    clock.moment_ms += 100_000
    table.append(rows(2))
    clock.moment_ms -= 100_000
    late.append(rows(3))  # its clock is behind, and the head it remembers is not the newest
    found = stamps(ahead)
    assert found[-1] == 1_790_000_100_001
    table.create_checkpoint()
    fresh = Table(open_handle())
    fresh.append(rows(4))
    assert stamps(ahead)[-1] == 1_790_000_100_002


def test_enabling_in_commit_timestamps_on_an_existing_table_records_version_and_time(
    open_table: OpenTable, clock: Clock
) -> None:
    table = create(open_table)
    clock.moment_ms += 1000
    table.append(rows(1))
    clock.moment_ms -= 500  # behind the time of the last commit's file
    table.set_properties(ENABLED)
    table.append(rows(2))
    start = 1_790_000_000_000
    assert stamps(open_table) == [None, None, start + 1001, start + 1002]
    properties = open_table.log.newest_state().metadata.configuration
    assert properties["delta.inCommitTimestampEnablementVersion"] == "2"
    assert properties["delta.inCommitTimestampEnablementTimestamp"] == str(start + 1001)
    assert open_table.log.version_at(start + 500) == 0
    assert open_table.log.version_at(start + 1000) == 1
    assert open_table.log.version_at(start + 1001) == 2
    assert open_table.log.version_at(start + 1003) == 3


def test_the_files_of_a_copied_table_are_no_measure_of_the_times_in_its_commits(tmp_path: Path) -> None:
    """They are younger than all that its commits say: since when those count decides on which side to look."""
    table = Table.create(tmp_path, pa.schema([("id", pa.int64())]))
    table.append(rows(1))
    table.set_properties(ENABLED)
    table.append(rows(2))
    times = {entry["version"]: in_milliseconds(entry["timestamp"]) for entry in table.history()}
    for file in (tmp_path / "_delta_log").iterdir():
        os.utime(file, (times[3] // 1000 + 3600,) * 2)
    log = Table.open(tmp_path)._open_table.log
    assert [log.version_at(moment) for moment in (times[2], times[3] - 1, times[3])] == [2, 2, 3]


def test_enabling_after_a_lost_race_notes_the_version_it_became(
    open_handle: Callable[..., OpenTable], clock: Clock
) -> None:
    table, other = create(open_handle()), Table(open_handle())
    other.append(rows(1))
    log: Any = table._open_table.store.log

    def overtaken(real: Callable[..., Any], name: str, body: bytes) -> Any:
        other.append(rows(2))
        return real(name, body)

    table.append(rows(0))
    log.script["put_if_absent"] = [overtaken]
    result = table.set_properties(ENABLED)
    assert result.attempts > 1
    properties = table.snapshot().properties
    assert properties["delta.inCommitTimestampEnablementVersion"] == str(result.version)
    assert first_line(table._open_table, result.version or 0)["inCommitTimestamp"] == int(
        properties["delta.inCommitTimestampEnablementTimestamp"]
    )


def test_the_time_of_enablement_cannot_be_forged_and_disabling_forgets_it(open_table: OpenTable, clock: Clock) -> None:
    table = create(open_table, **ENABLED, **{"delta.inCommitTimestampEnablementVersion": "7"})
    assert "delta.inCommitTimestampEnablementVersion" not in table.snapshot().properties
    table.set_properties({"delta.enableInCommitTimestamps": "false"})
    table.set_properties({**ENABLED, "delta.inCommitTimestampEnablementVersion": "99"})
    assert table.snapshot().properties["delta.inCommitTimestampEnablementVersion"] == "2"
    table.set_properties({"delta.inCommitTimestampEnablementVersion": "99", "x": "y"})
    assert table.snapshot().properties["delta.inCommitTimestampEnablementVersion"] == "2"
    table.set_properties({"delta.enableInCommitTimestamps": "false"})
    assert "delta.inCommitTimestampEnablementVersion" not in table.snapshot().properties
    assert stamps(open_table)[-1] is None


def test_a_fence_commit_has_an_in_commit_timestamp(open_table: OpenTable, clock: Clock) -> None:
    create(open_table, **ENABLED)
    assert resolve(open_table, "never-sent", 1) is False
    assert first_line(open_table, 1)["inCommitTimestamp"] == 1_790_000_000_001
