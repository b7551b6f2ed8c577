"""The kinds of MERGE that Delta's documentation shows: Spark's Delta, txlog in Python and txlog in Spark's tasks.

Each statement is run as SQL by Spark's Delta, and as clauses with the same texts by txlog. The rows are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from rows import assert_sound

import txlog
import txlog.spark
from txlog.core.changes.plan import MergeBuilder

Builder = MergeBuilder[Any]


@dataclass(frozen=True)
class Example:
    """A table and a source as columns in DDL and rows; the condition, the clauses in SQL, and as calls."""

    columns: str
    old: list[tuple[Any, ...]]
    source_columns: str
    new: list[tuple[Any, ...]]
    on: str
    sql: str
    clauses: Callable[[Builder], Builder]


LAST_SEEN = "t.last_seen >= (current_date() - INTERVAL '5' DAY)"
SCD = {
    **{"id": txlog.col("s.id"), "address": txlog.col("s.address"), "current": True},
    **{"effective": txlog.col("s.effective"), "ended": None},
}
EXAMPLES = {
    "upsert": Example(
        "id int, name string, salary int",
        [(1, "Ann", 10), (2, "Bo", 20)],
        "id int, name string, salary int",
        [(2, "Bob", 21), (3, "Cy", 30)],
        "t.id = s.id",
        "when matched then update set name = s.name, salary = s.salary"
        " when not matched then insert (id, name, salary) values (s.id, s.name, s.salary)",
        lambda merge: merge.when_matched_update(
            {"name": txlog.expr("s.name"), "salary": txlog.expr("s.salary")}
        ).when_not_matched_insert(
            {"id": txlog.expr("s.id"), "name": txlog.expr("s.name"), "salary": txlog.expr("s.salary")}
        ),
    ),
    "mirror of the source": Example(
        "key int, value string",
        [(1, "a"), (2, "b"), (3, "c")],
        "key int, value string",
        [(2, "x"), (4, "y")],
        "s.key = t.key",
        "when matched then update set * when not matched then insert * when not matched by source then delete",
        lambda merge: merge.when_matched_update_all().when_not_matched_insert_all().when_not_matched_by_source_delete(),
    ),
    "rows not seen lately": Example(
        "key int, last_seen date, status string",
        [(1, None, "active"), (2, "today", "active"), (3, "long ago", "active"), (4, "today", "active")],
        "key int, seen date",
        [(4, "today"), (5, "today")],
        "s.key = t.key",
        "when matched then update set t.last_seen = s.seen"
        " when not matched then insert (key, last_seen, status) values (s.key, s.seen, 'active')"
        f" when not matched by source and {LAST_SEEN} then update set t.status = 'inactive'",
        lambda merge: (
            merge.when_matched_update({"last_seen": txlog.expr("s.seen")})
            .when_not_matched_insert(
                {"key": txlog.expr("s.key"), "last_seen": txlog.expr("s.seen"), "status": txlog.expr("'active'")}
            )
            .when_not_matched_by_source_update({"status": txlog.expr("'inactive'")}, LAST_SEEN)
        ),
    ),
    "deduplication": Example(
        "id string, day date, text string",
        [("a", "today", "old"), ("b", "long ago", "old")],
        "id string, day date, text string",
        [("a", "today", "new"), ("b", "today", "new"), ("c", "long ago", "new"), ("d", "today", "new")],
        "t.id = s.id and t.day > current_date() - INTERVAL 7 DAYS",
        "when not matched and s.day > current_date() - INTERVAL 7 DAYS then insert *",
        lambda merge: merge.when_not_matched_insert_all("s.day > current_date() - INTERVAL 7 DAYS"),
    ),
    "slowly changing dimension with null keys": Example(
        "id int, address string, current boolean, effective date, ended date",
        [
            (1, "Rome", True, "long ago", None),
            (2, "Oslo", True, "long ago", None),
            (2, "Bonn", False, None, "long ago"),
        ],
        "key int, id int, address string, effective date",
        [(1, 1, "Lima", "today"), (None, 1, "Lima", "today"), (2, 2, "Oslo", "today"), (3, 3, "Cork", "today")],
        "t.id = s.key",
        "when matched and t.current = true and t.address <> s.address"
        " then update set current = false, ended = s.effective"
        " when not matched then insert (id, address, current, effective, ended)"
        " values (s.id, s.address, true, s.effective, null)",
        lambda merge: merge.when_matched_update(
            {"current": txlog.expr("false"), "ended": txlog.expr("s.effective")},
            "t.current = true AND t.address <> s.address",
        ).when_not_matched_insert(SCD),
    ),
    "slowly changing dimension of a whole snapshot": Example(
        "id int, address string, current boolean, effective date, ended date",
        [(1, "Rome", True, "long ago", None), (2, "Oslo", True, "long ago", None), (4, "Bonn", True, None, None)],
        "id int, address string, effective date",
        [(1, "Lima", "today"), (2, "Oslo", "today"), (3, "Cork", "today")],
        "t.id = s.id and t.address <=> s.address and t.current",
        "when not matched then insert (id, address, current, effective, ended)"
        " values (s.id, s.address, true, s.effective, null)"
        " when not matched by source and t.current then update set current = false, ended = current_date()",
        lambda merge: merge.when_not_matched_insert(SCD).when_not_matched_by_source_update(
            {"current": txlog.expr("false"), "ended": txlog.expr("current_date()")}, "t.current"
        ),
    ),
    "changes with deletes": Example(
        "key string, value string",
        [("a", "0"), ("b", "1"), ("c", "2"), ("d", "3")],
        "key string, new_value string, deleted boolean",
        [("a", "10", False), ("b", None, True), ("c", "20", False), ("e", None, True), ("f", "5", False)],
        "s.key = t.key",
        "when matched and s.deleted = true then delete"
        " when matched then update set key = s.key, value = s.new_value"
        " when not matched and s.deleted = false then insert (key, value) values (s.key, s.new_value)",
        lambda merge: (
            merge.when_matched_delete("s.deleted = true")
            .when_matched_update({"key": txlog.expr("s.key"), "value": txlog.expr("s.new_value")})
            .when_not_matched_insert(
                {"key": txlog.expr("s.key"), "value": txlog.expr("s.new_value")}, "s.deleted = false"
            )
        ),
    ),
    "prices by the time of the sale": Example(
        "id int, sold date, price int",
        [(1, "today", None), (2, "long ago", None), (3, None, None)],
        "from_day date, to_day date, price int",
        [("long ago", "long ago", 5), ("today", "today", 7)],
        "t.sold between s.from_day and s.to_day",
        "when matched then update set price = s.price",
        lambda merge: merge.when_matched_update({"price": txlog.expr("s.price")}),
    ),
}


PLAYED = frozenset(("mirror of the source",))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in PLAYED else pytest.mark.hunt(part="merges")) for name in EXAMPLES],
)
def test_a_merge_of_deltas_documentation_leaves_the_same_rows(tmp_path: Path, delta: SparkSession, name: str) -> None:
    delta.conf.set("spark.sql.session.timeZone", "UTC")  # in which txlog's current_date() is
    example = EXAMPLES[name]
    rows = rows_of(delta, example.columns, example.old).toArrow()
    source = rows_of(delta, example.source_columns, example.new)
    source.createOrReplaceTempView("s")
    tables = [txlog.Table.create(str(tmp_path / each), example.columns) for each in ("one", "tasks", "delta")]
    for table in tables:
        table.append(rows)
    names = {"source_alias": "s", "target_alias": "t"}
    here = example.clauses(tables[0].merge(pa.table(source.toArrow()), example.on, **names)).execute()
    there = example.clauses(txlog.spark.merge(delta, tables[1].uri, source, example.on, **names)).execute()
    delta.sql(f"merge into delta.`{tables[2].uri}` t using s on {example.on} {example.sql}")
    found = [sorted(map(str, table.to_arrow().to_pylist())) for table in tables]
    assert found[0] == found[2]
    assert found[1] == found[2]
    assert found[0] != sorted(map(str, rows.to_pylist())), "the merge changes something"
    assert (here.metrics.rows_inserted, here.metrics.rows_updated, here.metrics.rows_deleted) == (
        there.metrics.rows_inserted,
        there.metrics.rows_updated,
        there.metrics.rows_deleted,
    )
    for table in tables[:2]:
        assert_sound(table.uri)


def rows_of(spark: SparkSession, columns: str, rows: list[tuple[Any, ...]]) -> Any:
    """A DataFrame; the days are relative, as in the statements."""
    days = {"today": "current_date()", "long ago": "current_date() - INTERVAL 90 DAYS"}
    kinds = [column.split()[1] for column in columns.split(", ")]
    names = ", ".join(column.split()[0] for column in columns.split(", "))

    def written(value: Any, kind: str) -> str:
        if kind == "date":
            return f"CAST({days.get(value, 'NULL')} AS DATE)"
        return f"CAST({'NULL' if value is None else repr(value)} AS {kind})"

    values = ", ".join(f"({', '.join(map(written, row, kinds))})" for row in rows)
    return spark.sql(f"select * from values {values} as rows({names})")
