"""Kill a stream in the middle, and prove that the table lost nothing and has nothing twice.

The stream runs in a separate process (this program, with arguments). While it commits, it is killed with
all its workers, by the one signal that no program can catch. Then it starts again, and ends normally.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import txlog

FILES, ROWS = 8, 1_000


def stream(source: str, uri: str, checkpoint: str) -> None:
    """Write one micro-batch for each source file, then end."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark's workers must find txlog too
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(source)
    query = (
        rows.writeStream.format("txlog")
        .option("checkpointLocation", checkpoint)  # holds the query's id, which names its batches in the table
        .trigger(availableNow=True)
        .start(uri)
    )
    query.awaitTermination()


def start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, *arguments], stderr=subprocess.DEVNULL, start_new_session=True)


def versions(uri: str) -> int:
    return txlog.Table.open(uri).snapshot().version + 1 if txlog.Table.exists(uri) else 0


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    source, uri, checkpoint = str(folder / "source"), str(folder / "orders"), str(folder / "checkpoint")
    os.mkdir(source)
    for number in range(FILES):
        pq.write_table(pa.table({"id": range(number * ROWS, (number + 1) * ROWS)}), f"{source}/{number:03}.parquet")

    first = start(source, uri, checkpoint)
    while first.poll() is None and versions(uri) < 3:
        time.sleep(0.02)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    print(f"killed with {versions(uri)} of {FILES} batches in the table")

    start(source, uri, checkpoint).wait()
    snapshot = txlog.Table.open(uri).snapshot()
    ids = snapshot.to_arrow(["id"])["id"]
    expected = FILES * ROWS
    print(f"after the restart: {len(ids):,} rows, {len(ids.unique()):,} different ones, {expected:,} in the source")
    print(f"{snapshot.version + 1} versions for {FILES} batches")
    assert len(ids) == len(ids.unique()) == expected
    assert snapshot.version + 1 <= FILES  # fewer if the kill fell between Spark's two logs: it then joins two batches


if __name__ == "__main__":
    if sys.argv[1:]:
        stream(*sys.argv[1:])
    else:
        main()
