"""Appends and overwrites, one after another: the versions that they make and the rows that they leave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from small_table import SCHEMA, ids_of, log_of, rows_of

import txlog
from txlog.table import Table


def test_each_append_is_one_version_that_carries_its_metadata(table: Table, tmp_path: Path) -> None:
    first = table.append(rows_of(1), user_metadata="from the test")
    second = table.append(rows_of(2))
    assert (first.version, second.version) == (1, 2)
    assert first.txn_id != second.txn_id
    reported = {entry["version"]: entry for entry in table.history()}
    assert reported[1]["userMetadata"] == "from the test"
    assert reported[1]["txnId"] == first.txn_id
    assert reported[1]["operationMetrics"]["numOutputRows"] == "1"
    assert reported[1]["isBlindAppend"] is True
    assert "userMetadata" not in reported[2]
    assert str(first) == f"WriteResult(version=1, committed, 1 row, 1 file, {first.metrics.bytes} B, 1 attempt)"


def test_an_append_of_no_rows_makes_a_version_without_files(table: Table) -> None:
    result = table.append(rows_of())
    assert (result.version, result.metrics.rows, result.metrics.files) == (1, 0, 0)
    assert table.append(iter(())).version == 2
    assert ids_of(table) == []


@pytest.mark.parametrize("data", [rows_of(), [], iter(())], ids=["an empty table", "a list", "an iterator"])
def test_an_append_without_rows_is_a_version_in_the_history(make_table: Callable[..., Table], data: object) -> None:
    table = make_table(rows_of(1, 2, 3), partition_by=["day"])
    result = table.append(data, user_metadata="nothing came")
    assert (result.version, result.outcome, result.metrics.rows, result.metrics.files) == (1, "committed", 0, 0)
    entry = deltalake.DeltaTable(table.uri).history(1)[0]
    assert (entry["version"], entry["operation"], entry["userMetadata"]) == (1, "WRITE", "nothing came")
    deltalake.write_deltalake(table.uri, rows_of(), mode="append")
    assert table.snapshot().version == 2, "deltalake makes one too"
    assert table.snapshot().to_arrow().num_rows == 3


def test_an_overwrite_replaces_every_row_and_its_files_are_tombstones(table: Table, tmp_path: Path) -> None:
    table.append(rows_of(1))
    table.append(rows_of(2))
    result = table.overwrite(rows_of(3))
    assert (result.metrics.files_removed, ids_of(table), ids_of(table, version=2)) == (2, [3], [1, 2])
    removes = [line["remove"] for line in log_of(tmp_path / "t")[3] if "remove" in line]
    assert len(removes) == 2
    assert all(remove["dataChange"] and remove["extendedFileMetadata"] for remove in removes)


def test_an_overwrite_with_nothing_empties_the_table(table: Table) -> None:
    table.append(rows_of(1))
    table.overwrite(rows_of())
    assert ids_of(table) == []
    assert table.snapshot().num_files == 0


def test_an_overwrite_of_an_append_only_table_is_refused(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", SCHEMA, properties={"delta.appendOnly": "true"})
    table.append(rows_of(1))
    with pytest.raises(txlog.InvalidInputError, match=r"appendOnly"):
        table.overwrite(rows_of(2))
    assert ids_of(table) == [1]


def test_a_refusal_by_not_null_or_append_only_names_the_table(make_table: Callable[..., Table]) -> None:
    schema = pa.schema([("id", pa.int64()), pa.field("day", pa.string(), nullable=False)])
    table = make_table(schema=schema, partition_by=["day"])
    with pytest.raises(txlog.InvalidInputError, match="NOT NULL") as empty:
        table.append(pa.table({"id": [1], "day": [""]}))
    table.append(rows_of(1, 2, 3))
    table.set_properties({"delta.appendOnly": "true"})
    with pytest.raises(txlog.InvalidInputError, match=r"append-only") as removed:
        table.overwrite(rows_of(1, 2, 3))
    assert (empty.value.table, removed.value.table, removed.value.version) == (table.uri, table.uri, 2)


def test_a_transaction_removes_whole_partitions(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3], "day": ["a", "b", "b"]})
    txlog.write(tmp_path / "t", rows, partition_by=["day"])
    table, where = Table.open(tmp_path / "t"), "day = 'b'"
    with table.transaction() as txn:
        txn.remove_partitions(where)
    assert ids_of(table) == [1]
