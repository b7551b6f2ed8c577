"""Variants of Spark, and of its Delta tables: what both read, write, change and compute is the same."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from spark_helpers import save

import txlog
from txlog import variant
from txlog.core.format.schema import from_arrow
from txlog.core.predicates import evaluate, parse
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[[Path], "DataFrame"]

TEXTS = [
    '{"a":1,"b":"x","c":[1,2,{"d":null}]}',
    *("null", "5", '"s"', "true", '[1,"2",3.5,1e3,true]', "1.10", "-129", "{}", "[]", "1E2", "0.0", "-0.0"),
    *("123456789012345678901234567890", "9223372036854775808", "12345678901234567890123456789012345678901"),
    *('"7"', '" 8 "', '"2024-02-29"', '"2024-02-29 01:02:03"', '"true"', '"1.5"', "300", "70000", "1.5", "-1.5e0"),
    *('{"b":"2024-01-01","a":2}', '{"é":1,"z":2,"":3}', '"' + "x" * 70 + '"', '"\\u00e9\\n\\"\\\\"', "[[],[[1]]]"),
    *('[{"a":1},{"b":2.5},{"a":"x"}]', "[1,2.5]", "[1,1e0]", "[null,1]", '[{"a":1},{"a":2.25,"b":[]}]'),
    None,
]
VALUES = [
    datetime.date(2024, 1, 2),
    datetime.datetime(2024, 1, 2, 3, 4, 5, 600000),
    datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
    *(decimal.Decimal("1.50"), b"abc", 1.5, math.nan, math.inf, -0.0, 1e10, 1e-5, 123456789.0, 2**31, -(2**63)),
]
SAME = [
    f'{{"a":{at},"b":"x{at}","c":[{at},2],"d":{{"e":1.5,"f":true}},"g":[{{"h":{at}}},{{"i":[null,"y"]}},3]}}'
    for at in range(100)
]
ODD = ["null", '{"a":"odd","q":[1]}', "5", '{"b":null}', None, '{"c":{"x":1}}', '{"d":{"e":1.25},"a":1.5}', "[1]"]
TYPES = ["string", "boolean", "tinyint", "int", "bigint", "double", "float", "decimal(10,2)", "date", "timestamp"]


def by_id(table: txlog.Table) -> dict[int, str | None]:
    rows = table.to_arrow()
    return dict(zip(rows["id"].to_pylist(), variant.to_json(rows["v"]).to_pylist(), strict=True))


def by_spark(frame: DataFrame) -> dict[int, str | None]:
    return {row[0]: row[1] for row in frame.selectExpr("id", "to_json(v)").collect()}


def numbered(variants: pa.Array, first: int = 0) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + len(variants)), pa.int32()), "v": variants})


def _plain(value: object) -> object:
    """A map as a dict, whoever gave it, and a row too."""
    if hasattr(value, "asDict"):
        return {name: _plain(each) for name, each in value.asDict().items()}
    if isinstance(value, list):
        is_map = bool(value) and all(isinstance(each, tuple) for each in value)
        return dict(value) if is_map else [_plain(each) for each in value]
    return {name: _plain(each) for name, each in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize(
    ("properties", "texts"),
    [
        pytest.param("'delta.enableChangeDataFeed' = 'true'", TEXTS, marks=pytest.mark.hunt(part="spark")),
        ("'delta.feature.variantType-preview' = 'supported', 'delta.enableDeletionVectors' = 'true'", TEXTS),
        ("'delta.enableVariantShredding' = 'true'", [*SAME, *ODD]),
    ],
)
def test_a_table_of_spark_is_read_appended_to_and_changed_and_spark_reads_it(
    spark: SparkSession, read_delta: Read, tmp_path: Path, properties: str, texts: list[str | None]
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    name = f"delta.`{tmp_path}`"
    spark.sql(f"create table {name} (id int, v variant) using delta tblproperties ({properties})")
    spark.createDataFrame(list(enumerate(texts)), "id int, j string").coalesce(1).createOrReplaceTempView("texts")
    spark.sql(f"insert into {name} select id, parse_json(j) from texts")
    table = txlog.Table.open(tmp_path)
    assert by_id(table) == by_spark(read_delta(tmp_path)) != {}

    table.append(numbered(variant.parse_json(["[7]", None, '{"new":1}']), 500))
    table.append(numbered(variant.from_python(VALUES), 600))
    table.delete("id = 2")
    table.update({"id": txlog.expr("id + 1000")}, where="id < 10")
    table.merge(
        numbered(variant.parse_json(['"merged"', '"inserted"']), 502), on="target.id = source.id"
    ).when_matched_update_all().when_not_matched_insert_all().execute()
    expected = by_spark(read_delta(tmp_path))
    assert (expected[502], expected[503], expected[600]) == ('"merged"', '"inserted"', '"2024-01-02"')
    assert by_id(table) == expected
    table.optimize()
    assert by_id(table) == by_spark(read_delta(tmp_path)) == expected

    spark.sql(f"update {name} set v = parse_json('[\"by Spark\"]') where id = 503")
    assert by_id(table)[503] == '["by Spark"]'
    assert not table.verify().findings


def test_a_table_of_txlog_is_read_and_changed_by_spark(spark: SparkSession, read_delta: Read, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    table = txlog.Table.create(tmp_path, "id int, v variant, many array<variant>, s struct<w: variant>")
    table.append(numbered(variant.parse_json(TEXTS)))
    table.append(numbered(variant.from_python(VALUES), 100))
    assert by_id(table) == by_spark(read_delta(tmp_path))
    shapes = {row[0]: row[1] for row in read_delta(tmp_path).selectExpr("id", "schema_of_variant(v)").collect()}
    rows = table.to_arrow()
    ours = evaluate(parse("schema_of_variant(v)", from_arrow(rows.schema)), rows).to_pylist()
    assert dict(zip(rows["id"].to_pylist(), ours, strict=True)) == shapes

    spark.sql(
        f"insert into delta.`{tmp_path}` select 500, parse_json('[]'), array(parse_json('1')),"
        " named_struct('w', parse_json('2'))"
    )
    spark.sql(f"delete from delta.`{tmp_path}` where id = 3")
    assert by_id(table) == by_spark(read_delta(tmp_path))
    new = table.to_arrow(where="id = 500")
    assert variant.to_python(new["many"].chunk(0).flatten()) == [1]
    assert variant.to_python(new["s"].chunk(0).flatten()[0]) == [2]


def test_spark_writes_and_reads_variants_by_the_format_txlog(
    spark: SparkSession, read_delta: Read, tmp_path: Path
) -> None:
    frame = spark.createDataFrame(list(enumerate(TEXTS)), "id int, j string").selectExpr(
        "id", "parse_json(j) v", "array(parse_json(j)) many", "named_struct('w', parse_json(j)) s"
    )
    save(frame, tmp_path)
    save(frame.selectExpr("id + 100 as id", "v", "many", "s"), tmp_path)
    theirs = by_spark(read_delta(tmp_path))
    assert len(theirs) == 2 * len(TEXTS)
    assert by_id(txlog.Table.open(tmp_path)) == theirs
    loaded = spark.read.format("txlog").load(str(tmp_path))
    assert loaded.schema.simpleString() == "struct<id:int,v:variant,many:array<variant>,s:struct<w:variant>>"
    assert by_spark(loaded) == theirs
    nested = loaded.selectExpr("id", "to_json(many[0]) = to_json(s.w) or v is null").where("id >= 0").collect()
    assert all(same for _, same in nested)


def test_parts_of_variants_have_sparks_values(delta: SparkSession, tmp_path: Path) -> None:
    """Of each value, as each type; a value that is none of the type is NULL for both."""
    delta.conf.set("spark.sql.session.timeZone", "UTC")
    table = txlog.Table.create(tmp_path, "id int, v variant")
    table.append(numbered(variant.parse_json(TEXTS)))
    table.append(numbered(variant.from_python(VALUES), 100))
    texts = [f"try_variant_get(v, '$', '{each}')" for each in TYPES]
    texts += [f"try_cast(v as {each})" for each in TYPES]
    texts += [
        "variant_get(v, '$.a', 'string')",
        "v:c[1]::int",
        "try_variant_get(v, '$.c[2].d', 'int')",
        "v:c[0]::string",
    ]
    texts += ["variant_get(v, '$[\"é\"]', 'int')", "is_variant_null(v)", "is_variant_null(v:c[2].d)", "to_json(v:c)"]
    texts += ["to_json(variant_get(v, '$[1]'))", "v:a is null", "cast(v as string)", "schema_of_variant(v:c)"]
    nested = ("array<string>", "array<int>", "map<string,string>", "struct<a: string, b: double>", "array<array<int>>")
    plain = [f"try_variant_get(v, '$', '{each}')" for each in nested]
    plain += ["try_variant_get(v, '$.c', 'array<int>')", "try_variant_get(v, '$', 'struct<c: array<string>, z: int>')"]
    texts += plain
    frame = delta.read.format("delta").load(str(tmp_path)).selectExpr("id", *texts).orderBy("id")
    theirs = [list(row) for row in frame.collect()]
    rows = table.to_arrow().sort_by("id")
    schema = from_arrow(rows.schema)
    compared = unknown = 0
    for column, text in enumerate(texts, 1):
        bound = parse(text, schema)
        for row, expected in enumerate(theirs):
            try:
                found = evaluate(bound, rows.slice(row, 1)).to_pylist()[0]
            except InvalidInputError as error:
                assert "engines differ" in str(error) or "not a value of type" in str(error), (text, row, str(error))  # noqa: PT017
                unknown += 1
                continue
            compared += 1
            wanted = expected[column]
            if texts[column - 1] in plain:
                wanted = _plain(wanted)
                found = {} if wanted == {} and found == [] else _plain(found)
            if isinstance(wanted, datetime.datetime):
                wanted = wanted.replace(tzinfo=datetime.timezone.utc)
            assert found == wanted or (found != found and wanted != wanted), (
                text,
                rows["id"][row].as_py(),
                found,
                wanted,
            )
    assert unknown < compared / 20


def test_conditions_and_assignments_on_parts_of_variants_choose_sparks_rows(
    spark: SparkSession, read_delta: Read, tmp_path: Path
) -> None:
    table = txlog.Table.create(tmp_path / "t", "id int, v variant, a string generated always as (v:b::string)")
    table.append(numbered(variant.parse_json([*SAME, *ODD])))
    spark.sql(f"create table delta.`{tmp_path / 's'}` using delta as select id, v from delta.`{tmp_path / 't'}`")
    table.add_constraint("small", "try_variant_get(v, '$.a', 'int') is null or v:a::int < 1000")
    where = "try_variant_get(v, '$.a', 'int') > 50 or v:c[0]::int = 3"
    table.delete(where)
    spark.sql(f"delete from delta.`{tmp_path / 's'}` where {where}")
    table.update({"v": txlog.expr("""parse_json('{"a":' || id || '}')""")}, where="is_variant_null(v)")
    spark.sql(
        f"""update delta.`{tmp_path / "s"}` set v = parse_json('{{"a":' || id || '}}') where is_variant_null(v)"""
    )
    assert by_id(table) == by_spark(read_delta(tmp_path / "s")) == by_spark(read_delta(tmp_path / "t"))
    with pytest.raises(txlog.InvalidInputError, match="small"):
        table.append(numbered(variant.parse_json(['{"a":1000}'])))
    assert json.loads(json.dumps(table.to_arrow(where="id = 1")["a"].to_pylist())) == ["x1"]


def test_row_changes_streams_and_sql_in_spark_keep_variants(
    spark: SparkSession, read_delta: Read, tmp_path: Path
) -> None:
    uri = str(tmp_path / "t")
    texts = spark.createDataFrame([(at, text) for at, text in enumerate(SAME[:20])], "id int, j string")
    save(texts.selectExpr("id", "parse_json(j) v"), tmp_path / "t")
    changed = spark.createDataFrame([(1, "[1]"), (50, "null"), (51, None)], "id int, j string")
    rows = changed.selectExpr("id", "parse_json(j) v")
    txlog.spark.upsert(spark, uri, rows, "id")
    txlog.spark.delete(spark, uri, "try_variant_get(v, '$.a', 'int') between 5 and 9")
    txlog.spark.update(spark, uri, {"v": txlog.expr("v:d")}, "id = 2")
    merge = txlog.spark.merge(spark, uri, rows.selectExpr("id + 1 as id", "v"), "target.id = source.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    table = txlog.Table.open(uri)
    found = by_id(table)
    assert found == by_spark(read_delta(tmp_path / "t"))
    assert (found[1], found[2], found[50], found[51], found[52]) == ("[1]", "[1]", "null", "null", None)
    assert 5 not in found

    stream = spark.readStream.format("txlog").load(uri).writeStream.format("txlog")
    stream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start(
        str(tmp_path / "copy")
    ).awaitTermination()
    assert by_id(txlog.Table.open(tmp_path / "copy")) == found


@pytest.mark.hunt(part="spark")
def test_spark_reads_filters_and_changes_what_we_shredded(delta: SparkSession, tmp_path: Path) -> None:
    for key, value in (("factoryMode", "FALLBACK"), ("wholeStage", "true")):  # Spark filters shredded parts only so
        delta.conf.set(f"spark.sql.codegen.{key}", value)
    table = txlog.Table.create(
        tmp_path / "t",
        "id bigint, v variant, s struct<w: variant>",
        properties={
            "delta.enableVariantShredding": "true",
            "delta.checkpoint.writeStatsAsStruct": "true",
            "delta.checkpoint.writeStatsAsJson": "false",
        },
    )
    for first in (0, 1000, 2000):
        numbers = range(first, first + 20)
        values = [
            {
                "a": n,
                "b": {"c": f"n{n}", "d": decimal.Decimal(n) / 4},
                "odd": n if n % 2 else "x",
                "l": [{"k": n, "m": [f"m{n}", None]}, {"k": "x", "z": 1}][: n % 3],
                "n": [n, n + 1],
            }
            for n in numbers
        ]
        made = variant.from_python(values)
        structs = pa.StructArray.from_arrays([made], fields=list(table.to_arrow().schema.field("s").type))
        table.append(pa.table({"id": list(numbers), "v": made, "s": structs}))
    table.create_checkpoint()
    name = f"delta.`{tmp_path}/t`"
    for condition in (
        "variant_get(v, '$.a', 'long') > 2015",
        "v:b.c::string = 'n1003'",
        "v:b.d::decimal(10, 2) = 0.75",
        "try_variant_get(v, '$.odd', 'int') = 1001",
        "v:n[1]::int = 2004",
        "v:l[0].m[0]::string = 'm1003'",
        "try_variant_get(v, '$.l[1].k', 'int') is null and v:l[0].k::int > 2010",
        "s.w:b.c::string = 'n1003'",
        "s.w:n[0]::int = 7",
    ):
        found = sorted(row.id for row in delta.sql(f"select id from {name} where {condition}").collect())
        assert found == sorted(table.to_arrow(["id"], where=condition)["id"].to_pylist()), condition
        assert found
    ours = {*table.files()["path"].to_pylist()}
    delta.sql(f"update {name} set id = -1 where variant_get(v, '$.a', 'long') = 1005")
    delta.sql(f"insert into {name} select 9999, parse_json('{{\"a\":9999}}'), null")
    log: Any = delta._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(delta._jsparkSession, f"{tmp_path}/t")
    log.checkpoint()  # with the bounds that it read from ours
    table = txlog.Table.open(table.uri)
    for each, count in (("v:a::int = 5", 1), ("s.w:b.c::string = 'n2005'", 2)):
        assert len(ours & {*table.files(where=each)["path"].to_pylist()}) == count  # n2005 lies between n2 and n9 too
    assert table.to_arrow(["id"], where="v:a::int IN (1005, 9999)")["id"].to_pylist() in ([-1, 9999], [9999, -1])
    frame = delta.read.format("delta").load(str(tmp_path / "t"))
    assert by_spark(frame) == by_id(table)
    assert by_spark(frame.selectExpr("id", "s.w as v").where("id < 1000 and id >= 0")) == {
        each: text for each, text in by_id(table).items() if 0 <= each < 1000
    }
