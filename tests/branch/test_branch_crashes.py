"""Branches where processes die and answers get lost, at every call of the logs of the table and of the branch."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from tests.test_together import in_doubt
from txlog import Table
from txlog.core.store import open_store
from txlog.core.versions import OpenTable, open_table_of
from txlog.errors import TableExistsError, TxlogError
from txlog.testing.faults import Crashed, Fault, StoreCall, faulty_table_store

KINDS = ("crash_after",)
ALL_KINDS = ("crash_before", "crash_after", "fail_before", "fail_after", "late")


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(table: Table) -> list[int]:
    return sorted(Table.open(table.uri).to_arrow()["id"].to_pylist())


class Process:
    """A process whose ``number``-th call of a log, of any table, has a fault."""

    def __init__(self, kind: str, number: int) -> None:
        self._fault = Fault(kind)
        self._number = number
        self._count = 0
        self.has_met = False

    def decide(self, call: StoreCall) -> Fault | None:
        self._count += 1
        if self._count != self._number or not self._fault.is_of(call.operation):
            return None
        self.has_met = True
        return self._fault

    @property
    def is_over(self) -> bool:
        """Whether it made fewer calls."""
        return self._count < self._number

    def opened(self, uri: str) -> OpenTable:
        return OpenTable(faulty_table_store(open_store(uri), self.decide))

    def run(self, uri: str, work: Callable[[Table], Any], patch: pytest.MonkeyPatch) -> None:
        with patch.context() as inside:
            inside.setattr(OpenTable, "beside", lambda _, place: self.opened(place))
            with contextlib.suppress(Crashed, TxlogError):
                work(Table(self.opened(uri)))


def processes(kinds: tuple[str, ...]) -> Iterator[Process]:
    for kind in kinds:
        for number in itertools.count(1):
            process = Process(kind, number)
            yield process
            if process.is_over:
                break


def branched(folder: Path) -> tuple[Table, Table]:
    table = Table.create(folder / "t", rows_of().schema, properties={"delta.enableDeletionVectors": "true"})
    table.append(rows_of(1, 2, 3))
    branch = table.branch("b")
    branch.append(rows_of(4))
    branch.delete("id = 1")
    table.append(rows_of(9))
    return table, branch


def remade(table: Table) -> Table:
    """The branch that is made now, or the one that a dead process had begun, and that is finished now."""
    try:
        return table.branch("b")
    except TableExistsError:
        return Table.open(f"{table.uri}@b")


def publications(table: Table) -> int:
    return sum(each["operation"] == "PUBLISH BRANCH" for each in table.history())


def check_publications(kinds: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    count = 0
    for count, process in enumerate(processes(kinds), 1):
        table, branch = branched(tmp_path / str(count))
        process.run(branch.uri, lambda each: each.publish(), monkeypatch)
        assert ids(table) in ([1, 2, 3, 9], [2, 3, 4, 9])  # all of it, or nothing
        Table.open(branch.uri).publish()
        assert ids(table) == [2, 3, 4, 9]
        assert publications(Table.open(table.uri)) == 1
        assert [each.status for each in table.branches()] == ["published"]
        if process.has_met:
            assert table.verify().is_sound
    return count


def test_a_publication_that_dies_at_any_call_is_repeated_by_another_process_and_lands_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_publications(KINDS, tmp_path, monkeypatch) > 20


@pytest.mark.hunt(part="branches")
def test_a_publication_lands_once_after_every_kind_of_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_publications(ALL_KINDS, tmp_path, monkeypatch) > 50


@pytest.mark.hunt(part="branches")
@pytest.mark.parametrize(
    "properties",
    [{}, {"delta.columnMapping.mode": "name", "delta.enableRowTracking": "true"}],
    ids=["the same definition", "another definition"],
)
def test_a_rebase_that_dies_at_any_call_leaves_the_branch_whole(
    properties: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for count, process in enumerate(processes(ALL_KINDS), 1):
        table, branch = branched(tmp_path / str(count))
        if properties:
            table.set_properties(properties)
        process.run(branch.uri, lambda each: each.rebase(), monkeypatch)
        assert ids(branch) in ([2, 3, 4], [2, 3, 4, 9])
        again = Table.open(branch.uri)
        again.rebase()
        assert ids(branch) == [2, 3, 4, 9]
        assert not process.has_met or again.verify().is_sound
        again.publish()
        assert ids(table) == [2, 3, 4, 9]
        assert publications(Table.open(table.uri)) == 1
        assert not process.has_met or Table.open(table.uri).verify().is_sound


@pytest.mark.parametrize(
    ("most", "kinds"),
    [
        pytest.param(1_000, ALL_KINDS, id="its files are actions", marks=pytest.mark.hunt(part="branches")),
        pytest.param(0, ALL_KINDS, id="a checkpoint has its files", marks=pytest.mark.hunt(part="branches")),
        pytest.param(0, KINDS, id="a checkpoint has its files, and the process dies"),
    ],
)
def test_a_branch_that_is_made_or_discarded_by_a_process_that_dies_is_whole_or_not_there(
    most: int, kinds: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txlog.branch.creation.AS_ACTIONS_MAX", most)
    for count, process in enumerate(processes(kinds), 1):
        folder = tmp_path / str(count)
        columns = "n bigint generated always as identity, id bigint"
        table = Table.create(folder / "t", columns, properties={"delta.enableRowTracking": "true"})
        table.append(rows_of(1, 2))
        process.run(table.uri, lambda each: each.branch("b").discard(), monkeypatch)
        known = {each.name: each.status for each in table.branches()}
        assert known in ({}, {"b": "open"}, {"b": "discarded"})
        branch = remade(table) if known != {"b": "open"} else Table.open(f"{table.uri}@b")
        branch.append(rows_of(3))
        table.append(rows_of(4))
        branch.publish()
        found = Table.open(table.uri).to_arrow()
        assert sorted(found["id"].to_pylist()) == [1, 2, 3, 4]
        assert len(set(found["n"].to_pylist())) == 4
        assert table.verify().is_sound


@pytest.mark.parametrize("newer", [False, True])
def test_what_a_publication_took_that_landed_after_a_rebase_is_not_published_again(newer: bool, tmp_path: Path) -> None:
    """A row that the table has lost since would come back with its file."""
    from txlog.branch.branch_work import work_of
    from txlog.branch.publication import Publication

    table = Table.create(tmp_path / "t", rows_of().schema, properties={"delta.enableDeletionVectors": "true"})
    table.append(rows_of(1, 2, 3))
    branch = table.branch("b")
    branch.append(rows_of(4, 5))
    work = work_of(open_table_of(Table.open(branch.uri)))
    slow = work.table.unsent_files()
    plan = Publication(work, slow)
    plan.execute(work.newest)
    if newer:
        branch.append(rows_of(6))
    table.append(rows_of(9))
    branch.rebase()
    assert work.table.commit_plan(plan, work.newest, unsent=slow).outcome == "committed"
    Table.open(table.uri).delete("id = 4")
    branch.append(rows_of(7))
    branch.publish()
    assert ids(table) == [1, 2, 3, 5, *([6] if newer else []), 7, 9]


def test_a_publication_has_what_a_transaction_over_several_tables_decided_whose_writer_died(
    tmp_path: Path, clock: Any
) -> None:
    table = Table.create(tmp_path / "t", rows_of().schema)
    branch = table.branch("b")
    others = (Table.create(tmp_path / str(n), rows_of().schema) for n in itertools.count())
    other = next(each for each in others if each.snapshot().table_id > branch.snapshot().table_id)
    in_doubt([branch, other])
    again = Table.open(branch.uri)
    assert again.check("id <> 1").num_rows == 1
    in_doubt([again, other])
    again.publish()
    assert ids(table) == ids(other) == [1, 1]
    assert [each.status for each in table.branches()] == ["published"]


def test_a_vacuum_keeps_an_ended_branch_until_all_tables_have_what_it_decided(tmp_path: Path) -> None:
    table, branch = branched(tmp_path)
    others = (Table.create(tmp_path / str(n), rows_of().schema) for n in itertools.count())
    other = next(each for each in others if each.snapshot().table_id < branch.snapshot().table_id)
    in_doubt([other, branch])
    Table.open(branch.uri).publish()
    for path in Path(branch.uri).rglob("*"):
        os.utime(path, (0, 0))
    Table.open(table.uri).vacuum(0, force=True)
    Table.open(other.uri).append(rows_of(7))
    assert (ids(table), ids(other)) == ([1, 2, 3, 4, 9], [1, 7])
    Table.open(table.uri).vacuum(0, force=True)
    assert Table.open(table.uri).branches() == []


@pytest.mark.parametrize("others", [1, 3])
def test_publications_of_one_branch_at_the_same_time_land_once(others: int, tmp_path: Path) -> None:
    """The second is planned before the first lands."""
    from txlog.branch.branch_work import work_of
    from txlog.branch.publication import Publication

    table, branch = branched(tmp_path)
    handles = [open_table_of(Table.open(branch.uri)) for _ in range(1 + others)]
    planned = []
    for handle in handles:
        work = work_of(handle)
        unsent = work.table.unsent_files()
        plan = Publication(work, unsent)
        planned.append((work.table, plan, work.newest, unsent))
        plan.execute(work.newest)
    outcomes = [parent.commit_plan(plan, newest, unsent=unsent).outcome for parent, plan, newest, unsent in planned]
    assert outcomes == ["committed"] + ["already_committed"] * others
    assert ids(table) == [2, 3, 4, 9]
    assert publications(table) == 1
    assert txlog.Table.open(table.uri).verify().is_sound
