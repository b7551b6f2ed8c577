"""The corners of the commit protocol: each test fails for one small mistake that all the others pass over."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pyarrow as pa
import pytest

from txlog.commands.batch_write import write_batch
from txlog.commands.write_planning import WriteOptions
from txlog.commit.open_table import OpenTable
from txlog.errors import (
    CommitStateUnknownError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    CorruptLogError,
    MetadataChangedError,
    ProtocolChangedError,
    StorageError,
)
from txlog.log.state import Totals
from txlog.protocol.log_names import commit_name
from txlog.result import WriteResult
from txlog.store.base import PutOutcome
from txlog.store.capabilities import OBJECT_STORE
from txlog.table import Table

ROWS = pa.table({"id": pa.array([1], pa.int64())})


def append(open_table: OpenTable, **options: Any) -> WriteResult:
    return write_batch(open_table, ROWS, WriteOptions(create=True, **options))


def lose_to_what_is_cleaned_up(scripted_log: Any, other: OpenTable, step: Callable[[], object]) -> Any:
    """A put that loses version 2; ``step`` is version 3, of which only a checkpoint of version 4 is left."""

    def put(real: Any, name: str, body: bytes) -> PutOutcome:
        append(other)
        step()
        append(other)
        other.log.write_checkpoint(other.log.newest_state())
        del scripted_log.inner.objects[commit_name(3)]
        return real(name, body)  # type: ignore[no-any-return]

    return put


# --- doubt ------------------------------------------------------------------------------------------------------


def test_a_doubt_that_a_foreign_commit_ended_does_not_come_back_at_the_next_version(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    """A put was lost, somebody else took the version: what fails at the next one has failed for certain."""

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


def test_a_commit_found_by_reading_on_top_of_a_version_that_is_gone_is_not_acknowledged(
    table: OpenTable, scripted_log: Any
) -> None:
    def clean_up_land_and_lose_the_answer(real: Any, name: str, body: bytes) -> PutOutcome:
        del scripted_log.inner.objects[commit_name(1)]
        real(name, body)
        return PutOutcome.UNKNOWN

    scripted_log.script["put_if_absent"] = [clean_up_land_and_lose_the_answer]
    with pytest.raises(CommitStateUnknownError, match="version 1"):
        append(table)


# --- winners that were cleaned up -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"owner": "else"}, MetadataChangedError),
        ({"delta.enableDeletionVectors": "true"}, ProtocolChangedError),
    ],
)
def test_a_definition_that_changed_in_a_commit_that_was_cleaned_up_is_noticed(
    table: OpenTable, open_handle: Any, scripted_log: Any, properties: dict[str, str], error: type[Exception]
) -> None:
    other = open_handle()
    change = lose_to_what_is_cleaned_up(scripted_log, other, lambda: Table(other).set_properties(properties))
    scripted_log.script["put_if_absent"] = [change]
    with pytest.raises(error):
        append(table)


@pytest.mark.parametrize("where", [None, "id = 1"])
def test_an_append_of_what_was_read_does_not_step_over_a_tail_that_was_cleaned_up(
    table: OpenTable, open_handle: Any, scripted_log: Any, where: str | None
) -> None:
    """It removes nothing, but the rows that it was computed from may have been deleted meanwhile."""
    other = open_handle()
    emptied = lose_to_what_is_cleaned_up(scripted_log, other, lambda: append(other, mode="overwrite"))
    scripted_log.script["put_if_absent"] = [emptied]
    transaction = Table(table).transaction()
    with pytest.raises(ConcurrentDeleteReadError, match="cleaned up"), transaction:
        transaction.append(pa.table(transaction.read(where)))
    assert Table(open_handle()).snapshot().version == 4


@pytest.mark.parametrize(("theirs", "outcome"), [(7, "already_committed"), (8, "ConcurrentTransactionError")])
def test_a_twin_whose_commit_was_cleaned_up_is_noticed(
    table: OpenTable, open_handle: Any, scripted_log: Any, theirs: int, outcome: str
) -> None:
    """The same checkpoint: ours is a replay. A later one: nothing proves that ours landed."""
    other = open_handle()
    twin = lose_to_what_is_cleaned_up(scripted_log, other, lambda: append(other, app_id="orders", checkpoint_id=theirs))
    scripted_log.script["put_if_absent"] = [twin]
    if outcome == "already_committed":
        result = append(table, app_id="orders", checkpoint_id=7)
        assert (result.outcome, result.version) == (outcome, None)
    else:
        with pytest.raises(ConcurrentTransactionError):
            append(table, app_id="orders", checkpoint_id=7)
    assert Table(open_handle()).snapshot().transaction_version("orders") == theirs


# --- what is below us -----------------------------------------------------------------------------------------


def test_the_winner_of_a_race_is_made_durable_before_the_next_is_linked(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    def lose_a_race(real: Any, name: str, body: bytes) -> PutOutcome:
        append(open_handle())
        scripted_log.calls.clear()
        return real(name, body)  # type: ignore[no-any-return]

    scripted_log.script["put_if_absent"] = [lose_a_race]
    assert append(table).version == 3
    synced = scripted_log.calls.index(("make_durable", commit_name(2)))
    assert synced < scripted_log.calls.index(("put_if_absent", commit_name(3)))


@pytest.mark.parametrize("application", [{}, {"app_id": "orders", "checkpoint_id": 7}], ids=["itself", "a twin"])
def test_what_is_found_below_other_winners_is_made_durable_before_it_is_acknowledged(
    table: OpenTable, open_handle: Any, scripted_log: Any, application: dict[str, Any]
) -> None:
    def land_below_another(real: Any, name: str, body: bytes) -> PutOutcome:
        if application:
            append(open_handle(), **application)
        else:
            real(name, body)
        append(open_handle())
        scripted_log.calls.clear()
        return PutOutcome.ALREADY_EXISTS

    scripted_log.script["put_if_absent"] = [land_below_another]
    assert append(table, **application).version == 2
    assert commit_name(2) in scripted_log.names("make_durable")


def test_a_checkpoint_of_an_older_version_is_no_substitute_for_the_version_below_ours(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    table.log.write_checkpoint(table.log.newest_state())
    append(table)
    assert table.log.reload().segment.checkpoint is not None

    def clean_up_after(real: Any, name: str) -> Any:
        found = real(name)
        del scripted_log.inner.objects[commit_name(2)]
        return found

    scripted_log.script["stat"] = [clean_up_after]
    with pytest.raises(StorageError, match="version 2, which it builds on, is gone"):
        append(table)
    assert commit_name(3) not in scripted_log.inner.objects


def test_a_store_that_could_not_be_tried_at_the_first_commit_is_tried_at_the_second(
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


def test_commits_of_a_table_made_anew_during_our_put_are_not_taken_for_winners(
    table: OpenTable, open_handle: Any, scripted_log: Any, clock: Any
) -> None:
    def made_anew(real: Any, name: str, body: bytes) -> PutOutcome:
        scripted_log.inner.objects.clear()
        clock.elapsed_s += 1
        other = open_handle()
        for _ in range(4):
            append(other)
        return real(name, body)  # type: ignore[no-any-return]

    scripted_log.script["put_if_absent"] = [made_anew]
    with pytest.raises(CorruptLogError, match="replaced while it was open"):
        append(table)
    assert Table(open_handle()).snapshot().version == 3


@pytest.mark.parametrize(
    ("retention", "age_s", "anew"),
    [("1 hours", 800, False), ("1 hours", 1000, True), ("30 days", 3500, False), ("30 days", 3700, True)],
)
def test_a_head_is_loaded_anew_before_what_follows_it_can_have_been_cleaned_up(
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


def test_a_head_is_as_old_as_the_question_for_it_and_not_as_the_answer(
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


def test_a_checkpoint_of_a_version_that_the_handle_does_not_know_yet_is_not_where_it_starts_from(
    table: OpenTable, open_handle: Any
) -> None:
    append(open_handle())
    append(open_handle())
    table.log.write_checkpoint(table.log.state_at(3))
    known = table.log.newest_state(refresh=False)
    assert (known.version, table.log.files(known).num_rows) == (1, 2)
    assert table.log.files(table.log.newest_state()).num_rows == 4


def test_a_checkpoint_of_an_older_version_takes_the_handle_back_to_nothing(table: OpenTable) -> None:
    append(table)
    table.log.write_checkpoint(table.log.newest_state())
    table.log.write_checkpoint(table.log.state_at(1))
    known = table.log.newest_state(refresh=False)
    assert known.segment.checkpoint is not None
    assert (known.segment.checkpoint.version, table.log.files(known).num_rows) == (2, 3)


@pytest.mark.parametrize(("counted_at", "told"), [(0, None), (1, None), (2, (3, 30)), (3, (3, 30)), (4, None)])
def test_totals_are_carried_on_over_commits_that_tell_what_they_changed_and_no_others(
    table: OpenTable, open_handle: Any, scripted_log: Any, counted_at: int, told: tuple[int, int] | None
) -> None:
    """Of version 2 nobody knows how many files it added, and version 4 is not known to the handle."""
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
    assert (totals and (totals.num_files, totals.size_bytes)) == told


def test_a_table_that_went_back_to_an_older_state_of_its_own_is_an_error(
    table: OpenTable, scripted_log: Any, clock: Any
) -> None:
    """As of a copy that was put in its place: what was acknowledged since is gone, and nothing is built on that."""
    append(table)
    del scripted_log.inner.objects[commit_name(2)]
    clock.elapsed_s += 7200
    with pytest.raises(CorruptLogError, match="replaced while it was open"):
        append(table)
    assert commit_name(2) not in scripted_log.inner.objects


def test_a_slow_thread_does_not_take_the_handle_back_to_an_older_head(table: OpenTable, open_handle: Any) -> None:
    """It learns of its own commit when the handle has seen what came after."""
    known = table.log.newest_state()
    append(open_handle())
    append(open_handle())
    assert table.log.newest_state().version == 3
    assert table.log.advance(known, table.log.read_commit(2)).version == 2
    assert table.log.newest_state(refresh=False).version == 3


# --- what follows a commit ------------------------------------------------------------------------------------


def checkpoints(scripted_log: Any) -> list[str]:
    return sorted(name for name in scripted_log.inner.objects if name.endswith(".checkpoint.parquet"))


def test_one_piece_of_work_follows_commits_at_a_time(table: OpenTable, scripted_log: Any) -> None:
    """A busy writer does not heap up checkpoints behind one that takes long: the next begins when it is done."""
    go_on, begun = threading.Event(), threading.Event()

    def slow_checkpoint(real: Any, name: str, body: bytes) -> PutOutcome:
        if "checkpoint" in name:
            begun.set()
            assert go_on.wait(60)
        return real(name, body)  # type: ignore[no-any-return]

    Table(table).set_properties({"delta.checkpointInterval": "1"})
    table.post_commit.drain()
    before = checkpoints(scripted_log)
    scripted_log.script["put_if_absent"] = [slow_checkpoint] * 10
    append(table)
    assert begun.wait(60)
    for _ in range(3):
        append(table)
    go_on.set()
    table.post_commit.drain()
    assert len(checkpoints(scripted_log)) == len(before) + 1


def test_a_fork_does_not_wait_for_the_work_of_its_parent(table: OpenTable, scripted_log: Any) -> None:
    """It took the object along, and not the thread that would ever finish."""
    Table(table).set_properties({"delta.checkpointInterval": "1"})
    table.post_commit.drain()
    before = checkpoints(scripted_log)
    table.post_commit._running = Future()
    table.post_commit._process_id -= 1
    append(table)
    table.post_commit.drain()
    assert len(checkpoints(scripted_log)) == len(before) + 1
