"""What is left of deleted rows and columns: every file whose bytes still hold them is named, and in the end none is.

The oracle is the storage itself: files are written uncompressed, so a value is in a file if its bytes are.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

import txlog
from txlog.audit import deletion_check as remains
from txlog.core import ambient
from txlog.core.definition import create_table
from txlog.core.format.log_names import commit_name
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.proposal import Isolation, OperationInfo
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.errors import NotFoundError, TxlogError
from txlog.result import in_milliseconds
from txlog.result.audits import DeletionCheck
from txlog.testing.memory_store import MemoryFileStore, memory_table_store

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MARK = "Mallory Archer"


class Clock(ambient.Ambient):
    """A millisecond passes with each look at it. It begins now: threads that write files have a clock of their own."""

    def __init__(self) -> None:
        self.moment_ms = ambient.now_ms()

    def now_ms(self) -> int:
        self.moment_ms += 1
        return self.moment_ms


@pytest.fixture(autouse=True)
def time() -> Iterator[Clock]:
    clock = Clock()
    with ambient.use(clock):
        yield clock


class World:
    """A table in memory whose files can be searched for a value."""

    def __init__(self, **properties: str) -> None:
        self.store = memory_table_store()
        wanted = {"delta.parquet.compression.codec": "uncompressed", "delta.enableDeletionVectors": "true"}
        wanted |= {f"delta.{key}": value for key, value in properties.items()}
        create_table(OpenTable(self.store), "id bigint, name string, day string", ("day",), wanted)
        self.table = txlog.Table(OpenTable(self.store))

    def append(self, *names: str, day: str = "a") -> None:
        self.table.append(pa.table({"id": range(len(names)), "name": names, "day": [day] * len(names)}))

    def holding(self) -> set[str]:
        """The data files that hold the value."""
        files = self.store.files
        assert isinstance(files, MemoryFileStore)
        return {path for path, (body, _) in files.objects.items() if MARK.encode() in body}

    def log_holding(self) -> set[str]:
        return {
            f"_delta_log/{meta.name}"
            for meta in self.store.log.list_from("")
            if b'"' + MARK.encode() + b'\\"' in self.store.log.read(meta.name)
            or MARK.encode() in self.store.log.read(meta.name)
        }

    def check(self, version: int | None) -> DeletionCheck:
        """What is found, of which the value's files must be a part."""
        found = self.table.check_deleted(version)
        named = {each.path for each in found.remains}
        assert self.holding() <= named
        if version is not None:
            assert self.log_holding() <= named
        return found


def kept(found: DeletionCheck) -> dict[str, list[str]]:
    by: dict[str, list[str]] = {}
    for each in found.remains:
        by.setdefault(each.kept_by, []).append(each.path)
    return by


def test_a_deleted_row_is_followed_from_the_live_file_to_the_empty_storage(time: Clock) -> None:
    world = World()
    world.append("Ann", MARK)
    world.append("Bob")
    deleted = world.table.delete(f"name = '{MARK}'").version
    (live,) = world.holding()
    assert kept(world.check(deleted))["the newest version"] == [live]

    report = world.table.purge()
    assert report.paths_removed == (live,)
    found = world.check(deleted)
    (old,) = [each for each in found.remains if each.kept_by == "older versions"]
    assert old.path == live
    assert old.until is not None
    assert report.kept_until is not None
    assert timedelta(0) <= report.kept_until - old.until < timedelta(seconds=1)

    time.moment_ms = in_milliseconds(report.kept_until) + 1
    world.table.vacuum()
    assert world.holding() == set()
    found = world.check(deleted)
    assert found.rows_are_gone
    assert not found.is_gone
    assert set(kept(found)) == {"the log"}
    assert found.until is not None

    time.moment_ms = in_milliseconds(found.until) + 1
    world.append("Cid")
    world.table.create_checkpoint()
    time.moment_ms += 40 * DAY_MS
    world.append("Dan")
    world.table.clean_up_log()
    found = world.check(deleted)
    assert world.log_holding() == set()
    assert found.is_gone
    assert found.version > deleted
    assert str(found).endswith("nothing is left)")


@pytest.mark.parametrize("with_vectors", ["true", "false"])
def test_iceberg_metadata_with_bounds_of_the_rows_is_named_until_a_rebuild_has_replaced_it(
    with_vectors: str, tmp_path: Path, time: Clock
) -> None:
    properties = {"txlog.iceberg": "v2", "delta.enableDeletionVectors": with_vectors}
    table = txlog.Table.create(tmp_path / "t", "name string", properties=properties)
    table.append(pa.table({"name": [MARK, *"abc"]}))
    table.export_iceberg()
    deleted = table.delete(f"name = '{MARK}'").version
    table.purge()
    table.export_iceberg()
    time.moment_ms += 60_000  # files on a disk have its clock
    table.vacuum(0, force=True)
    found = table.check_deleted(deleted)
    assert found.rows_are_gone
    holding = {f"_iceberg/metadata/{name}" for name in told_of(tmp_path / "t")}
    assert len(holding) == 2
    assert holding <= set(kept(found)["Iceberg metadata"])

    table.export_iceberg(rebuild=True)
    for path in (tmp_path / "t" / "_iceberg" / "metadata").iterdir():
        os.utime(path, (path.stat().st_mtime - 2 * 3600,) * 2)
    table.append(pa.table({"name": ["d"]}))
    table.export_iceberg(rebuild=True)
    assert told_of(tmp_path / "t") == set()
    assert set(kept(table.check_deleted(deleted))) == {"the log"}


def told_of(root: Path) -> set[str]:
    """The manifests in which the value is a bound, decoded by another library."""
    return {
        path.name
        for path in (root / "_iceberg" / "metadata").glob("*-m0.avro")
        if MARK[:8].encode() in repr(list(fastavro.reader(path.open("rb")))).encode()
    }


def test_a_copy_of_the_rows_that_stay_leaves_the_old_file_to_older_versions() -> None:
    world = World(enableDeletionVectors="false")
    world.append("Ann", MARK)
    deleted = world.table.delete(f"name = '{MARK}'").version
    assert kept(world.check(deleted))["older versions"] == [*world.holding()]


def test_a_named_version_keeps_the_rows_until_it_is_untagged_and_vacuumed(time: Clock) -> None:
    world = World()
    world.append("Ann", MARK)
    world.table.tag("before")
    deleted = world.table.delete(f"name = '{MARK}'").version
    report = world.table.purge()
    assert report.kept_by == ("before",)
    time.moment_ms += 8 * DAY_MS
    world.table.vacuum()
    found = world.check(deleted)
    named = [each for each in found.remains if each.kept_by == "a named version"]
    assert {each.path for each in named} > world.holding() != set()  # the checkpoint kept with the name has bounds
    assert {each.name for each in named} == {"before"}
    assert found.until is None
    world.table.untag("before")
    world.table.vacuum()
    assert world.holding() == set()
    assert world.check(deleted).rows_are_gone


def test_change_data_keeps_the_rows_for_the_retention(time: Clock) -> None:
    world = World(enableChangeDataFeed="true")
    world.append("Ann", MARK)
    deleted = world.table.delete(f"name = '{MARK}'").version
    world.table.purge()
    (change,) = [path for path in world.holding() if path.startswith("_change_data/")]
    assert kept(world.check(deleted))["change data"] == [change]
    time.moment_ms += 8 * DAY_MS
    world.table.vacuum()
    assert world.check(deleted).rows_are_gone


def test_staged_work_and_files_that_no_commit_names_are_named(time: Clock) -> None:
    world = World()
    world.append("Ann", MARK)
    with (sink := txlog.Sink(world.table, "app")).task(1) as task:
        task.write(pa.table({"id": [7], "name": [MARK], "day": ["a"]}))
    sink.stage(task.committable)
    sink.prepare(1, [0])
    (staged,) = (file.path for file in task.committable.files)
    world.store.files.publish("day=a/orphan.parquet", MARK.encode())
    deleted = world.table.delete(f"name = '{MARK}'").version
    found = kept(world.check(deleted))
    assert found["staging"][0] == staged
    assert [path.startswith("_txlog/staging/") for path in found["staging"][1:]] == [True]  # it has bounds
    assert found["no version"] == ["day=a/orphan.parquet"]


def holding_on_disk(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file() and MARK in _text(path)}


def _text(path: Path) -> str:
    if path.suffix in (".parquet", ".files"):
        return str(pq.read_table(path, partitioning=None).to_pylist())
    return path.read_bytes().decode("latin-1")


def on_disk(tmp_path: Path) -> txlog.Table:
    table = txlog.Table.create(tmp_path / "t", "id bigint, name string")
    table.append(pa.table({"id": [1], "name": [MARK]}))
    return table


def test_what_a_task_staged_is_named_since_it_has_bounds_of_its_files(tmp_path: Path) -> None:
    table = on_disk(tmp_path)
    with (sink := txlog.Sink(table, "app")).task(1) as task:
        task.write(pa.table({"id": [7], "name": [MARK]}))
    sink.stage(task.committable)
    for file in task.committable.files:
        Path(table.uri, file.path).unlink()  # another engine's vacuum does not know staged work
    deleted = table.delete("id >= 0").version
    (staged,) = (path for path in holding_on_disk(Path(table.uri)) if path.startswith("_txlog/staging/"))
    assert kept(table.check_deleted(deleted))["staging"] == [staged]
    sink.discard(1)
    assert "staging" not in kept(table.check_deleted(deleted))


def test_a_checkpoint_that_lost_its_name_in_a_crash_is_named_until_a_vacuum_deletes_it(tmp_path: Path) -> None:
    table = on_disk(tmp_path)
    table.tag("before")
    root = Path(table.uri)
    (root / "_txlog" / "versions" / "before.version").unlink()
    deleted = table.delete("id >= 0").version
    (left,) = (path for path in holding_on_disk(root) if path.startswith("_txlog/versions/"))
    assert kept(table.check_deleted(deleted))["no version"] == [left]
    table.vacuum()
    assert (root / left).exists()  # its name may be about to be written
    age(root, days=2)
    table.vacuum()
    assert not (root / left).exists()
    assert "no version" not in kept(table.check_deleted(deleted))


def test_files_next_to_the_log_that_no_reader_uses_are_named(tmp_path: Path) -> None:
    """What a crash left of a commit, what another program put there, and harmless checksums."""
    table = on_disk(tmp_path)
    root = Path(table.uri)
    body = (root / "_delta_log" / f"{1:020}.json").read_bytes()
    left = f"_delta_log/.{1:020}.json.{ambient.uuid4()}.tmp"
    others = [f"_delta_log/_commits/{1:020}.{ambient.uuid4()}.json", "_txlog/copy/commit.json", "_iceberg/old/v1.json"]
    harmless = [f"_delta_log/.{1:020}.json.crc", "_delta_log/.empty", ".part-0.parquet.crc"]
    for path in (left, *others, *harmless, "_temporary/commit.json"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(body if path not in harmless else b"" if path.endswith("empty") else b"crc")
    deleted = table.delete("id >= 0").version
    found = table.check_deleted(deleted)
    named = {each.path: each for each in found.remains}
    assert holding_on_disk(root) <= named.keys()
    assert not named.keys() & set(harmless)
    assert named[left].until is not None
    # No vacuum and no clean-up of the log deletes these, so no time is promised.
    assert [named[path].until for path in (*others, "_temporary/commit.json")] == [None] * 4

    age(root, days=2)
    table.clean_up_log()
    assert left not in {each.path for each in table.check_deleted(deleted).remains}


def age(root: Path, days: float) -> None:
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, (path.stat().st_mtime - days * 86_400,) * 2)


def test_a_dropped_column_counts_until_its_values_are_purged(time: Clock) -> None:
    world = World(**{"columnMapping.mode": "name"})
    world.append("Ann", MARK)
    state = world.table._open_table.log.newest_state()
    schema = state.metadata.schema_string
    fields = json.loads(schema)
    fields["fields"] = [each for each in fields["fields"] if each["name"] != "name"]
    builder = ProposalBuilder(state)
    builder.define(replace(state.metadata, schema_string=json.dumps(fields)), None)
    open_table = world.table._open_table
    dropped = open_table.commit_change(builder, OperationInfo("DROP COLUMNS"), Isolation.SERIALIZABLE).version
    (live,) = world.holding()
    assert kept(world.check(dropped))["the newest version"] == [live]
    world.table.purge()
    time.moment_ms += 8 * DAY_MS
    world.table.vacuum()
    assert world.holding() == set()
    assert world.check(dropped).rows_are_gone


def test_a_restore_that_brings_the_rows_back_is_reported() -> None:
    world = World()
    world.append("Ann", MARK)
    deleted = world.table.delete(f"name = '{MARK}'").version
    world.table.purge()
    world.table.restore(deleted - 1)
    assert kept(world.check(deleted))["the newest version"] == [*world.holding()]


@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.parametrize("by", ["a clone", "add_files"])
def test_a_removed_file_that_something_else_than_a_restore_brings_back_is_reported(
    tmp_path: Path, by: str, vectors: str
) -> None:
    source = txlog.Table.create(tmp_path / "s", "name string", properties={"delta.enableDeletionVectors": vectors})
    source.append(pa.table({"name": [MARK, "Ann"]}))
    table = source
    if by == "a clone":
        source.clone(tmp_path / "t")
        table = txlog.Table.open(tmp_path / "t")
    (path,) = table.files()["path"].to_pylist()
    deleted = table.delete(f"name = '{MARK}'").version
    table.purge()
    if by == "a clone":
        source.clone(table.uri, mode="replace")
    else:
        table.delete(all=True)
        table.add_files([path])
    assert MARK in table.to_arrow()["name"].to_pylist()
    found = table.check_deleted(deleted)
    assert path in kept(found)["the newest version"]
    assert not found.rows_are_gone


def test_a_removed_file_that_comes_back_is_reported_when_the_log_has_forgotten_its_removal(
    tmp_path: Path, time: Clock
) -> None:
    properties = {"delta.enableDeletionVectors": "false", "delta.deletedFileRetentionDuration": "interval 0 seconds"}
    table = txlog.Table.create(tmp_path / "t", "name string", properties=properties)
    table.append(pa.table({"name": [MARK, "Ann"]}))
    (path,) = table.files()["path"].to_pylist()
    deleted = table.delete(f"name = '{MARK}'").version
    time.moment_ms += HOUR_MS
    table.create_checkpoint()
    table = txlog.Table.open(table.uri)
    added = table.add_files([path]).version
    assert MARK in table.to_arrow()["name"].to_pylist()
    found = table.check_deleted(deleted)
    assert kept(found)["the newest version"] == [path]
    again = table.delete(f"name = '{MARK}'").version
    table.vacuum(0, force=True)
    found = table.check_deleted(deleted)
    assert found.rows_are_gone
    with_bounds = f"_delta_log/{commit_name(added)}"
    assert with_bounds in {each.path for each in found.remains}, "the file is gone, and its bounds are in the log"
    assert table.check_deleted(again).rows_are_gone


def test_a_file_counts_as_one_that_came_back_if_it_is_no_newer_than_the_version_before_the_delete() -> None:
    world = World()
    world.append("Ann", MARK)
    deleted = world.table.delete(f"name = '{MARK}'").version
    world.append("Bob", day="b")
    (path,) = (path for path in world.table.files()["path"].to_pylist() if path.startswith("day=b"))
    before, at = (world.store.log.stat(commit_name(version)).modified_ms for version in (deleted - 1, deleted))
    assert before < at

    def is_reported(written_ms: int, version: int) -> bool:
        files = world.store.files
        assert isinstance(files, MemoryFileStore)
        files.objects[path] = files.objects[path][0], written_ms
        return path in {each.path for each in world.check(version).remains}

    assert is_reported(before, deleted)
    assert not is_reported(before + 1, deleted)
    assert not is_reported(at, deleted), "clocks of stores may be coarse"
    assert not is_reported(before, world.table.version), "it has no deleted rows there"


def test_what_was_added_later_is_not_counted() -> None:
    world = World()
    world.append("Ann", MARK)
    deleted = world.table.delete("id >= 0").version
    world.table.vacuum(0, force=True)
    world.append("Bob")
    world.table.delete("name = 'Bob'")
    world.append("Cid", "Dan")
    world.append("Eve")
    world.table.update({"id": txlog.expr("id + 1")}, "name = 'Cid'")
    world.table.optimize()
    found = world.table.check_deleted(deleted)
    assert found.rows_are_gone, found.remains
    assert not world.table.check_deleted().rows_are_gone


def test_an_unclean_file_costs_nothing_more_for_each_later_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    for number in range(5):
        world.append("Ann", MARK, day=str(number))
    deleted = world.table.delete(f"name = '{MARK}'").version
    looked_at: list[str] = []
    name_of = remains._last_name
    monkeypatch.setattr(remains, "_last_name", lambda path: looked_at.append(path) or name_of(path))
    for _ in range(10):
        world.append("Bob")
    world.check(deleted)
    assert len(looked_at) == 5


def test_a_version_that_does_not_exist_yet_is_refused() -> None:
    world = World()
    with pytest.raises(NotFoundError):
        world.table.check_deleted(5)


@pytest.mark.parametrize("seed", range(12))
def test_after_any_history_every_file_with_the_value_is_named_and_a_vacuum_leaves_none(seed: int, time: Clock) -> None:
    chance = random.Random(seed)
    world = World(enableChangeDataFeed=chance.choice(["true", "false"]))
    world.append("Ann", MARK)

    def tag() -> None:
        world.table.tag(f"t{time.moment_ms}")

    def untag() -> None:
        for named in world.table.tags():
            world.table.untag(named.name)

    steps = [
        lambda: world.append("Ann", MARK, "Bob", day=chance.choice("ab")),
        lambda: world.table.update({"id": txlog.expr("id + 1")}, "name <> 'Bob'"),
        lambda: world.table.delete("id > 2"),
        lambda: world.table.optimize(),
        lambda: world.table.purge(),
        lambda: world.table.vacuum(0, force=True),
        lambda: world.table.restore(chance.randrange(world.table.version + 1), allow_missing_files=True),
        lambda: world.table.create_checkpoint(),
        tag,
        untag,
    ]
    for _ in range(chance.randrange(3, 12)):
        try:
            chance.choice(steps)()
        except TxlogError:
            continue
    deleted = world.table.delete(f"name = '{MARK}'").version
    later = [step for number, step in enumerate(steps) if number not in (0, 6)]
    for _ in range(chance.randrange(6)):
        try:
            chance.choice(later)()
        except TxlogError:
            continue
        world.check(deleted)
    untag()
    world.table.purge()
    time.moment_ms += 8 * DAY_MS
    world.table.vacuum()
    assert world.holding() == set()
    assert world.check(deleted).rows_are_gone
