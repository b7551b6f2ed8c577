"""Keep every version of a row (slowly changing dimension, type 2): one merge closes old rows and inserts new ones."""

import datetime
import tempfile
from pathlib import Path

import pyarrow as pa

import txlog

uri = Path(tempfile.mkdtemp()) / "customers"
table = txlog.Table.create(
    uri,
    pa.schema(
        [
            ("id", pa.int64()),
            ("city", pa.string()),
            ("valid_from", pa.date32()),
            ("valid_to", pa.date32()),
            ("is_current", pa.bool_()),
        ]
    ),
    properties={"delta.enableDeletionVectors": "true"},
)


def keep_history(rows: pa.Table, day: datetime.date) -> txlog.WriteResult:
    """Merge the customers as of ``day``: those that changed get a new row, and those that are missing are closed."""
    # A customer that changed is there twice: the key closes the current row, and a null key, which matches nothing,
    # inserts the new one.
    current = table.to_arrow(where="is_current", columns=["id", "city"]).rename_columns(["id", "old_city"])
    known = rows.join(current, "id", join_type="inner")
    changed = known.filter(pa.compute.not_equal(known["city"], known["old_city"])).select(["id", "city"])
    keys = pa.chunked_array([*rows["id"].chunks, pa.nulls(changed.num_rows, pa.int64())])
    source = pa.concat_tables([rows, changed]).append_column("key", keys)
    return (
        table.merge(source, "target.id = source.key AND target.is_current")
        .when_matched_update({"valid_to": day, "is_current": False}, "target.city <> source.city")
        .when_not_matched_insert(
            {
                "id": txlog.col("source.id"),
                "city": txlog.col("source.city"),
                "valid_from": day,
                "is_current": True,
            }
        )
        .when_not_matched_by_source_update({"valid_to": day, "is_current": False}, "target.is_current")
        .execute()
    )


def keep_history_of_all(rows: pa.Table, day: datetime.date) -> txlog.WriteResult:
    """The same, if the rows are all customers, and not only those that changed: no key needs to be null.

    The row of a customer that changed matches nothing, so it is inserted; nor does the source match the old row, so it
    is closed.
    """
    return (
        table.merge(rows, "target.id = source.id AND target.city <=> source.city AND target.is_current")
        .when_not_matched_insert(
            {
                "id": txlog.col("source.id"),
                "city": txlog.col("source.city"),
                "valid_from": day,
                "is_current": True,
            }
        )
        .when_not_matched_by_source_update({"valid_to": day, "is_current": False}, "target.is_current")
        .execute()
    )


print(keep_history(pa.table({"id": [1, 2, 3], "city": ["Rome", "Oslo", "Lima"]}), datetime.date(2026, 11, 20)))
print(keep_history(pa.table({"id": [1, 2, 4], "city": ["Rome", "Bergen", "Cork"]}), datetime.date(2026, 11, 21)))
print(
    keep_history_of_all(pa.table({"id": [1, 2, 4], "city": ["Rome", "Bergen", "Galway"]}), datetime.date(2026, 11, 22))
)

# What was true on a day is a range condition.
for row in table.to_arrow().sort_by([("id", "ascending"), ("valid_from", "ascending")]).to_pylist():
    print(row)
