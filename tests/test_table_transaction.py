"""The ``with table.transaction()`` block: what it takes, when, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import txlog
from txlog.errors import InvalidInputError

ROWS = pa.table({"id": pa.array([1], pa.int64())})


@pytest.fixture
def table(make_table: Callable[..., txlog.Table]) -> txlog.Table:
    return make_table(ROWS)


def data_files(table: txlog.Table) -> int:
    return len(list(Path(table.uri).glob("*.parquet")))


def test_rows_given_after_the_block_are_refused_and_never_lost_silently(table: txlog.Table) -> None:
    with table.transaction() as transaction:
        transaction.append(ROWS)
    with pytest.raises(InvalidInputError, match="inside its with block"):
        transaction.append(ROWS)
    with pytest.raises(InvalidInputError, match="inside its with block"):
        table.transaction().append(ROWS)


def test_a_transaction_commits_once(table: txlog.Table) -> None:
    with table.transaction() as transaction:
        transaction.append(ROWS)
    with pytest.raises(InvalidInputError, match="one with block"), transaction:
        pass
    assert table.snapshot().version == 1


def _read_only(table: txlog.Table) -> txlog.WriteResult:
    with table.transaction(isolation="Serializable") as transaction:
        assert transaction.read("day = 'a'").num_rows == 2
    return transaction.result


def _empty(table: txlog.Table) -> txlog.WriteResult:
    with table.transaction() as transaction:
        pass
    return transaction.result


@pytest.mark.parametrize("act", [_read_only, _empty, lambda table: table.add_files([])])
def test_a_transaction_that_changes_nothing_makes_no_version(
    make_table: Callable[..., txlog.Table], rows: pa.Table, act: Callable[[txlog.Table], txlog.WriteResult]
) -> None:
    table = make_table(rows, partition_by=["day"])
    result = act(table)
    assert (result.version, result.outcome, result.attempts, result.metrics.files) == (0, "committed", 0, 0)
    assert len(table.history()) == 1


def test_a_transaction_that_only_records_an_application_is_a_version(table: txlog.Table) -> None:
    with table.transaction() as transaction:
        transaction.set_transaction("app", 7)
    assert transaction.result.version == 1
    assert table.snapshot().transactions == {"app": 7}


def test_a_block_that_raises_leaves_neither_version_nor_file(table: txlog.Table) -> None:
    def interrupted() -> None:
        with table.transaction() as transaction:
            transaction.append(ROWS)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (table.snapshot().version, data_files(table)) == (0, 1)


def test_a_transaction_that_is_refused_leaves_no_file(table: txlog.Table) -> None:
    def refused() -> None:
        with table.transaction() as transaction:
            transaction.append(ROWS)
            transaction.set_transaction("app", 1)
            transaction.set_transaction("app", 1)

    with pytest.raises(InvalidInputError, match="twice"):
        refused()
    assert data_files(table) == 1


def test_an_append_only_table_refuses_an_overwrite_before_a_row_is_written(table: txlog.Table) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield ROWS.to_batches()[0]  # the first one defines the columns
        pytest.fail("rows were asked for")

    table.set_properties({"delta.appendOnly": "true"})
    with pytest.raises(InvalidInputError, match=r"append-only.*unset_properties\(\[\"delta.appendOnly\"\]\)"):
        table.overwrite(batches())
    assert data_files(table) == 1


def test_an_overwrite_that_landed_before_the_table_became_append_only_is_a_replay(table: txlog.Table) -> None:
    table.overwrite(ROWS, app_id="app", checkpoint_id=4)
    table.set_properties({"delta.appendOnly": "true"})
    assert table.overwrite(ROWS, app_id="app", checkpoint_id=4).outcome == "already_committed"
    with pytest.raises(InvalidInputError, match="append-only"):
        table.overwrite(ROWS, app_id="app", checkpoint_id=5)


@pytest.mark.parametrize(
    "arguments",
    [
        {"user_metadata": {"job": 1}},
        {"user_metadata": "\ud800"},
        {"app_id": "\ud800", "checkpoint_id": 1},
        {"app_id": "app", "checkpoint_id": 1, "fingerprint": 17},
        {"target_file_size": "1 GB"},
    ],
    ids=str,
)
def test_an_argument_of_the_wrong_type_is_refused_before_a_row_is_written(
    table: txlog.Table, arguments: dict[str, object]
) -> None:
    with pytest.raises(InvalidInputError, match="expected a"):
        table.append(ROWS, **arguments)
    assert (table.snapshot().version, data_files(table)) == (0, 1)


def test_a_transaction_refuses_user_metadata_that_is_not_a_string(table: txlog.Table) -> None:
    with pytest.raises(InvalidInputError, match="user_metadata"), table.transaction(user_metadata=5) as transaction:  # type: ignore[arg-type]
        transaction.append(ROWS)
    assert data_files(table) == 1


@pytest.mark.parametrize("properties", [{"k": b"bytes"}, {1: "x"}, [("a", "b")], None], ids=repr)
def test_properties_that_are_not_strings_are_refused(table: txlog.Table, properties: object) -> None:
    with pytest.raises(InvalidInputError):
        table.set_properties(properties)  # type: ignore[arg-type]
