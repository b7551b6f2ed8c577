"""What an upsert costs as the number of files grows, what many rows into a much larger table cost, and what changes of
many files of one row cost."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from benchmarks.measure import ROOT, Bench, best_in_bold, markdown_table
from benchmarks.upsert import CONTESTANTS, in_fresh_process
from benchmarks.upsert_large import large
from benchmarks.upsert_partitions import many_partitions
from benchmarks.upsert_tables import BY_DEFAULT, WITH_VECTORS, make_table, save, source_rows
from benchmarks.upsert_work import STREAM_ROWS

TITLE = "Row changes by table size"

PLOT = ROOT / "docs" / "images" / "upsert_files.png"
KNOWN = "1,000 rows with vectors, keys known"


def run(bench: Bench) -> str:
    rows, changed = bench.scale((5_000_000, 50_000), (20_000, 200))
    return "\n\n".join([_by_files(bench, rows, changed), large(bench), many_partitions(bench)])


def _by_files(bench: Bench, rows: int, changed: int) -> str:
    found: dict[tuple[str, int], float] = {}
    counts = bench.scale((20, 1_000, 20_000), (4, 10))
    for count in counts:
        table = bench.folder(f"files-{count}")
        make_table(table, "random", rows, count, narrow=True)
        sources = [source_rows("random", changed, rows, seed, narrow=True) for seed in (3, 4, 5)]
        once = save(sources[0], bench.folder("source-once.arrow"))
        for name in CONTESTANTS:
            for _ in range(bench.scale(3, 1) if count < counts[-1] else 1):
                what = f"{count} files"
                (sample,) = in_fresh_process(bench, what, "upsert", name, table, once)
                found[name, count] = min(sample["wall_ms"], found.get((name, count), sample["wall_ms"]))
            bench.say(f"{count:,} files, {name}: {found[name, count]:.0f} ms")
        small = save(_small_rows(rows), bench.folder("source-small-rows.arrow"))
        warm = in_fresh_process(bench, "files, known", "upsert", WITH_VECTORS, table, small, 7)
        found[KNOWN, count] = statistics.median(sample["wall_ms"] for sample in warm[2:])
    lines = []
    for count in counts:
        wall_ms = [found[name, count] for name in CONTESTANTS]
        cells = best_in_bold(wall_ms, [f"{each:.0f}" for each in wall_ms])
        lines.append([f"{count:,}", *cells, f"{found[KNOWN, count]:.0f}"])
    names = (*CONTESTANTS, f"txlog, {KNOWN}")
    _plot(bench, found, PLOT if not bench.quick else bench.scratch.parent / PLOT.name)
    return (
        f"{markdown_table(['files', *(f'{name}, ms' for name in names)], lines)}\n\n{changed:,} rows of random keys"
        f" into {rows:,} rows of four columns, best of three (with the most files: one); 1,000 rows if the keys are"
        f" known.\n\n![Upsert time by number of files](images/{PLOT.name})"
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
    colors = {WITH_VECTORS: "#1f77b4", BY_DEFAULT: "#2ca02c", KNOWN: "#8ebad9", "deltalake": "#d62728"}
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, color in colors.items():
        points = sorted((count, wall_ms) for (who, count), wall_ms in found.items() if who == name)
        axis.plot(*zip(*points, strict=True), marker="o", color=color, label=name)
    axis.set(xscale="log", yscale="log", xlabel="files", ylabel="ms")
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.grid(alpha=0.3)
    axis.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)
