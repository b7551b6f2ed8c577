"""Change sinks compared with Spark and deltalake: the task of a key, the rows of a table, and its change feed.

Also an application whose process is killed before each step of a checkpoint.
"""

from __future__ import annotations

import datetime
import decimal
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deaths import judge_every_death
from fault_tools import process
from pyspark.sql import DataFrame, SparkSession
from rows import as_rows, assert_sound, in_schema
from steps import note_steps, stop

import txlog

ReadDelta = Callable[..., DataFrame]

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("v", pa.int64())])
FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}

KEYS = pa.table(
    {
        "l": pa.array([0, 1, -1, 2**63 - 1, -(2**63)], pa.int64()),
        "i": pa.array([0, 1, -1, 2**31 - 1, -(2**31)], pa.int32()),
        "s": pa.array([0, 1, -1, 2**15 - 1, -(2**15)], pa.int16()),
        "b": pa.array([0, 1, -1, 127, -128], pa.int8()),
        "t": pa.array([True, False, None, False, True]),
        "text": ["", "a", "Spark", "é" * 40, "x" * 100],
        "script": ["日本語", "😀 family", "e\u0301", None, "ÿ" * 31],
        "bytes": [b"", b"\x00", b"1234", b"12345678", bytes(range(77))],
        "d": [
            datetime.date(1970, 1, 1),
            datetime.date(1900, 1, 1),
            *[datetime.date(2026, 11, day) for day in (1, 2, 3)],
        ],
        "ts": pa.array([0, -1, 1, 1_700_000_000_000_000, -62_135_596_800_000_000], pa.timestamp("us", "UTC")),
        "local": pa.array([0, -1, None, 1_700_000_000_000_000, -62_135_596_800_000_000], pa.timestamp("us")),
        **{
            f"n{digits}": pa.array(
                [decimal.Decimal(units).scaleb(-scale) for units in (0, -1, 1, 10**digits - 1, 1 - 10**digits)],
                pa.decimal128(digits, scale),
            )
            for digits, scale in ((1, 0), (5, 5), (9, 2), (10, 0), (18, 2))
        },
        "o": pa.array(
            [{"a": {"l": 1, "w": "x"}}, {"a": {"l": None, "w": "ü"}}, {"a": None}, None, {"a": {"l": -7, "w": ""}}],
            pa.struct([("a", pa.struct([("l", pa.int64()), ("w", pa.string())]))]),
        ),
    }
)
NAMES = [
    *([name] for name in KEYS.column_names if name != "o"),
    ["o.a.l"],
    ["text", "l", "d"],
    ["local", "t", "script"],
    ["o.a.w", "n18", "o.a.l", "bytes"],
]


def quoted(column: str) -> str:
    return ".".join(f"`{part}`" for part in column.split("."))


def test_partition_of_gives_each_key_the_task_that_sparks_expression_gives(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads the keys from a file, so that it has the types of the table."""
    path = tmp_path / "keys.parquet"
    pq.write_table(KEYS, path)
    table = txlog.Table.create(str(tmp_path / "t"), KEYS.schema)
    for num_tasks in (7, 1 << 30):
        asked = [f"pmod(xxhash64({', '.join(map(quoted, names))}), {num_tasks})" for names in NAMES]
        rows = spark.read.parquet(str(path)).selectExpr(*asked).collect()
        theirs = {"-".join(names): list(found) for names, found in zip(NAMES, zip(*rows, strict=True), strict=True)}
        sinks = {"-".join(names): txlog.Sink(table, "app", mode="upsert", keys=names) for names in NAMES}
        assert {name: sink.partition_of(KEYS, num_tasks).to_pylist() for name, sink in sinks.items()} == theirs


def checkpoint(rows: list[tuple[str, int, str | None, int | None]]) -> pa.Table:
    names = ["op", *SCHEMA.names]
    schema = pa.schema([("op", pa.string()), *SCHEMA])
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)


def sink_of(table: txlog.Table) -> txlog.Sink:
    return txlog.Sink(table, "app", mode="upsert", keys=["id"], row_kind="op")


@pytest.mark.parametrize("properties", [FEED, FEED | VECTORS], ids=["copies", "vectors"])
def test_other_engines_see_the_rows_and_the_changes_that_a_sink_made(
    read_delta: ReadDelta, tmp_path: Path, properties: dict[str, str]
) -> None:
    drawn = random.Random(11)
    table = txlog.Table.create(str(tmp_path / "t"), SCHEMA, ["part"], properties)
    for checkpoint_id in range(3):
        rows: list[tuple[str, int, str | None, int | None]] = []
        for _ in range(30):
            kind, key = drawn.choice(["+I", "+U", "-D"]), drawn.randrange(20)
            rows.append(
                (kind, key, None, None) if kind == "-D" else (kind, key, drawn.choice("ab"), drawn.randrange(99))
            )
        sink = sink_of(table)
        for task_id, task_rows in enumerate(split(sink, rows)):
            with sink.task(checkpoint_id, task_id) as task:
                task.write(checkpoint(task_rows))
            sink.stage(task.committable)
        sink.prepare(checkpoint_id, [0, 1])
        sink.commit(checkpoint_id)
    ours = table.snapshot().to_arrow()
    assert as_rows(ours) == as_rows(in_schema(read_delta(table.uri).toArrow(), ours.schema))
    feed = table.changes(1).read_all()
    theirs = read_delta(table.uri, readChangeFeed="true", startingVersion=1).toArrow()
    assert as_rows(feed) == as_rows(in_schema(theirs, feed.schema))
    without_time = feed.drop_columns(["_commit_timestamp"])
    other = pa.table(deltalake.DeltaTable(table.uri).load_cdf(1).read_all())
    assert as_rows(without_time) == as_rows(in_schema(other, without_time.schema))


def split(sink: txlog.Sink, rows: list[Any]) -> list[list[Any]]:
    tasks = sink.partition_of(checkpoint(rows), 2).to_pylist()
    return [[row for row, task in zip(rows, tasks, strict=True) if task == number] for number in range(2)]


# --- death ------------------------------------------------------------------------------------------------------

BEFORE = [("+I", 1, "a", 10), ("+I", 2, "a", 20), ("+I", 3, "b", 30), ("+I", 4, "a", 40)]
GIVEN = [("+U", 1, "b", 11), ("-D", 2, None, None), ("+I", 9, "a", 90), ("+U", 9, "b", 91)]
AFTER = {1: ("b", 11), 3: ("b", 30), 4: ("a", 40), 9: ("b", 91)}


def prepare(uri: str) -> None:
    table = txlog.Table.create(uri, SCHEMA, ["part"], VECTORS)
    sink = sink_of(table)
    with sink.task(0) as task:
        task.write(checkpoint(BEFORE))  # type: ignore[arg-type]
    sink.commit(0, [task.committable])
    table._open_table.post_commit.drain()


def run(uri: str, attempt: int) -> None:
    """If an earlier life sealed the checkpoint, commits it; otherwise writes, seals and commits it."""
    sink = sink_of(txlog.Table.open(uri))
    sink.recover()
    if sink.last_checkpoint_id() == 1:
        return
    with sink.task(1, 0, attempt) as task:
        task.write(checkpoint(GIVEN))
    sink.stage(task.committable)
    sink.prepare(1, {0: attempt})
    sink.commit(1)
    sink._open_table.post_commit.drain()


def watched(uri: str, reported: str) -> None:
    note_steps(uri, reported, stop)
    run(uri, 0)


def test_a_sink_of_changes_that_dies_at_any_step_is_ended_by_its_next_run(
    memory_folder: Path, record_property: Callable[[str, object], None]
) -> None:
    def judge(copy: Path, died: str) -> None:
        uri = str(copy / "t")
        run(uri, 1)
        table = txlog.Table.open(uri)
        found = {row["id"]: (row["part"], row["v"]) for row in table.snapshot().to_arrow().to_pylist()}
        assert found == AFTER, died
        assert table.version == 2, died
        assert os.listdir(f"{uri}/_txlog/staging") == [], died
        assert_sound(uri, {})

    folder, reported = memory_folder / "sink", memory_folder / "reported"
    folder.mkdir()
    prepare(str(folder / "t"))
    deaths, states = judge_every_death(process(watched, str(folder / "t"), str(reported)), folder, reported, judge)
    record_property("measured", f"sink of changes: died at each of {len(deaths)} steps, {states} states were left")
    for wanted in ("keys-", ".manifest", "deletion_vector", f"{2:020}.json"):
        assert any(wanted in each for each in deaths), f"no process died at {wanted}"
