"""GDPR deletes: remove one person's rows from the table and from its files, and prove that no bytes are left."""

import tempfile
from pathlib import Path

import pyarrow as pa

import txlog

uri = Path(tempfile.mkdtemp()) / "orders"
table = txlog.Table.create(
    uri,
    "customer bigint, item string",
    properties={"delta.enableDeletionVectors": "true"},
)
table.append(pa.table({"customer": [4710, 4711, 4712], "item": ["book", "a letter to Ada", "lamp"]}))
table.append(pa.table({"customer": [4711, 4713], "item": ["another letter to Ada", "chair"]}))


def files_with_the_letters() -> int:
    return sum(b"letter to Ada" in path.read_bytes() for path in uri.glob("*.parquet"))


# 1. The rows leave the table. The files still contain them.
deleted = table.delete("customer = 4711").version
print(table.to_arrow()["customer"].to_pylist(), "in the table;", files_with_the_letters(), "files have more")

# 2. No live file contains them any more. Older versions do, for time travel.
print(table.purge())
print(table.check_deleted(deleted))

# 3. Nobody else writes here, so the vacuum need not wait until the retention is over.
print(table.vacuum(0, force=True))

# 4. Check every file of the table. Only the log is left, with the smallest and largest values of former files.
found = table.check_deleted(deleted)
print(found)
print("rows are gone:", found.rows_are_gone, "-", files_with_the_letters(), "files contain them")
for each in found.remains:
    print(each.kept_by, each.until, each.path)
