"""Every type Spark can hold goes through a txlog table and comes back equal, read by Spark's own Delta."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_helpers import as_rows, refused, save

import txlog
from txlog.errors import InvalidInputError, UnsupportedFeatureError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[..., "DataFrame"]

TYPES = {
    "flag": ("boolean", "true", "false"),
    "tiny": ("tinyint", "cast(127 as tinyint)", "cast(-128 as tinyint)"),
    "small": ("smallint", "cast(32767 as smallint)", "cast(-32768 as smallint)"),
    "whole": ("int", "2147483647", "-2147483648"),
    "big": ("bigint", "9223372036854775807", "cast('-9223372036854775808' as bigint)"),
    "single": ("float", "cast('NaN' as float)", "cast('-0.0' as float)"),
    "double": ("double", "double('Infinity')", "double('NaN')"),
    "money": ("decimal(10,2)", "12345678.90bd", "-0.01bd"),
    "huge": (
        "decimal(38,18)",
        "cast('99999999999999999999.999999999999999999' as decimal(38,18))",
        "cast('-99999999999999999999.999999999999999999' as decimal(38,18))",
    ),
    "day": ("date", "date'9999-12-31'", "date'0001-01-01'"),
    "moment": ("timestamp", "timestamp'2026-03-08 02:30:00.123456'", "timestamp'1677-09-21 00:12:43.145224'"),
    "wall": ("timestamp_ntz", "timestamp_ntz'2026-03-08 02:30:00.123456'", "timestamp_ntz'0001-01-01 00:00:00'"),
    "text": ("string", "'ä \\U0001F986 \\n \\\\ \\' \"'", "''"),
    "bytes": ("binary", "X'00FF10'", "X''"),
    "long_text": ("string", "repeat('0123456789', 30)", "repeat('\\U0001F986', 300)"),
    "items": ("array<int>", "array(1, null, 3)", "array()"),
    "mapped": ("map<string,int>", "map('a', 1, 'b', null)", "map()"),
    "inner": (
        "struct<a:int,b:struct<c:string,d:timestamp>>",
        "named_struct('a', 1, 'b', named_struct('c', 'x', 'd', timestamp'2026-01-01 00:00:00'))",
        "named_struct('a', null, 'b', null)",
    ),
    "nested": (
        "array<struct<k:string,v:array<map<string,decimal(5,1)>>>>",
        "array(named_struct('k', 'x', 'v', array(map('m', 1.5bd))))",
        "array(null)",
    ),
}
"""Column -> (its type, a value, another value)."""


def every_type(spark: SparkSession) -> DataFrame:
    """Three rows of every type: two of values, one of nulls."""
    rows = [
        [f"cast({values[at]} as {kind}) as {name}" for name, (kind, *values) in TYPES.items()] for at in range(2)
    ] + [[f"cast(null as {kind}) as {name}" for name, (kind, *_) in TYPES.items()]]
    selects = [f"select {at} as id, {', '.join(columns)}" for at, columns in enumerate(rows)]
    return spark.sql(" union all ".join(selects))


def test_every_type_comes_back_equal(spark: SparkSession, read_delta: Read, tmp_path: Path) -> None:
    frame = every_type(spark).repartition(2)
    save(frame, tmp_path / "t")
    found = read_delta(tmp_path / "t")
    assert as_rows(found) == as_rows(frame)
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    save(frame, tmp_path / "t", "overwrite")
    assert as_rows(read_delta(tmp_path / "t")) == as_rows(frame)
    assert [(f.name, f.dataType) for f in found.schema] == [(f.name, f.dataType) for f in frame.schema]


def test_empty_array_literals_are_stored_whichever_way_they_are_written(
    spark: SparkSession, read_delta: Read, tmp_path: Path
) -> None:
    txlog.Table.create(tmp_path / "t", "id bigint, a array<int>, m map<string, int>, s struct<a: array<string>>")
    frame = spark.sql("select id, array() as a, map('k', null) as m, named_struct('a', array()) as s from range(2)")
    save(frame, tmp_path / "t")
    frame.write.format("txlog").mode("append").option("upsertKeys", "id").save(str(tmp_path / "t"))
    txlog.spark.upsert(spark, str(tmp_path / "t"), frame, keys=["id"])
    assert as_rows(read_delta(tmp_path / "t")) == as_rows(frame)


def matches(frame: DataFrame, predicates: list[str]) -> list[str]:
    """(predicate, id) of every row that each predicate selects; each is a separate scan, with its own pruning."""
    from pyspark.sql.functions import lit

    branches = [frame.where(text).select(lit(text).alias("predicate"), "id") for text in predicates]
    return as_rows(reduce(type(frame).union, branches))


def comparisons(column: str) -> list[str]:
    kind, *values = TYPES[column]
    operators = ("=", "<", ">=", "<=>")
    return [
        f"{column} is null",
        f"{column} is not null",
        *(f"{column} {operator} cast({value} as {kind})" for value in values for operator in operators),
    ]


PRIMITIVES = [name for name in TYPES if name not in ("items", "mapped", "inner", "nested")]
BOUNDED = ("single", "text")
"""Whose bounds are not just the least and the greatest value: they are cut short, or NaN lies next to them."""


@pytest.mark.parametrize(
    "column",
    [pytest.param(name, marks=() if name in BOUNDED else pytest.mark.hunt(part="spark")) for name in PRIMITIVES],
)
def test_no_file_is_skipped_that_holds_the_value_asked_for(
    column: str, types_by_file: tuple[DataFrame, DataFrame]
) -> None:
    """Spark prunes files by the bounds we wrote: a wrong bound would lose rows without a word."""
    frame, found = types_by_file
    assert matches(found, comparisons(column)) == matches(frame, comparisons(column))


@pytest.fixture(scope="module")
def types_by_file(delta_session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[DataFrame, DataFrame]:
    """The rows of every type, and the table that holds each of them in its own file."""
    path = tmp_path_factory.mktemp("types") / "t"
    frame = every_type(delta_session)
    for number in range(3):
        save(frame.where(f"id = {number}"), path)
    return frame, delta_session.read.format("delta").load(str(path))


@pytest.mark.hunt(part="spark")
def test_every_primitive_type_can_partition_a_table(spark: SparkSession, read_delta: Read, tmp_path: Path) -> None:
    columns = [name for name in PRIMITIVES if name != "bytes"]  # bytes that are no text have no partition value
    frame = every_type(spark).select("id", *columns).where("id != 1")
    save(frame, tmp_path / "t", partitionBy=",".join(columns))
    found = read_delta(tmp_path / "t")
    assert as_rows(found) == as_rows(frame)
    predicates = [text for column in columns for text in comparisons(column)[:3]]
    assert matches(found, predicates) == matches(frame, predicates)


def test_bytes_that_are_no_text_are_refused_as_a_partition_value(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("select 1 as id, X'00FF10' as p")
    assert "p" in refused(lambda: save(frame, tmp_path / "t", partitionBy="p")).message
    assert not txlog.Table.exists(str(tmp_path / "t"))


SPECIAL = [
    " lead",
    "a/b",
    "a%2Fb",
    "a=b",
    "a:b",
    "100%",
    "ä\U0001f986",
    "a\\b",
    "'\"",
    "x" * 300,
    "..",
    "{}[]#?*",
    "\t\n",
]


def test_partition_values_of_special_characters_come_back_equal(
    spark: SparkSession, read_delta: Read, tmp_path: Path
) -> None:
    frame = spark.createDataFrame([(at, value) for at, value in enumerate(SPECIAL)], "id int, p string")
    save(frame, tmp_path / "a b%c", partitionBy="p")
    found = read_delta(tmp_path / "a b%c")
    assert as_rows(found) == as_rows(frame)
    one_by_one = [found.where(found.p == value).selectExpr(f"{at} as asked", "id") for at, value in enumerate(SPECIAL)]
    answers = reduce(type(found).union, one_by_one).collect()
    assert sorted((row.asked, row.id) for row in answers) == [(at, at) for at in range(len(SPECIAL))]


@pytest.mark.hunt(part="spark")
def test_sparks_vacuum_knows_each_file_of_ours_whatever_its_path(delta: SparkSession, tmp_path: Path) -> None:
    """It compares the log's paths with those of a listing as texts, and deletes what it does not find."""
    table = txlog.Table.create(tmp_path / "tü b", "id int, `ö` string", ["ö"])
    characters = [chr(code) for code in (*range(1, 0x80), *b"\xa0\xe9\x85", 0x2028, 0x3000, 0x65E5, 0xFEFF, 0x1F3B5)]
    table.append(pa.table({"id": pa.array(range(len(characters)), pa.int32()), "ö": characters}))
    (tmp_path / "converted" / "p=1").mkdir(parents=True)
    for name in ("12:00 é.parquet", "a%3Ab.parquet", "x[1].parquet"):
        pq.write_table(pa.table({"id": [1]}), tmp_path / "converted" / "p=1" / name)
    txlog.Table.convert(tmp_path / "converted", "p int")
    delta.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    for path, count in ((table.uri, len(characters)), (tmp_path / "converted", 3)):
        assert delta.sql(f"vacuum delta.`{path}` retain 0 hours dry run").collect() == []
        assert delta.read.format("delta").load(str(path)).count() == count


def test_the_empty_string_in_a_partition_column_becomes_null_as_delta_has_it(
    spark: SparkSession, read_delta: Read, tmp_path: Path
) -> None:
    save(spark.createDataFrame([(1, ""), (2, "x")], "id int, p string"), tmp_path / "t", partitionBy="p")
    assert as_rows(read_delta(tmp_path / "t").where("p is null").select("id")) == ["Row(id=1)"]


@pytest.mark.parametrize(
    ("select", "kind"),
    [
        ("interval 1 year as bad", "interval year"),
        ("interval 1 day as bad", "interval day"),
        ("time'10:00:00' as bad", "time(6)"),
        ("struct() as bad", "empty struct"),
        ("'a' collate UTF8_LCASE as bad", "collated string"),
    ],
)
def test_a_type_without_a_place_in_the_table_is_refused_by_column_and_name(
    spark: SparkSession, tmp_path: Path, select: str, kind: str
) -> None:
    error = refused(lambda: save(spark.sql(f"select 1 as fine, {select}"), tmp_path / "t"))
    assert isinstance(error, UnsupportedFeatureError)
    assert f"bad  {kind}" in error.message
    assert not (tmp_path / "t").exists()


def test_a_column_without_a_type_cannot_create_a_table(spark: SparkSession, tmp_path: Path) -> None:
    error = refused(lambda: save(spark.sql("select 1 as a, null as b"), tmp_path / "t"))
    assert isinstance(error, InvalidInputError)
    assert "b: a column of only nulls" in error.message


def test_columns_equal_but_for_case_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    error = refused(lambda: save(spark.sql("select 1 as id, 2 as ID"), tmp_path / "t"))
    assert isinstance(error, InvalidInputError)
    assert "case" in error.message
    save(spark.sql("select 1 as id"), tmp_path / "u")
    assert "id" in refused(lambda: save(spark.sql("select 1 as id, 2 as ID"), tmp_path / "u")).message.lower()
