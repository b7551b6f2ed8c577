"""The lengths of varchar and char columns: which columns have one, and which rows break it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from txlog.core.format.schema import LONG, STRING, Array, DataType, Field, Map, Struct, to_arrow
from txlog.core.row_rules._text_limits import limits_of
from txlog.errors import UnsupportedFeatureError

NESTED = Struct((Field("v", STRING), Field("c", STRING), Field("later", STRING)))


def described(data_type: DataType, text: str) -> Struct:
    return Struct((Field("x", data_type, metadata={"__CHAR_VARCHAR_TYPE_STRING": text}),))


@pytest.mark.parametrize(
    ("data_type", "text", "limits"),
    [
        (STRING, "varchar(3)", {"x": 3}),
        (STRING, "char(12)", {"x": 12}),
        (STRING, "string", {}),
        (LONG, "bigint", {}),
        (NESTED, "struct<v:varchar(3),c:char(4)>", {"x.v": 3, "x.c": 4}),
        (NESTED, "struct<`v`: varchar(3) COMMENT 'it, is', c:string>", {"x.v": 3}),
        (Struct((Field("a:b`", STRING),)), "struct<`a:b```:varchar(1)>", {"x.a:b`": 1}),
        (Array(STRING), "array<varchar(3)>", {"x.element": 3}),
        (
            Map(STRING, Array(NESTED)),
            "map<varchar(2),array<struct<v:char(1)>>>",
            {"x.element": 2, "x.value.element.v": 1},
        ),
        (Struct((Field("n", LONG), Field("v", STRING))), "struct<n:decimal(10,2),v:varchar(3)>", {"x.v": 3}),
    ],
)
def test_the_limits_follow_the_type_that_spark_wrote(data_type: DataType, text: str, limits: dict[str, int]) -> None:
    assert {limit.name: limit.length for limit in limits_of(described(data_type, text))} == limits


def test_a_member_of_a_struct_may_describe_itself() -> None:
    schema = Struct((Field("x", Array(described(STRING, "varchar(2)"))),))
    assert [(limit.name, limit.length) for limit in limits_of(schema)] == [("x.element.x", 2)]


@pytest.mark.parametrize("text", ["", "varchar(3", "array<varchar(3)", "struct<v>", "array<varchar(3)>>", "map<a>"])
@pytest.mark.parametrize("data_type", [NESTED, Array(STRING), Map(STRING, STRING)])
def test_a_text_of_another_form_is_refused_by_the_name_of_its_column(text: str, data_type: DataType) -> None:
    with pytest.raises(UnsupportedFeatureError, match="column x has"):
        limits_of(described(data_type, text))


@pytest.mark.parametrize(
    ("data_type", "text", "values", "found"),
    [
        (STRING, "varchar(3)", ["abc", None, "abcd"], (2, 4)),
        (STRING, "varchar(3)", ["😀😀😀", "ééé", ""], None),
        (STRING, "char(3)", ["a", "abc "], (1, 4)),
        (NESTED, "struct<v:varchar(3),c:char(4)>", [None, {"c": "abcd"}, {"c": "abcde"}], (2, 5)),
        (Array(STRING), "array<varchar(3)>", [["a", "b"], None, [], ["abc", None], ["a", "abcdef"]], (4, 6)),
        (Map(STRING, STRING), "map<varchar(1),varchar(3)>", [[("a", "abc")], [("a", "abcd")]], (1, 4)),
        (Map(STRING, STRING), "map<varchar(1),varchar(3)>", [None, [("a", None), ("bc", "a")]], (1, 2)),
        (Array(Array(STRING)), "array<array<char(1)>>", [[["a"], None, []], [["a"], ["a", "bb"]]], (1, 2)),
    ],
)
def test_the_first_row_above_the_limit_is_found_also_in_a_part_of_a_batch(
    data_type: DataType, text: str, values: list[Any], found: tuple[int, int] | None
) -> None:
    schema = described(data_type, text)
    long = values[found[0]] if found else None
    rows = pa.RecordBatch.from_arrays([pa.array([long, *values], to_arrow(schema).field(0).type)], names=["x"])

    def first(batch: pa.RecordBatch) -> tuple[int, int] | None:
        places = [place for limit in limits_of(schema) if (place := limit.too_long(batch)) is not None]
        return places[0] if places else None

    assert first(rows.slice(1)) == found
    assert first(rows.slice(1, found[0] if found else None)) is None


def test_a_value_below_a_null_does_not_count() -> None:
    schema = described(Array(STRING), "array<varchar(1)>")
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()), pa.array(["long", "a"]), mask=pa.array([True, False])
    )
    (limit,) = limits_of(schema)
    assert limit.too_long(pa.RecordBatch.from_arrays([hidden], names=["x"])) is None
