"""Append from plain Python: create a table, add rows from three libraries, replay a batch, read it all back."""

import tempfile
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa

import txlog

uri = Path(tempfile.mkdtemp()) / "orders"

table = txlog.Table.create(
    uri,
    pa.schema([("id", pa.int64()), ("day", pa.string()), ("amount", pa.float64())]),
    partition_by=["day"],
)

# Any source that speaks Arrow works as it is; txlog streams it.
print(table.append(pa.table({"id": [1, 2], "day": ["mon", "tue"], "amount": [9.5, 3.0]})))
print(table.append(pl.DataFrame({"id": [3], "day": ["tue"], "amount": [7.25]})))
print(table.append(pd.DataFrame({"id": [4], "day": ["wed"], "amount": [1.0]})))
print(table.append(duckdb.sql("select 5::bigint as id, 'wed' as day, 2.5::double as amount")))

# With an app_id and a checkpoint_id, a second run of the same batch adds nothing.
batch = pa.table({"id": [6], "day": ["thu"], "amount": [4.0]})
print(table.append(batch, app_id="orders-ingest", checkpoint_id=17))
print(table.append(batch, app_id="orders-ingest", checkpoint_id=17))

# New columns arrive in the same commit as their rows; they are null in older rows.
print(table.append(pl.DataFrame({"id": [7], "day": ["fri"], "amount": [8.0], "note": ["gift"]}), schema_mode="merge"))

# A batch that does not fit is refused before anything is written; the error lists each column.
try:
    table.append(pa.table({"id": ["eight"], "amount": [1.0]}))
except txlog.SchemaMismatchError as error:
    print(f"{error.kind}: {error}")

snapshot = table.snapshot()
print(pl.DataFrame(snapshot).sort("id"))
print(f"version {snapshot.version}, {snapshot.num_files} files, {snapshot.size_bytes:,} bytes")
print(f"before the merge: {table.snapshot(version=5).to_arrow(where='amount > 5').num_rows} orders above 5")
