"""A handle that stays open while others write, checkpoint and clean up reads on, at a cost that does not grow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import txlog
from txlog.core import ambient
from txlog.core.definition import create_table
from txlog.core.format.log_names import LAST_CHECKPOINT, LogFileKind, checkpoint_name, commit_name, parse_log_name
from txlog.core.store import LogCapabilities, TableStore
from txlog.core.store._base import LOCAL_DISK, OBJECT_STORE
from txlog.core.versions import OpenTable
from txlog.errors import CorruptLogError, NotFoundError
from txlog.testing.faults import FaultyLogStore
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore


class AMonthLater(ambient.Ambient):
    seconds = 31 * 24 * 3600

    def now_ms(self) -> int:
        return super().now_ms() + self.seconds * 1000

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.seconds


class MinutesLater(AMonthLater):
    """When a handle in a bucket has forgotten what it read as it was opened."""

    seconds = 120


ROW = pa.table({"id": pa.array([1], pa.int64())})
NO_CHECKPOINTS = {"delta.checkpointInterval": "1000000"}


class Shared:
    """A table that others write, and how to open handles on it."""

    def __init__(self, capabilities: LogCapabilities) -> None:
        self.log = MemoryLogStore()
        self.log.capabilities = capabilities
        self.files = MemoryFileStore()
        self.others = OpenTable(TableStore("memory://t", self.log, self.files))
        create_table(self.others, ROW.schema, (), NO_CHECKPOINTS)

    def others_append(self, commits: int) -> None:
        for _ in range(commits):
            txlog.Table(self.others).append(ROW)

    def others_checkpoint(self, *, clean_up: bool = False) -> int:
        """A checkpoint of the newest version; with ``clean_up`` everything before its version leaves the log."""
        version = self.others.log.write_checkpoint(self.others.log.newest_state())
        for name in list(self.log.objects) if clean_up else ():
            found = parse_log_name(name)
            if found is not None and found.version < version:
                self.log.delete(name)
        return version

    def open(self) -> tuple[txlog.Table, FaultyLogStore]:
        watched = FaultyLogStore(self.log)
        return txlog.Table(OpenTable(TableStore("memory://t", watched, self.files))), watched


@pytest.fixture(params=[LOCAL_DISK, OBJECT_STORE], ids=["disk", "bucket"])
def shared(request: pytest.FixtureRequest) -> Shared:
    return Shared(request.param)


def rows(table: txlog.Table) -> int:
    return int(table.snapshot().to_arrow().num_rows)


# --- others clean the log up ----------------------------------------------------------------------------------


@pytest.mark.parametrize("has_checkpoint", [False, True])
@pytest.mark.parametrize("commits_since", [0, 3, 12])
def test_an_open_handle_reads_on_after_the_log_it_was_opened_on_was_cleaned_up(
    shared: Shared, has_checkpoint: bool, commits_since: int
) -> None:
    shared.others_append(2)
    if has_checkpoint:
        shared.others_checkpoint()
    table, _ = shared.open()
    assert rows(table) == 2
    for _ in range(2):
        shared.others_append(2)
        assert rows(table) == rows(shared.open()[0])
        shared.others_checkpoint(clean_up=True)
        shared.others_append(commits_since)
        assert rows(table) == rows(shared.open()[0])


def test_an_open_handle_overwrites_and_reads_in_transactions_after_a_clean_up(shared: Shared) -> None:
    table, _ = shared.open()
    table.snapshot().to_arrow()
    shared.others_append(5)
    table.snapshot()
    shared.others_checkpoint(clean_up=True)
    with table.transaction() as transaction:
        assert pa.table(transaction.read("id = 1")).num_rows == 5
        transaction.append(ROW)
    table.overwrite(ROW)
    assert rows(table) == rows(shared.open()[0]) == 1


def test_a_snapshot_from_before_a_cleanup_is_read_from_the_checkpoint_at_its_version(
    shared: Shared,
) -> None:
    table, _ = shared.open()
    shared.others_append(4)
    snapshot = table.snapshot()
    shared.others_checkpoint(clean_up=True)
    shared.others_append(1)
    assert snapshot.to_arrow().num_rows == 4
    assert snapshot.files("id = 1").num_rows == 4


def test_a_snapshot_of_a_version_that_was_cleaned_up_says_so(shared: Shared) -> None:
    table, _ = shared.open()
    snapshot = table.snapshot()
    shared.others_append(4)
    shared.others_checkpoint(clean_up=True)
    with ambient.use(MinutesLater()), pytest.raises(NotFoundError, match="version 0 are no longer in the log"):
        snapshot.to_arrow()


def test_a_list_of_files_whose_next_commits_were_cleaned_up_is_loaded_again(shared: Shared) -> None:
    table, _ = shared.open()
    held = table.snapshot().files()
    shared.others_append(4)
    table.snapshot()
    shared.others_checkpoint(clean_up=True)
    assert table.snapshot().files().num_rows == 4
    assert held.num_rows == 0


def test_a_handle_reads_on_where_a_commit_that_it_knows_is_damaged_below_a_checkpoint(shared: Shared) -> None:
    table, _ = shared.open()
    shared.others_append(2)
    assert rows(table) == 2
    shared.others_append(1)
    shared.others_checkpoint()
    for version in range(3):
        shared.log.put(commit_name(version), b'{"add')
    assert rows(table) == 3


def test_where_the_only_checkpoint_left_is_damaged_the_error_names_it(shared: Shared) -> None:
    table, _ = shared.open()
    shared.others_append(4)
    table.snapshot()
    version = shared.others_checkpoint(clean_up=True)
    shared.log.put(checkpoint_name(version), b"PAR1 and nothing else")
    with ambient.use(MinutesLater()), pytest.raises(CorruptLogError, match="cleaned up") as refused:
        table.snapshot().to_arrow()
    assert refused.value.path == checkpoint_name(version)


def test_commits_that_go_while_a_handle_follows_them_make_it_load_the_newest_version(shared: Shared) -> None:
    table, watched = shared.open()
    table.snapshot()
    shared.others_append(12)

    def and_clean_up(real: Any, name: str) -> Any:
        found = real(name)
        shared.others_checkpoint(clean_up=True)
        return found

    lists = shared.log.capabilities.lists_completely
    watched.script["list_from" if lists else "read"] = [and_clean_up]
    assert table.snapshot().version == 12


# --- the cost ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hint", ["as written", "absent", "of an older checkpoint"])
def test_a_reader_that_stays_open_asks_for_no_more_as_the_table_grows(shared: Shared, hint: str) -> None:
    shared.others_append(3)
    shared.others_checkpoint()
    first_hint = shared.log.read(LAST_CHECKPOINT)
    table, watched = shared.open()
    assert table.snapshot().num_files == 3
    asked: list[int] = []
    for _ in range(10):
        shared.others_append(15)
        shared.others_checkpoint()
        shared.others_append(1)
        if hint == "absent":
            shared.log.delete(LAST_CHECKPOINT)
        elif hint == "of an older checkpoint":
            shared.log.put(LAST_CHECKPOINT, first_hint)
        watched.calls.clear()
        assert table.snapshot().num_files == shared.others.log.files(shared.others.log.newest_state()).num_rows
        asked.append(len(watched.calls))
    assert max(asked[5:]) <= max(asked[:5]), asked


def test_a_reader_that_stays_open_reads_no_commit_below_the_newest_checkpoint_again(shared: Shared) -> None:
    table, watched = shared.open()
    shared.others_append(40)
    table.snapshot()
    version = shared.others_checkpoint()
    shared.others_append(2)
    table.snapshot()
    watched.calls.clear()
    assert table.snapshot().num_files == 42
    read = {found.version for operation, name in watched.calls if (found := parse_log_name(name)) is not None}
    assert min(read) >= version
    assert commit_name(version) not in [name for operation, name in watched.calls if operation == "read"]
    watched.calls.clear()
    table.snapshot().to_arrow()
    assert LAST_CHECKPOINT not in [name for _, name in watched.calls]  # it was adopted, not looked up each time
    kinds = [parse_log_name(name) for operation, name in watched.calls if operation == "read"]
    assert sum(found is not None and found.kind is LogFileKind.COMMIT for found in kinds) <= 3


def test_the_short_list_of_files_of_a_version_is_read_once_and_a_newer_version_has_its_own(shared: Shared) -> None:
    table, watched = shared.open()
    shared.others_append(3)
    assert table.snapshot().num_files == 3
    watched.calls.clear()
    assert table.snapshot().num_files == 3
    assert [name for operation, name in watched.calls if operation == "read"] == [commit_name(4)], (
        "is there a newer one"
    )
    shared.others_append(1)
    assert table.snapshot().num_files == 4
    assert table.snapshot(version=3).num_files == 3


def test_a_list_of_files_that_was_held_for_long_is_no_base_for_a_newer_one(shared: Shared) -> None:
    """A put that was under way all the time has landed where the commit after the list's version was cleaned up."""
    shared.others_append(1)
    table, _ = shared.open()
    snapshot = table.snapshot()
    held = snapshot.files()
    shared.others_append(2)
    put_under_way = shared.log.objects[commit_name(2)][0].replace(b".parquet", b"-late.parquet")
    shared.others_checkpoint(clean_up=True)
    shared.log.put_if_absent(commit_name(2), put_under_way)
    with ambient.use(AMonthLater()):
        assert rows(table) == 3
    assert held.num_rows == 1
