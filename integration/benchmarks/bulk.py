"""Bulk writes: five million rows of ten columns, flat, into 50 and into 1,000 partitions.

Each write is a fresh process with the rows in memory as Arrow. Its time begins with the write and ends when the
call returns; its memory is the peak above what the process held just before. txlog syncs what it writes, the
others do not: for these, it also measures the time to sync their files and directories after the write.

Run as a program it is one such process: `python -m benchmarks.bulk CONTESTANT LAYOUT SOURCE TARGET`.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.measure import Bench, fresh_process, markdown_table
from benchmarks.tables import mixed_rows

TITLE = "Many rows at once"

LAYOUTS = {"flat": 50, "50 partitions": 50, "1,000 partitions": 1_000}
TUNED = {"compression": "snappy", "use_dictionary": ["name", "note"]}
ROW_GROUP_ROWS = 1_000_000


def run(bench: Bench) -> str:
    rows, rounds = bench.scale((5_000_000, 3), (20_000, 1))
    sources = {partitions: bench.folder(f"source-{partitions}.arrow") for partitions in sorted(set(LAYOUTS.values()))}
    for partitions, path in sources.items():
        bench.say(f"making {rows:,} rows with {partitions:,} partition values")
        _save(mixed_rows(rows, partitions), path)
    results: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for turn in range(rounds):
        for layout, partitions in LAYOUTS.items():
            names = list(CONTESTANTS)
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                found = _in_fresh_process(bench, name, layout, sources[partitions])
                bench.say(f"{layout}, {name}: {found['write_s']:.2f} s, +{found['extra_mb']:.0f} MB")
                bench.record(contestant=name, layout=layout, round=turn, rows=rows, **found)
                results.setdefault((layout, name), []).append(found)
    return _report(results, rows, rounds)


def _save(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=131_072)


def _in_fresh_process(bench: Bench, name: str, layout: str, source: Path) -> dict[str, Any]:
    target = bench.folder("target")
    os.sync()
    done = fresh_process("-m", "benchmarks.bulk", name, layout, str(source), str(target))
    shutil.rmtree(target)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# --- the contestants ------------------------------------------------------------------------------------------------


def _txlog(rows: pa.Table, target: str, partition_by: list[str]) -> None:
    import txlog

    txlog.write(target, rows, partition_by=partition_by)


def _deltalake(rows: pa.Table, target: str, partition_by: list[str]) -> None:
    import deltalake

    deltalake.write_deltalake(target, rows, partition_by=partition_by)


def _pyarrow(rows: pa.Table, target: str, partition_by: list[str]) -> None:
    if partition_by:
        _write_dataset(rows, target, partition_by, {"compression": "snappy"})
    else:
        _write_table(rows, target, {"compression": "snappy"})


def _pyarrow_tuned(rows: pa.Table, target: str, partition_by: list[str]) -> None:
    if partition_by:
        groups = {"min_rows_per_group": ROW_GROUP_ROWS, "max_rows_per_group": ROW_GROUP_ROWS}
        _write_dataset(rows, target, partition_by, TUNED, **groups)
    else:
        _write_table(rows, target, TUNED, dictionary_pagesize_limit=8 << 20)


def _write_table(rows: pa.Table, target: str, options: dict[str, Any], **more: Any) -> None:
    import pyarrow.parquet as pq

    os.makedirs(target)
    pq.write_table(rows, f"{target}/part.parquet", **options, **more)


def _write_dataset(rows: pa.Table, target: str, partition_by: list[str], options: dict[str, Any], **more: Any) -> None:
    import pyarrow.dataset as ds

    partitioning = ds.partitioning(pa.schema([rows.schema.field(name) for name in partition_by]), flavor="hive")
    options = ds.ParquetFileFormat().make_write_options(**options)
    ds.write_dataset(rows, target, format="parquet", partitioning=partitioning, file_options=options, **more)


CONTESTANTS: dict[str, Callable[[pa.Table, str, list[str]], None]] = {
    "txlog": _txlog,
    "deltalake": _deltalake,
    "pyarrow": _pyarrow,
    "pyarrow tuned": _pyarrow_tuned,
}
LIBRARY = {"txlog": "txlog.table", "deltalake": "deltalake"}


# --- the fresh process ----------------------------------------------------------------------------------------------


def _measure(name: str, layout: str, source: str, target: str) -> dict[str, Any]:
    import importlib

    with pa.OSFile(source, "rb") as file:
        rows = pa.ipc.open_file(file).read_all()
    base_mb = _forget_peak()
    for module in ("pyarrow.parquet", "pyarrow.dataset", LIBRARY.get(name, "pyarrow")):
        importlib.import_module(module)
    cpu_s, begin_s = time.process_time(), time.perf_counter()
    CONTESTANTS[name](rows, target, [] if layout == "flat" else ["part"])
    write_s, cpu_s = time.perf_counter() - begin_s, time.process_time() - cpu_s
    peak_mb = _status_mb("VmHWM")
    begin_s = time.perf_counter()
    if name != "txlog":
        _sync_tree(target)
    files = [path for path in Path(target).rglob("*.parquet") if "_delta_log" not in path.parts]
    return {
        "input_mb": rows.nbytes / 1e6,
        "write_s": write_s,
        "sync_s": time.perf_counter() - begin_s if name != "txlog" else 0.0,
        "cpu_s": cpu_s,
        "extra_mb": peak_mb - base_mb,
        "files": len(files),
        "written_mb": sum(path.stat().st_size for path in files) / 1e6,
    }


def _sync_tree(target: str) -> None:
    for folder, _, names in os.walk(target):
        for path in (*[f"{folder}/{name}" for name in names], folder):
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)


def _forget_peak() -> float:
    """Reset the process's peak memory to its current use; returns that."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status_mb("VmRSS")


def _status_mb(name: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"/proc/self/status has no {name}; this benchmark needs Linux")


# --- the report -----------------------------------------------------------------------------------------------------


def _report(results: dict[tuple[str, str], list[dict[str, Any]]], rows: int, rounds: int) -> str:
    lines = []
    for (layout, name), found in sorted(results.items(), key=lambda item: list(LAYOUTS).index(item[0][0])):
        middle = {key: statistics.median(each[key] for each in found) for key in found[0]}
        ours = statistics.median(each["write_s"] for each in results[layout, "txlog"])
        synced_s = middle["write_s"] + middle["sync_s"]
        lines.append(
            (
                f"{layout}: {name}",
                f"{middle['write_s']:.2f}",
                f"{middle['input_mb'] / middle['write_s']:.0f}",
                f"{synced_s:.2f}",
                f"{middle['write_s'] / ours:.2f}",
                f"{synced_s / ours:.2f}",
                f"{middle['cpu_s']:.1f}",
                f"{middle['extra_mb']:.0f}",
                f"{middle['files']:.0f}",
                f"{middle['written_mb']:.0f}",
            )
        )
    table = markdown_table(
        [
            "layout: writer",
            "s",
            "MB/s",
            "s, synced",
            "time : txlog's",
            "synced : txlog's",
            "CPU s",
            "memory over the input, MB",
            "files",
            "written, MB",
        ],
        lines,
    )
    input_mb = next(iter(results.values()))[0]["input_mb"]
    return (
        f"{table}\n\n{rows:,} rows, {input_mb:.0f} MB of Arrow, snappy, medians of {rounds} alternating rounds, each"
        " write"
        " in a fresh process. *pyarrow* is `write_table` if flat, otherwise `write_dataset`; *tuned* encodes with"
        f" dictionaries only the two columns they suit, and makes row groups of {ROW_GROUP_ROWS:,} rows."
    )


if __name__ == "__main__":
    print(json.dumps(_measure(*sys.argv[1:5])))
