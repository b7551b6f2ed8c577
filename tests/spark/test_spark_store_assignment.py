"""What `txlog.spark.sql` selects for an INSERT, without a session: integration/test_spark_sql.py runs it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, IntegerType, LongType, StructType

from txlog.core.format.schema import from_arrow
from txlog.errors import InvalidInputError
from txlog.spark.store_assignment import store_assignment

FIELDS = from_arrow(pa.schema({"l": pa.list_(pa.struct({"x": pa.int32(), "y": pa.int32()}))})).fields


def selected(*names: str, by_name: bool) -> list[str]:
    element = StructType()
    for name in names:
        element.add(name, IntegerType())
    return store_assignment([ArrayType(element)], FIELDS, by_name=by_name)[1]


def test_fields_of_structs_go_by_position_or_by_name_in_any_case() -> None:
    renamed = ["CAST(c0 AS array<struct<`x`:int,`y`:int>>) AS `l`"]
    assert selected("y", "x", by_name=False) == selected("X", "y", by_name=True) == renamed
    (reordered,) = selected("y", "x", by_name=True)
    assert "named_struct('x', CAST(e0.f1 AS int), 'y', CAST(e0.f0 AS int))" in reordered
    with pytest.raises(InvalidInputError, match="BY NAME needs each of them once"):
        selected("x", by_name=True)
    with pytest.raises(InvalidInputError, match="column l is a array<struct<x:int,y:int>>: it cannot store bigint"):
        store_assignment([LongType()], FIELDS, by_name=False)


def test_values_of_another_type_are_cast_alone_and_others_stay() -> None:
    fields = from_arrow(pa.schema({"a": pa.int32(), "b": pa.int64()})).fields
    _, (checked, plain) = store_assignment([LongType(), LongType()], fields, by_name=False)
    assert "try_cast(c0 AS int)" in checked
    assert "column a is a int: it cannot store" in checked
    assert plain == "CAST(c1 AS bigint) AS `b`"
