"""Optimize, cluster and purge: compact small files, put similar rows together, and remove deleted rows from files."""

import random
import tempfile
from pathlib import Path

import pyarrow as pa

import txlog

uri = Path(tempfile.mkdtemp()) / "rides"
table = txlog.Table.create(
    uri,
    "id bigint, lon double, lat double",
    properties={"delta.enableDeletionVectors": "true"},
)
chance = random.Random(7)
for first in range(0, 50_000, 1_000):  # fifty small appends leave fifty small files
    ids = range(first, first + 1_000)
    table.append(pa.table({"id": ids, "lon": [chance.random() for _ in ids], "lat": [chance.random() for _ in ids]}))

print(table.optimize(dry_run=True))
print(table.optimize())

# Filters on a part of the map then read few files, whichever of the two columns they use.
print(table.optimize(zorder_by=["lon", "lat"], target_file_size=100_000))
box = "lon between 0.2 and 0.3 and lat between 0.6 and 0.7"
print(table.files(where=box).num_rows, "of", table.files().num_rows, "files for", box)

# Deleted rows stay in their file until it is rewritten; a vacuum deletes the old file after the retention.
table.delete("id = 4711")
print(table.purge())
print(table.vacuum(dry_run=True))
