"""The ``with table.transaction()`` block: what it takes, when, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import txlog
from txlog.errors import InvalidInputError

ROWS = pa.table({"id": pa.array([1], pa.int64())})


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    txlog.write(str(tmp_path / "table"), ROWS)
    return txlog.Table.open(str(tmp_path / "table"))


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
        yield ROWS.to_batches()[0]  # the first tells the columns
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
    "wishes",
    [
        {"user_metadata": {"job": 1}},
        {"user_metadata": "\ud800"},
        {"app_id": "\ud800", "checkpoint_id": 1},
        {"app_id": "app", "checkpoint_id": 1, "fingerprint": 17},
        {"target_file_size": "1 GB"},
    ],
    ids=str,
)
def test_a_wish_that_is_no_text_or_number_is_refused_before_a_row_is_written(
    table: txlog.Table, wishes: dict[str, object]
) -> None:
    with pytest.raises(InvalidInputError, match="must be"):
        table.append(ROWS, **wishes)
    assert (table.snapshot().version, data_files(table)) == (0, 1)


def test_a_transaction_refuses_user_metadata_that_is_no_text(table: txlog.Table) -> None:
    with pytest.raises(InvalidInputError, match="user_metadata"), table.transaction(user_metadata=5) as transaction:  # type: ignore[arg-type]
        transaction.append(ROWS)
    assert data_files(table) == 1


@pytest.mark.parametrize("properties", [{"k": b"bytes"}, {1: "x"}, [("a", "b")], None], ids=repr)
def test_properties_that_are_no_texts_are_refused(table: txlog.Table, properties: object) -> None:
    with pytest.raises(InvalidInputError):
        table.set_properties(properties)  # type: ignore[arg-type]
