"""A put that lost to commits which were cleaned up before they could be read: what is safe, and what is a conflict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tests.writes import write_batch
from txlog.core.format.log_names import commit_name
from txlog.core.operations import WriteOptions
from txlog.core.store import PutOutcome
from txlog.core.versions._open_table import OpenTable
from txlog.core.writing.commit_options import CommitOptions
from txlog.errors import (
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    InvalidInputError,
    MetadataChangedError,
    ProtocolChangedError,
)
from txlog.result import WriteResult
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


def clean_up_the_winners(scripted_log: Any, open_table: OpenTable) -> Any:
    """A step: other writers commit twice, checkpoint, and clean up; then our put is sent."""

    def step(real: Any, name: str, body: bytes) -> PutOutcome:
        append(open_table)
        append(open_table)
        open_table.log.write_checkpoint(open_table.log.newest_state())
        outcome = real(name, body)
        del scripted_log.inner.objects[commit_name(2)]
        return outcome  # type: ignore[no-any-return]

    return step


def test_a_blind_append_steps_over_winners_that_were_cleaned_up(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    other = open_handle()
    append(other)
    scripted_log.script["put_if_absent"] = [clean_up_the_winners(scripted_log, other)]
    result = append(table)
    assert result.outcome == "committed"
    assert result.version == 5


def test_an_overwrite_conflicts_with_winners_that_were_cleaned_up(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    other = open_handle()
    scripted_log.script["put_if_absent"] = [lose_to_what_is_cleaned_up(scripted_log, other, lambda: append(other))]
    with pytest.raises(ConcurrentDeleteReadError):
        append(table, mode="overwrite")


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"owner": "else"}, MetadataChangedError),
        ({"delta.enableDeletionVectors": "true"}, MetadataChangedError),  # whose feature is harmless
        ({"delta.enableInCommitTimestamps": "true"}, ProtocolChangedError),
    ],
)
def test_a_change_of_metadata_or_protocol_in_a_cleaned_up_commit_is_a_conflict(
    table: OpenTable, open_handle: Any, scripted_log: Any, properties: dict[str, str], error: type[Exception]
) -> None:
    other = open_handle()
    change = lose_to_what_is_cleaned_up(scripted_log, other, lambda: Table(other).set_properties(properties))
    scripted_log.script["put_if_absent"] = [change]
    with pytest.raises(error):
        append(table)


@pytest.mark.parametrize("where", [None, "id = 1"])
def test_an_append_that_read_the_table_conflicts_with_commits_that_were_cleaned_up(
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
def test_a_cleaned_up_commit_of_the_same_application_is_a_replay_or_a_conflict(
    table: OpenTable, open_handle: Any, scripted_log: Any, theirs: int, outcome: str
) -> None:
    """The same checkpoint: ours is a replay. A later one: nothing proves that ours landed."""
    other = open_handle()
    twin = lose_to_what_is_cleaned_up(
        scripted_log, other, lambda: append(other, commit=CommitOptions("orders", theirs))
    )
    scripted_log.script["put_if_absent"] = [twin]
    if outcome == "already_committed":
        result = append(table, commit=CommitOptions("orders", 7))
        assert (result.outcome, result.version) == (outcome, None)
    else:
        with pytest.raises(ConcurrentTransactionError):
            append(table, commit=CommitOptions("orders", 7))
    assert Table(open_handle()).snapshot().transaction_version("orders") == theirs


def test_a_cleaned_up_commit_confirms_no_fingerprint(table: OpenTable, open_handle: Any, scripted_log: Any) -> None:
    """The same checkpoint as ours, and perhaps other rows. Run again, it is refused for this reason."""
    other = open_handle()
    theirs, ours = (CommitOptions("orders", 7, fingerprint) for fingerprint in ("a", "b"))
    twin = lose_to_what_is_cleaned_up(scripted_log, other, lambda: append(other, commit=theirs))
    scripted_log.script["put_if_absent"] = [twin]
    with pytest.raises(ConcurrentTransactionError, match="'orders'"):
        append(table, commit=ours)
    with pytest.raises(InvalidInputError, match="nothing shows whether it was made from the same input"):
        append(table, commit=ours)


def test_a_commit_of_two_applications_is_no_replay_if_only_one_of_them_moved(
    table: OpenTable, open_handle: Any, scripted_log: Any
) -> None:
    """Else the rows of the other one would be reported as written."""
    other = open_handle()

    def move_one() -> None:
        append(other, commit=CommitOptions("one", 1))

    scripted_log.script["put_if_absent"] = [lose_to_what_is_cleaned_up(scripted_log, other, move_one)]

    def append_for_both() -> None:
        with Table(table).transaction() as transaction:
            transaction.set_transaction("one", 1)
            transaction.set_transaction("two", 1)
            transaction.append(ROWS)

    with pytest.raises(ConcurrentTransactionError, match="'one'"):
        append_for_both()
