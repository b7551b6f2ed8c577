"""Expressions against Spark SQL in ANSI mode with UTC as its time zone: the same values, of the same types.

tests/core/predicates/test_expressions.py compares the generated ones with duckdb too.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from expression_texts import ANY, ROW, SCHEMA, batch_of
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from spark_fixtures import INTERPRETED

from txlog.core.format.schema import from_arrow, type_name
from txlog.core.predicates import evaluate, parse
from txlog.errors import InvalidInputError

# What duckdb has in other words, with other types, or not at all.
TEXTS = [
    *("i / 4", "d / 4", "m / 7", "n / m2", "m / 1.5", "i / 2.5", "y / 2", "l div 3", "i % 3", "y % i1", "-7 % 3"),
    *("d % 3", "f % 1.5e0", "d % 0.1e0", "i % 2.5e0", "m % 0.75e0", "l % 1e-3", "pmod(d, 3)", "pmod(f, -2.5e0)"),
    *(
        "m % 3",
        "7 % m2",
        "m % 0.03",
        "n % m2",
        "w % 7",
        "w % m2",
        "pmod(m, 3)",
        "pmod(n, -1.5)",
        "m % 1 = 0",
    ),
    *("f % CAST(0.1 AS FLOAT)", "CAST(0.1 AS FLOAT)", "CAST(16777217 AS FLOAT)", "CAST(9007200328482817 AS FLOAT)"),
    *(
        "f = CAST(0.125 AS FLOAT)",
        "d = CAST(0.1 AS FLOAT)",
        "f >= CAST(0.1 AS FLOAT)",
        "coalesce(f, CAST(0.1 AS FLOAT))",
    ),
    *("EXTRACT(SECOND FROM ts)", "EXTRACT(SECOND FROM tn)"),
    *(
        "m + n",
        "m - 1",
        "m * n * n",
        "w * w",
        "w + 1",
        "w / 3",
        "1.5 * 2.25",
        "y + y",
        "y + 1",
        "l + y",
        "f + 1",
        "f * d",
    ),
    *("d * 1.1", "f * 1.1", "i + 1.5", "l * 2.5", "-m", "-f", "abs(y)", "abs(m)", "sqrt(d)", "ceil(e1)", "floor(e1)"),
    *("CAST(m AS INT)", "CAST(n AS DECIMAL(6,1))", "CAST(i AS DECIMAL(12,3))", "CAST(l AS FLOAT)", "CAST(l AS DOUBLE)"),
    *(
        "CAST(w AS DOUBLE)",
        "CAST(n AS FLOAT)",
        "CAST(b AS INT)",
        "CAST(i AS BOOLEAN)",
        "CAST(e1 AS INT)",
        "CAST(f AS DOUBLE)",
    ),
    *("CAST(m AS STRING)", "CAST(i AS STRING)", "CAST(dt AS STRING)", "CAST(b AS STRING)", "CAST(d AS FLOAT)"),
    *("CAST(ts AS DATE)", "CAST(dt AS TIMESTAMP)", "CAST(tn AS TIMESTAMP)", "CAST(ts AS TIMESTAMP_NTZ)"),
    *("CAST(number AS INT)", "CAST(number AS DOUBLE)", "CAST(number AS DECIMAL(8,2))", "CAST(fraction AS DOUBLE)"),
    *("CAST(fraction AS DECIMAL(8,2))", "CAST(word AS BOOLEAN)", "CAST(day AS DATE)", "CAST(moment AS TIMESTAMP)"),
    *("CAST(moment AS TIMESTAMP_NTZ)", "CAST(fraction AS FLOAT)"),
    *(
        "dayofweek(dt)",
        "weekday(dt)",
        "weekofyear(dt)",
        "dayofyear(ts)",
        "quarter(tn)",
        "hour(ts)",
        "second(tn)",
        "year(ts)",
    ),
    *(
        "date_add(dt, i)",
        "date_sub(dt, j)",
        "dt + 1",
        "dt - j",
        "datediff(dt, du)",
        "datediff(ts, dt)",
        "EXTRACT(MONTH FROM dt)",
    ),
    *(f"date_trunc('{unit}', ts)" for unit in ("YEAR", "QUARTER", "MM", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")),
    *(
        f"date_format({value}, '{pattern}')"
        for value in ("ts", "tn", "dt")
        for pattern in ("yyyy-MM", "yyyyMMdd", "yyyy/MM/dd HH:mm:ss")
    ),
    *(f"trunc(dt, '{unit}')" for unit in ("year", "QUARTER", "MON", "week")),
    *("length(s)", "octet_length(s)", "reverse(s)", "trim(s)", "ltrim(s)", "rtrim(s)", "s || t", "concat(s, '-', t)"),
    *("substring(s, 0, 1)", "substring(s, 2)", "substring(s, -2)", "left(s, 1)", "right(s, 2)", "replace(s, 'a', '')"),
    *(
        "replace(s, '', 'x')",
        "startswith(s, 'a')",
        "endswith(s, 'b')",
        "contains(s, '')",
        "s LIKE '%_%'",
        "s LIKE 'Ab\\\\%\\\\_'",
    ),
    *("'it\\'s'", "s = 'back\\\\slash'", "s LIKE 'back\\\\\\\\%'", "s < t", "s IN ('a', t)"),
    *(
        "nvl(i, j)",
        "nvl2(i, j, y)",
        "ifnull(m, n)",
        "nullif(d, e)",
        "if(b, i, l)",
        "coalesce(i, 1.5)",
        "coalesce(i, d)",
        "coalesce(f, i)",
    ),
    *(
        "CASE i WHEN 1 THEN y WHEN NULL THEN i ELSE l END",
        "CASE WHEN i > 1 THEN m END",
        "CASE WHEN j != 0 THEN i / j END",
    ),
    *(
        "j != 0 AND i / j > 1",
        "j = 0 OR i / j > 1",
        "coalesce(nullif(j, 0), i div (abs(j) + 1))",
        "NOT b",
        "b <=> NULL",
    ),
    *(
        "d <=> e",
        "d = e",
        "d < e",
        "d >= e",
        "f > d",
        "isnan(d)",
        "isnull(b)",
        "isnotnull(b)",
        "b IS NOT TRUE",
        "b IS FALSE",
    ),
    *(
        "i = 1.5",
        "y < 1.0",
        "m = n",
        "i BETWEEN y AND l",
        "d IN (0, 1.5, NULL)",
        "i NOT IN (1, NULL)",
        "f IN (1.5, 0.25)",
    ),
    *("dt < ts", "dt < tn", "dt = '2000-01-01'", "ts > '2000-01-01 00:00:00'", "m > '1.5'", "dt IN ('2000-01-01', du)"),
    *("s ILIKE 'AB%'", "s NOT ILIKE '%B_'", "s RLIKE 'a'", "s RLIKE '^[a-zA-Z ]+$'", "s RLIKE '.'"),
    *("s RLIKE '^A?b'", "s RLIKE '(a|b){2}'", "s RLIKE '\\\\s\\\\w'", "s RLIKE 'line.break'", "s RLIKE '\\\\d'"),
    *("regexp_replace(s, '(a)(b)', '$2-$1')", "regexp_replace(s, '\\\\s+', '_')"),
    *("regexp_extract(s, '([a-z]+)', 1)", "regexp_extract(s, 'b', 0)", "regexp_extract(s, '(?:A|a)(b)')"),
    *(
        "split(s, ' ')",
        "split(s, '\\\\\\\\')",
        "split(s, 'ab')[0]",
        "size(split(s, 'b'))",
        "split(s, '_')",
    ),
    *(
        "element_at(split(s, ' '), -1)",
        "array_contains(split(s, ' '), 'ab')",
        "array(i, j, 3)",
        "array_contains(array(i, j), y)",
    ),
    *("named_struct('x', i, 'y', s)", "struct(i, s)", "element_at(array(s, t), 2)"),
    *(
        "instr(s, 'b')",
        "locate('b', s)",
        "locate('a', s, 2)",
        "position('b', s)",
        "position('' IN s)",
        "locate(t, s, i)",
    ),
    *("lpad(s, 4, 'xy')", "rpad(s, 4)", "rpad(s, 1, t)", "lpad(s, i, 'z')", "repeat(s, j)", "translate(s, 'ab ', 'x')"),
    *(
        "substring_index(s, 'b', 1)",
        "substring_index(s, ' ', -1)",
        "substring_index(s, 'b', j)",
        "concat_ws('-', s, t, 'z')",
    ),
    *(
        "concat_ws(s, t)",
        "md5(s)",
        "sha1(s)",
        "sha2(s, 256)",
        "sha2(s, 0)",
        "sha2(s, 512)",
        "crc32(s)",
        "base64(left(s, 9))",
    ),
    *(
        "hex(s)",
        "hex(i)",
        "hex(l)",
        "unhex(hex(s))",
        "greatest(i, j, y)",
        "least(i, l)",
        "greatest(d, e)",
        "least(d, e, f)",
    ),
    *(
        "greatest(s, t)",
        "least(dt, du)",
        "greatest(m, n)",
        "round(m, 1)",
        "round(m)",
        "round(n, 2)",
        "round(m, -1)",
        "round(m, 5)",
    ),
    *("round(i)", "round(i, -1)", "bround(i, -1)", "bround(n, 3)", "bround(m)", "round(d)", "round(d, 1)", "bround(d)"),
    *("round(e1)", "bround(e1)", "round(f, 1)", "ceil(m)", "floor(n)", "sign(i)", "sign(d)", "sign(m)", "signum(f)"),
    *("pmod(i, 3)", "pmod(l, 5)", "pmod(i, -3)", "try_divide(i, j)", "try_divide(m, n)", "try_divide(d, e)"),
    *("decode(i, 1, 'a', 2, 'b', 'c')", "decode(s, 'a', 1, NULL, 2)", "decode(j, 0, s, t)"),
    *("add_months(dt, i)", "add_months(ts, 1)", "last_day(dt)", "last_day(ts)", "make_date(2024, abs(j) + 1, 29)"),
    *(
        "to_date(day)",
        "to_timestamp(moment)",
        "to_date(pattern, 'dd/MM/yyyy')",
        "to_timestamp(clock, 'yyyyMMdd HH:mm')",
    ),
    *(
        "timestamp_seconds(i)",
        "timestamp_millis(i)",
        "timestamp_micros(i)",
        "unix_seconds(ts)",
        "unix_millis(ts)",
        "unix_micros(ts)",
    ),
    *(
        "dt + INTERVAL 3 DAYS",
        "dt - INTERVAL 1 MONTH",
        "dt + INTERVAL 1 YEAR",
        "ts + INTERVAL 5 HOURS",
        "tn - INTERVAL '90' MINUTES",
    ),
    *("ts - INTERVAL 1 MONTH", "INTERVAL 2 WEEKS + dt", "ts + INTERVAL 1 DAY > ts", "tn + INTERVAL 3 YEARS"),
    *(
        "hash(i)",
        "hash(s, d, m)",
        "hash(n1, dt, tn)",
        "hash(f, y, b)",
        "hash(w)",
        "hash(array(i, j), s)",
        "hash(NULL, s)",
    ),
    *(
        "xxhash64(l)",
        "xxhash64(s, t, f)",
        "xxhash64(ts, n, dt, b)",
        "xxhash64(d)",
        "xxhash64(concat(s, s, sha2(s, 512)))",
    ),
    *(f"get_json_object(js, '{path}')" for path in ("$", "$.a", "$.b.c", "$.b[1]", "$[1]", "$.b[1].c")),
    "get_json_object(js, '$[\\'a.b\\']')",
    *("from_json(js, 'a INT, b STRING')", "from_json(js, 'a BIGINT')", "from_json(js, 'a DOUBLE, d BOOLEAN')"),
    *("NULL + 1", "NULL = 1", "NULL AND b", "NULL OR b", "concat(s, NULL)", "coalesce(NULL, i)"),
]
JSON = [
    *('{"a":1.50,"b":"x"}', '{"a":1e3}', '{"a":"q\\"é\\n"}', '{"b":{"c":1.0}}', '{"b":[1,{"c":true},null]}', "{}"),
    *('{"a":null,"b":null}', '{"a":1,"a":2}', '{"a":null,"a":2}', '{"a":1} x', '{"a":1', '"text"', "5", "nul", "", " "),
    *(
        '{"a":"NaNo","b":1}',
        '{"a":01}',
        '{"A":1}',
        '  {"a":1}',
        '{"a":[],"b":{}}',
        '{"a":3000000000}',
        '{"a":"1","d":true}',
    ),
    *('{"a": -7 , "b" : [ 1 , "x" ] }', '{"a.b":3}', '{"a":"\\u00e9/\\/\\u001f"}', '{"b":{"c":1},"b":{"d":2}}', None),
    *(
        '{"a":100000000000000000000000,"d":1}',
        '{"d":false,"a":-0.5}',
        '{"b":{"b":1},"b":{"c":"last"}}',
        '{"a":"\U0001f600"}',
    ),
]
EXTRA = {
    "m2": (pa.decimal128(4, 1), ["0.1", "-3.0", "7.5", None]),
    "w": (pa.decimal128(18, 6), ["0.000001", "-99999.123456", "123456.000000", None]),
    "i1": (pa.int32(), [1, -1, 7, None]),
    "e1": (pa.float64(), [-1.5, 0.5, 2.0, None]),
    "number": (pa.string(), [" 12 ", "-7", "+0", None]),
    "fraction": (pa.string(), ["1.255", "-.5", "1e2", None]),
    "word": (pa.string(), ["t", " NO ", "0", None]),
    "day": (pa.string(), ["2024-02-29", " 1999-12-31", "0001-01-01", None]),
    "pattern": (pa.string(), ["29/02/2024", "01/12/1999", None]),
    "clock": (pa.string(), ["20240229 23:59", "19700101 00:00", None]),
    "js": (pa.string(), JSON),
    "moment": (pa.string(), ["2024-02-29 01:02:03.000004", "1999-12-31", "2024-01-01T05:06:07", None]),
}


@pytest.fixture
def ansi(spark: SparkSession) -> SparkSession:
    for name in INTERPRETED:
        spark.conf.unset(name)
    spark.conf.set("spark.sql.ansi.enabled", "true")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.subexpressionElimination.enabled", "false")  # it computes what CASE guards
    return spark


def extended(batch: pa.RecordBatch) -> pa.Table:
    table = pa.Table.from_batches([batch])
    for name, (arrow_type, values) in EXTRA.items():
        cycled = list(itertools.islice(itertools.cycle(values), table.num_rows))
        strings = pa.array([None if value is None else str(value) for value in cycled], pa.string())
        column = strings if arrow_type == pa.string() else strings.cast(arrow_type)
        table = table.append_column(name, column)
    return table


def spark_values(spark: SparkSession, table: pa.Table, texts: list[str]) -> pa.Table:
    """Each text a column, in one query; the rows stay in order, since there is one partition."""
    frame = spark.createDataFrame(table).coalesce(1)
    if "tn" in table.column_names:
        frame = frame.withColumn("tn", frame["tn"].cast("timestamp_ntz"))  # it comes as a timestamp
    return frame.selectExpr(*(f"({text}) AS c{number}" for number, text in enumerate(texts))).toArrow()


def compare(spark: SparkSession, table: pa.Table, texts: list[str]) -> list[str]:
    """What differs, by text."""
    schema = from_arrow(table.schema)
    answers = spark_values(spark, table, texts)
    differences = []
    rows = table.to_pylist()
    for text, answer in zip(texts, answers.columns, strict=True):
        expression = parse(text, schema)
        theirs = type_name(from_arrow(pa.schema([("c", answer.type)])).fields[0].type)
        if type_name(expression.type) != theirs:
            differences.append(f"{text}: type {type_name(expression.type)}, Spark has {theirs}")
        found = listed(evaluate(expression, table))
        for row, ours, wanted in zip(rows, found, listed(answer), strict=True):
            if not same(ours, wanted):
                read = {name: value for name, value in row.items() if value is not None and name in text}
                differences.append(f"{text}: {ours!r}, Spark has {wanted!r} for {read}")
                break
    return differences


def listed(column: Any) -> list[Any]:
    """The values; dates and times as numbers, since Python has no days after the year 9999."""
    kind = column.type
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    return bool(left == right)


@pytest.mark.hunt(part="spark")
@given(rows=st.lists(ROW, min_size=12, max_size=12))
@settings(max_examples=4, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_each_function_gives_what_spark_gives(ansi: SparkSession, rows: list[dict[str, Any]]) -> None:
    assert compare(ansi, extended(batch_of(rows)), TEXTS) == []


@given(rows=st.lists(ROW, min_size=12, max_size=12), texts=st.lists(ANY, min_size=60, max_size=60, unique=True))
@settings(max_examples=2, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_generated_expressions_give_what_spark_gives(
    ansi: SparkSession, rows: list[dict[str, Any]], texts: list[str]
) -> None:
    assert compare(ansi, pa.Table.from_batches([batch_of(rows)]), texts) == []


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize("seed", range(2))
def test_each_function_gives_what_spark_gives_for_ten_thousand_rows(ansi: SparkSession, seed: int) -> None:
    chance = random.Random(f"rows {seed}")
    rows = [{name: made(chance) for name, made in MANY.items()} for _ in range(10_000)]
    table = extended(batch_of(rows))
    differences = []
    for start in range(0, len(TEXTS), 20):  # a session of the tests takes 8 MiB of answers
        differences += compare(ansi, table, TEXTS[start : start + 20])
    assert differences == []


def _text(chance: random.Random) -> str:
    return "".join(chance.choices("abAB %_-.\\'09é\u00e4\U0001f600\n", k=chance.choice([0, 1, 2, 3, 8, 40])))


def _moment(chance: random.Random) -> datetime.datetime:
    """A third on leap days and at the ends of years."""
    day = chance.choice([(2, 29), (12, 31), (1, 1)]) if chance.random() < 0.3 else None
    start = datetime.datetime(1905, 1, 1) + datetime.timedelta(microseconds=chance.randrange(6 * 10**15))
    return start if day is None else start.replace(year=start.year // 4 * 4, month=day[0], day=day[1])


def _or_null(made: Callable[[random.Random], Any]) -> Callable[[random.Random], Any]:
    return lambda chance: None if chance.random() < 0.05 else made(chance)


_DOUBLES = (-math.inf, -1.5, -0.0, 0.0, 0.1, 2.5, 1e300, math.inf, math.nan)
MANY: dict[str, Callable[[random.Random], Any]] = {
    name: _or_null(made)
    for name, made in {
        "y": lambda chance: chance.randint(-5, 5),
        "i": lambda chance: chance.randint(-20, 20),
        "j": lambda chance: chance.randint(-3, 3),
        "l": lambda chance: chance.choice([-(2**53) - 1, 0, 2**53 + 1, chance.randint(-(2**40), 2**40)]),
        "f": lambda chance: chance.choice([-0.0, math.inf, math.nan, chance.randint(-99, 99) / 8]),
        "d": lambda chance: chance.choice([*_DOUBLES, chance.uniform(-1e4, 1e4)]),
        "e": lambda chance: chance.choice([*_DOUBLES, chance.uniform(-1e4, 1e4)]),
        "m": lambda chance: decimal.Decimal(chance.randint(-9999, 9999)).scaleb(-2),
        "n": lambda chance: decimal.Decimal(chance.randint(-999999, 999999)).scaleb(-4),
        "s": _text,
        "t": _text,
        "b": lambda chance: chance.random() < 0.5,
        "dt": lambda chance: _moment(chance).date(),
        "du": lambda chance: _moment(chance).date(),
        "ts": lambda chance: _moment(chance).replace(tzinfo=datetime.timezone.utc),
        "tn": _moment,
        "n1": lambda chance: {"x": chance.choice([None, 0, 1])},
    }.items()
}
"""Values of every column of `SCHEMA` for which no function overflows."""


@pytest.mark.hunt(part="spark")
def test_every_letter_is_mapped_as_java_maps_it_or_refused(ansi: SparkSession) -> None:
    """Letter by letter: a string with one that is refused is refused."""
    letters = [chr(code) for code in range(1, 0x20000) if not 0xD800 <= code < 0xE000]
    table = pa.table({"s": letters})
    answers = spark_values(ansi, table, ["upper(s)", "lower(s)"])
    schema = from_arrow(table.schema)
    for text, answer in zip(("upper(s)", "lower(s)"), answers.columns, strict=True):
        expression = parse(text, schema)
        found: list[str | None] = []
        for start in range(0, len(letters), 64):
            found += mapped(expression, table.slice(start, 64))
        known = sum(ours is not None for ours in found)
        assert known > 0.95 * len(letters)
        wrong = [
            f"U+{ord(letter):04X}"
            for letter, ours, theirs in zip(letters, found, answer.to_pylist(), strict=True)
            if ours not in (None, theirs)
        ]
        assert wrong == [], text


def mapped(expression: Any, rows: pa.Table) -> list[str | None]:
    """What the letters are mapped to; None for one that is refused."""
    try:
        return list(evaluate(expression, rows).to_pylist())
    except InvalidInputError:
        if rows.num_rows == 1:
            return [None]
        half = rows.num_rows // 2
        return mapped(expression, rows.slice(0, half)) + mapped(expression, rows.slice(half))


@pytest.mark.parametrize(
    "text",
    [
        *("2147483647 + CAST(1 AS INT)", "CAST(-128 AS TINYINT) - CAST(1 AS TINYINT)", "-CAST(-2147483648 AS INT)"),
        *(
            "1 / CAST(0 AS INT)",
            "1.5e0 / CAST(0 AS DOUBLE)",
            "7 % CAST(0 AS INT)",
            "CAST(1 AS DECIMAL(5,2)) / CAST(0 AS DECIMAL(5,2))",
        ),
        *(
            "CAST(CAST(1e10 AS DOUBLE) AS INT)",
            "CAST(CAST('NaN' AS DOUBLE) AS BIGINT)",
            "CAST('1.5' AS INT)",
            "CAST('x' AS DATE)",
        ),
        *(
            "CAST(999.99 AS DECIMAL(4,2))",
            "CAST('maybe' AS BOOLEAN)",
            "CAST(300 AS TINYINT)",
            "(-9223372036854775807L - 1L) div -1L",
        ),
        "abs(CAST(-2147483648 AS INT))",
    ],
)
def test_an_expression_that_fails_in_spark_fails_in_txlog(ansi: SparkSession, text: str) -> None:
    with pytest.raises(PySparkException):
        ansi.range(1).selectExpr(text).collect()
    with pytest.raises(InvalidInputError):
        evaluate(parse(text, SCHEMA), batch_of([{}]))


@pytest.mark.hunt(part="sql")
@pytest.mark.parametrize(
    "text", ["CAST(d AS STRING)", "CAST(f AS STRING)", "exp(d)", "ln(d)", "log10(d)", "power(d, e)"]
)
def test_a_million_floats_have_every_bit_of_sparks_texts_logarithms_and_powers(ansi: SparkSession, text: str) -> None:
    """Numbers of any bits, of the sizes that people have, and with few digits. Where Java's versions write numbers
    differently, txlog says so, and these are left out."""
    draw = np.random.default_rng(58)
    count = 1 << 20
    bits = draw.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)
    few = np.round(draw.uniform(-1000, 1000, count), 2)
    sizes = 10.0 ** draw.uniform(-20, 40, count) * draw.choice([1, -1], count)
    d = np.choose(draw.integers(0, 3, count), [bits, few, sizes])
    e = np.where(draw.integers(0, 2, count), draw.integers(-20, 20, count), draw.uniform(-30, 30, count))
    with np.errstate(all="ignore"):
        f = d.astype(np.float32)
    rows = pa.table({"d": d, "e": e.astype(np.float64), "f": f})
    if "STRING" in text:
        column, least, large = (f.astype(np.float64), 1e-40, 2.0**25) if "f AS" in text else (d, 1e-319, 2.0**54)
        size = np.abs(column)
        rows = rows.filter(pa.array(~(((size > 0) & (size < least)) | ((size >= large) & (size < 1e27)))))
    found = evaluate(parse(text, from_arrow(rows.schema)), rows)
    parts = [rows.slice(start, 1 << 16) for start in range(0, len(rows), 1 << 16)]  # a session takes 8 MiB of answers
    answers = [ansi.createDataFrame(part).selectExpr(f"{text} AS v").toArrow()["v"].chunks for part in parts]
    expected = pa.concat_arrays([chunk for chunks in answers for chunk in chunks])
    if "STRING" in text:
        assert found.equals(expected)
        return
    one, other = (
        np.where(np.isnan(values), np.nan, values).view(np.int64)
        for values in (each.fill_null(-1.5).to_numpy(zero_copy_only=False) for each in (found, expected))
    )
    assert found.is_null().equals(expected.is_null())
    assert np.flatnonzero(one != other).tolist() == []
