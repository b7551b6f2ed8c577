"""What `txlog.spark.sql` asks of Spark, without a session: integration/test_spark_sql.py runs it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, IntegerType, StructType

from txlog.errors import InvalidInputError
from txlog.protocol.schema import from_arrow
from txlog.spark.statements import SparkEngine


class Rows:
    """A DataFrame of one column, an array of structs, which returns the texts that it would select."""

    def __init__(self, *names: str) -> None:
        element = StructType()
        for name in names:
            element.add(name, IntegerType())
        self.schema = StructType().add("l", ArrayType(element))
        self.columns = ["l"]

    def toDF(self, *names: str) -> Rows:
        return self

    def selectExpr(self, *texts: str) -> tuple[str, ...]:
        return texts


def test_by_name_refuses_a_struct_that_sparks_cast_would_give_by_position() -> None:
    fields = from_arrow(pa.schema({"l": pa.list_(pa.struct({"x": pa.int32(), "y": pa.int32()}))})).fields
    engine = SparkEngine(None)  # type: ignore[arg-type]

    def selected(*names: str, by_name: bool) -> Any:
        return engine.stored(Rows(*names), fields, {}, by_name=by_name)  # type: ignore[arg-type]

    cast = ("CAST(c0 AS array<struct<x:int,y:int>>) AS `l`",)
    assert selected("y", "x", by_name=False) == selected("X", "y", by_name=True) == cast
    with pytest.raises(InvalidInputError, match=r"column l.element is a struct of x, y: give its fields in this order"):
        selected("y", "x", by_name=True)
    with pytest.raises(InvalidInputError, match="BY NAME needs each of them once"):
        selected("x", by_name=True)
