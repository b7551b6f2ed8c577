"""The schema of a DataFrame on its way into a table."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from tests.packages import hide
from txlog.core.format.schema import LONG, STRING, Array, Field, Map, Struct, to_arrow
from txlog.errors import UnsupportedFeatureError
from txlog.spark.schema import as_nullable, frame_schema


def test_metadata_that_binds_a_column_to_its_source_table_is_dropped() -> None:
    source = spark.StructType(
        [
            spark.StructField(
                "a", spark.LongType(), False, {"comment": "kept", "delta.identity.start": 1, "CURRENT_DEFAULT": "7"}
            )
        ]
    )
    assert frame_schema(source) == Struct((Field("a", LONG, False, {"comment": "kept"}),))


def test_every_column_that_cannot_be_written_is_named_with_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "txlog.types:variant")
    source = spark.StructType(
        [
            spark.StructField("fine", spark.StringType()),
            spark.StructField("years", spark.YearMonthIntervalType()),
            spark.StructField("days", spark.ArrayType(spark.DayTimeIntervalType())),
            spark.StructField("outer", spark.StructType([spark.StructField("inner", spark.VariantType())])),
            spark.StructField("nothing", spark.StructType([])),
            spark.StructField("at", spark.MapType(spark.StringType(), spark.TimeType())),
        ]
    )
    with pytest.raises(UnsupportedFeatureError) as caught:
        frame_schema(source)
    message = caught.value.message
    for column, kind in {
        "years": "interval year to month",
        "days.element": "interval day to second",
        "outer.inner": "variant",
        "nothing": "empty struct",
        "at.value": "time(6)",
    }.items():
        assert f"\n  {column}  {kind}:" in message
    assert "fine" not in message


def test_a_collated_column_is_refused() -> None:
    source = spark.StructType([spark.StructField("name", spark.StringType("UTF8_LCASE"))])
    with pytest.raises(UnsupportedFeatureError, match="name  collated string"):
        frame_schema(source)


def test_every_not_null_is_dropped() -> None:
    strict = Struct(
        (
            Field("a", Array(Struct((Field("b", LONG, False),)), False), False),
            Field("m", Map(STRING, LONG, False), False),
        )
    )
    assert as_nullable(strict) == Struct(
        (Field("a", Array(Struct((Field("b", LONG, True),)), True), True), Field("m", Map(STRING, LONG, True), True))
    )


def test_empty_literals_of_spark_have_types_that_arrow_has() -> None:
    """``array()``, ``array(array())`` and ``named_struct('a', array())`` as Spark types them."""
    empty = spark.ArrayType(spark.NullType(), False)
    source = spark.StructType(
        [
            spark.StructField("a", empty, False),
            spark.StructField("b", spark.ArrayType(empty, False), False),
            spark.StructField("m", spark.MapType(spark.StringType(), spark.NullType(), False), False),
            spark.StructField("s", spark.StructType([spark.StructField("v", spark.NullType(), False)]), False),
        ]
    )
    arrow = to_arrow(frame_schema(source))
    assert arrow.field("a").type == pa.list_(pa.field("element", pa.null()))
    assert [not arrow.field(name).nullable for name in "abms"] == [True] * 4


def test_a_map_without_a_type_of_its_keys_is_refused_and_the_cast_is_named() -> None:
    nothing = spark.MapType(spark.NullType(), spark.NullType(), False)
    source = spark.StructType([spark.StructField("s", spark.StructType([spark.StructField("m", nothing)]))])
    with pytest.raises(UnsupportedFeatureError, match=r"s\.m  map with keys of no type: .*cast\(map\(\) as"):
        frame_schema(source)
