"""The state of the table that an open handle knows: how old it may be, and what moves it forward."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

from tests.writes import write_batch
from txlog.core import ambient
from txlog.core.format.log_names import commit_name
from txlog.core.operations import WriteOptions
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import Totals
from txlog.result import WriteResult
from txlog.table import Table

ROWS = pa.table({"id": pa.array([1], pa.int64())})


def append(open_table: OpenTable, **options: Any) -> WriteResult:
    return write_batch(open_table, ROWS, WriteOptions(create=True, **options))


@pytest.mark.parametrize(
    ("retention", "age_s", "anew"),
    [("1 hours", 800, False), ("1 hours", 1000, True), ("30 days", 3500, False), ("30 days", 3700, True)],
)
def test_the_state_is_loaded_again_before_the_commits_after_it_can_have_been_cleaned_up(
    table: OpenTable, scripted_log: Any, clock: Any, retention: str, age_s: float, anew: bool
) -> None:
    """After a quarter of the log's retention, and after an hour at most."""
    short = {"txlog.allowShortLogRetention": "true"}
    Table(table).set_properties({"delta.logRetentionDuration": f"interval {retention}", **short})
    table.post_commit.drain()
    scripted_log.calls.clear()
    clock.elapsed_s += age_s
    table.log.newest_state()
    assert bool(scripted_log.names("list_from")) is anew


def test_the_age_of_a_state_counts_from_the_request_and_not_from_the_answer(
    table: OpenTable, scripted_log: Any, clock: Any
) -> None:
    def slow(real: Any, name: str) -> bytes:
        try:
            return real(name)  # type: ignore[no-any-return]
        finally:
            clock.elapsed_s += 100

    scripted_log.script["read"] = [slow]
    table.log.newest_state()
    assert table.log.state_age_s() >= 100


def test_a_checkpoint_newer_than_the_known_state_is_not_taken_as_its_start(table: OpenTable, open_handle: Any) -> None:
    append(open_handle())
    append(open_handle())
    table.log.write_checkpoint(table.log.state_at(3))
    known = table.log.newest_state(refresh=False)
    assert (known.version, table.log.files(known).num_rows) == (1, 2)
    assert table.log.files(table.log.newest_state()).num_rows == 4


def test_writing_a_checkpoint_of_an_older_version_does_not_move_the_known_state_back(table: OpenTable) -> None:
    append(table)
    table.log.write_checkpoint(table.log.newest_state())
    table.log.write_checkpoint(table.log.state_at(1))
    known = table.log.newest_state(refresh=False)
    assert known.segment.checkpoint is not None
    assert (known.segment.checkpoint.version, table.log.files(known).num_rows) == (2, 3)


@pytest.mark.parametrize(("counted_at", "reported"), [(0, None), (1, None), (2, (3, 30)), (3, (3, 30)), (4, None)])
def test_totals_are_carried_over_commits_that_declare_their_changes_and_over_no_others(
    table: OpenTable, open_handle: Any, scripted_log: Any, counted_at: int, reported: tuple[int, int] | None
) -> None:
    """The number of files that version 2 added is unknown, and the handle does not know version 4."""
    for _ in range(2):
        append(table)
    for version in (2, 3):
        name = commit_name(version)
        body, modified_ms = scripted_log.inner.objects[name]
        net = b'"net":[0,0]' if version == 3 else b'"other":[0,0]'
        scripted_log.inner.objects[name] = (re.sub(rb'"net":\[\d+,\d+\]', net, body), modified_ms)
    log = open_handle().log
    assert log.newest_state().totals is None
    log.learn_totals(counted_at, Totals(3, 30))
    totals = log.newest_state(refresh=False).totals
    assert (totals and (totals.num_files, totals.size_bytes)) == reported


def test_a_slow_thread_does_not_move_the_handle_back_to_an_older_state(table: OpenTable, open_handle: Any) -> None:
    """It learns of its own commit when the handle has seen what came after."""
    known = table.log.newest_state()
    append(open_handle())
    append(open_handle())
    assert table.log.newest_state().version == 3
    assert table.log.advance(known, table.log.read_commit(2), ambient.instant()).version == 2
    assert table.log.newest_state(refresh=False).version == 3
