"""The metadata of exported tables as PyIceberg reads it: parsed strictly, each manifest by its own Avro reader, and all
of its metadata tables.

The checks of PyIceberg's own tests, applied to our tables; the expected values come from the log.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from iceberg_tables import TABLES, begun, exported, metadata_file, snapshots
from pyiceberg.avro.file import AvroFile
from pyiceberg.expressions import AlwaysTrue, EqualTo, GreaterThan, IsNull, StartsWith
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFileContent,
    ManifestContent,
    ManifestEntryStatus,
)
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.name_mapping import parse_mapping_from_json
from pyiceberg.table.refs import SnapshotRefType

import txlog

BOTH = pytest.mark.parametrize("format_version", ["v2", "v3"])
EACH = pytest.mark.parametrize("name", TABLES)
TableOf = Callable[[str, str], txlog.Table]


@pytest.fixture(scope="module")
def table_of(tmp_path_factory: pytest.TempPathFactory) -> TableOf:
    @cache
    def made(name: str, format_version: str) -> txlog.Table:
        return exported(tmp_path_factory.mktemp("iceberg") / "table", name, format_version)

    return made


def static(table: txlog.Table) -> StaticTable:
    return StaticTable.from_metadata(str(metadata_file(table)))


def located(table: txlog.Table, version: int) -> dict[str, Any]:
    """The live files of a Delta version by their location."""
    return {f"file://{table.uri}/{add['path']}": add for add in live(table, version)}


def live(table: txlog.Table, version: int) -> list[dict[str, Any]]:
    log = table._open_table.log
    rows = log.files(log.state_at(version)).to_pylist()
    return [{**row, "path": unquote(row["path"])} for row in rows]


def dead_rows(add: dict[str, Any]) -> int:
    return add["deletionVector"]["cardinality"] if add["deletionVector"] else 0


@EACH
@BOTH
def test_metadata_is_parsed_and_written_again_without_loss(name: str, format_version: str, table_of: TableOf) -> None:
    path = metadata_file(table_of(name, format_version))
    ours = json.loads(path.read_bytes())
    metadata = TableMetadataUtil.parse_raw(path.read_text())
    assert metadata == FromInputFile.table_metadata(PyArrowFileIO().new_input(f"file://{path}"))
    if format_version == "v2":  # PyIceberg does not write version 3 yet
        assert TableMetadataUtil.parse_raw(metadata.model_dump_json()) == metadata
    for key, parts in (
        ("partition-specs", metadata.partition_specs),
        ("sort-orders", metadata.sort_orders),
        ("snapshots", metadata.snapshots),
        ("snapshot-log", metadata.snapshot_log),
    ):
        again = [json.loads(part.model_dump_json()) for part in parts]
        assert without_nulls(again) == without_nulls(ours[key]), key
    assert (metadata.properties, metadata.location) == (ours["properties"], ours["location"])
    assert metadata.format_version == int(format_version[1])
    main = metadata.refs["main"]
    assert (main.snapshot_id, main.snapshot_ref_type) == (metadata.current_snapshot_id, SnapshotRefType.BRANCH)
    assert metadata.last_column_id >= metadata.schema().highest_field_id
    mapping = parse_mapping_from_json(metadata.properties["schema.name-mapping.default"])
    for field in metadata.schema().fields:
        assert field.field_id in {each.field_id for each in mapping.root}


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


@EACH
@BOTH
def test_every_manifest_list_and_manifest_has_the_fields_that_pyiceberg_expects(
    name: str, format_version: str, table_of: TableOf
) -> None:
    read = static(table_of(name, format_version))
    number = read.metadata.format_version
    for snapshot in read.metadata.snapshots:
        with AvroFile(read.io.new_input(snapshot.manifest_list), MANIFEST_LIST_FILE_SCHEMAS[number]) as listed:
            assert listed.header.meta["snapshot-id"] == str(snapshot.snapshot_id)
            assert listed.header.meta["format-version"] == str(number)
            assert len(list(listed)) == len(snapshot.manifests(read.io))
        for manifest in snapshot.manifests(read.io):
            file = read.io.new_input(manifest.manifest_path)
            assert manifest.manifest_length == len(file)
            with AvroFile(file, MANIFEST_ENTRY_SCHEMAS[number]) as avro:
                spec = read.specs()[int(avro.header.meta["partition-spec-id"])]
                assert json.loads(avro.header.meta["partition-spec"]) == [
                    json.loads(field.model_dump_json()) for field in spec.fields
                ]
                assert len(list(avro)) == len(manifest.fetch_manifest_entry(read.io, discard_deleted=False))
            statuses = Counter(each.status for each in manifest.fetch_manifest_entry(read.io, discard_deleted=False))
            assert statuses[ManifestEntryStatus.ADDED] == manifest.added_files_count
            assert statuses[ManifestEntryStatus.EXISTING] == manifest.existing_files_count
            assert statuses[ManifestEntryStatus.DELETED] == manifest.deleted_files_count
            assert manifest.content in (ManifestContent.DATA, ManifestContent.DELETES)


@EACH
@BOTH
def test_the_metadata_tables_of_every_snapshot_are_what_the_delta_log_has(
    name: str, format_version: str, table_of: TableOf
) -> None:
    table = table_of(name, format_version)
    inspect = static(table).inspect
    for each in snapshots(table):
        expected = located(table, each.version)
        files = inspect.files(each.id).to_pylist()
        data = {file["file_path"]: file for file in files if file["content"] == DataFileContent.DATA}
        assert data.keys() == expected.keys()
        for path, file in data.items():
            assert file["file_size_in_bytes"] == expected[path]["size"]
            assert file["record_count"] == json.loads(expected[path]["stats"])["numRecords"]
        deletes = [file for file in files if file["content"] == DataFileContent.POSITION_DELETES]
        dead = sum(map(dead_rows, expected.values()))
        assert sum(file["record_count"] for file in deletes) == dead
        entries = inspect.entries(each.id).to_pylist()
        assert Counter(entry["data_file"]["file_path"] for entry in entries if entry["status"] != 2) == Counter(
            file["file_path"] for file in files
        )
        partitions = inspect.partitions(each.id).to_pylist()
        assert sum(row["record_count"] for row in partitions) == sum(file["record_count"] for file in data.values())
        assert sum(row["position_delete_record_count"] for row in partitions) == dead
        values = {
            str(row.get("partition")) for row in partitions
        }  # NaN is not equal to itself, and may have several rows
        assert len(values) == len({str(sorted(add["partitionValues"])) for add in expected.values()})


@EACH
@BOTH
def test_the_metadata_tables_of_the_history_are_what_the_delta_log_has(
    name: str, format_version: str, table_of: TableOf
) -> None:
    table = table_of(name, format_version)
    read = static(table)
    versions = [each.version for each in snapshots(table)]
    ids = [each.id for each in snapshots(table)]
    log = table._open_table.log
    rows = read.inspect.snapshots().to_pylist()
    assert [row["snapshot_id"] for row in rows] == ids
    assert [row["parent_id"] for row in rows] == [None, *ids[:-1]]
    assert [int(dict(row["summary"])["delta-version"]) for row in rows] == versions
    committed_ms = [round(row["committed_at"].timestamp() * 1000) for row in rows]
    assert committed_ms == sorted(committed_ms)
    # Delta dates a version at least 1 ms after the one before it, also where their files have the same time.
    assert all(
        0 <= log.timestamp_ms(version) - found_ms <= committed_ms.count(found_ms) - 1
        for version, found_ms in zip(versions, committed_ms, strict=True)
    )
    for row, version in zip(rows, versions, strict=True):
        totals, expected = dict(row["summary"]), live(table, version)
        assert int(totals["total-data-files"]) == len(expected)
        assert int(totals["total-records"]) == sum(json.loads(add["stats"])["numRecords"] for add in expected)
        assert int(totals["total-position-deletes"]) == sum(map(dead_rows, expected))
        assert int(totals["total-delete-files"]) == sum(dead_rows(add) > 0 for add in expected)
    history = read.inspect.history().to_pylist()
    assert [(row["snapshot_id"], row["parent_id"]) for row in history] == [
        (row["snapshot_id"], row["parent_id"]) for row in rows
    ]
    assert all(row["is_current_ancestor"] for row in history)
    assert [row["snapshot_id"] for row in read.inspect.refs().to_pylist()] == [ids[-1]]
    newest = read.inspect.metadata_log_entries().to_pylist()[-1]
    assert (newest["latest_snapshot_id"], newest["latest_sequence_number"]) == (ids[-1], versions[-1])
    manifests = read.inspect.manifests().to_pylist()
    assert sum(row["added_data_files_count"] + row["existing_data_files_count"] for row in manifests) == len(
        live(table, versions[-1])
    )
    every = read.inspect.all_files().to_pylist()
    assert {file["file_path"] for file in every if not file["content"]} == {
        path for version in versions for path in located(table, version)
    }


@BOTH
def test_a_scan_opens_only_the_files_that_its_filter_leaves(format_version: str, tmp_path: Path) -> None:
    def rows(first: int, part: str | None) -> pa.Table:
        ids = range(first, first + 10)
        return pa.table({"id": list(ids), "part": pa.array([part] * 10), "name": [f"n{number:03d}" for number in ids]})

    table = begun(tmp_path / "t", rows(0, "a"), partition_by=["part"], properties={"txlog.iceberg": format_version})
    for first, part in ((10, "b"), (20, None), (30, "a/b c")):
        table.append(rows(first, part))
    table.export_iceberg()
    read = static(table)
    for condition, expected in (
        (AlwaysTrue(), [0, 10, 20, 30]),
        (EqualTo("part", "b"), [10]),
        (EqualTo("part", "a/b c"), [30]),
        (IsNull("part"), [20]),
        (GreaterThan("id", 25), [20, 30]),
        (StartsWith("name", "n00"), [0]),
        (EqualTo("id", 40), []),
    ):
        tasks = list(read.scan(row_filter=condition).plan_files())
        found = read.scan(row_filter=condition).to_arrow()["id"].to_pylist()
        assert len(tasks) == len(expected), condition
        assert {number // 10 * 10 for number in found} == set(expected), condition


@BOTH
def test_each_snapshot_is_read_under_its_own_schema_and_any_projection(format_version: str, table_of: TableOf) -> None:
    table = table_of("columns that come and go", format_version)
    read = static(table)
    for each in snapshots(table):
        expected = table.snapshot(version=each.version).to_arrow()
        scan = read.scan(snapshot_id=each.id)
        assert [field.name for field in scan.projection().fields] == expected.column_names
        for name in expected.column_names:
            found = read.scan(snapshot_id=each.id, selected_fields=(name,)).to_arrow()
            assert sorted(map(str, found[name].to_pylist())) == sorted(map(str, expected[name].to_pylist()))


@BOTH
def test_an_incremental_scan_has_the_rows_of_appends_alone(format_version: str, tmp_path: Path) -> None:
    properties = {"txlog.iceberg": format_version, "delta.enableDeletionVectors": "true"}

    def rows(first: int, **more: Any) -> pa.Table:
        return pa.table({"id": [first, first + 1], "part": ["a", "b"], **more})

    table = begun(tmp_path / "t", rows(0), partition_by=["part"], properties=properties)
    table.append(rows(10))
    table.delete("id = 0", row_mode="merge-on-read")
    table.append(rows(20, later=[1, None]), schema_mode="merge")
    table.optimize()
    table.update({"later": txlog.expr("7")}, "id = 21", row_mode="copy-on-write")
    table.append(rows(30, later=[2, 3]))
    table.export_iceberg()
    read = static(table)
    found = list(snapshots(table))
    appended = {0: [0, 1], 1: [10, 11], 3: [20, 21], 6: [30, 31]}
    assert [(each.version, each.operation) for each in found] == [
        (version, operation)
        for version, operation in enumerate(["append", "append", "delete", "append", "replace", "overwrite", "append"])
    ]
    for after in found:
        for last in found[found.index(after) + 1 :]:
            scan = read.incremental_append_scan(from_snapshot_id_exclusive=after.id, to_snapshot_id_inclusive=last.id)
            expected = [
                number for version in range(after.version + 1, last.version + 1) for number in appended.get(version, [])
            ]
            assert sorted(scan.to_arrow()["id"].to_pylist()) == expected, (after.version, last.version)
    pruned = read.incremental_append_scan(row_filter=EqualTo("part", "b"), selected_fields=("id", "part"))
    assert sorted(map(str, pruned.to_arrow().to_pylist())) == sorted(
        str({"id": number, "part": "b"}) for number in (1, 11, 21, 31)
    )
    assert len(list(pruned.plan_files())) == 4


@BOTH
def test_a_scan_has_a_limit_a_count_and_batches_and_filters_members_of_structs(
    format_version: str, table_of: TableOf
) -> None:
    table = table_of("tracked rows", format_version)
    rows = table.to_arrow()
    read = static(table)
    assert read.scan().count() == rows.num_rows
    assert read.scan(row_filter="id < 5").count() == table.count("id < 5")
    for limit in (0, 1, 30, 1000):
        limited = read.scan(limit=limit).to_arrow()
        assert limited.num_rows == min(limit, rows.num_rows)
        assert Counter(map(str, limited.to_pylist())) <= Counter(map(str, rows.to_pylist()))
    batches = read.scan().to_arrow_batch_reader().read_all()
    assert sorted(batches["id"].to_pylist()) == sorted(rows["id"].to_pylist())
    assert read.scan(row_filter="ID < 5", case_sensitive=False).count() == table.count("id < 5")
    nested = table_of("every type", format_version)
    expected = [row for row in nested.to_arrow().to_pylist() if row["struct"] and row["struct"]["a"] == 1]
    assert static(nested).scan(row_filter="struct.a = 1").to_arrow().num_rows == len(expected) > 0


@BOTH
def test_the_metrics_of_files_are_the_statistics_of_the_delta_log(format_version: str, table_of: TableOf) -> None:
    table = table_of("tracked rows", format_version)
    inspect = static(table).inspect
    expected = located(table, table.version)
    for file in inspect.data_files().to_pylist():
        statistics = json.loads(expected[file["file_path"]]["stats"])
        for name, metrics in file["readable_metrics"].items():
            assert metrics["lower_bound"] == statistics["minValues"][name]
            assert metrics["upper_bound"] == statistics["maxValues"][name]
            assert metrics["null_value_count"] == statistics["nullCount"][name]
            assert metrics["value_count"] == statistics["numRecords"]
    every = {file["file_path"] for file in inspect.all_data_files().to_pylist()}
    assert every >= expected.keys()
    assert inspect.all_delete_files().num_rows >= inspect.delete_files().num_rows
    manifests = {row["path"] for row in inspect.manifests().to_pylist()}
    assert manifests <= {row["path"] for row in inspect.all_manifests().to_pylist()}
