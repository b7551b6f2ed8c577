"""Checkpoints of several tables, and what others do before any call of their commit: for tests of `SinkGroup`."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import deltalake
import pyarrow as pa

import txlog
from txlog.core.definition import create_table
from txlog.core.store import TableStore
from txlog.core.versions import OpenTable
from txlog.testing.faults import Crashed, Fault, FaultyLogStore, StoreCall
from txlog.testing.memory_store import memory_table_store

SCHEMA = pa.schema([("checkpoint", pa.int64()), ("task", pa.int64())])
TASKS = 2

Make = Callable[..., txlog.Table]


def group_of(tables: Sequence[txlog.Table], **how: Any) -> tuple[list[txlog.Sink], txlog.SinkGroup]:
    """The sinks of another process."""
    sinks = [txlog.Sink(txlog.Table(OpenTable(table._open_table.store)), "app", **how) for table in tables]
    return sinks, txlog.SinkGroup(*sinks)


def staged(sinks: Sequence[txlog.Sink], checkpoint_id: int, rows: Sequence[int] = (1, 1, 1), attempt: int = 0) -> None:
    for sink, number in zip(sinks, rows, strict=True):
        for task_id in range(TASKS):
            with sink.task(checkpoint_id, task_id, attempt) as task:
                task.write(pa.table({"checkpoint": [checkpoint_id] * number, "task": [task_id] * number}, SCHEMA))
            sink.stage(task.committable)


def checkpoints_of(table: txlog.Table) -> list[tuple[int, int]]:
    rows = txlog.Table(OpenTable(table._open_table.store)).to_arrow()
    return sorted(zip(rows["checkpoint"].to_pylist(), rows["task"].to_pylist(), strict=True))


def in_every(tables: Sequence[txlog.Table], *checkpoints: int) -> bool:
    expected = [(checkpoint_id, task_id) for checkpoint_id in checkpoints for task_id in range(TASKS)]
    return all(checkpoints_of(table) == expected for table in tables)


class Meanwhile:
    """Another process acts before the n-th call of this one to any store."""

    def __init__(self, at: int, act: Callable[[], object], *, dies: bool = False) -> None:
        self.at, self.calls, self.act, self.dies = at, -sys.maxsize, act, dies

    def __call__(self, call: StoreCall) -> Fault | None:
        """With ``dies``, the call is the last one of this process, and is done."""
        self.calls += 1
        if self.calls == self.at:
            self.act()
        is_last = self.dies and self.calls == self.at
        return (
            Fault("crash_after") if is_last else Fault("crash_before") if self.dies and self.calls > self.at else None
        )

    def group(self, stores: Sequence[TableStore], **how: Any) -> txlog.SinkGroup:
        """The group of this process, whose calls count from now on."""
        group = group_of(tables_of([observed(store, self) for store in stores]), **how)[1]
        self.calls = 0
        return group


def observed(real: TableStore, decide: Callable[[StoreCall], Fault | None]) -> TableStore:
    assert real.staging is not None
    log = FaultyLogStore(real.log, decide, files=real.files)
    return TableStore(real.uri, log, real.files, FaultyLogStore(real.staging, decide))


def copy_of(store: TableStore) -> TableStore:
    copied = memory_table_store(store.uri)
    for name in ("log", "files", "staging"):
        original, copy = getattr(store, name), getattr(copied, name)
        copy.objects, copy.durable = original.objects.copy(), original.durable.copy()
    return copied


def tables_of(stores: Sequence[TableStore]) -> list[txlog.Table]:
    return [txlog.Table(OpenTable(store)) for store in stores]


def new_stores(number: int = TASKS) -> list[TableStore]:
    stores = [memory_table_store(f"memory://{each}") for each in range(number)]
    for store in stores:
        create_table(OpenTable(store), SCHEMA, (), {})
    return sorted(stores, key=lambda store: OpenTable(store).log.newest_state().metadata.id)


def changed_in_the_moment_of_the_decision(
    make_table: Make, change: Callable[[deltalake.DeltaTable], object], *, dies: bool = False, **how: Any
) -> tuple[list[txlog.Table], txlog.SinkGroup]:
    """Two tables with a sealed checkpoint, and a coordinator that is about to give the first its rows when the second
    has them: then another engine changes the first, and perhaps the coordinator dies."""
    tables = [make_table(schema=SCHEMA, name=name) for name in ("a", "b")]
    tables.sort(key=lambda table: table.table_id)
    for table in tables:
        table.append(pa.table({"checkpoint": [0, 0], "task": [0, 1]}, SCHEMA))
    sinks, group = group_of(tables, **how)
    staged(sinks, 1, (1, 1))
    group.prepare(1, [range(TASKS)] * 2)
    is_changed = False

    def act(call: StoreCall) -> Fault | None:
        nonlocal is_changed
        is_put = call.operation == "put_if_absent" and call.name.endswith(".json")
        if is_put and not is_changed and tables[1].snapshot().transaction_version("app") == 1:
            is_changed = True
            change(deltalake.DeltaTable(tables[0].uri))
        return Fault("crash_before") if is_changed and dies else None

    stores = [observed(tables[0]._open_table.store, act), tables[1]._open_table.store]
    return tables, group_of(tables_of(stores), **how)[1]


def discard_at_any_moment_of_a_commit(*, dies: bool, **how: Any) -> None:
    """The rows are in all tables then, or in none. ``dies``: the put that is under way lands, and its sender does not
    live to tell."""
    stores = new_stores(2)
    sinks, group = group_of(tables_of(stores), **how)
    staged(sinks, 1, (1, 1))
    group.prepare(1, [range(TASKS)] * 2)
    ends = set()
    for at in itertools.count(1):
        copies = [copy_of(store) for store in stores]

        def discard(now: Sequence[TableStore] = copies) -> None:
            with contextlib.suppress(txlog.InvalidInputError):
                group_of(tables_of(now), **how)[1].discard(1)

        other = Meanwhile(at, discard, dies=dies)
        running = other.group(copies, **how)
        with contextlib.suppress(Crashed, txlog.InvalidInputError):
            running.commit(1)
        if other.calls < at:
            break
        group_of(tables_of(copies), **how)[1].recover()
        tables = tables_of(copies)
        is_there = in_every(tables, 1)
        assert is_there or in_every(tables), f"discarded at call {at}"
        ends.add(is_there)
    assert ends == {True, False}
