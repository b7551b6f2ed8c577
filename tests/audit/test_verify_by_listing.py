"""On an object store, verify finds data files in listings, and looks up by name only what these do not show."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

import txlog
from txlog.audit import verify as module
from txlog.audit.verify import verify_table
from txlog.core.definition import create_table
from txlog.core.store import TableStore
from txlog.core.versions import OpenTable
from txlog.testing.faults import FaultyFileStore, FaultyLogStore, StoreCall
from txlog.testing.memory_store import memory_table_store


class Asked:
    """Counts the calls to the store, of which some may fail."""

    def __init__(self, *, lists: bool = True) -> None:
        self.calls: list[str] = []
        self.lists = lists

    def __call__(self, call: StoreCall) -> None:
        self.calls.append(call.operation)
        if call.operation == "list" and not self.lists:
            raise txlog.StorageError("listing is not allowed")


class FarLog(FaultyLogStore):
    @property
    def capabilities(self) -> Any:
        return replace(self.inner.capabilities, has_cheap_calls=False)


@pytest.fixture
def store() -> TableStore:
    """Twenty files: one is missing, one has another size, one is in a folder that no listing shows."""
    store = memory_table_store()
    create_table(OpenTable(store), "id bigint, day string", ("day",), {})
    table = txlog.Table(OpenTable(store))
    for number in range(20):
        table.append(pa.table({"id": [number], "day": [f"d{number % 3}"]}))
    paths = sorted(table.files()["path"].to_pylist())
    store.files.delete(paths[3])
    body = store.files.read_from(paths[7], 0)
    store.files.delete(paths[7])
    store.files.publish(paths[7], body + b"x")  # type: ignore[attr-defined]
    store.files.publish("day=d0/orphan.parquet", b"x")  # type: ignore[attr-defined]
    return store


@pytest.fixture(autouse=True)
def few() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LISTED_MIN", 5)
        patch.setattr(module, "NAMES_AT_ONCE", 3)
        yield


def checked(store: TableStore, asked: Asked, *, is_far: bool, workers: Any = None) -> Any:
    log = FarLog(store.log) if is_far else store.log
    found = verify_table(replace(store, log=log, files=FaultyFileStore(store.files, asked)), workers=workers)
    return sorted((finding.rule, finding.message, finding.path) for finding in found.findings)


def test_a_listing_finds_what_a_look_at_each_file_finds_and_only_doubts_are_looked_up(store: TableStore) -> None:
    near, far, in_threads = Asked(), Asked(), Asked()
    expected = checked(store, near, is_far=False)
    assert [rule for rule, _, _ in expected] == ["missing-file", "wrong-size"]
    assert checked(store, far, is_far=True) == expected
    with ThreadPoolExecutor(3) as executor:
        assert checked(store, in_threads, is_far=True, workers=executor) == expected
    assert (near.calls.count("stat"), far.calls.count("stat"), in_threads.calls.count("stat")) == (20, 2, 2)
    assert "list" in far.calls
    assert "list" not in near.calls


def test_a_table_that_may_not_be_listed_has_each_file_looked_up(store: TableStore) -> None:
    asked = Asked(lists=False)
    assert checked(store, asked, is_far=True) == checked(store, Asked(), is_far=False)
    assert asked.calls.count("stat") == 20
