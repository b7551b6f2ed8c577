"""A replay of an application's last checkpoint: its commit is found by few reads, however long it was idle."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import txlog
from txlog.core.format.log_names import LogFileKind, commit_name, parse_log_name
from txlog.core.versions._open_table import OpenTable
from txlog.errors import InvalidInputError
from txlog.table import Table

ROW = pa.table({"id": pa.array([1], pa.int64())})
READS_MAX = 50
"""The newest commits, those around the moment, and halves of a log of any length."""


def idle_for(table: OpenTable, clock: Any, versions: int, *, step_s: float = 60.0, **first: Any) -> None:
    """Version 2 is checkpoint 7 of "orders"; then come this many commits by others."""
    clock.elapsed_s += step_s
    assert Table(table).append(ROW, app_id="orders", checkpoint_id=7, **first).version == 2
    for _ in range(versions):
        clock.elapsed_s += step_s
        Table(table).append(ROW)
    table.post_commit.drain()


def replay(open_handle: Any, log: Any, **how: Any) -> tuple[txlog.WriteResult, int]:
    """The answer to a replay in another process, and how many commits were read for it beyond opening the table."""
    late = open_handle()
    late.log.newest_state()
    log.calls.clear()
    result = Table(late).append(ROW, app_id="orders", checkpoint_id=7, **how)
    commits = [
        name
        for operation, name in log.calls
        if operation == "read" and (found := parse_log_name(name)) is not None and found.kind is LogFileKind.COMMIT
    ]
    return result, len(commits)


def test_a_replay_after_hundreds_of_versions_is_found_by_few_reads(
    table: OpenTable, open_handle: Any, scripted_log: Any, clock: Any
) -> None:
    idle_for(table, clock, 300)
    result, reads = replay(open_handle, scripted_log)
    assert (result.outcome, result.version) == ("already_committed", 2)
    assert reads <= READS_MAX


def test_an_immediate_replay_needs_no_search(table: OpenTable, open_handle: Any, scripted_log: Any, clock: Any) -> None:
    idle_for(table, clock, 0)
    result, reads = replay(open_handle, scripted_log)
    assert (result.outcome, result.version) == ("already_committed", 2)
    assert reads <= 3  # its commit, and looks for a newer version


def test_other_input_under_the_id_of_an_idle_application_is_refused(
    table: OpenTable, open_handle: Any, scripted_log: Any, clock: Any
) -> None:
    idle_for(table, clock, 100, fingerprint="offsets 1-9")
    with pytest.raises(InvalidInputError, match="fingerprint"):
        replay(open_handle, scripted_log, fingerprint="offsets 1-10")


def test_where_the_commit_was_cleaned_up_the_rest_of_the_log_is_not_read(
    table: OpenTable, open_handle: Any, scripted_log: Any, clock: Any
) -> None:
    idle_for(table, clock, 200, step_s=3600.0)
    table.log.write_checkpoint(table.log.newest_state())
    for version in range(100):
        scripted_log.inner.delete(commit_name(version))
    result, reads = replay(open_handle, scripted_log)
    assert (result.outcome, result.version) == ("already_committed", None)
    assert reads <= READS_MAX


@pytest.mark.parametrize("behind_s", [-3600.0, 3600.0], ids=["ahead", "behind"])
def test_a_replay_is_found_even_if_the_clocks_of_writers_differ(
    table: OpenTable, open_handle: Any, scripted_log: Any, clock: Any, behind_s: float
) -> None:
    """The application's writer is an hour away from the clocks of the others, who commit every ten seconds."""
    clock.elapsed_s += 7200 + behind_s
    Table(table).append(ROW, app_id="orders", checkpoint_id=7)
    clock.elapsed_s -= behind_s
    for _ in range(60):
        clock.elapsed_s += 10
        Table(table).append(ROW)
    result, _ = replay(open_handle, scripted_log)
    assert (result.outcome, result.version) == ("already_committed", 2)
