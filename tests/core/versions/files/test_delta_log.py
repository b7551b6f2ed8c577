"""The log over a memory store: replay from any start, refresh by name, listings that lie, damage, time travel."""

from __future__ import annotations

import logging
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txlog.core import ambient
from txlog.core.format.commit_file import parse_commit
from txlog.core.format.log_names import checkpoint_name, commit_name, compacted_name, multipart_names
from txlog.core.predicates import bind_predicate
from txlog.core.store import ObjectMeta, PutOutcome, TableStore
from txlog.core.store._base import LOCAL_DISK, OBJECT_STORE
from txlog.core.versions.decisions.checkpoint.hint import last_checkpoint_bytes
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import _checkpoint_parquet as checkpoint_parquet
from txlog.core.versions.files import _delta_log as delta_log
from txlog.core.versions.files import _file_loader as file_loader
from txlog.core.versions.files._delta_log import DeltaLog
from txlog.core.versions.files._small_pages import small_pages
from txlog.errors import CorruptLogError, NotFoundError, StorageError, TableNotFoundError
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore

SCHEMA = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"day","type":"string","nullable":true,"metadata":{}}]}'
)
Line = dict[str, Any]


def protocol() -> Line:
    return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def metadata(**configuration: str) -> Line:
    return {
        "metaData": {
            "id": "table-1",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": SCHEMA,
            "partitionColumns": ["day"],
            "configuration": {f"delta.{key}": value for key, value in configuration.items()},
        }
    }


def add(path: str, *, day: str | None = "a", vector: str | None = None, size: int = 1) -> Line:
    file = {"path": path, "partitionValues": {"day": day}, "size": size, "modificationTime": 1, "dataChange": True}
    if vector:
        file["deletionVector"] = {"storageType": "u", "pathOrInlineDv": vector, "sizeInBytes": 1, "cardinality": 1}
    return {"add": {**file, "stats": '{"numRecords":3,"minValues":{"id":1},"maxValues":{"id":9},"nullCount":{"id":0}}'}}


def remove(path: str, *, vector: str | None = None) -> Line:
    file: Line = {"path": path, "dataChange": True, "deletionTimestamp": 2**52}
    if vector:
        file["deletionVector"] = {"storageType": "u", "pathOrInlineDv": vector, "sizeInBytes": 1, "cardinality": 1}
    return {"remove": file}


def txn(app_id: str, version: int) -> Line:
    return {"txn": {"appId": app_id, "version": version, "lastUpdated": 5}}


def body(*lines: Line) -> bytes:
    return b"".join(orjson.dumps(line) + b"\n" for line in lines)


class LocalLikeLogStore(MemoryLogStore):
    """Lists as a local directory does: names can be missing from it."""

    capabilities = LOCAL_DISK

    def __init__(self) -> None:
        super().__init__()
        self.hidden: set[str] = set()
        self.calls: list[str] = []

    def list_from(self, start: str) -> list[ObjectMeta]:
        self.calls.append(f"list {start}")
        return [meta for meta in super().list_from(start) if meta.name not in self.hidden]

    def read(self, name: str) -> bytes:
        self.calls.append(f"read {name}")
        return super().read(name)

    def stat(self, name: str) -> ObjectMeta:
        self.calls.append(f"head {name}")
        return super().stat(name)


class World:
    """A table in memory and how to write commits into it."""

    def __init__(self, store: MemoryLogStore) -> None:
        self.log = store
        self.version = -1

    def commit(self, *lines: Line, modified_ms: int | None = None) -> None:
        self.version += 1
        self.log.put(commit_name(self.version), body(*lines))
        if modified_ms is not None:
            self.log.objects[commit_name(self.version)] = (body(*lines), modified_ms)

    def open(self) -> DeltaLog:
        return DeltaLog(TableStore("memory://t", self.log, MemoryFileStore()))

    def drop(self, *versions: int) -> None:
        for version in versions:
            self.log.delete(commit_name(version))


@pytest.fixture(params=[MemoryLogStore, LocalLikeLogStore], ids=["lists completely", "lists like a disk"])
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param())


@pytest.fixture
def local() -> World:
    return World(LocalLikeLogStore())


def paths(log: DeltaLog, state: TableState | None = None) -> list[str]:
    return sorted(log.files(state or log.newest_state())["path"].to_pylist())


# --- any start point gives the same state --------------------------------------------------------------------

_PATHS = ["p0", "p1", "a%20b", "file:/x/y", "/x/y", "file:///x/y"]
_SAME = {"/x/y": "XY", "file:/x/y": "XY", "file:///x/y": "XY"}
_action = st.one_of(
    st.builds(add, st.sampled_from(_PATHS), day=st.sampled_from(["a", "b", None]), vector=st.sampled_from([None, "v"])),
    st.builds(remove, st.sampled_from(_PATHS), vector=st.sampled_from([None, "v"])),
    st.builds(txn, st.sampled_from(["x", "y"]), st.integers(0, 5)),
)
_commits = st.lists(st.lists(_action, min_size=1, max_size=4), min_size=1, max_size=6)


def model(commits: list[list[Line]]) -> tuple[dict[Any, str], set[Any], dict[str, int]]:
    """The protocol's reconciliation, written down a second time: live files, tombstones, application versions."""
    live: dict[Any, str] = {}
    dead: set[Any] = set()
    versions: dict[str, int] = {}
    for commit in commits:
        for action in commit:
            if "txn" in action:
                versions[action["txn"]["appId"]] = action["txn"]["version"]
                continue
            ((kind, file),) = action.items()
            key = (_SAME.get(file["path"], file["path"]), "deletionVector" in file)
            dead.discard(key)
            live.pop(key, None)
            if kind == "add":
                live[key] = file["partitionValues"]["day"]
            else:
                dead.add(key)
    return live, dead, versions


def observed(log: DeltaLog, state: TableState) -> tuple[dict[Any, str], set[Any], dict[str, int]]:
    def key(file: Line) -> Any:
        return _SAME.get(file["path"], file["path"]), file["deletionVector"] is not None

    live = log.files(state).to_pylist()
    dead = [key(file) for file in log.files_and_tombstones(state)[1].to_pylist()]
    for path in _PATHS:
        same = _SAME.get(path, path)
        named, gone = ([key(file) for file in table.to_pylist()] for table in log.named_files(state, [path]))
        assert sorted(named) == sorted(key(file) for file in live if key(file)[0] == same)
        assert sorted(gone) == sorted(each for each in dead if each[0] == same)
    assert len(dead) == len(set(dead))
    assert len(live) == len({key(file) for file in live})
    days = {key(file): dict(file["partitionValues"])["day"] for file in live}
    return days, set(dead), {app_id: txn.version for app_id, txn in state.transactions.items()}


@given(commits=_commits, struct=st.booleans())
@settings(max_examples=settings.default.max_examples // 4)
def test_checkpoint_and_tail_equal_the_fold_at_every_checkpoint_version(
    commits: list[list[Line]], struct: bool
) -> None:
    configuration = {"checkpoint.writeStatsAsStruct": "true"} if struct else {}
    for at in range(len(commits)):
        world = World(MemoryLogStore())
        first, *rest = commits
        world.commit(protocol(), metadata(**configuration), *first)
        for lines in rest:
            world.commit(*lines)
        log = world.open()
        assert log.write_checkpoint(log.state_at(at)) == at
        world.drop(*range(at + 1))  # so that only the checkpoint is left
        fresh = world.open()
        state = fresh.newest_state()
        assert (state.version, state.segment.checkpoint and state.segment.checkpoint.version) == (len(commits) - 1, at)
        assert observed(fresh, state) == model(commits)
        for version in range(at, len(commits)):
            assert observed(fresh, fresh.state_at(version)) == model(commits[: version + 1])


@given(commits=_commits)
def test_an_open_log_that_follows_equals_one_that_loads(commits: list[list[Line]]) -> None:
    world = World(LocalLikeLogStore())
    world.commit(protocol(), metadata())
    log = world.open()
    held = log.files(log.newest_state())
    for number, lines in enumerate(commits):
        world.commit(*lines)
        state = log.newest_state()
        assert observed(log, state) == model(commits[: number + 1])
        held = log.files(state)
        assert state == log.advance(log.state_at(state.version - 1), log.read_commit(state.version), ambient.instant())
    assert held.num_rows == len(model(commits)[0])


# --- heads -----------------------------------------------------------------------------------------------------


def test_a_store_without_a_log_has_no_table(world: World) -> None:
    log = world.open()
    assert not log.exists()
    with pytest.raises(TableNotFoundError):
        log.newest_state()
    with pytest.raises(TableNotFoundError):
        log.state_at(0)


def test_a_table_of_which_only_a_checkpoint_is_left_exists(world: World) -> None:
    world.commit(protocol(), metadata(), add("p"))
    world.open().write_checkpoint(world.open().newest_state())
    world.drop(0)
    log = world.open()
    assert log.exists()
    assert (log.newest_state().version, paths(log)) == (0, ["p"])


def test_a_refresh_looks_for_the_next_commit_by_name_without_a_listing(local: World) -> None:
    local.commit(protocol(), metadata())
    log = local.open()
    log.newest_state()
    local.log.calls.clear()
    assert log.newest_state().version == 0
    assert local.log.calls == [f"read {commit_name(1)}", f"head {commit_name(0)}"]
    local.commit(txn("x", 3))
    assert log.newest_state().transaction_version("x") == 3
    local.log.calls.clear()
    assert log.newest_state(refresh=False).version == 1
    assert local.log.calls == []


def test_opening_on_a_checkpoint_needs_no_listing_on_a_disk(local: World) -> None:
    local.commit(protocol(), metadata(), add("p"))
    local.open().write_checkpoint(local.open().newest_state())
    local.commit(txn("x", 3))
    local.log.calls.clear()
    assert local.open().newest_state().transaction_version("x") == 3
    assert not [call for call in local.log.calls if call.startswith("list")]


def test_our_own_commit_is_remembered_and_not_read_again(local: World) -> None:
    local.commit(protocol(), metadata())
    log = local.open()
    state = log.newest_state()
    local.commit(add("p"), txn("x", 1))
    log.advance(state, parse_commit(local.log.read(commit_name(1)), 1), ambient.instant())
    local.log.calls.clear()
    assert log.newest_state().transaction_version("x") == 1
    assert local.log.calls == [f"read {commit_name(2)}", f"head {commit_name(1)}"]


def test_a_long_tail_is_followed_to_its_end(world: World) -> None:
    world.commit(protocol(), metadata())
    log = world.open()
    log.newest_state()
    for number in range(100):
        world.commit(add(f"p{number}"))
    assert log.newest_state().version == 100
    assert len(paths(log)) == 100
    assert len(log.commits_after(3)) == 97
    assert world.open().newest_state().segment.tail_bytes == log.newest_state().segment.tail_bytes


def test_metadata_that_did_not_change_is_parsed_once(world: World) -> None:
    world.commit(protocol(), metadata())
    log = world.open()
    schema = log.newest_state().schema
    world.commit(txn("x", 1))
    assert log.newest_state().schema is schema


def _cleaned_up_under(world: World) -> DeltaLog:
    """A log that knows version 0, while 1 to 11 came and went: version 1 is absent, and yet it was taken."""
    world.commit(protocol(), metadata())
    log = world.open()
    log.newest_state()
    for number in range(12):
        world.commit(add(f"p{number}"))
    other = world.open()
    other.write_checkpoint(other.newest_state())
    world.drop(*range(12))
    return log


def test_a_state_whose_own_commit_was_cleaned_up_is_reloaded_if_the_check_is_free(local: World) -> None:
    assert _cleaned_up_under(local).newest_state().version == 12


def test_a_state_older_than_the_trusted_time_is_reloaded(world: World, clock: Any) -> None:
    world.log.capabilities = OBJECT_STORE
    log = _cleaned_up_under(world)
    assert log.newest_state().version == 0
    clock.sleep(3601)
    assert log.state_age_s() > 3600
    assert log.newest_state().version == 12
    assert log.state_age_s() == 0


def test_a_table_replaced_under_an_open_handle_is_refused(world: World) -> None:
    world.commit(protocol(), metadata())
    log = world.open()
    log.newest_state()
    other = orjson.dumps(metadata()).replace(b"table-1", b"table-2")
    world.log.put(commit_name(0), orjson.dumps(protocol()) + b"\n" + other)
    with pytest.raises(CorruptLogError, match="replaced"):
        log.reload()


# --- listings lie, commits are missing -------------------------------------------------------------------------


def test_a_name_missing_from_a_listing_is_fetched_by_name(local: World) -> None:
    local.commit(protocol(), metadata(), add("p0"))
    for number in range(1, 5):
        local.commit(add(f"p{number}"))
    local.log.hidden = {commit_name(2), commit_name(4)}
    log = local.open()
    assert (log.newest_state().version, len(paths(log))) == (4, 5)
    assert [commit.version for commit in local.open().commits_after(1)] == [2, 3, 4]
    assert [entry.version for entry in local.open().history()] == [4, 3, 2, 1, 0]


def test_a_gap_is_refused_and_named(world: World) -> None:
    world.commit(protocol(), metadata())
    world.commit(add("p1"))
    world.commit(add("p2"))
    world.drop(1)
    with pytest.raises(CorruptLogError, match="gap") as caught:
        world.open().newest_state()
    assert caught.value.version == 1
    with pytest.raises(CorruptLogError, match="gap"):
        world.open().state_at(2)
    assert world.open().state_at(0).version == 0


def test_a_log_without_its_beginning_is_refused(world: World) -> None:
    world.commit(protocol(), metadata())
    world.commit(add("p1"))
    world.drop(0)
    with pytest.raises(CorruptLogError):
        world.open().newest_state()


def test_commits_after_a_version_raises_not_found_if_the_next_commit_was_cleaned_up(world: World) -> None:
    for lines in ([protocol(), metadata()], [add("p1")], [add("p2")], [add("p3")]):
        world.commit(*lines)
    world.open().write_checkpoint(world.open().state_at(2))
    world.drop(0, 1)
    log = world.open()
    with pytest.raises(NotFoundError) as caught:
        log.commits_after(0)
    assert caught.value.version == 1
    assert [commit.version for commit in log.commits_after(1)] == [2, 3]
    assert log.commits_after(3) == []


@pytest.mark.parametrize("damage", [b"", b'{"add":{"pa', body(add("p9"))[:-9]])
def test_a_torn_commit_is_an_error_and_never_missing_rows(world: World, damage: bytes) -> None:
    world.commit(protocol(), metadata())
    world.commit(add("p1"))
    log = world.open()
    log.state_at(0)
    world.log.put(commit_name(1), damage)
    for attempt in (
        log.newest_state,
        world.open().newest_state,
        lambda: log.read_commit(1),
        lambda: log.commits_after(0),
    ):
        with pytest.raises(CorruptLogError) as caught:
            attempt()
        assert caught.value.path == commit_name(1)


def test_an_incomplete_commit_of_ours_is_an_error_also_when_its_files_are_not_wanted(world: World) -> None:
    declared = {"commitInfo": {"txlog": {"actions": 3}}}
    world.commit(protocol(), metadata())
    world.commit(declared, add("p1"))
    with pytest.raises(CorruptLogError, match="incomplete"):
        world.open().newest_state()


def test_a_storage_error_is_not_taken_for_damage(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.commit(protocol(), metadata())
    world.open().write_checkpoint(world.open().newest_state())
    real = world.log.read

    def failing(name: str) -> bytes:
        if "checkpoint.parquet" in name:
            raise StorageError("throttled")
        return real(name)

    monkeypatch.setattr(world.log, "read", failing)
    with pytest.raises(StorageError, match="throttled"):
        world.open().newest_state()


# --- checkpoints and their hint --------------------------------------------------------------------------------


def long_table(world: World, commits: int = 6, **configuration: str) -> DeltaLog:
    world.commit(protocol(), metadata(**configuration), add("p0"))
    for number in range(1, commits):
        world.commit(add(f"p{number}", day="ab"[number % 2]), txn("x", number))
    return world.open()


@pytest.mark.parametrize(
    "hint",
    [
        b"",
        b"{",
        b"[]",
        b'{"version":"3"}',
        b'{"version":3}',
        b'{"version":2,"size":1}',
        b'{"version":99,"size":1}',
        b'{"version":-1}',
        b'{"version":3,"parts":0}',
        b'{"version":3,"parts":7}',
        b'{"version":3,"parts":100000000000}',
        b'{"version":3,"v2Checkpoint":{"path":"../../etc/passwd"}}',
        b'{"version":3,"v2Checkpoint":7}',
        None,
    ],
)
def test_the_newest_state_is_the_same_with_any_hint_or_none(world: World, hint: bytes | None) -> None:
    log = long_table(world)
    log.write_checkpoint(log.state_at(3))
    if hint is None:
        world.log.delete("_last_checkpoint")
    else:
        world.log.put("_last_checkpoint", hint)
    fresh = world.open()
    assert (fresh.newest_state().version, fresh.newest_state().transaction_version("x"), len(paths(fresh))) == (5, 5, 6)
    assert len(paths(fresh, fresh.state_at(1))) == 2


@pytest.mark.parametrize("damage", [b"", b"PAR1", bytes(5000), None])
def test_a_damaged_checkpoint_falls_back_with_a_warning(
    world: World, damage: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    log = long_table(world)
    log.write_checkpoint(log.state_at(2))
    log.write_checkpoint(log.state_at(4))
    if damage is None:
        world.log.delete(checkpoint_name(4))
    else:
        world.log.put(checkpoint_name(4), damage)
    fresh = world.open()
    with caplog.at_level(logging.WARNING, logger="txlog"):
        state = fresh.newest_state()
    assert state.segment.checkpoint is not None
    assert state.segment.checkpoint.version == 2
    assert bool(caplog.records) == (damage is not None)
    assert len(paths(fresh, state)) == 6


def test_a_checkpoint_lost_after_the_state_was_loaded_is_replaced_by_an_older_one(world: World) -> None:
    log = long_table(world)
    log.write_checkpoint(log.state_at(2))
    log.write_checkpoint(log.state_at(4))
    fresh = world.open()
    state = fresh.newest_state()
    world.log.put(checkpoint_name(4), b"gone")
    assert len(paths(fresh, state)) == 6
    world.log.delete(checkpoint_name(2))
    assert len(paths(fresh, state)) == 6


def test_a_damaged_checkpoint_without_the_commits_before_it_is_refused(world: World) -> None:
    log = long_table(world)
    log.write_checkpoint(log.state_at(4))
    state = world.open().newest_state()
    world.drop(*range(4))
    world.log.put(checkpoint_name(4), b"PAR1")
    with pytest.raises(CorruptLogError) as caught:
        world.open().newest_state()
    assert caught.value.path == checkpoint_name(4)
    with pytest.raises(CorruptLogError):
        world.open().files(state)


def test_a_checkpoint_is_never_overwritten(world: World) -> None:
    log = long_table(world)
    world.log.put(checkpoint_name(5), b"somebody else's")
    assert log.write_checkpoint(log.newest_state()) == 5
    assert world.log.read(checkpoint_name(5)) == b"somebody else's"
    with pytest.raises(NotFoundError):
        world.log.read("_last_checkpoint")


def test_a_hint_is_never_moved_back(world: World) -> None:
    log = long_table(world)
    newer = last_checkpoint_bytes(9, actions=1, size_bytes=1, add_files=1)
    world.log.put("_last_checkpoint", newer)
    assert log.write_checkpoint(log.state_at(5)) == 5
    assert world.log.read("_last_checkpoint") == newer


def test_a_checkpoint_is_of_a_version_that_is_on_disk(world: World) -> None:
    log = long_table(world)
    assert commit_name(5) in world.log.unsafe()
    log.write_checkpoint(log.newest_state())
    world.log.power_cut()
    assert commit_name(5) in world.log.objects


def test_a_checkpoint_whose_write_got_no_answer_and_did_not_land_is_a_storage_error(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = long_table(world)
    monkeypatch.setattr(world.log, "put_if_absent", lambda *_: PutOutcome.UNKNOWN)
    with pytest.raises(StorageError, match="write it again") as caught:
        log.write_checkpoint(log.newest_state())
    assert caught.value.path == checkpoint_name(log.newest_state().version)
    monkeypatch.undo()
    assert log.write_checkpoint(log.newest_state()) == log.newest_state().version


def test_a_stale_hint_is_ignored_if_the_commits_after_its_checkpoint_were_cleaned_up(world: World) -> None:
    log = long_table(world)
    log.write_checkpoint(log.state_at(2))
    stale = world.log.read("_last_checkpoint")
    log.write_checkpoint(log.state_at(4))
    world.log.put("_last_checkpoint", stale)
    world.drop(0, 1, 2, 3)  # a cleanup that had not come to the older checkpoint yet
    fresh = world.open()
    assert (fresh.newest_state().version, len(paths(fresh))) == (5, 6)


def test_an_older_checkpoint_does_not_take_the_hint_back(world: World) -> None:
    log = long_table(world)
    log.write_checkpoint(log.state_at(4))
    log.write_checkpoint(log.state_at(2))
    assert orjson.loads(world.log.read("_last_checkpoint"))["version"] == 4


def test_an_open_log_starts_from_its_own_new_checkpoint(world: World) -> None:
    log = long_table(world)
    state = log.newest_state()
    world.commit(add("later"))
    log.newest_state()
    log.write_checkpoint(state)
    assert log.newest_state().segment.first_commit == 6
    assert log.newest_state().segment.tail_commits == 1
    assert len(paths(log)) == 7


def test_the_hint_counts_what_the_checkpoint_holds(world: World) -> None:
    log = long_table(world)
    world.commit(remove("p0"))
    log.write_checkpoint(log.newest_state())
    hint = orjson.loads(world.log.read("_last_checkpoint"))
    written = world.log.read(checkpoint_name(6))
    table = pq.read_table(pa.BufferReader(written))
    assert hint["size"] == table.num_rows == 1 + 1 + 1 + 5 + 1
    assert hint["numOfAddFiles"] == len(table) - table["add"].null_count == 5
    assert hint["sizeInBytes"] == len(written)


@pytest.mark.parametrize("many", [1, 100])
def test_a_list_in_memory_is_filtered_whether_or_not_the_checkpoint_is_still_there(
    world: World, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long list asks the checkpoint for typed statistics; where that is gone, the list answers by itself."""
    monkeypatch.setattr(delta_log, "MANY_FILES", many)
    long_table(world, 4).write_checkpoint(world.open().newest_state())
    log = world.open()
    state = log.newest_state()
    held = log.files(state)
    for where, found in (("id = 1", held.num_rows), ("id < 1", 0)):
        predicate = bind_predicate(where, state.schema, zone="UTC")
        assert log.matching_files(state, predicate).num_rows == found
    for name in [*world.log.objects]:
        if name not in ("_last_checkpoint", commit_name(state.version)):
            world.log.delete(name)
    assert log.matching_files(state, bind_predicate("id = 1", state.schema, zone="UTC")).num_rows == held.num_rows


def test_files_are_read_a_few_at_a_time_for_a_caller_that_reads_all_of_them_once(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_parquet, "PIECE_ROWS", 1_000)
    monkeypatch.setattr(checkpoint_parquet, "READ_BYTES", 4_096)
    monkeypatch.setattr(file_loader, "STREAMED_ROWS", 100, raising=False)
    files = [add(f"part-{number:05d}.parquet")["add"] for number in range(10_000)]
    for number, file in enumerate(files):
        file["stats"] = orjson.dumps({"numRecords": 1, "minValues": {"day": f"{number:01000d}"}}).decode()
    local.commit(protocol(), metadata(), *({"add": file} for file in files))
    log = local.open()
    log.write_checkpoint(log.newest_state())
    listed = log.files(log.newest_state())
    sink = pa.BufferOutputStream()
    checkpoint = pq.read_table(pa.BufferReader(local.log.read(checkpoint_name(0))))
    pq.write_table(checkpoint, sink, row_group_size=1_000, data_page_size=50_000, use_dictionary=False)
    local.log.put(checkpoint_name(0), sink.getvalue().to_pybytes())
    del checkpoint, sink
    fresh = local.open()
    with small_pages():
        before_bytes = pa.total_allocated_bytes()
    found, held_bytes = [], 0
    for batch in fresh.file_batches(fresh.newest_state())(True):
        held_bytes = max(held_bytes, pa.total_allocated_bytes() - before_bytes)
        found += batch.column("path").to_pylist()
    assert found == listed["path"].to_pylist()
    assert held_bytes < listed.nbytes / 5


def test_a_checkpoint_with_statistics_now_as_text_now_typed_loses_none(world: World) -> None:
    log = long_table(world, 4, **{"checkpoint.writeStatsAsStruct": "true"})
    log.write_checkpoint(log.newest_state())
    table = pq.read_table(pa.BufferReader(world.log.read(checkpoint_name(3))))
    rows = table.to_pylist()
    files = [row["add"] for row in rows if row["add"]]
    files[0]["stats"] = None
    files[1]["stats_parsed"] = None
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, table.schema), sink)
    world.log.put(checkpoint_name(3), sink.getvalue().to_pybytes())
    fresh = world.open()
    texts = fresh.files(fresh.newest_state())["stats"].to_pylist()
    assert len(texts) == 4
    assert {orjson.loads(text)["minValues"]["id"] for text in texts} == {1}


def split_checkpoint(world: World, version: int, parts: int) -> None:
    table = pq.ParquetFile(pa.BufferReader(world.log.read(checkpoint_name(version)))).read()
    for number, name in enumerate(multipart_names(version, parts)):
        sink = pa.BufferOutputStream()
        pq.write_table(table.take(list(range(number, len(table), parts))), sink)
        world.log.put(name, sink.getvalue().to_pybytes())
    world.log.delete(checkpoint_name(version))


def test_a_multi_part_checkpoint_is_read_whole_or_not_at_all(world: World) -> None:
    log = long_table(world)
    log.write_checkpoint(log.state_at(4))
    split_checkpoint(world, 4, 3)
    world.log.put("_last_checkpoint", b'{"version":4,"size":9,"parts":3}')
    fresh = world.open()
    assert fresh.newest_state().segment.first_commit == 5
    assert len(paths(fresh)) == 6
    world.log.delete(multipart_names(4, 3)[1])
    fresh = world.open()
    assert fresh.newest_state().segment.first_commit == 0
    assert len(paths(fresh)) == 6


def test_compacted_commits_stand_for_the_commits_they_cover(world: World) -> None:
    log = long_table(world)
    merged = [action for version in (1, 2, 3) for action in orjson_lines(world.log.read(commit_name(version)))]
    world.log.put(compacted_name(1, 3), body(*[a for a in merged if "add" in a], txn("x", 3)))
    world.log.put(compacted_name(3, 9), b"beyond the head: must not be read")
    world.drop(2)
    fresh = world.open()
    assert (len(paths(fresh)), fresh.newest_state().transaction_version("x")) == (6, 5)
    assert log.newest_state().version == 5


def test_a_state_that_ends_with_a_compacted_file_knows_its_newest_commit(world: World) -> None:
    world.commit(protocol(), metadata())
    world.commit(add("a"))
    world.commit(add("b"), txn("x", 3))
    plain = world.open().newest_state()
    world.log.put(compacted_name(1, 2), body(add("a"), add("b"), txn("x", 3)))
    compacted = world.open().newest_state()
    assert compacted.segment.compacted
    assert compacted.mark == plain.mark
    world.log.put(commit_name(2), b'{"add')
    damaged = world.open().newest_state()
    assert (damaged.transaction_version("x"), damaged.mark) == (3, None)


def test_times_of_versions_one_after_another_list_the_log_once(local: World) -> None:
    assert isinstance(local.log, LocalLikeLogStore)
    local.commit(protocol(), metadata(), modified_ms=1_000)
    for at_ms in (5_000, 5_000, 4_000, 9_000):
        local.commit(add("a"), modified_ms=at_ms)
    log = local.open()
    log.newest_state()
    seen: dict[int, int] = {}
    local.log.calls.clear()
    found = [log.timestamps_ms([log.read_commit(version)], seen)[version] for version in range(1, 5)]
    assert found == [5_000, 5_001, 5_002, 9_000]
    assert len([call for call in local.log.calls if call.startswith("list")]) == 1

    local.commit(add("b"), modified_ms=8_000)
    local.log.calls.clear()
    log.newest_state()
    assert log.timestamps_ms([log.read_commit(5)], seen) == {5: 9_001}
    assert [call for call in local.log.calls if call.startswith("list")] == [f"list {5:020}"]
    assert log.timestamps_ms([log.read_commit(1)], {3: 1, 4: 2}) == {1: 5_000}

    log.write_checkpoint(log.newest_state())
    local.drop(5)
    fresh = local.open()
    assert fresh.newest_state().version == 5
    assert fresh.timestamps_ms([fresh.read_commit(1), fresh.read_commit(2)]) == {1: 5_000, 2: 5_001}


def test_a_damaged_compacted_file_is_replaced_by_its_commits(world: World) -> None:
    long_table(world)
    for damage in (b"", b'{"add'):
        world.log.put(compacted_name(1, 3), damage)
        fresh = world.open()
        assert (len(paths(fresh)), fresh.newest_state().transaction_version("x")) == (6, 5)


def orjson_lines(data: bytes) -> list[Line]:
    return [orjson.loads(line) for line in data.splitlines()]


# --- time ------------------------------------------------------------------------------------------------------


def test_versions_outside_the_log_are_not_found(world: World) -> None:
    log = long_table(world)
    log.write_checkpoint(log.state_at(3))
    world.drop(0, 1, 2)
    fresh = world.open()
    assert fresh.state_at(3).version == 3
    for version in (-1, 0, 2, 6):
        with pytest.raises(NotFoundError):
            fresh.state_at(version)
    with pytest.raises(NotFoundError, match="newest is 5"):
        fresh.state_at(6)
    with pytest.raises(NotFoundError, match="earliest is 3"):
        fresh.state_at(2)


def test_a_timestamp_finds_the_newest_version_at_or_before_it(world: World) -> None:
    world.commit(protocol(), metadata(), modified_ms=1000)
    world.commit(add("p1"), modified_ms=3000)
    world.commit(add("p2"), modified_ms=2000)  # a clock that went back
    world.commit(add("p3"), modified_ms=5000)
    log = world.open()
    found = {moment: log.version_at(moment) for moment in (1000, 2999, 3000, 3001, 4999, 5000, 5001, 2**62)}
    assert found == {1000: 0, 2999: 0, 3000: 1, 3001: 2, 4999: 2, 5000: 3, 5001: 3, 2**62: 3}
    after = {moment: log.first_version_from(moment, log.newest_state()) for moment in (0, 1000, 1001, 3001, 5000, 5001)}
    assert after == {0: 0, 1000: 0, 1001: 1, 3001: 2, 5000: 3, 5001: 4}
    assert [entry.timestamp_ms for entry in log.history()] == [5000, 3001, 3000, 1000]
    with pytest.raises(NotFoundError, match=r"1970-01-01T00:00:00\.999Z is earlier than version 0"):
        log.version_at(999)


def test_a_timestamp_before_the_first_readable_version_is_out_of_range(world: World) -> None:
    for version in range(6):
        lines = [protocol(), metadata()] if version == 0 else [add(f"p{version}")]
        world.commit(*lines, modified_ms=1000 * (version + 1))
    log = world.open()
    log.write_checkpoint(log.state_at(3))
    world.drop(0)
    fresh = world.open()
    with pytest.raises(NotFoundError, match="the oldest that can be read"):
        fresh.version_at(3000)
    assert fresh.version_at(4000) == 3


def test_in_commit_timestamps_win_over_file_times_from_their_version_on(world: World) -> None:
    def stamped(moment: int) -> Line:
        return {"commitInfo": {"inCommitTimestamp": moment}}

    enabled = {
        "enableInCommitTimestamps": "true",
        "inCommitTimestampEnablementVersion": "2",
        "inCommitTimestampEnablementTimestamp": "300",
    }
    world.commit(protocol(), metadata(), modified_ms=100)
    world.commit(add("p1"), modified_ms=200)
    world.commit(stamped(300), metadata(**enabled), modified_ms=99_000)
    world.commit(stamped(400), add("p3"), modified_ms=99_000)
    log = world.open()
    assert [log.version_at(moment) for moment in (100, 250, 300, 399, 400)] == [0, 1, 2, 2, 3]
    assert log.newest_state().in_commit_timestamp_ms == 400
    assert (log.timestamp_ms(1), log.timestamp_ms(3)) == (200, 400)
    log.write_checkpoint(log.newest_state())
    assert world.open().newest_state().in_commit_timestamp_ms == 400


def test_once_in_commit_timestamps_are_off_file_times_are_the_times_of_every_version(world: World) -> None:
    """As Spark does; each time that the history reports leads to its own version."""
    moments = (4_000_000, 5_000_000)
    world.commit(
        {"commitInfo": {"inCommitTimestamp": moments[0]}}, protocol(), metadata(enableInCommitTimestamps="true")
    )
    world.commit({"commitInfo": {"inCommitTimestamp": moments[1]}}, add("p"))
    world.commit(metadata(enableInCommitTimestamps="false"))
    world.commit(add("q"))
    log = world.open()
    for each in log.history():
        assert log.version_at(each.timestamp_ms) == each.version
        assert log.timestamp_ms(each.version) == each.timestamp_ms
    commits = [log.commits.read(version) for version in range(4)]
    assert log.timestamps_ms(commits) == {each.version: each.timestamp_ms for each in log.history()}
    assert not {each.timestamp_ms for each in log.history()} & {*moments}


def test_history_is_newest_first_and_as_long_as_asked(world: World) -> None:
    world.commit({"commitInfo": {"operation": "CREATE"}}, protocol(), metadata())
    world.commit({"commitInfo": {"operation": "WRITE"}}, add("p"))
    world.commit(add("q"))
    log = world.open()
    assert [(e.version, e.commit_info and e.commit_info.operation) for e in log.history()] == [
        (2, None),
        (1, "WRITE"),
        (0, "CREATE"),
    ]
    assert [e.version for e in log.history(limit=2)] == [2, 1]
    assert log.history(limit=0) == []
    assert len(log.history(limit=99)) == 3


# --- when a checkpoint is due ----------------------------------------------------------------------------------


def test_a_set_checkpoint_interval_is_kept(world: World) -> None:
    log = long_table(world, commits=4, checkpointInterval="3")
    assert [log.checkpoint_is_due(log.state_at(version)) for version in range(4)] == [False, False, False, True]
    log.write_checkpoint(log.newest_state())
    for number in range(3):
        assert not log.checkpoint_is_due(log.newest_state())
        world.commit(add(f"later{number}"))
    assert log.checkpoint_is_due(log.newest_state())


def test_a_large_checkpoint_is_not_rewritten_as_often_as_a_small_one(local: World) -> None:
    log = long_table(local, commits=201)
    assert log.checkpoint_is_due(log.newest_state())
    log.write_checkpoint(log.newest_state())
    for number in range(201):
        local.commit(add(f"later{number}"))
    assert log.checkpoint_is_due(log.newest_state())
    hint = {"version": 200, "size": 1, "sizeInBytes": 50_000_000}
    local.log.put("_last_checkpoint", orjson.dumps(hint))
    assert not local.open().checkpoint_is_due(local.open().newest_state())
