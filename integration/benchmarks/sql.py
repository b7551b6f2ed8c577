"""Queries of Spark's SQL beside duckdb's own SQL for the same functions, over the same table.

duckdb runs both. For txlog's dialect it computes a function itself if it has Spark's value, and else calls txlog's
kernel, which is measured alone too: over the same rows in memory.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import txlog
from benchmarks.measure import Bench, cpu_p50, in_turns, markdown_table
from txlog.core.format.schema import from_arrow
from txlog.core.predicates import evaluate, parse

TITLE = "SQL"

_BATCH_ROWS = 1 << 16
_SCANS = {
    "two functions that duckdb computes": (
        ("upper(name)", "date_format(moment, 'yyyy-MM-dd HH:mm:ss')"),
        ("upper(name)", "strftime(moment, '%Y-%m-%d %H:%M:%S')"),
    ),
    "two functions that txlog computes": (
        ("regexp_replace(name, '[^0-9]', '')", "date_trunc('hour', moment)"),
        ("regexp_replace(name, '[^0-9]', '', 'g')", "date_trunc('hour', moment)"),
    ),
    "a regular expression": (
        ("regexp_replace(name, '[^0-9]', '')",),
        ("regexp_replace(name, '[^0-9]', '', 'g')",),
    ),
    "the hour of a time": (("date_trunc('hour', moment)",), ("date_trunc('hour', moment)",)),
    "texts joined, which costs duckdb next to nothing": (
        ("concat_ws('-', name, name)",),
        ("concat_ws('-', name, name)",),
    ),
}
"""Expressions in Spark's SQL, and in duckdb's with the same values."""
_OF_TXLOG = [name for name in _SCANS if name != "two functions that duckdb computes"]


def run(bench: Bench) -> str:
    rows, rounds = bench.scale((5_000_000, 3), (20_000, 2))
    data, path = _rows(rows), bench.folder("sql")
    txlog.Table.create(path, data.schema).append(data)
    lines = []
    for name, (ours, theirs) in _SCANS.items():
        bench.say(name)
        answers: dict[str, Any] = {}
        contestants = {
            "txlog": functools.partial(_ask, answers, path, ours, None),
            "duckdb": functools.partial(_ask, answers, path, theirs, "duckdb"),
        }
        if name in _OF_TXLOG:
            contestants["kernel"] = functools.partial(_compute, data, ours)
        found = {who: cpu_p50(each) / 1e3 for who, each in in_turns(bench, contestants, rounds, 1, scan=name).items()}
        if answers["txlog"] != answers["duckdb"]:
            raise RuntimeError(f"{name}: {answers}")
        lines.append(_line(name, ours, found))
    header = ["scan", "txlog.sql, CPU s", "duckdb's SQL, CPU s", "txlog : duckdb", "kernel alone, CPU s"]
    return f"{markdown_table(header, lines)}\n\n{rows:,} rows; the median of {rounds} alternating rounds."


def _rows(count: int) -> pa.Table:
    chance = np.random.default_rng(58)
    numbers = chance.integers(0, 1_000_000, count)
    return pa.table(
        {
            "name": pa.array([f"Item-{number}" for number in numbers.tolist()]),
            "moment": pa.array(chance.integers(0, 1_700_000_000_000_000, count), pa.timestamp("us", "UTC")),
        }
    )


def _ask(answers: dict[str, Any], path: Path, texts: tuple[str, ...], dialect: str | None) -> None:
    """Count what the expressions are, and find the least: no rows leave duckdb."""
    columns = ", ".join(f"{text} AS v{at}" for at, text in enumerate(texts))
    asked = ", ".join(f"count(v{at}) AS n{at}, min(v{at}) AS m{at}" for at in range(len(texts)))
    query = f"SELECT {asked} FROM (SELECT {columns} FROM delta.`{path}`) AS q"
    options = {} if dialect is None else {"dialect": dialect}
    answers[dialect or "txlog"] = txlog.sql(query, str(path.parent), **options).read_all().to_pylist()


def _compute(data: pa.Table, texts: tuple[str, ...]) -> None:
    """The kernels, over the rows in memory."""
    bound = [parse(text, from_arrow(data.schema)) for text in texts]
    for batch in data.to_batches(_BATCH_ROWS):
        for each in bound:
            evaluate(each, batch)


def _line(name: str, texts: tuple[str, ...], found: dict[str, float]) -> tuple[str, ...]:
    kernel = f"{found['kernel']:.2f}" if "kernel" in found else ""
    shown = ", ".join(f"`{text}`" for text in texts)
    ratio = f"{found['txlog'] / found['duckdb']:.2f}"
    return f"{name}: {shown}", f"{found['txlog']:.2f}", f"{found['duckdb']:.2f}", ratio, kernel
