"""Reading: `txlog.spark.read` and ``format("txlog")`` compared with Spark's Parquet and Delta readers, and engines over
a dataset compared with the same engines over an Arrow stream. Each contestant's answer is checked against the
others'."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

import txlog
import txlog.spark
from benchmarks.measure import Bench, in_turns, markdown_table, wall_p50
from benchmarks.ready_batches import ready_batches
from benchmarks.spark import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TITLE = "Reading"

ALL = (
    "count(*) n", "sum(id) a", "sum(d1) b", "sum(d2) c", "sum(i1) d", "sum(i2) e", "sum(length(s1)) f",
    "sum(length(s2)) g", "max(ts) h",
)  # fmt: skip
TWO = ("sum(i1) a", "max(i2) b")
FLOOR = "a Python source of ready batches"
_READY_ROWS = 100_000  # in a batch, about as many as txlog's batches have


def run(bench: Bench) -> str:
    rows, files, rounds = bench.scale((10_000_000, 1_000, 5), (20_000, 40, 1))
    plain, deleted, many = (
        _made(bench, name, rows, count) for name, count in (("plain", 4), ("dv", 4), ("many", files))
    )
    txlog.Table.open(deleted).delete("id % 5 = 0")
    with session(bench) as spark:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        measured = {
            "full scan": _spark(bench, spark, plain, ALL, rounds, floor_of=rows),
            "2 columns": _spark(bench, spark, plain, TWO, rounds, columns=("i1", "i2"), floor_of=rows),
            "1 % of the rows": _spark(bench, spark, plain, ALL, rounds, f"id < {rows // 100}"),
            "20 % of the rows deleted, full scan": _spark(bench, spark, deleted, ALL, rounds, parquet=False),
            f"where, over {files:,} files": _spark(bench, spark, many, ALL, rounds, f"id < {rows // 100}"),
        }
    lines = [line for query, found in measured.items() for line in _lines(query, found)]
    spark_table = markdown_table(["Spark query", "reader", "p50, ms", "time : Parquet's", "time : Delta's"], lines)
    engines = _engines(bench, plain, rows, rounds)
    return f"{spark_table}\n\n{engines}\n\n{rows:,} rows of 9 columns; {rounds} alternating rounds."


def _made(bench: Bench, name: str, rows: int, files: int) -> Path:
    path = bench.folder(f"reading-{name}")
    step = rows // files
    table: txlog.Table | None = None
    for begin in range(0, step * files, step):
        data = many_columns(begin, step)
        if table is None:
            table = txlog.Table.create(path, data.schema, properties={"delta.enableDeletionVectors": "true"})
        table.append(data)
    return path


def many_columns(begin: int, count: int) -> pa.Table:
    chance = np.random.default_rng(begin)
    ids = np.arange(begin, begin + count)
    return pa.table(
        {
            "id": ids,
            "d1": chance.random(count),
            "d2": chance.random(count),
            "i1": chance.integers(0, 1000, count),
            "i2": chance.integers(0, 1 << 40, count),
            "s1": pa.array([f"name-{number % 5000}" for number in ids.tolist()]),
            "s2": pa.array([f"{number * 7919:024d}" for number in ids.tolist()]),
            "flag": ids % 3 == 0,
            "ts": pa.array(1_700_000_000_000_000 + ids, pa.timestamp("us", "UTC")),
        }
    )


def _spark(
    bench: Bench,
    spark: SparkSession,
    path: Path,
    measures: tuple[str, ...],
    rounds: int,
    where: str | None = None,
    *,
    columns: tuple[str, ...] | None = None,
    parquet: bool = True,
    floor_of: int = 0,
) -> dict[str, float]:
    """The median of each reader, in milliseconds; with ``floor_of`` also that of a source of so many ready rows."""

    def filtered(frame: DataFrame) -> DataFrame:
        return frame if where is None else frame.where(where)

    def source() -> DataFrame:
        reader = spark.read.format("txlog")
        if columns is not None:
            reader = reader.option("columns", ",".join(columns))
        return (reader if where is None else reader.option("where", where)).load(str(path))

    frames: dict[str, Callable[[], DataFrame]] = {
        "Delta": lambda: filtered(spark.read.format("delta").load(str(path))),
        "txlog.spark.read": lambda: txlog.spark.read(spark, path, where=where),
        "format(txlog)": source,
    }
    if parquet:
        frames = {"Parquet": lambda: filtered(spark.read.parquet(str(path))), **frames}
    if floor_of:
        frames[FLOOR] = functools.partial(_ready, bench, spark, floor_of, columns)
    answers: dict[str, Any] = {}

    def query(name: str) -> None:
        answers[name] = frames[name]().selectExpr(*measures).collect()[0]

    samples = in_turns(bench, {name: functools.partial(query, name) for name in frames}, rounds, 1, path=path.name)
    answers.pop(FLOOR, None)  # which has other rows
    _check({name: [f"{x:.9g}" if isinstance(x, float) else x for x in found] for name, found in answers.items()})
    return {name: wall_p50(found) for name, found in samples.items()}


def _ready(bench: Bench, spark: SparkSession, rows: int, columns: tuple[str, ...] | None) -> DataFrame:
    batch_rows = min(_READY_ROWS, rows // 4)
    data = many_columns(0, batch_rows)
    (batch,) = (data if columns is None else data.select(columns)).combine_chunks().to_batches()
    return ready_batches(spark, batch, rows, 4, bench.scratch / "ready.arrow")


def _lines(query: str, found: Mapping[str, float]) -> list[tuple[str, ...]]:
    lines = []
    for name, middle_ms in found.items():
        ratios = [f"{middle_ms / found[other]:.2f}" if other in found else "" for other in ("Parquet", "Delta")]
        lines.append((query, name, f"{middle_ms:.0f}", *ratios))
    return lines


def _engines(bench: Bench, path: Path, rows: int, rounds: int) -> str:
    snapshot = txlog.Table.open(path).snapshot()
    begin, end = rows // 2, rows // 2 + rows // 100
    two, some = (
        "select sum(i1), max(i2) from rows",
        f"select count(*), max(s1) from rows where id >= {begin} and id < {end}",
    )
    answers: dict[str, Any] = {}

    def ask(name: str, sql: str, source: Callable[[], Any]) -> None:
        rows = source()
        answers[name] = duckdb.sql(sql).fetchall()
        del rows

    def stream() -> Any:
        return pa.RecordBatchReader.from_stream(snapshot)

    def lazily() -> None:
        frame = pl.scan_pyarrow_dataset(snapshot.to_dataset())
        kept = frame.filter((pl.col("id") >= begin) & (pl.col("id") < end))
        answers["polars"] = kept.select(pl.len(), pl.max("s1")).collect().rows()

    lines = []
    for query, sql in (("2 columns", two), ("1 % of the rows", some)):
        contestants: dict[str, Callable[[], object]] = {
            "duckdb, Arrow stream": functools.partial(ask, "stream", sql, stream),
            "duckdb, to_dataset": functools.partial(ask, "dataset", sql, snapshot.to_dataset),
        }
        if sql is some:
            contestants["polars, to_dataset"] = lazily
        answers.clear()
        samples = in_turns(bench, contestants, rounds, 1, query=query)
        _check(answers)
        base_ms = wall_p50(samples["duckdb, Arrow stream"])
        for name, found in samples.items():
            lines.append((query, name, f"{wall_p50(found):.0f}", f"{wall_p50(found) / base_ms:.3f}"))
    return markdown_table(["Python query", "engine", "p50, ms", "time : the stream's"], lines)


def _check(answers: Mapping[str, Any]) -> None:
    if len({str(list(answer)) for answer in answers.values()}) != 1:
        raise RuntimeError(f"the readers disagree: {answers}")
