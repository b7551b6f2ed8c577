"""Log cleanup against the log it cleans: whatever is cut short, every version that is kept reads as before."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import txlog
from txlog.core import ambient
from txlog.core.format.log_names import checkpoint_name, checksum_name, commit_name, compacted_name, v2_checkpoint_name
from txlog.core.store import TableStore
from txlog.core.versions.files import DeltaLog
from txlog.core.versions.upkeep._log_clean_up import clean_up_log
from txlog.errors import NotFoundError, StorageError, UnsupportedFeatureError
from txlog.result.maintenance import LogCleanUp
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore

DAY_MS = 86_400_000
NOW_MS = 20_000 * DAY_MS + 5
UUIDS = ["80a083e8-7026-4e79-81be-64bd76c43a11", "0d1ba1c7-9d4c-4a3a-8a3a-000000000002"]


class At(ambient.Ambient):
    def __init__(self, now_ms: int) -> None:
        self.moment_ms = now_ms

    def now_ms(self) -> int:
        return self.moment_ms


class FlakyLogStore(MemoryLogStore):
    """Fails every deletion after the first few. ``meanwhile`` is called just before one."""

    deletions_left = 2**31
    meanwhile: Callable[[str], None] | None = None

    def delete(self, name: str) -> None:
        if self.meanwhile is not None:
            self.meanwhile(name)
        if not self.deletions_left:
            raise StorageError("the store is gone", path=name)
        self.deletions_left -= 1
        super().delete(name)


def metadata(retention_days: int, **configuration: str) -> dict[str, Any]:
    schema = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
    return {
        "metaData": {
            "id": "t",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": [],
            "configuration": {"delta.logRetentionDuration": f"interval {retention_days} days", **configuration},
        }
    }


def add(path: str) -> dict[str, Any]:
    return {"add": {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}}


def remove(path: str) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": True, "deletionTimestamp": NOW_MS}}


def lines(*actions: dict[str, Any]) -> bytes:
    return b"".join(orjson.dumps(action) + b"\n" for action in actions)


class World:
    """A log whose commits have the times that a test sets. ``table`` reopens it."""

    def __init__(self, retention_days: int = 3, protocol: dict[str, Any] | None = None, **configuration: str) -> None:
        self.log = FlakyLogStore()
        self.version = -1
        first = {"protocol": protocol or {"minReaderVersion": 1, "minWriterVersion": 2}}
        self._first = [first, metadata(retention_days, **configuration)]

    def put(self, name: str, body: bytes, modified_ms: int = NOW_MS) -> None:
        self.log.objects[name] = (body, modified_ms)

    def commit(self, age_days: float, *actions: dict[str, Any], in_commit_timestamp: int | None = None) -> None:
        self.version += 1
        info = [] if in_commit_timestamp is None else [{"commitInfo": {"inCommitTimestamp": in_commit_timestamp}}]
        body = lines(*info, *(self._first if self.version == 0 else ()), *actions)
        self.put(commit_name(self.version), body, NOW_MS - int(age_days * DAY_MS))

    def table(self) -> DeltaLog:
        return DeltaLog(TableStore("memory://t", self.log, MemoryFileStore()))

    def checkpoint(self, age_days: float = 0) -> None:
        log = self.table()
        version = log.write_checkpoint(log.newest_state())
        self.put(
            checkpoint_name(version), self.log.objects[checkpoint_name(version)][0], NOW_MS - int(age_days * DAY_MS)
        )

    def clean_up(self, **arguments: Any) -> LogCleanUp:
        with ambient.use(At(NOW_MS)):
            log = self.table()
            return clean_up_log(log, log.newest_state(), **arguments)

    def names(self) -> set[str]:
        return set(self.log.objects)

    def state(self, version: int) -> tuple[list[str], Any]:
        log = self.table()
        state = log.state_at(version)
        return sorted(log.files(state)["path"].to_pylist()), (state.metadata, state.protocol, dict(state.transactions))


def daily(versions: int, *, checkpoints: tuple[int, ...], **arguments: Any) -> World:
    """One commit a day, the last one today; version v adds file v."""
    world = World(**arguments)
    for version in range(versions):
        world.commit(versions - 1 - version, add(f"f{version}"))
        if version in checkpoints:
            world.checkpoint(versions - 1 - version)
    return world


# --- what goes and what stays -------------------------------------------------------------------------------


def test_whole_versions_below_the_kept_checkpoint_go_and_all_others_read_as_before() -> None:
    world = daily(10, checkpoints=(2, 5, 8))  # retention 3 days: the cutoff falls on version 5 (4 days ago)
    before = {version: world.state(version) for version in range(5, 10)}
    dry = world.clean_up(dry_run=True)
    assert len(world.names()) == 10 + 3 + 1, "a dry run deleted something"
    done = world.clean_up()
    assert dry.names == done.names
    assert (dry.size_bytes, dry.dry_run, done.dry_run) == (done.size_bytes, True, False)
    assert done.first_version == 5
    expected = {commit_name(version) for version in range(5, 10)} | {checkpoint_name(5), checkpoint_name(8)}
    assert world.names() == expected | {"_last_checkpoint"}
    assert {version: world.state(version) for version in range(5, 10)} == before
    with pytest.raises(NotFoundError, match="the earliest is 5"):
        world.state(4)
    assert world.clean_up().names == ()


def test_nothing_goes_without_a_checkpoint_or_with_one_that_is_too_new() -> None:
    assert daily(10, checkpoints=()).clean_up().names == ()
    assert daily(10, checkpoints=(7,)).clean_up().names == ()


def test_the_newest_checkpoint_stays_however_old_all_is() -> None:
    world = World(retention_days=1)
    for version in range(4):
        world.commit(100 - version, add(f"f{version}"))
        world.checkpoint(100 - version)
    assert world.clean_up().first_version == 3
    assert world.names() == {commit_name(3), checkpoint_name(3), "_last_checkpoint"}
    assert world.state(3)[0] == ["f0", "f1", "f2", "f3"]


def test_a_checkpoint_that_cannot_be_read_takes_nothing_along(caplog: pytest.LogCaptureFixture) -> None:
    world = daily(10, checkpoints=(2, 5))
    body = world.log.objects[checkpoint_name(5)][0]
    world.put(checkpoint_name(5), body[: len(body) // 2] + b"PAR1", NOW_MS - 4 * DAY_MS)
    assert world.clean_up().first_version == 2
    assert "the log below v5 is kept" in caplog.text
    assert world.state(9)[0] == [f"f{version}" for version in range(10)]


def test_a_checkpoint_whose_tombstones_cannot_be_read_takes_nothing_along(caplog: pytest.LogCaptureFixture) -> None:
    world = World(retention_days=3)
    with ambient.use(At(NOW_MS)):
        for version in range(10):
            world.commit(9 - version, add(f"f{version}"), *([remove("f3")] if version == 4 else []))
            if version in (2, 5):
                world.checkpoint(9 - version)
    body = bytearray(world.log.objects[checkpoint_name(5)][0])
    metadata = pq.read_metadata(pa.BufferReader(bytes(body)))
    leaves = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
    chunk = metadata.row_group(metadata.num_row_groups - 1).column(leaves.index("remove.path"))
    assert chunk.num_values == 1
    body[chunk.data_page_offset : chunk.data_page_offset + 20] = bytes(20)
    world.put(checkpoint_name(5), bytes(body), NOW_MS - 4 * DAY_MS)
    assert world.clean_up().first_version == 2
    assert "the log below v5 is kept" in caplog.text


def test_a_checkpoint_without_a_schema_causes_no_deletion(caplog: pytest.LogCaptureFixture) -> None:
    world = daily(10, checkpoints=())
    without_metadata = lines({"checkpointMetadata": {"version": 5}}, world._first[0])
    world.put(v2_checkpoint_name(5, UUIDS[0], "json"), without_metadata, NOW_MS - 4 * DAY_MS)
    assert world.clean_up().names == ()
    assert "the log below v5 is kept" in caplog.text
    assert world.state(9)[0] == [f"f{version}" for version in range(10)]


def test_times_that_stand_still_or_go_back_count_as_going_forward() -> None:
    world = World(retention_days=3)
    for age_days in (10, 2, 9, 9, 9, 1):  # version 2 and later are at least as young as version 1
        world.commit(age_days, add(f"f{world.version + 1}"))
        world.checkpoint(age_days)
    assert world.clean_up().first_version == 0


def test_a_hint_that_would_lead_nowhere_goes_first() -> None:
    world = daily(10, checkpoints=(2,))
    hint = world.log.objects["_last_checkpoint"][0]
    log = world.table()
    log.write_checkpoint(log.state_at(5))
    world.put("_last_checkpoint", hint)
    world.log.deletions_left = 2
    with pytest.raises(StorageError):
        world.clean_up()
    assert "_last_checkpoint" not in world.names()
    assert commit_name(1) in world.names()


def test_compacted_files_and_checksums_go_with_the_versions_they_speak_of() -> None:
    world = daily(10, checkpoints=(5,))
    for name in (compacted_name(0, 2), compacted_name(5, 7), compacted_name(6, 7), checksum_name(4), checksum_name(5)):
        world.put(name, b"{}")
    gone = world.clean_up().names
    assert gone[:2] == (compacted_name(0, 2), compacted_name(5, 7))
    assert checksum_name(4) in gone
    assert {compacted_name(6, 7), checksum_name(5)} <= world.names()


def test_a_bounded_run_takes_the_oldest_and_the_next_one_continues() -> None:
    world = daily(10, checkpoints=(2, 5))
    assert world.clean_up(most=3).names == (commit_name(0), commit_name(1), commit_name(2))
    assert world.state(2)[0] == ["f0", "f1", "f2"], "version 2 is still there as a checkpoint"
    assert world.clean_up().names == (checkpoint_name(2), commit_name(3), commit_name(4))


def test_a_bounded_run_takes_protected_versions_together() -> None:
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["checkpointProtection"]}
    properties = {"delta.requireCheckpointProtectionBeforeVersion": "4"}
    world = daily(10, checkpoints=(2, 5), protocol=protocol, **properties)
    assert world.clean_up(most=3).names == (*map(commit_name, range(3)), checkpoint_name(2), commit_name(3))
    assert world.clean_up(most=3).names == (commit_name(4),)


def test_time_travel_starts_after_a_checkpoint_whose_commit_is_missing() -> None:
    world = daily(8, checkpoints=(2, 5))
    for version in range(3):
        world.log.delete(commit_name(version))
    log = world.table()
    assert log.version_at(NOW_MS - 4 * DAY_MS) == 3
    assert log.version_at(NOW_MS - 3 * DAY_MS) == 4
    with pytest.raises(NotFoundError, match=r"earlier than version 3 \(.*\), the oldest that can be read"):
        log.version_at(NOW_MS - 5 * DAY_MS)


# --- in-commit timestamps -----------------------------------------------------------------------------------

ICT = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp"]}


def test_in_commit_timestamps_decide_where_the_table_keeps_them() -> None:
    """A table that was copied yesterday: its files are young, its commits are not."""
    world = World(protocol=ICT, **{"delta.enableInCommitTimestamps": "true"})
    for version in range(10):
        world.commit(1, add(f"f{version}"), in_commit_timestamp=NOW_MS - (9 - version) * DAY_MS)
        world.checkpoint(1)
    assert world.clean_up().first_version == 5


def test_times_from_before_in_commit_timestamps_come_from_files() -> None:
    configuration = {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "6",
        "delta.inCommitTimestampEnablementTimestamp": str(NOW_MS - 2 * DAY_MS),
    }
    world = World(protocol=ICT, **configuration)
    for version in range(10):
        stamp = NOW_MS - 2 * DAY_MS + version if version >= 6 else None
        world.commit(20 - version if version < 6 else 2, add(f"f{version}"), in_commit_timestamp=stamp)
        world.checkpoint(1)
    assert world.clean_up().first_version == 5


# --- protocol guards ----------------------------------------------------------------------------------------


def test_a_table_that_may_not_be_written_is_not_cleaned_up() -> None:
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["x"], "writerFeatures": ["x"]}
    world = daily(10, checkpoints=(5,), protocol=protocol)
    with pytest.raises(UnsupportedFeatureError, match="x"):
        world.clean_up()
    assert commit_name(0) in world.names()


# --- sidecars -----------------------------------------------------------------------------------------------


def v2(world: World, version: int, uuid: str, *sidecars: str, age_days: float) -> None:
    """A V2 checkpoint in JSON whose files stand in Parquet sidecars, one file each."""
    for sidecar in sidecars:
        row = {**add(sidecar)["add"], "partitionValues": [], "dataChange": False}
        sink = pa.BufferOutputStream()
        kind = pa.struct(
            [
                ("path", pa.string()),
                ("partitionValues", pa.map_(pa.string(), pa.string())),
                ("size", pa.int64()),
                ("modificationTime", pa.int64()),
                ("dataChange", pa.bool_()),
            ]
        )
        pq.write_table(pa.table({"add": pa.array([row], kind)}), sink)
        world.put(f"_sidecars/{sidecar}.parquet", sink.getvalue().to_pybytes(), NOW_MS - int(age_days * DAY_MS))
    named = [{"sidecar": {"path": f"{s}.parquet", "sizeInBytes": 1, "modificationTime": 1}} for s in sidecars]
    body = lines({"checkpointMetadata": {"version": version}}, *world._first, *named)
    world.put(v2_checkpoint_name(version, uuid, "json"), body, NOW_MS - int(age_days * DAY_MS))


def test_sidecars_are_deleted_with_the_last_checkpoint_that_names_them() -> None:
    world = daily(10, checkpoints=())
    v2(world, 2, UUIDS[0], "old", "shared", age_days=7)
    v2(world, 5, UUIDS[1], "new", "shared", age_days=4)
    world.put("_sidecars/fresh.parquet", b"", NOW_MS - DAY_MS)
    done = world.clean_up()
    assert done.first_version == 5
    assert done.names[-1] == "_sidecars/old.parquet"
    assert {n for n in world.names() if "/" in n} == {f"_sidecars/{n}.parquet" for n in ("new", "shared", "fresh")}
    assert world.state(5)[0] == ["new", "shared"]


def test_every_kept_checkpoint_keeps_its_sidecars_and_not_the_newest_alone() -> None:
    world = daily(10, checkpoints=())
    v2(world, 5, UUIDS[0], "f0", "f1", age_days=4)
    v2(world, 8, UUIDS[1], "f2", age_days=1)
    done = world.clean_up()
    assert done.first_version == 5
    assert {n for n in world.names() if "/" in n} == {f"_sidecars/{n}.parquet" for n in ("f0", "f1", "f2")}
    for version, files in ((5, ["f0", "f1"]), (7, ["f0", "f1", "f6", "f7"]), (8, ["f2"]), (9, ["f2", "f9"])):
        assert world.state(version)[0] == files


def test_a_log_clean_up_syncs_what_remains_before_it_deletes() -> None:
    """A power cut that took the checkpoint, after its commits are gone, would take the table."""
    world = daily(10, checkpoints=())
    v2(world, 5, UUIDS[0], "one", "two", age_days=4)
    world.log.deletions_left = 0
    with pytest.raises(StorageError):
        world.clean_up()
    checkpoint = {v2_checkpoint_name(5, UUIDS[0], "json"), "_sidecars/one.parquet", "_sidecars/two.parquet"}
    assert checkpoint <= world.log.durable.keys()


def test_no_sidecar_goes_while_a_checkpoint_cannot_be_read(caplog: pytest.LogCaptureFixture) -> None:
    world = daily(10, checkpoints=(5,))
    world.put("_sidecars/orphan.parquet", b"", NOW_MS - 9 * DAY_MS)
    world.put(v2_checkpoint_name(8, UUIDS[0], "json"), b"{torn")
    assert "_sidecars/orphan.parquet" not in world.clean_up().names
    assert "sidecars are kept" in caplog.text
    world.log.delete(v2_checkpoint_name(8, UUIDS[0], "json"))
    assert world.clean_up().names == ("_sidecars/orphan.parquet",)


def test_a_checkpoint_that_arrives_while_its_sidecars_are_deleted_goes_too() -> None:
    """Its writer was suspended for a day before the last request, and saw its sidecars just before they went."""
    world = daily(10, checkpoints=(5,))
    v2(world, 8, UUIDS[0], "late", age_days=9)
    name = v2_checkpoint_name(8, UUIDS[0], "json")
    late = world.log.objects.pop(name)

    def arrives(deleted: str) -> None:
        if deleted == "_sidecars/late.parquet":
            world.log.objects[name] = late

    world.log.meanwhile = arrives
    assert world.clean_up().names[-2:] == ("_sidecars/late.parquet", name)
    assert name not in world.names()
    assert world.state(8)[0] == [f"f{number}" for number in range(9)]


# --- cut short, at any point --------------------------------------------------------------------------------


@settings(max_examples=settings.default.max_examples // 3)
@given(data=st.data())
def test_wherever_it_is_cut_short_every_kept_version_reads_as_before(data: st.DataObject) -> None:
    ages = sorted(data.draw(st.lists(st.floats(0, 9), min_size=2, max_size=9)), reverse=True)
    world = World(retention_days=3)
    for version, age_days in enumerate(ages):
        removed = [remove(f"f{version - 1}")] if version and data.draw(st.booleans()) else []
        world.commit(age_days, add(f"f{version}"), *removed)
        if data.draw(st.booleans()):
            world.checkpoint(age_days)
    if data.draw(st.booleans()):
        world.log.delete("_last_checkpoint")
    states = {version: world.state(version) for version in range(len(ages))}
    plan = world.clean_up(dry_run=True)
    first = plan.first_version or 0
    retained = [version for version, age_days in enumerate(ages) if age_days < 3]
    assert first <= min(retained, default=len(ages) - 1)
    for allowed in range(len(plan.names) + 2):
        world.log.deletions_left = 1 if allowed else 0
        with contextlib.suppress(StorageError):
            world.clean_up()
        assert world.table().newest_state().version == len(ages) - 1
        assert {version: world.state(version) for version in range(first, len(ages))} == {
            version: states[version] for version in range(first, len(ages))
        }
        for version in range(first):  # an old version is whole or refused, never another
            with contextlib.suppress(NotFoundError):
                assert world.state(version) == states[version]
    world.log.deletions_left = 2**31
    world.clean_up()
    assert not any(commit_name(version) in world.names() for version in range(first))


# --- on a disk ----------------------------------------------------------------------------------------------


def test_a_table_on_disk_is_cleaned_up_and_continues(tmp_path: Path) -> None:
    table = txlog.Table.create(str(tmp_path), pa.schema([("id", pa.int64())]))
    for value in range(12):
        table.append(pa.table({"id": [value]}))
    table._open_table.post_commit.drain()
    table.create_checkpoint()
    log = tmp_path / "_delta_log"
    stale = log / f".{commit_name(7)}.{UUIDS[0]}.tmp"
    stale.write_bytes(b"torn")
    (log / f".{commit_name(3)}.crc").write_bytes(b"hadoop")
    old_s = (ambient.now_ms() - 40 * DAY_MS) / 1000
    for path in log.iterdir():
        os.utime(path, (old_s, old_s))
    seen: list[tuple[int, int]] = []
    done = table.clean_up_log(on_progress=lambda step, gone, total: seen.append((gone, total)))
    assert done.first_version == 12
    assert stale.name in done.names
    assert not stale.exists()
    assert seen[-1] == (len(done.names) - 1, len(done.names) - 1)
    left = {path.name for path in log.iterdir() if "checkpoint" not in path.name}
    assert left - {checksum_name(12)} == {commit_name(12)}, "commits that follow slowly have a checksum file each"
    table.append(pa.table({"id": [99]}))
    rows = txlog.Table.open(str(tmp_path)).snapshot().to_arrow()["id"].to_pylist()
    assert sorted(rows) == [*range(12), 99]


@pytest.mark.parametrize("in_commit_timestamps", ["true", "false"])
def test_a_writer_whose_clock_is_ahead_of_the_stores_deletes_no_young_version(
    in_commit_timestamps: str, tmp_path: Path
) -> None:
    properties = {"delta.checkpointInterval": "2", "delta.enableInCommitTimestamps": in_commit_timestamps}
    table = txlog.Table.create(str(tmp_path), "id bigint", properties=properties)
    for value in range(4):
        table.append(pa.table({"id": [value]}))
    with ambient.use(At(ambient.now_ms() + 40 * DAY_MS)):
        ahead = txlog.Table.open(str(tmp_path))
        for value in range(4):
            ahead.append(pa.table({"id": [value]}))
        ahead._open_table.post_commit.drain()
    assert {commit_name(version) for version in range(9)} <= {path.name for path in (tmp_path / "_delta_log").iterdir()}


@pytest.mark.parametrize("enabled", [True, False])
def test_a_checkpoint_after_a_commit_cleans_up_the_expired_log_unless_the_table_forbids_it(
    tmp_path: Path, enabled: bool
) -> None:
    properties = {"delta.checkpointInterval": "5", "delta.enableExpiredLogCleanup": str(enabled)}
    table = txlog.Table.create(str(tmp_path), pa.schema([("id", pa.int64())]), properties=properties)
    log = tmp_path / "_delta_log"
    old_s = (ambient.now_ms() - 40 * DAY_MS) / 1000
    for value in range(10):
        table.append(pa.table({"id": [value]}))
        table._open_table.post_commit.drain()
        for path in log.iterdir():
            os.utime(path, (old_s, old_s))
        if value == 4:
            table = txlog.Table.open(str(tmp_path))  # this one has not looked for old versions a moment ago
    commits = {path.name for path in log.glob("*.json")}
    assert (commit_name(4) in commits) is not enabled
    assert commit_name(5) in commits
    assert len(txlog.Table.open(str(tmp_path)).snapshot().to_arrow()) == 10
