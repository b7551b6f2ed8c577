"""Maintenance that dies at any call to the store, or meets another actor there, costs no row."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

import txlog
from txlog.core import ambient
from txlog.core.definition import create_table
from txlog.core.versions import OpenTable
from txlog.testing.faults import Crashed, Fault, FaultyFileStore, FaultyLogStore, StoreCall
from txlog.testing.memory_store import memory_table_store
from txlog.testing.stopped_clock import StoppedClock

Operation = Callable[[txlog.Table], object]


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "day": ["a"] * len(ids)})


class World:
    """Files of versions 1 and 2 have expired, those of 3 and 4 have not; a sink has sealed a checkpoint."""

    def __init__(self, clock: StoppedClock) -> None:
        self.store = memory_table_store()
        properties = {"delta.enableDeletionVectors": "true", "delta.deletedFileRetentionDuration": "interval 48 hours"}
        create_table(OpenTable(self.store), "id bigint, day string", ("day",), properties)
        table = self.open()
        table.append(rows(1, 2, 3))
        table.delete("id = 2")
        self.store.files.publish("day=a/orphan.parquet", b"x")
        clock.pass_hours(1)
        table.overwrite(rows(4))
        clock.pass_hours(60)
        table.append(rows(5, 6))
        with (sink := txlog.Sink(table, "app")).task(1) as task:
            task.write(rows(7))
        sink.stage(task.committable)
        sink.prepare(1, [0])
        clock.pass_hours(1)
        self.kept = {version: ids(table, version) for version in (3, 4)}

    def open(self, decide: Callable[[StoreCall], Any] | None = None) -> txlog.Table:
        if decide is None:
            return txlog.Table(OpenTable(self.store))
        log, files = FaultyLogStore(self.store.log, decide), FaultyFileStore(self.store.files, decide)
        return txlog.Table(OpenTable(replace(self.store, log=log, files=files)))

    def check(self) -> txlog.Table:
        """Every version inside of the retention reads as before, and so does the newest one."""
        table = self.open()
        for version, found in self.kept.items():
            assert ids(table, version) == found
        ids(table)
        return table


def ids(table: txlog.Table, version: int | None = None) -> list[int]:
    found: list[int] = sorted(table.snapshot(version).to_arrow()["id"].to_pylist())
    return found


def vacuum(table: txlog.Table) -> object:
    return table.vacuum()


def restore(table: txlog.Table) -> object:
    return table.restore(3)


def of_the_hunt(*parameters: object) -> Any:
    return pytest.param(*parameters, marks=pytest.mark.hunt(part="crashes"))


FAULTS = pytest.mark.parametrize("fault", ["crash_after", of_the_hunt("crash_before")])


def calls_of(operation: Operation) -> int:
    with ambient.use(StoppedClock()) as clock:
        assert isinstance(clock, StoppedClock)
        world, seen = World(clock), []
        to_its_end(operation, world.open(lambda call: seen.append(call)))
        return len(seen)


def to_its_end(operation: Operation, table: txlog.Table) -> None:
    """Run it, and wait for the thread that follows its commit."""
    try:
        operation(table)
    finally:
        table._open_table.post_commit.drain()


@FAULTS
@pytest.mark.parametrize("operation", [vacuum, restore])
def test_a_process_that_dies_at_any_call_leaves_a_whole_table(operation: Operation, fault: str) -> None:
    total = calls_of(operation)
    assert total > 5
    for step in range(1, total + 1):
        with ambient.use(StoppedClock()) as clock:
            assert isinstance(clock, StoppedClock)
            world, seen = World(clock), []

            def decide(call: StoreCall, seen: list[StoreCall] = seen, step: int = step) -> Fault | None:
                seen.append(call)
                return Fault(fault) if len(seen) == step else None

            with contextlib.suppress(Crashed):  # the last call may be one of the thread that follows a commit
                to_its_end(operation, world.open(decide))
            assert len(seen) >= step
            table = world.check()
            assert txlog.Sink(table, "app").recover().results[1].outcome == "committed"
            operation(table)
            world.check()
            assert table.vacuum().paths == () or operation is restore
            assert "day=a/orphan.parquet" not in world.store.files.objects


def optimize(table: txlog.Table) -> object:
    return table.optimize()


def purge(table: txlog.Table) -> object:
    return table.purge()


@FAULTS
@pytest.mark.parametrize("operation", [optimize, purge])
def test_a_rewrite_that_dies_at_any_call_neither_loses_nor_repeats_a_row(operation: Operation, fault: str) -> None:
    step = total = 0
    while step <= total:
        with ambient.use(StoppedClock()) as clock:
            assert isinstance(clock, StoppedClock)
            world, seen = World(clock), []
            world.open().delete("id = 5")

            def decide(call: StoreCall, seen: list[StoreCall] = seen, step: int = step) -> Fault | None:
                seen.append(call)
                return Fault(fault) if len(seen) == step else None

            with contextlib.suppress(Crashed):
                to_its_end(operation, world.open(decide))
            total = total or len(seen)
            table = world.check()
            assert ids(table) == [4, 6]
            operation(table)
            assert ids(world.check()) == [4, 6]
            assert operation(table).versions == ()  # type: ignore[attr-defined]
            recover(table)
            clock.pass_hours(60)
            assert table.vacuum().paths != ()
            assert ids(table) == [4, 6, 7]
        step += 1
    assert total > 5


@pytest.mark.parametrize(
    "other", ["append", "vacuum", "optimize", "delete", *map(of_the_hunt, ("recover", "restore", "tag", "purge"))]
)
@pytest.mark.parametrize("operation", [optimize, of_the_hunt(purge)])
def test_a_concurrent_operation_at_any_call_of_a_rewrite_loses_nothing(operation: Operation, other: str) -> None:
    expected = {"append": [4, 6, 8], "recover": [4, 6, 7], "restore": [4], "delete": [4]}.get(other, [4, 6])
    for step in itertools.count(1, 2):
        with ambient.use(StoppedClock()) as clock:
            assert isinstance(clock, StoppedClock)
            world, seen = World(clock), []
            world.open().delete("id = 5")

            def decide(call: StoreCall, world: World = world, seen: list[StoreCall] = seen, step: int = step) -> None:
                seen.append(call)
                if len(seen) == step:
                    OTHERS[other](world.open())

            operation(world.open(decide))
            table = world.check()
            assert ids(table) == (expected if len(seen) >= step else [4, 6])
            if len(seen) < step:
                return


def append(table: txlog.Table) -> None:
    table.append(rows(8))


def recover(table: txlog.Table) -> None:
    txlog.Sink(table, "app").recover()
    assert table.snapshot().transaction_version("app") == 1


def restore_old(table: txlog.Table) -> None:
    """Back to a version whose files have expired: refused, or they are gone."""
    with pytest.raises((txlog.InvalidInputError, txlog.NotFoundError)):
        table.restore(2)


def tag(table: txlog.Table) -> None:
    table.tag("kept", 3)


def delete(table: txlog.Table) -> None:
    table.delete("id = 6")


OTHERS: dict[str, Callable[[txlog.Table], object]] = {
    each.__name__: each for each in (append, recover, restore, tag, vacuum, optimize, purge, delete)
}


@pytest.mark.parametrize(
    ("operation", "other"),
    [
        *((vacuum, other) for other in (append, restore)),
        *(of_the_hunt(vacuum, other) for other in (recover, restore_old, tag, vacuum)),
        *((restore, other) for other in (append, vacuum)),
    ],
)
def test_a_concurrent_operation_at_any_call_of_maintenance_loses_nothing(
    operation: Operation, other: Operation
) -> None:
    for step in range(1, calls_of(operation) + 1, 2):
        with ambient.use(StoppedClock()) as clock:
            assert isinstance(clock, StoppedClock)
            world, seen = World(clock), []

            def decide(call: StoreCall, world: World = world, seen: list[StoreCall] = seen, step: int = step) -> None:
                seen.append(call)
                if len(seen) == step:
                    other(world.open())

            try:
                operation(world.open(decide))
            except txlog.ConflictError:
                assert operation is restore
            table = world.check()
            if other is tag:
                assert ids(table) is not None
                assert sorted(table.snapshot(tag="kept").to_arrow()["id"].to_pylist()) == [4]
            recover(table)
            world.check()
