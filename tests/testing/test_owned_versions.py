"""Versions that an owner decides: the same contract as the folder, and whole tables on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace

import txlog
from txlog.audit.verify import verify_table
from txlog.core.definition import Definition, commit_definition, new_table
from txlog.core.format.log_names import commit_version
from txlog.core.store import Attempt, LogStore, PutOutcome, RetryPolicy, TableStore, VersionLog, open_store
from txlog.core.versions import OpenTable
from txlog.errors import CommitStateUnknownError, StorageError
from txlog.testing.contract import VERSION_LOG_CONTRACT
from txlog.testing.faults import FaultyLogStore
from txlog.testing.memory_store import MemoryLogStore, memory_table_store
from txlog.testing.owned_versions import OwnedVersions, VersionOwner, publish

ROW = pa.table({"id": pa.array([1], pa.int64())})


class Publishing(OwnedVersions):
    """Its owner publishes each version at once, and may drop all records but the newest."""

    def __init__(self, *, drops: bool) -> None:
        self.owner, self.folder, self.drops = VersionOwner(), MemoryLogStore(), drops
        super().__init__(self.owner, self.folder)

    def put(self, attempt: Attempt) -> PutOutcome:
        outcome = super().put(attempt)
        publish(self.owner, self.folder)
        if self.drops:
            self.owner.drop_published(self.folder)
        return outcome


VERSION_LOGS: dict[str, Callable[[], VersionLog]] = {
    "in no folder": lambda: OwnedVersions(VersionOwner(), MemoryLogStore()),
    "published": lambda: Publishing(drops=False),
    "published and dropped": lambda: Publishing(drops=True),
}


@pytest.mark.parametrize("versions", VERSION_LOGS.values(), ids=VERSION_LOGS)
@pytest.mark.parametrize("check", VERSION_LOG_CONTRACT, ids=lambda check: check.__name__)
def test_version_log_contract_of_an_owner(
    versions: Callable[[], VersionLog], check: Callable[[VersionLog], None]
) -> None:
    check(versions())


@pytest.fixture
def owner() -> VersionOwner:
    return VersionOwner()


@pytest.fixture
def store(owner: VersionOwner) -> TableStore:
    """A table that an owner holds, at version 0, with nothing in its folder."""
    empty = memory_table_store()
    store = replace(empty, owner=OwnedVersions(owner, empty.log))
    create(store)
    return store


def create(store: TableStore) -> None:
    commit_definition(OpenTable(store), None, Definition(*new_table(ROW.schema)), "CREATE TABLE", {})


def handle(store: TableStore, owner: LogStore | None = None, **retry: float) -> txlog.Table:
    """A handle whose owner may be a faulty view of the book."""
    own = store if owner is None else replace(store, owner=OwnedVersions(owner, store.log))
    return txlog.Table(OpenTable(own, RetryPolicy(**retry)))


def published(store: TableStore) -> list[int]:
    return [version for meta in store.log.list_from("") if (version := commit_version(meta.name)) is not None]


def test_a_table_whose_versions_are_in_no_folder_is_written_and_read(store: TableStore) -> None:
    writer = handle(store)
    assert [writer.append(ROW).version for _ in range(3)] == [1, 2, 3]
    assert published(store) == []
    reader = handle(store)
    assert (reader.version, reader.snapshot().to_arrow().num_rows) == (3, 3)
    assert reader.snapshot(version=1).to_arrow().num_rows == 1
    assert [entry["version"] for entry in reader.history()] == [3, 2, 1, 0]
    assert reader.delete("id = 1").version == 4
    assert verify_table(store).findings == ()


def test_versions_that_are_published_and_dropped_are_read_from_the_folder(
    store: TableStore, owner: VersionOwner
) -> None:
    table = handle(store)
    for _ in range(3):
        table.append(ROW)
    publish(owner, store.log)
    owner.drop_published(store.log)
    assert (published(store), len(owner.objects)) == ([0, 1, 2, 3], 1)
    assert handle(store).snapshot().to_arrow().num_rows == 3
    assert table.append(ROW).version == 4
    assert verify_table(store).findings == ()


def test_a_version_that_is_published_and_dropped_after_the_folder_was_listed_is_still_found(
    store: TableStore, owner: VersionOwner
) -> None:
    versions, listed = store.versions, dict[int, object]()
    for version in range(1, 4):
        versions.put(Attempt(version, b"body"))
    publish(owner, store.log)
    owner.drop_published(store.log)
    assert list(versions.tail(-1, listed)) == [0, 1, 2, 3]  # type: ignore[arg-type]


def test_two_writers_of_an_owned_table_both_land(store: TableStore) -> None:
    first, second = handle(store), handle(store)
    assert (first.version, second.version) == (0, 0)
    assert first.append(ROW).version == 1
    lost = second.append(ROW)
    assert (lost.version, lost.outcome) == (2, "committed")


@pytest.mark.parametrize("fault", ["fail_after", "late=1"])
def test_an_owner_whose_answer_is_lost_is_asked_what_became_of_it(
    store: TableStore, owner: VersionOwner, fault: str
) -> None:
    result = handle(store, FaultyLogStore(owner, f"put_if_absent#1={fault}")).append(ROW)
    assert (result.version, result.outcome) == (1, "committed")
    assert owner.newest == 1


def test_an_owner_that_refuses_for_certain_leaves_nothing(store: TableStore, owner: VersionOwner) -> None:
    with pytest.raises(StorageError, match="refused"):
        handle(store, FaultyLogStore(owner, "put_if_absent#1=refused")).append(ROW)
    assert owner.newest == 0


def test_what_an_owner_did_not_answer_is_settled_later(store: TableStore, owner: VersionOwner) -> None:
    silent = FaultyLogStore(owner, "put_if_absent#1=late")
    with pytest.raises(CommitStateUnknownError) as raised:
        handle(store, silent, total_timeout=0.0).append(ROW)
    version, txn_id = raised.value.version, raised.value.txn_id
    assert version is not None
    assert txn_id is not None
    assert handle(store).resolve(txn_id, version) is False
    assert silent.in_flight.pop().land() is PutOutcome.ALREADY_EXISTS, "the fence has taken its place"


def test_a_damaged_version_of_an_owner_is_reported_by_its_name(store: TableStore, owner: VersionOwner) -> None:
    handle(store).append(ROW)
    (name,) = (name for name in owner.objects if commit_version(name) == 1)
    owner.put(name, b"")
    with pytest.raises(txlog.errors.CorruptLogError, match="version 1 of its owner"):
        handle(store).snapshot()


def test_a_checkpoint_of_an_owned_table_on_disk_stands_on_published_versions(
    owner: VersionOwner, tmp_path: Path
) -> None:
    disk = open_store(tmp_path)
    store = replace(disk, owner=OwnedVersions(owner, disk.log))
    create(store)
    table = handle(store)
    for _ in range(3):
        table.append(ROW)
    table.create_checkpoint()
    table.append(ROW)
    assert handle(store).snapshot().to_arrow().num_rows == 4
    assert published(store) == [0, 1, 2, 3]
