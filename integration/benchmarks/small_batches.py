"""Streaming of small batches, as in DuckLake's benchmark of data inlining: 300,000 rows by ten, then three queries.

DuckLake's catalog takes small batches as rows instead of files if it *inlines* them, which is its default; it is here
with and without. txlog is here twice: it compacts after commits if the table's property says so, or `maintain` does.
Each program appends through one handle, for a limited time; queries come before and after the upkeep that its users
run: of all that it appended, and of a table with as many batches for everybody, since only these times compare. What
was appended is checked by the answers.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import bars
from benchmarks.measure import Bench, markdown_table
from benchmarks.peers import BY_ITSELF, PEERS, WITHOUT_INLINING, Field, Measured, Worker, check, field_of
from benchmarks.peers_work import batches_of, connect_duckdb

TITLE = "Streaming of small batches"

ROWS_EACH = 10
EQUAL_BATCHES = 300
QUERIES = {
    "count": "SELECT count(*) FROM t",
    "sum by sensor": "SELECT count(*), sum(total), max(n) FROM"
    " (SELECT sensor, sum(value) AS total, count(*) AS n FROM t GROUP BY sensor) g",
    "one sensor": "SELECT count(*), max(id), min(value) FROM t WHERE sensor = 42",
}
_COLUMNS = ("id", "sensor", "value")
_UPKEEP_WITHIN_S = 600.0


def run(bench: Bench) -> str:
    count, limit_s = bench.scale((30_000, 100.0), (20, 60.0))
    names = {**BY_ITSELF, **PEERS, **WITHOUT_INLINING}
    names = {name: names[name] for name in ("txlog-copies", *names) if name not in ("txlog-vectors", "spark-vectors")}
    first = bench.folder("first.parquet")
    (rows,) = batches_of(1, 1)
    pq.write_table(rows.slice(0, 0), first)
    lines = []
    times: dict[tuple[str, str], Measured] = {}
    with field_of(bench, names) as field:
        for name in field.names:
            place = bench.folder(f"place-{name}")
            with field.worker(name, place) as worker:
                lines.append(_line(field, worker, first, count, limit_s, times))
            bench.folder(place.name)
    header = [
        *("program", "rows appended", "rows a second", "CPU ms a batch", "peak memory, MB", "written, MB"),
        *("three queries, s", "upkeep, s", "three queries after it, s"),
        *(f"the queries of {EQUAL_BATCHES * ROWS_EACH:,} rows, s", "after upkeep, s"),
    ]
    picture = bars.publish(bench, times, field.names, "Small batches: how many times txlog's time")
    return (
        f"{markdown_table(header, lines)}\n\n{picture}\n\n{count:,} batches of {ROWS_EACH} rows of three columns,"
        f" through one handle, for at most {limit_s:.0f} s; medians of three runs of the queries. Upkeep: txlog"
        " `maintain`, deltalake `optimize.compact`, Spark `OPTIMIZE`, DuckLake `CHECKPOINT`; PyIceberg has none. A"
        " table with the property `delta.autoOptimize.autoCompact` compacts by itself after commits."
    )


def _line(
    field: Field,
    worker: Worker,
    first: Path,
    count: int,
    limit_s: float,
    times: dict[tuple[str, str], Measured],
) -> list[str]:
    given = {"rows_each": ROWS_EACH, "within_s": limit_s}
    field.adopt(worker, "warm", [first])
    _must(worker.do("append_batches", table="warm", batches=3, **given))
    field.adopt(worker, "t", [first])
    done = _must(worker.do("append_batches", table="t", batches=count, **given))
    field.record(worker.name, "append", done)
    read = _read(field, worker, "t", done.answer)
    field.adopt(worker, "equal", [first])
    equal_count = min(EQUAL_BATCHES, count)
    _must(worker.do("append_batches", table="equal", batches=equal_count, **{**given, "within_s": _UPKEEP_WITHIN_S}))
    equal = _read(field, worker, "equal", equal_count)
    each_s = done.wall_s / max(1, done.answer)
    times["a batch", worker.name] = Measured(wall_s=each_s)
    times["queries of equal rows", worker.name] = Measured(wall_s=equal.before_s)
    if equal.after_s is not None:
        times["queries of equal rows after upkeep", worker.name] = Measured(wall_s=equal.after_s)
    return [
        *(field.names[worker.name], f"{done.answer * ROWS_EACH:,}", f"{ROWS_EACH / each_s:,.0f}"),
        f"{done.cpu_s * 1e3 / max(1, done.answer):.1f}",
        *(f"{done.peak_mb:.0f}", f"{done.written_mb:.1f}", f"{read.before_s:.2f}"),
        *(("", "") if read.after_s is None else (f"{read.upkeep_s:.2f}", f"{read.after_s:.2f}")),
        *(f"{equal.before_s:.3f}", "" if equal.after_s is None else f"{equal.after_s:.3f}"),
    ]


class _Read(NamedTuple):
    """The seconds of the queries before and after the upkeep, and of the upkeep, if there is one."""

    before_s: float
    upkeep_s: float | None
    after_s: float | None


def _read(field: Field, worker: Worker, table: str, batches: int) -> _Read:
    right = _answers(batches)
    before_s = _queries(field, worker, table, right)
    upkeep = worker.do("maintain", table=table, limit_s=_UPKEEP_WITHIN_S)
    field.record(worker.name, "upkeep", upkeep)
    if upkeep.failure:
        return _Read(before_s, None, None)
    return _Read(before_s, upkeep.wall_s, _queries(field, worker, table, right))


def _queries(field: Field, worker: Worker, table: str, right: dict[str, Sequence[Any]]) -> float:
    """The seconds of all three, each a median of three."""
    whole_s = 0.0
    for what, query in QUERIES.items():
        found = [_must(worker.do("query", table=table, query=query, columns=_COLUMNS)) for _ in range(3)]
        check(f"{field.names[worker.name]}, {what},", found[0].answer, right[what])
        whole_s += statistics.median(each.wall_s for each in found)
        field.record(worker.name, what, found[-1])
    return whole_s


def _answers(count: int) -> dict[str, Sequence[Any]]:
    with connect_duckdb(()) as connection:
        connection.register("t", pa.concat_tables(batches_of(ROWS_EACH, count)))
        return {what: connection.execute(query).fetchall()[0] for what, query in QUERIES.items()}


def _must(done: Measured) -> Measured:
    if done.failure:
        raise RuntimeError(done.failure)
    return done
