"""Rows changed: upserts, deletes and updates beside deltalake's and Spark's Delta, each with its defaults.

Each change runs in a fresh process (`benchmarks.upsert_work`) on a table whose files are linked to, with a warm page
cache; Spark's in one session, after a small one to warm up. txlog marks rows by deletion vectors, so does Spark's
Delta; deltalake, which does not write them, copies files. txlog syncs what it writes, the others do not.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import ROOT, Bench, fresh_process, markdown_table, p99, times
from benchmarks.upsert_large import large
from benchmarks.upsert_race import race
from benchmarks.upsert_tables import (
    LAYOUTS,
    TABLE_OF,
    VECTORS,
    key_of,
    linked,
    make_table,
    save,
    source_rows,
    tree_bytes,
)
from benchmarks.upsert_work import CONDITION, STREAM_ROWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TITLE = "Rows changed"

PLOT = ROOT / "docs" / "images" / "upsert_files.png"
Samples: TypeAlias = "dict[tuple[str, str], list[dict[str, float]]]"
"""By what was done, and by whom."""


def run(bench: Bench) -> str:
    rows, files, changed = bench.scale((5_000_000, 20, 50_000), (20_000, 4, 200))
    tables = {layout: bench.scratch / f"upsert-{layout}" for layout in LAYOUTS if layout not in TABLE_OF}
    for layout, path in tables.items():
        bench.say(f"making {rows:,} rows: {LAYOUTS[layout]}")
        make_table(bench.folder(path.name), layout, rows, files)
    found: Samples = {}
    sources = {
        layout: save(source_rows(layout, changed, rows), bench.folder(f"source-{layout}.arrow")) for layout in LAYOUTS
    }
    for layout, source in sources.items():
        what = f"upsert: {LAYOUTS[layout]}"
        _compare(bench, found, what, "upsert", tables[TABLE_OF.get(layout, layout)], source)
    _compare(bench, found, "upsert by copies: integers, in no order", "upsert", tables["random"], sources["random"])
    fed = _with_feed(tables["random"], bench)
    _compare(bench, found, "upsert with the change feed: integers, in no order", "upsert", fed, sources["random"])
    for work in ("delete", "update"):
        _compare(bench, found, f"{work} of one row in a hundred", work, tables["random"], sources["random"])
    _by_spark(bench, found, tables, sources)
    parts = [_report(found, rows, files, changed), _stream(bench, tables["random"], rows), _races(bench)]
    return "\n\n".join([*parts, _by_files(bench, rows, changed), large(bench)])


def _with_feed(table: Path, bench: Bench) -> Path:
    """A copy whose writers record each row before and after its change."""
    import txlog

    copy = linked(table, bench.scratch / "upsert-fed")
    txlog.Table.open(copy).set_properties({"delta.enableChangeDataFeed": "true"})
    return copy


def _compare(bench: Bench, found: Samples, what: str, work: str, table: Path, source: Path) -> None:
    names = ["txlog, copies" if "by copies" in what else "txlog", "deltalake"]
    for turn in range(bench.scale(3, 1)):
        for name in names[turn % 2 :] + names[: turn % 2]:
            found.setdefault((what, name), []).extend(_in_fresh_process(bench, what, work, name, table, source))
    bench.say(", ".join([what, *(f"{name} {_middle(found[what, name])['wall_ms']:.0f} ms" for name in names)]))


def _in_fresh_process(
    bench: Bench, what: str, work: str, name: str, table: Path, source: Path, rounds: int = 1
) -> list[dict[str, float]]:
    copy = linked(table, bench.scratch / "copy")
    os.sync()
    done = fresh_process("-m", "benchmarks.upsert_work", work, name, str(copy), str(source), str(rounds))
    samples: list[dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    for number, sample in enumerate(samples):
        bench.record(what=what, contestant=name, call=number, **sample)
    return samples


def _middle(samples: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {field: statistics.median(sample[field] for sample in samples) for field in samples[0]}


# --- Spark ----------------------------------------------------------------------------------------------------------


@contextmanager
def _session(bench: Bench) -> Iterator[SparkSession]:
    from benchmarks.spark import session

    with session(bench) as spark:
        yield spark


def _by_spark(bench: Bench, found: Samples, tables: Mapping[str, Path], sources: Mapping[str, Path]) -> None:
    """Each once, since it is slow; its first change, of a small table, is not counted."""
    if not bench.with_spark:
        return
    small = bench.folder("upsert-small")
    make_table(small, "random", 1_000, 2)
    with _session(bench) as spark:
        few = save(source_rows("random", 10, 1_000), bench.folder("source-small.arrow"))
        for work in ("upsert", "delete", "update"):
            _change_by_spark(bench, spark, work, small, few)
        for layout, source in sources.items():
            what = f"upsert: {LAYOUTS[layout]}"
            table = tables[TABLE_OF.get(layout, layout)]
            found[what, "Spark's Delta"] = [_change_by_spark(bench, spark, "upsert", table, source, what)]
        for work in ("delete", "update"):
            what = f"{work} of one row in a hundred"
            sample = _change_by_spark(bench, spark, work, tables["random"], sources["random"], what)
            found[what, "Spark's Delta"] = [sample]


def _change_by_spark(
    bench: Bench, spark: SparkSession, work: str, table: Path, source: Path, what: str = "warm-up"
) -> dict[str, float]:
    import txlog
    from benchmarks.measure import timed
    from benchmarks.upsert_tables import load

    copy = linked(table, bench.scratch / "copy")
    txlog.Table.open(copy).set_properties(VECTORS)
    rows = bench.folder("source.parquet")
    pq.write_table(load(source), rows)
    spark.read.parquet(str(rows)).createOrReplaceTempView("source")
    merge = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    statements = {
        "upsert": f"MERGE INTO delta.`{copy}` t USING source s ON t.id = s.id {merge}",
        "delete": f"DELETE FROM delta.`{copy}` WHERE {CONDITION}",
        "update": f"UPDATE delta.`{copy}` SET price = price + 1 WHERE {CONDITION}",
    }
    before_bytes = tree_bytes(copy)
    os.sync()
    took = timed(lambda: spark.sql(statements[work]).collect())
    sample = {"wall_ms": took.wall_ms, "written_mb": (tree_bytes(copy) - before_bytes) / 1e6}
    bench.record(what=what, contestant="Spark's Delta", **sample)
    bench.say(f"{what}, Spark's Delta {took.wall_ms:.0f} ms")
    return sample


# --- one after the other --------------------------------------------------------------------------------------------


def _stream(bench: Bench, table: Path, rows: int) -> str:
    """Small upserts in a row by one handle, of random keys: nine in ten of the table, one new."""
    calls = {
        "txlog": bench.scale(102, 6),
        "txlog without its key cache": bench.scale(22, 3),
        "deltalake": bench.scale(5, 2),
    }
    source = save(_stream_rows(rows, max(calls.values())), bench.folder("source-stream.arrow"))
    lines = []
    middle_ms: dict[str, float] = {}
    for name, count in calls.items():
        samples = _in_fresh_process(bench, "stream", "upsert", name, table, source, count)
        warm = samples[2:] if name == "txlog" else samples[1:]
        wall_ms = [sample["wall_ms"] for sample in warm]
        tenth = max(1, min(10, len(wall_ms) // 2))
        growth = statistics.median(wall_ms[-tenth:]) / statistics.median(wall_ms[:tenth])
        middle_ms[name] = statistics.median(wall_ms)
        first_ms = " / ".join(f"{sample['wall_ms']:.0f}" for sample in samples[:2])
        lines.append(
            (
                f"**{name}**" if name == "txlog" else name,
                *(len(wall_ms), first_ms, f"{middle_ms[name]:.1f} / {p99(wall_ms):.0f}", f"{growth:.2f}"),
                *(f"{_middle(warm)[field]:.1f}" for field in ("cpu_ms", "written_mb")),
                f"{max(sample['extra_mb'] for sample in samples):.0f}",
            )
        )
        bench.say(f"stream, {name}: {middle_ms[name]:.0f} ms")
    header = ["upserts in a row", "counted", "first / second, ms", "p50 / p99, ms", "last tenth : first"]
    ratio = times(middle_ms["txlog"], middle_ms["deltalake"])
    return (
        f"{markdown_table([*header, 'CPU p50, ms', 'written each, MB', 'memory, MB'], lines)}\n\n{STREAM_ROWS:,} rows"
        f" each, by one handle. deltalake : txlog {ratio}. txlog's second upsert reads the keys that later ones find in"
        " memory; it and the first are not counted."
    )


def _stream_rows(of_table: int, calls: int) -> pa.Table:
    random = np.random.default_rng(9)
    old, new = STREAM_ROWS * 9 // 10, STREAM_ROWS // 10
    parts = []
    for call in range(calls):
        known = random.choice(of_table, old, replace=False)
        fresh = np.arange(of_table + call * new, of_table + (call + 1) * new)
        parts.append(np.concatenate([known, fresh]))
    rows = source_rows("random", STREAM_ROWS * calls, max(of_table, STREAM_ROWS * calls))
    return rows.set_column(0, "id", key_of("random", np.concatenate(parts)))


# --- at once --------------------------------------------------------------------------------------------------------


def _races(bench: Bench) -> str:
    processes, upserts = bench.scale((8, 25), (2, 2))
    lines = []
    for name in ("txlog", "deltalake"):
        found = race(bench, name, processes, upserts)
        bench.record(what="race", contestant=name, failed=found.failed, wall_ms=found.wall_ms)
        bench.say(f"race, {name}: {found.failed} of {found.tried} failed")
        lines.append((f"**{name}**" if name == "txlog" else name, *found.cells))
    header = [f"{processes} processes x {upserts} upserts", "failed", "executed again", "p50 / p99, ms", "keys once"]
    return f"{markdown_table(header, lines)}\n\n500 rows each of the same 20,000 keys, default retries of both."


# --- by the number of files -----------------------------------------------------------------------------------------


def _by_files(bench: Bench, rows: int, changed: int) -> str:
    found: dict[tuple[str, int], float] = {}
    counts = bench.scale((20, 1_000, 20_000), (4, 10))
    for count in counts:
        table = bench.folder(f"files-{count}")
        make_table(table, "random", rows, count, narrow=True)
        sources = [source_rows("random", changed, rows, seed, narrow=True) for seed in (3, 4, 5)]
        once = save(sources[0], bench.folder("source-once.arrow"))
        for name in ("txlog", "deltalake"):
            for _ in range(bench.scale(3, 1) if count < counts[-1] else 1):
                what = f"{count} files"
                (sample,) = _in_fresh_process(bench, what, "upsert", name, table, once)
                found[name, count] = min(sample["wall_ms"], found.get((name, count), sample["wall_ms"]))
            bench.say(f"{count:,} files, {name}: {found[name, count]:.0f} ms")
        small = save(_small_rows(rows), bench.folder("source-small-rows.arrow"))
        warm = _in_fresh_process(bench, "files, known", "upsert", "txlog", table, small, 7)
        found["txlog, 1,000 rows, keys known", count] = _middle(warm[2:])["wall_ms"]
    names = list(dict.fromkeys(name for name, _ in found))
    lines = [[f"{count:,}", *(f"{found[name, count]:.0f}" for name in names)] for count in counts]
    _plot(bench, found, PLOT if not bench.quick else bench.scratch.parent / PLOT.name)
    return (
        f"{markdown_table(['files', *(f'{name}, ms' for name in names)], lines)}\n\n{changed:,} rows of random keys"
        f" into {rows:,} rows of four columns, best of three (of the most files: one); 1,000 rows where the keys are"
        f" known.\n\n![Time of an upsert against the files of the table](images/{PLOT.name})"
    )


def _small_rows(of_table: int) -> pa.Table:
    return source_rows("random", 7 * STREAM_ROWS, max(of_table, 7 * STREAM_ROWS), 6, narrow=True)


def _plot(bench: Bench, found: Mapping[tuple[str, int], float], path: Path) -> None:
    try:
        import matplotlib.pyplot as plt
        from matplotlib.ticker import EngFormatter
    except ImportError:
        bench.say("no plot: matplotlib is not installed (pip install matplotlib)")
        return
    colours = {"txlog": "#1f77b4", "txlog, 1,000 rows, keys known": "#8ebad9", "deltalake": "#d62728"}
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, colour in colours.items():
        points = sorted((count, wall_ms) for (who, count), wall_ms in found.items() if who == name)
        axis.plot(*zip(*points, strict=True), marker="o", color=colour, label=name)
    axis.set(xscale="log", yscale="log", xlabel="files", ylabel="ms")
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.grid(alpha=0.3)
    axis.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


# --- the report -----------------------------------------------------------------------------------------------------


def _report(found: Samples, rows: int, files: int, changed: int) -> str:
    lines = []
    for what in dict.fromkeys(what for what, _ in found):
        middle = {name: _middle(samples) for (each, name), samples in found.items() if each == what}
        ours = next(sample for name, sample in middle.items() if name.startswith("txlog"))
        theirs, sparks = middle["deltalake"], middle.get("Spark's Delta")
        lines.append(
            (
                what,
                f"**{ours['wall_ms'] / 1e3:.2f}** / {ours['cpu_ms'] / 1e3:.2f}",
                f"{theirs['wall_ms'] / 1e3:.2f} / {theirs['cpu_ms'] / 1e3:.2f}",
                "" if sparks is None else f"{sparks['wall_ms'] / 1e3:.1f}",
                times(ours["wall_ms"], theirs["wall_ms"]),
                "" if sparks is None else times(ours["wall_ms"], sparks["wall_ms"]),
                f"{ours['written_mb']:.1f} / {theirs['written_mb']:.0f}",
                f"{ours['extra_mb']:.0f} / {theirs['extra_mb']:.0f}",
            )
        )
    header = [
        *("what", "txlog s / CPU s", "deltalake s / CPU s", "Spark's Delta s", "deltalake : txlog", "Spark : txlog"),
        *("written, MB, txlog / deltalake", "memory, MB, txlog / deltalake"),
    ]
    return (
        f"{markdown_table(header, lines)}\n\nUpserts of {changed:,} rows, half of them new, into {rows:,} rows of ten"
        f" columns in {files} files; deletes and updates of `{CONDITION}`. Medians of three rounds in turns, each"
        " change in a fresh process, from opening the table on; Spark's once."
    )
