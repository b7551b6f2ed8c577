"""Exported tables read by PyIceberg: the same rows as by our reader, in every version."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyiceberg.table import StaticTable

import txlog


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
