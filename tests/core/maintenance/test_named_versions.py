"""Named versions: what has a name stays readable, whatever is cleaned up, until the name is removed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from msgspec.structs import replace

import txlog
from txlog.core import ambient
from txlog.core.store import open_store
from txlog.core.versions import OpenTable
from txlog.result.maintenance import VacuumResult
from txlog.testing.faults import FaultyFileStore, FaultyLogStore


class Later(ambient.Ambient):
    """A minute later than it is, so that all that was written and removed before is older than now."""

    def now_ms(self) -> int:
        return super().now_ms() + 60_000


def vacuum_all(table: txlog.Table) -> VacuumResult:
    with ambient.use(Later()):
        return table.vacuum(0, force=True)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    properties = {"delta.enableDeletionVectors": "true"}
    table = txlog.Table.create(tmp_path / "t", "id bigint", properties=properties)
    table.append(rows(*range(100_000)))
    table.delete("id % 3 = 0")
    table.append(rows(-1))
    return table


def ids(snapshot: txlog.Snapshot) -> list[int]:
    return sorted(snapshot.to_arrow()["id"].to_pylist())


def clean_up_before(table: txlog.Table) -> txlog.Table:
    """Take every commit before the newest one out of the log, as a clean-up does after a month."""
    version = table.create_checkpoint()
    for path in Path(table.uri, "_delta_log").glob("*.json"):
        if int(path.stem) < version:
            path.unlink()
    return txlog.Table.open(table.uri)


def test_a_named_version_survives_vacuum_and_log_clean_up_until_its_name_goes(table: txlog.Table) -> None:
    before = ids(table.snapshot(2))
    named = table.tag("release-7", 2)
    assert (named.name, named.version) == ("release-7", 2)
    table.overwrite(rows(7))
    assert len(vacuum_all(table).paths) == 1  # what version 3 added
    table = clean_up_before(table)
    with pytest.raises(txlog.NotFoundError):
        table.snapshot(2)
    snapshot = table.snapshot(tag="release-7")
    assert (snapshot.version, ids(snapshot)) == (2, before)
    assert ids(pickle.loads(pickle.dumps(snapshot))) == before
    assert snapshot.num_files == 1
    assert vacuum_all(table).paths == ()
    table.untag("release-7")
    assert len(vacuum_all(table).paths) == 2  # the data file and its vector
    assert list(Path(table.uri, "_txlog", "versions").iterdir()) == []


def test_names_are_listed_by_version_and_the_newest_version_is_the_default(table: txlog.Table) -> None:
    assert table.tags() == []
    for name, version in (("b.1", None), ("a", 1), ("2026_11-20", 3)):
        table.tag(name, version)
    assert [(named.name, named.version) for named in table.tags()] == [("a", 1), ("2026_11-20", 3), ("b.1", 3)]
    assert table.snapshot(tag="b.1").version == 3
    assert deltalake.DeltaTable(table.uri).version() == 3


def test_a_tag_cannot_be_given_to_a_second_version(table: txlog.Table) -> None:
    assert table.tag("a", 1) == table.tag("a", 1)
    with pytest.raises(txlog.InvalidInputError, match=r"already the name of version 1.*untag"):
        table.tag("a", 2)
    assert len(list(Path(table.uri, "_txlog", "versions").iterdir())) == 2


@pytest.mark.parametrize("name", ["", ".a", "-a", "a/b", "a b", "é", "a" * 101, 7, None])
def test_an_invalid_name_of_a_tag_is_refused(table: txlog.Table, name: Any) -> None:
    with pytest.raises(txlog.InvalidInputError, match=r"Invalid name of a version .*: expected at most 100 letters"):
        table.tag(name)


def test_the_error_for_an_unknown_tag_lists_the_existing_ones(table: txlog.Table) -> None:
    table.tag("a")
    for call in (lambda: table.snapshot(tag="b"), lambda: table.untag("b")):
        with pytest.raises(txlog.NotFoundError, match="existing names: a"):
            call()
    with pytest.raises(txlog.InvalidInputError, match="not several"):
        table.snapshot(1, tag="a")


def test_a_version_with_missing_files_gets_no_name(table: txlog.Table) -> None:
    table.overwrite(rows(7))
    vacuum_all(table)
    with pytest.raises(txlog.NotFoundError, match="files are missing"):
        table.tag("a", 2)
    assert table.tags() == []


def test_a_file_that_goes_while_its_version_is_named_takes_the_name_with_it(table: txlog.Table) -> None:
    table.overwrite(rows(7))
    store = open_store(table.uri)
    assert store.named_versions is not None
    versions = FaultyLogStore(store.named_versions)
    versions.script["put_if_absent"] = [None, lambda real, *call: (vacuum_all(table), real(*call))[1]]
    late = txlog.Table(OpenTable(replace(store, named_versions=versions)))
    with pytest.raises(txlog.NotFoundError, match="files are missing"):
        late.tag("a", 2)
    assert table.tags() == []


def test_a_version_that_is_named_while_a_vacuum_runs_is_kept(table: txlog.Table) -> None:
    table.overwrite(rows(7))
    store = open_store(table.uri)
    log = FaultyLogStore(store.log)
    log.script["put_if_absent"] = [lambda real, *call: (table.tag("a", 2), real(*call))[1]]
    late = txlog.Table(OpenTable(replace(store, log=log)))
    assert len(vacuum_all(late).paths) == 1
    assert len(ids(table.snapshot(tag="a"))) == 66_666


MAINTENANCE: dict[str, Callable[[txlog.Table], object]] = {
    "vacuum": vacuum_all,
    "purge": lambda table: table.purge(),
    "check of deleted rows": lambda table: table.check_deleted(),
}


@pytest.mark.parametrize("what", MAINTENANCE)
def test_a_name_that_goes_while_maintenance_reads_its_version_is_no_error(table: txlog.Table, what: str) -> None:
    table.tag("staying", 1)
    table.tag("going", 2)
    store = open_store(table.uri)
    assert store.named_versions is not None
    versions = FaultyLogStore(store.named_versions)

    def first_untag(real: Any, name: str) -> Any:
        if name.startswith("going."):
            table.untag("going")
        return real(name)

    versions.script["stat"] = [first_untag] * 2  # of the checkpoints of both
    MAINTENANCE[what](txlog.Table(OpenTable(replace(store, named_versions=versions))))
    assert [named.name for named in table.tags()] == ["staying"]
    assert len(ids(table.snapshot(tag="staying"))) == 100_000


def test_one_of_two_callers_that_give_a_tag_to_different_versions_is_refused(table: txlog.Table) -> None:
    store = open_store(table.uri)
    assert store.named_versions is not None
    versions = FaultyLogStore(store.named_versions)
    versions.script["put_if_absent"] = [None, lambda real, *call: (table.tag("a", 1), real(*call))[1]]
    late = txlog.Table(OpenTable(replace(store, named_versions=versions)))
    with pytest.raises(txlog.InvalidInputError, match="already the name of version 1"):
        late.tag("a", 2)
    assert [named.version for named in table.tags()] == [1]
    assert len(list(Path(table.uri, "_txlog", "versions").iterdir())) == 2


def test_a_tag_is_written_although_an_answer_of_the_store_was_lost(table: txlog.Table) -> None:
    store = open_store(table.uri)
    assert store.named_versions is not None
    versions = FaultyLogStore(store.named_versions, "put_if_absent#1=fail_after put_if_absent#2=fail_before")
    txlog.Table(OpenTable(replace(store, named_versions=versions))).tag("a", 2)
    assert [named.name for named in table.tags()] == ["a"]


@pytest.mark.parametrize("step", [1, 2])
def test_a_tag_that_is_visible_and_not_durable_is_not_acknowledged_until_it_is(table: txlog.Table, step: int) -> None:
    store = open_store(table.uri)
    assert store.named_versions is not None
    versions = FaultyLogStore(store.named_versions, f"put_if_absent#{step}=not_durable")
    late = txlog.Table(OpenTable(replace(store, named_versions=versions)))
    with pytest.raises(txlog.StorageError, match="could not be synced to disk"):
        late.tag("a", 2)
    versions.calls.clear()
    assert late.tag("a", 2).version == 2
    written = set(versions.names("put_if_absent")) | set(versions.names("make_durable"))
    assert {name.rpartition(".")[2] for name in written} == {"version", "files"}


def test_a_vacuum_is_refused_while_a_tag_is_damaged(table: txlog.Table) -> None:
    table.tag("a", 2)
    table.overwrite(rows(7))
    path = Path(table.uri, "_txlog", "versions", "a.version")
    path.write_bytes(path.read_bytes().replace(b'"version":2', b'"version":3'))
    with pytest.raises(txlog.InvalidInputError, match="damaged"):
        vacuum_all(table)


def test_a_name_of_a_table_that_was_there_before_is_not_taken_for_this_one(table: txlog.Table) -> None:
    table.tag("a", 1)
    for path in Path(table.uri, "_delta_log").iterdir():
        path.unlink()
    other = txlog.Table.create(table.uri, "other string")
    other.append(pa.table({"other": ["x"]}))
    assert other.snapshot(tag="a").schema.names == ["id"]
    with pytest.raises(txlog.InvalidInputError, match="already"):
        other.tag("a", 1)


KILLED = ("crash_before", "crash_after")


@pytest.mark.parametrize("fault", KILLED)
def test_a_caller_that_dies_at_any_step_leaves_a_name_that_is_whole_or_none(table: txlog.Table, fault: str) -> None:
    from txlog.testing.faults import Crashed

    store = open_store(table.uri)
    assert store.named_versions is not None
    for step in range(1, 4):
        versions = FaultyLogStore(store.named_versions, f"put_if_absent#{step}={fault}")
        dying = txlog.Table(OpenTable(replace(store, named_versions=versions, files=FaultyFileStore(store.files))))
        try:
            dying.tag(f"tag-{step}", 2)
        except Crashed:
            assert step < 3
        for named in table.tags():
            assert len(ids(table.snapshot(tag=named.name))) == 66_666
    table.overwrite(rows(7))
    vacuum_all(table)
    assert all(len(ids(table.snapshot(tag=named.name))) == 66_666 for named in table.tags())
