"""Changes of the definition as operations of a transaction: one version with the rows that are written after them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import txlog
from tests.losing_writer import losing_to
from txlog.audit.verify import verify_table
from txlog.errors import ConcurrentAppendError, InvalidInputError, MetadataChangedError
from txlog.table import Table
from txlog.table_transaction import Transaction

ROWS = pa.table({"id": pa.array([1, 2], pa.int32()), "v": [10, 20], "day": ["mon", "tue"]})


def made(path: Path, **properties: str) -> Table:
    given = {"delta.enableTypeWidening": "true", **properties}
    table = Table.create(path / "t", ROWS.schema, properties=given, column_mapping="name")
    table.append(ROWS)
    return table


def rows_of(table: Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in Table.open(table.uri).to_arrow().to_pylist()), key=repr)


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_rows_that_are_written_after_changes_of_columns_have_the_new_columns(tmp_path: Path, vectors: str) -> None:
    table = made(tmp_path, **{"delta.enableDeletionVectors": vectors})
    with table.transaction() as txn:
        txn.set_properties({"owner": "us"})
        txn.rename_column("id", "key")
        txn.alter_column("key", type="bigint", comment="the key")
        txn.drop_columns("day")
        txn.add_columns("note string")
        assert txn.read("id = 1").to_pylist() == [{"id": 1, "v": 10, "day": "mon"}], "the snapshot is as it was"
        txn.append(pa.table({"key": [2**40], "v": [30], "note": ["new"]}))
        txn.upsert(pa.table({"key": [2], "v": [21], "note": ["more"]}), ["key"])
        txn.update({"v": txlog.expr("v + 1")}, "key < 2 or note = 'new'")
        txn.delete("v = 11")
        txn.overwrite(pa.table({"key": [2**40], "v": [99], "note": ["over"]}), where=f"key = {2**40}")
    assert txn.result.version == 2
    assert rows_of(table) == [(2**40, 99, "over"), (2, 21, "more")]
    assert table.snapshot().properties["owner"] == "us"
    theirs = deltalake.DeltaTable(table.uri).history(1)[0]
    assert [each["operation"] for each in json.loads(theirs["operationParameters"]["changes"])] == [
        "SET TBLPROPERTIES",
        "RENAME COLUMN",
        "CHANGE COLUMN",
        "DROP COLUMNS",
        "ADD COLUMNS",
    ]
    assert verify_table(table._open_table.store).is_sound


def test_one_change_alone_is_in_the_history_as_itself_and_several_are_listed(tmp_path: Path) -> None:
    table = made(tmp_path)
    with table.transaction() as txn:
        txn.rename_column("id", "key")
    entry = table.history(1)[0]
    assert (entry["operation"], entry["operationParameters"]["newColumnPath"]) == ("RENAME COLUMN", "key")
    with table.transaction() as txn:
        txn.rename_column("key", "a")
        txn.rename_column("v", "b")
        txn.alter_column("a", comment="x")
        txn.set_description("all orders")
    assert table.history(1)[0]["operation"] == "ALTER TABLE"
    assert table.schema.names == ["a", "b", "day"]


def test_names_may_be_exchanged_in_one_version(tmp_path: Path) -> None:
    table = made(tmp_path)
    with table.transaction() as txn:
        txn.alter_column("id", type="bigint")
        txn.rename_column("id", "x")
        txn.rename_column("v", "id")
        txn.rename_column("x", "v")
    assert table.to_arrow(["id", "v"]).to_pylist() == [{"id": 10, "v": 1}, {"id": 20, "v": 2}]


def test_the_definition_is_changed_before_rows_are_written(tmp_path: Path) -> None:
    table = made(tmp_path)

    def write_first() -> None:
        with table.transaction() as txn:
            txn.append(ROWS)
            txn.rename_column("id", "key")

    with pytest.raises(InvalidInputError, match="before it writes or removes rows"):
        write_first()
    assert table.version == 1
    assert len(list(Path(table.uri).rglob("*.parquet"))) == 1, "the aborted transaction deletes what it wrote"


def test_a_new_not_null_is_checked_and_counts_as_a_read_of_the_table(tmp_path: Path) -> None:
    table = made(tmp_path)
    with table.transaction(isolation="Serializable") as txn:
        txn.alter_column("id", nullable=False)
    ours = losing_to(table, lambda other: other.append(ROWS))
    with pytest.raises(ConcurrentAppendError), ours.transaction(isolation="Serializable") as txn:
        txn.alter_column("v", nullable=False)
    table.append(pa.table({"id": pa.array([3], pa.int32())}))
    with pytest.raises(InvalidInputError, match="NOT NULL of column v"), table.transaction() as txn:
        txn.alter_column("v", nullable=False)


def _read_then_rename(txn: Transaction) -> None:
    txn.read("v = 10")
    txn.rename_column("v", "w")


def _rename_then_delete(txn: Transaction) -> None:
    txn.rename_column("v", "w")
    txn.delete("w = 10")


@pytest.mark.parametrize("work", [_read_then_rename, _rename_then_delete])
def test_reads_in_a_transaction_that_renames_a_column_count_for_the_whole_table(
    tmp_path: Path, work: Callable[[Transaction], None]
) -> None:
    table = made(tmp_path)
    with (
        pytest.raises(ConcurrentAppendError),
        losing_to(table, lambda other: other.append(ROWS)).transaction(isolation="Serializable") as txn,
    ):
        work(txn)
    assert table.schema.names == ["id", "v", "day"]


def test_a_change_in_a_transaction_conflicts_with_one_of_another_writer(tmp_path: Path) -> None:
    table = made(tmp_path)
    ours = losing_to(table, lambda other: other.rename_column("day", "weekday"))

    def rename_and_append() -> None:
        with ours.transaction() as txn:
            txn.rename_column("id", "key")
            txn.append(pa.table({"key": pa.array([5], pa.int32())}))

    with pytest.raises(MetadataChangedError):
        rename_and_append()
    assert table.count() == 2


def test_an_upgrade_of_the_protocol_in_a_transaction_is_said_too(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", ROWS.schema)
    with table.transaction() as txn:
        txn.set_properties({"delta.columnMapping.mode": "name"})
        txn.rename_column("id", "key")
        txn.append(pa.table({"key": pa.array([5], pa.int32())}))
    assert "Readers need columnMapping" in txn.result.notes[0]
    assert txlog.Table.open(table.uri).to_arrow(["key"])["key"].to_pylist() == [5]
