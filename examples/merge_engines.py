"""Merge engines: sums over a changelog, with retractions where rows change, and rows that two streams fill together."""

import tempfile
from pathlib import Path

import pyarrow as pa

import txlog

folder = Path(tempfile.mkdtemp())

# A table property defines how rows of one key merge, so every writer merges alike.
sales = txlog.Table.create(
    folder / "sales",
    pa.schema([("product", pa.int64()), ("sold", pa.int64())]),
    properties={
        "delta.enableDeletionVectors": "true",
        "delta.enableChangeDataFeed": "true",
        "txlog.merge-engine": "aggregation",
        "txlog.fields.sold.aggregate-function": "sum",
    },
)
sales.upsert(pa.table({"product": [1, 1, 2], "sold": [15, 20, 1]}), keys=["product"])

# A correction retracts the old row (-U) and adds the new one (+U).
correction = pa.table({"op": ["-U", "+U"], "product": [1, 1], "sold": [20, 12]})
print(sales.upsert(correction, keys=["product"], row_kind="op"))
print(sales.snapshot().to_arrow().sort_by("product").to_pylist())
print(sales.changes(2).read_all().select(["_change_type", "product", "sold"]).to_pylist())

# Two streams fill one row, each in its own order: a late row changes nothing.
orders = txlog.Table.create(
    folder / "orders",
    pa.schema(
        [("id", pa.int64()), ("paid", pa.bool_()), ("paid_at", pa.int64()), ("place", pa.string()), ("at", pa.int64())]
    ),
    properties={
        "delta.enableDeletionVectors": "true",
        "txlog.merge-engine": "partial-update",
        "txlog.fields.paid_at.sequence-group": "paid",
        "txlog.fields.at.sequence-group": "place",
    },
)
orders.upsert(pa.table({"id": [1], "place": ["Hamburg"], "at": [20]}), keys=["id"])
orders.upsert(pa.table({"id": [1], "paid": [True], "paid_at": [5]}), keys=["id"])
orders.upsert(pa.table({"id": [1], "place": ["Rotterdam"], "at": [10]}), keys=["id"])
print(orders.snapshot().to_arrow().to_pylist())
