"""``table.transaction()``: several reads and writes as one version, judged against what others commit meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

import txlog
from tests.writes import write_batch
from txlog.core.format.actions import AddFile
from txlog.core.format.file_columns import add_files_of
from txlog.core.operations import WriteOptions
from txlog.core.versions import OpenTable
from txlog.table import Table
from txlog.table_transaction import Transaction
from txlog.testing.memory_store import MemoryFileStore

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "day": ["mon" if i % 2 else "tue" for i in ids]}, schema=SCHEMA)


def ids_of(table: Table) -> list[int]:
    return sorted(table.snapshot().to_arrow().column("id").to_pylist())


def path_of(table: Table, where: str) -> str:
    (path,) = table.snapshot().files(where).column("path").to_pylist()
    return str(path)


def end(transaction: Transaction) -> None:
    """Leave the block of a transaction that was entered by hand."""
    transaction.__exit__(None, None, None)


def actions_of(table: Table, version: int) -> list[str]:
    lines = (Path(table.uri) / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    return [next(iter(json.loads(line))) for line in lines]


@pytest.fixture
def table(make_table: Callable[..., Table]) -> Table:
    """Odd ids on Monday, even ones on Tuesday, a file each: 1 and 3, 2."""
    return make_table(rows_of(1, 2, 3), partition_by=["day"])


@pytest.fixture
def rival(table: Table) -> Table:
    """Another handle on the same table, for what happens meanwhile."""
    return Table.open(table.uri)


# --- one version ------------------------------------------------------------------------------------------------------


def test_several_writes_and_a_removal_are_one_version(table: Table) -> None:
    with table.transaction(operation="UPDATE", user_metadata="by hand") as transaction:
        kept = transaction.read(where="day = 'mon' and id != 1")
        transaction.remove(path_of(table, "day = 'mon'"))
        transaction.append(kept)
        transaction.append(rows_of(10, 12))
        assert ids_of(table) == [1, 2, 3], "no reader sees it before its end"
    result = transaction.result
    assert (result.version, result.outcome) == (1, "committed")
    assert (result.metrics.rows, result.metrics.files, result.metrics.files_removed) == (3, 2, 1)
    assert ids_of(table) == [2, 3, 10, 12]
    assert actions_of(table, 1) == ["commitInfo", "remove", "add", "add"]
    reported = table.history(1)[0]
    assert (reported["operation"], reported["userMetadata"], reported["isBlindAppend"]) == ("UPDATE", "by hand", False)
    assert sorted(deltalake.DeltaTable(table.uri).to_pyarrow_table()["id"].to_pylist()) == [2, 3, 10, 12]


def test_history_shows_whether_a_transaction_only_appended(table: Table) -> None:
    for removed, mode in (((), "Append"), ((path_of(table, "day = 'mon'"),), "Overwrite")):
        with table.transaction() as transaction:
            transaction.remove(*removed)
            transaction.append(rows_of(10))
        assert table.history(1)[0]["operationParameters"] == {"mode": mode}


def test_a_transaction_reads_the_version_that_it_began_on(table: Table, rival: Table) -> None:
    with table.transaction() as transaction:
        rival.append(rows_of(5))
        assert transaction.snapshot.version == 0
        assert sorted(transaction.read(where="day = 'mon'").column("id").to_pylist()) == [1, 3]
        transaction.append(rows_of(7))
    assert transaction.result.version == 2
    assert ids_of(table) == [1, 2, 3, 5, 7]


def test_a_transaction_that_only_appends_is_a_blind_append(table: Table, rival: Table) -> None:
    with table.transaction(isolation="Serializable") as transaction:
        transaction.append(rows_of(5))
        rival.overwrite(rows_of(9))
    assert transaction.result.version == 2
    assert ids_of(table) == [5, 9]
    assert table.history(1)[0]["isBlindAppend"] is True


def test_the_result_of_a_transaction_is_available_only_after_its_commit(table: Table) -> None:
    transaction = table.transaction()
    with pytest.raises(txlog.InvalidInputError, match="has not committed"):
        _ = transaction.result
    with transaction:
        transaction.append(rows_of(5))
    assert transaction.result.version == 1


def test_rows_that_do_not_fit_the_schema_end_a_transaction_without_a_version(table: Table) -> None:
    with pytest.raises(txlog.SchemaMismatchError), table.transaction() as transaction:
        transaction.append(pa.table({"id": ["x"]}))
    assert table.snapshot().version == 0


# --- against others ---------------------------------------------------------------------------------------------------

Change = Callable[[Table], Any]


def appends_monday(rival: Table) -> None:
    rival.append(rows_of(5))


def removes_monday(rival: Table) -> None:
    with rival.transaction() as transaction:
        transaction.remove(path_of(rival, "day = 'mon'"))


def rewrites_monday(rival: Table) -> None:
    with rival.transaction() as transaction:
        transaction.remove(path_of(rival, "day = 'mon'"))
        transaction.append(rows_of(1, 3))


def compacts_monday(rival: Table) -> None:
    with rival.transaction(data_change=False, isolation="SnapshotIsolation", operation="OPTIMIZE") as transaction:
        kept = transaction.read(where="day = 'mon'")
        transaction.remove(path_of(rival, "day = 'mon'"))
        transaction.append(kept)


def sets_a_property(rival: Table) -> None:
    rival.set_properties({"team": "x"})


def reads_monday(transaction: Transaction) -> None:
    transaction.read(where="day = 'mon'")


def reads_tuesday(transaction: Transaction) -> None:
    transaction.read(where="day = 'tue'")


def reads_all(transaction: Transaction) -> None:
    transaction.read()


def reads_nothing(transaction: Transaction) -> None:
    pass


@pytest.mark.parametrize(
    ("isolation", "reads", "change", "conflict"),
    [
        ("Serializable", reads_monday, appends_monday, txlog.ConcurrentAppendError),
        ("Serializable", reads_all, appends_monday, txlog.ConcurrentAppendError),
        ("Serializable", reads_tuesday, appends_monday, None),
        ("Serializable", reads_nothing, appends_monday, None),
        ("WriteSerializable", reads_monday, appends_monday, None),
        ("WriteSerializable", reads_all, appends_monday, None),
        ("WriteSerializable", reads_monday, rewrites_monday, txlog.ConflictError),
        ("WriteSerializable", reads_monday, removes_monday, txlog.ConcurrentDeleteReadError),
        ("WriteSerializable", reads_all, removes_monday, txlog.ConcurrentDeleteReadError),
        ("WriteSerializable", reads_tuesday, removes_monday, None),
        ("WriteSerializable", reads_nothing, removes_monday, None),
        ("WriteSerializable", reads_nothing, compacts_monday, None),
        ("WriteSerializable", reads_tuesday, compacts_monday, None),
        ("WriteSerializable", reads_nothing, sets_a_property, txlog.MetadataChangedError),
    ],
)
def test_what_others_commit_meanwhile_conflicts_with_what_was_read(
    isolation: str,
    reads: Callable[[Transaction], None],
    change: Change,
    conflict: type[Exception] | None,
    table: Table,
    rival: Table,
) -> None:
    transaction = table.transaction(isolation=isolation)
    transaction.__enter__()
    reads(transaction)
    transaction.append(rows_of(100))
    change(rival)
    before = ids_of(rival)
    if conflict is None:
        end(transaction)
        assert transaction.result.version == 2
        assert ids_of(table) == sorted([*before, 100])
        return
    with pytest.raises(conflict) as caught:
        end(transaction)
    assert isinstance(caught.value, txlog.ConflictError)
    assert caught.value.winner_version == 1
    assert str(caught.value).startswith(table.uri)
    assert ids_of(rival) == before


def test_two_transactions_that_remove_one_file_do_not_both_succeed(table: Table, rival: Table) -> None:
    transaction = table.transaction()
    transaction.__enter__()
    transaction.remove(path_of(table, "day = 'mon'"))
    removes_monday(rival)
    with pytest.raises(txlog.ConflictError) as caught:
        end(transaction)
    rules = {reason.rule for reason in caught.value.reasons}
    assert "ConcurrentDeleteDeleteError" in rules
    assert ids_of(table) == [2]


def test_two_compactions_of_one_file_do_not_double_its_rows(table: Table, rival: Table) -> None:
    transaction = table.transaction(data_change=False, isolation="SnapshotIsolation", operation="OPTIMIZE")
    transaction.__enter__()
    kept = transaction.read(where="day = 'mon'")
    transaction.remove(path_of(table, "day = 'mon'"))
    transaction.append(kept)
    compacts_monday(rival)
    with pytest.raises(txlog.ConflictError):
        end(transaction)
    assert ids_of(table) == [1, 2, 3]


def test_the_tables_own_isolation_level_is_the_default(make_table: Callable[..., Table]) -> None:
    table = make_table(rows_of(1), properties={"delta.isolationLevel": "Serializable"})
    transaction = table.transaction()
    transaction.__enter__()
    transaction.read()
    transaction.append(rows_of(2))
    Table.open(table.uri).append(rows_of(3))
    with pytest.raises(txlog.ConcurrentAppendError):
        end(transaction)


@pytest.mark.parametrize("isolation", ["serializable", "ReadCommitted", "", 1])
def test_an_unknown_isolation_level_is_refused(isolation: Any, table: Table) -> None:
    with pytest.raises(txlog.InvalidInputError, match="WriteSerializable"):
        table.transaction(isolation=isolation)


# --- exactly once -----------------------------------------------------------------------------------------------------


def test_a_version_of_an_application_lands_once(table: Table) -> None:
    for expected in ("committed", "already_committed"):
        with table.transaction() as transaction:
            transaction.append(rows_of(5))
            transaction.set_transaction("app", 3)
        assert (transaction.result.outcome, transaction.result.version) == (expected, 1)
    assert ids_of(table) == [1, 2, 3, 5]
    assert table.snapshot().transaction_version("app") == 3


def test_a_twin_that_commits_first_makes_it_a_replay_that_wrote_nothing(table: Table, rival: Table) -> None:
    with table.transaction() as transaction:
        transaction.append(rows_of(5))
        transaction.set_transaction("app", 3)
        rival.append(rows_of(5), app_id="app", checkpoint_id=3)
    assert (transaction.result.outcome, transaction.result.version) == ("already_committed", 1)
    assert transaction.result.metrics.rows == 0
    assert ids_of(table) == [1, 2, 3, 5]


def test_the_same_application_at_another_version_meanwhile_is_a_conflict(table: Table, rival: Table) -> None:
    transaction = table.transaction()
    transaction.__enter__()
    transaction.append(rows_of(5))
    transaction.set_transaction("app", 3)
    rival.append(rows_of(7), app_id="app", checkpoint_id=2)
    with pytest.raises(txlog.ConcurrentTransactionError):
        end(transaction)
    assert ids_of(table) == [1, 2, 3, 7]


def test_applications_of_which_one_committed_already_are_refused_together(table: Table) -> None:
    table.append(rows_of(5), app_id="a", checkpoint_id=1)
    transaction = table.transaction()
    transaction.__enter__()
    transaction.set_transaction("a", 1)
    transaction.set_transaction("b", 1)
    with pytest.raises(txlog.InvalidInputError, match="Commit them separately"):
        end(transaction)
    assert table.snapshot().version == 1


def consumed(table: Table, offsets: dict[str, int], *ids: int) -> Transaction:
    """What a consumer of several partitions commits: its rows, and each partition's offset."""
    transaction = table.transaction()
    transaction.__enter__()
    transaction.append(rows_of(*ids))
    for partition, offset in offsets.items():
        transaction.set_transaction(f"orders/{partition}", offset)
    return transaction


def test_the_offsets_of_many_partitions_land_with_their_rows_once(table: Table) -> None:
    first = {"0": 100, "1": 2**63 - 1, "2": 0}
    end(consumed(table, first, 5))
    again = consumed(table, first, 5)
    end(again)
    assert (again.result.outcome, again.result.version, again.result.metrics.rows) == ("already_committed", 1, 0)
    end(consumed(table, {"0": 120, "2": 7}, 6))
    older = consumed(table, {"0": 100, "2": 0}, 5)
    end(older)
    assert older.result.outcome == "already_committed"
    assert ids_of(table) == [1, 2, 3, 5, 6]
    transactions = deltalake.DeltaTable(table.uri)
    assert [transactions.transaction_version(f"orders/{partition}") for partition in "012"] == [120, 2**63 - 1, 7]


def test_a_mix_of_stale_and_new_offsets_names_each_partition(table: Table) -> None:
    end(consumed(table, {"0": 100, "1": 10, "2": 50}, 5))
    end(consumed(table, {"2": 60}, 6))
    mixed = consumed(table, {"0": 100, "1": 11, "2": 55, "3": 1}, 7)
    with pytest.raises(txlog.InvalidInputError) as caught:
        end(mixed)
    for reported in (
        "100 of 'orders/0' is already in v1",
        "11 of 'orders/1' is new (the last one is 10)",
        "55 of 'orders/2' is behind 60, and no retained commit has it",
        "1 of 'orders/3' is the first",
    ):
        assert reported in str(caught.value)
    assert ids_of(table) == [1, 2, 3, 5, 6]
    assert table.snapshot().num_files == len(list(Path(table.uri).rglob("*.parquet")))


def test_offsets_that_others_committed_meanwhile_are_a_replay_or_named(table: Table, rival: Table) -> None:
    ours = consumed(table, {"0": 100, "1": 10}, 5)
    end(consumed(rival, {"0": 100, "1": 10, "2": 1}, 5))
    end(ours)
    assert ours.result.outcome == "already_committed"
    ours = consumed(table, {"0": 110, "1": 11}, 6)
    end(consumed(rival, {"0": 110}, 7))
    end(consumed(rival, {"1": 11}, 8))
    with pytest.raises(txlog.ConcurrentTransactionError) as caught:
        end(ours)
    assert all(name in str(caught.value) for name in ("orders/0", "orders/1"))
    again = consumed(table, {"0": 110, "1": 11}, 6)
    end(again)
    assert again.result.outcome == "already_committed"
    assert ids_of(table) == [1, 2, 3, 5, 7, 8]


# --- files by hand ----------------------------------------------------------------------------------------------------


def test_files_written_by_other_means_become_rows(table: Table) -> None:
    target = Path(table.uri) / "day=mon" / "by hand.parquet"
    pq.write_table(rows_of(11).drop(["day"]), target)
    add = AddFile(
        path="day=mon/by%20hand.parquet",
        partition_values={"day": "mon"},
        size=target.stat().st_size,
        modification_time=1,
        data_change=True,
    )
    with table.transaction() as transaction:
        transaction.add(add)
    assert ids_of(table) == [1, 2, 3, 11]
    assert sorted(deltalake.DeltaTable(table.uri).to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3, 11]


def test_a_file_written_by_other_means_is_on_disk_before_a_commit_names_it(
    open_handle: Callable[..., OpenTable], files: MemoryFileStore
) -> None:
    data = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1]}), data)
    body = data.getvalue().to_pybytes()
    open_table = open_handle()
    write_batch(open_table, pa.table({"id": [1]}), WriteOptions(create=True))
    files.objects["by-hand.parquet"] = (body, 1)
    with Table(open_table).transaction() as transaction:
        transaction.add(AddFile("by-hand.parquet", {}, len(body), 1, True))
        assert "by-hand.parquet" in files.durable


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"size": 1}, txlog.InvalidInputError),
        ({"path": "day=mon/nowhere.parquet"}, txlog.NotFoundError),
        ({"path": "s3://elsewhere/x.parquet"}, txlog.InvalidInputError),
        ({"path": "../x.parquet"}, txlog.TxlogError),
        ({"partition_values": {}}, txlog.InvalidInputError),
        ({"stats": "{"}, txlog.InvalidInputError),
        ({"stats": "[1]"}, txlog.InvalidInputError),
    ],
)
def test_a_file_that_contradicts_its_action_is_refused(
    change: dict[str, Any], error: type[Exception], table: Table
) -> None:
    (live, *_) = add_files_of(table.snapshot().files("day = 'tue'"))
    target = Path(table.uri) / "day=tue" / "copy.parquet"
    target.write_bytes((Path(table.uri) / live.path).read_bytes())
    wrong = replace(live, path="day=tue/copy.parquet")
    wrong = replace(wrong, **change)
    with pytest.raises(error), table.transaction() as transaction:
        transaction.add(wrong)
    assert table.snapshot().version == 0
    assert target.exists(), "a file it did not write is not its to delete"


def test_removing_what_is_not_there_is_refused(table: Table) -> None:
    with pytest.raises(txlog.NotFoundError) as caught, table.transaction() as transaction:
        transaction.remove("day=mon/nowhere.parquet")
    assert (caught.value.path, caught.value.table) == ("day=mon/nowhere.parquet", table.uri)
    assert table.snapshot().version == 0


def test_a_file_that_the_transaction_itself_removed_or_wrote_again_is_not_there_to_remove(table: Table) -> None:
    monday = path_of(table, "day = 'mon'")

    def removes_it_again(first: Callable[[Transaction], object]) -> None:
        with table.transaction() as transaction:
            first(transaction)
            transaction.remove(monday)

    for first in (lambda txn: txn.delete("id = 1"), lambda txn: txn.remove(monday)):
        with pytest.raises(txlog.NotFoundError, match="an earlier operation of this transaction") as caught:
            removes_it_again(first)
        assert (caught.value.path, caught.value.table) == (monday, table.uri)
        assert (table.version, ids_of(table)) == (0, [1, 2, 3])


def test_a_file_whose_rows_the_transaction_marked_is_removed_and_no_row_counts_twice(table: Table) -> None:
    table.set_properties({"delta.enableDeletionVectors": "true"})
    monday = path_of(table, "day = 'mon'")
    with table.transaction() as transaction:
        transaction.delete("id = 1")
        transaction.remove(monday, monday)
    assert ids_of(table) == [2]
    assert transaction.result.metrics.rows_deleted == 2
    assert (transaction.result.metrics.files, transaction.result.metrics.files_removed) == (0, 1)


def test_an_append_only_table_takes_no_removals_but_of_compactions(table: Table) -> None:
    table.set_properties({"delta.appendOnly": "true"})
    with pytest.raises(txlog.InvalidInputError, match="appendOnly"), table.transaction() as transaction:
        transaction.remove(path_of(table, "day = 'mon'"))
    compacts_monday(table)
    assert ids_of(table) == [1, 2, 3]


def test_the_repr_of_a_transaction_shows_its_state(table: Table) -> None:
    transaction = table.transaction()
    seen = f"Transaction({table.uri}, on version 0, "
    assert repr(transaction) == f"{seen}0 files added, 0 removed, not begun)"
    with transaction:
        transaction.append(rows_of(5))
        transaction.remove(path_of(table, "day = 'tue'"))
        assert repr(transaction) == f"{seen}1 files added, 1 removed, open)"
    assert repr(transaction) == f"{seen}1 files added, 1 removed, {transaction.result})"
    with pytest.raises(KeyError), table.transaction() as failing:
        raise KeyError
    assert "0 removed, ended without a commit)" in repr(failing)
