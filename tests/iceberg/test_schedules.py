"""Two exporters in many orders of their calls, with a crash or a lost answer at any put: readers never see a gap."""

from __future__ import annotations

from collections.abc import Callable

import greenlet
import iceberg_decoded as decoded
import pyarrow as pa
import pytest

from explorer.schedule import Choices
from txlog import Table
from txlog.core.store import PutOutcome, TableStore
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import DeltaLog
from txlog.iceberg.exporter import IcebergExporter
from txlog.iceberg.metadata.names import metadata_number
from txlog.testing.memory_store import MemoryLogStore, memory_table_store

SCHEDULES = 150
Fault = str
FAULTS: tuple[Fault, ...] = ("none", "crash before", "crash after", "lost before", "lost after")


class Crash(BaseException):
    """The process of an exporter ends."""


class Shared(MemoryLogStore):
    """The metadata folder as one exporter sees it: it waits for its turn before each call on a metadata file."""

    def __init__(self, objects: MemoryLogStore, fault: Callable[[], Fault]) -> None:
        super().__init__()
        self.objects = objects.objects
        self._fault = fault

    def read(self, name: str) -> bytes:
        if metadata_number(name) is not None:
            greenlet.getcurrent().parent.switch()
        return super().read(name)

    def put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        if metadata_number(name) is None:
            return super().put_if_absent(name, body)  # named by its content: the order means nothing
        greenlet.getcurrent().parent.switch()
        fault = self._fault()
        outcome = PutOutcome.UNKNOWN if fault.endswith("before") else super().put_if_absent(name, body)
        if fault.startswith("crash"):
            raise Crash
        return PutOutcome.UNKNOWN if fault.startswith("lost") else outcome


@pytest.fixture(scope="module")
def states() -> tuple[TableStore, list[TableState]]:
    """A table at version 4 that is exported up to version 1, and its versions."""
    from txlog.core.definition import create_table

    open_table = OpenTable(memory_table_store())
    create_table(open_table, pa.schema([("id", pa.int64())]), (), {})
    table = Table(open_table)
    found = []
    for number in range(4):
        table.append(pa.table({"id": pa.array([number], pa.int64())}))
        found.append(open_table.log.newest_state())
        if number == 0:
            table.export_iceberg()
    return open_table.store, found


def copied(store: TableStore) -> TableStore:
    assert isinstance(store.iceberg, MemoryLogStore)
    iceberg = MemoryLogStore()
    for meta in store.iceberg.list_from(""):
        iceberg.put(meta.name, store.iceberg.read(meta.name))
    return TableStore(store.uri, store.log, store.files, iceberg=iceberg)


def test_readers_see_every_version_once_in_each_schedule_of_two_exporters(
    states: tuple[TableStore, list[TableState]],
) -> None:
    base, (_, second, third, fourth) = states
    programs: tuple[tuple[TableState, ...], ...] = ((second, fourth), (third,))
    crashes = 0

    def run(choices: Choices) -> None:
        nonlocal crashes
        store = copied(base)
        faults_left = 1

        def fault() -> Fault:
            nonlocal faults_left
            found = FAULTS[choices.choose(len(FAULTS), calm=0.3)] if faults_left else "none"
            faults_left -= found != "none"
            return found

        def export(wanted: tuple[TableState, ...]) -> None:
            assert isinstance(store.iceberg, MemoryLogStore)
            view = TableStore(store.uri, store.log, store.files, iceberg=Shared(store.iceberg, fault))
            exporter = IcebergExporter(DeltaLog(view))
            for state in wanted:
                assert exporter.export(state).version >= state.version

        actors = [greenlet.greenlet(export) for _ in programs]
        for actor, program in zip(actors, programs, strict=True):
            actor.switch(program)
        checked = check(store, 0)
        while living := [actor for actor in actors if not actor.dead]:
            try:
                living[choices.choose(len(living))].switch()
            except Crash:
                crashes += 1
            checked = check(store, checked)
        IcebergExporter(DeltaLog(store)).export(fourth)
        check(store, checked)
        newest = decoded.document(store)
        assert [int(each["summary"]["delta-version"]) for each in newest["snapshots"]] == [1, 2, 3, 4]

    for seed in range(SCHEDULES):
        run(Choices.seeded(seed))
    assert crashes > SCHEDULES // 10


def check(store: TableStore, checked: int) -> int:
    """Each metadata file continues from the previous one, and its newest snapshot has the files of its version.

    Returns how many metadata files there are; ``checked`` of them are known to be right.
    """
    assert isinstance(store.iceberg, MemoryLogStore)
    numbers = sorted(filter(None, (metadata_number(meta.name) for meta in store.iceberg.list_from("v"))))
    assert numbers == list(range(1, len(numbers) + 1))
    for number in numbers[checked:]:
        snapshots = decoded.document(store, number)["snapshots"]
        versions = [int(snapshot["summary"]["delta-version"]) for snapshot in snapshots]
        assert versions == list(range(1, len(versions) + 1))
        assert len(decoded.live_entries(store, snapshots[-1])) == versions[-1]
    return len(numbers)
