"""Exported tables read by PyIceberg: the same rows as by our reader, in every version."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable
from servers import S3Location

import txlog
from txlog.errors import IcebergExportError


def test_pyiceberg_reads_an_exported_table_like_our_own_reader_in_every_version(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("share", pa.float64())])
    table = txlog.Table.create(tmp_path / "t", schema, properties={"txlog.iceberg": "v2"})
    for first in range(0, 50, 10):
        ids = range(first, first + 10)
        columns = {"id": ids, "name": [None if i % 7 == 0 else f"n{i}" for i in ids], "share": [i / 3 for i in ids]}
        table.append(pa.table(columns, schema=schema))
    done = table.export_iceberg()
    read = StaticTable.from_metadata(done.metadata_location)
    assert done.version == table.version == 5
    assert read.scan().to_arrow().sort_by("id").equals(table.to_arrow().sort_by("id"))
    for snapshot in read.metadata.snapshots:
        assert snapshot.summary is not None
        version = int(snapshot.summary["delta-version"] or -1)
        found = read.scan(snapshot_id=snapshot.snapshot_id).to_arrow().sort_by("id")
        assert found.equals(table.snapshot(version).to_arrow().sort_by("id"))
    assert read.scan(row_filter="id > 42").to_arrow().num_rows == 7


def test_pyiceberg_reads_a_table_exported_on_an_object_store(s3_location: S3Location) -> None:
    options = s3_location.storage_options
    table = txlog.Table.create(
        s3_location.uri,
        "id bigint, part string",
        ["part"],
        properties={"txlog.iceberg": "v2", "delta.enableDeletionVectors": "true"},
        storage_options=options,
    )
    for first in (0, 10):
        table.append(pa.table({"id": list(range(first, first + 10)), "part": ["a b", "c/d"] * 5}))
    table.delete("id % 3 = 0")
    done = table.export_iceberg()
    access = {
        "s3.endpoint": options["endpoint_url"],
        "s3.access-key-id": options["access_key_id"],
        "s3.secret-access-key": options["secret_access_key"],
        "s3.region": options["region"],
    }
    read = StaticTable.from_metadata(done.metadata_location, access)
    assert sorted(read.scan().to_arrow()["id"].to_pylist()) == sorted(table.to_arrow()["id"].to_pylist())
    assert read.scan().to_arrow().num_rows == 13


WRITER = """
import sys
import pyarrow as pa
import txlog

table = txlog.Table.open(sys.argv[1])
for number in range(8):
    table.append(pa.table({"id": [int(sys.argv[2]) * 100 + number]}))
"""


def test_concurrent_appends_and_exports_leave_one_snapshot_for_each_version(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", "id bigint", properties={"txlog.iceberg": "v3"})
    command = [sys.executable, "-c", WRITER, table.uri]
    writers = [subprocess.Popen([*command, str(number)], stderr=subprocess.PIPE, text=True) for number in range(3)]
    for writer in writers:
        assert "not all Iceberg readers see" not in writer.communicate(timeout=120)[1]
        assert writer.returncode == 0
    exported = table._open_table.post_commit.follower("txlog.iceberg").exporter().exported()
    assert exported is not None
    assert exported.version == 24, "a process that ends waits for its export"
    done = table.export_iceberg()
    assert (done.version, done.snapshots) == (table.version, 0)
    document = json.loads(Path(done.metadata_location.removeprefix("file://")).read_text())
    versions = [int(snapshot["summary"]["delta-version"]) for snapshot in document["snapshots"]]
    assert versions == list(range(1, 25))
    read = StaticTable.from_metadata(done.metadata_location)
    for snapshot in document["snapshots"][::7]:
        found = read.scan(snapshot_id=snapshot["snapshot-id"]).to_arrow().sort_by("id")
        assert found.equals(table.snapshot(snapshot["sequence-number"]).to_arrow().sort_by("id"))


def test_another_iceberg_writers_file_is_exported_only_if_pyiceberg_reads_it_right(
    tmp_path: Path,
) -> None:
    def file(name: str, **ids: int) -> None:
        fields = [pa.field(column, pa.int64(), True, {b"PARQUET:field_id": str(ids[column])}) for column in "ab"]
        pq.write_table(pa.table([[1], [10]], schema=pa.schema(fields)), tmp_path / name)

    def read(table: txlog.Table) -> list[dict[str, int]]:
        rows = StaticTable.from_metadata(table.export_iceberg().metadata_location).scan().to_arrow()
        return rows.sort_by("a").to_pylist()  # type: ignore[no-any-return]

    table = txlog.Table.create(tmp_path, "a bigint, b bigint")
    file("00000-0-same.parquet", a=1, b=2)
    table.add_files(["00000-0-same.parquet"])
    assert read(table) == [{"a": 1, "b": 10}]
    file("00000-0-other.parquet", a=2, b=1)
    table.add_files(["00000-0-other.parquet"])
    for rebuild in (False, True):
        with pytest.raises(IcebergExportError, match=r"00000-0-other\.parquet .* a has the id 2"):
            table.export_iceberg(rebuild=rebuild)
    table.overwrite(table.to_arrow())
    assert read(table) == [{"a": 1, "b": 10}] * 2
