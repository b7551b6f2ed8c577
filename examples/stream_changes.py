"""Stream changes into a table: two tasks share a change stream and apply it to a table exactly once."""

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import txlog

folder = Path(tempfile.mkdtemp())
schema = pa.schema([("id", pa.int64()), ("city", pa.string())])
properties = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
table = txlog.Table.create(folder / "customers", schema, properties=properties)

# Debezium's kinds: created, updated, deleted; `ts` orders the changes of a row.
changes = pa.table(
    {
        "op": ["c", "c", "c", "u", "d", "c"],
        "id": [1, 2, 3, 2, 3, 4],
        "city": ["Rome", "Oslo", "Lima", "Bergen", None, "Cork"],
        "ts": [10, 11, 12, 13, 14, 15],
    }
)


def write(checkpoint_id: int, changes: pa.Table, num_tasks: int = 2) -> None:
    """Write one checkpoint. Tasks may run in other processes, since a sink pickles."""
    sink = txlog.Sink(table, "customers-stream", mode="upsert", keys=["id"], row_kind="op", sequence_by="ts")
    task_of = sink.partition_of(changes, num_tasks)
    for task_id in range(num_tasks):
        with sink.task(checkpoint_id, task_id) as task:
            task.write(changes.filter(pc.equal(task_of, task_id)))
        sink.stage(task.committable)
    sink.prepare(checkpoint_id, range(num_tasks))
    print(sink.commit(checkpoint_id))


write(1, changes)
write(2, pa.table({"op": ["u", "d"], "id": [1, 4], "city": ["Roma", None], "ts": [16, 17]}))

# A checkpoint that is sent again after a crash changes nothing.
sink = txlog.Sink(table, "customers-stream", mode="upsert", keys=["id"], row_kind="op", sequence_by="ts")
print("last checkpoint:", sink.last_checkpoint_id())

rows = table.to_arrow().sort_by("id").to_pylist()
assert rows == [{"id": 1, "city": "Roma"}, {"id": 2, "city": "Bergen"}], rows
for row in rows:
    print(row)
for change in table.changes(2).read_all().select(["_change_type", "id", "city"]).to_pylist():
    print(change)
