"""Exporters that are slow, or are overtaken, and disks that lose unsynced files: readers never go back."""

from __future__ import annotations

import iceberg_decoded as decoded
import orjson
import pyarrow as pa
import pytest

from txlog import Table
from txlog.core import ambient
from txlog.core.format.log_names import commit_name
from txlog.core.store import PutOutcome, TableStore
from txlog.core.versions import OpenTable
from txlog.iceberg.exporter import IcebergExporter
from txlog.iceberg.metadata.names import HINT, metadata_name, metadata_number
from txlog.testing.memory_store import MemoryLogStore, memory_table_store
from txlog.testing.stopped_clock import StoppedClock

HOUR_MS = 3_600_000


class Clock(StoppedClock):
    """No clock moves unless a test moves it."""

    def monotonic_s(self) -> float:
        return self.moment_ms / 1000


def created() -> Table:
    from txlog.core.definition import create_table

    open_table = OpenTable(memory_table_store())
    create_table(open_table, pa.schema([("id", pa.int64())]), (), {})
    return Table(open_table)


def append(table: Table) -> None:
    table.append(pa.table({"id": pa.array([1], pa.int64())}))


def exporter(table: Table, iceberg: MemoryLogStore | None = None) -> IcebergExporter:
    store = table._open_table.store
    return IcebergExporter(
        OpenTable(TableStore(store.uri, store.log, store.files, iceberg=iceberg or folder(table))).log
    )


def folder(table: Table) -> MemoryLogStore:
    found = table._open_table.store.iceberg
    assert isinstance(found, MemoryLogStore)
    return found


class Slow(MemoryLogStore):
    """Shares the files of another store. Before its first put, or that of metadata, others do ``meanwhile``."""

    def __init__(self, shared: MemoryLogStore, meanwhile: object, *, before_content: bool) -> None:
        super().__init__()
        self.objects, self.durable, self._meanwhile = shared.objects, shared.durable, meanwhile
        self._before_content = before_content

    def put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        if (self._before_content or metadata_number(name) is not None) and callable(self._meanwhile):
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()
        return super().put_if_absent(name, body)


def test_an_export_syncs_a_commit_that_another_engine_did_not_sync() -> None:
    """Else a power cut takes the version, another gets its number, and Iceberg readers keep the rows of the first."""
    table = created()
    append(table)
    log = table._open_table.store.log
    assert isinstance(log, MemoryLogStore)
    lines = [{"commitInfo": {"operation": "WRITE", "isBlindAppend": True}}]
    log.put(commit_name(2), b"".join(orjson.dumps(line) + b"\n" for line in lines))
    assert commit_name(2) in log.unsafe()
    assert Table(OpenTable(table._open_table.store)).export_iceberg().version == 2
    assert log.unsafe() == []


def test_metadata_that_its_exporter_did_not_sync_is_synced_before_it_is_called_exported() -> None:
    table = created()
    append(table)
    table.export_iceberg()
    del folder(table).durable[metadata_name(1)]
    assert exporter(table).export(table._open_table.log.newest_state()).snapshots == 0
    assert metadata_name(1) in folder(table).durable


def test_content_that_another_exporter_did_not_sync_is_synced_before_metadata_names_it() -> None:
    table = created()
    append(table)
    elsewhere = MemoryLogStore()
    exporter(table, elsewhere).export(table._open_table.log.newest_state())
    for name, entry in elsewhere.objects.items():
        if name.endswith(".avro"):
            folder(table).objects[name] = entry
    assert len(folder(table).unsafe()) == 2  # a manifest and its list
    table.export_iceberg()
    assert folder(table).unsafe() == [HINT]  # which may lag behind


def test_a_rebuild_that_was_overtaken_shows_no_older_version_than_readers_have_seen() -> None:
    table = created()
    append(table)
    older = table._open_table.log.newest_state()
    append(table)
    table.export_iceberg()
    assert exporter(table).export(older, rebuild=True).version == 2
    assert decoded.document(table._open_table.store)["properties"]["delta.version"] == "2"


def test_files_that_readers_of_the_metadata_before_a_rebuild_need_stay_for_an_hour() -> None:
    """Also those of a reader that goes back to an older snapshot."""
    clock = Clock()
    with ambient.use(clock):
        table = created()
        for _ in range(2):
            append(table)
            table.export_iceberg()
        needed = [meta.name for meta in folder(table).list_from("0") if meta.name.endswith(".avro")]
        append(table)
        clock.moment_ms += 2 * HOUR_MS
        table.export_iceberg(rebuild=True)
        assert len(needed) == 4  # a manifest list and a manifest of each version
        assert set(needed) <= folder(table).objects.keys()
        clock.moment_ms += 2 * HOUR_MS
        append(table)
        table.export_iceberg(rebuild=True)
        assert not set(needed) & folder(table).objects.keys()


@pytest.mark.parametrize("before_content", [False, True])
def test_an_exporter_that_slept_while_others_cleaned_up_leaves_readers_at_the_newest_metadata(
    before_content: bool,
) -> None:
    """The number that it found free was taken and deleted since, so that its put succeeds."""
    clock = Clock()
    with ambient.use(clock):
        table = created()
        append(table)
        table.export_iceberg()
        append(table)

        def others_go_on() -> None:
            for _ in range(22):
                table.export_iceberg(rebuild=True)
            append(table)
            clock.moment_ms += 2 * HOUR_MS
            table.export_iceberg(rebuild=True)
            assert metadata_name(2) not in folder(table).objects

        slow = exporter(table, Slow(folder(table), others_go_on, before_content=before_content))
        done = slow.export(OpenTable(table._open_table.store).log.newest_state())
        assert done.version == 3
        assert done.metadata_location.endswith(metadata_name(24))
        assert folder(table).read(HINT) == b"24"


def test_snapshots_stay_in_the_order_of_time_where_a_clock_went_back() -> None:
    """Iceberg's own library refuses metadata whose snapshots go back in time."""
    clock = Clock()
    with ambient.use(clock):
        table = created()
        for _ in range(3):
            append(table)
            table.export_iceberg()
            clock.moment_ms -= HOUR_MS
    document = decoded.document(table._open_table.store)
    assert len({each["timestamp-ms"] for each in document["snapshots"]}) == 1
    assert document["last-updated-ms"] == document["snapshots"][-1]["timestamp-ms"]


def test_an_exporter_that_slept_does_not_take_what_a_clean_up_left_for_the_newest_metadata() -> None:
    """The clean-up died before it deleted the metadata that this exporter knew, and after it deleted the next ones."""
    clock = Clock()
    with ambient.use(clock):
        table = created()
        append(table)
        ours = exporter(table)
        ours.export(table._open_table.log.newest_state())
        known = folder(table).objects[metadata_name(1)]
        for _ in range(22):
            table.export_iceberg(rebuild=True)
        append(table)
        clock.moment_ms += 2 * HOUR_MS
        table.export_iceberg(rebuild=True)
        assert metadata_name(2) not in folder(table).objects
        folder(table).objects[metadata_name(1)] = known
        append(table)
        done = ours.export(table._open_table.log.newest_state())
        assert done.metadata_location.endswith(metadata_name(25))
