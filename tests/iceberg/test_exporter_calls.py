"""What an export asks of the stores: nothing that its handle knows already, and never an older hint than another's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pytest

import txlog
from txlog.core import ambient
from txlog.core.definition import create_table
from txlog.core.format.log_names import commit_name
from txlog.core.store import ObjectMeta, PutOutcome, TableStore
from txlog.core.versions import OpenTable
from txlog.iceberg.exporter import IcebergExporter
from txlog.iceberg.metadata.names import HINT, metadata_name, metadata_number
from txlog.testing.faults import FaultyLogStore
from txlog.testing.memory_store import MemoryLogStore, memory_table_store

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "text": [f"<{each}>" for each in ids]})


class Watched:
    """A table in memory, with the calls of the log and of the metadata folder."""

    def __init__(self) -> None:
        self.base = memory_table_store()
        assert self.base.iceberg is not None
        self.log, self.iceberg = FaultyLogStore(self.base.log), FaultyLogStore(self.base.iceberg)
        self.open_table = OpenTable(TableStore(self.base.uri, self.log, self.base.files, iceberg=self.iceberg))
        create_table(self.open_table, SCHEMA, (), {})
        self.table = txlog.Table(self.open_table)

    def calls_of(self, work: Callable[[], object]) -> list[tuple[str, str]]:
        self.open_table.post_commit.drain()
        self.log.calls.clear()
        self.iceberg.calls.clear()
        work()
        return [*self.log.calls, *self.iceberg.calls]


def test_an_export_after_a_commit_of_its_handle_syncs_no_commit_and_reads_none_again() -> None:
    watched = Watched()
    watched.table.append(rows(1))
    watched.table.export_iceberg()
    watched.table.append(rows(2))
    calls = watched.calls_of(watched.table.export_iceberg)
    assert [name for operation, name in calls if operation == "read" and name.endswith("2.json")] == []
    assert [name for operation, name in calls if operation == "make_durable"] == []
    assert [name.rpartition("-")[2] for operation, name in calls if operation == "put_if_absent"] == [
        "m0.avro",
        "list.avro",
        metadata_name(2),
    ]
    assert [name for operation, name in calls if operation == "put"] == [HINT]


def test_an_export_of_another_handles_commit_syncs_it_first() -> None:
    watched = Watched()
    txlog.Table(OpenTable(watched.base)).append(rows(1))
    calls = watched.calls_of(watched.table.export_iceberg)
    assert ("make_durable", commit_name(1)) in calls


@pytest.mark.parametrize("format_version", ["v2", "v3"])
def test_a_handle_exports_its_own_commits_as_any_other_does_that_reads_them(format_version: str) -> None:
    own = Watched()
    own.table.set_properties({"delta.enableDeletionVectors": "true", "txlog.iceberg": format_version})
    own.open_table.post_commit.drain()
    other = MemoryLogStore()
    steps: tuple[Callable[[], object], ...] = (
        lambda: own.table.append(rows(1, 2, 3)),
        lambda: own.table.append(rows(4)),
        lambda: own.table.delete("id = 2"),
        lambda: own.table.upsert(rows(3, 5), keys=["id"]),
        lambda: own.table.add_columns(pa.schema([("more", pa.int32())])),
    )
    IcebergExporter(OpenTable(TableStore(own.base.uri, own.base.log, own.base.files, iceberg=other)).log).export(
        own.open_table.log.newest_state()
    )
    for step in steps:
        step()
        own.open_table.post_commit.drain()
        elsewhere = OpenTable(TableStore(own.base.uri, own.base.log, own.base.files, iceberg=other))
        IcebergExporter(elsewhere.log).export(elsewhere.log.newest_state())
    assert isinstance(own.base.iceberg, MemoryLogStore)
    ours, theirs = ({name: body for name, (body, _) in each.objects.items()} for each in (own.base.iceberg, other))
    assert ours == theirs


def test_an_exporter_that_was_overtaken_never_takes_the_newer_hint_back() -> None:
    """Readers that go by the hint alone would see an older version than an export has reported."""
    watched = Watched()
    watched.table.append(rows(1))
    state = watched.open_table.log.newest_state()
    watched.table.append(rows(2))
    base = watched.base
    assert isinstance(base.iceberg, MemoryLogStore)
    hints: list[bytes] = []

    class Overtaken(MemoryLogStore):
        """Another handle exports a newer version as soon as the metadata of this one is there."""

        def put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
            outcome = super().put_if_absent(name, body)
            if metadata_number(name) == 1:
                txlog.Table(OpenTable(base)).export_iceberg()
            return outcome

        def put(self, name: str, body: bytes | memoryview) -> None:
            hints.append(bytes(body))
            super().put(name, body)

    slow = Overtaken()
    slow.objects, slow.durable = base.iceberg.objects, base.iceberg.durable
    IcebergExporter(OpenTable(TableStore(base.uri, base.log, base.files, iceberg=slow)).log).export(state)
    assert hints == [b"2"]
    assert base.iceberg.read(HINT) == b"2"


# --- clean-up -------------------------------------------------------------------------------------------------------


@dataclass
class Clock(ambient.Ambient):
    """Both clocks move only when a test, or a store that takes long, moves them."""

    seconds: float = 1_790_000_000.0

    def now_ms(self) -> int:
        return int(1000 * self.seconds)

    def monotonic_s(self) -> float:
        return self.seconds


@dataclass
class Exports:
    """Exports of one handle in memory, with the number of listings of the metadata folder at each."""

    clock: Clock
    listing_s: float = 0.0

    def __post_init__(self) -> None:
        base = memory_table_store()
        self.iceberg = _Listed(self)
        self.listings = 0
        self.open_table = OpenTable(TableStore(base.uri, base.log, base.files, iceberg=self.iceberg))
        create_table(self.open_table, SCHEMA, (), {})
        self.table = txlog.Table(self.open_table)

    def export(self, times: int, *, seconds_apart: float = 0.0) -> int:
        """Export as many commits. Returns how often the folder was listed."""
        before = self.listings
        for _ in range(times):
            self.clock.seconds += seconds_apart
            self.table.append(rows(1))
            self.table.export_iceberg()
        return self.listings - before


class _Listed(MemoryLogStore):
    def __init__(self, exports: Exports) -> None:
        super().__init__()
        self._exports = exports

    def list_from(self, start: str) -> list[ObjectMeta]:
        self._exports.listings += 1
        self._exports.clock.seconds += self._exports.listing_s
        return super().list_from(start)


def test_no_clean_up_lists_the_folder_again_before_a_file_of_it_can_be_old_enough() -> None:
    """A listing of all files of an hour costs more than many exports."""
    with ambient.use(Clock()) as clock:
        assert isinstance(clock, Clock)
        exports = Exports(clock)
        exports.export(1)
        assert exports.export(99) == 1
        assert exports.export(100) == 0
        clock.seconds += 3600
        assert exports.export(50) == 1
        assert metadata_name(1) not in exports.iceberg.objects


def test_a_clean_up_of_a_folder_whose_listing_takes_long_waits_a_hundred_times_as_long() -> None:
    with ambient.use(Clock()) as clock:
        assert isinstance(clock, Clock)
        exports = Exports(clock, listing_s=10.0)
        exports.export(200, seconds_apart=100.0)
        assert exports.export(100, seconds_apart=1.0) == 0
        assert exports.export(100, seconds_apart=10.0) == 1
