"""Schemas: Delta JSON <-> our tree <-> Arrow, judged by golden tables, deltalake and Spark's documented JSON."""

from __future__ import annotations

import json
from typing import Any

import deltalake
import orjson
import pyarrow as pa
import pytest

from txlog.core.format.schema import (
    ARROW_METADATA_KEY,
    BINARY,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Struct,
    from_arrow,
    leaf_paths,
    parse_schema,
    schema_to_json,
    to_arrow,
    type_name,
)
from txlog.core.format.schema_input import SCHEMA_EXAMPLE, from_any
from txlog.errors import CorruptLogError, InvalidInputError, UnsupportedFeatureError

EVERY_PRIMITIVE = ("string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary", "date")


def field_json(
    name: str, kind: object, *, nullable: bool = True, metadata: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata or {}}


def struct_json(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


NESTED = struct_json(
    *(field_json(name, name, nullable=False) for name in EVERY_PRIMITIVE),
    field_json("t", "timestamp", metadata={"comment": "when", "n": 7, "f": 1.5, "list": [1, 2], "deep": {"a": None}}),
    field_json("ntz", "timestamp_ntz"),
    field_json("d38", "decimal(38,38)"),
    field_json("d1", "decimal(1,0)"),
    field_json(
        "outer",
        struct_json(
            field_json("inner", struct_json(field_json("größe", "integer", metadata={"x": "é"})), nullable=False),
            field_json("list", {"type": "array", "elementType": "date", "containsNull": False}),
        ),
    ),
    field_json(
        "map",
        {
            "type": "map",
            "keyType": "string",
            "valueType": {"type": "array", "elementType": struct_json(field_json("x", "binary")), "containsNull": True},
            "valueContainsNull": False,
        },
    ),
)
NESTED_TEXT = json.dumps(NESTED, ensure_ascii=False, separators=(",", ":"))


def test_a_schema_with_every_type_is_written_back_character_for_character() -> None:
    assert schema_to_json(parse_schema(NESTED_TEXT)) == NESTED_TEXT


def test_a_schema_survives_arrow_whole_with_nested_metadata_and_nullability() -> None:
    schema = parse_schema(NESTED_TEXT)
    assert from_arrow(to_arrow(schema)) == schema


def test_every_golden_schema_string_is_written_back_equal(golden_lines: list[tuple[str, dict[str, Any]]]) -> None:
    texts = [line["metaData"]["schemaString"] for _, line in golden_lines if "schemaString" in line.get("metaData", {})]
    assert len(texts) > 100
    for text in texts:
        assert orjson.loads(schema_to_json(parse_schema(text))) == orjson.loads(text)


def test_every_golden_schema_has_an_arrow_form_that_reads_back(
    golden_lines: list[tuple[str, dict[str, Any]]],
) -> None:
    for table, line in golden_lines:
        text = line.get("metaData", {}).get("schemaString")
        if text is not None:
            schema = parse_schema(text)
            assert from_arrow(to_arrow(schema)) == schema, table


def test_a_table_has_the_arrow_types_that_deltalake_reads() -> None:
    theirs = pa.schema(deltalake.Schema.from_json(NESTED_TEXT))
    ours = to_arrow(parse_schema(NESTED_TEXT))
    assert [f.name for f in ours] == [f.name for f in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        read_back = [from_arrow(pa.schema([f])).fields[0].type for f in (mine, other)]
        assert type_name(read_back[0]) == type_name(read_back[1])
        assert mine.nullable == other.nullable


def test_deltalake_reads_our_schema_text_as_its_own() -> None:
    text = schema_to_json(parse_schema(NESTED_TEXT))
    assert json.loads(deltalake.Schema.from_json(text).to_json()) == NESTED


def test_timestamps_become_microseconds_in_utc_or_without_a_zone() -> None:
    schema = to_arrow(Struct((Field("t", TIMESTAMP), Field("n", TIMESTAMP_NTZ))))
    assert schema.types == [pa.timestamp("us", "UTC"), pa.timestamp("us")]


@pytest.mark.parametrize(
    ("arrow", "delta"),
    [
        (pa.uint8(), SHORT),
        (pa.uint16(), INTEGER),
        (pa.uint32(), LONG),
        (pa.uint64(), Decimal(20, 0)),
        (pa.int8(), BYTE),
        (pa.float16(), FLOAT),
        (pa.large_string(), STRING),
        (pa.string_view(), STRING),
        (pa.dictionary(pa.int32(), pa.large_string()), STRING),
        (pa.run_end_encoded(pa.int32(), pa.float64()), DOUBLE),
        (pa.binary(7), BINARY),
        (pa.large_binary(), BINARY),
        (pa.binary_view(), BINARY),
        (pa.date64(), DATE),
        (pa.timestamp("ns"), TIMESTAMP_NTZ),
        (pa.timestamp("s", "Asia/Tokyo"), TIMESTAMP),
        (pa.timestamp("ms", "+02:00"), TIMESTAMP),
        (pa.decimal256(38, 10), Decimal(38, 10)),
        (pa.decimal32(5, 2), Decimal(5, 2)),
        (pa.null(), VOID),
        (pa.list_(pa.int8(), 3), Array(BYTE)),
        (pa.large_list(pa.field("x", pa.int8(), nullable=False)), Array(BYTE, contains_null=False)),
        (pa.list_view(pa.int8()), Array(BYTE)),
        (pa.large_list_view(pa.int8()), Array(BYTE)),
        (pa.map_(pa.string_view(), pa.uint8()), Map(STRING, SHORT)),
        (pa.struct([("a", pa.null())]), Struct((Field("a", VOID),))),
    ],
    ids=str,
)
def test_arrow_type_becomes_the_delta_type_that_loses_nothing(arrow: pa.DataType, delta: DataType) -> None:
    assert from_arrow(pa.schema([("c", arrow)])) == Struct((Field("c", delta),))


@pytest.mark.parametrize(
    "arrow",
    [
        pa.time64("us"),
        pa.duration("s"),
        pa.decimal256(39, 0),
        pa.decimal128(5, -2),
        pa.month_day_nano_interval(),
        pa.dense_union([pa.field("a", pa.int8())]),
    ],
    ids=str,
)
def test_an_arrow_type_delta_cannot_hold_is_refused_by_column_and_type(arrow: pa.DataType) -> None:
    deep = pa.schema([("outer", pa.struct([("list", pa.list_(arrow))]))])
    with pytest.raises(InvalidInputError) as raised:
        from_arrow(deep)
    assert "outer.list.element" in str(raised.value)
    assert str(arrow) in str(raised.value)


def test_a_comment_in_arrow_metadata_is_kept_and_other_arrow_metadata_is_not_deltas() -> None:
    arrow = pa.schema([pa.field("a", pa.int8(), metadata={"comment": "né", "PARQUET:field_id": "1"})])
    assert from_arrow(arrow).fields[0].metadata == {"comment": "né"}


def test_delta_metadata_in_arrow_that_is_no_json_object_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="column a"):
        from_arrow(pa.schema([pa.field("a", pa.int8(), metadata={ARROW_METADATA_KEY: b"[1]"})]))


def test_void_and_variant_parse_and_are_written_back() -> None:
    text = json.dumps(struct_json(field_json("v", "variant"), field_json("n", "void")), separators=(",", ":"))
    schema = parse_schema(text)
    assert [f.type for f in schema.fields] == [VARIANT, VOID]
    assert schema_to_json(schema) == text


@pytest.mark.parametrize(
    ("old", "new"), [("null", "void"), ("timestamp_ltz", "timestamp"), ("decimal", "decimal(10,0)")]
)
def test_older_spellings_of_types_are_understood(old: str, new: str) -> None:
    parsed = parse_schema(json.dumps(struct_json(field_json("a", old))))
    assert parsed == parse_schema(json.dumps(struct_json(field_json("a", new))))


def test_metadata_may_be_absent() -> None:
    text = '{"type":"struct","fields":[{"name":"a","type":"long","nullable":false}]}'
    assert parse_schema(text) == Struct((Field("a", LONG, nullable=False),))


@pytest.mark.parametrize("kind", ["interval", "geometry(OGC:CRS84)", "char(5)", "time(6)", "bigint"])
def test_an_unknown_type_is_refused_by_column_and_name(kind: str) -> None:
    text = json.dumps(struct_json(field_json("s", struct_json(field_json("g", kind)))))
    with pytest.raises(UnsupportedFeatureError) as raised:
        parse_schema(text)
    assert "column s.g" in str(raised.value)
    assert raised.value.features == (kind,)


def test_a_user_defined_type_is_refused_and_named() -> None:
    with pytest.raises(UnsupportedFeatureError, match="'udt'"):
        parse_schema(json.dumps(struct_json(field_json("u", {"type": "udt", "class": "x", "sqlType": "string"}))))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '"long"',
        '{"type":"array","elementType":"long","containsNull":true}',
        '{"type":"struct"}',
        '{"type":"struct","fields":{}}',
        '{"type":"struct","fields":[1]}',
        '{"type":"struct","fields":[{"name":1,"type":"long","nullable":true,"metadata":{}}]}',
        '{"type":"struct","fields":[{"name":"a","type":"long","nullable":"yes","metadata":{}}]}',
        '{"type":"struct","fields":[{"name":"a","type":"long","nullable":1,"metadata":{}}]}',
        '{"type":"struct","fields":[{"name":"a","type":null,"nullable":true,"metadata":{}}]}',
        '{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":[]}]}',
        '{"type":"struct","fields":[{"name":"a","type":"decimal(39,0)","nullable":true,"metadata":{}}]}',
        '{"type":"struct","fields":[{"name":"a","type":"decimal(3,4)","nullable":true,"metadata":{}}]}',
        '{"type":"struct","fields":[{"name":"a","type":{"type":"array","elementType":"long"},"nullable":true}]}',
        '{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}}]} trailing',
    ],
)
def test_a_malformed_schema_is_a_corrupt_log_and_as_an_argument_a_bad_call(text: str) -> None:
    with pytest.raises(CorruptLogError):
        parse_schema(text)
    with pytest.raises(InvalidInputError):
        from_any(text)


def test_nesting_deeper_than_any_stack_is_refused_with_a_typed_error() -> None:
    kind: object = "long"
    for _ in range(300):
        kind = {"type": "array", "elementType": kind, "containsNull": True}
    with pytest.raises(UnsupportedFeatureError, match="deeper"):
        parse_schema(json.dumps(struct_json(field_json("a", kind))))


def test_the_deepest_schema_that_parses_can_be_written_back() -> None:
    kind: object = "long"
    while True:
        text = json.dumps(struct_json(field_json("a", kind)))
        try:
            schema = parse_schema(text)
        except UnsupportedFeatureError:
            break
        assert json.loads(schema_to_json(schema)) == json.loads(text)
        kind = struct_json(field_json("a", kind))


@pytest.mark.parametrize("metadata", [{"a": object()}, {"a": 2**65}, {"a": "\ud800"}])
def test_metadata_that_json_cannot_hold_is_a_bad_call(metadata: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="JSON"):
        schema_to_json(Struct((Field("a", LONG, metadata=metadata),)))
    with pytest.raises(InvalidInputError, match="JSON"):
        to_arrow(Struct((Field("a", LONG, metadata=metadata),)))


def test_from_any_takes_each_form_in_which_callers_hold_a_schema() -> None:
    schema = parse_schema(NESTED_TEXT)

    class Capsule:
        def __arrow_c_schema__(self) -> object:
            return to_arrow(schema).__arrow_c_schema__()

    for form in (schema, to_arrow(schema), NESTED_TEXT, NESTED_TEXT.encode(), NESTED, Capsule()):
        assert from_any(form) == schema


def test_from_any_takes_a_spark_schema_by_its_json() -> None:
    types = pytest.importorskip("pyspark.sql.types", reason="NOT TESTED: PySpark is not installed")

    spark = types.StructType(
        [
            types.StructField("i", types.IntegerType(), False, {"comment": "c"}),
            types.StructField("m", types.MapType(types.StringType(), types.DecimalType(38, 18), False)),
            types.StructField("a", types.ArrayType(types.TimestampNTZType(), True)),
        ]
    )
    assert schema_to_json(from_any(spark)) == schema_to_json(parse_schema(spark.json()))
    assert json.loads(schema_to_json(from_any(spark))) == spark.jsonValue()


def test_from_any_takes_a_dict_of_ddl_types_by_column_name() -> None:
    types = {"id": "bigint not null", "a`b": "array<string>", "d": "decimal(10, 2) comment 'in euros'"}
    assert from_any(types) == Struct(
        (
            Field("id", LONG, nullable=False),
            Field("a`b", Array(STRING)),
            Field("d", Decimal(10, 2), True, {"comment": "in euros"}),
        )
    )


def test_ddl_keeps_the_expressions_of_generated_columns_and_defaults_as_they_are_written() -> None:
    found = from_any(
        """day date GENERATED ALWAYS AS (CAST(ts AS DATE)) COMMENT 'x (default), ', n int DEFAULT (1+2)*3 not null,
        s string DEFAULT 'a, ) not' COMMENT 'generated always as (', at timestamp DEFAULT current_timestamp(),
        g string GENERATED ALWAYS AS (concat(substr(s,1,2), "x)")), d date default date '2026-01-01', q int default -7,
        `default` int"""
    )
    assert {field.name: {**field.metadata} for field in found.fields} == {
        "day": {"delta.generationExpression": "CAST(ts AS DATE)", "comment": "x (default), "},
        "n": {"CURRENT_DEFAULT": "(1+2)*3"},
        "s": {"CURRENT_DEFAULT": "'a, ) not'", "comment": "generated always as ("},
        "at": {"CURRENT_DEFAULT": "current_timestamp()"},
        "g": {"delta.generationExpression": 'concat(substr(s,1,2), "x)")'},
        "d": {"CURRENT_DEFAULT": "date '2026-01-01'"},
        "q": {"CURRENT_DEFAULT": "-7"},
        "default": {},
    }
    assert [field.name for field in found.fields if not field.nullable] == ["n"]


@pytest.mark.parametrize(
    ("ddl", "why"),
    [
        ("m bigint generated always as identity (start with x)", "START WITH and INCREMENT BY take whole numbers"),
        ("s struct<a int default 1>", "not in structs: not DEFAULT 1"),
        ("default int default 4", "put names that are words of SQL into backticks"),
        ("a int default", "cannot be read"),
        ("a bigint generated always as ()", "an expression after GENERATED cannot be found"),
    ],
)
def test_ddl_with_another_rule_for_values_is_refused(ddl: str, why: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        from_any(ddl)
    assert why in str(raised.value)


def test_identity_columns_and_defaults_stand_in_one_ddl() -> None:
    found = from_any("n bigint generated by default as identity, d int default 4, s string default 'by'")
    assert [dict(field.metadata).get("CURRENT_DEFAULT") for field in found.fields] == [None, "4", "'by'"]
    assert found.fields[0].metadata["delta.identity.allowExplicitInsert"] is True


def test_a_column_list_may_be_in_parentheses_as_in_create_table() -> None:
    assert from_any(" (id bigint, price decimal(9,2))") == from_any("id bigint, price decimal(9,2)")
    assert from_any("price decimal(9,2)").names == ("price",)


def test_a_column_may_have_a_name_that_is_a_word_of_sql() -> None:
    assert from_any("default int, generated int").names == ("default", "generated")


@pytest.mark.parametrize(
    ("types", "why"),
    [
        ({"id": "bigint, b int"}, "column 'id' must have one type, has 'bigint, b int'"),
        ({"id": "uuid"}, "column 'id': UUID is not a type of Delta tables"),
        ({"id": ""}, "the column list '`id` ' is not of the form"),
        ({"id": "bigint", "n": 5}, "or {'id': 'bigint'}, a Spark StructType"),
    ],
)
def test_a_dict_with_a_wrong_type_names_the_column_or_shows_a_right_one(types: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        from_any(types)
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        (7, "this int is not a schema: give a pyarrow.Schema"),
        (None, "this None is not a schema: give"),
        ([("a", "long")], "this list is not a schema: give"),
        ({}, "this dict is not a schema (it has no columns): give"),
        ({"a": int}, "this dict is not a schema (the type of column 'a' is the class int): give"),
        ({"a": pa.int64(), "b": "string"}, "this dict is not a schema (its types are pyarrow's in part, and names in"),
        ({"type": "long"}, "this dict is not a schema (the outermost type must be a struct): give"),
    ],
)
def test_from_any_refuses_what_is_not_a_schema_and_says_why(form: object, problem: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        from_any(form)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"id bigint", "it is not JSON, from line 1, column 1 on"),
        ('{"type": "struct",\n "fields": [}', "it is not JSON, from line 2, column 13 on"),
        (b"", "it is not JSON, from line 1, column 1 on"),
        ('"long"', "it must be an object, not a string"),
        ("{}", "it has no 'type'"),
        ('{"type": "struct", "fields": {}}', "it must have a list as 'fields', not an object"),
        ('{"type": "struct", "fields": [{"name": 1}]}', "it must have a string as 'name', not a number"),
        (
            '{"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": "no"}]}',
            "column a must have true or false as 'nullable', not a string",
        ),
    ],
)
def test_a_string_that_is_not_a_schema_is_reported_in_the_words_of_json(text: str | bytes, why: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        from_any(text)
    assert f"this string is not a schema ({why})" in str(raised.value)


def test_the_example_schema_in_error_messages_is_valid() -> None:
    assert from_any(SCHEMA_EXAMPLE) == Struct((Field("id", LONG, nullable=False),))


def test_leaf_paths_enter_structs_but_not_arrays_and_maps() -> None:
    paths = [path for path, _ in leaf_paths(parse_schema(NESTED_TEXT))]
    assert paths[-4:] == [("d1",), ("outer", "inner", "größe"), ("outer", "list"), ("map",)]


def test_fields_are_found_without_regard_to_case() -> None:
    schema = Struct((Field("Straße", LONG), Field("b", LONG)))
    assert schema.find("STRASSE") is None
    assert schema.find("straße") == schema.fields[0]
    assert schema.without(("B",)).names == ("Straße",)


def test_types_are_named_as_sql_names_them() -> None:
    assert type_name(Map(STRING, Array(Struct((Field("a", INTEGER), Field("d", Decimal(10, 2))))))) == (
        "map<string,array<struct<a:int,d:decimal(10,2)>>>"
    )
