"""How long a writer trusts what it saw of a log on an object store, where each look costs a request.

A version that was absent can have been committed and cleaned up since; a put there succeeds and is lost to readers.
"""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest
from msgspec.structs import replace

from txlog.core.format.log_names import commit_name, parse_log_name
from txlog.core.format.properties import DAY_MS, TableProperties
from txlog.core.store import PutOutcome
from txlog.core.store._base import OBJECT_STORE
from txlog.core.versions._open_table import OpenTable
from txlog.core.versions.decisions.retention import trusted_s
from txlog.errors import CommitStateUnknownError, NotFoundError, StorageError
from txlog.table import Table

ROW = pa.table({"id": pa.array([1], pa.int64())})


@pytest.fixture
def bucket(table: OpenTable, scripted_log: Any) -> Any:
    """The log of ``table``, whose handle has written already, as an object store keeps it."""
    scripted_log.inner.capabilities = OBJECT_STORE
    Table(table).append(ROW)
    return scripted_log


def with_retention(log: Any, interval: str) -> None:
    """Set by another engine, which does not ask whether it is too short."""
    body, _ = log.inner.objects[commit_name(0)]
    lines = [orjson.loads(line) for line in body.splitlines()]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["configuration"]["delta.logRetentionDuration"] = f"interval {interval}"
    log.inner.put(commit_name(0), b"".join(orjson.dumps(line) + b"\n" for line in lines))


def others_move_on_and_clean_up(open_handle: Any, log: Any, commits: int = 3) -> int:
    """The version of the checkpoint that is the start of the log afterwards."""
    other = open_handle()
    for _ in range(commits):
        Table(other).append(ROW)
    version: int = other.log.write_checkpoint(other.log.newest_state())
    for name in list(log.inner.objects):
        found = parse_log_name(name)
        if found is not None and found.version < version:
            log.inner.delete(name)
    return version


@pytest.mark.parametrize(
    ("retention_ms", "most_s", "expected_s"),
    [
        (30 * DAY_MS, 60.0, 60.0),
        (30 * DAY_MS, 3600.0, 3600.0),
        (240_000, 60.0, 60.0),
        (20_000, 60.0, 5.0),
        (0, 60.0, 0.0),
    ],
)
def test_nothing_is_trusted_for_longer_than_a_quarter_of_the_retention(
    retention_ms: int, most_s: float, expected_s: float
) -> None:
    properties = replace(TableProperties(), log_retention_ms=retention_ms)
    assert trusted_s(properties, most_s) == expected_s


def test_a_handle_suspended_for_a_month_does_not_write_below_a_checkpoint(
    table: OpenTable, open_handle: Any, bucket: Any, clock: Any
) -> None:
    """Its monotonic clock was suspended: by that alone, the handle had just looked."""
    newest = others_move_on_and_clean_up(open_handle, bucket)
    clock.suspend(30 * 24 * 3600)
    assert Table(table).append(ROW).version == newest + 1
    assert Table(open_handle()).snapshot().to_arrow().num_rows == newest + 2


def test_a_machine_suspended_during_a_put_acknowledges_no_commit_below_a_checkpoint(
    table: OpenTable, open_handle: Any, bucket: Any, clock: Any
) -> None:
    def sleep_first(real: Any, name: str, body: bytes) -> PutOutcome:
        others_move_on_and_clean_up(open_handle, bucket)
        clock.suspend(30 * 24 * 3600)
        return real(name, body)  # type: ignore[no-any-return]

    bucket.script["put_if_absent"] = [sleep_first]
    with pytest.raises(CommitStateUnknownError, match="which it builds on, is gone"):
        Table(table).append(ROW)


def test_after_a_put_to_an_object_store_that_took_long_the_version_before_it_is_looked_at(
    table: OpenTable, open_handle: Any, bucket: Any, clock: Any
) -> None:
    def slow(real: Any, name: str, body: bytes) -> PutOutcome:
        others_move_on_and_clean_up(open_handle, bucket)
        clock.elapsed_s += 61
        return real(name, body)  # type: ignore[no-any-return]

    bucket.script["put_if_absent"] = [slow]
    with pytest.raises(CommitStateUnknownError, match="which it builds on, is gone"):
        Table(table).append(ROW)


def _put_again(bucket: Any, version: int, body: bytes) -> None:
    """Like another writer that was suspended, and that puts, or probes with, a version that was cleaned up."""
    bucket.inner.put(commit_name(version), body)


def test_a_put_below_a_checkpoint_is_not_acknowledged_after_its_predecessor_was_put_again(
    table: OpenTable, open_handle: Any, bucket: Any, clock: Any
) -> None:
    before = table.log.newest_state().version
    body = bucket.inner.read(commit_name(before))

    def slow(real: Any, name: str, put: bytes) -> PutOutcome:
        others_move_on_and_clean_up(open_handle, bucket)
        clock.elapsed_s += 31 * 24 * 3600
        _put_again(bucket, before, body)
        return real(name, put)  # type: ignore[no-any-return]

    bucket.script["put_if_absent"] = [slow]
    with pytest.raises(CommitStateUnknownError, match="later versions were in the log before it") as unknown:
        Table(table).append(ROW)
    with pytest.raises(NotFoundError, match="cleaned up"):
        Table(open_handle()).resolve(unknown.value.txn_id, unknown.value.version)


def test_a_put_below_a_checkpoint_is_not_acknowledged_after_another_thread_looked(
    table: OpenTable, open_handle: Any, bucket: Any, clock: Any
) -> None:
    def slow(real: Any, name: str, put: bytes) -> PutOutcome:
        others_move_on_and_clean_up(open_handle, bucket)
        clock.elapsed_s += 31 * 24 * 3600
        table.log.newest_state()
        return real(name, put)  # type: ignore[no-any-return]

    bucket.script["put_if_absent"] = [slow]
    with pytest.raises(CommitStateUnknownError):
        Table(table).append(ROW)


def test_a_stray_commit_of_an_application_is_not_taken_for_its_last_checkpoint(
    table: OpenTable, open_handle: Any, bucket: Any, clock: Any
) -> None:
    """Two processes of an application stand still for a month. One puts its checkpoint where the log was cleaned up.
    For the other, this does not prove that the checkpoint was committed."""
    app: Any = {"app_id": "job", "checkpoint_id": 1}
    target = table.log.newest_state().version + 1
    sent: list[bytes] = []

    def refused(real: Any, name: str, put: bytes) -> PutOutcome:
        if name != commit_name(target):  # the probe of the newest commit
            return real(name, put)  # type: ignore[no-any-return]
        sent.append(put)
        raise StorageError("refused")

    bucket.script["put_if_absent"] = [refused, refused]
    with pytest.raises(StorageError):
        Table(open_handle()).append(ROW, **app)

    def slow(real: Any, name: str, put: bytes) -> PutOutcome:
        others_move_on_and_clean_up(open_handle, bucket, commits=2)
        clock.suspend(31 * 24 * 3600)
        bucket.inner.put(commit_name(target), sent[0])
        return real(name, put)  # type: ignore[no-any-return]

    bucket.script["put_if_absent"] = [slow]
    done = Table(table).append(ROW, **app)
    assert (done.outcome, done.version) == ("committed", target + 2)


def test_a_commit_that_others_built_on_before_its_answer_came_is_acknowledged(
    table: OpenTable, open_handle: Any, bucket: Any, clock: Any
) -> None:
    def answered_late(real: Any, name: str, put: bytes) -> PutOutcome:
        outcome: PutOutcome = real(name, put)
        clock.elapsed_s += 31 * 24 * 3600
        Table(open_handle()).append(ROW)
        return outcome

    bucket.script["put_if_absent"] = [answered_late]
    version = table.log.newest_state().version
    assert Table(table).append(ROW).version == version + 1


def test_a_handle_whose_put_was_answered_after_a_month_does_not_write_below_a_checkpoint(
    table: OpenTable, open_handle: Any, bucket: Any, clock: Any
) -> None:
    """Its commit landed in time; what it knows of the log is as old as the put, not as the answer."""

    def answered_late(real: Any, name: str, body: bytes) -> PutOutcome:
        outcome: PutOutcome = real(name, body)
        clock.elapsed_s += 31 * 24 * 3600
        return outcome

    bucket.script["put_if_absent"] = [answered_late]
    Table(table).append(ROW)
    version = others_move_on_and_clean_up(open_handle, bucket)
    assert Table(table).append(ROW).version == version + 1


@pytest.mark.parametrize("took_s", [6, 30])
def test_with_a_short_retention_a_put_of_seconds_is_not_acknowledged_below_a_checkpoint(
    open_handle: Any, table: OpenTable, bucket: Any, clock: Any, took_s: float
) -> None:
    with_retention(bucket, "20 seconds")
    writer = open_handle()
    Table(writer).append(ROW)

    def slow(real: Any, name: str, body: bytes) -> PutOutcome:
        others_move_on_and_clean_up(open_handle, bucket)
        clock.elapsed_s += took_s
        return real(name, body)  # type: ignore[no-any-return]

    bucket.script["put_if_absent"] = [slow]
    with pytest.raises(CommitStateUnknownError, match="which it builds on, is gone"):
        Table(writer).append(ROW)


@pytest.mark.parametrize("retention", ["0 seconds", "20 seconds", "3 minutes"])
def test_where_the_retention_is_short_a_handle_looks_again_before_it_puts(
    open_handle: Any, table: OpenTable, bucket: Any, clock: Any, retention: str
) -> None:
    with_retention(bucket, retention)
    writer = open_handle()
    Table(writer).append(ROW)
    newest = others_move_on_and_clean_up(open_handle, bucket)
    clock.elapsed_s += 50
    assert Table(writer).append(ROW).version == newest + 1


def test_within_the_trusted_time_an_append_costs_no_look_at_an_object_store(
    table: OpenTable, bucket: Any, clock: Any
) -> None:
    bucket.calls.clear()
    clock.elapsed_s += 10
    with Table(table).transaction() as transaction:
        transaction.append(ROW)
    table.post_commit.drain()
    assert not bucket.names("stat")
