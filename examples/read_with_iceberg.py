"""Read a table with an Iceberg engine: set one property, append, delete, and let PyIceberg read every version."""

import tempfile
from pathlib import Path

import pyarrow as pa
from pyiceberg.table import StaticTable

import txlog

uri = Path(tempfile.mkdtemp()) / "orders"

table = txlog.Table.create(
    uri,
    pa.schema([("id", pa.int64()), ("day", pa.string()), ("amount", pa.float64())]),
    partition_by=["day"],
    properties={"txlog.iceberg": "v2", "delta.enableDeletionVectors": "true"},
)

# An export follows every commit in the background. It writes only metadata: the data files are shared.
table.append(pa.table({"id": [1, 2, 3], "day": ["mon", "tue", "tue"], "amount": [9.5, 3.0, 7.25]}))
table.append(pa.table({"id": [4], "day": ["wed"], "amount": [1.0]}))
table.delete("id = 2")

# This waits until Iceberg readers see the newest version; the location tells them where it is.
done = table.export_iceberg()
print(f"Iceberg readers see version {done.version}: {done.metadata_location}")

iceberg = StaticTable.from_metadata(done.metadata_location)
print(iceberg.scan(row_filter="amount > 2").to_arrow().sort_by("id"))

# Each Delta version that changes files is one snapshot, and the snapshot names the version.
for snapshot in iceberg.metadata.snapshots:
    rows = iceberg.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows
    version = snapshot.summary["delta-version"] if snapshot.summary else None
    print(f"version {version}: {snapshot.summary and snapshot.summary.operation.value}, {rows} rows")
