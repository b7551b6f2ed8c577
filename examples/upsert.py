"""Upsert by keys, merge, update, delete; let two writers change the same keys at once; prevent a lost update."""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

import txlog

uri = Path(tempfile.mkdtemp()) / "customers"

# With deletion vectors a change costs as much as the rows it changes; without them, it copies files.
table = txlog.Table.create(
    uri,
    pa.schema([("id", pa.int64()), ("city", pa.string()), ("orders", pa.int64())]),
    properties={"delta.enableDeletionVectors": "true"},
)
table.append(pa.table({"id": range(1, 6), "city": ["Rome", "Oslo", "Lima", "Bonn", "Kyiv"], "orders": [0] * 5}))

# Known keys are updated, new ones inserted.
print(table.upsert(pa.table({"id": [2, 6], "city": ["Bergen", "Cork"], "orders": [1, 1]}), keys=["id"]))

# This changes columns of matched rows only; values are SQL over the old row.
print(table.update({"orders": txlog.expr("orders + 1")}, where="city in ('Rome', 'Lima')"))

# A merge has clauses, which are tried in order.
changes = pa.table({"id": [3, 4, 7], "orders": [5, 0, 2], "gone": [False, True, False]})
print(
    table.merge(changes, "target.id = source.id")
    .when_matched_delete("source.gone")
    .when_matched_update({"orders": txlog.expr("target.orders + source.orders")})
    .when_not_matched_insert({"id": txlog.col("source.id"), "orders": txlog.col("source.orders")})
    .execute()
)
print(table.delete("city is null"))

# Writers of the same keys never fail because of each other: one comes after the other.
with ThreadPoolExecutor(2) as pool:
    both = [pa.table({"id": [1, 5], "city": [city, city], "orders": [9, 9]}) for city in ("Pisa", "Graz")]
    for result in pool.map(lambda rows: table.upsert(rows, keys=["id"]), both):
        print(result)

# Values computed from an earlier read need its version: the second of two such writers gets a conflict.
snapshot = table.snapshot()
seen = snapshot.to_arrow(where="id = 2")
counted = seen.set_column(2, "orders", pa.array([seen["orders"][0].as_py() + 1]))
print(table.upsert(counted, keys=["id"], read_version=snapshot.version))
try:
    table.upsert(counted, keys=["id"], read_version=snapshot.version)
except txlog.ConflictError as error:
    print(f"{error.kind}: read it again")

print(table.to_arrow().sort_by("id").to_pylist())
