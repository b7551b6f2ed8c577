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

WITHOUT_PANDAS = "import sys; sys.path.insert(0, sys.argv[2]); "
"""The start of a program in an environment where pandas is not installed: a module of its name there cannot be
imported."""

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
    copies = copy_for_each(base, ["txlog", "deltalake"])
    fresh = _in_fresh_processes(bench, copies, rounds)
    lean = _in_fresh_processes(bench, copies, rounds, without_pandas=True)
    return _report(version, same, fresh, lean)


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


def _in_fresh_processes(
    bench: Bench, copies: dict[str, Path], rounds: int, *, without_pandas: bool = False
) -> dict[str, list[Sample]]:
    blocked = bench.folder("no-pandas")
    blocked.mkdir()
    (blocked / "pandas.py").write_text("raise ModuleNotFoundError('pandas')")

    def start(name: str) -> None:
        program = f"{WITHOUT_PANDAS}{PROGRAMS[name]}" if without_pandas else PROGRAMS[name]
        fresh_process("-c", program, str(copies.get(name, "")), str(blocked))

    contestants = {name: (lambda name=name: start(name)) for name in PROGRAMS}
    where = "fresh process without pandas" if without_pandas else "fresh process"
    return in_turns(bench, contestants, rounds, warm_up=1, where=where)


def _report(
    version: int, same: dict[str, list[Sample]], fresh: dict[str, list[Sample]], lean: dict[str, list[Sample]]
) -> str:
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
    for where, found in (("fresh process", fresh), ("fresh process without pandas", lean)):
        over = [wall_p50(found[name]) - wall_p50(found["the row alone"]) for name in ("txlog", "deltalake")]
        rows.append((f"{where}, over making the row", *_bold(over), times(*over)))
    table = markdown_table(
        [f"at version {version:,}", "txlog p50 / p99, ms", "deltalake p50 / p99, ms", "deltalake : txlog"], rows
    )
    python = ".".join(map(str, sys.version_info[:2]))
    return (
        f"{table}\n\nCPU p50 in the same process: txlog {cpu_p50(same['txlog']):.1f} ms, deltalake"
        f" {cpu_p50(same['deltalake']):.1f} ms. Python {python} alone starts and ends in"
        f" {wall_p50(fresh['python alone']):.0f} ms; making the row with pyarrow, which loads pandas if it is"
        f" installed, takes {bare_ms:.0f} ms in total, and {wall_p50(lean['the row alone']):.0f} ms without pandas. At"
        " the end of a process, Python's collector goes through all objects four times: those of pandas, and of what"
        " was imported."
    )


def _bold(values_ms: list[float]) -> list[str]:
    return best_in_bold(values_ms, [f"{each:.1f}" for each in values_ms])
