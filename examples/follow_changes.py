"""Follow a change data feed: keep a second table equal to the first, with each change applied exactly once."""

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import txlog

folder = Path(tempfile.mkdtemp())
schema = pa.schema([("id", pa.int64()), ("city", pa.string())])
feed = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
customers = txlog.Table.create(folder / "customers", schema, properties=feed)
copy = txlog.Table.create(folder / "copy", schema, properties=feed)


def follow() -> None:
    """Apply each version that the copy lacks, and store the last one with the rows, as a checkpoint."""
    done = copy.snapshot().transaction_version("follower")
    for version in range(0 if done is None else done + 1, customers.version + 1):
        changes = customers.changes(version, version, where="_change_type <> 'update_preimage'").read_all()
        # A version may remove a key and insert it again, as an overwrite does: then the new row wins.
        is_delete = pc.equal(changes["_change_type"], "delete")
        comes_back = pc.is_in(changes["id"], changes.filter(pc.invert(is_delete))["id"])
        rows = changes.filter(pc.invert(pc.and_(is_delete, comes_back)))
        rows = rows.drop_columns(["_commit_version", "_commit_timestamp"])
        (
            copy.merge(rows, on=["id"], app_id="follower", checkpoint_id=version)
            .when_matched_delete("source._change_type = 'delete'")
            .when_matched_update({"city": txlog.col("source.city")})
            .when_not_matched_insert(
                {"id": txlog.col("source.id"), "city": txlog.col("source.city")}, "source._change_type <> 'delete'"
            )
            .execute()
        )


customers.append(pa.table({"id": [1, 2, 3], "city": ["Rome", "Oslo", "Lima"]}))
follow()
customers.upsert(pa.table({"id": [2, 4], "city": ["Bergen", "Cork"]}), keys=["id"])
customers.delete("id = 1")
customers.overwrite(pa.table({"id": [3, 5], "city": ["Quito", "Graz"]}), where="id = 3 or id = 5")
follow()
follow()  # nothing new: nothing happens

for change in customers.changes(2).read_all().to_pylist():
    print(change["_commit_version"], change["_change_type"], change["id"], change["city"])
assert copy.snapshot().to_arrow().sort_by("id").equals(customers.snapshot().to_arrow().sort_by("id"))
print("the copy is equal to the table")
