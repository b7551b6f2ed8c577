"""Two processes append to one table at the same time: every acknowledged row is there, once."""

import subprocess
import sys
import tempfile

import pyarrow as pa

import txlog

BATCHES = 20


def write_batches(uri: str, writer: str) -> None:
    table = txlog.Table.open(uri)
    lost_races = 0
    for number in range(BATCHES):
        result = table.append(pa.table({"writer": [writer] * 100, "batch": [number] * 100}))
        lost_races += result.metrics.lost_races
    print(f"{writer}: {BATCHES} appends acknowledged, {lost_races} races lost and won again")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        write_batches(sys.argv[1], sys.argv[2])
        sys.exit()

    uri = tempfile.mkdtemp() + "/shared"
    txlog.Table.create(uri, pa.schema([("writer", pa.string()), ("batch", pa.int64())]))
    writers = [subprocess.Popen([sys.executable, __file__, uri, name]) for name in ("anna", "bert")]
    for writer in writers:
        writer.wait()

    snapshot = txlog.Table.open(uri).snapshot()
    rows = snapshot.to_arrow().group_by(["writer", "batch"]).aggregate([([], "count_all")])
    sizes = ", ".join(map(str, sorted(set(rows["count_all"].to_pylist()))))
    print(f"version {snapshot.version}: {rows.num_rows} batches of {sizes} rows each")
    assert rows.num_rows == 2 * BATCHES
