"""V2 checkpoints as they stand in the log: read from them alone, a table is what its commits say."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import txlog
from txlog.core import ambient
from txlog.core.format.actions import action_to_json
from txlog.core.format.log_names import checkpoint_name, commit_name
from txlog.core.store import PutOutcome, TableStore
from txlog.core.versions import clean_up_log
from txlog.core.versions.decisions.checkpoint import columns as checkpoint_columns
from txlog.core.versions.decisions.checkpoint import v2 as checkpoint_v2
from txlog.core.versions.decisions.checkpoint.hint import json_checksum
from txlog.core.versions.decisions.state import Totals
from txlog.core.versions.files import _checkpoint_parquet as checkpoint_parquet
from txlog.core.versions.files._delta_log import DeltaLog
from txlog.errors import CorruptLogError, StorageError, UnsupportedFeatureError
from txlog.testing.faults import FaultyLogStore, StoreCall
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore
from txlog.testing.stopped_clock import StoppedClock

SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"p","type":"string","nullable":true,"metadata":{}}]}'  # noqa: E501
V2_PROTOCOL = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["v2Checkpoint"],
    "writerFeatures": ["v2Checkpoint"],
}
FAR_FUTURE_MS = 4_000_000_000_000

Line = dict[str, Any]


def add(path: str, **fields: Any) -> Line:
    stats = '{"numRecords":1,"minValues":{"id":1},"maxValues":{"id":1},"nullCount":{"id":0}}'
    values = {"partitionValues": {"p": path[-1]}, "size": 1, "modificationTime": 1, "dataChange": True, "stats": stats}
    return {"add": {"path": path, **values, **fields}}


def remove(path: str) -> Line:
    return {"remove": {"path": path, "dataChange": True, "deletionTimestamp": FAR_FUTURE_MS}}


class World:
    """A table of policy v2 in memory."""

    def __init__(self, protocol: Line | None = None, **configuration: str) -> None:
        self.store = MemoryLogStore()
        self.version = -1
        self.policy = {"delta.checkpointPolicy": "v2", **configuration}
        self.commit({"protocol": protocol or V2_PROTOCOL}, self.metadata())

    def metadata(self, **configuration: str) -> Line:
        self.policy |= configuration
        kind = {"id": "t", "format": {"provider": "parquet", "options": {}}, "schemaString": SCHEMA}
        return {"metaData": {**kind, "partitionColumns": ["p"], "configuration": self.policy}}

    def commit(self, *lines: Line) -> None:
        self.version += 1
        body = b"".join(orjson.dumps(line) + b"\n" for line in ({"commitInfo": {}}, *lines))
        self.store.put(commit_name(self.version), body)

    def open(self) -> DeltaLog:
        return DeltaLog(TableStore("memory://t", self.store, MemoryFileStore()))

    def checkpoint(self) -> None:
        log = self.open()
        log.write_checkpoint(log.newest_state())

    def names(self, kind: str) -> list[str]:
        return sorted(name for name in self.store.objects if kind in name)

    def sidecars(self, at: int | None = None) -> list[str]:
        """What the checkpoint of a version (the newest by default) names."""
        top = self.names(".checkpoint." if at is None else f"{at:020d}.checkpoint.")[-1]
        lines = map(orjson.loads, self.store.read(top).splitlines())
        return sorted(f"_sidecars/{line['sidecar']['path']}" for line in lines if "sidecar" in line)

    def without_commits(self, *kept: str) -> DeltaLog:
        """The log as a reader finds it whose only source is the newest checkpoint."""
        copy = MemoryLogStore()
        newest = self.names(".checkpoint.")[-1]
        for name, entry in self.store.objects.items():
            if name in (newest, *kept, commit_name(self.version)) or "/" in name:
                copy.objects[name] = entry
        return DeltaLog(TableStore("memory://t", copy, MemoryFileStore()))


def paths(log: DeltaLog) -> list[str]:
    return sorted(log.files(log.newest_state())["path"].to_pylist())


def gone(log: DeltaLog) -> list[str]:
    return sorted(log.files_and_tombstones(log.newest_state())[1]["path"].to_pylist())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sidecars of eight files."""
    _make_small(monkeypatch.setattr)


def _make_small(setattr: Callable[..., None]) -> None:
    setattr(checkpoint_columns, "ROW_GROUP_ROWS", 8)
    setattr(checkpoint_columns, "ROW_GROUP_ROWS_MIN", 8)
    setattr(checkpoint_v2, "ROW_GROUP_ROWS", 8)


# --- what is written -------------------------------------------------------------------------------------------


def test_the_top_level_file_names_sidecars_that_hold_every_file_and_tombstone(small: None) -> None:
    world = World()
    world.commit(*(add(f"f{n}") for n in range(20)), {"txn": {"appId": "a", "version": 7}})
    world.commit(remove("f3"), remove("f4"))
    world.checkpoint()
    (top,) = world.names(".checkpoint.")
    lines = [orjson.loads(line) for line in world.store.read(top).splitlines()]
    kinds = [next(iter(line)) for line in lines]
    assert kinds == ["checkpointMetadata", "protocol", "metaData", "txn", *["sidecar"] * 4]
    assert lines[0]["checkpointMetadata"] == {"version": 2}
    held = [pq.read_table(pa.BufferReader(world.store.read(name))) for name in world.sidecars()]
    assert sorted(len(table) for table in held) == [2, 2, 8, 8]
    assert {tuple(table.schema.names) for table in held} == {("add", "remove")}
    fresh = world.without_commits()
    assert (paths(fresh), gone(fresh)) == (sorted(f"f{n}" for n in range(20) if n not in (3, 4)), ["f3", "f4"])
    assert fresh.newest_state().transaction_version("a") == 7


def test_the_hint_has_the_total_size_and_the_first_part(small: None) -> None:
    world = World()
    world.commit(*(add(f"f{n}") for n in range(20)))
    world.checkpoint()
    hint = orjson.loads(world.store.read("_last_checkpoint"))
    (top,) = world.names(".checkpoint.")
    sizes = {name: len(world.store.read(name)) for name in (top, *world.sidecars())}
    assert hint["checksum"] == json_checksum(hint)
    assert (hint["version"], hint["numOfAddFiles"]) == (1, 20)
    assert hint["size"] == len(world.store.read(top).splitlines()) + 20
    assert hint["sizeInBytes"] == sum(sizes.values())
    v2 = hint["v2Checkpoint"]
    assert (v2["path"], v2["sizeInBytes"]) == (top, sizes[top])
    assert {f"_sidecars/{s['path']}": s["sizeInBytes"] for s in v2["sidecarFiles"]} == {
        name: sizes[name] for name in world.sidecars()
    }
    for drop_hint in (False, True):  # with the hint, and listed
        if drop_hint:
            world.store.delete("_last_checkpoint")
        log = world.open()
        checkpoint = log.newest_state().segment.checkpoint
        assert checkpoint is not None
        assert log._files.checkpoint_bytes(checkpoint) == sum(sizes.values())


def test_a_table_without_the_feature_gets_classic_checkpoints() -> None:
    world = World(protocol={"minReaderVersion": 1, "minWriterVersion": 2})
    world.checkpoint()
    assert world.names(".checkpoint.") == [checkpoint_name(0)]


VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 6,
    "maxRowIndex": 90,
}
ROW_IDS = {"baseRowId": 7, "defaultRowCommitVersion": 3}


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_every_field_that_the_protocol_gives_a_file_is_in_the_checkpoint(policy: str) -> None:
    """All but the statistics and tags of tombstones, which checkpoints have no column for."""
    added = add("f1", **ROW_IDS, deletionVector=VECTOR, tags={"a": "b", "c": None}, clusteringProvider="liquid")["add"]
    removed = {**remove("f2")["remove"], **ROW_IDS, "deletionVector": VECTOR, "size": 4, "extendedFileMetadata": True}
    removed["partitionValues"] = {"p": "2"}
    world = World(**{"delta.checkpointPolicy": policy})
    world.commit({"add": added}, {"remove": removed})
    world.checkpoint()
    names = [*world.names(".checkpoint.parquet"), *world.sidecars()] if policy == "v2" else [checkpoint_name(1)]
    rows = [row for name in names for row in pq.read_table(pa.BufferReader(world.store.read(name))).to_pylist()]
    bounds = {"numRecords": 1, "tightBounds": None, "minValues": {"id": 1}, "maxValues": {"id": 1}}
    typed = {"stats_parsed": bounds | {"nullCount": {"id": 0}}, "partitionValues_parsed": {"p": "1"}}
    for action, reported in (("add", added | typed), ("remove", removed)):
        (found,) = (row[action] for row in rows if row.get(action))
        maps = {name: dict(found[name]) for name in ("partitionValues", "tags") if name in found}
        assert found | maps == reported | {"dataChange": False}


SMALL_ACTIONS: list[Line] = [
    {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["v2Checkpoint"],
            "writerFeatures": ["v2Checkpoint", "domainMetadata", "rowTracking"],
        }
    },
    {"txn": {"appId": "dated", "version": 7, "lastUpdated": 1_700_000_000_000}},
    {"txn": {"appId": "undated", "version": 8}},
    {"domainMetadata": {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":41}', "removed": False}},
    {"domainMetadata": {"domain": "mine", "configuration": "free text", "removed": False}},
]


def small_world(policy: str) -> tuple[World, list[Line]]:
    """A table with a checkpoint, and the small actions that its commits leave, each with every field it can have."""
    world = World(**{"delta.checkpointPolicy": policy})
    metadata = world.metadata()["metaData"]
    metadata |= {"name": "sales", "description": "all of them", "createdTime": 1_600_000_000_000}
    metadata["format"] = {"provider": "parquet", "options": {"compression": "none"}}
    ended = {"domainMetadata": {"domain": "ended", "configuration": "", "removed": False}}
    world.commit({"txn": {"appId": "dated", "version": 6, "lastUpdated": 1}}, ended)
    reported = [*SMALL_ACTIONS, {"metaData": metadata}]
    removed = {"domainMetadata": {"domain": "ended", "configuration": "", "removed": True}}
    world.commit(*reported, removed, add("f1"))
    world.checkpoint()
    return world, reported


def as_json(value: Any) -> Any:
    """What one row of a classic checkpoint says, as a commit would say it: no nulls, maps as objects."""
    if isinstance(value, dict):
        return {key: as_json(held) for key, held in value.items() if held is not None}
    return value


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_every_field_of_every_small_action_is_in_the_checkpoint(policy: str) -> None:
    world, reported = small_world(policy)
    (top,) = world.names(".checkpoint.")
    body = world.store.read(top)
    if policy == "v2":
        rows = [orjson.loads(line) for line in body.splitlines()]
    else:
        rows = [as_json(row) for row in pq.read_table(pa.BufferReader(body)).to_pylist(maps_as_pydicts="strict")]
    small = [row for row in rows if not row.keys() & {"add", "remove", "sidecar", "checkpointMetadata"}]
    assert sorted(small, key=str) == sorted(reported, key=str)


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_the_state_of_a_checkpoint_alone_is_the_state_of_its_commits(policy: str) -> None:
    world, reported = small_world(policy)
    state = world.without_commits().newest_state()
    assert state.segment.checkpoint is not None
    found: list[Any] = [state.protocol, state.metadata, *state.transactions.values(), *state.domains.values()]
    assert sorted((action_to_json(action) for action in found), key=str) == sorted(reported, key=str)


def test_a_file_that_was_removed_and_added_again_leaves_no_tombstone_in_the_next_checkpoint(small: None) -> None:
    world = World()
    world.commit(*(add(f"f{n:02d}") for n in range(40)))
    world.commit(remove("f00"), remove("f01"))
    world.checkpoint()
    world.commit(add("f00"))
    world.checkpoint()
    assert set(world.sidecars(2)) & set(world.sidecars(3)), "the second checkpoint was not incremental"
    fresh = world.without_commits()
    assert (gone(fresh), len(paths(fresh))) == (["f01"], 39)


def test_an_empty_table_has_a_v2_checkpoint_too() -> None:
    world = World()
    world.checkpoint()
    assert (paths(world.without_commits()), world.sidecars()) == ([], [])
    world.commit(add("first"))
    world.checkpoint()
    assert paths(world.without_commits()) == ["first"]


def test_a_second_checkpoint_of_one_version_is_not_written() -> None:
    world = World()
    world.checkpoint()
    before = dict(world.store.objects)
    world.checkpoint()
    assert world.store.objects == before


def test_deltalake_reads_the_table_from_a_v2_checkpoint_alone(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = txlog.Table.create(uri, schema, partition_by=("p",), properties={"delta.checkpointPolicy": "v2"})
    for number in range(6):
        table.append(pa.table({"id": [number], "p": [str(number % 2)]}))
    (third,) = table.snapshot().files(where="id = 3")["path"].to_pylist()
    with table.transaction() as txn:
        txn.remove(third)
    version = table.create_checkpoint()
    for old in range(version):
        os.unlink(f"{uri}/_delta_log/{commit_name(old)}")
    ours = sorted(txlog.Table.open(uri).snapshot().to_arrow()["id"].to_pylist())
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(uri)).execute("select id from t")
    theirs = sorted(pa.table(query.read_all())["id"].to_pylist())
    assert ours == theirs == [0, 1, 2, 4, 5]


def test_a_table_that_may_not_be_written_is_given_no_checkpoint(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": ["novelty"]}
    lines = [{"protocol": protocol}, World().metadata()]
    (log / commit_name(0)).write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    with pytest.raises(UnsupportedFeatureError, match="novelty"):
        txlog.Table.open(str(tmp_path)).create_checkpoint()
    assert os.listdir(log) == [commit_name(0)]


def test_a_checkpoint_that_is_asked_for_comes_with_exact_totals(tmp_path: Path) -> None:
    table = txlog.Table.create(str(tmp_path), pa.schema({"id": pa.int64()}))
    for number in range(3):
        table.append(pa.table({"id": [number]}))
    files = table.snapshot().files()
    for name in (tmp_path / "_delta_log").glob("*.crc"):
        name.unlink()
    assert txlog.Table.open(str(tmp_path)).create_checkpoint() == 3
    reported = orjson.loads((tmp_path / "_delta_log" / f"{3:020d}.crc").read_bytes())
    assert (reported["numFiles"], reported["tableSizeBytes"]) == (3, sum(files["size"].to_pylist()))


@pytest.mark.parametrize("place", [0, 450, 899])
def test_small_actions_are_found_wherever_they_stand_among_files(
    place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_parquet, "BATCH_ROWS", 256)
    table = txlog.Table.create(str(tmp_path), pa.schema({"id": pa.int64()}))
    table.create_checkpoint()
    log = tmp_path / "_delta_log"
    name = log / checkpoint_name(0)
    ours = pq.read_table(name)
    rows = ours.to_pylist()
    file = {"path": "f", "partitionValues": [], "size": 1, "modificationTime": 1, "dataChange": False}
    files = [{"add": {**file, "path": f"f{number}"}} for number in range(900)]
    last = {"txn": {"appId": "late", "version": 7, "lastUpdated": None}}
    mixed = [*files[:place], *rows, *files[place:], last]
    name.unlink()
    pq.write_table(pa.Table.from_pylist(mixed, ours.schema), name)
    for old in (*log.glob("*.crc"), log / "_last_checkpoint"):
        old.unlink(missing_ok=True)
    snapshot = txlog.Table.open(str(tmp_path)).snapshot()
    assert snapshot.transaction_version("late") == 7
    assert snapshot.schema.names == ["id"]
    assert snapshot.num_files == 900


def test_a_state_older_than_the_newest_checkpoint_is_not_put_onto_it() -> None:
    world = World()
    world.commit(add("f1"))
    log = world.open()
    state = log.newest_state()
    world.commit(add("f2"))
    world.checkpoint()
    assert log.on_newest_checkpoint(state) is state
    assert sorted(log.files(state)["path"].to_pylist()) == ["f1"]


def test_totals_of_a_later_version_are_not_used_for_the_known_version() -> None:
    world = World()
    log = world.open()
    state = log.newest_state()
    log.learn_totals(state.version + 1, Totals(7, 7))
    assert log.newest_state().totals is None
    log.learn_totals(state.version, Totals(0, 0))
    assert log.newest_state().totals == Totals(0, 0)


# --- only what changed -----------------------------------------------------------------------------------------


def test_unchanged_sidecars_are_reused_by_the_next_checkpoint(small: None) -> None:
    world = World()
    world.commit(*(add(f"f{n:02d}") for n in range(80)))
    world.checkpoint()
    before = world.sidecars()
    world.commit(remove("f00"), add("new"))
    world.checkpoint()
    after = world.sidecars()
    assert len(before) == 10
    assert len(set(before) & set(after)) == 9
    assert paths(world.without_commits()) == sorted([*(f"f{n:02d}" for n in range(1, 80)), "new"])


@pytest.mark.parametrize("body", [None, b"", b"PAR1", "cut"])
def test_a_missing_or_truncated_sidecar_is_not_reused(
    body: bytes | str | None, small: None, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    world.commit(*(add(f"f{n:02d}") for n in range(24)))
    world.checkpoint()
    lost = world.sidecars()[0]
    if body is None:
        world.store.delete(lost)
    else:
        world.store.put(lost, world.store.read(lost)[:-1] if isinstance(body, str) else body)
    world.commit(add("new"))
    world.checkpoint()
    assert "writing a full checkpoint" in caplog.text
    assert lost not in world.sidecars()
    assert paths(world.without_commits()) == sorted([*(f"f{n:02d}" for n in range(24)), "new"])


def test_a_sidecar_that_was_replaced_by_one_of_another_size_is_not_reused(small: None) -> None:
    world = World()
    world.commit(*(add(f"f{n:02d}") for n in range(24)))
    world.checkpoint()
    replaced = world.sidecars()[0]
    rows = pq.read_table(pa.BufferReader(world.store.read(replaced)))
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="none", store_schema=False)
    world.store.put(replaced, sink.getvalue().to_pybytes())
    world.commit(add("new"))
    world.checkpoint()
    assert replaced not in world.sidecars()
    assert len(set(world.sidecars(1)) & set(world.sidecars(2))) == 2
    assert len(paths(world.without_commits())) == 25


def test_a_sidecar_with_tombstones_is_not_reused(small: None) -> None:
    """Another writer may mix them; tombstones expire, so that what holds one cannot be kept as it is."""
    world = World()
    world.commit(*(add(f"f{n:02d}") for n in range(25)))
    world.commit(remove("f24"))
    world.checkpoint()
    tables = {name: pq.read_table(pa.BufferReader(world.store.read(name))) for name in world.sidecars()}
    (tombstones,) = (name for name, table in tables.items() if len(table) == 1)
    mixed = next(name for name in tables if name != tombstones)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.concat_tables([tables[mixed], tables[tombstones]]), sink, store_schema=False)
    world.store.put(mixed, sink.getvalue().to_pybytes())
    (top,) = world.names(".checkpoint.")
    lines = [orjson.loads(line) for line in world.store.read(top).splitlines()]
    kept = [line for line in lines if line.get("sidecar", {}).get("path") != tombstones.split("/")[1]]
    for line in kept:
        if line.get("sidecar", {}).get("path") == mixed.split("/")[1]:
            line["sidecar"]["sizeInBytes"] = len(world.store.read(mixed))
    world.store.put(top, b"".join(orjson.dumps(line) + b"\n" for line in kept))
    world.commit(add("new"))
    world.checkpoint()
    assert mixed not in world.sidecars()
    assert set(world.sidecars(2)) & set(world.sidecars(3))
    fresh = world.without_commits()
    assert (gone(fresh), len(paths(fresh))) == (["f24"], 25)


def test_checkpoints_after_small_commits_do_not_pile_up_small_sidecars(small: None) -> None:
    world = World()
    for number in range(40):
        world.commit(add(f"f{number:02d}"))
        world.checkpoint()
    assert len(world.sidecars()) <= 40 // 8 + 3
    assert len(paths(world.without_commits())) == 40


def test_sidecars_of_another_checkpoint_schema_are_not_reused(small: None) -> None:
    world = World()
    world.commit(*(add(f"f{n}") for n in range(16)))
    world.checkpoint()
    before = world.sidecars()
    world.commit(world.metadata(**{"delta.checkpoint.writeStatsAsStruct": "false"}))
    world.checkpoint()
    assert not set(before) & set(world.sidecars())
    assert len(paths(world.without_commits())) == 16


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_statistics_that_a_checkpoint_has_typed_are_not_parsed_again(policy: str, small: None) -> None:
    """Shown by a checkpoint whose typed statistics are not those of its text."""
    world = World(**{"delta.checkpointPolicy": policy})
    world.commit(*(add(f"f{n}") for n in range(3)))
    world.checkpoint()
    (name,) = world.sidecars() if policy == "v2" else [checkpoint_name(1)]
    table = pq.read_table(pa.BufferReader(world.store.read(name)))
    rows = table.to_pylist()
    for row in rows:
        if row["add"]:
            row["add"]["stats_parsed"]["minValues"]["id"] = -7
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, table.schema), sink, store_schema=False)
    world.store.put(name, sink.getvalue().to_pybytes())
    world.commit(add("new"))
    world.checkpoint()
    names = world.sidecars() if policy == "v2" else [checkpoint_name(2)]
    adds = [row["add"] for name in names for row in pq.read_table(pa.BufferReader(world.store.read(name))).to_pylist()]
    typed = {row["path"]: row["stats_parsed"]["minValues"]["id"] for row in adds if row}
    assert typed == {"f0": -7, "f1": -7, "f2": -7, "new": 1}
    texts = {orjson.loads(row["stats"])["minValues"]["id"] for row in adds if row}
    assert texts == {1}


def test_expired_tombstones_leave_with_the_next_checkpoint(small: None) -> None:
    world = World()
    world.commit(*(add(f"f{n}") for n in range(16)))
    world.commit(remove("f1"))
    old = remove("f2")
    old["remove"]["deletionTimestamp"] = 1
    world.commit(old)
    world.checkpoint()
    fresh = world.without_commits()
    assert (gone(fresh), len(paths(fresh))) == (["f1"], 14)


def key_of(line: Line) -> tuple[str, str | None]:
    """The path of a file action, and the deletion vector that is part of its key."""
    ((_, fields),) = line.items()
    return fields["path"], fields.get("deletionVector", {}).get("pathOrInlineDv")


ACTIONS = st.lists(st.tuples(st.sampled_from(["add", "remove", "vector"]), st.integers(0, 60)), max_size=25)


@given(commits=st.lists(st.tuples(ACTIONS, st.booleans()), min_size=1, max_size=12))
def test_a_checkpoint_alone_equals_its_commits_whatever_was_committed(
    commits: list[tuple[list[tuple[str, int]], bool]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        _make_small(patch.setattr)
        world = World()
        live: dict[str, str | None] = {}
        removed: set[str] = set()
        newest: dict[tuple[str, str | None], str] = {}
        for actions, with_checkpoint in commits:
            lines = {}
            for kind, number in actions:
                path = f"f{number}"
                vector = {"storageType": "u", "pathOrInlineDv": f"v{world.version}", "sizeInBytes": 1, "cardinality": 1}
                lines[path] = {
                    "add": add(path),
                    "remove": remove(path),
                    "vector": add(path, deletionVector=vector),
                }[kind]
            pairs = []
            for path, line in lines.items():
                if path in live:  # as every writer does: what is replaced is removed, under the key that it had
                    was = live.pop(path)
                    pairs.append(remove(path))
                    if was is not None:
                        pairs[-1]["remove"]["deletionVector"] = {
                            "storageType": "u",
                            "pathOrInlineDv": was,
                            "sizeInBytes": 1,
                            "cardinality": 1,
                        }
                    removed.add(path)
                    live.pop(path, None)
                elif "remove" in line:
                    pairs.append(line)
                    removed.add(path)
                if "add" in line:
                    pairs.append(line)
                    held = line["add"].get("deletionVector")
                    live[path] = held and held["pathOrInlineDv"]
            world.commit(*pairs)
            newest |= {key_of(line): next(iter(line)) for line in pairs}
            if with_checkpoint:
                world.checkpoint()
        world.checkpoint()
        tombstones = sorted(path for (path, _), kind in newest.items() if kind == "remove")
        assert gone(world.without_commits()) == tombstones
        by_commits = DeltaLog(TableStore("memory://t", world.store, MemoryFileStore()))
        assert paths(world.without_commits()) == paths(by_commits) == sorted(live)
        counts = [pq.read_metadata(pa.BufferReader(world.store.read(name))).num_rows for name in world.sidecars()]
        assert max(counts, default=0) <= 8
        assert len(counts) <= 4 + 2 * len(live) // 8 + len(removed) // 4


def test_a_log_cleanup_leaves_the_sidecars_that_later_checkpoints_still_name(small: None) -> None:
    day_ms = 86_400_000
    world = World(**{"delta.logRetentionDuration": "interval 3 days"})
    world.commit(*(add(f"f{n:02d}") for n in range(24)))
    world.checkpoint()
    world.commit(remove("f00"), add("second"))
    world.checkpoint()
    old, shared = set(world.sidecars(1)) - set(world.sidecars(2)), set(world.sidecars(1)) & set(world.sidecars(2))
    orphan = "_sidecars/80a083e8-7026-4e79-81be-64bd76c43a11.parquet"
    world.store.put(orphan, b"of a checkpoint that was never published")
    ages = {commit_name(3): 0}
    world.commit(add("third"))
    now_ms = 20_000 * day_ms
    for name, (body, _) in world.store.objects.items():
        world.store.objects[name] = (body, now_ms - ages.get(name, 10) * day_ms)
    with ambient.use(_At(now_ms)):
        log = world.open()
        done = clean_up_log(log, log.newest_state())
    assert old
    assert shared
    assert {name for name in done.names if "/" in name} == {*old, orphan}
    assert (done.first_version, len(paths(world.open()))) == (2, 25)
    world.checkpoint()
    assert len(paths(world.without_commits())) == 25


class _At(ambient.Ambient):
    def __init__(self, moment_ms: int) -> None:
        self._moment_ms = moment_ms

    def now_ms(self) -> int:
        return self._moment_ms


def test_sidecars_of_a_checkpoint_that_a_log_cleanup_may_delete_are_not_reused(small: None) -> None:
    """Another process may write a checkpoint of version 2 meanwhile, and then clean up the one of version 1."""
    world = World(**{"delta.logRetentionDuration": "interval 3 days"})
    world.commit(*(add(f"f{n:02d}") for n in range(24)))
    world.checkpoint()
    world.commit(add("second"))
    later_ms = ambient.now_ms() + 4 * 86_400_000
    with ambient.use(_At(later_ms)):
        world.commit(add("third"))
        world.checkpoint()
    assert not set(world.sidecars(1)) & set(world.sidecars(3))
    assert len(paths(world.without_commits())) == 26


_OF_VERSION_1 = f"{1:020d}.checkpoint."


def _log_of_a_sleeper(world: World, clock: StoppedClock, at: str, *, loses_sidecars: bool) -> DeltaLog:
    """Its machine sleeps for a day before it puts a name that starts with ``at``."""

    def sleep(call: StoreCall) -> None:
        if call.operation == "put_if_absent" and call.name.startswith(at):
            clock.pass_hours(24)
            for name in world.names("_sidecars/") if loses_sidecars else ():
                world.store.delete(name)

    return DeltaLog(TableStore("memory://t", FaultyLogStore(world.store, sleep), MemoryFileStore()))


@pytest.mark.parametrize(("at", "loses_sidecars"), [("_sidecars/", False), (_OF_VERSION_1, True)])
def test_a_checkpoint_whose_writer_slept_until_its_sidecars_could_be_deleted_does_not_stay(
    at: str, loses_sidecars: bool, small: None
) -> None:
    world = World()
    world.commit(*(add(f"f{n:02d}") for n in range(24)))
    clock = StoppedClock()
    log = _log_of_a_sleeper(world, clock, at, loses_sidecars=loses_sidecars)
    with ambient.use(clock), pytest.raises(StorageError, match="may have deleted its sidecars"):
        log.write_checkpoint(log.newest_state())
    assert world.names(".checkpoint.") == []


def test_a_checkpoint_that_was_published_late_stays_if_its_sidecars_do(small: None) -> None:
    """A log cleanup may have relied on it, and have deleted the commits below it."""
    world = World()
    world.commit(*(add(f"f{n:02d}") for n in range(24)))
    clock = StoppedClock()
    log = _log_of_a_sleeper(world, clock, _OF_VERSION_1, loses_sidecars=False)
    with ambient.use(clock):
        assert log.write_checkpoint(log.newest_state()) == 1
    assert len(paths(world.without_commits())) == 24


# --- what goes wrong -------------------------------------------------------------------------------------------


def two_checkpoints(world: World) -> tuple[str, str]:
    """Two V2 checkpoints of 16 and 17 files, and a commit after them; the names of both."""
    world.commit(*(add(f"f{n:02d}") for n in range(16)))
    world.checkpoint()
    (first,) = world.names(".checkpoint.")
    world.commit(remove("f00"), add("second0"), add("second1"))
    world.checkpoint()
    second = world.names(".checkpoint.")[-1]
    world.commit(add("third"))
    return first, second


@pytest.mark.parametrize("damage", ["torn", "empty", "missing"])
@pytest.mark.parametrize("which", ["top-level", "sidecar"])
def test_a_broken_part_falls_back_to_an_older_checkpoint_and_warns(
    which: str, damage: str, small: None, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    _, second = two_checkpoints(world)
    own = [name for name in world.sidecars(2) if name not in world.sidecars(1)]
    broken = second if which == "top-level" else own[0]
    if damage == "missing":
        world.store.delete(broken)
    else:
        world.store.put(broken, b"" if damage == "empty" else world.store.read(broken)[:-40])
    for name in (commit_name(0), commit_name(1)):  # nothing but the older checkpoint is left to fall back to
        world.store.delete(name)
    log = world.open()
    assert len(paths(log)) == 18
    assert (broken.split("/")[-1] in caplog.text) or damage == "missing"
    assert which == "top-level" or "falling back to an older checkpoint" in caplog.text
    caplog.clear()
    world.checkpoint()
    assert len(paths(world.without_commits())) == 18, "the next checkpoint is whole again"


def test_a_sidecar_that_two_checkpoints_share_falls_back_to_the_commits(
    small: None, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    two_checkpoints(world)
    shared = sorted(set(world.sidecars(1)) & set(world.sidecars(2)))
    world.store.put(shared[0], b"PAR1")
    assert len(paths(world.open())) == 18
    assert caplog.text.count("falling back") == 2
    world.store.delete(commit_name(0))
    with pytest.raises(CorruptLogError) as caught:
        paths(world.open())
    assert caught.value.path == shared[0]


@pytest.mark.parametrize(
    "hint",
    [
        b"{torn",
        b'{"version":2,"size":1,"v2Checkpoint":{"path":"00000000000000000002.checkpoint.nothing.json"}}',
        b'{"version":2,"v2Checkpoint":{"path":"00000000000000000002.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"}}',
        b'{"version":999}',
    ],
)
def test_a_wrong_hint_to_a_v2_checkpoint_is_corrected_by_a_listing(hint: bytes, small: None) -> None:
    world = World()
    two_checkpoints(world)
    world.store.put("_last_checkpoint", hint)
    log = world.open()
    assert (log.newest_state().version, len(paths(log))) == (3, 18)


def test_a_sidecar_that_lost_a_file_is_not_published(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.commit(*(add(f"f{n}") for n in range(16)))
    real = checkpoint_columns.row_groups_by_partition

    def losing(files: pa.Table, *rest: Any) -> Any:
        for group in real(files, *rest):
            yield lambda group=group: group().slice(1)

    monkeypatch.setattr(checkpoint_columns, "row_groups_by_partition", losing)
    with pytest.raises(CorruptLogError, match="has 14 files"):
        world.checkpoint()
    assert world.names("checkpoint") == []


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_a_checkpoint_that_may_not_survive_a_power_cut_is_not_pointed_at(policy: str) -> None:
    world = World(**{"delta.checkpointPolicy": policy})
    world.commit(add("f"))
    world.store.before_sync = lambda name: ".checkpoint." not in name
    with pytest.raises(StorageError, match="could not be synced"):
        world.checkpoint()
    assert "_last_checkpoint" not in world.store.objects
    assert paths(world.open()) == ["f"]


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_a_checkpoint_whose_write_got_no_answer_is_on_disk_before_it_is_pointed_at(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(**{"delta.checkpointPolicy": policy})
    world.commit(add("f"))

    def land_unsynced(name: str, body: bytes) -> PutOutcome:
        world.store.put(name, body)
        return PutOutcome.UNKNOWN

    monkeypatch.setattr(world.store, "put_if_absent", land_unsynced)
    world.checkpoint()
    assert "_last_checkpoint" in world.store.objects
    assert {*world.names(".checkpoint."), *world.names("_sidecars/")} <= world.store.durable.keys()


def test_a_sidecar_whose_write_got_no_answer_and_did_not_land_leaves_no_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.commit(add("f"))
    monkeypatch.setattr(world.store, "put_if_absent", lambda *_: PutOutcome.UNKNOWN)
    with pytest.raises(StorageError, match="write it again"):
        world.checkpoint()
    assert world.names("checkpoint") == []


def test_checkpointers_that_race_leave_equal_checkpoints(small: None) -> None:
    world = World()
    two_checkpoints(world)
    barrier = threading.Barrier(4)
    logs = [world.open() for _ in range(4)]

    def race(log: DeltaLog) -> None:
        state = log.newest_state()
        barrier.wait()
        log.write_checkpoint(state)

    threads = [threading.Thread(target=race, args=(log,)) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = world.names(f"{3:020d}.checkpoint.")
    assert written
    hint = orjson.loads(world.store.read("_last_checkpoint"))
    assert (hint["version"], hint["v2Checkpoint"]["path"] in written) == (3, True)
    for name in written:
        others = [other for other in written if other != name]
        copy = world.without_commits(name)
        for other in others:
            copy.store.log.delete(other)
        assert len(paths(copy)) == 18


@pytest.mark.parametrize("policy", ["classic", "v2", "v2 in one JSON file"])
def test_files_are_found_by_any_spelling_of_their_paths_among_live_and_removed_ones(small: None, policy: str) -> None:
    world = World(**{"delta.checkpointPolicy": policy[:2] if policy.startswith("v2") else policy})
    names = [f"part {number}" for number in range(40)]
    world.commit(*(add(name.replace(" ", "%20"), size=number) for number, name in enumerate(names)))
    world.commit(*(remove(name.replace(" ", "%20")) for name in names[::2]))
    if policy.endswith("JSON file"):
        lines = [world.metadata(), {"protocol": V2_PROTOCOL}, {"checkpointMetadata": {"version": 2}}]
        lines += [add(name.replace(" ", "%20"), size=at) for at, name in enumerate(names) if at % 2]
        lines += [remove(name.replace(" ", "%20")) for name in names[::2]]
        body = b"".join(orjson.dumps(line) + b"\n" for line in lines)
        world.store.put(f"{2:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", body)
    else:
        world.checkpoint()
    for version in range(3):
        world.store.delete(commit_name(version))
    world.commit(add("part%2041"), remove("part%203"))
    log = world.open()
    live, gone = log.named_files(log.newest_state(), ["part%20%31", "part%202", "part%203", "part%2041", "part%2099"])
    assert sorted(live["path"].to_pylist()) == ["part%201", "part%2041"]
    assert dict(zip(live["path"].to_pylist(), live["size"].to_pylist(), strict=True))["part%201"] == 1
    assert sorted(gone["path"].to_pylist()) == ["part%202", "part%203"]
