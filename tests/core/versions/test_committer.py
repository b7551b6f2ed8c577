"""The commit protocol, point by point: what the committer does when an answer is lost, late, torn or a lie."""

from __future__ import annotations

import itertools
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

import txlog
from tests.writes import write_batch
from txlog.core import ambient
from txlog.core.format.log_names import commit_name
from txlog.core.operations import WriteOptions
from txlog.core.store import LogCapabilities, PutOutcome
from txlog.core.store._base import LOCAL_DISK, OBJECT_STORE
from txlog.core.versions._open_table import OpenTable
from txlog.core.writing.commit_options import CommitOptions
from txlog.errors import (
    CommitRetriesExhaustedError,
    CommitStateUnknownError,
    ConflictError,
    CorruptLogError,
    MetadataChangedError,
    StorageError,
    UnsupportedFeatureError,
)
from txlog.result import WriteResult
from txlog.table import Table

ROWS = pa.table({"id": pa.array([1], pa.int64())})


def append(open_table: OpenTable, rows: pa.Table = ROWS, **options: Any) -> WriteResult:
    return write_batch(open_table, rows, WriteOptions(create=True, **options))


def land_and_lose_the_answer(real: Any, name: str, body: bytes) -> PutOutcome:
    real(name, body)
    return PutOutcome.UNKNOWN


def lose_before_landing(real: Any, name: str, body: bytes) -> PutOutcome:
    return PutOutcome.UNKNOWN


def claim_it_exists(real: Any, name: str, body: bytes) -> PutOutcome:
    return PutOutcome.ALREADY_EXISTS


def unreadable_once_sent(log: Any) -> Any:
    def step(real: Any, name: str) -> bytes:
        if log.names("put_if_absent"):
            raise StorageError("503")
        return real(name)  # type: ignore[no-any-return]

    return step


def lines_of(log: Any, version: int) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in log.inner.objects[commit_name(version)][0].splitlines()]


def txn_ids(log: Any) -> list[str]:
    versions = sorted(name for name in log.inner.objects if name.endswith(".json"))
    return [orjson.loads(log.inner.objects[name][0].splitlines()[0])["commitInfo"]["txnId"] for name in versions]


# --- 1: the commit ------------------------------------------------------------------------------------------


def test_line_one_is_commit_info_with_the_txn_id_and_the_number_of_lines(table: OpenTable, scripted_log: Any) -> None:
    result = append(table)
    lines = lines_of(scripted_log, result.version or 0)
    assert lines[0]["commitInfo"]["txnId"] == result.txn_id
    grown = [1, lines[1]["add"]["size"]]
    assert lines[0]["commitInfo"]["txlog"] == {"actions": len(lines), "attempts": 1, "net": grown}


def test_a_rebase_keeps_the_txn_id_and_the_data_files(table: OpenTable, open_handle: Any, scripted_log: Any) -> None:
    def lose_a_race(real: Any, name: str, body: bytes) -> PutOutcome:
        append(open_handle())
        return real(name, body)  # type: ignore[no-any-return]

    scripted_log.script["put_if_absent"] = [lose_a_race]
    result = append(table)
    assert (result.version, result.attempts, result.metrics.lost_races) == (3, 2, 1)
    assert txn_ids(scripted_log)[3] == result.txn_id
    assert len(table.store.files.objects) == 4  # type: ignore[attr-defined]


# --- 2 and 3: put, and read back ----------------------------------------------------------------------------


def test_a_lost_answer_to_a_put_that_landed_is_one_commit(table: OpenTable, scripted_log: Any) -> None:
    scripted_log.script["put_if_absent"] = [land_and_lose_the_answer]
    result = append(table)
    assert (result.version, result.outcome) == (2, "committed")
    assert txn_ids(scripted_log).count(result.txn_id) == 1


def test_a_lost_put_is_sent_again_to_the_same_version_with_the_same_bytes(table: OpenTable, scripted_log: Any) -> None:
    sent: list[bytes] = []

    def lose(real: Any, name: str, body: bytes) -> PutOutcome:
        sent.append(body)
        return PutOutcome.UNKNOWN

    scripted_log.script["put_if_absent"] = [lose, lose]
    result = append(table)
    assert scripted_log.names("put_if_absent") == [commit_name(2)] * 3
    assert sent == [scripted_log.inner.objects[commit_name(2)][0]] * 2
    assert result.version == 2


def test_a_put_that_lands_late_does_not_make_a_second_commit(table: OpenTable, scripted_log: Any) -> None:
    late: list[Any] = []

    def land_later(real: Any, name: str, body: bytes) -> PutOutcome:
        late.append(lambda: real(name, body))
        return PutOutcome.UNKNOWN

    def first_the_late_one(real: Any, name: str, body: bytes) -> PutOutcome:
        late.pop()()
        return real(name, body)  # type: ignore[no-any-return]

    scripted_log.script["put_if_absent"] = [land_later, first_the_late_one]
    result = append(table)
    assert txn_ids(scripted_log).count(result.txn_id) == 1
    assert append(table).version == 3


def test_a_put_refused_as_existing_is_sent_again_if_the_version_does_not_exist(
    table: OpenTable, scripted_log: Any
) -> None:
    """S3 answers 409 to two conditional puts at once, and clients call that "already exists"."""
    scripted_log.script["put_if_absent"] = [claim_it_exists]
    result = append(table)
    assert result.version == 2
    assert scripted_log.names("put_if_absent") == [commit_name(2), commit_name(2)]


def test_while_the_answer_is_unknown_no_later_version_is_tried(table: OpenTable, scripted_log: Any) -> None:
    scripted_log.script["put_if_absent"] = [land_and_lose_the_answer] + [claim_it_exists] * 200
    scripted_log.script["read"] = [unreadable_once_sent(scripted_log)] * 200
    with pytest.raises(CommitStateUnknownError) as raised:
        append(table)
    assert set(scripted_log.names("put_if_absent")) == {commit_name(2)}
    assert raised.value.version == 2
    assert raised.value.txn_id in txn_ids(scripted_log)
    assert "table.resolve(" in str(raised.value)


def test_an_unknown_commit_keeps_its_data_files(table: OpenTable, scripted_log: Any) -> None:
    scripted_log.script["put_if_absent"] = [lose_before_landing] * 200
    with pytest.raises(CommitStateUnknownError):
        append(table)
    assert len(table.store.files.objects) == 3  # type: ignore[attr-defined]


def test_a_definite_failure_after_a_lost_answer_is_still_unknown(table: OpenTable, scripted_log: Any) -> None:
    def forbidden(real: Any, name: str, body: bytes) -> PutOutcome:
        raise StorageError("403")

    scripted_log.script["put_if_absent"] = [lose_before_landing, forbidden]
    with pytest.raises(CommitStateUnknownError):
        append(table)


def test_a_definite_failure_of_the_first_put_is_a_storage_error(table: OpenTable, scripted_log: Any) -> None:
    def disk_full(real: Any, name: str, body: bytes) -> PutOutcome:
        raise StorageError("no space left on device")

    scripted_log.script["put_if_absent"] = [disk_full]
    with pytest.raises(StorageError, match="no space left"):
        append(table)
    assert append(table).version == 2


def test_a_put_of_unknown_outcome_is_retried_above_a_foreign_commit_at_its_version(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    def lose_while_another_wins(real: Any, name: str, body: bytes) -> PutOutcome:
        append(open_handle())
        return PutOutcome.UNKNOWN

    scripted_log.script["put_if_absent"] = [lose_while_another_wins]
    assert append(table).version == 3


def test_a_torn_commit_that_may_be_ours_is_unknown(table: OpenTable, scripted_log: Any) -> None:
    def tear(real: Any, name: str, body: bytes) -> PutOutcome:
        real(name, body[:40])
        return PutOutcome.UNKNOWN

    scripted_log.script["put_if_absent"] = [tear]
    with pytest.raises(CommitStateUnknownError):
        append(table)


def test_a_foreign_torn_commit_is_reported_with_its_file(table: OpenTable, scripted_log: Any) -> None:
    def another_tears(real: Any, name: str, body: bytes) -> PutOutcome:
        real(name, b'{"commitInfo":{"oper')
        return PutOutcome.ALREADY_EXISTS

    scripted_log.script["put_if_absent"] = [another_tears]
    with pytest.raises(CorruptLogError) as raised:
        append(table)
    assert raised.value.path == commit_name(2)


def test_an_interrupt_logs_whether_the_commit_landed_and_is_raised_again(
    table: OpenTable, scripted_log: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupt(real: Any, name: str, body: bytes) -> PutOutcome:
        real(name, body)
        raise KeyboardInterrupt

    scripted_log.script["put_if_absent"] = [interrupt]
    with caplog.at_level(logging.WARNING, "txlog"), pytest.raises(KeyboardInterrupt):
        append(table)
    assert "is in the log at version 2" in caplog.text
    assert len(table.store.files.objects) == 3  # type: ignore[attr-defined]


def test_resolve_reports_that_a_lost_commit_landed(table: OpenTable, scripted_log: Any) -> None:
    scripted_log.script["put_if_absent"] = [land_and_lose_the_answer] + [claim_it_exists] * 200
    scripted_log.script["read"] = [unreadable_once_sent(scripted_log)] * 200
    with pytest.raises(CommitStateUnknownError) as raised:
        append(table)
    scripted_log.script.clear()
    assert Table(table).resolve(raised.value.txn_id, raised.value.version or 0) is True


def test_resolve_has_a_commit_on_disk_before_it_reports_that_it_landed(table: OpenTable, scripted_log: Any) -> None:
    def land_unsynced(real: Any, name: str, body: bytes) -> PutOutcome:
        scripted_log.inner.put(name, body)
        return PutOutcome.UNKNOWN

    scripted_log.script["put_if_absent"] = [land_unsynced] + [claim_it_exists] * 200
    scripted_log.script["read"] = [unreadable_once_sent(scripted_log)] * 200
    with pytest.raises(CommitStateUnknownError) as raised:
        append(table)
    scripted_log.script.clear()
    assert commit_name(2) not in scripted_log.inner.durable
    assert Table(table).resolve(raised.value.txn_id, 2) is True
    assert commit_name(2) in scripted_log.inner.durable


def test_resolve_fences_a_version_that_no_writer_took(table: OpenTable, scripted_log: Any) -> None:
    in_flight: list[Any] = []

    def keep_in_flight(real: Any, name: str, body: bytes) -> PutOutcome:
        in_flight.append(lambda: real(name, body))
        return PutOutcome.UNKNOWN

    scripted_log.script["put_if_absent"] = [keep_in_flight] * 200
    with pytest.raises(CommitStateUnknownError) as raised:
        append(table)
    scripted_log.script.clear()
    assert Table(table).resolve(raised.value.txn_id, 2) is False
    assert in_flight[0]() is PutOutcome.ALREADY_EXISTS
    assert raised.value.txn_id not in txn_ids(scripted_log)
    assert append(table).version == 3


def test_a_failure_after_another_writer_took_the_unknown_version_is_no_longer_unknown(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    """A put was lost and another writer took the version: what fails at the next one has certainly failed."""

    def lost(real: Any, name: str, body: bytes) -> PutOutcome:
        return PutOutcome.UNKNOWN

    def somebody_else_was_first(real: Any, name: str, body: bytes) -> PutOutcome:
        append(open_handle())
        return real(name, body)  # type: ignore[no-any-return]

    def refused(real: Any, name: str, body: bytes) -> PutOutcome:
        raise StorageError("no space left on device")

    scripted_log.script["put_if_absent"] = [lost, somebody_else_was_first, None, refused]
    with pytest.raises(StorageError, match="no space left") as raised:
        append(table)
    assert not isinstance(raised.value, CommitStateUnknownError)
    assert raised.value.version == 3


def test_a_commit_found_by_reading_above_a_missing_version_is_not_acknowledged(
    table: OpenTable, scripted_log: Any
) -> None:
    def clean_up_land_and_lose_the_answer(real: Any, name: str, body: bytes) -> PutOutcome:
        del scripted_log.inner.objects[commit_name(1)]
        real(name, body)
        return PutOutcome.UNKNOWN

    scripted_log.script["put_if_absent"] = [clean_up_land_and_lose_the_answer]
    with pytest.raises(CommitStateUnknownError, match="version 1"):
        append(table)


# --- 4: absence means "never taken" only near the head ------------------------------------------------------


def test_a_handle_that_slept_for_days_does_not_write_below_a_checkpoint(
    table: OpenTable, open_handle: Any, scripted_log: Any, clock: Any
) -> None:
    other = open_handle()
    for _ in range(3):
        append(other)
    other.log.write_checkpoint(other.log.newest_state())
    for version in range(4):  # what another engine's log cleanup does
        del scripted_log.inner.objects[commit_name(version)]
    clock.elapsed_s += 7200
    result = append(table)
    assert result.version == 5
    assert commit_name(2) not in scripted_log.inner.objects


@pytest.mark.parametrize("is_disk", [True, False])
def test_the_first_commit_of_a_handle_puts_no_version_back_that_is_cleaned_up(
    table: OpenTable, open_handle: Any, scripted_log: Any, clock: Any, is_disk: bool
) -> None:
    """A handle as old would find it, and take the place after it for free."""
    scripted_log.inner.capabilities = LOCAL_DISK if is_disk else OBJECT_STORE

    def clean_up_before(real: Any, name: str, body: bytes) -> PutOutcome:
        for version in range(3):
            scripted_log.inner.objects.pop(commit_name(version), None)
        return real(name, body)  # type: ignore[no-any-return]

    late = Table(open_handle())
    with late.transaction() as transaction:
        transaction.append(ROWS)
        for _ in range(2):
            append(table)
        table.log.write_checkpoint(table.log.newest_state())
        clock.elapsed_s += 7200
        scripted_log.script["put_if_absent"] = [clean_up_before]
    assert transaction.result is not None
    assert transaction.result.version == 4
    assert [version for version in range(5) if commit_name(version) in scripted_log.inner.objects] == [3, 4]


def test_a_commit_whose_predecessor_is_missing_is_not_acknowledged(table: OpenTable, scripted_log: Any) -> None:
    def clean_up_before(real: Any, name: str, body: bytes) -> PutOutcome:
        del scripted_log.inner.objects[commit_name(1)]
        return real(name, body)  # type: ignore[no-any-return]

    scripted_log.script["put_if_absent"] = [clean_up_before]
    with pytest.raises(CommitStateUnknownError, match="version 1"):
        append(table)


def test_a_handle_leaves_no_hole_in_a_table_that_was_created_again(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    txlog.write(uri, ROWS)
    old = Table.open(uri)
    for _ in range(3):
        old.append(ROWS)
    shutil.rmtree(uri)
    txlog.write(uri, ROWS)
    with pytest.raises(CorruptLogError, match="replaced while it was open"):
        old.append(ROWS)
    assert Table.open(uri).snapshot().version == 0


def test_a_table_that_was_replaced_is_an_error(
    table: OpenTable, open_handle: Any, scripted_log: Any, clock: Any
) -> None:
    scripted_log.inner.objects.clear()
    append(open_handle())
    append(open_handle())
    append(open_handle())
    clock.elapsed_s += 7200
    with pytest.raises((CorruptLogError, ConflictError)):
        append(table)
    assert len(txn_ids(scripted_log)) == 3


@pytest.mark.parametrize("newer", [0, 1, 5])
@pytest.mark.parametrize("kind", [None, OBJECT_STORE])
def test_nothing_is_read_from_or_committed_to_a_table_made_in_the_place_of_the_one_that_was_opened(
    table: OpenTable, open_handle: Any, scripted_log: Any, clock: Any, newer: int, kind: LogCapabilities | None
) -> None:
    """Nor is a commit of the new table taken for one that followed the old. Each call says so, not only the first."""
    if kind is not None:
        scripted_log.inner.capabilities = kind
    append(table)
    version = table.log.newest_state().version
    scripted_log.inner.objects.clear()
    clock.elapsed_s += 61
    for _ in range(version + 1 + newer):
        append(open_handle())
    before = dict(scripted_log.inner.objects)
    calls: list[Callable[[], object]] = [lambda: append(table), table.log.newest_state, Table(table).to_arrow]
    for call in [*calls, *calls]:
        with pytest.raises(CorruptLogError, match="replaced while it was open"):
            call()
    assert scripted_log.inner.objects.keys() == before.keys()
    assert len(txn_ids(scripted_log)) == version + 1 + newer


def test_a_reader_on_an_object_store_finds_at_once_that_newer_commits_are_of_another_table(
    table: OpenTable, open_handle: Any, scripted_log: Any, clock: Any
) -> None:
    scripted_log.inner.capabilities = OBJECT_STORE
    append(table)
    scripted_log.inner.objects.clear()
    clock.elapsed_s += 1
    for _ in range(4):
        append(open_handle())
    for _ in range(2):
        with pytest.raises(CorruptLogError, match="replaced while it was open"):
            table.log.newest_state()


@pytest.mark.parametrize("looks", [True, False])
def test_a_handle_on_an_object_store_that_is_never_idle_finds_within_a_minute_that_the_table_was_replaced(
    table: OpenTable, open_handle: Any, scripted_log: Any, clock: Any, looks: bool
) -> None:
    scripted_log.inner.capabilities = OBJECT_STORE
    append(table)
    append(table)
    scripted_log.inner.objects.clear()
    clock.elapsed_s += 1
    append(open_handle())

    def goes_on() -> None:
        for _ in range(4):
            clock.elapsed_s += 25
            _ = table.log.newest_state() if looks else append(table)

    with pytest.raises(CorruptLogError, match="replaced while it was open" if looks else "the log has a gap"):
        goes_on()


@pytest.mark.parametrize("newer", [0, 1])
def test_a_checkpoint_is_not_taken_for_replayed_on_a_table_that_was_put_back_from_a_copy(
    table: OpenTable, open_handle: Any, scripted_log: Any, clock: Any, newer: int
) -> None:
    append(table)
    copy = dict(scripted_log.inner.objects)
    job = {"commit": CommitOptions(app_id="job", checkpoint_id=7)}
    append(table, **job)
    scripted_log.inner.objects.clear()
    scripted_log.inner.objects.update(copy)
    clock.elapsed_s += 1
    for _ in range(1 + newer):
        append(open_handle())
    assert append(table, **job).outcome == "committed"


def test_a_version_that_only_a_checkpoint_had_is_not_taken_for_the_same_one_of_a_new_table(
    table: OpenTable, open_handle: Any, scripted_log: Any, clock: Any
) -> None:
    append(table)
    version = table.log.write_checkpoint(table.log.newest_state())
    for name in [commit_name(each) for each in range(version + 1)]:
        scripted_log.inner.delete(name)
    old = open_handle()
    assert old.log.newest_state().version == version
    scripted_log.inner.objects.clear()
    clock.elapsed_s += 1
    for _ in range(version + 1):
        append(open_handle())
    with pytest.raises(CorruptLogError, match="replaced while it was open"):
        old.log.newest_state()


def test_nothing_is_committed_on_top_of_a_missing_checkpoint(
    table: OpenTable, open_handle: Any, scripted_log: Any, clock: Any
) -> None:
    """As of a table whose last version had one, and in whose place a shorter one was made."""
    append(table)
    table.log.write_checkpoint(table.log.newest_state())
    table.log.reload()

    def make_anew_after(real: Any, name: str) -> Any:
        found = real(name)
        scripted_log.inner.objects.clear()
        clock.elapsed_s += 1
        append(open_handle())
        return found

    scripted_log.script["stat"] = [make_anew_after]  # the write was planned by then
    with pytest.raises(StorageError, match=r"is gone from the log\. Nothing landed"):
        append(table)
    with pytest.raises(CorruptLogError, match="replaced while it was open"):
        append(table)
    assert sorted(scripted_log.inner.objects) == [commit_name(0)]
    assert Table(open_handle()).snapshot().version == 0


# --- 5: a list is a hint ------------------------------------------------------------------------------------


def test_a_winner_that_the_listing_missed_is_checked_all_the_same(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    """A directory listing can miss an older name while it shows a newer one."""
    other = open_handle()

    def two_win(real: Any, name: str, body: bytes) -> PutOutcome:
        Table(other).set_properties({"delta.logRetentionDuration": "interval 3 days"})
        append(other)
        return real(name, body)  # type: ignore[no-any-return]

    def with_a_hole(real: Any, start: str) -> list[Any]:
        return [meta for meta in real(start) if meta.name != commit_name(2)]

    scripted_log.script["put_if_absent"] = [two_win]
    scripted_log.script["list_from"] = [with_a_hole] * 10
    with pytest.raises(MetadataChangedError, match="v2"):
        append(table)


def test_a_winner_newer_than_the_listing_is_found_by_name(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    other = open_handle()

    def two_win(real: Any, name: str, body: bytes) -> PutOutcome:
        append(other)
        append(other)
        return real(name, body)  # type: ignore[no-any-return]

    def stale(real: Any, start: str) -> list[Any]:
        return [meta for meta in real(start) if meta.name < commit_name(2)]

    scripted_log.script["put_if_absent"] = [two_win]
    scripted_log.script["list_from"] = [stale] * 10
    result = append(table)
    assert (result.version, result.metrics.lost_races) == (4, 1)


# --- 6: decide, then wait -----------------------------------------------------------------------------------


def test_our_own_commit_below_foreign_ones_is_found_in_the_tail(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    """The put landed, the answer was lost, and a reader saw only what came after it."""

    def land_then_lose_then_others_win(real: Any, name: str, body: bytes) -> PutOutcome:
        real(name, body)
        append(open_handle())
        return PutOutcome.ALREADY_EXISTS

    scripted_log.script["put_if_absent"] = [land_then_lose_then_others_win]
    result = append(table)
    assert (result.version, result.outcome) == (2, "committed")
    assert txn_ids(scripted_log).count(result.txn_id) == 1


def test_a_twin_that_commits_the_same_checkpoint_first_makes_ours_a_replay(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    def twin_wins(real: Any, name: str, body: bytes) -> PutOutcome:
        append(open_handle(), commit=CommitOptions("ingest", 7))
        return real(name, body)  # type: ignore[no-any-return]

    scripted_log.script["put_if_absent"] = [twin_wins]
    result = append(table, commit=CommitOptions("ingest", 7))
    assert (result.version, result.outcome) == (2, "already_committed")
    assert len(txn_ids(scripted_log)) == 3


def test_waits_between_lost_races_do_not_grow_so_that_a_loser_does_not_starve(
    table: OpenTable, open_handle: Any, scripted_log: Any, clock: Any
) -> None:
    scripted_log.script["put_if_absent"] = [losing_races(open_handle, scripted_log)] * 4
    assert append(table).attempts == 5
    assert len(clock.slept_s) == 4
    ratios = [later / earlier for earlier, later in itertools.pairwise(clock.slept_s)]
    assert ratios == pytest.approx([1.0] * 3)


def losing_races(open_handle: Any, scripted_log: Any) -> Any:
    other = open_handle()

    def lose(real: Any, name: str, body: bytes) -> PutOutcome:
        scripted_log.script["put_if_absent"], rest = [], scripted_log.script["put_if_absent"]
        append(other)
        scripted_log.script["put_if_absent"] = rest
        return real(name, body)  # type: ignore[no-any-return]

    return lose


def test_a_lost_race_beyond_the_time_limit_says_that_nothing_landed(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    impatient = open_handle(total_timeout=0.0)
    impatient.log.newest_state()
    scripted_log.script["put_if_absent"] = [losing_races(open_handle, scripted_log)]
    with pytest.raises(CommitRetriesExhaustedError, match="Nothing landed"):
        append(impatient)
    assert len(txn_ids(scripted_log)) == 3


def test_a_count_of_attempts_does_not_bound_the_lost_races_of_blind_appends(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    counted = open_handle(max_attempts=2)
    append(counted)
    scripted_log.script["put_if_absent"] = [losing_races(open_handle, scripted_log)] * 5
    assert append(counted).attempts == 6


# --- 7: a blind append needs no file list -------------------------------------------------------------------


def asked(scripted_log: Any) -> list[str]:
    """Without the checksum file, which a slow machine writes after each commit, and for which no caller waits."""
    return [operation for operation, name in scripted_log.calls if not name.endswith(".crc")]


def test_an_append_in_an_open_handle_is_one_put_and_no_listing(table: OpenTable, scripted_log: Any) -> None:
    append(table)
    operations = asked(scripted_log)
    assert operations.count("put_if_absent") == 1
    assert operations.count("list_from") == 0
    assert len(operations) <= 7


def test_an_append_makes_the_same_calls_at_version_two_hundred(table: OpenTable, scripted_log: Any) -> None:
    Table(table).set_properties({"delta.checkpointInterval": "100000"})
    scripted_log.calls.clear()
    append(table)
    early = asked(scripted_log)
    for _ in range(200):
        append(table)
    scripted_log.calls.clear()
    append(table)
    assert asked(scripted_log) == early


# --- 8: durable before acknowledged: test_durability.py; a store that cannot decide which writer was first -----------


def test_a_store_that_ignores_the_condition_is_refused_before_the_first_write(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    def overwrite(real: Any, name: str, body: bytes) -> PutOutcome:
        scripted_log.inner.put(name, body)
        return PutOutcome.WRITTEN

    scripted_log.inner.capabilities = OBJECT_STORE
    before = dict(scripted_log.inner.objects)
    scripted_log.script["put_if_absent"] = [overwrite] * 10
    with pytest.raises(UnsupportedFeatureError, match="conditional"):
        append(open_handle())
    assert {name: body for name, (body, _) in scripted_log.inner.objects.items()} == {
        name: body for name, (body, _) in before.items()
    }


def test_a_store_that_could_not_be_probed_at_the_first_commit_is_probed_at_the_second(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    """In a copy that has its head as a checkpoint alone there is no commit to try it with."""
    scripted_log.inner.capabilities = OBJECT_STORE
    table.log.write_checkpoint(table.log.newest_state())
    del scripted_log.inner.objects[commit_name(1)]
    copy = open_handle()
    scripted_log.calls.clear()
    append(copy)
    assert scripted_log.names("put_if_absent") == [commit_name(2)]
    append(copy)
    assert scripted_log.names("put_if_absent") == [commit_name(2), commit_name(2), commit_name(3)]


# --- 9: after the commit ------------------------------------------------------------------------------------


def test_a_failing_checkpoint_warns_and_leaves_the_commit_acknowledged(
    table: OpenTable, scripted_log: Any, caplog: pytest.LogCaptureFixture
) -> None:
    Table(table).set_properties({"delta.checkpointInterval": "1"})
    failed: list[str] = []

    def fail_checkpoints(real: Any, name: str, body: bytes) -> PutOutcome:
        if "checkpoint" in name:
            failed.append(name)
            raise StorageError("no space left on device")
        return real(name, body)  # type: ignore[no-any-return]

    scripted_log.script["put_if_absent"] = [fail_checkpoints] * 10
    with caplog.at_level(logging.WARNING, "txlog"):
        result = append(table)
        table.post_commit.drain()
    assert result.outcome == "committed"
    assert failed
    assert "the commit is safe" in caplog.text


def test_a_checkpoint_whose_size_cannot_be_read_leaves_the_commit_acknowledged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    uri = str(tmp_path / "table")
    txlog.write(uri, ROWS)
    Table.open(uri).create_checkpoint()
    log = tmp_path / "table" / "_delta_log"
    (log / "_last_checkpoint").write_bytes(orjson.dumps({"version": 0, "size": 3}))  # sizeInBytes is optional
    table = Table.open(uri)
    (log / f"{0:020d}.checkpoint.parquet").unlink()
    with caplog.at_level(logging.WARNING, "txlog"):
        assert table.append(ROWS).outcome == "committed"
    assert "the commit is safe" in caplog.text


def test_a_checkpoint_is_written_when_the_interval_asks_for_it(table: OpenTable, scripted_log: Any) -> None:
    Table(table).set_properties({"delta.checkpointInterval": "5"})
    for _ in range(6):
        append(table)
        table.post_commit.drain()
    assert [name for name in scripted_log.inner.objects if "checkpoint.parquet" in name]


# --- commitInfo ---------------------------------------------------------------------------------------------


def test_commit_info_is_complete(table: OpenTable, scripted_log: Any) -> None:
    result = append(table, commit=CommitOptions("ingest", 3, user_metadata="nightly"))
    info, txn, add = lines_of(scripted_log, result.version or 0)
    reported = info["commitInfo"]
    assert reported["operation"] == "WRITE"
    assert reported["operationParameters"] == {"mode": "Append", "partitionBy": "[]"}
    assert (reported["readVersion"], reported["isolationLevel"], reported["isBlindAppend"]) == (
        1,
        "WriteSerializable",
        True,
    )
    assert reported["operationMetrics"] == {
        "numFiles": "1",
        "numOutputRows": "1",
        "numOutputBytes": str(add["add"]["size"]),
    }
    assert reported["engineInfo"].startswith("txlog/")
    assert reported["userMetadata"] == "nightly"
    assert reported["timestamp"] == ambient.now_ms()
    assert txn["txn"] == {"appId": "ingest", "version": 3, "lastUpdated": ambient.now_ms()}


def test_an_overwrite_is_not_called_blind(table: OpenTable, scripted_log: Any) -> None:
    result = append(table, mode="overwrite")
    assert lines_of(scripted_log, result.version or 0)[0]["commitInfo"]["isBlindAppend"] is False
