"""A forced vacuum, of the table and of the branch, before every single call of their stores: nobody loses a file."""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import msgspec
import pyarrow as pa
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

import txlog
from txlog import Table
from txlog.cli.app import app
from txlog.core.store import open_store
from txlog.core.versions import OpenTable
from txlog.errors import ConflictError, CorruptLogError, TableNotFoundError, TxlogError, UnsupportedFeatureError
from txlog.testing.faults import Crashed, Fault, FaultyFileStore, FaultyLogStore, StoreCall, faulty_table_store

VECTORS = {"delta.enableDeletionVectors": "true"}


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(uri: str) -> list[int]:
    return sorted(Table.open(uri).to_arrow()["id"].to_pylist())


class Vacuums:
    """Before the ``number``-th call of a store, somebody does this, with no regard to anyone."""

    def __init__(self, number: int, meddle: Callable[[], Any]) -> None:
        self._number = number
        self._meddle = meddle
        self._thread = threading.get_ident()
        self._count = 0
        self._is_under_way = False
        self.call: StoreCall | None = None

    def decide(self, call: StoreCall) -> None:
        if self._is_under_way or threading.get_ident() != self._thread:
            return
        self._count += 1
        if self._count == self._number:
            self.call, self._is_under_way = call, True
            self._meddle()
            self._is_under_way = False

    def opened(self, uri: str) -> OpenTable:
        store = open_store(uri)
        log = FaultyLogStore(store.log, self.decide, files=store.files)
        return OpenTable(replace(store, log=log, files=FaultyFileStore(store.files, self.decide)))

    def run(self, uri: str, work: Callable[[Table], Any], patch: pytest.MonkeyPatch) -> TxlogError | None:
        """The error of the work, if it has one."""
        with patch.context() as inside:
            inside.setattr(OpenTable, "beside", lambda _, place: self.opened(place))
            try:
                work(Table(self.opened(uri)))
            except TxlogError as error:
                return error
        return None


class Act(msgspec.Struct, frozen=True):
    """What somebody does at a place, after what came before, and which rows there are then at each place."""

    work: Callable[[Table], Any]
    rows: dict[str, list[int]]
    before: Callable[[Table], Any] = lambda branch: None
    status: str = "open"
    may_be_gone: bool = False
    """Whether a vacuum may delete the whole branch first. Who wrote to it then is told so."""
    at: str = "@b"


TABLE, BRANCH, BOTH = [1, 2, 3, 5, 6, 9], [2, 3, 4, 5, 6, 7, 8], [2, 3, 5, 6, 7, 9]
ACTS = {
    "append": Act(lambda b: b.append(rows_of(20)), {"": TABLE, "@b": [*BRANCH, 20]}),
    "append to a kept branch": Act(
        lambda b: b.append(rows_of(20)), {"": BOTH, "@b": [*BRANCH, 20]}, lambda b: b.publish(keep=True)
    ),
    "append to an ended branch": Act(
        lambda b: b.append(rows_of(20)),
        {"": BOTH, "@b": [*BRANCH, 20]},
        lambda b: b.publish(),
        may_be_gone=True,
    ),
    "delete": Act(lambda b: b.delete("id = 2 or id = 6"), {"": TABLE, "@b": [3, 4, 5, 7, 8]}),
    "publish": Act(lambda b: b.publish(), {"": BOTH}, status="published"),
    "publish and keep": Act(lambda b: b.publish(keep=True), {"": BOTH, "@b": BRANCH}),
    "rebase": Act(lambda b: b.rebase(), {"": TABLE, "@b": BOTH}),
    "make": Act(lambda t: t.branch("c"), {"": TABLE, "@b": BRANCH, "@c": TABLE}, at=""),
    "make of an old version": Act(
        lambda t: t.branch("c", 3), {"": TABLE, "@b": BRANCH, "@c": [1, 2, 3, 4, 5, 6, 8]}, at=""
    ),
    "make again": Act(lambda t: t.branch("b"), {"": BOTH, "@b": BOTH}, lambda b: b.publish(), at=""),
    "discard": Act(lambda b: b.discard(), {"": TABLE}, status="discarded", may_be_gone=True),
}


def branched(folder: Path) -> tuple[Table, Table]:
    """The branch needs files that the table has removed since, and both have rows that the other lacks."""
    table = Table.create(folder / "t", rows_of().schema, properties=VECTORS)
    for each in ((1, 2, 3), (4, 5, 6), (8,)):
        table.append(rows_of(*each))
    branch = table.branch("b")
    branch.append(rows_of(7))
    branch.delete("id = 1")
    table.delete("id = 4 or id = 8")
    table.append(rows_of(9))
    return table, branch


def vacuum(uri: str) -> None:
    Table.open(uri).vacuum(retention_hours=0, force=True)


def rewrite_and_vacuum(uri: str) -> None:
    """The same rows in another file, so that the one before goes."""
    Table.open(uri).update({"id": txlog.expr("id + 0")}, "id = 5 or id = 6")
    vacuum(uri)


def vacuum_both(uri: str) -> None:
    vacuum(uri)
    if Table.exists(f"{uri}@b"):  # the first one may have deleted what was left of it
        vacuum(f"{uri}@b")


MEDDLERS: dict[str, Callable[[str], None]] = {
    "of the table": vacuum,
    "of both": vacuum_both,
    "after a rewrite": rewrite_and_vacuum,
}


def check_act(act: Act, meddler: Callable[[str], None], folder: Path, patch: pytest.MonkeyPatch) -> int:
    """How many calls there are. Raises AssertionError for one before which a vacuum takes a file from somebody."""
    uri, branch = (each.uri for each in branched(folder))
    act.before(Table.open(branch))
    shutil.copytree(uri, folder / "before")
    for number in itertools.count(1):
        vacuums = Vacuums(number, lambda: meddler(uri))
        error = vacuums.run(branch if act.at else uri, act.work, patch)
        where = f"before call {number}, {vacuums.call}: {error}"
        is_gone = act.may_be_gone and error is not None and not is_readable(f"{uri}@b")
        if error is not None and not is_gone:
            again(act, f"{uri}{act.at}")
        found = {place: ids(f"{uri}{place}") for place in act.rows if not (place and is_gone)}
        assert found == {place: sorted(act.rows[place]) for place in found}, where
        assert Table.open(uri).verify().is_sound, where
        # A vacuum of the branch is a version of it that nobody published, so it may be open.
        may_be = {act.status, *(["open"] if meddler is vacuum_both else [])}
        assert {each.status for each in Table.open(uri).branches()} <= may_be, where
        if vacuums.call is None:
            return number
        shutil.rmtree(uri)
        shutil.copytree(folder / "before", uri)
    raise AssertionError


def is_readable(uri: str) -> bool:
    try:
        return Table.exists(uri)
    except CorruptLogError:
        return False


def again(act: Act, uri: str) -> None:
    """Who was refused does it again, on what others did meanwhile."""
    try:
        act.work(Table.open(uri))
    except ConflictError:
        Table.open(uri).rebase()
        act.work(Table.open(uri))


@pytest.mark.hunt(part="branches")
@pytest.mark.parametrize("meddler", MEDDLERS)
@pytest.mark.parametrize("name", ACTS)
def test_nobody_loses_a_file_to_a_vacuum_before_any_call(
    name: str, meddler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_act(ACTS[name], MEDDLERS[meddler], tmp_path, monkeypatch) > 10


def forgets_what_a_branch_reads(patch: pytest.MonkeyPatch) -> None:
    """A vacuum of the table keeps only what the table itself needs."""
    patch.setattr("txlog.branch.vacuum._files", lambda branch, cutoff_ms: iter(()))


def overlooks_a_vacuum_during_a_rebase(patch: pytest.MonkeyPatch) -> None:
    """A rebase names files that a vacuum deleted a moment before."""
    patch.setattr("txlog.branch.rebase.removed_meanwhile", lambda table, base, known: [])


def takes_a_vector_for_kept(patch: pytest.MonkeyPatch) -> None:
    """A publication overlooks that a vacuum may delete its vectors, which no commit names yet."""
    patch.setattr("txlog.core.versions.decisions.conflicts.endangered", lambda proposal, vacuum: None)
    patch.setattr(OpenTable, "_require_no_vacuum_of", lambda *_: None)


MUTANTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str, str]] = {
    mutant.__name__: (mutant, act, meddler)
    for mutant, act, meddler in (
        (forgets_what_a_branch_reads, "append", "of the table"),
        (overlooks_a_vacuum_during_a_rebase, "rebase", "after a rewrite"),
        (takes_a_vector_for_kept, "publish", "of the table"),
    )
}
"""Bugs put into the code on purpose, and the act and the vacuum that find each."""


@pytest.mark.hunt(part="mutants")
@pytest.mark.parametrize("name", MUTANTS)
def test_a_vacuum_before_any_call_finds_a_bug_put_into_branches(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant, act, meddler = MUTANTS[name]
    mutant(monkeypatch)
    with pytest.raises((AssertionError, TxlogError)):
        check_act(ACTS[act], MEDDLERS[meddler], tmp_path, monkeypatch)


def test_a_publication_is_done_though_a_vacuum_deletes_what_is_left_of_the_branch_at_once(tmp_path: Path) -> None:
    table, branch = branched(tmp_path)

    class Vacuum(txlog.CommitHooks):
        def on_commit(self, uri: str, result: txlog.WriteResult) -> None:
            if uri == table.uri:
                vacuum(uri)

    assert Table.open(branch.uri, hooks=Vacuum()).publish().outcome == "committed"
    assert not Table.exists(f"{table.uri}@b")
    assert ids(table.uri) == BOTH


REVIVALS: dict[str, tuple[Callable[[str], Any], list[int]]] = {
    "appended to": (lambda uri: Table.open(f"{uri}@b").append(rows_of(20)), [*BRANCH, 20]),
    "made anew": (lambda uri: Table.open(uri).branch("b"), BOTH),
}


@pytest.mark.parametrize("how", REVIVALS)
def test_a_vacuum_keeps_an_ended_branch_that_is_revived_before_it_deletes_anything(how: str, tmp_path: Path) -> None:
    table, branch = branched(tmp_path)
    branch.publish()
    revive, rows = REVIVALS[how]

    class Reviver(txlog.CommitHooks):
        has_begun = False

        def on_commit(self, uri: str, result: txlog.WriteResult) -> None:
            if not self.has_begun:  # the vacuum has: it knows what it will delete
                self.has_begun = True
                revive(uri)

    Table.open(table.uri, hooks=Reviver()).vacuum(retention_hours=0, force=True)
    assert ids(f"{table.uri}@b") == sorted(rows)
    assert [each.status for each in table.branches()] == ["open"]


def test_nobody_writes_to_a_branch_while_a_vacuum_deletes_it(tmp_path: Path) -> None:
    table, branch = branched(tmp_path)
    branch.publish()
    writers = [Table.open(branch.uri) for _ in range(3)]
    works: list[Callable[[Table], Any]]
    works = [lambda b: b.append(rows_of(20)), lambda b: b.delete("id = 2"), lambda b: b.publish()]
    told: list[TxlogError] = []

    class Late(txlog.CommitHooks):
        def on_commit(self, uri: str, result: txlog.WriteResult) -> None:
            if uri != branch.uri:
                return
            for writer, work in zip(writers, works, strict=True):
                with pytest.raises(TxlogError, match="make a new one") as refused:
                    work(writer)
                told.append(refused.value)

    Table.open(table.uri, hooks=Late()).vacuum(retention_hours=0, force=True)
    assert len(told) == len(writers)
    assert not Table.exists(f"{table.uri}@b")
    assert table.branches() == []
    again = Table.open(table.uri).branch("b")
    again.append(rows_of(30))
    for each in (again, Table.open(branch.uri), branch):  # who knew the branch before sees the new one
        assert ids(each.uri) == sorted(each.to_arrow()["id"].to_pylist()) == sorted([*BOTH, 30])
    again.publish()
    assert ids(table.uri) == sorted([*BOTH, 30])


class Maker:
    """A process that makes a branch. Before it puts the branch's first version, a vacuum deletes the file of row 9;
    after that, somebody may meddle, and the process may die."""

    def __init__(self, uri: str, after: Callable[[], Any] = lambda: None, fault: Fault | None = None) -> None:
        self._uri = uri
        self._fault = fault
        self._steps: list[Callable[[], Fault | None]] = [self._vacuum, lambda: after() and None]
        self._is_meddling = False

    def decide(self, call: StoreCall) -> Fault | None:
        if self._is_meddling or not self._steps or (call.operation == "put_if_absent") != (len(self._steps) == 2):
            return None
        self._is_meddling = True
        fault = self._steps.pop(0)()
        self._is_meddling = False
        return fault

    def _vacuum(self) -> Fault | None:
        Table.open(self._uri).delete("id = 9")
        vacuum(self._uri)
        return self._fault

    def run(self, patch: pytest.MonkeyPatch) -> None:
        def opened(uri: str) -> OpenTable:
            return OpenTable(faulty_table_store(open_store(uri), self.decide))

        with patch.context() as inside:
            inside.setattr(OpenTable, "beside", lambda _, place: opened(place))
            Table(opened(self._uri)).branch("c")


def test_a_branch_whose_maker_died_while_a_vacuum_deleted_its_files_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = branched(tmp_path)[0].uri
    with pytest.raises(Crashed):
        Maker(uri, fault=Fault("crash_after")).run(monkeypatch)
    with pytest.raises(TableNotFoundError, match=r"process that began to make one died.*make it again"):
        Table.open(f"{uri}@c")
    Table.open(uri).branch("c").append(rows_of(30))
    assert ids(f"{uri}@c") == [1, 2, 3, 5, 6, 30]


@pytest.mark.parametrize("door", ["python", "sql", "command line"])
def test_a_branch_whose_maker_died_while_a_vacuum_deleted_its_files_is_listed_as_broken_and_discarded(
    door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = branched(tmp_path)[0].uri
    with pytest.raises(Crashed):
        Maker(uri, fault=Fault("crash_after")).run(monkeypatch)
    statuses = {each.name: each.status for each in Table.open(uri).branches()}
    assert statuses["c"] == "broken"
    vacuum(uri)
    if door == "python":
        (broken,) = (each for each in Table.open(uri).branches() if each.status == "broken")
        Table.open(broken.uri).discard()
    elif door == "sql":
        txlog.sql(f"alter table delta.`{uri}` drop branch c")
    else:
        done = CliRunner().invoke(app, ["discard", f"{uri}@c"])
        assert done.exit_code == 0, done.output
    assert {each.name: each.status for each in Table.open(uri).branches()} == {**statuses, "c": "discarded"}


def test_a_branch_whose_maker_died_is_used_if_no_vacuum_took_anything_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = branched(tmp_path)[0].uri
    monkeypatch.setattr(Maker, "decide", lambda _, call: Fault("crash_after") if "put" in call.operation else None)
    with pytest.raises(Crashed):
        Maker(uri).run(monkeypatch)
    Table.open(uri).delete("id = 9")
    vacuum(uri)
    assert ids(f"{uri}@c") == TABLE


def test_who_throws_away_a_branch_that_a_vacuum_broke_leaves_what_others_wrote_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = branched(tmp_path)[0].uri
    branch = f"{uri}/_branches/c"
    with pytest.raises(ConflictError, match="make the branch again"):  # to its maker
        Maker(uri, lambda: Table.open(branch).append(rows_of(30))).run(monkeypatch)
    vacuum(uri)
    Table.open(branch).rebase()
    Table.open(branch).publish()
    assert ids(uri) == [1, 2, 3, 5, 6, 30]


def test_another_engine_refuses_a_branch_that_a_vacuum_deleted(tmp_path: Path) -> None:
    table, branch = branched(tmp_path)
    branch.discard()
    vacuum(table.uri)
    with pytest.raises(Exception, match="txlogBranchWasDeleted"):
        deltalake.write_deltalake(branch.uri, rows_of(20), mode="append")
    with pytest.raises(UnsupportedFeatureError, match="make a new one"):
        Table.open(branch.uri).to_arrow()


def test_a_vacuum_of_the_table_keeps_what_a_named_version_of_a_branch_has(tmp_path: Path) -> None:
    table, branch = branched(tmp_path)
    branch.tag("start")
    named = ids(branch.uri)
    branch.delete(all=True)
    table.overwrite(rows_of(9))
    vacuum(table.uri)
    assert sorted(Table.open(branch.uri).snapshot(tag="start").to_arrow()["id"].to_pylist()) == named


@pytest.mark.parametrize("by", ["a named version of the table", "another branch", "a named version of another branch"])
def test_a_vacuum_of_a_kept_branch_keeps_its_published_files_that_others_have(by: str, tmp_path: Path) -> None:
    table, branch = branched(tmp_path)
    table.set_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    branch.append(rows_of(40))
    branch.publish(keep=True)
    table = Table.open(table.uri)
    other = table if "the table" in by else table.branch("other")
    if "named" in by:
        other.tag("kept")
    expected = ids(other.uri)
    table.overwrite(rows_of(9))
    if by == "a named version of another branch":
        other.overwrite(rows_of(9))
    branch = Table.open(branch.uri)
    branch.rebase()
    branch.overwrite(rows_of(9))
    vacuum(branch.uri)
    snapshot = Table.open(other.uri).snapshot(tag="kept" if "named" in by else None)
    assert sorted(snapshot.to_arrow()["id"].to_pylist()) == expected
