"""A consumer of a partitioned log keeps its offsets in the table: rows and offsets land in one commit, or not at all.

Each partition is one application, and its offset is the version. After a crash, the consumer asks the table where to
resume, so no row is lost or written twice, whatever the broker delivers again.
"""

import tempfile
from collections.abc import Iterator

import pyarrow as pa

import txlog

PARTITIONS = 3
TOPIC = {p: [{"partition": p, "offset": n, "value": f"{p}-{n}"} for n in range(40)] for p in range(PARTITIONS)}
Batch = dict[int, list[dict[str, object]]]


class Crash(Exception):
    """Stands in for a process that dies."""


def poll(positions: dict[int, int], size: int) -> Iterator[Batch]:
    """What a broker delivers from these offsets on: some records of each partition at a time."""
    while any(positions[p] < len(TOPIC[p]) for p in TOPIC):
        yield {p: TOPIC[p][positions[p] : positions[p] + size] for p in TOPIC if positions[p] < len(TOPIC[p])}
        positions = {p: positions[p] + size for p in positions}


def app_id(partition: int) -> str:
    return f"orders-topic/{partition}"


def write(table: txlog.Table, batch: Batch) -> txlog.WriteResult:
    """Write the records of several partitions and the last offset of each, as one version."""
    with table.transaction() as transaction:
        transaction.append(pa.Table.from_pylist([record for records in batch.values() for record in records]))
        for partition, records in batch.items():
            transaction.set_transaction(app_id(partition), int(str(records[-1]["offset"])))
    return transaction.result


def consume(uri: str, size: int, crash_after: int | None = None) -> None:
    table = txlog.Table.open(uri)
    committed = {p: table.transaction_version(app_id(p)) for p in TOPIC}
    positions = {p: 0 if offset is None else offset + 1 for p, offset in committed.items()}
    print(f"consumer starts at {positions}")
    for number, batch in enumerate(poll(positions, size)):
        print(f"  {write(table, batch)}")
        if number == crash_after:
            raise Crash


if __name__ == "__main__":
    uri = tempfile.mkdtemp() + "/orders"
    schema = pa.schema([("partition", pa.int64()), ("offset", pa.int64()), ("value", pa.string())])
    table = txlog.Table.create(uri, schema)

    try:
        consume(uri, size=7, crash_after=2)
    except Crash:
        print("the consumer died after a commit, before it could report to the broker")
    print(f"the broker delivers the first batch again: {write(table, {p: TOPIC[p][:7] for p in TOPIC})}")
    try:
        write(table, {0: TOPIC[0][14:21], 1: TOPIC[1][14:30]})
    except txlog.InvalidInputError as error:
        print(f"a batch that is half in the table is refused: {error}")
    consume(uri, size=9)

    rows = txlog.Table.open(uri).snapshot().to_arrow()
    values = sorted(rows["value"].to_pylist())
    expected = sorted(str(record["value"]) for records in TOPIC.values() for record in records)
    print(f"rows expected {len(expected)}, in the table {len(values)}, distinct {len(set(values))}")
    assert values == expected
