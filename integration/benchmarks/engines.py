"""Spark and Sail: the same program writes ten million rows to a table and reads them, on each engine in its turn."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pyarrow.parquet as pq

from benchmarks.measure import Bench, fresh_process, markdown_table
from benchmarks.reading import many_columns

TITLE = "Spark and Sail"

ENGINES = ("spark", "sail")
STEPS = {
    "start": "start, and one row",
    "parquet": "write Parquet",
    "write": 'write `format("txlog")`',
    "native": "read all, `txlog.spark.read`",
    "source": 'read all, `format("txlog")`',
}
_FILES = 8


def run(bench: Bench) -> str:
    rows, rounds = bench.scale((10_000_000, 3), (20_000, 1))
    source = bench.folder("engines-source")
    source.mkdir()
    for number in range(_FILES):
        step = rows // _FILES
        pq.write_table(many_columns(number * step, step), source / f"{number}.parquet")
    engines = ENGINES if bench.with_spark else ENGINES[1:]
    found: dict[str, dict[str, Any]] = {}
    for engine in engines:
        target = bench.folder(f"engines-{engine}")
        bench.say(f"{engine}: {rounds} rounds")
        done = fresh_process("-m", "benchmarks.engines_work", engine, str(source), str(target), str(rounds))
        found[engine] = json.loads(done.stdout.splitlines()[-1])
        bench.record(engine=engine, **found[engine])
        shutil.rmtree(target)
    answers = {repr(each.pop("answer")) for each in found.values()}
    if len(answers) != 1:
        raise RuntimeError(f"the engines read different rows: {answers}")
    lines = [[what, *(f"{found[engine][step]:.2f}" for engine in engines)] for step, what in STEPS.items()]
    table = markdown_table(["seconds", *(engine.capitalize() for engine in engines)], lines)
    return (
        f"{table}\n\n{rows:,} rows of 9 columns from {_FILES} Parquet files, on two cores; each engine in a process of"
        f" its own, medians of {rounds} rounds after one to warm up. Both gave the same sums."
    )
