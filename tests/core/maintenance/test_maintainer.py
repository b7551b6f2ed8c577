"""The maintainer: what is due in a round, when, and what happens to it alongside others and under faults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

import txlog
from txlog.core import ambient
from txlog.core.definition import create_table
from txlog.core.store import TableStore
from txlog.core.versions import OpenTable
from txlog.errors import InvalidInputError, StorageError, TableNotFoundError
from txlog.result.maintenance import MaintenanceResult
from txlog.testing.faults import Fault, FaultyFileStore, FaultyLogStore, StoreCall
from txlog.testing.memory_store import memory_table_store
from txlog.testing.stopped_clock import StoppedClock


class Clock(StoppedClock):
    """Time passes only when a test or the maintainer sleeps."""

    def sleep(self, seconds: float) -> None:
        self.moment_ms += round(seconds * 1000)


@pytest.fixture(autouse=True)
def time() -> Iterator[Clock]:
    with ambient.use(Clock()) as clock:
        assert isinstance(clock, Clock)
        yield clock


@pytest.fixture
def store() -> TableStore:
    store = memory_table_store()
    create_table(OpenTable(store), "id bigint, day string", ("day",), {"delta.checkpointInterval": "1000"})
    return store


def opened(store: TableStore) -> txlog.Table:
    return txlog.Table(OpenTable(store))


def append(store: TableStore, count: int, day: str = "a") -> None:
    table = opened(store)
    for number in range(count):
        table.append(pa.table({"id": [number], "day": [day]}))


def ids(store: TableStore) -> list[int]:
    found: list[int] = sorted(opened(store).to_arrow()["id"].to_pylist())
    return found


def test_a_round_compacts_only_the_partitions_with_many_small_files(store: TableStore) -> None:
    append(store, 4, "few")
    append(store, 6, "many")
    before = ids(store)
    done = opened(store).maintain(small_files_min=5)
    assert done.compaction is not None
    assert (done.compaction.files_removed, done.compaction.files_added) == (6, 1)
    assert opened(store).snapshot().files().num_rows == 4 + 1
    assert ids(store) == before
    assert opened(store).history(1)[0]["operationParameters"]["auto"] == "true"
    assert (done.version, done.failures) == (11, {})


def test_a_round_with_nothing_to_do_commits_nothing(store: TableStore) -> None:
    append(store, 3)
    done = opened(store).maintain()
    assert str(done) == "MaintenanceResult(version 3; nothing to do)"
    assert opened(store).version == 3


def test_a_checkpoint_is_written_where_one_is_due(store: TableStore) -> None:
    def no_checkpoint(call: StoreCall) -> Fault | None:
        return Fault("fail_before") if "checkpoint" in call.name and "put" in call.operation else None

    writer = txlog.Table(OpenTable(replace(store, log=FaultyLogStore(store.log, no_checkpoint))))
    writer.set_properties({"delta.checkpointInterval": "5"})
    for number in range(10):
        writer.append(pa.table({"id": [number], "day": ["a"]}))
    writer._open_table.post_commit.drain()
    assert opened(store).maintain(dry_run=True).checkpoint == 11
    done = opened(store).maintain()
    assert done.checkpoint == 11
    assert any(meta.name.startswith(f"{11:020d}.checkpoint") for meta in store.log.list_from(""))
    assert opened(store).maintain().checkpoint is None


def test_a_vacuum_is_due_once_something_can_be_past_the_retention_and_then_every_day(
    store: TableStore, time: Clock
) -> None:
    append(store, 2)
    opened(store).overwrite(pa.table({"id": [9], "day": ["a"]}))
    assert opened(store).maintain().vacuum is None
    time.pass_hours(8 * 24)
    would = opened(store).maintain(dry_run=True)
    assert would.vacuum is not None
    assert len(would.vacuum.paths) == 2
    done = opened(store).maintain()
    assert done.vacuum is not None
    assert done.vacuum.paths == would.vacuum.paths
    time.pass_hours(23)
    assert opened(store).maintain().vacuum is None
    time.pass_hours(2)
    assert opened(store).maintain(vacuum_every_hours=None).vacuum is None
    assert opened(store).maintain().vacuum is not None


def test_versions_past_the_log_retention_are_cleaned_up(store: TableStore, time: Clock) -> None:
    append(store, 5)
    opened(store).create_checkpoint()
    time.pass_hours(40 * 24)
    append(store, 1)
    would = opened(store).maintain(dry_run=True)
    assert would.log_clean_up is not None
    done = opened(store).maintain()
    assert done.log_clean_up is not None
    assert done.log_clean_up.names == would.log_clean_up.names != ()
    opened(store).set_properties({"delta.enableExpiredLogCleanup": "false"})
    assert opened(store).maintain().log_clean_up is None


def test_a_step_that_fails_costs_no_other_step_and_succeeds_in_the_next_round(store: TableStore, time: Clock) -> None:
    append(store, 6)
    opened(store).overwrite(pa.table({"id": [9], "day": ["b"]}))
    time.pass_hours(8 * 24)
    append(store, 6)
    broken = True

    def no_data_file(call: StoreCall) -> Fault | None:
        return Fault("fail_before") if broken and call.operation in ("publish", "write") else None

    table = txlog.Table(OpenTable(replace(store, files=FaultyFileStore(store.files, no_data_file))))
    done = table.maintain(small_files_min=5)
    assert list(done.failures) == ["compaction"]
    assert isinstance(done.failures["compaction"], StorageError)
    assert done.vacuum is not None
    assert len(done.vacuum.paths) == 6
    assert "compaction failed: StorageError" in str(done)
    broken = False
    done = table.maintain(small_files_min=5)
    assert done.compaction is not None
    assert done.compaction.files_removed == 6
    assert done.failures == {}


def test_two_concurrent_maintainers_neither_lose_nor_double_a_row(store: TableStore) -> None:
    append(store, 8)
    before = ids(store)
    others: list[MaintenanceResult] = []

    def other_goes_first(call: StoreCall) -> None:
        if call.operation == "put_if_absent" and call.name == f"{9:020d}.json" and not others:
            others.append(opened(store).maintain(small_files_min=5))

    table = txlog.Table(OpenTable(replace(store, log=FaultyLogStore(store.log, other_goes_first))))
    done = table.maintain(small_files_min=5)
    assert others[0].compaction is not None
    assert others[0].compaction.files_removed == 8
    assert done.failures == {}
    assert ids(store) == before
    assert opened(store).snapshot().files().num_rows == 1


class Enough(Exception):
    pass


def rounds(table: txlog.Table, count: int, **options: Any) -> list[MaintenanceResult]:
    found: list[MaintenanceResult] = []

    def on_round(done: MaintenanceResult) -> None:
        found.append(done)
        if len(found) == count:
            raise Enough

    with pytest.raises(Enough):
        table.maintain(on_round=on_round, **options)
    return found


def test_watching_repeats_by_the_interval_and_checks_log_and_vacuum_once_an_hour(
    store: TableStore, time: Clock
) -> None:
    append(store, 2)
    time.pass_hours(9 * 24)
    began_ms = time.moment_ms
    found = rounds(opened(store), 8, interval_s=600, vacuum_every_hours=0.5)
    assert time.moment_ms - began_ms == 7 * 600_000
    assert [done.vacuum is not None for done in found] == [True, *[False] * 5, True, False]


def test_a_vacuum_that_failed_is_tried_again_in_the_next_round_of_a_watch(store: TableStore, time: Clock) -> None:
    append(store, 2)
    opened(store).overwrite(pa.table({"id": [9], "day": ["a"]}))
    time.pass_hours(9 * 24)
    calls = iter(range(9))

    def first_delete(call: StoreCall) -> Fault | None:
        return Fault("fail_before") if call.operation.startswith("delete") and next(calls) == 0 else None

    table = txlog.Table(OpenTable(replace(store, files=FaultyFileStore(store.files, first_delete))))
    found = rounds(table, 3, interval_s=600)
    assert [list(done.failures) for done in found] == [["vacuum"], [], []]
    assert [done.vacuum is not None for done in found] == [False, True, False]


def test_watching_survives_a_store_that_does_not_answer(store: TableStore) -> None:
    append(store, 6)
    silent = iter([True, True, False])
    is_silent = False

    def decide(call: StoreCall) -> Fault | None:
        return Fault("fail_before") if is_silent else None

    def on_round(done: MaintenanceResult) -> None:
        nonlocal is_silent
        is_silent = next(silent, False)
        found.append(done)
        if len(found) == 4:
            raise Enough

    found: list[MaintenanceResult] = []
    table = txlog.Table(OpenTable(replace(store, log=FaultyLogStore(store.log, decide))))
    with pytest.raises(Enough):
        table.maintain(interval_s=60, on_round=on_round)
    assert [done.version for done in found] == [6, None, None, 6]
    assert [list(done.failures) for done in found] == [[], ["table"], ["table"], []]


def test_watching_ends_if_the_table_is_deleted(store: TableStore) -> None:
    append(store, 1)
    table = opened(store)

    def on_round(done: MaintenanceResult) -> None:
        for meta in store.log.list_from(""):
            store.log.delete(meta.name)

    with pytest.raises(TableNotFoundError):
        table.maintain(interval_s=60, on_round=on_round)


@pytest.mark.parametrize(
    "wrong",
    [{"small_files_min": 0}, {"max_bytes": 0}, {"vacuum_every_hours": -1}, {"interval_s": 0}, {"interval_s": "60"}],
)
def test_arguments_out_of_range_are_refused_and_named(store: TableStore, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        opened(store).maintain(**wrong)


def test_the_result_is_plain_data_too(store: TableStore) -> None:
    append(store, 5)
    facts: Any = opened(store).maintain(small_files_min=5, dry_run=True).to_dict()
    assert facts["compaction"]["files_removed"] == 5
    assert (facts["vacuum"], facts["failures"], facts["dry_run"]) == (None, {}, True)
