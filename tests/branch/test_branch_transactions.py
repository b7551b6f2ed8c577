"""Transactions on branches: a publication is judged by what they read of the table, and by nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import txlog
from txlog import Table
from txlog.cli.app import app
from txlog.errors import ConcurrentAppendError, ConflictError

VECTORS = {"delta.enableDeletionVectors": "true"}
ways = pytest.mark.parametrize("properties", [{}, VECTORS], ids=["copies", "vectors"])


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def made(path: Path, properties: dict[str, str]) -> Table:
    """A table of two files, whose statistics tell their rows apart."""
    table = Table.create(path / "t", rows_of().schema, properties=properties)
    table.append(rows_of(1, 2, 3))
    table.append(rows_of(11, 12, 13))
    return table


def ids(table: Table) -> list[int]:
    return sorted(Table.open(table.uri).to_arrow()["id"].to_pylist())


def replace_row(branch: Table, old: int, new: int) -> None:
    with branch.transaction() as txn:
        txn.delete(f"id = {old}")
        txn.append(rows_of(new))


@ways
def test_transactions_that_touch_other_files_both_land_and_colliding_ones_are_refused(
    properties: dict[str, str], tmp_path: Path
) -> None:
    table = made(tmp_path, properties)
    first, second, colliding, late = (table.branch(name) for name in "abcd")
    replace_row(first, 2, 20)
    replace_row(second, 12, 30)
    replace_row(colliding, 12, 40)
    replace_row(late, 13, 50)
    first.publish()
    second.publish()
    assert ids(table) == [1, 3, 11, 13, 20, 30]
    with pytest.raises(ConflictError):
        colliding.publish()
    table.update({"id": txlog.lit(13)}, "id = 3")  # a row that the last transaction would have deleted
    with pytest.raises(ConflictError):
        late.publish()
    assert ids(table) == [1, 11, 13, 13, 20, 30]
    assert table.verify().is_sound


@ways
def test_rows_that_a_transaction_only_read_may_be_neither_added_nor_removed(
    properties: dict[str, str], tmp_path: Path
) -> None:
    table = made(tmp_path, properties)
    theirs: list[tuple[Callable[[], Any], bool]] = [
        (lambda: table.delete("id = 2"), True),
        (lambda: table.delete("id = 12"), False),
        (lambda: table.update({"id": txlog.lit(14)}, "id = 3"), False),
    ]
    for number, (change, lands) in enumerate(theirs):
        branch = table.branch(f"b{number}")
        with branch.transaction() as txn:
            total = sum(txn.read("id > 10")["id"].to_pylist())
            txn.append(rows_of(-total))
        change()
        if lands:
            branch.publish()
        else:
            for call in (branch.publish, branch.rebase):
                with pytest.raises(ConflictError):
                    call()
    assert ids(table) == [-36, 1, 11, 13, 14]


def test_each_of_several_deletes_counts(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", rows_of().schema)
    for number in (1, 2, 3):
        table.append(rows_of(number))
    branch = table.branch("b")
    with branch.transaction() as txn:
        txn.delete("id = 1")
        txn.delete("id = 2")
    table.update({"id": txlog.lit(2)}, "id = 3")
    with pytest.raises(ConcurrentAppendError):
        branch.publish()
    branch.rebase()  # does both again
    assert ids(branch) == []
    branch.publish()
    assert ids(table) == []


def test_a_serializable_transaction_reads_what_others_append_too(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    strict, usual = table.branch("strict"), table.branch("usual")
    with strict.transaction(isolation="Serializable") as txn:
        txn.delete("id = 12")
    with usual.transaction() as txn:
        txn.delete("id = 11")
    table.append(rows_of(11, 12))
    with pytest.raises(ConcurrentAppendError):
        strict.publish()
    usual.publish()
    assert ids(table) == [1, 2, 3, 11, 12, 12, 13]


@pytest.mark.parametrize("decides", [True, False], ids=["whose log decides", "that is prepared"])
def test_a_branch_in_a_transaction_of_several_tables_says_what_was_read_of_it(decides: bool, tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)

    def id_of(table: Table) -> str:
        return table._open_table.log.newest_state().metadata.id

    pairs = ((table.branch(f"b{at}"), Table.create(tmp_path / f"other{at}", rows_of().schema)) for at in range(100))
    branch, other = next(pair for pair in pairs if (id_of(pair[1]) < id_of(pair[0])) == decides)
    other.append(rows_of(5))
    with txlog.transaction([branch, other]) as txn:
        txn[branch].delete("id = 12")
        txn[branch].append(txn[other].read("id = 5"))
        txn[other].append(rows_of(6))
    table.delete("id = 2")
    branch.publish()
    assert ids(table) == [1, 3, 5, 11, 13]
    assert ids(other) == [5, 6]


def test_a_definition_and_its_first_rows_read_nothing(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    branch = table.branch("b")
    with branch.transaction() as txn:
        txn.add_columns("extra int")
        txn.append(pa.table({"id": [20], "extra": pa.array([1], pa.int32())}))
    table.delete("id = 2")
    branch.publish()
    assert ids(table) == [1, 3, 11, 12, 13, 20]


def test_rows_that_a_delete_only_copied_count_as_such(tmp_path: Path) -> None:
    table = made(tmp_path, {})
    branch = table.branch("b")
    branch.delete("id = 2")
    branch.append(rows_of(20))
    done = branch.publish().metrics
    assert (done.rows, done.rows_copied, done.files_removed) == (1, 2, 1)
    recorded = table.history(1)[0]["operationMetrics"]
    assert (recorded["numOutputRows"], recorded["numCopiedRows"]) == ("3", "2")
    table.branch("c").delete("id = 12")
    shown = CliRunner().invoke(app, ["publish", f"{table.uri}@c"]).output
    assert shown == "published as version 4: 2 rows copied\n"


def test_what_a_transaction_read_is_written_to_the_log_of_a_branch_alone(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    branch = table.branch("b")
    for each in (table, branch):
        replace_row(each, 2, 20)
    told = [each._open_table.log.read_commit(each.version).commit_info.fields["txlog"] for each in (table, branch)]
    assert [each.get("reads") for each in told] == [None, [{"where": "id = 2", "rows": "deleted"}]]
