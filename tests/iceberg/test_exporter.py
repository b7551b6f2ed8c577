"""Exports as exporters race, crash and find what others left: on stores that fail by plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import iceberg_decoded as decoded
import pyarrow as pa
import pytest
from msgspec.structs import replace

import txlog
from txlog import Table
from txlog.core import ambient
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.log_names import commit_name
from txlog.core.store import LogStore, PutOutcome, TableStore
from txlog.core.versions import OpenTable
from txlog.errors import IcebergExportError, UnsupportedFeatureError
from txlog.iceberg.exporter import IcebergExporter
from txlog.iceberg.metadata.names import metadata_name
from txlog.iceberg.metadata.table_metadata import MetadataPlace
from txlog.iceberg.metadata_folder import MetadataFolder
from txlog.result.audits import IcebergExport
from txlog.testing.memory_store import MemoryLogStore, memory_table_store
from txlog.testing.stopped_clock import StoppedClock

SCHEMA = pa.schema([("id", pa.int64())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def created(store: TableStore | None = None, **properties: str) -> Table:
    from txlog.core.definition import create_table

    open_table = OpenTable(store or memory_table_store())
    create_table(open_table, SCHEMA, (), properties)
    return Table(open_table)


def store_of(table: Table) -> TableStore:
    return table._open_table.store


def with_iceberg(store: TableStore, iceberg: LogStore) -> TableStore:
    return TableStore(store.uri, store.log, store.files, iceberg=iceberg)


def exporter(store: TableStore) -> IcebergExporter:
    return IcebergExporter(OpenTable(store).log)


def versions(store: TableStore) -> list[int]:
    return [int(each["summary"]["delta-version"]) for each in decoded.document(store)["snapshots"]]


class Scripted(MemoryLogStore):
    """Shares the objects of another store, and does something before or instead of each conditional put."""

    def __init__(self, shared: MemoryLogStore, on_put: Callable[[Scripted, str, bytes], PutOutcome | None]) -> None:
        super().__init__()
        self.objects = shared.objects
        self._on_put = on_put
        self.puts = 0

    def put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        self.puts += 1
        outcome = self._on_put(self, name, bytes(body))
        return super().put_if_absent(name, body) if outcome is None else outcome

    def land(self, name: str, body: bytes) -> PutOutcome:
        return super().put_if_absent(name, body)


def shared(store: TableStore) -> MemoryLogStore:
    assert isinstance(store.iceberg, MemoryLogStore)
    return store.iceberg


class Killed(BaseException):
    """The process ends here."""


def test_a_table_without_files_is_exported_without_a_snapshot() -> None:
    table = created()
    done = table.export_iceberg()
    assert (done.version, done.snapshots) == (0, 0)
    assert "current-snapshot-id" not in decoded.document(store_of(table))
    table.append(rows(1))
    assert table.export_iceberg().snapshots == 1


def test_an_export_of_what_is_exported_changes_nothing() -> None:
    table = created()
    table.append(rows(1))
    first = table.export_iceberg()
    names = shared(store_of(table)).list_from("")
    assert table.export_iceberg() == IcebergExport(first.version, first.metadata_location, 0, 1)
    assert shared(store_of(table)).list_from("") == names


def test_an_export_prints_what_is_new_and_where_it_is(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", SCHEMA)
    table.append(rows(1))
    where = f"file://{tmp_path}/t/_iceberg/metadata/v1.metadata.json"
    assert str(table.export_iceberg()) == f"IcebergExport(version=1, 1 new snapshot, {where})"
    assert repr(table.export_iceberg()) == f"IcebergExport(version=1, nothing new to export, {where})"


def test_a_live_file_that_is_added_again_is_listed_once() -> None:
    table = created()
    table.append(rows(1))
    table.export_iceberg()
    (again,) = add_files_of(table.snapshot().files())
    with table.transaction() as transaction:
        transaction.add(replace(again, data_change=True))
    table.append(rows(2))
    assert table.export_iceberg().version == 3
    newest = decoded.document(store_of(table))["snapshots"][-1]
    assert len(decoded.live_entries(store_of(table), newest)) == 2


@pytest.mark.parametrize("format_version", [2, 3])
def test_row_ids_that_files_get_later_begin_a_new_history_only_in_the_format_that_has_them(
    format_version: int, caplog: pytest.LogCaptureFixture
) -> None:
    table = created(**{"txlog.iceberg": f"v{format_version}", "delta.enableDeletionVectors": "true"})
    table.append(rows(1, 2, 3))
    table.export_iceberg()  # the one that follows a commit begins with the version that is then the newest
    table.delete("id = 2")
    table.append(rows(4))
    table.export_iceberg()
    assert versions(store_of(table)) == [1, 2, 3]
    table.set_properties({"delta.enableRowTracking": "true"})
    table.append(rows(5))
    table.export_iceberg()
    found = versions(store_of(table))
    assert found == [1, 2, 3, 7] if format_version == 2 else found[0] > 3
    assert ("(ROW TRACKING BACKFILL) adds live files again" in caplog.text) == (format_version == 3)
    assert not table.verify().findings


def test_row_ids_that_come_back_with_a_restore_are_not_given_again() -> None:
    table = created(**{"delta.enableRowTracking": "true", "txlog.iceberg": "v3"})
    table.append(rows(*range(10)))
    table.append(rows(*range(10, 14)))
    table.export_iceberg()
    table.delete(all=True)
    table.restore(1)
    table.export_iceberg()
    document = decoded.document(store_of(table))
    assert document["next-row-id"] == 14
    assert document["snapshots"][-1]["added-rows"] == 0


def test_a_rebuild_gives_no_row_id_again_whatever_the_order_of_its_files() -> None:
    table = created(**{"delta.enableRowTracking": "true", "txlog.iceberg": "v3"})
    table.append(rows(*range(10)))
    table.append(rows(*range(10, 14)))
    table.delete("id < 10")
    table.create_checkpoint()
    table.restore(2)  # the log now lists the first file last
    table.export_iceberg(rebuild=True)
    assert decoded.document(store_of(table))["next-row-id"] == 14


def test_several_versions_behind_become_several_snapshots_in_one_metadata_file() -> None:
    table = created()
    table.append(rows(1))
    table.export_iceberg()
    for number in range(4):
        table.append(rows(number))
    assert table.export_iceberg().snapshots == 4
    assert decoded.document(store_of(table), 2)["snapshot-log"][-1]["snapshot-id"] > 0
    assert versions(store_of(table)) == [1, 2, 3, 4, 5]


def test_several_versions_behind_each_have_the_columns_of_their_time() -> None:
    table = created()
    table.append(rows(1))
    table.export_iceberg()
    table.append(rows(2))
    table.add_columns(pa.schema([("name", pa.string())]))
    table.append(pa.table({"id": [3], "name": ["c"]}))
    table.export_iceberg()
    document = decoded.document(store_of(table))
    schemas = {each["schema-id"]: [column["name"] for column in each["fields"]] for each in document["schemas"]}
    found = {int(each["summary"]["delta-version"]): schemas[each["schema-id"]] for each in document["snapshots"]}
    assert found == {1: ["id"], 2: ["id"], 4: ["id", "name"]}


def test_exporters_of_the_same_commits_write_the_same_bytes() -> None:
    table = created()
    table.append(rows(1))
    one, two = (with_iceberg(store_of(table), MemoryLogStore()) for _ in range(2))
    for number in range(40):
        table.append(rows(number))
        exporter(one).export(table._open_table.log.newest_state())
        exporter(two).export(table._open_table.log.newest_state())
    names = [meta.name for meta in shared(one).list_from("")]
    assert names == [meta.name for meta in shared(two).list_from("")]
    assert all(shared(one).read(name) == shared(two).read(name) for name in names)


@pytest.mark.parametrize("number", range(1, 8))
@pytest.mark.parametrize("lands", [False, True])
def test_an_exporter_killed_at_any_put_leaves_whole_metadata_and_the_next_one_catches_up(
    number: int, lands: bool
) -> None:
    table = created()
    table.append(rows(1))
    table.export_iceberg()
    table.append(rows(2))
    table.append(rows(3))
    before = versions(store_of(table))

    def kill(store: Scripted, name: str, body: bytes) -> PutOutcome | None:
        if store.puts == number:
            if lands:
                store.land(name, body)
            raise Killed
        return None

    state = table._open_table.log.newest_state()
    try:
        exporter(with_iceberg(store_of(table), Scripted(shared(store_of(table)), kill))).export(state)
    except Killed:
        assert versions(store_of(table)) in (before, [1, 2, 3])
    done = exporter(store_of(table)).export(state)
    assert done.version == 3
    assert versions(store_of(table)) == [1, 2, 3]
    for snapshot in decoded.document(store_of(table))["snapshots"]:
        assert len(decoded.live_entries(store_of(table), snapshot)) == snapshot["sequence-number"]


@pytest.mark.parametrize("lands", [False, True])
@pytest.mark.parametrize("number", range(1, 6))
def test_a_lost_answer_to_any_put_is_looked_up(number: int, lands: bool) -> None:
    table = created()
    table.append(rows(1))
    table.append(rows(2))

    def lose(store: Scripted, name: str, body: bytes) -> PutOutcome | None:
        if store.puts == number:
            if lands:
                store.land(name, body)
            return PutOutcome.UNKNOWN
        return None

    state = table._open_table.log.newest_state()
    done = exporter(with_iceberg(store_of(table), Scripted(shared(store_of(table)), lose))).export(state)
    assert (done.version, done.attempts) == (2, 1)


def test_a_put_whose_answer_is_never_certain_is_an_error_and_the_commit_is_kept() -> None:
    table = created()
    table.append(rows(1))
    lost = Scripted(shared(store_of(table)), lambda store, name, body: PutOutcome.UNKNOWN)
    with pytest.raises(txlog.StorageError, match="no definite answer"):
        exporter(with_iceberg(store_of(table), lost)).export(table._open_table.log.newest_state())
    assert table.count() == 1


def test_metadata_that_is_visible_and_not_durable_is_not_acknowledged_until_it_is() -> None:
    table = created()
    table.append(rows(1))
    state = table._open_table.log.newest_state()
    for number in (1, 2, 3):

        def visible_only(store: Scripted, name: str, body: bytes, number: int = number) -> PutOutcome | None:
            if store.puts != number:
                return None
            store.land(name, body)
            return PutOutcome.NOT_DURABLE

        late = exporter(with_iceberg(store_of(table), Scripted(shared(store_of(table)), visible_only)))
        with pytest.raises(txlog.StorageError, match="could not be synced to disk"):
            late.export(state)
        shared(store_of(table)).objects.clear()
    assert exporter(store_of(table)).export(state).version == 1


def test_the_loser_of_a_race_continues_from_the_winner() -> None:
    table = created()
    table.append(rows(1))
    table.export_iceberg()
    table.append(rows(2))
    state_2 = table._open_table.log.newest_state()
    table.append(rows(3))
    state_3 = table._open_table.log.newest_state()
    other = exporter(store_of(table))

    def overtake(store: Scripted, name: str, body: bytes) -> PutOutcome | None:
        if name == metadata_name(2):
            other.export(state_2)
        return None

    done = exporter(with_iceberg(store_of(table), Scripted(shared(store_of(table)), overtake))).export(state_3)
    assert (done.version, done.attempts, done.snapshots) == (3, 2, 1)
    assert versions(store_of(table)) == [1, 2, 3]


def test_the_loser_of_a_race_that_the_winner_finished_has_nothing_to_do() -> None:
    table = created()
    table.append(rows(1))
    state = table._open_table.log.newest_state()
    other = exporter(store_of(table))

    def overtake(store: Scripted, name: str, body: bytes) -> PutOutcome | None:
        if name == metadata_name(1) and store.puts < 10:
            other.export(state)
        return None

    done = exporter(with_iceberg(store_of(table), Scripted(shared(store_of(table)), overtake))).export(state)
    assert (done.version, done.attempts) == (1, 1)


def test_a_stale_or_wrong_hint_does_not_hide_the_newest_metadata() -> None:
    table = created()
    for number in range(4):
        table.append(rows(number))
        table.export_iceberg()
    store = store_of(table)
    for hint in (b"1", b"4", b"99", b"nonsense", None):
        if hint is None:
            shared(store).delete("version-hint.text")
        else:
            shared(store).put("version-hint.text", hint)
        newest = MetadataFolder(shared(store), MetadataPlace(store.uri)).newest()
        assert newest is not None
        assert newest.number == 4


def test_a_hint_overtaken_by_another_exporter_is_corrected() -> None:
    table = created()
    for number in range(2):
        table.append(rows(number))
        table.export_iceberg()
    folder = MetadataFolder(shared(store_of(table)), MetadataPlace(store_of(table).uri))
    folder.hint(1)
    assert shared(store_of(table)).read("version-hint.text") == b"2"


class HintedMeanwhile(MemoryLogStore):
    """Shares the objects of another store. Just before its first hint lands, others do ``meanwhile``."""

    def __init__(self, shared: MemoryLogStore, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self.objects, self._meanwhile = shared.objects, [meanwhile]

    def put(self, name: str, body: bytes | memoryview) -> None:
        if self._meanwhile:
            self._meanwhile.pop()()
        super().put(name, body)


def test_a_hint_that_another_exporter_moves_on_in_between_ends_at_the_newest_metadata() -> None:
    table = created()
    table.append(rows(1))
    state = table._open_table.log.newest_state()

    def another() -> None:
        table.append(rows(2))
        exporter(store_of(table)).export(table._open_table.log.newest_state())
        assert shared(store_of(table)).read("version-hint.text") == b"2"

    slow = HintedMeanwhile(shared(store_of(table)), another)
    assert exporter(with_iceberg(store_of(table), slow)).export(state).version == 1
    assert shared(store_of(table)).read("version-hint.text") == b"2"


def foreign_commit(store: TableStore, number: int) -> None:
    """What an Iceberg writer does: a metadata file of its own, with a snapshot whose files lie elsewhere."""
    document = decoded.document(store)
    snapshot = {**document["snapshots"][-1], "snapshot-id": 7, "manifest-list": "s3://elsewhere/list.avro"}
    snapshot["summary"] = {"operation": "append"}
    document |= {"snapshots": [*document["snapshots"], snapshot], "current-snapshot-id": 7}
    shared(store).put_if_absent(metadata_name(number), json.dumps(document).encode())


def test_an_iceberg_writers_commit_is_refused_unopened_and_a_rebuild_repairs_it() -> None:
    table = created()
    table.append(rows(1))
    table.export_iceberg()
    foreign_commit(store_of(table), 2)
    table.append(rows(2))
    with pytest.raises(IcebergExportError, match=r"rebuild=True") as caught:
        table.export_iceberg()
    assert caught.value.path == metadata_name(2)
    done = table.export_iceberg(rebuild=True)
    assert (done.version, done.snapshots) == (2, 1)
    assert done.metadata_location.endswith(metadata_name(3))
    assert len(decoded.live_entries(store_of(table), decoded.document(store_of(table))["snapshots"][0])) == 2
    table.append(rows(3))
    assert table.export_iceberg().version == 3


def test_a_changed_property_alone_shows_an_iceberg_writer_too() -> None:
    table = created()
    table.append(rows(1))
    table.export_iceberg()
    document = decoded.document(store_of(table))
    document["properties"]["owner"] = "someone"
    shared(store_of(table)).put_if_absent(metadata_name(2), json.dumps(document).encode())
    with pytest.raises(IcebergExportError, match="txlog did not write it"):
        table.export_iceberg()


def test_a_missing_manifest_list_is_named_and_a_rebuild_repairs_it() -> None:
    table = created()
    table.append(rows(1))
    table.export_iceberg()
    listed = decoded.document(store_of(table))["snapshots"][0]["manifest-list"]
    shared(store_of(table)).delete(listed.rpartition("/")[2])
    table.append(rows(2))
    with pytest.raises(IcebergExportError, match="is missing"):
        exporter(store_of(table)).export(table._open_table.log.newest_state())
    assert table.export_iceberg(rebuild=True).version == 2


def test_a_metadata_folder_that_was_removed_is_written_again_by_the_same_handle() -> None:
    table = created()
    for number in range(3):
        table.append(rows(number))
        table.export_iceberg()
    for meta in shared(store_of(table)).list_from(""):
        shared(store_of(table)).delete(meta.name)
    table.append(rows(9))
    done = table.export_iceberg()
    assert done.metadata_location.endswith(metadata_name(1))
    assert versions(store_of(table)) == [4]
    assert len(decoded.live_entries(store_of(table), decoded.document(store_of(table))["snapshots"][0])) == 4


def test_a_recreated_table_is_exported_without_the_old_snapshots() -> None:
    first = created()
    for number in range(3):
        first.append(rows(number))
    first.export_iceberg()
    again = created(with_iceberg(memory_table_store(), shared(store_of(first))))
    again.append(rows(9))
    assert again.export_iceberg().version == 1
    document = decoded.document(store_of(again))
    assert document["table-uuid"] == again.snapshot().table_id
    assert versions(store_of(again)) == [1]


def test_a_copied_table_is_exported_in_full_at_its_new_place() -> None:
    table = created()
    table.append(rows(1))
    table.append(rows(2))
    table.export_iceberg()
    old = store_of(table)
    copy = TableStore("memory://copy", old.log, old.files, iceberg=old.iceberg)
    done = exporter(copy).export(OpenTable(copy).log.newest_state())
    assert (done.version, done.snapshots) == (2, 1)
    document = decoded.document(copy)
    assert document["location"] == "memory://copy/_iceberg"
    assert all(path.startswith("memory://copy/") for path in decoded.live_entries(copy, document["snapshots"][0]))


def test_a_change_to_the_older_iceberg_format_causes_a_full_export() -> None:
    table = created(**{"txlog.iceberg": "v3"})
    table.append(rows(1))
    table.append(rows(2))
    table.set_properties({"txlog.iceberg": "v2"})
    table._open_table.post_commit.drain()
    document = decoded.document(store_of(table))
    assert (document["format-version"], versions(store_of(table))) == (2, [3])


def test_files_that_come_with_the_newer_format_cause_a_full_export(caplog: pytest.LogCaptureFixture) -> None:
    table = created()
    table.append(rows(1))
    table.export_iceberg()
    with table.transaction() as transaction:
        transaction.set_properties({"txlog.iceberg": "v3"})
        transaction.append(rows(2))
    table.export_iceberg()
    table._open_table.post_commit.drain()
    assert "the format changes together with the files" in caplog.text
    assert versions(store_of(table)) == [2]


def test_an_export_of_a_table_whose_new_commits_were_cleaned_up_is_a_full_export() -> None:
    table = created()
    table.append(rows(1))
    table.export_iceberg()
    for number in range(3):
        table.append(rows(number))
    table.create_checkpoint()
    for version in range(4):
        store_of(table).log.delete(f"{version:020d}.json")
    done = exporter(store_of(table)).export(OpenTable(store_of(table)).log.newest_state())
    assert (done.version, done.snapshots) == (4, 1)
    assert len(decoded.live_entries(store_of(table), decoded.document(store_of(table))["snapshots"][0])) == 4


def test_a_commit_that_was_put_after_a_clean_up_is_not_exported() -> None:
    """A writer that was suspended for longer than the retention put version 1 again. No reader of the table sees it."""
    table = created()
    table.export_iceberg()
    table.append(rows(1))
    store = store_of(table)
    stray = store.log.read(commit_name(1)).replace(b"part-", b"lost-")
    table.append(rows(2))
    table.create_checkpoint()
    for version in range(2):
        store.log.delete(commit_name(version))
    later = StoppedClock()
    later.moment_ms = ambient.now_ms() + 31 * 86_400_000
    with ambient.use(later):
        store.log.put_if_absent(commit_name(1), stray)
        table.append(rows(3))
    done = exporter(store).export(OpenTable(store).log.newest_state())
    assert (done.version, done.snapshots, versions(store)) == (3, 1, [3])
    assert not any("lost-" in path for path in decoded.live_entries(store, decoded.document(store)["snapshots"][-1]))
    assert len(decoded.live_entries(store, decoded.document(store)["snapshots"][-1])) == 3


def test_an_export_that_fails_names_the_column_and_the_commit_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = created(**{"txlog.iceberg": "v2"})
    table.append(rows(1))
    table._open_table.post_commit.drain()
    table.add_columns(pa.schema([("x", pa.struct([("y", pa.int64())])), ("x.y", pa.int64())]))
    table.append(rows(2))
    table._open_table.post_commit.drain()
    assert table.version == 3
    assert versions(store_of(table)) == [1]
    warnings = [
        record.getMessage() for record in caplog.records if "not all Iceberg readers see" in record.getMessage()
    ]
    assert warnings
    assert all("x.y" in each and "the commit is safe" in each for each in warnings)
    with pytest.raises(IcebergExportError, match=r"x\.y"):
        table.export_iceberg()


def test_a_table_with_another_engines_iceberg_metadata_is_neither_exported_nor_written() -> None:
    table = created()
    store = store_of(table)
    uniform = "delta.universalFormat.enabledFormats"
    created_line = next(
        line for line in map(json.loads, store.log.read(commit_name(0)).splitlines()) if "metaData" in line
    )
    created_line["metaData"]["configuration"] |= {uniform: "hudi,Iceberg", "txlog.iceberg": "v2"}
    store.log.put_if_absent(commit_name(1), json.dumps(created_line).encode() + b"\n")
    with pytest.raises(UnsupportedFeatureError, match=rf"{uniform} = hudi,Iceberg.*Unset the property"):
        table.append(rows(1))
    assert table.version == 1
    with pytest.raises(IcebergExportError, match=rf"{uniform} = hudi,Iceberg.*Unset that property"):
        table.export_iceberg()
    assert names_in_iceberg(store) == []


def names_in_iceberg(store: TableStore) -> list[str]:
    assert store.iceberg is not None
    return [meta.name for meta in store.iceberg.list_from("")]


def test_a_table_without_the_property_is_not_exported(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", SCHEMA)
    table.append(rows(1))
    assert not (tmp_path / "t" / "_iceberg").exists()


@pytest.mark.parametrize("value", ["v1", "v4", "true", ""])
def test_the_property_takes_v2_and_v3_only(value: str, tmp_path: Path) -> None:
    with pytest.raises(txlog.InvalidInputError, match=r"txlog\.iceberg"):
        Table.create(tmp_path / "t", SCHEMA, properties={"txlog.iceberg": value})


def test_a_vacuum_leaves_the_metadata_alone(tmp_path: Path) -> None:
    table = Table.create(
        tmp_path / "t", SCHEMA, properties={"txlog.iceberg": "v2", "delta.enableDeletionVectors": "true"}
    )
    table.append(rows(*range(10)))
    table.delete("id = 3")
    table._open_table.post_commit.drain()
    before = sorted(path.name for path in (tmp_path / "t/_iceberg/metadata").iterdir())
    assert any(name.endswith("-deletes.parquet") for name in before)
    table.vacuum(0, force=True)
    table._open_table.post_commit.drain()
    assert set(before) <= {path.name for path in (tmp_path / "t/_iceberg/metadata").iterdir()}


def commit_by_hand(table: Table, *actions: dict[str, Any]) -> Table:
    """Another engine's commit. Returns the table with it."""
    info = {"commitInfo": {"timestamp": 1, "operation": "ANOTHER", "operationParameters": {}}}
    body = "".join(f"{json.dumps(action)}\n" for action in (info, *actions))
    store_of(table).log.put_if_absent(commit_name(table.version + 1), body.encode())
    return Table(OpenTable(store_of(table)))


def actions_of(table: Table, kind: str) -> list[dict[str, Any]]:
    """The actions of one kind in the newest commit."""
    lines = store_of(table).log.read(commit_name(table.version)).splitlines()
    return [action for action in map(json.loads, lines) if kind in action]


@pytest.mark.parametrize("data_change", [False, True])
@pytest.mark.parametrize("format_version", ["v2", "v3"])
def test_files_that_are_added_again_are_exported_once(format_version: str, data_change: bool) -> None:
    table = created(**{"txlog.iceberg": format_version})
    table.append(rows(1, 2))
    table.append(rows(3))
    table.export_iceberg()
    (action,) = actions_of(table, "add")
    action["add"]["dataChange"] = data_change
    table = commit_by_hand(table, action)
    assert table.export_iceberg().version == 3
    newest = decoded.document(store_of(table))["snapshots"][-1]
    assert len(decoded.live_entries(store_of(table), newest)) == 2
    assert (newest["summary"]["total-records"], newest["summary"]["total-data-files"]) == ("3", "2")
    table.delete("id = 3")
    assert table.export_iceberg().version == 4
    assert len(decoded.live_entries(store_of(table), decoded.document(store_of(table))["snapshots"][-1])) == 1


def test_compacted_files_are_new_files_and_older_snapshots_stay() -> None:
    table = created()
    table.append(rows(1))
    table.export_iceberg()
    table.append(rows(2))
    table.optimize()
    assert table.export_iceberg().snapshots == 2
    assert versions(store_of(table)) == [1, 2, 3]


def test_a_table_whose_partition_column_got_a_wider_type_is_exported_in_full(tmp_path: Path) -> None:
    narrow = pa.schema([("id", pa.int64()), ("part", pa.int32())])
    table = Table.create(tmp_path / "t", narrow, ["part"], properties={"txlog.iceberg": "v2"})
    table.append(pa.table({"id": [1, 2, 3], "part": [1, 2, 3]}, schema=narrow))
    table.export_iceberg()
    wide = narrow.set(1, pa.field("part", pa.int64()))
    table.overwrite(pa.table({"id": [4, 5], "part": [4, 5_000_000_000]}, schema=wide), schema_mode="overwrite")
    table.export_iceberg()
    table.delete("part = 4")
    assert table.export_iceberg().version == 3
    assert versions(store_of(table)) == [2, 3]
    newest = decoded.document(store_of(table))["snapshots"][-1]
    partitions = [
        each["data_file"]["partition"].values() for each in decoded.live_entries(store_of(table), newest).values()
    ]
    assert [list(values) for values in partitions] == [[5_000_000_000]]


def test_a_version_whose_deletion_vectors_were_vacuumed_does_not_stop_later_exports(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = Table.create(tmp_path / "t", SCHEMA, properties={"delta.enableDeletionVectors": "true"})
    table.append(rows(*range(100_000)))
    table.export_iceberg()
    table.delete("id % 3 = 0", row_mode="merge-on-read")
    assert list((tmp_path / "t").glob("**/*.bin")), "the vector is a file of its own"
    table.purge()
    table.vacuum(0, force=True)
    done = table.export_iceberg()
    assert (done.version, done.snapshots) == (table.version, 1)
    assert versions(store_of(table)) == [done.version]
    (warning,) = (each.getMessage() for each in caplog.records if "Iceberg readers get" in each.getMessage())
    assert f"get v{done.version} without the versions before it" in warning
    assert "deletion vector" in warning
    table.append(rows(7))
    assert table.export_iceberg().snapshots == 1
    assert versions(store_of(table)) == [done.version, done.version + 1]


def test_a_version_that_iceberg_lacks_does_not_stop_exports_of_versions_after_it() -> None:
    table = created()
    table.append(rows(1))
    table.export_iceberg()
    table.overwrite(pa.table({"s": [{"x": 1}], "s.x": [2]}), schema_mode="overwrite")
    with pytest.raises(IcebergExportError, match=r"s\.x"):
        table.export_iceberg()
    table.overwrite(pa.table({"b": [1, 2]}), schema_mode="overwrite")
    table.append(pa.table({"b": [3]}))
    assert table.export_iceberg().version == 4
    assert versions(store_of(table)) == [4]
    assert len(decoded.live_entries(store_of(table), decoded.document(store_of(table))["snapshots"][0])) == 2
