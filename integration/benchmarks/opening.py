"""Open a table and append one row, at version 1,000: in a running process, and in one that starts for it."""

from __future__ import annotations

import sys
from pathlib import Path

from deltalake import write_deltalake

import txlog
from benchmarks.measure import (
    Bench,
    Sample,
    best_in_bold,
    cpu_p50,
    fresh_process,
    in_turns,
    markdown_table,
    p99,
    times,
    wall_p50,
)
from benchmarks.tables import ONE_ROW, copy_for_each, grow

TITLE = "Open and append one row"

ROW = 'pa.table({"id": pa.array([1], pa.int64()), "name": ["x"], "value": [1.5]})'
PROGRAMS = {
    "python alone": "pass",
    "the row alone": f"import pyarrow as pa; {ROW}",
    "txlog": f"import sys, pyarrow as pa, txlog; txlog.Table.open(sys.argv[1]).append({ROW})",
    "deltalake": (
        f'import sys, pyarrow as pa, deltalake; deltalake.write_deltalake(sys.argv[1], {ROW}, mode="append")'
    ),
}


def run(bench: Bench) -> str:
    base = bench.folder("opening")
    version = bench.scale(1_000, 20)
    rounds, warm_up = bench.scale((50, 5), (3, 1))
    bench.say(f"growing the table to version {version:,}")
    grow(base, version)
    bench.say(f"{rounds} rounds in this process")
    same = _in_this_process(bench, copy_for_each(base, ["txlog", "deltalake"]), rounds, warm_up)
    rounds = bench.scale(15, 2)
    bench.say(f"{rounds} rounds in fresh processes")
    fresh = _in_fresh_processes(bench, copy_for_each(base, ["txlog", "deltalake"]), rounds)
    return _report(version, same, fresh)


def _in_this_process(bench: Bench, copies: dict[str, Path], rounds: int, warm_up: int) -> dict[str, list[Sample]]:
    ours, theirs = str(copies["txlog"]), str(copies["deltalake"])
    return in_turns(
        bench,
        {
            "txlog": lambda: txlog.Table.open(ours).append(ONE_ROW),
            "deltalake": lambda: write_deltalake(theirs, ONE_ROW, mode="append"),
        },
        rounds,
        warm_up,
        where="same process",
    )


def _in_fresh_processes(bench: Bench, copies: dict[str, Path], rounds: int) -> dict[str, list[Sample]]:
    def start(name: str) -> None:
        fresh_process("-c", PROGRAMS[name], str(copies.get(name, "")))

    contestants = {name: (lambda name=name: start(name)) for name in PROGRAMS}
    return in_turns(bench, contestants, rounds, warm_up=1, where="fresh process")


def _report(version: int, same: dict[str, list[Sample]], fresh: dict[str, list[Sample]]) -> str:
    bare_ms = wall_p50(fresh["the row alone"])
    rows = []
    for where, found in (("same process, imported", same), ("fresh process, import and exit included", fresh)):
        ours, theirs = found["txlog"], found["deltalake"]
        middle_ms = [wall_p50(each) for each in (ours, theirs)]
        tails = [p99(sample.wall_ms for sample in each) for each in (ours, theirs)]
        rows.append(
            (
                where,
                *(f"{bold} / {tail:.0f}" for bold, tail in zip(_bold(middle_ms), tails, strict=True)),
                times(*middle_ms),
            )
        )
    over = [wall_p50(fresh[name]) - bare_ms for name in ("txlog", "deltalake")]
    rows.append(("fresh process, over making the row", *_bold(over), times(*over)))
    table = markdown_table(
        [f"at version {version:,}", "txlog p50 / p99, ms", "deltalake p50 / p99, ms", "deltalake : txlog"], rows
    )
    python = ".".join(map(str, sys.version_info[:2]))
    return (
        f"{table}\n\nCPU p50 in the same process: txlog {cpu_p50(same['txlog']):.1f} ms, deltalake"
        f" {cpu_p50(same['deltalake']):.1f} ms. Python {python} alone starts and ends in"
        f" {wall_p50(fresh['python alone']):.0f} ms; making the row with pyarrow, which"
        f" loads pandas if it is installed, takes {bare_ms:.0f} ms in total."
    )


def _bold(values_ms: list[float]) -> list[str]:
    return best_in_bold(values_ms, [f"{each:.1f}" for each in values_ms])
