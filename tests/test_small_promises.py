"""What is promised of the corners: nothing to commit, no columns to read, times, and applications at a glance."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "day": ["a", "b", "a"]})


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    txlog.write(str(tmp_path / "t"), ROWS, partition_by=["day"])
    return txlog.Table.open(str(tmp_path / "t"))


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
    table: txlog.Table, act: Callable[[txlog.Table], txlog.WriteResult]
) -> None:
    result = act(table)
    assert (result.version, result.outcome, result.attempts, result.metrics.files) == (0, "committed", 0, 0)
    assert len(table.history()) == 1


def test_a_transaction_that_only_records_an_application_is_a_version(table: txlog.Table) -> None:
    with table.transaction() as transaction:
        transaction.set_transaction("app", 7)
    assert transaction.result.version == 1
    assert table.snapshot().transactions == {"app": 7}


def test_add_files_counts_the_rows_that_the_footers_tell(table: txlog.Table) -> None:
    directory = Path(table.uri) / "day=z"
    directory.mkdir()
    for number, rows in enumerate((5, 11)):
        pq.write_table(pa.table({"id": list(range(rows))}), directory / f"{number}.parquet")
    result = table.add_files(["day=z/0.parquet", "day=z/1.parquet"])
    assert (result.metrics.rows, result.metrics.files) == (16, 2)
    assert table.history()[0]["operationMetrics"]["numOutputRows"] == "16"
    assert table.snapshot().to_arrow().num_rows == 19


@pytest.mark.parametrize(("where", "rows"), [(None, 3), ("id > 1", 2), ("day = 'a'", 2), ("id > 9", 0)])
def test_rows_without_columns_are_still_rows(table: txlog.Table, where: str | None, rows: int) -> None:
    found = table.snapshot().to_arrow(columns=[], where=where)
    assert (found.num_rows, found.num_columns) == (rows, 0)
    assert sum(batch.num_rows for batch in table.snapshot().to_batches(columns=[], where=where)) == rows


def test_a_snapshots_time_is_that_of_history_and_of_time_travel_also_where_files_were_copied(
    table: txlog.Table,
) -> None:
    table.append(ROWS)
    table.append(ROWS)
    for version, second in enumerate((1_700_000_300, 1_700_000_100, 1_700_000_200)):
        os.utime(Path(table.uri) / "_delta_log" / f"{version:020d}.json", (second, second))
    times = [table.snapshot(version).timestamp_ms for version in range(3)]
    assert times == [1_700_000_300_000, 1_700_000_300_001, 1_700_000_300_002]
    assert times == [entry["timestamp"] for entry in reversed(table.history())]


@pytest.mark.parametrize("data", [ROWS.slice(0, 0), [], iter(())], ids=["an empty table", "a list", "an iterator"])
def test_an_append_without_rows_is_a_version_that_history_tells_of(table: txlog.Table, data: object) -> None:
    result = table.append(data, user_metadata="nothing came")
    assert (result.version, result.outcome, result.metrics.rows, result.metrics.files) == (1, "committed", 0, 0)
    entry = deltalake.DeltaTable(table.uri).history(1)[0]
    assert (entry["version"], entry["operation"], entry["userMetadata"]) == (1, "WRITE", "nothing came")
    deltalake.write_deltalake(table.uri, ROWS.slice(0, 0), mode="append")
    assert table.snapshot().version == 2, "deltalake makes one too"
    assert table.snapshot().to_arrow().num_rows == 3


def _cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize(("harm", "kind"), [(Path.unlink, "NotFoundError"), (_cut_short, "CorruptLogError")])
def test_a_data_file_that_is_gone_or_damaged_is_taken_out_as_its_error_says(
    table: txlog.Table, harm: Callable[[Path], None], kind: str
) -> None:
    [path] = table.snapshot().files("day = 'a'")["path"].to_pylist()
    lost = table.snapshot().to_arrow(where="day = 'a'")
    harm(Path(table.uri) / path)
    with pytest.raises(txlog.TxlogError, match=r"by txn\.remove\(path\) in a table\.transaction\(\)") as caught:
        table.snapshot().to_arrow()
    assert (caught.value.kind, caught.value.path) == (kind, path)
    with table.transaction() as txn:
        txn.remove(path)
        txn.append(lost)
    assert sorted(table.snapshot().to_arrow()["id"].to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize("name", txlog.__all__)
def test_every_public_name_explains_itself_and_so_does_each_of_its_methods(name: str) -> None:
    public = getattr(txlog, name)
    assert inspect.getdoc(public)
    members = inspect.getmembers(public, lambda member: inspect.isroutine(member) or isinstance(member, property))
    silent = [member for member, value in members if not member.startswith("_") and not inspect.getdoc(value)]
    assert not [member for member in silent if not hasattr(Exception, member)]


def test_what_the_rules_of_a_commit_or_a_partition_refuse_names_the_table(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), pa.field("day", pa.string(), nullable=False)])
    table = txlog.Table.create(tmp_path / "t", schema, partition_by=["day"])
    with pytest.raises(txlog.InvalidInputError, match="NOT NULL") as empty:
        table.append(pa.table({"id": [1], "day": [""]}))
    table.append(ROWS)
    table.set_properties({"delta.appendOnly": "true"})
    with pytest.raises(txlog.InvalidInputError, match=r"append-only") as removed:
        table.overwrite(ROWS)
    assert (empty.value.table, removed.value.table, removed.value.version) == (table.uri, table.uri, 2)
