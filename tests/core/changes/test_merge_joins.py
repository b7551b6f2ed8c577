"""`Table.merge` by any condition: equal values, ranges, terms of one side, OR. DuckDB says which rows join."""

from __future__ import annotations

import datetime
import json
import logging
import random
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import txlog
import txlog.core.changes.tasks.operations._merge as merge_operation
import txlog.core.changes.tasks.operations._merge_ranges as merge_ranges
import txlog.core.changes.tasks.operations._merge_source as merge_source
from txlog.audit.verify import verify_table
from txlog.core.changes.plan import MergeBuilder
from txlog.errors import InvalidInputError
from txlog.table import Table

Row = tuple[Any, ...]
TARGET = pa.schema(
    [
        ("n", pa.int32()),
        ("k", pa.string()),
        ("a", pa.int64()),
        ("b", pa.int32()),
        ("f", pa.float64()),
        ("d", pa.date32()),
        ("m", pa.decimal128(9, 2)),
    ]
)
SOURCE = pa.schema([("r", pa.int32()), *[field for field in TARGET if field.name != "n"]])
CHANGED = {"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"}
PROPERTIES = [{}, {"delta.enableDeletionVectors": "true"}, {"delta.enableDeletionVectors": "true", **CHANGED}]
POOLS: list[pa.MemoryPool] = []
"""Pools that tests measure stay: what a thread has got from one of them may be given back after its test."""
JOINS = {
    "t.k = s.k": None,
    "t.k <=> s.k": "t.k is not distinct from s.k",
    "t.a <=> s.a and t.k <=> s.k": "t.a is not distinct from s.a and t.k is not distinct from s.k",
    "lower(t.k) = s.k": None,
    "t.k = lower(s.k)": None,
    "lower(t.k) = lower(s.k) and t.a < s.a": None,
    "t.k = s.k and s.a between t.b and t.a": None,
    "t.k = s.k and s.a > 3": None,
    "t.k = s.k and t.b > 2 and s.b is not null": None,
    "t.a = s.b + 1": None,
    "t.a + t.b = s.a": None,
    "t.f = s.f": None,
    "t.f >= s.f and t.f < s.f + 2": None,
    "t.f <= s.f": None,
    "s.a between t.b and t.a": None,
    "t.a >= s.b and t.a <= s.a": None,
    "t.a > s.a": None,
    "t.d <= s.d and t.d > s.d - 2": None,
    "t.m = s.m": None,
    "t.m = s.m * 1": None,
    "t.m < s.m": None,
    "t.a = s.a or t.k = s.k": None,
    "t.a + s.a = 7": None,
    "t.k != s.k and t.b = 2": None,
    "t.k = s.k or s.a = 5": None,
    "s.a = 3": None,
    "t.a = 3": None,
    "false": None,
    "t.k = 'x'": None,
    "not (t.a = s.a)": None,
}
"""Each condition, and how DuckDB writes it if not in the same way."""


def random_row(chance: random.Random, first: int) -> Row:
    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.12 else value

    return (
        first,
        maybe(chance.choice(["a", "A", "b", "", "C"])),
        maybe(chance.randrange(8)),
        maybe(chance.randrange(5)),
        maybe(chance.choice([0.0, -0.0, 1.5, 2.0, 3.0, float("inf"), float("nan")])),
        maybe(datetime.date(2024, 2, 27) + datetime.timedelta(days=chance.randrange(5))),
        maybe(chance.randrange(12) / 4),
    )


def rows_of(schema: pa.Schema, rows: list[Row]) -> pa.Table:
    columns = [pa.array([row[at] for row in rows]) for at in range(len(schema))]
    return pa.table([column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema.names)


def joined(old: list[Row], new: list[Row], on: str) -> set[tuple[int, int]]:
    """The numbers of the rows that join, by DuckDB."""
    with duckdb.connect() as connection:  # tables of its own, since pushed down to Arrow NaN would equal nothing
        for name, rows in (("t", rows_of(TARGET, old)), ("s", rows_of(SOURCE, new))):
            connection.register("given", rows)
            connection.execute(f"create table {name} as select * from given")
        return set(connection.execute(f"select t.n, s.r from t, s where {JOINS[on] or on}").fetchall())


def expected(old: list[Row], new: list[Row], pairs: set[tuple[int, int]], kind: str) -> list[Row] | None:
    """The table's rows, with the source row that was taken in place of ``b``; None if several change one row."""
    of_row = {row[0]: [source for source in new if (row[0], source[0]) in pairs] for row in old}
    left: list[Row] = []
    for row in old:
        mine = of_row[row[0]]
        if kind == "guarded":
            mine = [source for source in mine if source[2] is not None and source[2] >= 4]
        if kind in ("update", "guarded"):
            if len(mine) > 1:
                return None
            left.append((*row[:3], mine[0][0], *row[4:]) if mine else row)
        elif kind == "delete":
            left += [] if mine else [row]
        elif kind == "alone":
            left += [row] if mine else []
        else:
            left.append(row)
    if kind != "alone":
        matched = {r for _, r in pairs}
        left += [(None, *source[1:3], source[0], *source[4:]) for source in new if source[0] not in matched]
    return left


def with_clauses(merge: MergeBuilder[Any], kind: str) -> MergeBuilder[Any]:
    if kind == "update":
        merge.when_matched_update({"b": txlog.expr("s.r")})
    elif kind == "guarded":
        merge.when_matched_update({"b": txlog.expr("s.r")}, "s.a >= 4")
    elif kind == "delete":
        merge.when_matched_delete()
    elif kind == "alone":
        return merge.when_not_matched_by_source_delete()
    return merge.when_not_matched_insert(
        {name: txlog.col("s", "r" if name == "b" else name) for name in TARGET.names[1:]}
    )


def counted(rows: list[Row]) -> Counter[str]:
    return Counter(map(repr, rows))


def found(table: Table) -> list[Row]:
    rows = [tuple(row.values()) for row in table.to_arrow().to_pylist()]
    return [(*row[:6], None if row[6] is None else float(row[6])) for row in rows]


@pytest.mark.parametrize("merges", [2, pytest.param(10, marks=pytest.mark.hunt(part="merges"))])
@pytest.mark.parametrize("on", JOINS)
def test_a_merge_joins_the_rows_that_duckdb_joins(
    tmp_path: Path, on: str, merges: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(on)
    for number in range(merges):
        at_once = chance.choice([3, 1 << 17])
        monkeypatch.setattr(merge_ranges, "PAIRS_AT_ONCE", at_once)
        monkeypatch.setattr(merge_source, "PAIRS_AT_ONCE", at_once)
        old = [random_row(chance, at) for at in range(chance.randrange(1, 14))]
        new = [random_row(chance, 1000 + at) for at in range(chance.randrange(0, 6))]
        kind = chance.choice(["update", "guarded", "delete", "alone", "insert"])
        table = Table.create(tmp_path / str(number), TARGET, properties=chance.choice(PROPERTIES))
        middle = chance.randrange(len(old))
        for part in (old[:middle], old[middle:]):
            table.append(rows_of(TARGET, part))
        dead = chance.choice(old)
        table.delete(f"n = {dead[0]}")
        live = [row for row in old if row is not dead]
        want = expected(live, new, joined(live, new, on), kind)
        merge = with_clauses(table.merge(rows_of(SOURCE, new), on, source_alias="s", target_alias="t"), kind)
        if want is None:
            with pytest.raises(InvalidInputError, match="two source rows match the same row"):
                merge.execute()
            want = live
        else:
            merge.execute()
        assert counted(found(table)) == counted(want)
        assert verify_table(table._open_table.store).is_sound


def of_numbers(path: Path, *files: range) -> Table:
    table = Table.create(path, pa.schema([("x", pa.int64()), ("hit", pa.string())]))
    for file in files:
        table.append(pa.table({"x": pa.array(file, pa.int64()), "hit": pa.array([None] * len(file), pa.string())}))
    return table


def adds_of(path: Path) -> list[dict[str, Any]]:
    lines = [line for file in (path / "_delta_log").glob("*.json") for line in file.read_text().splitlines()]
    return [action["add"] for action in map(json.loads, lines) if "add" in action]


@pytest.mark.parametrize(
    "on",
    ["target.x between source.low and source.high", "target.x >= source.low and target.x < source.high + 1"],
)
def test_files_outside_the_range_of_the_source_are_not_rewritten(tmp_path: Path, on: str) -> None:
    table = of_numbers(tmp_path, range(100), range(100, 200), range(200, 300))
    source = pa.table({"low": [120, 140], "high": [125, 140], "name": ["a", "b"]})
    result = table.merge(source, on).when_matched_update({"hit": txlog.expr("source.name")}).execute()
    assert (result.metrics.rows_updated, result.metrics.files_removed) == (7, 1)
    hits = table.to_arrow(where="hit is not null").sort_by("x").to_pydict()
    assert hits == {"x": [*range(120, 126), 140], "hit": [*"aaaaaab"]}


def test_a_term_on_the_table_alone_keeps_other_files_unread(tmp_path: Path) -> None:
    table = of_numbers(tmp_path, range(100), range(100, 200))
    lows = {json.loads(add["stats"])["minValues"]["x"]: add["path"] for add in adds_of(tmp_path)}
    (tmp_path / lows[0]).write_bytes(b"no Parquet file")
    source = pa.table({"y": [150, 3]})
    table.merge(source, "target.x + 0 = source.y and target.x >= 100").when_matched_delete().execute()
    assert table.to_arrow(where="x >= 100").num_rows == 99


def test_a_range_merge_reruns_after_an_append_in_its_range(tmp_path: Path) -> None:
    table = of_numbers(tmp_path, range(10))
    version = table.version
    of_numbers_before = table.merge(
        pa.table({"low": [5], "high": [20]}), "target.x between source.low and source.high", read_version=version
    ).when_matched_delete()
    table.append(pa.table({"x": [100], "hit": ["far"]}))
    of_numbers_before.execute()
    assert sorted(table.to_arrow()["x"].to_pylist()) == [0, 1, 2, 3, 4, 100]
    tied = table.merge(
        pa.table({"low": [2], "high": [20]}), "target.x between source.low and source.high", read_version=table.version
    ).when_matched_delete()
    table.append(pa.table({"x": [7], "hit": ["near"]}))
    with pytest.raises(txlog.ConcurrentAppendError):
        tied.execute()


def test_more_matching_pairs_than_memory_may_hold_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_operation, "PAIRS_MAX", 50)
    table = of_numbers(tmp_path, range(10))
    merge = table.merge(pa.table({"y": [*range(10)]}), "target.x >= source.y or source.y > 5")
    with pytest.raises(InvalidInputError, match="too many pairs"):
        merge.when_matched_delete().execute()
    assert table.to_arrow().num_rows == 10


def test_a_nested_loop_holds_some_pairs_at_a_time(tmp_path: Path) -> None:
    """All 5 million pairs at once would be 80 MB of row numbers, besides the values that are compared."""
    table = Table.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("v", pa.int64())]))
    table.append(pa.table({"id": range(1_000), "v": [0] * 1_000}))
    source = pa.table({"id": range(5_000), "v": [1] * 5_000})
    merge = table.merge(source, "(target.id + source.id) % 10000 = 9999").when_matched_update_all()
    usual, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    POOLS.append(pool)
    tracemalloc.start()
    pa.set_memory_pool(pool)
    try:
        merge.execute()
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        pa.set_memory_pool(usual)
        tracemalloc.stop()
    assert peak_bytes < 32 << 20
    assert pool.max_memory() < 32 << 20


def test_the_values_of_a_range_are_computed_once_for_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("v", pa.int64())]))
    for start in range(0, 30, 10):
        table.append(pa.table({"id": range(start, start + 10), "v": [0] * 10}))
    computed: Counter[str] = Counter()
    values_of = merge_source._values_of

    def counted(value: Any, rows: pa.Table) -> pa.Array:
        computed[str(value)] += 1
        return values_of(value, rows)

    monkeypatch.setattr(merge_source, "_values_of", counted)
    source = pa.table({"low": [3, 17], "high": [5, 25]})
    merge = table.merge(source, "target.id BETWEEN source.low + 1 AND source.high * 1").when_matched_update(
        {"v": txlog.expr("1")}
    )
    assert merge.execute().metrics.rows_updated == 2 + 8
    assert computed.most_common(1)[0][1] == 1, computed


def test_a_join_without_equality_or_range_warns_that_every_pair_of_rows_is_compared(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = of_numbers(tmp_path, range(10))
    source = pa.table({"y": [*range(5000)]})
    with caplog.at_level(logging.WARNING, "txlog"):
        table.merge(source, "target.x + source.y = 9").when_matched_update({"hit": txlog.expr("'found'")}).execute()
    assert "compared with each of 5000 source rows" in caplog.text
    assert set(table.to_arrow()["hit"].to_pylist()) == {"found"}
