"""Time travel and restore: read an older version, restore it, name a version to keep it, and vacuum unneeded files."""

import tempfile
from pathlib import Path

import pyarrow as pa

import txlog

uri = Path(tempfile.mkdtemp()) / "prices"
table = txlog.Table.create(uri, "sku bigint, price double")
table.append(pa.table({"sku": [1, 2, 3], "price": [1.5, 2.5, 3.5]}))

# Somebody doubles all prices by mistake.
mistake = table.update({"price": txlog.expr("price * 2")})
print(table.snapshot(version=mistake.version - 1).to_arrow(where="sku = 1"))

print(table.restore(mistake.version - 1, dry_run=True))
print(table.restore(mistake.version - 1))
print(table.to_arrow()["price"])

# A name keeps a version: no txlog vacuum and no log cleanup deletes it.
table.tag("release-7")
table.overwrite(pa.table({"sku": [9], "price": [9.5]}))
print(table.vacuum(dry_run=True))
print(table.snapshot(tag="release-7").to_arrow().num_rows, "rows in release-7")
print(table.tags())
