"""JSON, and parts of variants in conditions and SQL. Spark's values are in integration/test_spark_variants.py."""

from __future__ import annotations

import datetime
import decimal
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.variant_utils import VariantUtils

import txlog
from txlog import variant
from txlog.core.format.schema import from_arrow
from txlog.core.predicates import evaluate, parse
from txlog.errors import InvalidInputError
from txlog.variant.path import path_of

texts = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
).map(json.dumps)


@given(texts)
def test_json_has_the_values_that_pyspark_reads_of_it(text: str) -> None:
    if "\\ud8" in text or "\\udc" in text:  # half of a character
        return
    (found,) = variant.parse_json([text]).to_pylist()
    value, metadata = VariantUtils.parse_json(text)
    assert VariantUtils.to_python(found["value"], found["metadata"]) == VariantUtils.to_python(value, metadata)
    (shown,) = variant.to_json(variant.parse_json([text])).to_pylist()
    assert json.loads(shown) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("1 2", "not JSON"),
        ("NaN", "not JSON"),
        ("01", "not JSON"),
        ("'a'", "not JSON"),
        ('{"a":1,"a":2}', "the name 'a' twice"),
        ("1e400", "larger than all doubles"),
        ('"\\ud800"', "UTF-8"),
        ("[" * 400 + "]" * 400, "deeper than 300"),
        ("[" * 100_000, "nests too deep|not JSON"),
    ],
)
def test_a_text_that_is_no_json_is_refused_by_row_or_is_null(text: str, why: str) -> None:
    with pytest.raises(InvalidInputError, match=f"row 1 has no text of JSON for a variant: .*{why}"):
        variant.parse_json(["1", text])
    assert variant.to_json(variant.try_parse_json(["1", text, None])).to_pylist() == ["1", None, None]


def test_values_of_python_come_back() -> None:
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, 678000)
    values = [
        {"a": [1, None, b"x"]},
        moment,
        moment.replace(tzinfo=datetime.timezone.utc),
        decimal.Decimal("1.50"),
        None,
    ]
    made = variant.from_python(values)
    assert variant.to_python(made) == values
    assert variant.to_python(pa.chunked_array([made[:2], made[2:]])) == values
    assert variant.to_json(made, time_zone="Europe/Berlin").to_pylist()[1:3] == [
        '"2024-01-02 03:04:05.678"',
        '"2024-01-02 04:04:05.678+01:00"',
    ]
    with pytest.raises(InvalidInputError, match="row 0 has no value for a variant"):
        variant.from_python([object()])
    with pytest.raises(InvalidInputError, match="structs of the binaries value and metadata"):
        variant.to_python(pa.array([1]))
    with pytest.raises(InvalidInputError, match="a list or an Arrow array"):
        variant.parse_json("[1]")


def test_a_path_has_names_in_three_spellings_and_numbers() -> None:
    assert path_of("$") == ()
    assert path_of("$.a.b[0]['c d'][\"e.f\"][12].é") == ("a", "b", 0, "c d", "e.f", 12, "é")
    for text in ("", "a", "$a", "$.", "$.a.", "$[a]", "$[-1]", "$['a]", "$.a b.[0", "$..a"):
        with pytest.raises(ValueError, match="is not a path into a variant"):
            path_of(text)


VARIANTS = ['{"a":1,"b":"7","n":null}', '{"a":"text"}', "5", "null", None]


def values_of(text: str, *, zone: str = "UTC") -> list[Any]:
    rows = pa.table({"id": pa.array(range(len(VARIANTS))), "v": variant.parse_json(VARIANTS)})
    return list(evaluate(parse(text, from_arrow(rows.schema), zone=zone), rows).to_pylist())


def test_a_part_of_another_type_fails_or_is_null_and_is_computed_only_where_it_is_needed() -> None:
    with pytest.raises(InvalidInputError, match='a variant\'s value "text" is not of the type int: try_variant_get'):
        values_of("variant_get(v, '$.a', 'int')")
    assert values_of("try_variant_get(v, '$.a', 'int')") == [1, None, None, None, None]
    assert values_of("case when id = 0 then v:a::int end") == [1, None, None, None, None]
    assert values_of("id = 0 and v:a::int = 1") == [True, False, False, False, False]


def test_nulls_of_json_and_of_sql_and_missing_parts() -> None:
    assert values_of("is_variant_null(v)") == [False, False, False, True, False]
    assert values_of("v is null") == [False, False, False, False, True]
    assert values_of("is_variant_null(v:n)") == [True, False, False, False, False]
    assert values_of("v:n is null") == [False, True, True, True, True]
    assert values_of("v:n::string is null") == [True, True, True, True, True]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("variant_get(v, id)", "takes a literal string"),
        ("variant_get(v, 'a')", "not a path into a variant"),
        ("variant_get(v, '$.a', 'integr')", "takes a type"),
        ("variant_get(v, '$.a', 'map<int, int>')", "one by one"),
        ("variant_get(id, '$.a')", "takes variant, not bigint"),
        ("id:a", "takes variant, not bigint"),
        ("parse_json(id)", "takes string, not bigint"),
        ("cast(named_struct('a', 1) as variant)", "to_variant_object"),
        ("to_variant_object(id)", "takes a struct, a map or an array"),
        ("v = 5", "compares a part of a variant"),
        ("v:a > 5", "compares a part of a variant"),
    ],
)
def test_what_cannot_be_done_with_variants_says_what_can(text: str, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        values_of(text)


def test_an_instant_is_a_text_in_the_zone_of_the_condition() -> None:
    moment = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.timezone.utc)
    rows = pa.table({"v": variant.from_python([moment])})
    bound = parse("v::string", from_arrow(rows.schema), zone="Asia/Tokyo")
    assert evaluate(bound, rows).to_pylist() == ["2024-01-01 21:00:00"]


def test_sql_makes_selects_and_changes_variants(tmp_path: Path) -> None:
    def run(text: str) -> list[dict[str, Any]]:
        return list(txlog.sql(text, tmp_path).read_all().to_pylist())

    run("CREATE TABLE t (id int, v variant)")
    run("INSERT INTO t VALUES (1, parse_json('{\"a\":[1,2]}')), (2, NULL)")
    run("INSERT INTO t SELECT id + 2, v FROM t")
    assert run("SELECT id, v:a[1]::int AS part, to_json(v) AS text FROM t ORDER BY id") == [
        {"id": 1, "part": 2, "text": '{"a":[1,2]}'},
        {"id": 2, "part": None, "text": None},
        {"id": 3, "part": 2, "text": '{"a":[1,2]}'},
        {"id": 4, "part": None, "text": None},
    ]
    run("UPDATE t SET v = v:a WHERE id = 3")
    run(
        "MERGE INTO t USING (SELECT 4 id, parse_json('4') v UNION ALL SELECT 5, parse_json('5')) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    run("DELETE FROM t WHERE try_variant_get(v, '$', 'int') = 5")
    assert run("SELECT id, to_json(v) AS text FROM t ORDER BY id") == [
        {"id": 1, "text": '{"a":[1,2]}'},
        {"id": 2, "text": None},
        {"id": 3, "text": "[1,2]"},
        {"id": 4, "text": "4"},
    ]
    assert run("SELECT sum(try_variant_get(v, '$', 'int')) AS total FROM t") == [{"total": 4}]
    for query in (
        "SELECT DISTINCT v FROM t",
        "SELECT v FROM t GROUP BY v",
        "SELECT v FROM t UNION SELECT v FROM t",
        "SELECT v FROM t EXCEPT ALL SELECT v FROM t",
        "SELECT id FROM t ORDER BY v",
        "SELECT max(v) FROM t",
    ):
        with pytest.raises(InvalidInputError, match="variant"):
            run(query)


def test_constraints_and_generated_columns_read_parts(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path, "v variant, kind string GENERATED ALWAYS AS (v:kind::string)")
    table.add_constraint("known", "kind in ('a', 'b') and v:n::int > 0")
    table.append(pa.table({"v": variant.parse_json(['{"kind":"a","n":1}'])}))
    assert table.to_arrow()["kind"].to_pylist() == ["a"]
    with pytest.raises(InvalidInputError, match=re.escape("""with kind = 'b', v = '{"kind":"b","n":0}'""")):
        table.append(pa.table({"v": variant.parse_json(['{"kind":"b","n":0}'])}))


def test_a_variant_cannot_be_generated_for_a_reason_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="a column of type variant cannot be generated, since the values"):
        txlog.Table.create(tmp_path, "v variant, part variant GENERATED ALWAYS AS (v:a)")


def test_an_error_shows_a_part_as_it_was_written() -> None:
    with pytest.raises(InvalidInputError, match=re.escape("cannot read v:a.b[0] > 3 (in")):
        parse("v:a.b[0] > 3", from_arrow(pa.table({"v": variant.parse_json(["1"])}).schema))


def test_a_part_becomes_a_nested_type() -> None:
    texts = ['{"l":[1,"2",null],"o":{"a":1,"b":[true]}}', '{"l":5}', "null"]
    rows = pa.table({"v": variant.parse_json(texts)})

    def of(text: str) -> list[Any]:
        return list(evaluate(parse(text, from_arrow(rows.schema)), rows).to_pylist())

    assert of("try_variant_get(v, '$.l', 'array<int>')") == [[1, 2, None], None, None]
    assert of("try_variant_get(v, '$.o', 'map<string, string>')") == [[("a", "1"), ("b", "[true]")], None, None]
    assert of("try_variant_get(v, '$', 'struct<o: struct<a: int, z: int>, l: string>')") == [
        {"o": {"a": 1, "z": None}, "l": '[1,"2",null]'},
        {"o": None, "l": "5"},
        None,
    ]
    assert of("TRY_CAST(v:l AS ARRAY<INT>)") == of("try_variant_get(v, '$.l', 'array<int>')")
    assert of("v:o::struct<a: int, z: string>") == [{"a": 1, "z": None}, None, None]
    with pytest.raises(InvalidInputError, match="a variant's byte is not of the type array<int>"):
        of("variant_get(v, '$.l', 'array<int>')")
    with pytest.raises(InvalidInputError, match="a variant's byte is not of the type array<int>"):
        of("v:l::array<int>")


@pytest.mark.parametrize(("text", "said"), [("v.a = 1", "A part of its values is v:a"), ("v['a'] = 1", "is v:name or")])
def test_who_takes_a_variant_for_a_struct_learns_how_a_part_is_written(text: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        parse(text, from_arrow(pa.table({"v": variant.parse_json(["1"])}).schema))


def test_a_binary_is_no_number_no_time_and_no_boolean() -> None:
    rows = pa.table({"v": variant.from_python([b"ab"])})
    for kind in ("int", "double", "boolean", "date", "timestamp", "decimal(9, 2)"):
        value = parse(f"try_variant_get(v, '$', '{kind}')", from_arrow(rows.schema))
        assert evaluate(value, rows).to_pylist() == [None]


def test_a_part_of_a_variant_is_named_as_spark_names_it(tmp_path: Path) -> None:
    names = {
        "v:a[0]": "a",
        "v:a[0].b::int": "b",
        "try_cast(v:n as int)": "n",
        "v:n::int + 1": "(CAST(variant_get(v, $.n) AS n AS INT) + 1)",
        "v:a[0]::string || 'x'": "concat(CAST(variant_get(v, $.a[0]) AS a AS STRING), x)",
        "variant_get(v, '$.n', 'int')": "variant_get(v, $.n)",
        "is_variant_null(v:n)": "is_variant_null(variant_get(v, $.n) AS n)",
    }
    source = """(select parse_json('{"n": 1, "a": [{"b": 2}]}') as v)"""
    assert txlog.sql(f"select {', '.join(names)} from {source}", tmp_path).read_all().column_names == [*names.values()]
