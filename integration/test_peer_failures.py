"""What deltalake 1.6.6 silently gets wrong, and what txlog does in the same place.

Each test holds txlog to the right answer. What the installed deltalake does instead is reported at the end of the
run, and nothing depends on it: a later release may have fixed it.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import shutil
import string
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.transaction import AddAction
from msgspec.structs import replace
from rows import read_by_deltalake

import txlog
from txlog.core.format.file_columns import add_files_of
from txlog.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])

Peer = Callable[[str, Callable[[], bool]], None]


@pytest.fixture
def peer(record_property: Callable[[str, object], None]) -> Peer:
    """``peer(fault, shows_it)``: check whether the installed deltalake still has the fault."""

    def reported(fault: str, shows_it: Callable[[], bool]) -> None:
        try:
            answer = "yes" if shows_it() else "no"
        except Exception as error:
            answer = f"no, it refuses: {str(error).splitlines()[0]}"
        record_property("measured", f"deltalake {deltalake.__version__} {fault}? {answer}")

    return reported


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ours"


@pytest.fixture
def theirs(tmp_path: Path) -> str:
    return str(tmp_path / "theirs")


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "day": ["mon" if id_ % 2 else "tue" for id_ in ids]}, schema=SCHEMA)


def ids_in(path: Path | str) -> list[int]:
    """As deltalake reads them, which must be as txlog does."""
    ids = sorted(read_by_deltalake(DeltaTable(str(path)), "id").column("id").to_pylist())
    assert sorted(Table.open(path).snapshot().to_arrow(["id"]).column("id").to_pylist()) == ids
    return ids


def in_the_middle(rows: pa.Table, rival: Callable[[], object]) -> Iterator[pa.RecordBatch]:
    """Rows whose writing lasts until the rival has committed."""
    yield rows.to_batches()[0]
    rival()


# --- exactly once -------------------------------------------------------------------------------------------------


def commit_theirs(uri: str, version: int) -> None:
    properties = CommitProperties(app_transactions=[Transaction("app", version)])
    write_deltalake(uri, rows_of(version), mode="append", commit_properties=properties)


def test_a_checkpoint_that_was_committed_is_not_committed_again(path: Path, theirs: str, peer: Peer) -> None:
    """deltalake records the version of an application and never compares it: a replay doubles its rows."""
    table = Table.create(path, SCHEMA)
    for outcome in ("committed", "already_committed"):
        assert table.append(rows_of(5), app_id="app", checkpoint_id=5).outcome == outcome
    assert ids_in(path) == [5]

    def doubles() -> bool:
        commit_theirs(theirs, 5)
        commit_theirs(theirs, 5)
        return ids_in(theirs) == [5, 5]

    peer("commits an application's version twice", doubles)


def test_an_application_does_not_go_backwards(path: Path, theirs: str, peer: Peer) -> None:
    """deltalake commits version 3 of an application after 5, and stores 3: the next replay of 4 and 5 lands too."""
    table = Table.create(path, SCHEMA)
    table.append(rows_of(5), app_id="app", checkpoint_id=5)
    with pytest.raises(txlog.InvalidInputError, match="older than the last one"):
        table.append(rows_of(3), app_id="app", checkpoint_id=3)
    assert table.snapshot().transaction_version("app") == 5
    assert ids_in(path) == [5]

    def goes_backwards() -> bool:
        commit_theirs(theirs, 5)
        commit_theirs(theirs, 3)
        return DeltaTable(theirs).transaction_version("app") == 3

    peer("sets an application back from version 5 to 3", goes_backwards)


# --- concurrency --------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Compaction:
    """OPTIMIZE of the whole table, from the version at which it was begun."""

    table: Table

    def __post_init__(self) -> None:
        self.transaction = self.table.transaction(operation="OPTIMIZE", data_change=False)
        self.transaction.__enter__()
        kept = self.transaction.read()
        self.transaction.remove(*self.transaction.snapshot.files().column("path").to_pylist())
        self.transaction.append(kept)

    def end(self) -> None:
        self.transaction.__exit__(None, None, None)


def two_files(path: Path | str) -> Table:
    txlog.write(path, rows_of(1, 2))
    txlog.write(path, rows_of(3, 4))
    return Table.open(path)


def test_one_of_two_concurrent_compactions_is_refused_and_no_row_is_doubled(
    path: Path, theirs: str, peer: Peer
) -> None:
    """Two concurrent optimizes (or z-orders) of deltalake both commit, and every row is there twice."""
    first, second = Compaction(two_files(path)), Compaction(Table.open(path))
    first.end()
    with pytest.raises(txlog.ConcurrentDeleteReadError) as caught:
        second.end()
    assert {reason.rule for reason in caught.value.reasons} >= {"ConcurrentDeleteDeleteError"}
    assert ids_in(path) == [1, 2, 3, 4]

    def doubles() -> bool:
        two_files(theirs)
        first, second = DeltaTable(theirs), DeltaTable(theirs)
        first.optimize.compact()
        second.optimize.compact()
        return ids_in(theirs) == [1, 1, 2, 2, 3, 3, 4, 4]

    peer("doubles every row where two optimizes run at once", doubles)


@pytest.mark.parametrize("is_compacted_first", [False, True], ids=["delete", "optimize, delete"])
def test_a_compaction_does_not_bring_back_what_was_deleted_meanwhile(
    is_compacted_first: bool, path: Path, theirs: str, peer: Peer
) -> None:
    """A stale optimize of deltalake commits after an optimize and a delete: the deleted row is there again."""
    compaction = Compaction(two_files(path))
    if is_compacted_first:
        DeltaTable(str(path)).optimize.compact()
    DeltaTable(str(path)).delete("id = 2")
    with pytest.raises(txlog.ConcurrentDeleteReadError):
        compaction.end()
    assert ids_in(path) == [1, 3, 4]

    def resurrects() -> bool:
        two_files(theirs)
        stale = DeltaTable(theirs)
        if is_compacted_first:
            DeltaTable(theirs).optimize.compact()
        DeltaTable(theirs).delete("id = 2")
        stale.optimize.compact()
        return 2 in ids_in(theirs)

    after = "an optimize and a delete" if is_compacted_first else "a delete"
    peer(f"brings deleted rows back with an optimize that was begun before {after}", resurrects)


def merges(uri: str) -> None:
    merge = DeltaTable(uri).merge(rows_of(2, 6), "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_delete().when_not_matched_insert_all().execute()


REWRITES: dict[str, tuple[Callable[[str], object], list[int]]] = {
    "delete": (lambda uri: DeltaTable(uri).delete("id = 2"), [1, 3, 4]),
    "overwrite": (lambda uri: write_deltalake(uri, rows_of(6), mode="overwrite"), [6]),
    "replaceWhere": (
        lambda uri: write_deltalake(uri, rows_of(6), mode="overwrite", predicate="id >= 3"),
        [1, 2, 6],
    ),
    "merge": (merges, [1, 3, 4, 6]),
    "update": (lambda uri: DeltaTable(uri).update(updates={"id": "id + 10"}, predicate="id = 1"), [2, 3, 4, 11]),
    "optimize": (lambda uri: DeltaTable(uri).optimize.compact(), [1, 2, 3, 4]),
}


@pytest.mark.parametrize("rewrite", REWRITES)
def test_an_append_commits_although_others_removed_rows_meanwhile(
    rewrite: str, path: Path, theirs: str, peer: Peer
) -> None:
    """An append of deltalake fails where rows were removed meanwhile: "deleted data this operation read"."""
    rival, left = REWRITES[rewrite]
    table = two_files(path)
    result = table.append(in_the_middle(rows_of(9), lambda: rival(str(path))))
    assert (result.outcome, result.version) == ("committed", 3)
    assert ids_in(path) == sorted([*left, 9])

    def refuses() -> bool:
        two_files(theirs)
        stale = DeltaTable(theirs)
        rival(theirs)
        try:
            write_deltalake(stale, rows_of(9), mode="append")
        except deltalake.exceptions.CommitFailedError:
            return True
        return False

    peer(f"refuses an append that was begun before a concurrent {rewrite}", refuses)


# --- what may enter the log ---------------------------------------------------------------------------------------

WRONG_ADDS: dict[str, dict[str, Any]] = {
    "statistics that are no JSON": {"stats": "{"},
    "an unknown partition column": {"partition_values": {"week": "1"}},
    "a file that is not there": {"path": "nowhere.parquet"},
}


@pytest.mark.parametrize("wrong", [*WRONG_ADDS, "one file twice"])
def test_a_file_that_readers_could_not_read_does_not_enter_the_table(
    wrong: str, path: Path, theirs: str, peer: Peer
) -> None:
    """deltalake's create_write_transaction commits whatever it is given; readers of the table fail, or count twice."""
    txlog.write(path, rows_of(1))
    table = Table.open(path)
    (live,) = add_files_of(table.snapshot().files())
    shutil.copy(path / live.path, path / "copy.parquet")
    add = replace(live, path="copy.parquet")
    adds = [add, add] if wrong == "one file twice" else [replace(add, **WRONG_ADDS[wrong])]
    with pytest.raises((txlog.InvalidInputError, txlog.NotFoundError)), table.transaction() as transaction:
        transaction.add(*adds)
    assert table.snapshot().version == 0
    assert ids_in(path) == [1]

    def commits_it() -> bool:
        write_deltalake(theirs, rows_of(1))
        one = {
            "path": "copy.parquet",
            "size": live.size,
            "partition_values": {},
            "stats": live.stats,
            **WRONG_ADDS.get(wrong, {}),
        }
        action = AddAction(modification_time=1, data_change=True, **one)
        count = 2 if wrong == "one file twice" else 1
        table = DeltaTable(theirs)
        table.create_write_transaction([action] * count, "append", table.schema())
        return DeltaTable(theirs).version() == 1

    peer(f"commits {wrong}", commits_it)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delta.checkpointInterval", "abc"),
        ("delta.appendOnly", "yes"),
        ("delta.logRetentionDuration", "nonsense"),
        ("delta.targetFileSize", "a lot"),
    ],
)
def test_a_property_that_no_engine_can_read_is_refused(
    key: str, value: str, path: Path, theirs: str, peer: Peer
) -> None:
    """deltalake stores any text: an append-only table that says "yes" is not append-only to anybody."""
    with pytest.raises(txlog.InvalidInputError, match=key):
        Table.create(path, SCHEMA, properties={key: value})
    assert not Table.exists(path)
    table = Table.create(path, SCHEMA)
    with pytest.raises(txlog.InvalidInputError, match=key):
        table.set_properties({key: value})
    assert table.snapshot().version == 0

    def stores_it() -> bool:
        write_deltalake(theirs, rows_of(1), configuration={key: value})
        return DeltaTable(theirs).metadata().configuration[key] == value

    peer(f"stores {key}={value}", stores_it)


# --- durability ---------------------------------------------------------------------------------------------------

APPEND_THEIRS = "import sys, deltalake, pyarrow; deltalake.write_deltalake(sys.argv[1], pyarrow.table({'id': [1]}))"


def test_data_files_are_synced_before_the_commit_that_names_them_is_acknowledged(
    path: Path, theirs: str, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """deltalake syncs nothing: after a power cut a version that it acknowledged may be gone, or there and empty.

    The power is really cut in test_power_cut.py.
    """
    table = Table.create(path, SCHEMA)
    synced: list[int] = []  # inodes: what is synced may have no name yet
    sync = os.fsync

    def noted(file: Any) -> None:
        sync(file)
        synced.append(os.fstat(file).st_ino)

    monkeypatch.setattr(os, "fsync", noted)
    table.append(rows_of(1))
    log = path / "_delta_log"
    data = synced.index(next(path.glob("*.parquet")).stat().st_ino)
    commit = synced.index((log / f"{1:020}.json").stat().st_ino)
    assert data < synced.index(path.stat().st_ino, data) < commit < synced.index(log.stat().st_ino, commit)

    def syncs_nothing() -> bool:
        strace = shutil.which("strace")
        if strace is None:
            raise FileNotFoundError("no strace to look with")
        command = [strace, "-f", "-qq", "-e", "trace=fsync,fdatasync,sync_file_range,syncfs"]
        run = subprocess.run([*command, sys.executable, "-c", APPEND_THEIRS, theirs], capture_output=True, text=True)
        assert DeltaTable(theirs).version() == 0, run.stderr
        return "sync" not in run.stderr

    peer("acknowledges a commit without one fsync", syncs_nothing)


# --- reading ------------------------------------------------------------------------------------------------------


def test_a_timestamp_before_the_first_version_is_refused(path: Path, theirs: str, peer: Peer) -> None:
    """deltalake answers with the first version. A time to come is answered with the last, by both."""
    txlog.write(path, rows_of(1))
    now, day = datetime.now(timezone.utc), timedelta(days=1)
    assert Table.open(path).snapshot(timestamp=now + day).version == 0
    with pytest.raises(txlog.NotFoundError, match="before"):
        Table.open(path).snapshot(timestamp=now - day)

    def answers() -> bool:
        write_deltalake(theirs, rows_of(1))
        table = DeltaTable(theirs)
        table.load_as_version(now - day)
        return table.version() == 0

    peer("answers for a time before the first version", answers)


DEAD = (3, 4, 7, 11, 18, 29)


def inline_vector(*dead: int) -> dict[str, Any]:
    """PROTOCOL.md, "Deletion Vector Format": one Roaring bitmap with one array of 16-bit values, as Z85 text."""
    array = struct.pack("<IIHHI", 12346, 1, 0, len(dead) - 1, 16) + struct.pack(f"<{len(dead)}H", *dead)
    body = struct.pack("<IQI", 1681511377, 1, 0) + array
    z85 = string.digits + string.ascii_lowercase + string.ascii_uppercase + ".-:+=^!/*?&<>()[]{}@%$#"
    rfc1924 = string.digits + string.ascii_uppercase + string.ascii_lowercase + "!#$%&()*+-;<=>?@^_`{|}~"
    text = base64.b85encode(body).decode().translate(str.maketrans(rfc1924, z85))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(body), "cardinality": len(dead)}


def test_rows_marked_by_deletion_vectors_are_neither_read_nor_counted(path: Path, peer: Peer) -> None:
    """deltalake's count() takes the rows of the files and forgets the deletion vectors."""
    properties = {"delta.enableDeletionVectors": "true"}
    Table.create(path, SCHEMA, properties=properties).append(rows_of(*range(30)))
    (live,) = add_files_of(Table.open(path).snapshot().files())
    again = {
        "path": live.path,
        "partitionValues": {},
        "size": live.size,
        "modificationTime": 1,
        "dataChange": True,
        "stats": live.stats,
        "deletionVector": inline_vector(*DEAD),
    }
    gone = {"path": live.path, "dataChange": True, "deletionTimestamp": 1}
    lines = [{"commitInfo": {"operation": "DELETE"}}, {"remove": gone}, {"add": again}]
    (path / "_delta_log" / f"{2:020}.json").write_text("\n".join(map(json.dumps, lines)))
    assert ids_in(path) == [id_ for id_ in range(30) if id_ not in DEAD]
    snapshot = Table.open(path).snapshot()
    assert snapshot.to_arrow().num_rows == 24
    assert snapshot.to_arrow(["id"], where="id >= 10").num_rows == 17
    peer("counts rows that a deletion vector has killed", lambda: DeltaTable(str(path)).count() == 30)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_are_read_with_their_values(mode: str, theirs: str, peer: Peer) -> None:
    """deltalake's to_pyarrow_table() and to_pandas() give nulls alone for a column-mapped table, its own too."""
    write_deltalake(theirs, rows_of(1, 2), configuration={"delta.columnMapping.mode": mode})
    snapshot = Table.open(theirs).snapshot()
    assert snapshot.to_arrow().to_pylist() == rows_of(1, 2).to_pylist()
    assert snapshot.to_arrow(["day"], where="id = 2").to_pylist() == [{"day": "tue"}]

    def gives_nulls() -> bool:
        read = pa.table(DeltaTable(theirs).to_pyarrow_table())
        return read.column("id").to_pylist() == [None, None]

    peer(f"reads columns mapped by {mode} as nulls", gives_nulls)
