"""What a handle has read: without a gap, in bounds, and with the few versions before that an intent needs."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest

from txlog.core.definition import Definition, commit_definition, new_table
from txlog.core.format.actions import AddFile, CommitInfo, SetTransaction
from txlog.core.format.commit_file import Commit
from txlog.core.versions._open_table import OpenTable
from txlog.core.versions._read_versions import _KEPT, _READ_BACK_MAX, ReadVersions
from txlog.core.versions.files import DeltaLog
from txlog.table import Table
from txlog.testing.memory_store import memory_table_store

ROWS = pa.table({"id": pa.array([1], pa.int64())})


def commit(version: int, *actions: Any, txn_id: str = "", **info: Any) -> Commit:
    return Commit(version, actions, CommitInfo({"txnId": txn_id or f"t{version}", **info}), 1)


def log_of(appends: int = 0, **properties: str) -> DeltaLog:
    """The log of a table as a handle knows it that has just been opened."""
    store = memory_table_store("memory://table")
    open_table = OpenTable(store)
    commit_definition(open_table, None, Definition(*new_table(ROWS.schema, (), properties)), "CREATE TABLE", {})
    for _ in range(appends):
        Table(open_table).append(ROWS)
    log = DeltaLog(store)
    log.newest_state()
    return log


def test_only_versions_without_a_gap_are_known() -> None:
    read = ReadVersions(log_of())
    assert (read.known(7).after, read.known(7).newest) == (7, 7)
    for version in (5, 6, 8, 9):
        read.note(commit(version))
    assert [read.known(newest).after for newest in (6, 7, 8, 9)] == [4, 7, 7, 7]
    assert [each.version for each in read.since(read.known(9))] == [8, 9]
    read.note(commit(7))
    assert read.known(9).after == 4


def test_what_a_version_holds_or_fences_off_is_settled() -> None:
    read = ReadVersions(log_of())
    read.note(commit(5, txn_id="a", txlog={"joined": [{"txnId": "b"}]}))
    read.note(commit(6, txn_id="c", operation="FENCE", operationParameters={"txnId": "d"}))
    settled = read.known(6).settled
    assert [each in settled for each in "abcde"] == [True] * 4 + [False]


def test_commits_are_kept_without_their_files() -> None:
    read = ReadVersions(log_of())
    read.note(commit(5, AddFile("f", {}, 1, 1, True), SetTransaction("app", 1), isBlindAppend=True))
    (kept,) = read.since(read.known(5))
    assert kept.actions == (SetTransaction("app", 1),)
    assert kept.files_skipped


def test_of_each_partition_that_a_commit_replaced_one_file_is_kept() -> None:
    read = ReadVersions(log_of())
    adds = [AddFile(f"day={day}/{number}", {"day": day}, 1, 1, True, "{}") for day in "ab" for number in range(3)]
    read.note(commit(5, *adds))
    (kept,) = read.since(read.known(5))
    assert kept.actions == (msgspec.structs.replace(adds[0], stats=None), msgspec.structs.replace(adds[3], stats=None))


def test_a_handle_remembers_the_last_thousand_versions() -> None:
    read = ReadVersions(log_of())
    for version in range(1, 3 * _KEPT):
        read.note(commit(version))
    known = read.known(3 * _KEPT - 1)
    assert _KEPT <= known.newest - known.after <= 2 * _KEPT
    assert "t1" not in known.settled
    assert f"t{known.after + 1}" in known.settled


def test_a_new_handle_reads_the_versions_that_an_intent_needs() -> None:
    log = log_of(appends=6)
    read = ReadVersions(log)
    assert read.known(6, [3, 5]).after == 3
    assert {log.read_commit(version).txn_id for version in (4, 5, 6)} <= {*read.known(6).settled}  # type: ignore[misc]


@pytest.mark.parametrize(
    "properties",
    [{"delta.logRetentionDuration": "interval 1 hour", "txlog.allowShortLogRetention": "true"}],
)
def test_where_the_log_is_cleaned_up_soon_nothing_is_read_back(properties: dict[str, str]) -> None:
    """A name may have been put again by a writer that stood still, after its version had been cleaned up."""
    assert ReadVersions(log_of(appends=6, **properties)).known(6, [3]).after == 6


def test_only_a_few_versions_are_read_back() -> None:
    read = ReadVersions(log_of(appends=2))
    newest = _READ_BACK_MAX + 5
    assert read.known(newest, [2]).after == newest, "too far: this intent is for others"


def test_a_version_that_is_gone_ends_what_is_read_back() -> None:
    log = log_of(appends=4)
    log.store.log.delete(f"{3:020d}.json")
    assert ReadVersions(log).known(4, [1]).after == 4
