"""``spark.read.format("txlog")``: the data source for names, views and options, with the rows of `txlog.spark.read`."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from spark_helpers import as_rows, refused, save
from test_spark_types import every_type

import txlog
import txlog.spark
from txlog.result import in_milliseconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UTC = dt.timezone.utc
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> txlog.Table:
    """Versions 1 to 3 add ids 0 to 9, 10 to 19 and 20 to 29, each with a null; version 4 deletes id 5."""
    schema = pa.schema(
        {
            "id": pa.int64(),
            "p": pa.string(),
            "x": pa.float64(),
            "m": pa.decimal128(10, 2),
            "ts": pa.timestamp("us", "UTC"),
            "day": pa.date32(),
            "s": pa.struct({"a": pa.int32(), "b": pa.string()}),
        }
    )
    root = tmp_path_factory.mktemp("source") / "t"
    table = txlog.Table.create(root, schema, ["p"], {"delta.enableDeletionVectors": "true"})
    moment = dt.datetime(2026, 1, 1, tzinfo=UTC)
    for begin in (0, 10, 20):
        rows: list[dict[str, Any]] = [
            {
                "id": at,
                "p": f"p{begin}" if begin < 20 else None,
                "x": float("nan") if at % 4 == 3 else at / 2,
                "m": Decimal(at) / 4,
                "ts": moment + dt.timedelta(hours=at),
                "day": (moment + dt.timedelta(days=at)).date(),
                "s": {"a": at, "b": f"b{at}"} if at % 2 else None,
            }
            for at in range(begin, begin + 9)
        ]
        table.append(pa.Table.from_pylist([*rows, {"id": begin + 9}], schema))
    table.delete("id = 5")
    return table


def load(spark: SparkSession, table: txlog.Table, **options: Any) -> DataFrame:
    return spark.read.format("txlog").options(**options).load(table.uri)


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


CONDITIONS = [
    "id >= 8 and id < 12",
    "p = 'p10' and x > 6",
    "not (p <=> 'p10')",
    "p <=> null",
    "not (id in (1, 2, null))",
    "x > 13 or id = 1",
    "x = double('NaN')",
    "m = 2.50 or m is null",
    "m between 1.5 and 2.25",
    "ts > '2026-01-01 20:00:00'",
    "day < date'2026-01-03'",
    "p like 'p1%' and s.a >= 12 and s.b is not null",
    "p like '%0'",
]


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_conditions_keep_the_rows_that_spark_keeps_of_a_native_read(
    pushdown: str, spark: SparkSession, table: txlog.Table
) -> None:
    from functools import reduce

    from pyspark.sql.functions import lit

    spark.conf.set(PUSHDOWN, pushdown)
    native, source = txlog.spark.read(spark, table.uri), load(spark, table)

    def matches(frame: DataFrame) -> list[str]:
        branches = [frame.where(text).select(lit(text).alias("condition"), "id") for text in CONDITIONS]
        return as_rows(reduce(type(frame).union, branches))

    assert matches(source) == matches(native)


def test_filters_of_one_query_take_no_rows_from_the_next(spark: SparkSession, table: txlog.Table) -> None:
    """With pushed filters Spark 4.2 reads the partitions of the last filtered scan for all later scans of the frame."""
    spark.conf.set(PUSHDOWN, "true")
    frame = load(spark, table)
    assert ids(frame.where("id = 7")) == [7]
    assert ids(frame) == sorted(table.to_arrow()["id"].to_pylist())
    assert ids(frame.where("id = 7").union(frame.where("id = 8"))) == [7, 8]


def test_the_source_takes_the_read_options_of_delta_and_of_a_snapshot(spark: SparkSession, table: txlog.Table) -> None:
    assert ids(load(spark, table, versionAsOf=1)) == [*range(10)]
    assert ids(load(spark, table, timestampAsOf=str(in_milliseconds(table.snapshot(2).timestamp)))) == [*range(20)]
    narrow = load(spark, table, columns="x, ID", where="ts > '2026-01-02 00:00:00'", timeZone="UTC")
    assert narrow.columns == ["x", "id"]
    assert ids(narrow) == [25, 26, 27, 28]
    assert ids(spark.read.format("txlog").schema("id long").load(table.uri)) == sorted(
        table.to_arrow()["id"].to_pylist()
    )
    spark.sql(f"create or replace temporary view t using txlog options (path '{table.uri}', versionAsOf '1')")
    assert spark.sql("select count(*) as n from t where id < 5").collect()[0].n == 5


REFUSED = {
    "unknown option 'colums' (did you mean 'columns'?)": {"colums": "id"},
    "both name a version": {"versionAsOf": "1", "timestampAsOf": "2026-01-01"},
    "Invalid option versionAsOf 'x'": {"versionAsOf": "x"},
    "no column 'nope'": {"columns": "nope"},
    "version 99": {"versionAsOf": "99"},
}


def test_an_impossible_read_is_refused_with_its_reason(spark: SparkSession, table: txlog.Table) -> None:
    for message, options in REFUSED.items():
        assert message in refused(lambda options=options: load(spark, table, **options).collect()).message  # type: ignore[misc]
    error = refused(lambda: spark.read.format("txlog").schema("id int").load(table.uri).collect())
    assert "column id is a bigint, not a int" in error.message
    assert "no path" in refused(lambda: spark.read.format("txlog").load().collect()).message
    paths = [table.uri, table.uri]
    assert "several paths" in refused(lambda: spark.read.format("txlog").load(paths).collect()).message


def test_a_frame_and_a_view_stay_at_their_version_for_later_actions_and_self_joins(
    spark: SparkSession, tmp_path: Path
) -> None:
    save(spark.range(5), tmp_path / "t")
    frame = spark.read.format("txlog").load(str(tmp_path / "t"))
    view = f"create or replace temporary view t using txlog options (path '{tmp_path / 't'}')"
    spark.sql(view)
    assert frame.count() == 5
    save(spark.range(5, 9), tmp_path / "t")
    spark.sql("refresh table t")
    assert spark.table("t").count() == 5
    spark.sql(view)
    assert spark.table("t").count() == 9
    assert ids(frame.alias("a").join(frame.alias("b"), "id")) == [*range(5)]
    assert frame.count() == 5


def test_every_type_comes_back_equal_through_the_source(spark: SparkSession, tmp_path: Path) -> None:
    frame = every_type(spark)
    save(frame, tmp_path / "t")
    assert as_rows(spark.read.format("txlog").load(str(tmp_path / "t"))) == as_rows(frame)
    assert spark.read.format("txlog").load(str(tmp_path / "t")).where("id > 5").collect() == []
