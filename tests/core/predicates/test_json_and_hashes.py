"""`hash`, `xxhash64`, `get_json_object` and `from_json`: values that Spark 4.2 computed, and what is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from txlog.core.format.schema import from_arrow
from txlog.core.predicates._evaluate import evaluate
from txlog.core.predicates._sql import parse
from txlog.errors import InvalidInputError

ROWS = pa.table({"s": ["x"], "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))})
SCHEMA = from_arrow(ROWS.schema)


def value_of(text: str) -> Any:
    return evaluate(parse(text, SCHEMA), ROWS)[0].as_py()


def of_json(json: str, call: str) -> Any:
    rows = pa.table({"j": [json]})
    return evaluate(parse(call, from_arrow(rows.schema)), rows)[0].as_py()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hash(1)", -559580957),
        ("hash(1L)", -1712319331),
        ("hash('a')", 1485273170),
        ("hash(CAST(NULL AS INT))", 42),
        ("hash(1, 'a')", -936062819),
        ("hash(array(1, NULL, 2))", -222940379),
        ("hash(struct(1, CAST(NULL AS INT)))", -559580957),
        ("hash(-0.0e0)", -1670924195),
        ("hash(0.0e0)", -1670924195),
        ("hash(1.50)", -2056712946),
        ("hash(CAST(1 AS DECIMAL(20,2)))", -295670906),
        ("hash(X'0102030405')", -2064006189),
        ("hash(DATE '2020-01-01')", -725858435),
        ("hash(TIMESTAMP '2020-01-01 00:00:00')", -1486022740),
        ("xxhash64(1)", -6698625589789238999),
        ("xxhash64(1L)", -7001672635703045582),
        ("xxhash64('abcdefghijklmnopqrstuvwxyzabcdefghijklmnop')", 5481067649584550621),
        ("xxhash64(1.5e0)", 7738255526519901366),
        ("xxhash64(true)", -6698625589789238999),
    ],
)
def test_a_hash_is_sparks(text: str, expected: int) -> None:
    assert value_of(text) == expected


def test_slices_and_chunks_have_the_same_hashes_as_their_rows() -> None:
    rows = pa.table({"s": pa.chunked_array([["a", None, "abc"], [], ["", "a" * 100]])})
    expression = parse("xxhash64(s, hash(s))", from_arrow(rows.schema))
    whole = evaluate(expression, rows).to_pylist()
    assert [evaluate(expression, rows.slice(at, 1))[0].as_py() for at in range(5)] == whole
    assert len({*whole}) == 5


@pytest.mark.parametrize(
    ("json", "path", "expected"),
    [
        ('{"a":1.50}', "$.a", "1.5"),
        ('{"a":"q\\"é\\n"}', "$.a", 'q"é\n'),
        ('{"a":{"b":[1, {"c":null}]}}', "$.a", '{"b":[1,{"c":null}]}'),
        ('{"a":{"b":[1,{"c":"x"}]}}', "$.a.b[1].c", "x"),
        ('{"a":1,"a":2}', "$.a", "1"),
        ('{"a":null,"a":2}', "$.a", "2"),
        ('{"a":1} x', "$.a", "1"),
        ('{"a":1', "$.a", None),
        ('{"A":1}', "$.a", None),
        ("[1,2]", "$[1]", "2"),
        ("[1,2]", "$[2]", None),
        ('{"a.b":3}', "$[\\'a.b\\']", "3"),
        ("nul", "$", None),
        ("", "$", None),
        ('{"a":"\\u001f"}', "$", '{"a":"\\u001F"}'),
        ('{"a":"\U0001f600"}', "$", '{"a":"\\uD83D\\uDE00"}'),
        ('{"a":"\U0001f600"}', "$.a", "\U0001f600"),
    ],
)
def test_a_value_in_json_is_the_one_that_spark_finds(json: str, path: str, expected: str | None) -> None:
    assert of_json(json, f"get_json_object(j, '{path}')") == expected


@pytest.mark.parametrize(
    ("json", "columns", "expected"),
    [
        ('{"a":1,"b":2.5}', "a INT, b STRING", {"a": 1, "b": "2.5"}),
        ('{"a":3000000000}', "a INT", {"a": None}),
        ('{"a":1.0}', "a BIGINT", {"a": None}),
        ('{"a":1,"a":2}', "a INT", {"a": 2}),
        ('{"a":"1"}', "a INT", {"a": None}),
        ('{"a":1', "a INT", {"a": None}),
        ('{"d":true,"x":1e3}', "d BOOLEAN, x DOUBLE", {"d": True, "x": 1000.0}),
        ('{"a":{"b":[1]}}', "a STRING", {"a": '{"b":[1]}'}),
        (" ", "a INT", None),
        (f'{{"a":{"9" * 5000}}}', "a BIGINT", {"a": None}),
    ],
)
def test_a_struct_from_json_is_the_one_that_spark_makes(json: str, columns: str, expected: Any) -> None:
    assert of_json(json, f"from_json(j, '{columns}')") == expected


@pytest.mark.parametrize(
    ("json", "call", "problem"),
    [
        ("{'a':1}", "get_json_object(j, '$.a')", "single quotes"),
        ('{"a":1e30}', "get_json_object(j, '$.a')", "engines write differently"),
        ('{"a":-0}', "get_json_object(j, '$.a')", "the number -0"),
        ('{"a":"\\ud800"}', "get_json_object(j, '$.a')", "surrogate"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "get_json_object(j, '$.b')", "hundreds of levels"),
        ('{"a":' * 400 + "1" + "}" * 400, "get_json_object(j, '$.a')", "hundreds of levels"),
        ("[1]", "from_json(j, 'a INT')", "an array"),
        ('{"a":"NaN"}', "from_json(j, 'a DOUBLE')", "the text NaN"),
        ('{"a":1e999}', "from_json(j, 'a DOUBLE')", "too large"),
    ],
)
def test_a_row_that_engines_read_differently_is_refused(json: str, call: str, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        of_json(json, call)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hash(m)", "refuses maps"),
        ("get_json_object(s, '$.*')", "a path such as"),
        ("get_json_object(s, 'a')", "a path such as"),
        ("get_json_object(s, s)", "takes a literal string"),
        ("from_json(s, 'a TINYINT')", "and not tinyint: read a STRING, and CAST it"),
        ("from_json(s, 'MAP<INT, STRING>')", "structs, arrays and maps of them, and not map<int,string>"),
        ("from_json(s, 'a STRUCT<b: INT NOT NULL>')", "without NOT NULL"),
        ("from_json(s, 'nothing')", "takes columns in SQL"),
        ("haash(s)", "did you mean hash"),
        ("count(s)", "a value of several rows"),
        ("s LIKE ANY ('a', s)", "of other patterns than literal strings"),
        ("s SIMILAR TO 'a'", "Write LIKE or RLIKE"),
        ("s RLIKE '(?=a)'", "cannot read s RLIKE"),
    ],
)
def test_a_refused_call_names_what_can_be_written(text: str, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        parse(text, SCHEMA)
