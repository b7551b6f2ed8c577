"""Clean-up of the metadata folder: files of retained snapshots and young files stay, all others are deleted."""

from __future__ import annotations

import os
import time
from pathlib import Path

import iceberg_decoded as decoded
import pyarrow as pa

from txlog import Table
from txlog.iceberg import exporter as exporter_module
from txlog.iceberg.clean_up import GRACE_MS, clean_up_metadata

SCHEMA = pa.schema([("id", pa.int64())])


def exported_often(path: Path, count: int, **properties: str) -> Table:
    table = Table.create(path, SCHEMA, properties={"delta.enableDeletionVectors": "true", **properties})
    for number in range(count):
        table.append(pa.table({"id": pa.array(range(10 * number, 10 * number + 10), pa.int64())}))
        if number % 5 == 4:
            table.delete(f"id % 10 = {number % 3} AND id < {10 * number}")
        if number % 40 == 39:
            table.optimize()
        table.export_iceberg()
    return table


def folder_of(table: Table) -> Path:
    return Path(table.uri) / "_iceberg/metadata"


def age(table: Table, *, seconds: float = GRACE_MS / 1000 + 60) -> None:
    """Make every file but the newest metadata file this old."""
    newest = (folder_of(table) / "version-hint.text").read_text()
    for path in folder_of(table).iterdir():
        if path.name != f"v{newest}.metadata.json":
            os.utime(path, (time.time() - seconds,) * 2)


def age_content(table: Table) -> None:
    """Let all content and the first metadata file be older than an hour."""
    for path in folder_of(table).iterdir():
        if path.name == "v1.metadata.json" or path.name.endswith(".avro"):
            os.utime(path, (time.time() - GRACE_MS / 1000 - 60,) * 2)


def clean_up(table: Table) -> list[str]:
    exporter = table._open_table.post_commit.follower("txlog.iceberg").exporter()
    newest = exporter.exported()
    assert newest is not None
    return clean_up_metadata(exporter._folder, newest).names


def needed(table: Table, number: int | None = None) -> set[str]:
    """Every file that a retained snapshot leads to, of the newest metadata or of that with a number, by fastavro."""
    store = table._open_table.store
    names = set()
    for snapshot in decoded.document(store, number)["snapshots"]:
        names.add(snapshot["manifest-list"])
        for manifest in decoded.manifests(store, snapshot):
            names.add(manifest["manifest_path"])
            if manifest["content"]:
                entries = decoded.avro(store, manifest["manifest_path"])
                names |= {entry["data_file"]["file_path"] for entry in entries if entry["status"] != 2}
    return {name.rpartition("/")[2] for name in names}


def test_files_of_expired_snapshots_and_unfinished_exports_go_and_all_others_stay(tmp_path: Path) -> None:
    table = exported_often(tmp_path / "t", 120)
    orphan = folder_of(table) / f"{3:020d}-{'0' * 24}-m0.avro"
    orphan.write_bytes(b"left by an export that was killed")
    under_way = folder_of(table) / f"{table.version + 1:020d}-{'0' * 24}-m0.avro"
    under_way.write_bytes(b"of an export that is not published yet")
    (folder_of(table) / "someone-elses.avro").write_bytes(b"")
    age(table)
    before = {path.name for path in folder_of(table).iterdir()}
    gone = clean_up(table)
    after = {path.name for path in folder_of(table).iterdir()}
    assert before - after == set(gone)
    assert orphan.name in gone
    assert {under_way.name, "someone-elses.avro", "version-hint.text"} <= after
    kept_metadata = {name for name in after if name.endswith(".metadata.json")}
    assert len(kept_metadata) == 20
    newest = int((folder_of(table) / "version-hint.text").read_text())
    of_readers = needed(table, newest - 1)  # of the one before the newest, which was the newest an hour ago
    assert len(of_readers - needed(table)) > 0
    rest = after - kept_metadata - {under_way.name, "someone-elses.avro", "version-hint.text"}
    assert needed(table) | of_readers == rest
    assert clean_up(table) == []


def test_content_of_versions_that_readers_saw_within_the_last_hour_stays_however_old_it_is(tmp_path: Path) -> None:
    """Its exporter slept between the put of the content and that of the metadata."""
    table = exported_often(tmp_path / "t", 4)
    of_readers = needed(table, 2) | needed(table, 3)
    age_content(table)
    table.export_iceberg(rebuild=True)
    assert of_readers <= {path.name for path in folder_of(table).iterdir()}


def test_young_files_stay(tmp_path: Path) -> None:
    table = exported_often(tmp_path / "t", 110)
    age(table, seconds=GRACE_MS / 1000 - 60)
    assert clean_up(table) == []


def test_at_most_a_hundred_snapshots_are_kept_and_none_older_than_the_retention(tmp_path: Path) -> None:
    table = exported_often(tmp_path / "t", 105)
    assert len(decoded.document(table._open_table.store)["snapshots"]) == 100
    table.set_properties({"delta.deletedFileRetentionDuration": "interval 1 milliseconds"})
    time.sleep(0.02)
    table.append(pa.table({"id": pa.array([1], pa.int64())}))
    table.export_iceberg()
    assert len(decoded.document(table._open_table.store)["snapshots"]) == 1


def test_every_fiftieth_export_cleans_up(tmp_path: Path) -> None:
    table = exported_often(tmp_path / "t", exporter_module._EXPORTS_PER_CLEAN_UP - 1)
    age(table)
    table.append(pa.table({"id": pa.array([1], pa.int64())}))
    assert (folder_of(table) / "v1.metadata.json").exists()
    table.export_iceberg()
    assert not (folder_of(table) / "v1.metadata.json").exists()
    assert table.export_iceberg().snapshots == 0
