"""Changelogs: micro-batches of changes into a large table, a long changelog, and the memory of a large checkpoint.

Micro-batches are `benchmarks.changes_stream`'s. Each contestant writes the long changelog in a fresh process
(`benchmarks.changes_work`): txlog's sink, PyIceberg's ``upsert`` and pypaimon's primary-key table. The latter two run
at smaller scales, where txlog's sink is measured too. txlog syncs what it writes, the others do not.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.changes_stream import BATCH_ROWS, UPKEEP_EVERY, Stream, by_sinks, by_spark
from benchmarks.changes_work import UPDATED, memory_table
from benchmarks.measure import ROOT, Bench, fresh_process, markdown_table, p99, times
from benchmarks.upsert_tables import linked, make_table

TITLE = "Changelogs"

PYPAIMON = "pypaimon==2.1.0"


def run(bench: Bench) -> str:
    rows, files, batches = bench.scale((5_000_000, 20, 500), (20_000, 4, 6))
    table = bench.folder("changes-table")
    make_table(table, "random", rows, files)
    streams = by_sinks(bench, table, rows, batches)
    parts = [_report_of_sinks(streams, rows, files)]
    if bench.with_spark:
        parts.append(_report_of_spark(by_spark(bench, table, rows)))
    return "\n\n".join([*parts, _throughput(bench), _memory(bench)])


def _report_of_sinks(streams: dict[str, Stream], rows: int, files: int) -> str:
    lines = []
    for name, stream in streams.items():
        tenth = max(1, len(stream.batches) // 10)
        first_ms, last_ms = stream.p50(slice(None, tenth)), stream.p50(slice(-tenth, None))
        lines.append(
            (
                name,
                f"{stream.p50():.1f} / {p99(each.wall_ms for each in stream.batches):.0f}",
                f"{statistics.median(each.cpu_ms for each in stream.batches):.1f}",
                f"{first_ms:.1f} / {last_ms:.1f}",
                f"{last_ms / first_ms:.2f}",
                f"{sum(each.wall_ms for each in stream.upkeep) / 1e3:.1f}",
                f"{stream.upkeep_share:.0%}",
            )
        )
    ratio = streams["upsert"].p50() / streams["append"].p50()
    header = [
        *("sink in Python", "p50 / p99, ms", "CPU p50, ms", "first / last tenth p50, ms", "last : first"),
        *("upkeep, s", "upkeep of all CPU"),
    ]
    return (
        f"{markdown_table(header, lines)}\n\n{len(streams['upsert'].batches)} micro-batches of {BATCH_ROWS:,} rows into"
        f" {rows:,} rows of ten columns in {files} files, nine keys in ten from the table, through one handle: each is"
        f" written, staged, sealed and committed. `table.maintain()` every {UPKEEP_EVERY} batches. An upsert takes"
        f" {ratio:.2f} times as long as an append."
    )


def _report_of_spark(found: dict[str, list[float]]) -> str:
    middle = {name: statistics.median(took_ms) for name, took_ms in found.items()}
    names = {"append": "txlog, append", "upsert": "txlog, upsert"}
    lines = [
        (
            names.get(name, name),
            len(took_ms),
            f"{middle[name]:.0f}",
            f"{max(took_ms):.0f}",
            times(middle["upsert"], middle[name]),
        )
        for name, took_ms in found.items()
    ]
    ratio = middle["foreachBatch and MERGE"] / middle["upsert"]
    return (
        f"{markdown_table(['query of Spark', 'batches', 'p50, ms', 'most, ms', 'time : upsert'], lines)}\n\nThe same"
        " rows by queries in one session, the first batches left out; the MERGE is Spark's Delta with deletion vectors."
        f" The upsert is {ratio:.1f} times as fast as `foreachBatch` with MERGE, and takes"
        f" {middle['upsert'] / middle['append']:.2f} times as long as the append."
    )


# --- a long changelog -----------------------------------------------------------------------------------------------


def _throughput(bench: Bench) -> str:
    """Each contestant's rows and checkpoints: all rows, and as many as the others can write."""
    whole, some, few = (5_000_000, 10), (500_000, 10), bench.scale((20_000, 4), (400, 2))
    pypaimon, why_not = _pypaimon(bench)
    lines = []
    large = [("txlog", whole), ("txlog", some), ("pypaimon", some)]
    for name, scale in (*bench.scale(large, []), ("txlog", few), ("PyIceberg", few)):
        if name == "pypaimon" and pypaimon is None:
            continue
        did = _written(bench, name, *scale, python=pypaimon if name == "pypaimon" else None)
        lines.append(
            (
                name,
                f"{scale[0]:,}",
                scale[1],
                f"{did['write_s']:.2f} / {did['cpu_s']:.2f}",
                f"{scale[0] / did['write_s']:,.0f}",
                f"{did['read_s']:.2f}",
            )
        )
    header = ["changelog", "rows", "checkpoints", "written, s / CPU s", "rows a second", "read back, s"]
    text = (
        f"{markdown_table(header, lines)}\n\n{UPDATED:.0%} of the rows are new versions of earlier rows, with four"
        " columns, into an empty table; at the end each key is there once, with its last row. pypaimon's table has a"
        " primary key and two buckets: its writer sorts and appends, and its readers merge. PyIceberg's upsert gets the"
        " last row of each key only, since it refuses repeated keys."
    )
    return text if pypaimon is not None else f"{text} pypaimon is not in the table: {why_not}."


def _written(bench: Bench, name: str, rows: int, checkpoints: int, python: Path | None) -> dict[str, float]:
    target = bench.folder("changelog")
    os.sync()
    arguments = ["-m", "benchmarks.changes_work", name, str(target), str(rows), str(checkpoints)]
    if python is None:
        stdout = fresh_process(*arguments).stdout
    else:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "integration")}
        done = subprocess.run([str(python), *arguments], env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{name} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        stdout = done.stdout
    did: dict[str, float] = json.loads(stdout.splitlines()[-1])
    bench.record(what="changelog", contestant=name, rows=rows, checkpoints=checkpoints, **did)
    bench.say(f"changelog of {rows:,} rows, {name}: {did['write_s']:.2f} s")
    return did


def _pypaimon(bench: Bench) -> tuple[Path | None, str]:
    """A Python with pypaimon, in its own environment, since it needs other versions of pyarrow; or why there is
    none."""
    if bench.quick:
        return None, "a quick run installs nothing"
    folder = bench.folder("pypaimon")
    python = folder / "bin" / "python"
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True, text=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PYPAIMON]
        subprocess.run(install, check=True, capture_output=True, text=True, timeout=600)
    except (subprocess.SubprocessError, OSError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        return None, f"`pip install {PYPAIMON}` failed: {said[-1] if said else error}"
    return python, ""


# --- memory ---------------------------------------------------------------------------------------------------------


def _memory(bench: Bench) -> str:
    rows = bench.scale(10_000_000, 4_000)
    lines = []
    for kind in bench.scale(("integers", "strings"), ("strings",)):
        table = bench.folder(f"memory-{kind}")
        memory_table(str(table), rows // 2, kind)
        copy = linked(table, bench.scratch / "memory-copy")
        did = json.loads(fresh_process("-m", "benchmarks.changes_work", "memory", str(copy), str(rows), kind).stdout)
        bench.record(what="memory", kind=kind, rows=rows, **did)
        bench.say(f"memory, {kind}: task {did['task_mb']:.0f} MB, commit {did['commit_mb']:.0f} MB")
        cells = (did[name] for name in ("task_mb", "before_mb", "commit_mb"))
        lines.append(
            (
                kind if kind == "integers" else "strings of 36 characters",
                *(f"{each:.0f}" for each in cells),
                f"{did['commit_s']:.1f}",
            )
        )
    header = ["keys", "a task at most, MB", "before the commit, MB", "the commit at most, MB", "seal and commit, s"]
    return (
        f"{markdown_table(header, lines)}\n\n{rows:,} keys in one checkpoint of two tasks, half of them from a table of"
        f" {rows // 2:,} rows. The process's whole memory, including Python and its packages."
    )
