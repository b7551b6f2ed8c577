"""A commit is acknowledged when it is durable, and so is every version below it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.writes import write_batch
from txlog.core.format.log_names import commit_name
from txlog.core.operations import WriteOptions
from txlog.core.store import PutOutcome
from txlog.core.versions._open_table import OpenTable
from txlog.core.writing.commit_options import CommitOptions
from txlog.errors import CommitStateUnknownError, MetadataChangedError, StorageError
from txlog.result import WriteResult
from txlog.table import Table

ROWS = pa.table({"id": pa.array([1], pa.int64())})


def append(open_table: OpenTable, **options: Any) -> WriteResult:
    return write_batch(open_table, ROWS, WriteOptions(create=True, **options))


def land_and_lose_the_answer(real: Any, name: str, body: bytes) -> PutOutcome:
    real(name, body)
    return PutOutcome.UNKNOWN


def test_a_commit_whose_directory_cannot_be_synced_is_never_acknowledged(table: OpenTable, scripted_log: Any) -> None:
    def visible_but_not_durable(real: Any, name: str, body: bytes) -> PutOutcome:
        real(name, body)
        return PutOutcome.NOT_DURABLE

    scripted_log.script["put_if_absent"] = [visible_but_not_durable]
    with pytest.raises(CommitStateUnknownError, match="synced"):
        append(table)
    assert scripted_log.names("put_if_absent") == [commit_name(2)]


def test_our_commit_found_by_reading_is_made_durable_before_it_is_acknowledged(
    table: OpenTable, scripted_log: Any
) -> None:
    scripted_log.script["put_if_absent"] = [land_and_lose_the_answer]
    append(table)
    assert commit_name(2) in scripted_log.names("make_durable")


def test_our_commit_found_by_reading_that_cannot_be_synced_is_unknown(table: OpenTable, scripted_log: Any) -> None:
    def failing(real: Any, name: str) -> None:
        raise StorageError("EIO")

    scripted_log.script["put_if_absent"] = [land_and_lose_the_answer]
    scripted_log.script["make_durable"] = [failing]
    with pytest.raises(CommitStateUnknownError):
        append(table)


def test_a_replay_after_a_crash_between_link_and_sync_makes_the_commit_durable(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    append(table, commit=CommitOptions("ingest", 1))
    restarted = open_handle()
    scripted_log.calls.clear()
    result = append(restarted, commit=CommitOptions("ingest", 1))
    assert result.outcome == "already_committed"
    assert commit_name(2) in scripted_log.names("make_durable")


def test_a_foreign_version_is_made_durable_before_the_next_version_is_put(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    append(open_handle())
    scripted_log.calls.clear()
    append(table)
    synced = scripted_log.calls.index(("make_durable", commit_name(2)))
    assert synced < scripted_log.calls.index(("put_if_absent", commit_name(3)))


def test_the_winner_of_a_race_is_made_durable_before_the_next_version_is_put(
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


def test_a_winner_is_made_durable_before_a_writer_whose_put_may_still_land_is_refused(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    """A power cut that takes the winner back would free the version for that put."""

    def lose_to_another_definition(real: Any, name: str, body: bytes) -> PutOutcome:
        Table(open_handle()).set_properties({"owner": "another"})
        scripted_log.calls.clear()
        return PutOutcome.UNKNOWN

    scripted_log.script["put_if_absent"] = [lose_to_another_definition]
    with pytest.raises(MetadataChangedError):
        append(table)
    assert commit_name(2) in scripted_log.names("make_durable")


@pytest.mark.parametrize("application", [{}, {"commit": CommitOptions("orders", 7)}], ids=["itself", "a twin"])
def test_a_commit_found_below_other_winners_is_made_durable_before_it_is_acknowledged(
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


def test_an_older_checkpoint_does_not_stand_in_for_a_missing_predecessor(
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
