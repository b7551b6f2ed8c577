"""Tables whose features Spark's own Delta made: we read the same rows, append to them, and then all engines read the
same rows.

Deletion vectors, mapped columns (renamed, dropped, nested), widened types, tracked rows. Spark says what the rows
are; deltalake says it too where it knows the feature.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from rows import as_rows, in_schema, read_by_deltalake

import txlog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[..., "DataFrame"]


@pytest.fixture
def sql(delta: SparkSession, tmp_path: Path) -> Callable[[str], None]:
    """Run statements, separated by semicolons; ``{t}`` is the table at ``tmp_path / "t"``."""
    delta.conf.set("spark.sql.session.timeZone", "UTC")
    for way in ("read", "write"):  # Spark's Delta refuses tables mapped by id without
        delta.conf.set(f"spark.sql.parquet.fieldId.{way}.enabled", "true")

    def run(statements: str) -> None:
        for statement in filter(str.strip, statements.split(";")):
            delta.sql(statement.format(t=f"delta.`{tmp_path / 't'}`"))

    return run


def everybody_reads(path: Path, read_delta: Read, *, peer: bool = True) -> list[str]:
    """The rows that we read, after Spark (and deltalake, if it knows the feature) was seen to read the same."""
    ours = txlog.Table.open(path).snapshot().to_arrow()
    assert as_rows(in_schema(read_delta(path).toArrow(), ours.schema)) == as_rows(ours)
    if peer:
        theirs = read_by_deltalake(deltalake.DeltaTable(str(path)))
        assert as_rows(in_schema(theirs, ours.schema)) == as_rows(ours)
    return as_rows(ours)


def actions(path: Path, kind: str) -> list[dict[str, Any]]:
    """All actions of one kind, in the order of the log."""
    lines = [line for name in sorted((path / "_delta_log").glob("*.json")) for line in name.read_text().splitlines()]
    return [found[kind] for found in map(json.loads, lines) if kind in found]


# --- deletion vectors ---------------------------------------------------------------------------------------------


def test_rows_that_spark_deleted_by_vectors_stay_deleted(
    sql: Callable[[str], None], read_delta: Read, tmp_path: Path
) -> None:
    sql("""
        create table {t} (id bigint, day string) using delta partitioned by (day)
            tblproperties ('delta.enableDeletionVectors' = 'true');
        insert into {t} select /*+ coalesce(1) */ id, cast(id % 2 as string) from range(0, 20000);
        delete from {t} where id % 7 = 3 or id between 10000 and 15000
    """)
    path = tmp_path / "t"
    table = txlog.Table.open(path)
    snapshot = table.snapshot()
    assert snapshot.files().column("deletionVector").null_count < snapshot.num_files
    assert snapshot.to_arrow(["id"], "id = 3 or id = 12000").num_rows == 0
    assert snapshot.to_arrow(where="id = 2 or id = 15001").num_rows == 2
    left = [{"id": n, "day": str(n % 2)} for n in range(20_000) if n % 7 != 3 and not 10_000 <= n <= 15_000]
    assert snapshot.to_arrow(["day"]).num_rows == len(left)

    table.append(pa.table({"id": [3], "day": ["0"]}))
    table.create_checkpoint()
    assert everybody_reads(path, read_delta) == sorted(map(repr, [*left, {"id": 3, "day": "0"}]))


# --- mapped columns -----------------------------------------------------------------------------------------------

NESTED = "info struct<`a b`: int, list: array<struct<x: int, y: string>>>, tags map<string, struct<v: int>>"
VALUES = "named_struct('a b', 1, 'list', array(named_struct('x', 7, 'y', 'q'), null)), map('k', named_struct('v', 5))"


@pytest.mark.parametrize("mode", ["name", pytest.param("id", marks=pytest.mark.hunt(part="spark"))])
def test_columns_that_spark_maps_renames_and_drops_are_found(
    mode: str, sql: Callable[[str], None], read_delta: Read, tmp_path: Path
) -> None:
    sql(f"""
        create table {{t}} (id bigint, `the day` string, {NESTED}, gone int) using delta partitioned by (`the day`)
            tblproperties ('delta.columnMapping.mode' = '{mode}');
        insert into {{t}} values (1, 'x', {VALUES}, 9), (2, null, null, null, 8);
        alter table {{t}} rename column id to number;
        alter table {{t}} rename column info.list to entries;
        alter table {{t}} rename column `the day` to day;
        alter table {{t}} drop column gone;
        alter table {{t}} add column gone string;
        insert into {{t}} values (3, 'z', {VALUES}, 'new')
    """)
    path = tmp_path / "t"
    table = txlog.Table.open(path)
    assert [row["gone"] for row in table.snapshot().to_arrow(where="number <= 2").to_pylist()] == [None, None]
    assert table.snapshot().files("number = 3").num_rows == 1
    assert table.snapshot().files("day = 'x'").num_rows == 1
    assert table.snapshot().to_arrow(where="info.`a b` = 1").num_rows == 2

    info = {"a b": 4, "entries": [{"x": 1, "y": None}]}
    table.append(pa.table({"NUMBER": [4], "day": ["x"], "info": [info]}))
    table.append(pa.table({"number": [5], "more of it": [{"deep": 1.5}]}), schema_mode="merge")
    table.add_columns(pa.schema([("info", pa.struct([("later", pa.date32())]))]))
    table.create_checkpoint()
    assert len(everybody_reads(path, read_delta)) == 5


@pytest.mark.parametrize("mode", ["id", pytest.param("name", marks=pytest.mark.hunt(part="spark"))])
def test_spark_continues_with_a_mapped_table_from_txlog(
    mode: str, sql: Callable[[str], None], read_delta: Read, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    rows = pa.table({"a b": [1, 2], "s": [{"x": 1, "y": [{"z": "q"}]}, None], "p": ["u", "v"]})
    txlog.write(path, rows, partition_by=["p"], properties={"delta.columnMapping.mode": mode})
    sql("""
        insert into {t} values (3, named_struct('x', 2, 'y', array(named_struct('z', 'r'))), 'u');
        alter table {t} rename column s.x to renamed;
        alter table {t} rename column `a b` to c
    """)
    table = txlog.Table.open(path)
    table.append(pa.table({"c": [4], "s": [{"renamed": 9, "y": None}], "p": ["w"]}))
    assert len(everybody_reads(path, read_delta)) == 4
    assert table.snapshot().to_arrow(["s"], "c = 3").to_pylist() == [{"s": {"renamed": 2, "y": [{"z": "r"}]}}]


def test_a_table_that_begins_to_map_its_columns_keeps_its_files(
    sql: Callable[[str], None], read_delta: Read, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    txlog.write(path, pa.table({"id": [1], "s": [{"x": 1}]}))
    table = txlog.Table.open(path)
    table.set_properties({"delta.columnMapping.mode": "name"})
    table.append(pa.table({"id": [2], "s": [{"x": 2}], "new one": ["n"]}), schema_mode="merge")
    sql("alter table {t} rename column s.x to y; insert into {t} values (3, named_struct('y', 3), 'm')")
    assert len(everybody_reads(path, read_delta)) == 3


# --- widened types ------------------------------------------------------------------------------------------------


def test_files_from_before_a_type_was_widened_are_read_and_skipped_rightly(
    sql: Callable[[str], None], read_delta: Read, tmp_path: Path
) -> None:
    sql("""
        create table {t} (b tinyint, f float, d date, n decimal(5,2), s struct<i: int>, l array<smallint>)
            using delta tblproperties ('delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported');
        insert into {t} values (1, 3.14, date'2026-01-02', 123.45, named_struct('i', 2147483647), array(1, null));
        alter table {t} alter column b type int;
        alter table {t} alter column f type double;
        alter table {t} alter column d type timestamp_ntz;
        alter table {t} alter column n type decimal(12,4);
        alter table {t} alter column s.i type bigint;
        alter table {t} alter column l.element type int;
        insert into {t} values (70000, 3.14, timestamp_ntz'2026-01-02 12:00:00', 99999999.9999,
            named_struct('i', 9223372036854775807), array(70000))
    """)
    path = tmp_path / "t"
    table = txlog.Table.open(path)
    before = as_rows(table.snapshot().to_arrow())
    nearest = table.snapshot().to_arrow(["f"], "b = 1").to_pylist()[0]["f"]
    assert nearest != 3.14  # the float nearest to it, whose statistics say 3.14
    from txlog.expressions.predicates import col

    assert table.snapshot().to_arrow(where=col("f") == nearest).num_rows == 1
    assert table.snapshot().to_arrow(where=col("f") == 3.14).num_rows == 1
    for predicate in ("d = '2026-01-02 00:00:00'", "n = 123.45", "s.i = 2147483647", "b < 2"):
        assert table.snapshot().to_arrow(where=predicate).num_rows == 1, predicate
    assert table.snapshot().files("b > 2").num_rows == 1

    appended = table.snapshot().to_arrow()
    table.append(appended)
    assert everybody_reads(path, read_delta, peer=False) == sorted([*before, *before])


# --- tracked rows -------------------------------------------------------------------------------------------------


def row_ids(read_delta: Read, path: Path) -> dict[int, tuple[int, int]]:
    rows = read_delta(path).selectExpr("id", "_metadata.row_id as r", "_metadata.row_commit_version as v").collect()
    return {row.id: (row.r, row.v) for row in rows}


def test_spark_finds_a_distinct_row_id_on_each_row_that_txlog_appended(
    sql: Callable[[str], None], read_delta: Read, tmp_path: Path
) -> None:
    sql("""
        create table {t} (id bigint) using delta tblproperties ('delta.enableRowTracking' = 'true');
        insert into {t} select /*+ coalesce(1) */ id from range(0, 3)
    """)
    path = tmp_path / "t"
    table = txlog.Table.open(path)
    table.append(pa.table({"id": [10, 11]}))
    sql("insert into {t} select /*+ coalesce(1) */ id from range(20, 22)")
    table.append(pa.table({"id": [30]}))
    table.create_checkpoint()
    txlog.Table.open(path).append(pa.table({"id": [40]}))
    assert row_ids(read_delta, path) == {
        **{0: (0, 1), 1: (1, 1), 2: (2, 1), 10: (3, 2), 11: (4, 2)},
        **{20: (5, 3), 21: (6, 3), 30: (7, 4), 40: (8, 5)},
    }
    sql("update {t} set id = 31 where id = 30")
    assert row_ids(read_delta, path)[31] == (7, 6)
    assert len(everybody_reads(path, read_delta, peer=False)) == 9


def test_spark_continues_with_a_row_tracking_table_from_txlog(
    sql: Callable[[str], None], read_delta: Read, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    txlog.write(path, pa.table({"id": [0, 1]}), properties={"delta.enableRowTracking": "true"})
    sql("insert into {t} values (2)")
    txlog.Table.open(path).overwrite(pa.table({"id": [3]}))
    sql("insert into {t} values (4); update {t} set id = 5 where id = 4")
    assert row_ids(read_delta, path) == {3: (3, 2), 5: (4, 4)}
    assert [json.loads(a["configuration"])["rowIdHighWaterMark"] for a in actions(path, "domainMetadata")][-1] >= 4
