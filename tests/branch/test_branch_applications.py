"""Batches of applications land once, whether they are repeated on the table, on the branch or on another branch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from txlog import Table
from txlog.errors import ChecksFailedError, ConflictError


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(uri: str) -> list[int]:
    return sorted(filter(None, Table.open(uri).to_arrow()["id"].to_pylist()))


def put(table: Table, batch: int, app_id: str = "job") -> str:
    return table.append(rows_of(batch), app_id=app_id, checkpoint_id=batch).outcome


@pytest.fixture(params=[1, 301], ids=["few files", "a checkpoint"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    table = Table.create(tmp_path / "t", rows_of().schema)
    put(table, 1)
    with table.transaction() as txn:
        for _ in range(request.param - 1):
            txn.append(rows_of(0))
    return table


def test_a_published_batch_is_dropped_on_the_table_and_on_every_later_branch(table: Table) -> None:
    branch = table.branch("a")
    assert (put(branch, 1), put(branch, 2), put(branch, 2)) == ("already_committed", "committed", "already_committed")
    branch.publish()
    assert put(Table.open(table.uri), 2) == "already_committed"
    assert put(Table.open(table.uri).branch("b"), 2) == "already_committed"
    assert put(Table.open(table.uri), 3) == "committed"
    assert put(Table.open(table.uri).branch("a"), 3) == "already_committed"
    assert ids(table.uri) == [1, 2, 3]


def test_a_batch_in_an_audit_that_is_repeated_lands_once(table: Table) -> None:
    for _ in range(3):
        with table.audit(["id > 0"]) as staged:
            put(staged, 2)
    assert ids(table.uri) == [1, 2]


@pytest.mark.parametrize("name", ["daily", None])
def test_a_batch_that_was_discarded_lands_when_it_is_repeated(table: Table, name: str | None) -> None:
    with pytest.raises(ChecksFailedError), table.audit(["id > 5"], name=name) as staged:
        put(staged, 2)
    with table.audit(["id > 0"], name=name) as staged:
        assert put(staged, 2) == "committed"
    assert ids(table.uri) == [1, 2]


@pytest.mark.parametrize("way", ["publish", "rebase"])
def test_batches_of_one_application_on_both_sides_are_a_conflict(table: Table, way: str) -> None:
    branch = table.branch("a")
    put(branch, 2)
    put(table, 2)
    with pytest.raises(ConflictError, match=r"batch 2 of the application 'job', .*discard the branch"):
        getattr(branch, way)()
    assert ids(table.uri) == [1, 2]


def test_a_rebase_keeps_the_branchs_batches_and_takes_over_the_tables(table: Table) -> None:
    branch = table.branch("a")
    put(branch, 2)
    put(table, 7, "other")
    branch.rebase()
    assert (put(branch, 2), put(branch, 7, "other")) == ("already_committed", "already_committed")
    assert ids(branch.uri) == [1, 2, 7]
    table.append(rows_of(9))
    branch.rebase()
    put(table, 3)
    with pytest.raises(ConflictError, match="'job'"):
        branch.publish()


def test_a_kept_branch_goes_on_with_an_application_that_it_published(table: Table) -> None:
    branch = table.branch("a")
    for batch in (2, 3):
        put(branch, batch)
        branch.publish(keep=True)
        assert put(Table.open(table.uri), batch) == "already_committed"
    branch.rebase()
    put(branch, 4)
    branch.rebase()
    branch.publish()
    assert put(Table.open(table.uri), 4) == "already_committed"
    assert ids(table.uri) == [1, 2, 3, 4]


def test_a_batch_without_rows_is_published_too(table: Table) -> None:
    branch = table.branch("a")
    branch.append(rows_of(), app_id="job", checkpoint_id=2)
    branch.publish()
    assert put(Table.open(table.uri), 2) == "already_committed"
