"""A stream of one micro-batch per second for ten minutes, while four processes append alongside.

It watches everything minute by minute: how long commits take, how many files the log holds, how much memory every
process of the stream and every writer uses. A log's retention counts whole days, so files that are five minutes old are
made to look a week old: the cleanup after each checkpoint then deletes as much as in a log that is kept for days.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.measure import Bench, markdown_table, p99
from benchmarks.spark import session
from benchmarks.stream import last_batch, start_query, wait_for

TITLE = "Structured Streaming, sustained"

WRITERS = 4
APPEND_INTERVAL_S = 0.5
WEEK_S = 7 * 24 * 3600.0


@dataclass
class Window:
    """What one part of the run showed. Latencies in ms, memory in MB."""

    batches_ms: list[float] = field(default_factory=list)
    appends_ms: list[float] = field(default_factory=list)
    log_files: int = 0
    log_mb: float = 0.0
    python_mb: float = 0.0
    jvm_mb: float = 0.0
    writers_mb: float = 0.0


def run(bench: Bench) -> str:
    length_s, windows, retention_s = bench.scale((600, 10, 300), (20, 2, 5))
    import txlog

    path = bench.folder("sustained")
    schema = pa.schema({"timestamp": pa.timestamp("us", "UTC"), "value": pa.int64()})
    properties = {"delta.logRetentionDuration": "interval 1 day", "delta.checkpointInterval": "100"}
    table = txlog.Table.create(path, schema, properties=properties)
    context = multiprocessing.get_context("spawn")
    ends, reported = context.Event(), context.Queue()
    with session(bench) as spark:
        spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "2000")
        writers = [context.Process(target=_append, args=(str(path), ends, reported)) for _ in range(WRITERS)]
        query = start_query(spark, "txlog", path, "1 second")
        for writer in writers:
            writer.start()
        wait_for(query, lambda: last_batch(query) >= 1)
        for _ in range(10 * WRITERS):
            reported.get(timeout=60)  # by then all have begun
        seen = []
        for number in range(windows):
            seen.append(_watch(path, query, writers, reported, length_s / windows))
            _age(path / "_delta_log", retention_s)
            bench.say(f"{number + 1} of {windows}: {_shown(seen[-1])}")
        ends.set()
        appended = sum(_drain(reported, writers))
        query.stop()
    newest = table.snapshot().transaction_version(query.id)
    assert newest is not None
    batches = newest + 1
    rows = table.snapshot().to_arrow(columns=["value"]).num_rows
    if rows != 100 * batches + appended:
        raise RuntimeError(f"{rows:,} rows of {batches:,} batches of 100 and {appended:,} appends")
    for number, window in enumerate(seen):
        bench.record(window=number, **vars(window))
    return _report(seen, length_s, batches, appended, table.snapshot().version)


def _append(path: str, ends: Any, reported: Any) -> None:
    """A batch writer: a row every half second through one handle. At the end it reports how many."""
    import txlog

    table = txlog.Table.open(path)
    row = pa.table({"timestamp": pa.array([0], pa.timestamp("us", "UTC")), "value": pa.array([-1], pa.int64())})
    done = 0
    while not ends.wait(APPEND_INTERVAL_S):
        begin_s = time.monotonic()
        table.append(row)
        reported.put((time.monotonic() - begin_s) * 1e3)
        done += 1
    reported.put(("done", done))


def _watch(path: Path, query: Any, writers: list[Any], reported: Any, length_s: float) -> Window:
    """One window: its latencies, and the state at its end."""
    window = Window()
    first = last_batch(query) + 1
    end_s = time.monotonic() + length_s
    while time.monotonic() < end_s:
        time.sleep(0.5)
        while not reported.empty():
            window.appends_ms.append(reported.get())
        if not query.isActive:
            raise RuntimeError(f"the query ended: {query.exception()}")
        if not all(writer.is_alive() for writer in writers):
            raise RuntimeError("a writer ended by itself")
    window.batches_ms = [
        float(progress["durationMs"]["addBatch"])
        for progress in query.recentProgress
        if progress["batchId"] >= first and progress["durationMs"].get("addBatch")
    ]
    for entry in os.scandir(path / "_delta_log"):
        with contextlib.suppress(FileNotFoundError):  # cleaned up meanwhile
            window.log_mb += entry.stat().st_size / 1e6
            window.log_files += 1
    for process_id, name in _processes(os.getpid()):
        if "java" in name:
            window.jvm_mb += _memory_mb(process_id)
        elif "pyspark.daemon" in name:
            window.python_mb += _memory_mb(process_id)
    window.writers_mb = sum(_memory_mb(writer.pid) for writer in writers)
    return window


def _age(log: Path, older_than_s: float) -> None:
    """Date files that are old enough back by a week, once."""
    now_s = time.time()
    for entry in os.scandir(log):
        with contextlib.suppress(FileNotFoundError):  # cleaned up meanwhile
            modified_s = entry.stat().st_mtime
            if entry.name[0].isdigit() and now_s - WEEK_S / 2 < modified_s < now_s - older_than_s:
                os.utime(entry, (modified_s - WEEK_S, modified_s - WEEK_S))


def _drain(reported: Any, writers: list[Any]) -> list[int]:
    counts: list[int] = []
    while len(counts) < len(writers):
        message = reported.get()
        if isinstance(message, tuple):
            counts.append(message[1])
    for writer in writers:
        writer.join()
    return counts


def _processes(parent: int) -> list[tuple[int, str]]:
    """Every process below ``parent``: its id and its command line."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = [], [parent]
    while waiting:
        for child in children.get(waiting.pop(), []):
            waiting.append(child)
            try:
                found.append((child, (Path("/proc") / str(child) / "cmdline").read_text().replace("\0", " ")))
            except OSError:
                continue
    return found


def _memory_mb(process_id: int) -> float:
    """Proportional set size, so that what forked processes share counts once."""
    try:
        lines = Path(f"/proc/{process_id}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1e3


def _report(seen: list[Window], length_s: int, batches: int, appended: int, version: int) -> str:
    part_s = length_s / len(seen)
    lines = [
        (
            f"{number * part_s:.0f}-{(number + 1) * part_s:.0f} s",
            _latency(window.batches_ms),
            _latency(window.appends_ms),
            f"{window.log_files} / {window.log_mb:.1f}",
            f"{window.python_mb:.0f}",
            f"{window.writers_mb:.0f}",
            f"{window.jvm_mb:.0f}",
        )
        for number, window in enumerate(seen)
    ]
    header = ["", "micro-batch p50 / p99, ms", "append p50 / p99, ms", "log, files / MB"]
    table = markdown_table([*header, "Spark's Python, MB", "four writers, MB", "JVM, MB"], lines)
    return (
        f"{table}\n\n{length_s} s: {batches:,} micro-batches and {appended:,} appends of {WRITERS} processes, version"
        f" {version:,} at the end; every row is there once. A micro-batch's time covers its rows and its commit"
        " (`durationMs.addBatch`); memory is each process's proportional share. The log is"
        " kept for five minutes."
    )


def _shown(window: Window) -> str:
    return (
        f"micro-batches {_latency(window.batches_ms)} ms, appends {_latency(window.appends_ms)} ms,"
        f" log {window.log_files} files, Python {window.python_mb:.0f} MB, JVM {window.jvm_mb:.0f} MB"
    )


def _latency(took_ms: list[float]) -> str:
    return f"{statistics.median(took_ms):.0f} / {p99(took_ms):.0f}" if took_ms else "-"
