"""Vacuums keep the files of appends that writers offer each other; what a dead writer left is deleted a day later."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.offered import append
from txlog.core import ambient
from txlog.core.definition import Definition, commit_definition, new_table
from txlog.core.format.actions import AddFile
from txlog.core.maintenance._offered_appends import LEFT_BEHIND_MS, delete_dead_offers, offered_paths
from txlog.core.store import TableStore
from txlog.core.store._base import OBJECT_STORE
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.intents import Intent, intent_name
from txlog.errors import UnsupportedFeatureError
from txlog.table import Table
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore

ROWS = pa.table({"id": pa.array([1], pa.int64())})
DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def table() -> Table:
    log, waiting = MemoryLogStore(), MemoryLogStore()
    log.capabilities = waiting.capabilities = OBJECT_STORE
    open_table = OpenTable(TableStore("memory://table", log, MemoryFileStore(), waiting=waiting))
    properties = {"txlog.groupCommit": "true"}
    commit_definition(open_table, None, Definition(*new_table(ROWS.schema, (), properties)), "CREATE TABLE", {})
    return Table(open_table)


def folder_of(table: Table) -> MemoryLogStore:
    folder = table._open_table.store.waiting
    assert isinstance(folder, MemoryLogStore)
    return folder


def files_of(table: Table) -> MemoryFileStore:
    files = table._open_table.store.files
    assert isinstance(files, MemoryFileStore)
    return files


def offer(table: Table, path: str, *, txn_id: str = "t", age_ms: int = 0) -> str:
    """Leave an intent for a file that was written ten days ago."""
    state = table._open_table.log.newest_state()
    member = append(AddFile(path, {}, 4, 1, True, None), txn_id=txn_id)
    intent = Intent(state.metadata.id, state.version, (member,))
    folder_of(table).objects[intent.name] = (intent.to_bytes(), ambient.now_ms() - age_ms)
    old_file(table, path.replace("%20", " "))
    return intent.name


def old_file(table: Table, path: str) -> None:
    files_of(table).objects[path] = (b"rows", ambient.now_ms() - 10 * DAY_MS)


def test_a_vacuum_keeps_the_files_of_an_append_that_is_offered(table: Table) -> None:
    offer(table, "a%20b.parquet")
    old_file(table, "orphan.parquet")
    assert table.vacuum().paths == ("orphan.parquet",)
    assert "a b.parquet" in files_of(table).objects


def test_a_file_that_is_offered_while_a_vacuum_runs_is_kept(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    old_file(table, "late.parquet")
    begun: list[str] = []

    def on_progress(step: str, done: int, total: int) -> None:
        if not begun:
            begun.append(offer(table, "late.parquet"))

    table.vacuum(on_progress=on_progress)
    assert begun
    assert "late.parquet" in files_of(table).objects


def test_once_the_property_is_unset_what_was_offered_needs_no_files(table: Table, clock: Any) -> None:
    offer(table, "a.parquet")
    table.unset_properties(["txlog.groupCommit"])
    assert table.vacuum().paths == ("a.parquet",)


def test_what_nobody_can_read_keeps_no_file_and_stops_no_vacuum(table: Table) -> None:
    folder_of(table).put(intent_name(0, "damaged"), b"txlog-intent 1 0\n{}")
    folder_of(table).put("a mark", b"{}")
    assert offered_paths(table._open_table.store, table._open_table.log.newest_state()) == set()


def test_an_intent_of_a_newer_release_stops_a_vacuum(table: Table) -> None:
    folder_of(table).put(intent_name(0, "newer"), b"txlog-intent 3 0\n{}")
    with pytest.raises(UnsupportedFeatureError, match="format 3"):
        table.vacuum()


@pytest.mark.parametrize(("age_ms", "stays"), [(0, True), (LEFT_BEHIND_MS - 60_000, True), (LEFT_BEHIND_MS + 1, False)])
def test_what_a_dead_writer_left_is_deleted_after_a_day(table: Table, age_ms: int, stays: bool) -> None:
    name = offer(table, "a.parquet", age_ms=age_ms)
    delete_dead_offers(table._open_table.store, ambient.now_ms())
    assert (name in folder_of(table).objects) is stays


@pytest.mark.parametrize("how", ["vacuum", "maintain"])
def test_maintenance_deletes_it_and_the_next_vacuum_its_file(table: Table, how: str) -> None:
    offer(table, "a.parquet", age_ms=LEFT_BEHIND_MS + 60_000)
    getattr(table, how)()
    assert not folder_of(table).objects
    assert table.vacuum().paths == ("a.parquet",)


def test_a_dry_run_deletes_nothing(table: Table) -> None:
    name = offer(table, "a.parquet", age_ms=LEFT_BEHIND_MS + 60_000)
    table.vacuum(dry_run=True)
    table.maintain(dry_run=True)
    assert name in folder_of(table).objects
