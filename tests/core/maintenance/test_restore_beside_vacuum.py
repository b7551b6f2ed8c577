"""A restore, or a new name, during a vacuum that began earlier: never a version with missing files."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from msgspec.structs import replace

import txlog
from txlog.core import ambient
from txlog.core.definition import create_table
from txlog.core.store import TableStore
from txlog.core.versions import OpenTable
from txlog.errors import ConflictError, InvalidInputError
from txlog.testing.faults import Crashed, FaultyFileStore, FaultyLogStore, StoreCall
from txlog.testing.memory_store import memory_table_store
from txlog.testing.stopped_clock import StoppedClock


@pytest.fixture(autouse=True)
def time() -> Iterator[StoppedClock]:
    clock = StoppedClock()
    with ambient.use(clock):
        yield clock


@pytest.fixture
def store(time: StoppedClock) -> TableStore:
    """Version 1 has a file that version 2 removed two days ago, within the retention of a week."""
    store = memory_table_store()
    create_table(OpenTable(store), "id bigint", (), {})
    opened(store).append(pa.table({"id": [1]}))
    opened(store).overwrite(pa.table({"id": [2]}))
    time.pass_hours(48)
    return store


def opened(store: TableStore) -> txlog.Table:
    return txlog.Table(OpenTable(store))


def vacuum_meeting(store: TableStore, operation: str, meets: Callable[[], object]) -> txlog.Table:
    """A table whose vacuum meets another process before its first ``operation`` on a data file."""
    met: list[str] = []

    def decide(call: StoreCall) -> None:
        if call.operation == operation and not met:
            met.append(call.name)
            meets()

    return txlog.Table(OpenTable(replace(store, files=FaultyFileStore(store.files, decide))))


def crash() -> None:
    raise Crashed("the vacuum has died")


def ids(table: txlog.Table, version: int | None = None) -> list[int]:
    found: list[int] = table.snapshot(version).to_arrow()["id"].to_pylist()
    return found


def test_a_restore_is_refused_while_a_vacuum_may_delete_its_files(store: TableStore) -> None:
    def restore() -> None:
        with pytest.raises(InvalidInputError, match="a vacuum began in version 3 and has not ended"):
            opened(store).restore(1)

    vacuum_meeting(store, "delete", restore).vacuum(24, force=True)
    table = opened(store)
    assert [each["operation"] for each in table.history(2)] == ["VACUUM END", "VACUUM START"]
    assert ids(table) == [2]


def test_a_restore_is_refused_if_a_vacuum_begins_after_its_check(store: TableStore) -> None:
    begun: list[str] = []

    def vacuum_begins(call: StoreCall) -> None:
        if call.operation == "put_if_absent" and not begun:
            begun.append(call.name)
            with pytest.raises(Crashed):
                vacuum_meeting(store, "delete", crash).vacuum(24, force=True)

    table = txlog.Table(OpenTable(replace(store, log=FaultyLogStore(store.log, vacuum_begins))))
    with pytest.raises(ConflictError, match="began a vacuum, which may delete files that this RESTORE brings back"):
        table.restore(1)
    assert table.history(1)[0]["operation"] == "VACUUM START"


def test_a_vacuum_that_begins_after_a_restore_keeps_what_came_back(store: TableStore) -> None:
    """It planned before, with the file among those to delete."""

    def restore_before_the_vacuum_says_that_it_begins(call: StoreCall) -> None:
        if call.operation == "put_if_absent" and not restored:
            restored.append(opened(store).restore(1).version)

    restored: list[int | None] = []
    decide = restore_before_the_vacuum_says_that_it_begins
    done = txlog.Table(OpenTable(replace(store, log=FaultyLogStore(store.log, decide)))).vacuum(24, force=True)
    assert done.paths == ()
    assert ids(opened(store)) == ids(opened(store), restored[0]) == [1]


def test_a_crashed_vacuum_blocks_only_restores_of_files_that_it_may_have_deleted(
    store: TableStore, time: StoppedClock
) -> None:
    with pytest.raises(Crashed):
        vacuum_meeting(store, "delete", crash).vacuum(24, force=True)
    table = opened(store)
    with pytest.raises(InvalidInputError, match="If the vacuum crashed, pass allow_expired_files=True"):
        table.restore(1)
    table.restore(1, allow_expired_files=True)
    assert ids(table) == [1]
    table.overwrite(pa.table({"id": [3]}))
    table.restore(table.version - 1)
    assert ids(table) == [1]
    time.pass_hours(30)
    table.restore(2)
    assert ids(table) == [2]


def test_a_version_cannot_be_tagged_while_a_vacuum_may_delete_its_files(store: TableStore) -> None:
    def tag() -> None:
        with pytest.raises(InvalidInputError, match="version 1 cannot be named yet: a vacuum began in version 3"):
            opened(store).tag("first", 1)

    vacuum_meeting(store, "delete", tag).vacuum(24, force=True)
    assert opened(store).tags() == []
    named = opened(store).tag("second", 2)
    assert repr(named) == "NamedVersion('second', version 2, named 2026-09-23 14:13:20Z)"


def with_two_vectors(**properties: str) -> TableStore:
    """Version 2 marks a third of a file's rows by a vector, and version 3 another third by a second one."""
    store = memory_table_store()
    create_table(OpenTable(store), "id bigint", (), {"delta.enableDeletionVectors": "true", **properties})
    opened(store).append(pa.table({"id": range(30_000)}))
    opened(store).delete("id % 3 = 0")
    return store


def test_a_vacuum_that_begins_after_a_restore_keeps_the_vector_that_came_back(time: StoppedClock) -> None:
    """It planned before, with the vector among the files to delete."""
    store = with_two_vectors()
    opened(store).delete("id % 3 = 1")
    time.pass_hours(48)
    restored: list[int | None] = []

    def restore_before_the_vacuum_says_that_it_begins(call: StoreCall) -> None:
        if call.operation == "put_if_absent" and not restored:
            restored.append(opened(store).restore(2).version)

    decide = restore_before_the_vacuum_says_that_it_begins
    done = txlog.Table(OpenTable(replace(store, log=FaultyLogStore(store.log, decide)))).vacuum(24, force=True)
    assert restored
    assert done.paths == ()
    assert len(ids(opened(store))) == 20_000


def test_a_vacuum_with_a_longer_retention_keeps_a_vector_whose_removal_no_checkpoint_has(time: StoppedClock) -> None:
    store = with_two_vectors(**{"delta.deletedFileRetentionDuration": "interval 1 days"})
    time.pass_hours(24 * 10)
    opened(store).delete("id % 3 = 1")
    time.pass_hours(24 * 5)
    opened(store).create_checkpoint()
    opened(store).vacuum(24 * 7)
    assert len(ids(opened(store), 2)) == 20_000


def test_a_finished_vacuum_blocks_no_restore(store: TableStore) -> None:
    opened(store).vacuum()
    opened(store).restore(1)
    assert ids(opened(store)) == [1]
