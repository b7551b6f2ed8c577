"""Whatever is done to a table in whatever order, every way of reading it gives the rows that it should have."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

import txlog
from txlog.core import ambient
from txlog.core.definition import create_table
from txlog.core.versions import OpenTable
from txlog.result import in_milliseconds
from txlog.testing.memory_store import memory_table_store
from txlog.testing.stopped_clock import StoppedClock

HOUR_MS = 3_600_000
RETENTION_HOURS = 168
NAN = float("nan")

TEXTS = ("a", "", "ä/=%,", "a b", "__HIVE_DEFAULT_PARTITION__", ".", "..", "_x", None, "a\\b:*?\"<>|'", "x" * 120)
MOMENTS = (
    dt.datetime(2026, 3, 8, 7, 30, 0, 123456, dt.timezone.utc),
    dt.datetime(1, 1, 1, tzinfo=dt.timezone.utc),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999, dt.timezone.utc),
    None,
)
FLOATS = (0.0, -0.0, NAN, math.inf, -math.inf, 1.5, None)

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "x": pa.float64(),
        "s": pa.struct({"n": pa.int32(), "t": pa.string()}),
        "text": pa.string(),
        "moment": pa.timestamp("us", "UTC"),
        "flag": pa.bool_(),
    }
)
PARTITION_BY = ("text", "moment", "flag")

STEPS = (
    *(
        "append",
        "append",
        "append",
        "delete",
        "delete a partition",
        "update",
        "optimize",
        "cluster",
        "purge",
        "restore",
    ),
    *("tag", "vacuum", "lite vacuum", "checkpoint", "clean up", "add a column", "overwrite", "nothing", "restart"),
)


@dataclass
class Story:
    """A table, and what each of its versions should hold, found by another way than the table's files."""

    clock: StoppedClock
    store: Any = field(default_factory=memory_table_store)
    rows: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[int, tuple[list[dict[str, Any]], int]] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    columns: int = 0
    next_id: int = 0

    def begin(self, properties: dict[str, str]) -> None:
        create_table(OpenTable(self.store), SCHEMA, PARTITION_BY, properties)
        self.table = self.open()
        self.note()

    def open(self) -> txlog.Table:
        return txlog.Table(OpenTable(self.store))

    def new_rows(self, seed: int, count: int) -> list[dict[str, Any]]:
        found = []
        for at in range(self.next_id, self.next_id + count):
            chosen = seed + at * 7
            row: dict[str, Any] = {
                "id": at,
                "x": FLOATS[chosen % len(FLOATS)],
                "s": None if chosen % 5 == 0 else {"n": chosen % 11, "t": TEXTS[chosen % len(TEXTS)]},
                "text": TEXTS[(chosen // 3) % len(TEXTS)] or None,  # in partitions, "" is null
                "moment": MOMENTS[(chosen // 5) % len(MOMENTS)],
                "flag": (None, True, False)[chosen % 3],
            }
            row |= {f"c{number}": chosen for number in range(self.columns)}
            found.append(row)
        self.next_id += count
        return found

    def schema(self) -> pa.Schema:
        return pa.schema([*SCHEMA, *(pa.field(f"c{number}", pa.int64()) for number in range(self.columns))])

    def note(self) -> None:
        newest = self.table.version
        for version in range(max(self.versions, default=-1) + 1, newest + 1):
            self.versions[version] = ([*self.rows], in_milliseconds(self.table.snapshot(version).timestamp))

    def is_kept(self, version: int) -> bool:
        """Whether the version was the newest one within the retention."""
        later = [at for number, (_, at) in self.versions.items() if number == version + 1]
        return not later or later[0] > self.clock.moment_ms - RETENTION_HOURS * HOUR_MS


def do(story: Story, step: str, seed: int) -> None:
    table = story.table
    match step:
        case "append":
            rows = story.new_rows(seed, 1 + seed % 9)
            table.append(pa.Table.from_pylist(rows, story.schema()))
            story.rows += rows
        case "overwrite":
            rows = story.new_rows(seed, 3)
            table.overwrite(pa.Table.from_pylist(rows, story.schema()))
            story.rows = rows
        case "delete":
            table.delete(f"id % 4 = {seed % 4}")
            story.rows = [row for row in story.rows if row["id"] % 4 != seed % 4]
        case "delete a partition":
            table.delete("flag is null")
            story.rows = [row for row in story.rows if row["flag"] is not None]
        case "update":
            table.update({"x": txlog.expr("id + 0.25")}, f"id % 5 = {seed % 5}")
            story.rows = [{**row, "x": row["id"] + 0.25} if row["id"] % 5 == seed % 5 else row for row in story.rows]
        case "optimize":
            table.optimize()
        case "cluster":
            table.optimize(zorder_by=[["x", "id"], ["s.n"], ["x"], ["id", "s.t", "x"]][seed % 4])
        case "purge":
            table.purge()
        case "restore":
            version = seed % (table.version + 1)
            try:
                table.restore(version)
            except (txlog.NotFoundError, txlog.InvalidInputError):
                assert not story.is_kept(version) or version == table.version
            else:
                story.rows = [*story.versions[version][0]]
                story.columns = len(table.schema) - len(SCHEMA)
        case "tag":
            name, version = f"name-{len(story.tags)}", seed % (table.version + 1)
            try:
                table.tag(name, version)
            except (txlog.NotFoundError, txlog.InvalidInputError):
                assert not story.is_kept(version)
            else:
                story.tags[name] = version
        case "vacuum" | "lite vacuum":
            table.vacuum(lite=step == "lite vacuum")
        case "checkpoint":
            table.create_checkpoint()
        case "clean up":
            table.create_checkpoint()
            table.clean_up_log()
        case "add a column":
            table.add_columns(pa.schema({f"c{story.columns}": pa.int64()}))
            story.columns += 1
        case "restart":
            story.table = story.open()


def counted(rows: list[dict[str, Any]], names: list[str]) -> Counter[str]:
    """Rows as text, in which NaN equals itself."""
    return Counter(repr([_plain(row.get(name)) for name in names]) for row in rows)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.datetime) else value


def check(story: Story) -> None:
    table, rows = story.open(), story.rows
    names = table.schema.names
    expected = counted(rows, names)
    assert counted(table.to_arrow().to_pylist(), names) == expected
    assert table.count() == len(rows)
    dataset = table.to_dataset()
    assert counted(dataset.to_table().to_pylist(), names) == expected
    ids = sorted(row["id"] for row in rows if row["id"] % 2 == 0 and row["flag"])
    assert sorted(table.to_arrow(["id"], "id % 2 = 0 and flag")["id"].to_pylist()) == ids
    some = sorted(row["id"] for row in rows if row["x"] is not None and row["x"] > 1)
    assert sorted(dataset.to_table(["id"], pc.field("x") > 1)["id"].to_pylist()) == [
        each for each in some if not math.isnan(next(row["x"] for row in rows if row["id"] == each))
    ]
    with duckdb.connect() as connection:
        connection.register("t", dataset)
        texts = connection.execute("select id from t where text = 'ä/=%,' or moment is null").fetchall()
        assert connection.execute("select count(*) from t").fetchone() == (len(rows),)
    wanted = sorted(row["id"] for row in rows if row["text"] == "ä/=%," or row["moment"] is None)
    assert sorted(each for (each,) in texts) == wanted
    lazy = polars.scan_pyarrow_dataset(dataset).filter(polars.col("flag") & (polars.col("id") >= 3)).select("id")
    assert sorted(lazy.collect()["id"]) == sorted(row["id"] for row in rows if row["flag"] and row["id"] >= 3)
    for name, version in story.tags.items():
        kept = table.snapshot(tag=name)
        assert counted(kept.to_arrow().to_pylist(), kept.schema.names) == counted(
            story.versions[version][0], kept.schema.names
        )


def check_times(story: Story) -> None:
    """At the time of a version it is this version, a millisecond earlier it is the one before."""
    table = story.open()
    for version, (rows, at) in story.versions.items():
        assert table.snapshot(timestamp=at).version == version
        if version:
            assert table.snapshot(timestamp=at - 1).version == version - 1
        if story.is_kept(version):
            found = table.snapshot(version)
            assert counted(found.to_arrow().to_pylist(), found.schema.names) == counted(rows, found.schema.names)


@given(
    st.lists(
        st.tuples(st.sampled_from(STEPS), st.integers(0, 10_000), st.sampled_from([0, 1, 30, 100, 400])),
        min_size=6,
        max_size=16,
    ),
    st.sampled_from(["none", "name"]),
    st.booleans(),
    st.booleans(),
)
def test_after_any_history_every_reader_has_the_rows(
    steps: list[tuple[str, int, int]], mapping: str, vectors: bool, keeps_log: bool
) -> None:
    clock = StoppedClock()
    properties = {
        "delta.columnMapping.mode": mapping,
        "delta.enableDeletionVectors": str(vectors).lower(),
        "delta.enableInCommitTimestamps": "true",
        "delta.logRetentionDuration": f"interval {1_000 if keeps_log else 2} weeks",
    }
    with ambient.use(clock):
        story = Story(clock)
        story.begin(properties)
        for step, seed, hours in steps:
            clock.moment_ms += 1 + hours * HOUR_MS
            do(story, step, seed)
            story.note()
        check(story)
        if keeps_log:
            check_times(story)
