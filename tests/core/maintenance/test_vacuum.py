"""Vacuum: what it deletes, what it must never delete, and what it says of it."""

from __future__ import annotations

import functools
import glob
import itertools
import mmap
import os
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import force_setattr, replace

import txlog
from tests.losing_writer import losing_to
from txlog.core import ambient
from txlog.core.changes.tasks import LISTED, Folders, without_markers
from txlog.core.format.path_set import PathSet
from txlog.core.format.paths import is_folder_marker
from txlog.core.maintenance import _vacuum as vacuum_module
from txlog.core.maintenance import _vacuum_candidates as vacuum_candidates
from txlog.core.maintenance._last_vacuum import read_last_vacuum
from txlog.core.maintenance._vacuum_candidates import in_inventory
from txlog.core.operations import GlobalCommitter, WriteOptions, plan_write
from txlog.core.store import TableStore, open_store
from txlog.core.store._commit_queue import OPEN
from txlog.core.versions import OpenTable
from txlog.core.writing import open_data, write_task
from txlog.result.maintenance import VacuumResult
from txlog.testing.faults import FaultyFileStore, FaultyLogStore, StoreCall
from txlog.testing.memory_store import memory_table_store
from txlog.testing.stopped_clock import StoppedClock

DAY_S = 86_400


class Later(ambient.Ambient):
    """A minute later than it is, so that all that was written and removed before is older than now."""

    def now_ms(self) -> int:
        return super().now_ms() + 60_000


def vacuum_all(table: txlog.Table) -> VacuumResult:
    with ambient.use(Later()):
        return table.vacuum(0, force=True)


@pytest.fixture
def time() -> Any:
    with ambient.use(StoppedClock()) as clock:
        yield clock


def rows(*ids: int, day: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "day": [day] * len(ids)})


def make(tmp_path: Path, **properties: str) -> txlog.Table:
    named = {key.replace("_", "."): value for key, value in properties.items()}
    return txlog.Table.create(tmp_path / "t", "id bigint, day string", ["day"], named)


def in_memory(**properties: str) -> tuple[txlog.Table, Any]:
    """A table on a store in memory, whose files have the times of the ambient clock."""
    from txlog.core.definition import create_table

    store = memory_table_store()
    named = {key.replace("_", "."): value for key, value in properties.items()}
    opened = OpenTable(store)
    create_table(opened, "id bigint, day string", ("day",), named)
    return txlog.Table(opened), store


def age(root: str | Path, days: float = 9) -> None:
    """Make every file below ``root`` that many days older."""
    for path in Path(root).rglob("*"):
        if path.is_file():
            status = path.stat()
            os.utime(path, (status.st_mtime - days * DAY_S,) * 2)


def files_of(root: str | Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in Path(root).rglob("*") if path.is_file()}


def put(root: str, name: str, days: float = 9) -> str:
    path = Path(root, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    os.utime(path, (path.stat().st_mtime - days * DAY_S,) * 2)
    return name


# --- what goes and what stays ---------------------------------------------------------------------------------------


def test_a_file_that_no_commit_names_is_deleted_after_the_retention(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows(1))
    live = files_of(table.uri)
    gone = {put(table.uri, name) for name in ("orphan.parquet", "day=b/x.parquet", "a/b/c.bin", "day=%20/y z.parquet")}
    young = put(table.uri, "day=b/young.parquet", days=6.9)
    age(tmp_path / "t" / "day=a")
    done = table.vacuum()
    assert set(done.paths) == gone
    assert done.size_bytes == len(gone)
    assert files_of(table.uri) >= live | {young}
    assert not gone & files_of(table.uri)
    assert table.snapshot().to_arrow()["id"].to_pylist() == [1]


HIDDEN = ("_iceberg/metadata/v1.json", "metadata/snap.avro", ".hidden.parquet", "_SUCCESS", "day=a/_x/y", "_txlog/z")


def test_a_vacuum_keeps_hidden_files_whatever_their_age(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows(1))
    for name in HIDDEN:
        put(table.uri, name, days=99)
    age(Path(table.uri) / "_delta_log", days=99)
    assert vacuum_all(table).paths == ()
    assert files_of(table.uri) >= set(HIDDEN)


def test_a_removed_file_and_its_vector_stay_until_the_retention_is_over(time: StoppedClock) -> None:
    table, store = in_memory(delta_enableDeletionVectors="true")
    table.append(rows(*range(10)))
    table.delete("id = 3")
    before = {path for path in store.files.objects if not path.startswith("_delta_log")}
    time.pass_hours(24 * 6)
    table.overwrite(rows(11))
    time.pass_hours(24 * 7)
    assert table.vacuum().paths == ()
    assert table.snapshot(2).to_arrow().num_rows == 9
    time.pass_hours(1 / 3600)
    done = table.vacuum()
    assert set(done.paths) == before
    assert table.snapshot().to_arrow()["id"].to_pylist() == [11]


def test_a_retention_of_0_takes_what_was_written_and_removed_in_this_millisecond(time: StoppedClock) -> None:
    table, store = in_memory()
    table.append(rows(1))
    replaced = {path for path in store.files.objects if not path.startswith("_delta_log")}
    table.overwrite(rows(2))
    assert set(table.vacuum(0, force=True).paths) == replaced
    assert table.snapshot().to_arrow()["id"].to_pylist() == [2]


def test_a_vector_in_its_own_file_stays_with_its_data_file(tmp_path: Path) -> None:
    """A small vector stands in the log itself."""
    table = make(tmp_path, delta_enableDeletionVectors="true")
    table.append(rows(*range(100_000)))
    table.delete("id % 3 = 0")
    vectors = {name for name in files_of(table.uri) if name.endswith(".bin")}
    assert vectors
    age(table.uri)
    assert table.vacuum().paths == ()
    table.delete("id % 3 = 1")
    age(table.uri)
    done = vacuum_all(table)
    assert set(done.paths) == vectors
    assert table.snapshot().to_arrow().num_rows == 33_333


def test_change_data_of_a_version_inside_of_the_retention_stays_however_old_its_file(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows(1))
    named, unnamed = (put(table.uri, f"_change_data/{name}.parquet", days=30) for name in ("named", "unnamed"))
    commit = {"cdc": {"path": named, "partitionValues": {"day": "a"}, "size": 1, "dataChange": False}}
    Path(table.uri, "_delta_log", f"{2:020}.json").write_bytes(orjson.dumps(commit) + b"\n")
    assert table.vacuum().paths == (unnamed,)
    assert Path(table.uri, named).exists()


def test_staged_work_stays_sealed_or_not_whatever_the_retention(tmp_path: Path) -> None:
    table = make(tmp_path, delta_enableDeletionVectors="true")
    sink = txlog.Sink(table, "app")
    for checkpoint_id in (1, 2):
        with sink.task(checkpoint_id) as task:
            task.write(rows(checkpoint_id))
        sink.stage(task.committable)
    sink.prepare(1, [0])
    age(table.uri, days=3)
    assert vacuum_all(table).paths == ()
    with ambient.use(Later()):
        assert table.vacuum(0, dry_run=True, force=True).paths == ()
    sink.recover()
    sink.prepare(2, [0])
    assert sink.commit(2).outcome == "committed"
    assert sorted(table.snapshot().to_arrow()["id"].to_pylist()) == [1, 2]


@pytest.mark.parametrize("is_cleaned_up", [False, True], ids=["its commit is there", "its commit is cleaned up"])
def test_a_file_that_is_committed_while_its_deletion_is_planned_stays(
    is_cleaned_up: bool, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(vacuum_module, "DELETED_AT_ONCE", 1)
    other = make(tmp_path)
    other.append(rows(1))
    other.overwrite(rows(2))
    removed = next(name for name in files_of(other.uri) if name.endswith(".parquet") and _ids(other.uri, name) == [1])
    orphans = sorted([put(other.uri, f"day=a/orphan-{at}.parquet") for at in range(2)] + [removed])
    age(Path(other.uri, "day=a"))

    def revive(real: Any, path: str) -> None:
        real(path)
        with other.transaction() as txn:
            txn.add(*adds_of(other, 1))
        if is_cleaned_up:
            gone = range(other.version + 1)
            other.append(rows(3))
            other.create_checkpoint()
            for version in gone:
                Path(other.uri, "_delta_log", f"{version:020}.json").unlink()

    store = open_store(other.uri)
    files = FaultyFileStore(store.files)
    files.script["delete"] = [revive]
    table = txlog.Table(OpenTable(replace(store, files=files)))
    monkeypatch.setattr(files, "list", lambda folder="", **named: _listed_last(store.files, folder, removed, **named))
    done = vacuum_all(table)
    assert set(done.paths) == set(orphans) - {removed}
    assert {1, 2} <= set(other.snapshot().to_arrow()["id"].to_pylist())


def adds_of(table: txlog.Table, version: int) -> list[Any]:
    from txlog.core.format.file_columns import add_files_of

    return add_files_of(table.snapshot(version).files())


def _listed_last(files: Any, folder: str, last: str, **named: Any) -> Any:
    found = [meta for page in files.list(folder, **named) for meta in page]
    yield sorted(found, key=lambda meta: meta.name == last)


def _ids(root: str, name: str) -> list[int]:
    import pyarrow.parquet as pq

    ids: list[int] = pq.read_table(Path(root, name), columns=["id"], partitioning=None)["id"].to_pylist()
    return ids


def test_a_path_that_the_log_spells_in_another_way_stays(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real)
    table = txlog.Table.create(link / "t", "id bigint")
    table.append(pa.table({"id": [1]}))
    commit = Path(table.uri, "_delta_log", f"{1:020}.json")
    name = next(name for name in files_of(table.uri) if name.endswith(".parquet"))
    commit.write_text(commit.read_text().replace(f'"{name}"', f'"file://{real}/t/{name}"'))
    age(table.uri)
    assert txlog.Table.open(table.uri).vacuum().paths == ()


@pytest.mark.parametrize("linked", ["folder", "file", "chain"])
def test_a_file_that_the_log_names_by_a_symbolic_link_stays(linked: str, tmp_path: Path) -> None:
    """Readers follow links within the table: an administrator may have moved a partition, or one file."""
    table = make(tmp_path)
    table.append(rows(1))
    root = Path(table.uri)
    (name,) = (name for name in files_of(root) if name.endswith(".parquet"))
    if linked == "file":
        (root / name).rename(root / "moved.parquet")
        (root / name).symlink_to(root / "moved.parquet")
    else:
        (root / "day=a").rename(root / "moved")
        if linked == "chain":
            (root / "hop").symlink_to("moved")
        (root / "day=a").symlink_to("hop" if linked == "chain" else "moved")
    (root / "day=b").mkdir()
    (root / "day=b" / "up").symlink_to(root)
    orphan = put(table.uri, "day=b/orphan.parquet")
    age(table.uri)
    assert table.vacuum().paths == (orphan,)
    assert table.to_arrow()["id"].to_pylist() == [1]


def test_files_of_several_folders_that_links_lead_to_stay(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(pa.concat_tables([rows(1), rows(2, day="b")]))
    for day in ("a", "b"):
        Path(table.uri, f"day={day}").rename(Path(table.uri, f"moved-{day}"))
        Path(table.uri, f"day={day}").symlink_to(f"moved-{day}")
    age(table.uri)
    assert table.vacuum().paths == ()
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2]


def test_a_log_that_names_a_file_in_no_readable_way_lets_nothing_be_deleted(tmp_path: Path) -> None:
    table = make(tmp_path)
    add = {
        "add": {"path": "a//b", "partitionValues": {"day": "a"}, "size": 1, "modificationTime": 1, "dataChange": True}
    }
    Path(table.uri, "_delta_log", f"{1:020}.json").write_bytes(orjson.dumps(add) + b"\n")
    orphan = put(table.uri, "orphan.parquet")
    with pytest.raises(txlog.CorruptLogError):
        txlog.Table.open(table.uri).vacuum()
    assert Path(table.uri, orphan).exists()


def test_a_longer_retention_than_the_tables_own_keeps_what_its_checkpoints_forgot(time: StoppedClock) -> None:
    table, _ = in_memory(delta_deletedFileRetentionDuration="interval 1 hours")
    table.append(rows(1))
    time.pass_hours(24)
    table.overwrite(rows(2))
    time.pass_hours(48)
    table.append(rows(3))
    table.create_checkpoint()
    fresh = txlog.Table(OpenTable(table._open_table.store))
    assert fresh.vacuum(60).paths == ()
    assert fresh.snapshot(1).to_arrow()["id"].to_pylist() == [1]
    assert len(fresh.vacuum(24).paths) == 1


def test_a_retention_that_was_lengthened_keeps_what_its_checkpoints_forgot(time: StoppedClock) -> None:
    table, _ = in_memory(delta_deletedFileRetentionDuration="interval 1 hours")
    table.append(rows(1))
    time.pass_hours(24)
    table.overwrite(rows(2))
    time.pass_hours(48)
    table.create_checkpoint()
    table.set_properties({"delta.deletedFileRetentionDuration": "interval 60 hours"})
    fresh = txlog.Table(OpenTable(table._open_table.store))
    assert fresh.vacuum().paths == ()
    assert fresh.snapshot(1).to_arrow()["id"].to_pylist() == [1]


def test_a_lengthened_retention_keeps_what_a_deleted_checkpoint_forgot(time: StoppedClock) -> None:
    """Later checkpoints are made from the one before, so they lack what it forgot, and it may be cleaned up."""
    table, store = in_memory(delta_deletedFileRetentionDuration="interval 1 hours")
    table.append(rows(1))
    time.pass_hours(24)
    table.overwrite(rows(2))
    time.pass_hours(48)
    table.create_checkpoint()
    forgetful = table.version
    table.set_properties({"delta.deletedFileRetentionDuration": "interval 60 hours"})
    fresh = txlog.Table(OpenTable(table._open_table.store))
    fresh.create_checkpoint()
    store.log.delete(f"{forgetful:020}.checkpoint.parquet")
    fresh = txlog.Table(OpenTable(table._open_table.store))
    assert fresh.vacuum().paths == ()
    assert fresh.snapshot(1).to_arrow()["id"].to_pylist() == [1]


# --- what is reported and recorded ----------------------------------------------------------------------------------


def test_a_retention_that_was_shorter_for_a_while_keeps_what_its_checkpoints_forgot(time: StoppedClock) -> None:
    """It was long when the retention began, and is long now."""
    table, _ = in_memory(delta_deletedFileRetentionDuration="interval 240 hours")
    table.append(rows(1, 2))
    time.pass_hours(300)
    table.append(rows(3))
    version = table.overwrite(rows(4)).version
    time.pass_hours(30)
    table.set_properties({"delta.deletedFileRetentionDuration": "interval 1 hours"})
    table.create_checkpoint()
    table.set_properties({"delta.deletedFileRetentionDuration": "interval 240 hours"})
    table.append(rows(5))
    table.create_checkpoint()
    time.pass_hours(100)
    assert table.vacuum().paths == ()
    assert version is not None
    assert sorted(table.snapshot(version - 1).to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_a_file_that_a_crash_left_in_progress_is_deleted_after_the_retention(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows(1))
    left = tmp_path / "t" / "day=a" / ".part-1.parquet.inprogress"
    left.write_bytes(b"half a file")
    (tmp_path / "t" / "day=a" / ".other").write_bytes(b"not ours")
    assert table.vacuum().paths == ()
    age(tmp_path / "t" / "day=a")
    assert table.vacuum().paths == ("day=a/.part-1.parquet.inprogress",)
    assert not left.exists()
    assert table.to_arrow().num_rows == 1


def test_a_lite_vacuum_lists_where_a_version_lost_its_name_since(time: StoppedClock) -> None:
    table, _ = in_memory(delta_deletedFileRetentionDuration="interval 24 hours")
    table.append(rows(1))
    table.tag("first")
    table.overwrite(rows(2))
    time.pass_hours(30)
    table.append(rows(3))
    assert table.vacuum().paths == ()
    assert table.vacuum(lite=True).mode == "lite"
    table.untag("first")
    done = table.vacuum(lite=True)
    assert (done.mode, len(done.paths)) == ("full", 1)
    assert table.vacuum(lite=True).mode == "lite"


def test_a_dry_run_names_what_the_vacuum_then_deletes_and_commits_nothing(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows(1))
    for at in range(3):
        put(table.uri, f"day=b/{at}.parquet")
    before = files_of(table.uri)
    planned = table.vacuum(dry_run=True)
    assert (files_of(table.uri), planned.version, planned.dry_run) == (before, None, True)
    done = table.vacuum()
    assert done == replace(planned, dry_run=False, version=3)
    assert str(planned) == "VacuumResult(3 files, 3 B, 168 h kept, dry run)"
    assert files_of(table.uri) >= before - set(done.paths)


def test_history_shows_a_vacuum_as_spark_writes_it(tmp_path: Path) -> None:
    table = make(tmp_path)
    put(table.uri, "day=b/x.parquet")
    table.vacuum(200)
    end, start, _ = table.history()
    assert (start["operation"], end["operation"]) == ("VACUUM START", "VACUUM END")
    assert start["operationParameters"] == {
        "retentionCheckEnabled": "true",
        "specifiedRetentionMillis": "720000000",
        "defaultRetentionMillis": "604800000",
    }
    assert start["operationMetrics"] == {"numFilesToDelete": "1", "sizeOfDataToDelete": "1"}
    assert end["operationParameters"] == {"status": "COMPLETED"}
    assert end["operationMetrics"] == {"numDeletedFiles": "1", "numVacuumedDirectories": "2"}
    for entry in (start, end):
        assert (entry["isolationLevel"], entry["isBlindAppend"]) == ("SnapshotIsolation", True)
    table.vacuum()
    assert "specifiedRetentionMillis" not in table.history(2)[1]["operationParameters"]


def test_a_deletion_that_fails_is_an_error_and_in_the_history(tmp_path: Path) -> None:
    make(tmp_path)
    for name in ("a", "b"):
        put(str(tmp_path / "t"), f"{name}.parquet")
    store = open_store(tmp_path / "t")
    files = FaultyFileStore(store.files, "delete#2=refused")
    table = txlog.Table(OpenTable(replace(store, files=files)))
    with pytest.raises(txlog.StorageError, match="refused"):
        table.vacuum()
    assert table.history(1)[0]["operationParameters"] == {"status": "FAILED"}
    assert read_last_vacuum(store.log) is None
    assert len(table.vacuum().paths) == 1


def test_progress_names_the_step_and_counts_files(tmp_path: Path) -> None:
    table = make(tmp_path)
    put(table.uri, "a.parquet")
    put(table.uri, "b.parquet")
    seen: list[tuple[str, int, int]] = []
    table.vacuum(on_progress=lambda *step: seen.append(step))
    assert seen == [("looking at files", 2, 2), ("deleting files", 2, 2)]


# --- by the log alone -----------------------------------------------------------------------------------------------


def test_a_lite_vacuum_deletes_what_commits_removed_and_lists_no_data_files(time: StoppedClock) -> None:
    table, store = in_memory()
    table.append(rows(1))
    time.pass_hours(24 * 8)
    table.vacuum()
    table.overwrite(rows(2))
    time.pass_hours(24 * 8)
    files = FaultyFileStore(store.files)
    lite = txlog.Table(OpenTable(replace(store, files=files)))
    store.files.publish("day=a/orphan.parquet", b"x")
    store.files.objects["day=a/orphan.parquet"] = (b"x", 0)
    done = lite.vacuum(lite=True)
    assert (done.mode, len(done.paths)) == ("lite", 1)
    assert {*files.names("list")} <= {"_branches"}  # with the extension, it keeps what branches read
    assert lite.vacuum(lite=True).paths == ()
    full = lite.vacuum()
    assert (full.mode, full.paths) == ("full", ("day=a/orphan.parquet",))


def test_a_lite_vacuum_deletes_the_change_data_of_commits_beyond_the_retention(time: StoppedClock) -> None:
    table, store = in_memory(delta_enableChangeDataFeed="true")
    table.append(rows(1, 2))
    time.pass_hours(24 * 8)
    table.vacuum()
    table.update({"id": txlog.expr("id + 10")}, where="id = 1")
    changes = {path for path in store.files.objects if path.startswith("_change_data/")}
    assert changes
    time.pass_hours(24 * 8)
    done = table.vacuum(lite=True)
    assert done.mode == "lite"
    assert changes <= set(done.paths)
    assert changes.isdisjoint(store.files.objects)


def test_both_modes_of_vacuum_record_the_version_that_they_reached(time: StoppedClock) -> None:
    table, store = in_memory()
    table.append(rows(1))
    time.pass_hours(24 * 8)
    table.append(rows(2))
    assert table.vacuum().version == 4
    assert read_last_vacuum(store.log) == 1
    time.pass_hours(24 * 8)
    assert table.vacuum(lite=True).mode == "lite"
    assert read_last_vacuum(store.log) == 4


def test_a_vacuum_of_a_longer_retention_leaves_the_version_that_a_shorter_one_reached(time: StoppedClock) -> None:
    table, store = in_memory()
    table.append(rows(1))
    time.pass_hours(24)
    table.append(rows(2))
    time.pass_hours(24 * 8)
    table.append(rows(3))
    table.vacuum()
    assert read_last_vacuum(store.log) == 2
    table.vacuum(24 * 8 + 1)
    assert read_last_vacuum(store.log) == 2


@pytest.mark.parametrize("body", [None, b"{}", b"not json", b'{"latestCommitVersionOutsideOfRetentionWindow":"x"}'])
def test_a_lite_vacuum_lists_if_the_end_of_the_last_one_is_unknown(time: StoppedClock, body: bytes | None) -> None:
    table, store = in_memory()
    if body is not None:
        store.log.put("_last_vacuum_info", body)
    table.append(rows(1))
    time.pass_hours(24 * 8)
    store.files.objects["orphan.parquet"] = (b"x", 0)
    done = table.vacuum(lite=True)
    assert (done.mode, done.paths) == ("full", ("orphan.parquet",))


def test_a_lite_vacuum_lists_where_the_log_was_cleaned_up(time: StoppedClock) -> None:
    table, store = in_memory()
    table.append(rows(1))
    time.pass_hours(24 * 8)
    table.vacuum()
    table.overwrite(rows(2))
    time.pass_hours(24 * 40)
    table.append(rows(3))
    table.create_checkpoint()
    for version in range(5):
        store.log.delete(f"{version:020}.json")
    time.pass_hours(24 * 8)
    done = txlog.Table(OpenTable(store)).vacuum(lite=True)
    assert (done.mode, len(done.paths)) == ("full", 1)


# --- an inventory ---------------------------------------------------------------------------------------------------


def inventory_of(root: str, *names: str, absolute: bool = False, older_ms: int = 0) -> pa.Table:
    found = [Path(root, name).stat() for name in names]
    return pa.table(
        {
            "path": [f"{'file://' if absolute else ''}{root}/{name}" if absolute else name for name in names],
            "length": [status.st_size for status in found],
            "isDir": [False] * len(names),
            "modificationTime": [int(status.st_mtime * 1000) - older_ms for status in found],
        }
    )


@pytest.mark.parametrize("absolute", [False, True])
def test_an_inventory_takes_the_place_of_the_listing(tmp_path: Path, absolute: bool) -> None:
    table = make(tmp_path)
    table.append(rows(1))
    names = [put(table.uri, f"day=b/{name}") for name in ("listed é.parquet", "young.parquet", "_hidden")]
    os.utime(Path(table.uri, names[1]))
    put(table.uri, "day=b/unlisted.parquet")
    live = [name for name in files_of(table.uri) if name.endswith(".snappy.parquet")]
    found = inventory_of(table.uri, *names, *live, absolute=absolute)
    elsewhere = inventory_of(table.uri, names[0]).set_column(0, "path", [["file:///elsewhere/x.parquet"]])
    age(Path(table.uri, "day=a"))
    done = table.vacuum(inventory=pa.concat_tables([found, found, elsewhere]))
    assert done.paths == (names[0],)
    assert read_last_vacuum(open_store(table.uri).log) is None


def test_an_inventory_without_its_columns_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path)
    with pytest.raises(txlog.InvalidInputError, match="lacks length, isDir, modificationTime"):
        table.vacuum(inventory=pa.table({"path": ["a"]}))
    with pytest.raises(txlog.InvalidInputError, match="Arrow stream"):
        table.vacuum(inventory=["a"])
    with pytest.raises(txlog.InvalidInputError, match="pass lite or inventory, not both"):
        table.vacuum(lite=True, inventory=pa.table({}))
    text = pa.table({"path": ["a"], "length": ["1"], "isDir": [False], "modificationTime": [1]})
    with pytest.raises(txlog.InvalidInputError, match="length"):
        table.vacuum(inventory=text)
    numbered = pa.table({"path": [1], "length": [1], "isDir": [False], "modificationTime": [1]})
    with pytest.raises(txlog.InvalidInputError, match="path of the inventory must hold text"):
        table.vacuum(inventory=numbered)


def test_the_needed_files_are_indexed_a_few_times_however_many_batches_an_inventory_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[int] = []
    holds = PathSet.holds

    def counted(self: PathSet, paths: Any) -> Any:
        looked_up.append(len(paths))
        return holds(self, paths)

    monkeypatch.setattr(PathSet, "holds", counted)
    table = make(tmp_path)
    for at in range(8):
        table.append(rows(at))
    live = [name for name in files_of(table.uri) if name.endswith(".parquet") and "_delta_log" not in name]
    orphans = [put(table.uri, f"day=b/{number}.parquet") for number in range(8)]
    found = inventory_of(table.uri, *live, *orphans, older_ms=30 * DAY_S * 1000)
    batches = pa.concat_tables([found.slice(at, 1) for at in range(found.num_rows)])
    assert sorted(table.vacuum(dry_run=True, inventory=batches).paths) == orphans
    assert sum(looked_up) == found.num_rows
    assert len(looked_up) <= 2 * vacuum_module._LOOK_UPS


def test_an_inventory_is_judged_in_columns_and_only_its_unusual_paths_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one_by_one: list[str] = []
    resolve = vacuum_candidates._below

    def counted(uri: str, text: str) -> str | None:
        one_by_one.append(text)
        return resolve(uri, text)

    monkeypatch.setattr(vacuum_candidates, "_below", counted)
    relative = [f"day={number}/a.parquet" for number in range(100)]
    whole = [f"s3://bucket/é/{name}" for name in relative]
    unusual = ["s3a://bucket/é/day=0/b.parquet", "s3://bucket/other/c.parquet", "/d.parquet", "file:e.parquet"]
    paths = [*relative, *whole, *unusual, "", None, "f/", "folder"]
    folders = Folders(())
    inventory = pa.table(
        {
            "path": pa.array(paths).dictionary_encode(),
            "length": pa.array([None, *[1] * (len(paths) - 1)], pa.int32()),
            "isDir": [None, *[False] * (len(paths) - 2), True],
            "modificationTime": pa.array([1] * len(paths)),
        }
    )
    found = pa.Table.from_batches(in_inventory("s3://bucket/é", inventory, folders))
    assert found["path"].to_pylist() == [*relative, *relative, "day=0/b.parquet", "e.parquet", "f/"]
    assert found["size_bytes"].to_pylist()[:2] == [0, 1]
    assert one_by_one == unusual
    assert folders.seen == {*(f"day={number}" for number in range(100)), "f"}


def test_an_inventory_may_be_one_batch_with_more_text_than_a_string_column_holds() -> None:
    """Its paths lie behind 2 GiB of memory that nothing wrote to, as those of a slice do."""
    start = 1 << 31
    text = mmap.mmap(-1, start + 64)
    text[start : start + 6] = b"a.pq" + b"b."
    buffers = [None, pa.py_buffer(np.array([start, start + 4, start + 6])), pa.py_buffer(text)]
    paths = pa.Array.from_buffers(pa.large_string(), 2, buffers)
    inventory = pa.table({"path": paths, "length": [1, 1], "isDir": [False] * 2, "modificationTime": [1, 1]})
    found = pa.Table.from_batches(in_inventory("/t", inventory, Folders(())))
    assert found["path"].to_pylist() == ["a.pq", "b."]


# --- folders of former partition columns ------------------------------------------------------------------------------


class Elsewhere(Executor):
    """An executor that may be other processes, as far as txlog knows: it lists the table in ranges of names."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def _repartitioned(tmp_path: Path, column: str, **properties: str) -> tuple[txlog.Table, int]:
    """A table that was partitioned by ``column``, and is not any longer; and the version that says so."""
    table = txlog.Table.create(tmp_path / "t", pa.schema({"id": pa.int64(), column: pa.string()}), [column], properties)
    table.append(pa.table({"id": [1], column: ["secret"]}))
    table.vacuum(0, force=True)  # a lite vacuum begins after it
    removed = table.overwrite(pa.table({"id": [9]}), schema_mode="overwrite", partition_by=[]).version
    assert removed is not None
    return table, removed


def _files_with(table: txlog.Table, word: str) -> list[str]:
    found = glob.glob(f"{table.uri}/**/*.parquet", recursive=True, include_hidden=True)
    return [path.removeprefix(f"{table.uri}/") for path in found if word in path]


@pytest.mark.parametrize("column", ["_p", ".p", "_a:b"])
@pytest.mark.parametrize("mode", ["full", "lite", "inventory", "workers"])
def test_a_vacuum_deletes_the_files_of_a_former_partition_column_whose_name_looks_hidden(
    tmp_path: Path, column: str, mode: str
) -> None:
    table, removed = _repartitioned(tmp_path, column)
    (path,) = _files_with(table, "secret")
    foreign = put(table.uri, "_other=1/file.parquet")
    promised = [each for each in table.check_deleted(removed).remains if each.path == path]
    assert [(each.kept_by, each.until is not None) for each in promised] == [("older versions", True)]
    inventory = pa.table({"path": [path, foreign], "length": [1, 1], "isDir": [False] * 2, "modificationTime": [0, 0]})
    done = table.vacuum(
        0,
        force=True,
        lite=mode == "lite",
        inventory=inventory if mode == "inventory" else None,
        workers=Elsewhere() if mode == "workers" else None,
    )
    assert (done.paths, done.mode) == ((path,), "lite" if mode == "lite" else "full")
    assert not _files_with(table, "secret")
    assert not [each for each in table.check_deleted(removed).remains if each.path == path]
    assert Path(table.uri, foreign).exists(), "no version of the table has had this partition column"


def test_files_that_no_commit_names_in_a_former_partition_folder_are_deleted_as_long_as_the_log_has_the_version(
    tmp_path: Path,
) -> None:
    table, removed = _repartitioned(tmp_path, "_p", **{"delta.enableChangeDataFeed": "true"})
    orphans = [put(table.uri, "_p=b/orphan.parquet"), put(table.uri, "_change_data/_p=b/cdc.parquet")]
    told = {each.path: each.until for each in table.check_deleted(removed).remains}
    assert all(told[orphan] is not None for orphan in orphans)
    assert set(orphans) <= set(table.vacuum(0, force=True).paths)


def test_a_former_partition_column_that_only_removed_files_tell_of_is_known_to_a_vacuum(tmp_path: Path) -> None:
    table, removed = _repartitioned(tmp_path, "_p")
    table.create_checkpoint()
    for version in range(removed + 1):
        Path(table.uri, "_delta_log", f"{version:020}.json").unlink()
    (path,) = _files_with(table, "secret")
    table = txlog.Table.open(table.uri)
    assert [each.until is not None for each in table.check_deleted(removed).remains if each.path == path] == [True]
    assert path in table.vacuum(0, force=True).paths
    assert not _files_with(table, "secret")
    assert table.to_arrow()["id"].to_pylist() == [9]


@pytest.mark.parametrize("has_commits", [True, False], ids=["commits", "only a checkpoint"])
def test_a_former_partition_column_that_no_removed_file_tells_of_is_known_to_a_vacuum(
    tmp_path: Path, has_commits: bool
) -> None:
    """Its only files are those of a writer that died before its commit."""
    schema = pa.schema({"id": pa.int64(), "_p": pa.string()})
    table = txlog.Table.create(tmp_path / "t", schema, ["_p"])
    table.set_properties({"a": "b"})
    if not has_commits:
        table.create_checkpoint()
        for version in range(table.version + 1):
            Path(table.uri, "_delta_log", f"{version:020}.json").unlink()
    orphan = put(table.uri, "_p=b/orphan.parquet")
    foreign = put(table.uri, "_other=1/file.parquet")
    table = txlog.Table.open(table.uri)
    table.overwrite(pa.table({"id": [9]}), schema_mode="overwrite", partition_by=[])
    table = txlog.Table.open(table.uri)
    told = {each.path: each.until is not None for each in table.check_deleted(table.version).remains}
    assert (told[orphan], told[foreign]) == (True, False)
    assert table.vacuum(0, force=True).paths == (orphan,)
    assert Path(table.uri, foreign).exists()


def test_what_no_vacuum_deletes_is_not_promised_away(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows(1))
    table.delete(all=True)
    foreign = put(table.uri, "_other=1/file.parquet")
    (told,) = [each for each in table.check_deleted(table.version).remains if each.path == foreign]
    assert (told.kept_by, told.until) == ("no version", None)
    assert foreign not in table.vacuum(0, force=True).paths


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hours", [1e300, sys.float_info.max, 10**400, 2**63], ids=["1e300", "max", "10**400", "2**63"])
def test_a_retention_of_any_length_keeps_everything(tmp_path: Path, hours: float) -> None:
    txlog.write(tmp_path / "t", pa.table({"x": [1]}))
    table = txlog.Table.open(tmp_path / "t")
    table.overwrite(pa.table({"x": [2]}))
    assert table.vacuum(hours).paths == ()
    assert table.to_arrow()["x"].to_pylist() == [2]


def test_a_retention_shorter_than_the_tables_is_refused_unless_it_is_forced(tmp_path: Path) -> None:
    table = make(tmp_path)
    orphan = put(table.uri, "orphan.parquet", days=1)
    for dry_run in (True, False):
        with pytest.raises(txlog.InvalidInputError, match=r"which is 168 hours.*force=True"):
            table.vacuum(1, dry_run=dry_run)
    assert table.version == 0
    assert table.vacuum(1, force=True).paths == (orphan,)
    table.set_properties({"delta.deletedFileRetentionDuration": "interval 2 hours"})
    put(table.uri, "orphan.parquet", days=1)
    assert table.vacuum(3).paths == (orphan,)


@pytest.mark.parametrize("hours", [-1, True, "168", float("nan"), float("inf")])
def test_a_retention_that_is_no_number_of_hours_is_refused(tmp_path: Path, hours: Any) -> None:
    with pytest.raises(txlog.InvalidInputError, match="retention_hours"):
        make(tmp_path).vacuum(hours, force=True)


def _rewrite_definition(table: txlog.Table, change: Callable[[dict[str, Any]], None]) -> txlog.Table:
    commit = Path(table.uri, "_delta_log", f"{0:020}.json")
    actions = [orjson.loads(line) for line in commit.read_bytes().splitlines()]
    for action in actions:
        change(action)
    actions[0]["commitInfo"].pop("txlog", None)
    commit.write_bytes(b"".join(orjson.dumps(action) + b"\n" for action in actions))
    return txlog.Table.open(table.uri)


def test_a_retention_that_cannot_be_read_is_not_guessed(tmp_path: Path) -> None:
    def spoil(action: dict[str, Any]) -> None:
        if "metaData" in action:
            action["metaData"]["configuration"]["delta.deletedFileRetentionDuration"] = "interval 1 month"

    table = _rewrite_definition(make(tmp_path), spoil)
    with pytest.raises(txlog.InvalidInputError, match="interval 1 month"):
        table.vacuum()
    assert table.vacuum(1000).paths == ()


def test_a_table_whose_rows_have_rules_that_txlog_does_not_write_is_vacuumed(tmp_path: Path) -> None:
    def add_rules(action: dict[str, Any]) -> None:
        if "protocol" in action:
            action["protocol"] = {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["vacuumProtocolCheck"],
                "writerFeatures": ["checkConstraints", "generatedColumns", "clustering", "vacuumProtocolCheck"],
            }
        if "metaData" in action:
            schema = orjson.loads(action["metaData"]["schemaString"])
            schema["fields"][0]["metadata"] = {"delta.generationExpression": "reflect(id)"}
            action["metaData"]["schemaString"] = orjson.dumps(schema).decode()
            action["metaData"]["configuration"]["delta.constraints.c"] = "id > 0"

    table = _rewrite_definition(make(tmp_path), add_rules)
    with pytest.raises(txlog.UnsupportedFeatureError):
        table.append(rows(1))
    orphan = put(table.uri, "orphan.parquet")
    assert table.vacuum().paths == (orphan,)


def test_a_table_with_an_unknown_feature_is_not_vacuumed(tmp_path: Path) -> None:
    def add_feature(action: dict[str, Any]) -> None:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["fromTheFuture"]}

    table = _rewrite_definition(make(tmp_path), add_feature)
    orphan = put(table.uri, "orphan.parquet")
    with pytest.raises(txlog.UnsupportedFeatureError, match="fromTheFuture"):
        table.vacuum()
    assert Path(table.uri, orphan).exists()


def test_a_clock_that_is_ahead_of_the_stores_deletes_nothing(tmp_path: Path) -> None:
    table = make(tmp_path)
    orphan = put(table.uri, "orphan.parquet", days=0)
    clock = StoppedClock()
    clock.moment_ms = ambient.now_ms()
    clock.pass_hours(24 * 30)
    with ambient.use(clock), pytest.raises(txlog.StorageError, match=r"720\.0 hours ahead"):
        table.vacuum()
    assert Path(table.uri, orphan).exists()
    assert table.history(1)[0]["operationParameters"] == {"status": "FAILED"}


def test_a_clock_that_is_ahead_deletes_no_young_checkpoint_without_a_name_where_no_file_is_to_go(
    tmp_path: Path,
) -> None:
    """It may be about to get its name. No file of the table is old, so nothing else asks for the clock."""
    table = make(tmp_path)
    young = put(table.uri, "_txlog/versions/a.0.files", days=0)
    clock = StoppedClock()
    clock.moment_ms = ambient.now_ms()
    clock.pass_hours(24 * 30)
    with ambient.use(clock), pytest.raises(txlog.StorageError, match=r"720\.0 hours ahead"):
        table.vacuum()
    assert Path(table.uri, young).exists()


def test_a_writer_whose_clock_is_behind_the_tables_own_does_not_shorten_the_retention(time: StoppedClock) -> None:
    """With in-commit timestamps the time of a version is known: no file of it was removed before then."""
    table, _ = in_memory(**{"delta_enableInCommitTimestamps": "true"})
    table.append(rows(1))
    time.pass_hours(24 * 30)
    table.append(rows(2))
    time.pass_hours(-24 * 20)
    table.overwrite(rows(3))
    time.pass_hours(24 * 21)  # the right time again, a day after the overwrite in fact
    assert table.vacuum().paths == ()
    assert sorted(table.snapshot(2).to_arrow()["id"].to_pylist()) == [1, 2]
    time.pass_hours(24 * 7)
    assert len(table.vacuum().paths) == 2


# --- others ---------------------------------------------------------------------------------------------------------


def test_two_concurrent_vacuums_do_no_harm(tmp_path: Path) -> None:
    first = make(tmp_path)
    put(first.uri, "orphan.parquet")
    store = open_store(first.uri)
    log = FaultyLogStore(store.log)
    log.script["put_if_absent"] = [lambda real, *call: (first.vacuum(), real(*call))[1]]
    second = txlog.Table(OpenTable(replace(store, log=log)))
    assert second.vacuum().paths == ("orphan.parquet",)
    assert [entry["operation"] for entry in second.history(4)] == ["VACUUM END", "VACUUM START"] * 2


def test_deltalake_deletes_the_same_files_of_a_copy(tmp_path: Path) -> None:
    table = make(tmp_path)
    for at in range(4):
        table.append(rows(at, day="ab"[at % 2]))
    table.delete("id = 1")
    table.overwrite(rows(9), where="day = 'a'")
    for name in ("day=a/old.parquet", "day=c/old.parquet", "_hidden/x", "x.crc"):
        put(table.uri, name, days=30)
    put(table.uri, "young.parquet", days=1)
    age(table.uri, days=8)
    shutil.copytree(table.uri, tmp_path / "copy")
    ambient.sleep(0.01)  # what was removed just now is then older than now
    for hours, force in ((168, False), (0, True)):
        theirs = deltalake.DeltaTable(tmp_path / "copy").vacuum(
            hours, dry_run=False, enforce_retention_duration=not force, full=True
        )
        ours = table.vacuum(hours, force=force)
        assert set(ours.paths) == set(theirs)
        assert ours.paths
    assert sorted(table.snapshot().to_arrow()["id"].to_pylist()) == [3, 9]


CHANGES: dict[str, Callable[[txlog.Table], Any]] = {
    "append": lambda t: t.append(pa.table({"id": [9]})),
    "upsert": lambda t: t.upsert(pa.table({"id": [1, 9]}), ["id"]),
    "merge": lambda t: t.merge(pa.table({"id": [1]}), ["id"]).when_matched_delete().execute(),
    "update": lambda t: t.update({"id": txlog.expr("id + 10")}, "id < 2"),
    "delete": lambda t: t.delete("id = 1"),
    "optimize": lambda t: t.optimize(),
}


def _two_files(path: Path, **properties: str) -> txlog.Table:
    table = txlog.Table.create(path, "id bigint", (), {f"delta.{name}": value for name, value in properties.items()})
    for ids in ([1, 2, 3], [4, 5, 6]):
        table.append(pa.table({"id": ids}))
    return table


@pytest.mark.parametrize("before", ["nothing", "an append", "an optimize"])
@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_whose_files_a_forced_vacuum_deletes_is_refused(
    change: str, vectors: str, before: str, tmp_path: Path
) -> None:
    """The files were there when it sent its commit, which lost the race to the vacuum's first one."""
    table = _two_files(tmp_path / "t", enableDeletionVectors=vectors)

    def rival(other: txlog.Table) -> None:
        if before == "an append":
            other.append(pa.table({"id": [20]}))
        elif before == "an optimize":
            other.optimize()
        vacuum_all(other)

    with pytest.raises(txlog.ConcurrentDeleteReadError, match="so short a retention"):
        CHANGES[change](losing_to(table, rival))
    expected = [1, 2, 3, 4, 5, 6, *([20] if before == "an append" else [])]
    assert sorted(txlog.Table.open(table.uri).to_arrow()["id"].to_pylist()) == expected
    files = deltalake.DeltaTable(table.uri).file_uris()
    assert all(os.path.exists(each) for each in files)
    assert pa.concat_tables(map(pq.read_table, files)).num_rows == len(expected)


def _calls_first(store: TableStore, number: int, first: Callable[[], Any]) -> list[str]:
    """Has ``first`` run before the call of this number, of all calls to the log and to the data files; they are named
    in the list that is returned."""
    made: list[str] = []

    def call(real: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        made.append(name)
        if len(made) == number:
            first()
        return real(*args, **kwargs)

    for part in (store.log, store.files):
        for name in dir(part):
            if not name.startswith("_") and callable(getattr(part, name)):
                setattr(part, name, functools.partial(call, getattr(part, name), name))
    return made


@pytest.mark.parametrize("vectors", ["true", pytest.param("false", marks=pytest.mark.hunt(part="races"))])
@pytest.mark.parametrize("change", CHANGES)
def test_a_forced_vacuum_before_any_call_of_a_change_costs_an_acknowledged_change_nothing(
    change: str, vectors: str, tmp_path: Path
) -> None:
    """Also where its files are older than the version that it then reads, in which the vacuum has begun."""
    outcomes: set[str] = set()
    for number in itertools.count(1):
        table = _two_files(tmp_path / str(number), enableDeletionVectors=vectors)
        ours = txlog.Table.open(table.uri)
        force_setattr(ours._open_table.store, "commit_queue", OPEN)  # the vacuum would wait until our turn is over
        calls = _calls_first(ours._open_table.store, number, lambda uri=table.uri: vacuum_all(txlog.Table.open(uri)))
        try:
            CHANGES[change](ours)
            outcome = "acknowledged"
        except (txlog.ConcurrentDeleteReadError, txlog.NotFoundError) as error:
            outcome = str(error)
        said = [each for each in ("acknowledged", "so short a retention", "run the write again") if each in outcome]
        assert len(said) == 1, outcome
        outcomes.update(said)
        if len(calls) < number:
            break
        files = deltalake.DeltaTable(table.uri).file_uris()
        assert all(os.path.exists(each) for each in files), calls[number - 1]
        assert txlog.Table.open(table.uri).to_arrow().num_rows >= 5, calls[number - 1]
    assert outcomes >= {"acknowledged", "so short a retention"}


def test_a_vector_that_a_forced_vacuum_deletes_before_its_commit_is_planned_is_named_by_no_commit(
    tmp_path: Path,
) -> None:
    """The vacuum's clock is the same, so it began after the vector was written, and before the commit's own time."""
    table = _two_files(tmp_path / "t", enableDeletionVectors="true")

    def vacuum(call: StoreCall) -> None:
        if call.operation == "make_durable" and call.name.startswith("deletion_vector") and call.number == 1:
            table.vacuum(0, force=True)

    store = open_store(table.uri)
    ours = txlog.Table(OpenTable(replace(store, files=FaultyFileStore(store.files, vacuum), commit_queue=OPEN)))
    with pytest.raises(txlog.ConcurrentDeleteReadError, match="so short a retention"):
        ours.delete("id = 1")
    assert txlog.Table.open(table.uri).to_arrow().num_rows == 6


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_beside_a_vacuum_with_the_tables_retention_lands(change: str, tmp_path: Path) -> None:
    table = _two_files(tmp_path / "t")
    txlog.Table.open(table.uri).update({"id": txlog.expr("id")}, "id = 4")
    (tmp_path / "t" / "stray.parquet").write_bytes(b"old")
    os.utime(tmp_path / "t" / "stray.parquet", (0, 0))
    CHANGES[change](losing_to(table, lambda other: other.vacuum()))
    files = deltalake.DeltaTable(table.uri).file_uris()
    rows = pa.concat_tables(map(pq.read_table, files))["id"].to_pylist()
    changed = {
        "append": [1, 2, 3, 4, 5, 6, 9],
        "upsert": [1, 2, 3, 4, 5, 6, 9],
        "update": [2, 3, 4, 5, 6, 11],
        "optimize": [1, 2, 3, 4, 5, 6],
    }
    assert sorted(rows) == changed.get(change, [2, 3, 4, 5, 6])
    assert not (tmp_path / "t" / "stray.parquet").exists()


def test_a_write_that_knew_of_a_vacuum_when_it_began_lands_whatever_the_clocks_say(tmp_path: Path) -> None:
    """The vacuum had listed what it deletes before. It died then, so that its start is the newest version."""
    table = make(tmp_path)
    table.append(rows(1))
    table.delete(all=True)
    broken = txlog.Table.open(table.uri)

    def delete(path: str) -> None:
        raise KeyboardInterrupt

    broken._open_table.store.files.delete = delete  # type: ignore[method-assign]
    with ambient.use(Later()), pytest.raises(KeyboardInterrupt):
        broken.vacuum(0, force=True)
    ours = txlog.Table.open(table.uri)
    assert ours.history(1)[0]["operation"] == "VACUUM START"
    ours.append(rows(2))
    assert deltalake.DeltaTable(table.uri).to_pyarrow_table().num_rows == 1


def test_files_of_tasks_that_a_forced_vacuum_deleted_are_refused_on_a_newer_definition_too(tmp_path: Path) -> None:
    table = make(tmp_path)
    ours = losing_to(table, lambda rival: rival.add_columns("theirs string"))._open_table
    data = rows(7).append_column("ours", pa.array(["x"]))
    job = plan_write(ours, data.schema, WriteOptions(schema_mode="merge"))
    committable = write_task(ours.store.files, job.plan, job.task(0), open_data(data))
    looks = ours.writable_state

    def after_a_vacuum() -> Any:
        if txlog.Table.open(table.uri).version:  # the first race is lost
            vacuum_all(txlog.Table.open(table.uri))
        return looks()

    ours.writable_state = after_a_vacuum  # type: ignore[method-assign]
    with pytest.raises(txlog.ConcurrentDeleteReadError, match="so short a retention"):
        GlobalCommitter(ours).commit(job, [committable])
    assert deltalake.DeltaTable(table.uri).to_pyarrow_table().num_rows == 0


def test_the_empty_object_that_marks_a_folder_is_no_orphan_whatever_its_name() -> None:
    pieces = ("a", ".", "/", "=", "_$folder$", "p=1.5", "b.parquet")
    names = sorted({"".join(parts) for count in (1, 2, 3) for parts in itertools.product(pieces, repeat=count)})
    listing = pa.record_batch([names, [0] * len(names), [0] * len(names)], schema=LISTED)
    left = [name for name in names if not is_folder_marker(name, 0)]
    assert without_markers(listing)["path"].to_pylist() == left
    assert "a.b.parquet" in left
