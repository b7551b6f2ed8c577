"""Log compaction files: what one says is what its commits say together, and readers that take it see the same table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import golden
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import txlog
from txlog.core.format.commit_file import parse_commit
from txlog.core.format.log_names import commit_name, compacted_name
from txlog.core.store import PutOutcome, TableStore
from txlog.core.versions._open_table import OpenTable
from txlog.core.versions.decisions.compaction import compacted_bytes
from txlog.core.versions.files import DeltaLog
from txlog.core.versions.upkeep._log_compaction import compact_log
from txlog.errors import NotFoundError, StorageError, UnsupportedFeatureError
from txlog.result.maintenance import LogCompaction
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore

SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
PROTOCOL: dict[str, Any] = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["deletionVectors"],
    "writerFeatures": ["deletionVectors", "domainMetadata", "appendOnly"],
}


def vector(number: int) -> dict[str, Any]:
    return {"storageType": "i", "pathOrInlineDv": "0" * (number + 1), "sizeInBytes": 1, "cardinality": 1}


def add(path: str, dv: int | None = None) -> dict[str, Any]:
    found = {"path": path, "partitionValues": {}, "size": 3, "modificationTime": 1, "dataChange": True}
    return {"add": found | ({} if dv is None else {"deletionVector": vector(dv)})}


def remove(path: str, dv: int | None = None) -> dict[str, Any]:
    found = {"path": path, "deletionTimestamp": 4_000_000_000_000, "dataChange": True}
    return {"remove": found | ({} if dv is None else {"deletionVector": vector(dv)})}


def domain(name: str, *, removed: bool = False) -> dict[str, Any]:
    return {"domainMetadata": {"domain": name, "configuration": "" if removed else "x", "removed": removed}}


def txn(app_id: str, version: int) -> dict[str, Any]:
    return {"txn": {"appId": app_id, "version": version, "lastUpdated": 4_000_000_000_000}}


class Log:
    """A log in a bucket, whose listings are whole."""

    def __init__(self) -> None:
        self.store = MemoryLogStore()
        self.newest = -1
        metadata = {"id": "t", "format": {"provider": "parquet"}, "schemaString": SCHEMA, "partitionColumns": []}
        self.commit({"protocol": PROTOCOL}, {"metaData": {**metadata, "configuration": {}}}, domain("mine"))

    def commit(self, *actions: dict[str, Any]) -> None:
        self.newest += 1
        lines = [{"commitInfo": {"operation": "WRITE"}}, *actions]
        self.store.put_if_absent(commit_name(self.newest), b"".join(orjson.dumps(line) + b"\n" for line in lines))

    def opened(self) -> DeltaLog:
        return DeltaLog(TableStore("memory:///t", self.store, MemoryFileStore()))

    def compact(self) -> LogCompaction | None:
        log = self.opened()
        return compact_log(log, log.newest_state())

    def without(self, versions: range) -> Log:
        """The same log, as one sees it who looks at no commit of these."""
        other = Log.__new__(Log)
        other.store, other.newest = MemoryLogStore(), self.newest
        gone = {commit_name(version) for version in versions}
        other.store.objects = {name: found for name, found in self.store.objects.items() if name not in gone}
        return other


def state_of(log: DeltaLog) -> dict[str, Any]:
    state = log.newest_state()
    live, tombstones = log.files_and_tombstones(state)
    return {
        "version": state.version,
        "protocol": state.protocol,
        "metadata": state.metadata,
        "transactions": dict(state.transactions),
        "domains": dict(state.domains),
        "files": sorted(
            (row["path"], (row["deletionVector"] or {}).get("pathOrInlineDv", "")) for row in live.to_pylist()
        ),
        "removed": sorted(
            (row["path"], (row["deletionVector"] or {}).get("pathOrInlineDv", "")) for row in tombstones.to_pylist()
        ),
    }


actions = st.one_of(
    st.builds(add, st.sampled_from(["a", "b", "c d"]), st.sampled_from([None, 1, 2])),
    st.builds(remove, st.sampled_from(["a", "b", "c%20d", "c d"]), st.sampled_from([None, 1, 2])),
    st.builds(txn, st.sampled_from(["x", "y"]), st.integers(0, 9)),
    st.builds(domain, st.sampled_from(["mine", "other"]), removed=st.booleans()),
)


@given(
    before=st.lists(st.lists(actions, min_size=1, max_size=2), max_size=3),
    inside=st.lists(st.lists(actions, min_size=1, max_size=3), min_size=2, max_size=5),
    checkpointed=st.booleans(),
)
def test_a_reader_of_the_compacted_file_alone_sees_the_table_that_the_commits_make(
    before: list[Any], inside: list[Any], checkpointed: bool
) -> None:
    log = Log()
    for commit in before:
        log.commit(*commit)
    if checkpointed:
        opened = log.opened()
        opened.write_checkpoint(opened.newest_state())
    for commit in inside:
        log.commit(*commit)
    expected = state_of(log.opened())
    done = log.compact()
    assert done is not None
    assert (done.first_version, done.last_version) == (len(before) + 1 if checkpointed else 0, log.newest)
    assert state_of(log.without(range(done.first_version, log.newest)).opened()) == expected


def test_a_reader_continues_with_later_commits(tmp_path: Path) -> None:
    log = Log()
    log.commit(add("a"), txn("x", 1))
    log.commit(remove("a"), add("b"))
    assert log.compact() is not None
    log.commit(add("c"))
    assert state_of(log.without(range(3)).opened()) == state_of(log.opened())


def test_a_compacted_file_is_described_and_never_overwritten() -> None:
    log = Log()
    log.commit(add("a"))
    log.commit(remove("a"))
    done = log.compact()
    assert done is not None
    assert (done.name, done.actions) == (compacted_name(0, 2), 4)
    sizes = [len(log.store.objects[commit_name(version)][0]) for version in range(3)]
    assert (done.size_bytes, done.replaced_bytes) == (len(log.store.objects[done.name][0]), sum(sizes))
    log.store.objects[done.name] = (b"another's", 1)
    log.compact()
    assert log.store.objects[done.name][0] == b"another's"


def test_a_log_of_fewer_than_two_commits_is_not_compacted(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    assert table.compact_log() is None
    table.append(pa.table({"id": [1]}))
    seen: list[tuple[int, int]] = []
    assert str(table.compact_log(on_progress=lambda step, done, total: seen.append((done, total)))).startswith(
        "LogCompaction(versions 0 to 1, 3 actions, "
    )
    assert seen == [(1, 2), (2, 2)]


def test_a_damaged_file_is_passed_over_for_the_commits(caplog: pytest.LogCaptureFixture) -> None:
    log = Log()
    log.commit(add("a"))
    expected = state_of(log.opened())
    done = log.compact()
    assert done is not None
    body, _ = log.store.objects[done.name]
    log.store.objects[done.name] = (body[:-5], 1)
    assert state_of(log.opened()) == expected
    assert "a compacted file is damaged" in caplog.text


def test_a_log_compaction_with_a_missing_commit_writes_nothing() -> None:
    log = Log()
    log.commit(add("a"))
    log.commit(add("b"))
    opened = log.opened()
    state = opened.newest_state()
    del log.store.objects[commit_name(1)]
    with pytest.raises(NotFoundError, match="version 1 is not in the log"):
        compact_log(opened, state)
    assert not [name for name in log.store.objects if "compacted" in name]


def test_a_compacted_file_whose_write_got_no_answer_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    log.commit(add("a"))
    monkeypatch.setattr(log.store, "put_if_absent", lambda *_: PutOutcome.UNKNOWN)
    with pytest.raises(StorageError, match="write it again"):
        log.compact()


def test_a_table_that_may_not_be_written_is_left_alone() -> None:
    log = Log()
    log.commit({"protocol": {**PROTOCOL, "writerFeatures": [*PROTOCOL["writerFeatures"], "unheardOf"]}})
    with pytest.raises(UnsupportedFeatureError, match="unheardOf"):
        log.compact()


@golden.needed
def test_our_compacted_file_equals_the_golden_file_of_the_same_commits(tmp_path: Path) -> None:
    folder = next(golden.unpack("compacted-log-files-table", tmp_path).rglob("_delta_log"))
    for first, last in ((0, 5), (6, 10), (6, 15)):
        theirs = (folder / compacted_name(first, last)).read_bytes()
        commits = [parse_commit((folder / commit_name(v)).read_bytes(), v) for v in range(first, last + 1)]
        assert _said(compacted_bytes(commits)[0]) == _said(theirs), (first, last)


def _said(body: bytes) -> dict[str, Any]:
    """The first word on each thing, but for ``dataChange`` and nulls: golden files are not reconciled, newest first."""
    found: dict[str, Any] = {}
    for line in body.splitlines():
        ((kind, action),) = orjson.loads(line).items()
        if kind not in ("commitInfo", "cdc"):
            dv = (action.get("deletionVector") or {}).get("pathOrInlineDv", "")
            what = "file" if kind in ("add", "remove") else kind
            key = f"{what} {action.get('path', '')} {dv} {action.get('appId', '')} {action.get('domain', '')}"
            reported = {name: value for name, value in action.items() if value is not None and name != "dataChange"}
            found.setdefault(key, (kind, reported))
    return found


def test_a_handle_opened_on_a_bucket_reads_it_in_place_of_the_commits() -> None:
    from txlog.testing.faults import FaultyLogStore

    log = Log()
    for number in range(6):
        log.commit(add(f"file-{number}"))
    log.compact()
    watched = FaultyLogStore(log.store)
    table = txlog.Table(OpenTable(TableStore("memory:///t", watched, MemoryFileStore())))
    assert table.snapshot().num_files == 6
    assert not {commit_name(version) for version in range(6)} & set(watched.names("read"))
