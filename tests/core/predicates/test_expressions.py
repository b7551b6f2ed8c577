"""Values and conditions against independent oracles: duckdb on generated rows, and Python where engines differ.

integration/test_spark_expressions.py compares the same functions with Spark SQL.
"""

from __future__ import annotations

import datetime
import itertools
import json
import math
import pickle
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from expression_texts import ANY, ARROW_SCHEMA, CONDITIONS, ROW, SCHEMA, TYPES, batch_of
from hypothesis import example, given
from hypothesis import strategies as st

import txlog
from txlog.core.format import schema as delta
from txlog.core.format.schema import Field, Struct, from_arrow, type_name, type_to_arrow
from txlog.core.predicates._binding import assign, bind_value
from txlog.core.predicates._build import assigned, literal
from txlog.core.predicates._conditions import bind_predicate
from txlog.core.predicates._evaluate import evaluate
from txlog.core.predicates._functions import ALIASES, FUNCTIONS
from txlog.core.predicates._join import conjuncts, split_join
from txlog.core.predicates._kernels import KERNELS
from txlog.core.predicates._sql import parse, parse_predicate
from txlog.core.predicates.skipping import Pruner
from txlog.core.predicates.terms.predicate import Comparison, ExcludesNothing, prunable
from txlog.core.predicates.terms.tree import columns_of
from txlog.errors import InvalidInputError

UTC = datetime.timezone.utc


def values(text: str, rows: list[dict[str, Any]], **options: Any) -> list[Any]:
    return evaluate(parse(text, SCHEMA, **options), batch_of(rows)).to_pylist()


@pytest.fixture(scope="module")
def oracle() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone='UTC'")
    return connection


def test_texts_are_joined_without_the_nulls_wherever_they_are() -> None:
    kind = pa.string()
    texts = [None, "", "a", "é"]
    rows = [*itertools.product(texts, texts, [None, "-"])]
    batch = pa.RecordBatch.from_arrays([pa.array(each, kind) for each in zip(*rows, strict=True)], ["s", "t", "by"])

    def of(text: str) -> list[str | None]:
        return list(evaluate(parse(text, from_arrow(batch.schema)), batch).to_pylist())

    def joined(separator: str | None, *given: str | None) -> str | None:
        return None if separator is None else separator.join(each for each in given if each is not None)

    assert of("concat_ws('-', s, t, s)") == [joined("-", s, t, s) for s, t, _ in rows]
    assert of("concat_ws('-', s, 'x', NULL)") == [joined("-", s, "x") for s, _, _ in rows]
    assert of("concat_ws(by, s, t)") == [joined(by, s, t) for s, t, by in rows]
    assert of("concat_ws(NULL, s)") == [None] * len(rows)


# --- against duckdb -------------------------------------------------------------------------------------------


def in_duckdb(text: str) -> str:
    """The text in duckdb's words."""
    return text.replace("TIMESTAMP_NTZ", "TIMESTAMP").replace("datediff(dt, du)", "(dt - du)")


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    return bool(left == right)


@given(rows=st.lists(ROW, min_size=1, max_size=6), text=ANY)
def test_a_value_is_what_duckdb_computes(
    oracle: duckdb.DuckDBPyConnection, rows: list[dict[str, Any]], text: str
) -> None:
    batch = batch_of(rows)
    oracle.register("rows", pa.Table.from_batches([batch]))
    expression = parse(text, SCHEMA)
    expected = [value for (value,) in oracle.execute(f"SELECT ({in_duckdb(text)}) FROM rows").fetchall()]
    found = evaluate(expression, batch)
    assert found.type == type_to_arrow(expression.type)
    assert all(map(same, found.to_pylist(), expected)), (found.to_pylist(), expected, str(expression))


@given(rows=st.lists(ROW, min_size=1, max_size=6), text=CONDITIONS)
def test_a_file_of_matching_rows_is_never_skipped(rows: list[dict[str, Any]], text: str) -> None:
    predicate = parse_predicate(text, SCHEMA)
    numbers = [row["i"] for row in rows if row["i"] is not None]
    bounds = {"minValues": {"i": min(numbers)}, "maxValues": {"i": max(numbers)}} if numbers else {}
    stats = {"numRecords": len(rows), "nullCount": {"i": len(rows) - len(numbers)}, **bounds}
    if any(evaluate(predicate, batch_of(rows)).to_pylist()):
        assert Pruner(predicate, SCHEMA, ()).may_match({}, json.dumps(stats))


# --- what SQL refuses, and what it computes only where it is needed --------------------------------------------


@pytest.mark.parametrize(
    ("text", "rows", "reason"),
    [
        ("i + 1", [{"i": 2**31 - 1}], "overflow"),
        ("i * 2", [{"i": 2**30}], "overflow"),
        ("-i", [{"i": -(2**31)}], "overflow"),
        ("floor(d)", [{"d": float("nan")}], r"floor\(\) makes integers, and a value is NaN, infinite or too large"),
        ("ceil(d)", [{"d": 1e300}], r"ceil\(\) makes integers, and a value is NaN, infinite or too large"),
        ("abs(l)", [{"l": -(2**63)}], "overflow"),
        ("y - CAST(1 AS TINYINT)", [{"y": -128}], "overflow"),
        ("i / j", [{"i": 1, "j": 0}], r"divide by zero; try_divide\(a, b\) is NULL there"),
        ("s > i", [{"s": "x", "i": 1}], "'x' is not a value of type bigint"),
        ("CAST(s AS DATE)", [{"s": "20240229"}], "'20240229' is not a value of type date"),
        ("TRY_CAST(s AS DATE)", [{"s": "12024-01-01"}], "'12024-01-01' is not a value of type date"),
        ("d / e", [{"d": 1.0, "e": 0.0}], "divide by zero"),
        ("i % j", [{"i": 1, "j": 0}], "divide by zero"),
        ("l div j", [{"l": -(2**63), "j": -1}], "overflow"),
        ("m / n", [{"m": Decimal("1"), "n": Decimal("0")}], "(?i)divide by zero"),
        ("CAST(l AS INT)", [{"l": 2**31}], "not in range"),
        ("CAST(d AS BIGINT)", [{"d": 1e19}], "truncated"),
        ("CAST(d AS INT)", [{"d": math.nan}], "truncated"),
        ("CAST(n AS DECIMAL(3,2))", [{"n": Decimal("99.9999")}], "does not fit"),
        ("CAST(s AS INT)", [{"s": "1.5"}], "'1.5' is not a value of type int"),
        ("CAST(s AS INT)", [{"s": "0x1F"}], "'0x1F' is not"),
        ("CAST(s AS DATE)", [{"s": "yesterday"}], "'yesterday' is not a value of type date"),
        ("CAST(s AS TIMESTAMP)", [{"s": "2024-02-29T10:00:00+18:30"}], "is not a value"),
        (
            "CAST(s AS TIMESTAMP)",
            [{"s": "2024-02-29Z"}],
            "is not a value of type timestamp, such as 2026-11-20T08:15:00Z",
        ),
        ("CAST(s AS BOOLEAN)", [{"s": "maybe"}], "'maybe' is not"),
        ("upper(s)", [{"s": "straße"}], "engines differ in the upper case"),
        ("date_format(du, 'yyyy')", [{"du": 3_000_000}], "years from 1 to 9999"),
        ("lower(s)", [{"s": "ΟΔΟΣ"}], "engines differ in the lower case"),
    ],
)
def test_a_value_that_sql_does_not_define_is_an_error_and_never_wraps_around(
    text: str, rows: list[dict[str, Any]], reason: str
) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        values(text, [{}, *rows])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CASE WHEN j != 0 THEN i div j END", [3, None, None]),
        ("CASE j WHEN 0 THEN -1 ELSE i div j END", [3, -1, None]),
        ("if(j = 0, NULL, i / j)", [3.5, None, None]),
        ("coalesce(nullif(j, 0), i div (j + 1))", [2, 7, None]),
        ("j != 0 AND i div j = 3", [True, False, None]),
        ("j = 0 OR i div j = 3", [True, True, None]),
        ("NOT (j = 0) AND (i div j > 5 OR s IS NULL)", [True, False, None]),
    ],
)
def test_what_can_fail_is_computed_only_for_the_rows_that_need_it(text: str, expected: list[Any]) -> None:
    assert values(text, [{"i": 7, "j": 2}, {"i": 7, "j": 0}, {"i": 7}]) == expected


@pytest.mark.parametrize(
    ("text", "row", "expected"),
    [
        ("i / j", {"i": 7, "j": 2}, 3.5),
        ("i div j", {"i": -7, "j": 2}, -3),
        ("i % j", {"i": -7, "j": 2}, -1),
        ("l % -1", {"l": -(2**63)}, 0),
        ("m / 3", {"m": Decimal("10.00")}, Decimal("3.333333")),
        ("m / 1.5", {"m": Decimal("-10.00")}, Decimal("-6.666667")),
        ("CAST(n AS DECIMAL(6,2))", {"n": Decimal("2.0050")}, Decimal("2.01")),
        ("CAST(n AS DECIMAL(6,2))", {"n": Decimal("-2.0050")}, Decimal("-2.01")),
        ("CAST(d AS INT)", {"d": -1.9}, -1),
        ("CAST(n AS BIGINT)", {"n": Decimal("-1.9")}, -1),
        ("CAST(s AS DOUBLE)", {"s": " +1.5e2 "}, 150.0),
        ("CAST(s AS DECIMAL(5,1))", {"s": "1.25"}, Decimal("1.3")),
        ("CAST(s AS BOOLEAN)", {"s": "Yes"}, True),
        ("CAST(s AS DATE)", {"s": "2024-02-29"}, datetime.date(2024, 2, 29)),
        ("CAST(s AS TIMESTAMP)", {"s": "2024-02-29T10:00:00Z"}, datetime.datetime(2024, 2, 29, 10, tzinfo=UTC)),
        (
            "CAST(s AS TIMESTAMP)",
            {"s": "2024-02-29 10:00:00.5-03:30"},
            datetime.datetime(2024, 2, 29, 13, 30, 0, 500_000, UTC),
        ),
        (
            "CAST(s AS TIMESTAMP)",
            {"s": " 2024-02-29 00:30:00+18:00"},
            datetime.datetime(2024, 2, 28, 6, 30, tzinfo=UTC),
        ),
        ("CAST(s AS TIMESTAMP)", {"s": "2024-02-18"}, datetime.datetime(2024, 2, 18, tzinfo=UTC)),
        ("CAST(ts AS DATE)", {"ts": datetime.datetime(1969, 12, 31, 23, tzinfo=UTC)}, datetime.date(1969, 12, 31)),
        ("ceil(d)", {"d": -1.5}, -1),
        ("floor(i)", {"i": 3}, 3),
        ("dayofweek(dt)", {"dt": datetime.date(2024, 2, 25)}, 1),
        ("weekday(dt)", {"dt": datetime.date(2024, 2, 25)}, 6),
        ("trunc(dt, 'MM')", {"dt": datetime.date(2024, 2, 25)}, datetime.date(2024, 2, 1)),
        ("date_format(dt, 'yyyyMM')", {"dt": datetime.date(984, 2, 25)}, "098402"),
        ("date_format(tn, 'HH:mm:ss')", {"tn": datetime.datetime(1969, 12, 31, 23, 59, 58, 999999)}, "23:59:58"),
        (
            "date_format(ts, 'yyyy-MM-dd\\'T\\'HH')",
            {"ts": datetime.datetime(2024, 2, 25, 7, tzinfo=UTC)},
            "2024-02-25T07",
        ),
        ("substring(s, 0, 2)", {"s": "héllo"}, "hé"),
        ("right(s, 9)", {"s": "héllo"}, "héllo"),
        ("substring_index(s, '--', 2)", {"s": "a---b"}, "a-"),
        ("substring_index(s, '--', 3)", {"s": "a---b"}, "a---b"),
        ("substring_index(s, '--', -1)", {"s": "a---b"}, "b"),
        ("substring_index(s, 'éé', -1)", {"s": "ééé"}, ""),
        ("substring_index(s, 'a', -1)", {"s": ""}, ""),
        ("substring_index(s, ',', 2)", {"s": "a,b,c"}, "a,b"),
        ("substring_index(s, ',', -2)", {"s": "a,b,c"}, "b,c"),
        ("concat(s, NULL)", {"s": "a"}, None),
        ("'it''s' || ' \\'x\\''", {}, "it's 'x'"),
        ("s LIKE '50\\%'", {"s": "50%"}, True),
        ("NULL + 1", {}, None),
        ("nvl2(s, 1, 2)", {"s": "a"}, 1),
        ("b <=> NULL", {}, True),
        ("d = e", {"d": math.nan, "e": math.nan}, True),
        ("d > e", {"d": math.nan, "e": math.inf}, True),
        ("d >= e", {"d": math.nan}, None),
        ("d <= e", {"e": math.nan}, None),
        ("EXTRACT(YEAR FROM dt)", {"dt": datetime.date(2024, 2, 25)}, 2024),
        ("EXTRACT(DOW_ISO FROM dt)", {"dt": datetime.date(2024, 2, 25)}, 7),
        ("next_day(dt, 'MON')", {"dt": datetime.date(2024, 2, 29)}, datetime.date(2024, 3, 4)),
        ("months_between(dt, du)", {"dt": datetime.date(2024, 2, 29), "du": datetime.date(2024, 1, 31)}, 1.0),
        ("months_between(TIMESTAMP '1997-02-28 10:30:00', dt)", {"dt": datetime.date(1996, 10, 30)}, 3.94959677),
        ("datediff(MONTH, dt, du)", {"dt": datetime.date(2024, 1, 31), "du": datetime.date(2024, 2, 29)}, 0),
        ("dateadd(MONTH, 1, dt)", {"dt": datetime.date(2024, 1, 31)}, datetime.datetime(2024, 2, 29, tzinfo=UTC)),
        ("unix_timestamp(tn)", {"tn": datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)}, 0),
        ("CAST(ts AS BIGINT)", {"ts": datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)}, -1),
        ("CAST(i AS TIMESTAMP)", {"i": -1}, datetime.datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("CAST(d AS DECIMAL(4,2))", {"d": 2.675}, Decimal("2.68")),
        ("CAST(d AS DECIMAL(4,2))", {"d": math.nan}, None),
        ("TRY_CAST(d AS DECIMAL(3,1))", {"d": 99.96}, None),
        ("CAST(array(i, NULL) AS STRING)", {"i": 3}, "[3, null]"),
        ("CAST(struct(s, map('k', i)) AS STRING)", {"s": "a", "i": 3}, "{a, {k -> 3}}"),
        ("try_add(i, 1)", {"i": 2**31 - 1}, None),
        ("m div 0.7", {"m": Decimal("10.00")}, 14),
        ("i + '1'", {"i": 2}, 3),
        ("s * i", {"s": " 7 ", "i": 2}, 14),
        ("s > i", {"s": "10", "i": 9}, True),
        ("s = 1.0", {"s": "1e0"}, True),
        ("s IN (1, 12, NULL)", {"s": "012"}, True),
        ("s = dt", {"s": "2024-2-5", "dt": datetime.date(2024, 2, 5)}, True),
        ("b = 'true'", {"b": True}, True),
        ("CASE WHEN b THEN s ELSE i END", {"b": True, "s": "3"}, 3),
        ("coalesce(i, 'none')", {"i": 4}, 4),
        ("to_date(s)", {"s": "2024-02-29T23:00:00Z"}, datetime.date(2024, 2, 29)),
        ("CAST(s AS DATE)", {"s": "2024-2"}, datetime.date(2024, 2, 1)),
        ("DATE '2024-2-5T'", {}, datetime.date(2024, 2, 5)),
        ("CAST(s AS TIMESTAMP)", {"s": "2024-2-5 7:30"}, datetime.datetime(2024, 2, 5, 7, 30, tzinfo=UTC)),
        (
            "CAST(s AS TIMESTAMP)",
            {"s": "2024-07-01 10:00:00.5 Europe/Berlin"},
            datetime.datetime(2024, 7, 1, 8, 0, 0, 500_000, UTC),
        ),
        ("CAST(s AS TIMESTAMP_NTZ)", {"s": "2024-07-01 10:00:00+2:00"}, datetime.datetime(2024, 7, 1, 10)),
        ("TRY_CAST(s AS TIMESTAMP)", {"s": "2024-02-29T10:00Z"}, None),
        ("TRY_CAST(s AS TIMESTAMP_NTZ)", {"s": "2024-02-30 10"}, None),
        ("TRY_CAST(s AS DATE)", {"s": "20240229"}, None),
        (
            "format_string('%s %05d %-4s;%,d %x', s, i, b, l, i)",
            {"s": "a", "i": -7, "b": True, "l": 1234567},
            "a -0007 true;1,234,567 fffffff9",
        ),
        ("printf('%.2f %6.1f%%', d, d)", {"d": 2.675}, "2.68    2.7%"),
        ("format_number(d, 2)", {"d": 1234567.895}, "1,234,567.90"),
        ("format_number(m, 0)", {"m": Decimal("-0.50")}, "-0"),
        (
            "to_json(struct(i, s, d, dt))",
            {"i": 1, "s": 'é"\u0001', "d": 1.0, "dt": None},
            '{"i":1,"s":"é\\"\\u0001","d":1.0}',
        ),
        ("to_json(map('k', array(i, NULL)))", {"i": 1}, '{"k":[1,null]}'),
        ("url_decode(url_encode(s))", {"s": "a b~é/"}, "a b~é/"),
        ("array_insert(array(i), -3, 9)", {"i": 1}, [9, None, 1]),
        ("arrays_overlap(array(i, NULL), array(2))", {"i": 1}, None),
        ("map_from_entries(map_entries(map('a', i)))", {"i": 1}, [("a", 1)]),
        ("map_filter(map('a', i, 'b', 5), (k, v) -> v > 2)", {"i": 1}, [("b", 5)]),
        ("transform_values(map('a', i), (k, v) -> concat(k, v))", {"i": 1}, [("a", "a1")]),
        ("zip_with(array(i, 2), array(10), (x, y) -> x + y)", {"i": 1}, [11, None]),
        (
            "sequence(dt, DATE '2024-04-30', INTERVAL 1 MONTH)",
            {"dt": datetime.date(2024, 2, 29)},
            [datetime.date(2024, 2, 29), datetime.date(2024, 3, 29), datetime.date(2024, 4, 29)],
        ),
        ("shiftrightunsigned(i, 28)", {"i": -1}, 15),
        ("l >> 1", {"l": -5}, -3),
        ("split(s, '[,;] *')", {"s": "a, b;c"}, ["a", "b", "c"]),
        ("s NOT LIKE ANY ('a%', '%b')", {"s": "ab"}, False),
        ("concat_ws('-', array(i, NULL), s)", {"i": 1, "s": "x"}, "1-x"),
        ("CAST(array(s) AS ARRAY<INT>)", {"s": " 3 "}, [3]),
        ("make_timestamp(2024, 2, 29, 23, 59, 60)", {}, datetime.datetime(2024, 3, 1, tzinfo=UTC)),
        ("monthname(dt) || dayname(dt)", {"dt": datetime.date(2024, 2, 29)}, "FebThu"),
        ("regexp_substr(s, '[0-9]+')", {"s": "abc"}, None),
        ("atan2(d, -1)", {"d": 0.0}, math.pi),
        ("sinh(d)", {"d": 1.0}, 1.1752011936438014),
        ("hypot(d, 4)", {"d": 3.0}, 5.0),
        ("log1p(d)", {"d": -1.0}, None),
        ("sin(d)", {"d": 1e22}, -0.8522008497671888),
        ("floor(m, 1)", {"m": Decimal("-1.25")}, Decimal("-1.3")),
        ("substring(s, -3, 2)", {"s": "ab"}, "a"),
        ("trim('x' FROM s)", {"s": "xaxx"}, "a"),
        ("s LIKE t", {"s": "a%b", "t": "a\\%_"}, True),
        ("s LIKE '5/%' ESCAPE '/'", {"s": "5%"}, True),
        ("split(s, '')", {"s": "ab"}, ["a", "b"]),
        ("regexp_extract(s, '(a)(b)?', 2)", {"s": "ac"}, ""),
        ("concat_ws('-', array(s, NULL), t)", {"s": "a", "t": "b"}, "a-b"),
        ("CAST(i AS DOUBLE) IN (1, 2.0, NULL)", {"i": 3}, None),
        ("tn = ts", {"ts": datetime.datetime(2024, 1, 1, tzinfo=UTC), "tn": datetime.datetime(2024, 1, 1)}, True),
        ("upper(s) IN ('A', 'B')", {"s": "b"}, True),
    ],
)
def test_values_that_engines_disagree_about_equal_sparks_in_ansi_mode(
    text: str, row: dict[str, Any], expected: Any
) -> None:
    assert values(text, [row]) == [expected]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rand() < 0.5", "another value each time"),
        ("uuid()", "another value each time"),
        ("current_timestamp()", "changes over time"),
        ("uper(s)", "did you mean upper"),
        ("date_format(dt, 'G')", "supports the letters yyyy, MM, dd, HH, mm, ss"),
        ("to_date(s, 'yyyy EEE dd')", "supports the letters yyyy, MM, dd, HH, mm, ss, yy, M, MMM"),
        ("CASE WHEN NULL THEN i END", "WHEN takes a boolean, not NULL"),
        ("EXTRACT(UPPER FROM s)", "EXTRACT takes day, .* and not UPPER"),
        ("EXTRACT('year' FROM dt)", "EXTRACT takes a word and FROM"),
        ("substring(s FROM 2", "a closing parenthesis is missing"),
        ("ts + INTERVAL '1 02:03' DAY TO MINUTE", "an interval of several fields"),
        ("dateadd('DAY', 1, dt)", r"takes a unit in front, such as dateadd\(DAY"),
        ("dateadd(EON, 1, dt)", "takes the units microsecond"),
        ("datediff(EON, ts, dt)", "takes the units microsecond"),
        ("next_day(dt, 'x')", "takes a day of the week, such as 'MON'"),
        ("try_add(dt, 1)", "takes numbers, not date and int"),
        ("ceil(d, 1)", "takes a decimal, not double"),
        ("concat(array(i), s)", "arrays of one type, not array<int>, string"),
        ("s LIKE 'a!b' ESCAPE '!'", "! must be followed by %"),
        ("s LIKE 'a' ESCAPE '!!'", "a literal string of one character"),
        ("split(s, '', 2)", "into letters does not take a limit"),
        ("regexp_count(s, 'a*')", "does not match an empty string"),
        ("encode(s, 'UTF-16')", "takes 'UTF-8'"),
        ("date_format(dt, 'yyyy%')", "not 'yyyy%'"),
        ("date_format(dt, s)", "date_format"),
        ("date_format(i, 'dd')", "takes timestamp, not int"),
        ("my_qqq(s)", "not supported: docs/expressions.md lists the functions"),
        ("strftime(s)", "write date_format"),
        ("convert_timezone(s)", "write from_utc_timestamp"),
        (
            "s AT TIME ZONE 'Europe/Berlin'",
            "AT TIME ZONE is not supported.*: s AT TIME ZONE .*Write from_utc_timestamp",
        ),
        ("rlike(s, 'b(?i)a')", r"may read \(\?i...\) in a regular expression differently"),
        ("rlike(s, 'a\\\\b')", r"may read \\b in a regular expression differently"),
        ("rlike(s, '[a&&b]')", "a class inside a class"),
        ("rlike(s, 'a(b')", "a parenthesis is not closed"),
        ("rlike(s, 'a++')", "the possessive"),
        ("regexp_replace(s, 'a*', 'b')", "does not match an empty string"),
        ("regexp_replace(s, 'a', '$1')", "a group that the pattern lacks"),
        ("regexp_replace(s, 'x(?:-?|a)*', 'b')", r"may read \* after a group that may match nothing"),
        ("regexp_replace(s, 'x((?:a*b?)c?){2,}', 'b')", r"may read \{2,\} after a group that may match nothing"),
        ("regexp_extract(s, 'x(a*|b)+')", r"may read \+ after a group that may match nothing"),
        ("regexp_extract(s, '(a)(b)', 3)", "a group from 0 to 2"),
        ("split(s, 'a*')", "takes a pattern that does not match an empty string"),
        ("to_date(s, 'yyyy-dd')", "takes a pattern with the year, then the month"),
        ("to_date(s, 'Mdyyyy')", "takes M and d with a sign between them"),
        ("to_date(s, 'yyyy-MM-dd Z')", r"in to_timestamp\(\) an offset"),
        ("(i, s) IN ((1, 2))", "compares no string with int: CAST one of them"),
        ("i | 4 ^ 1", "put parentheses around one of them"),
        ("s || i + 1", "put parentheses around one of them"),
        ("str_to_map(s, '|')", "takes literal signs between pairs"),
        ("parse_url(s, 'host')", "takes HOST, PATH"),
        ("sequence(dt, ts, INTERVAL 1 DAY)", "takes two dates or two timestamps"),
        ("sequence(dt, dt, INTERVAL 12 HOURS)", "takes an interval of whole days, months or years"),
        ("greatest(i, s)", "values of one type with an order"),
        ("sha2(s, 100)", "takes 224, 256, 384 or 512 bits"),
        ("ts + INTERVAL i DAYS", "an interval other than a whole number"),
        ("s[0]", "string has no elements"),
        ("element_at(n1, 1)", "has no elements"),
        ("element_at(array(i), 1).x", "int has no field x: only structs have fields"),
        ("struct(i).x", "no column x: the struct has i"),
        ("array(i, s)", "array.. takes values of one type"),
        ("upper(s, t)", "takes 1 argument, not 2"),
        ("upper(i)", "takes string, not int: CAST it"),
        ("s + t", r"cannot compute string \+ string"),
        ("dt - du", "datediff"),
        ("b > i", "boolean and int cannot be compared: CAST one"),
        ("CASE WHEN b THEN dt ELSE i END", "no common type"),
        ("CAST(b AS DATE)", "a cast of boolean to date"),
        ("s RLIKE t", "takes a literal string"),
        ("s ILIKE t", "not a literal string"),
        ("s LIKE 'a\\\\n'", "a backslash must be followed by %"),
        ("sum(i)", "not supported"),
        ("max(i) OVER ()", "WINDOW"),
        ("1e400", "too large for a double"),
        ("upper(1.0D, 2L)", r"cannot read upper\(1\.0D, 2L\)"),
        ("asinh(d)", r"write sign\(x\) \* ln\(abs\(x\) \+ sqrt\(x \* x \+ 1\)\)"),
        ("i = 1 AND s + (t || 'x') > 2", r"line 1, column 11\): cannot compute string . string"),
    ],
)
def test_what_is_refused_names_the_text_and_what_to_write(text: str, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason) as caught:
        parse(text, SCHEMA)
    assert text.split("(")[0].split(" ")[0] in str(caught.value)


@pytest.mark.parametrize("text", ["NULL", "((NULL))", "coalesce(NULL, NULL)", ":nothing"])
def test_a_whole_condition_is_no_null_without_a_type(text: str) -> None:
    given = {"parameters": {"nothing": None}} if ":" in text else {}
    with pytest.raises(InvalidInputError, match=r"write CAST\(NULL AS BOOLEAN\)"):
        parse_predicate(text, SCHEMA, **given)
    typed = parse_predicate(f"CAST({text} AS BOOLEAN)", SCHEMA, **given)
    assert parse_predicate(str(typed), SCHEMA) == typed


@pytest.mark.parametrize(
    "text",
    [
        *(
            "s RLIKE '^a{1,2}.*\\\\d$'",
            "s ILIKE 'A%{}'",
            "regexp_replace(s, '(a)b', '$1{}')",
            "regexp_extract(s, 'a(b)', 1)",
        ),
        *("split(s, '\\\\|#')", "md5(s)", "sha2(s, 512)", "sha1(s)", "unix_millis(ts)", "timestamp_micros(l)"),
        *("ts + INTERVAL 3 HOURS", "tn - INTERVAL '2' MONTHS", "dt + INTERVAL 1 YEAR", "dt - INTERVAL 2 WEEKS"),
        *("split(s, ',')[0]", "element_at(split(s, ','), -1)", "named_struct('x', i, 'y', s)", "array(i, 2, l)"),
        *("element_at(array(named_struct('x', i)), 1).x", "named_struct('a {b', i).`a {b`", "struct(struct(i).i, s).s"),
        *("round(m, 1)", "greatest(i, l)", "pmod(i, 3)", "decode(i, 1, 'a', NULL, 'b', 'c')", "lpad(s, 5)"),
        *(
            "trim(LEADING 'a{' FROM s)",
            "btrim(s, t)",
            "substring(s, i, 2)",
            "substring(s, -3, 2)",
            "s LIKE t",
            "NOT s LIKE t",
        ),
        *(
            "EXTRACT(YEAROFWEEK FROM dt)",
            "dateadd(HOUR, 30, dt)",
            "dateadd(MONTH, 1, ts)",
            "dateadd(DAY, i, tn)",
            "datediff(MONTH, ts, dt)",
        ),
        *("months_between(ts, dt, false)", "next_day(dt, 'MO')", "unix_timestamp(tn)", "try_add(i, j)", "ceil(m, 1)"),
        *(
            "concat(array(i), array(j))",
            "regexp_count(s, 'a{2}')",
            "split(s, ',', 2)",
            "elt(i, s, t)",
            "i div m",
            "m div n",
        ),
        *("concat_ws('-', s, t)", "to_date(s, 'dd/MM/yyyy')", "locate('a', s)", "NOT s RLIKE 'a' OR s NOT ILIKE 'b'"),
    ],
)
def test_the_text_of_an_expression_means_the_same(text: str) -> None:
    found = parse(text, SCHEMA)
    assert parse(str(found), SCHEMA) == found


@pytest.mark.parametrize("operator", ["LIKE", "ILIKE"])
def test_a_backslash_in_a_pattern_of_like_stands_for_the_sign_after_it(operator: str) -> None:
    parts = {"a": "a", "%": ".*", "_": ".", r"\%": "%", r"\_": "_", r"\\": r"\\"}
    texts = ["".join(letters) for count in range(4) for letters in itertools.product("a\\%_.\n", repeat=count)]
    rows = batch_of([{"s": text} for text in texts])
    for pattern in (each for count in range(4) for each in itertools.product(parts, repeat=count)):
        written = "".join(pattern).replace("\\", "\\\\")
        expected = re.compile("".join(parts[part] for part in pattern), re.DOTALL)
        found = evaluate(parse(f"s {operator} '{written}'", SCHEMA), rows).to_pylist()
        assert found == [expected.fullmatch(text) is not None for text in texts], pattern


@pytest.mark.parametrize(
    "text",
    [
        *(
            "b = c < b",
            "b <=> c < b",
            "b = NOT c",
            "b = i IN (1, 2)",
            "b < c IN (b)",
            "b = s LIKE 'a%'",
            "b <=> s RLIKE 'a'",
        ),
        *(
            "s NOT LIKE 'a%' = b",
            "b = i NOT IN (1)",
            "i BETWEEN 1 AND 2 = b",
            "b != i BETWEEN 1 AND 2",
            "s ILIKE 'a' <=> b",
        ),
    ],
)
def test_a_chain_of_conditions_that_parsers_group_differently_needs_parentheses(text: str) -> None:
    with pytest.raises(InvalidInputError, match="put parentheses around one of them"):
        parse(text, SCHEMA)


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("b = c = b", "(b = c) = b"),
        ("b < c = b", "(b < c) = b"),
        ("b <=> c = b", "(b <=> c) = b"),
        ("NOT b = c", "NOT (b = c)"),
        ("b = (s = 'a')", "b = (s = 'a')"),
        ("b = (i + 1 IN (1, 2))", "b = (i + 1 IN (1, 2))"),
        ("b = (i IS NULL)", "b = (i IS NULL)"),
        ("b = (s LIKE '_a')", "b = (s LIKE '_a')"),
    ],
)
def test_a_chain_of_conditions_is_grouped_as_in_spark_and_written_with_parentheses(text: str, grouped: str) -> None:
    schema = Struct((*SCHEMA.fields, Field("c", delta.BOOLEAN)))
    found = parse(text, schema)
    assert found == parse(grouped, schema)
    assert parse(str(found), schema) == found


def test_a_date_of_any_year_is_written_as_spark_writes_it() -> None:
    texts = {
        -(2**31): "-5877641-06-23",
        -719_529: "-0001-12-31",
        -719_528: "0000-01-01",
        0: "1970-01-01",
        2_932_896: "9999-12-31",
        2_932_897: "+10000-01-01",
        2**31 - 1: "+5881580-07-11",
    }
    text_of = parse("CAST(dt AS STRING)", SCHEMA)
    for days in ([*texts, None], [None], [0, None], []):
        rows = pa.table({"dt": pa.array(days, pa.int32()).cast(pa.date32())})
        assert evaluate(text_of, rows).to_pylist() == [None if day is None else texts[day] for day in days]
    assert values("CAST(date_add(DATE '9999-12-31', 1) AS STRING)", [{}]) == ["+10000-01-01"]


def test_every_function_has_a_kernel_and_every_alias_a_function() -> None:
    made_of_others = {
        *("if", "nullif", "nvl2", "isnull", "isnotnull", "mod", "pmod", "try_divide", "decode", "negative"),
        *("space", "typeof", "instr", "md5", "sha1", "sha2", "named_struct", "btrim", "array_sort", "date_part"),
        *("try_add", "try_subtract", "try_multiply", "try_mod"),
        *("tinyint", "smallint", "int", "bigint", "float", "double", "string", "boolean", "binary", "timestamp"),
        *("try_to_date", "try_to_timestamp", "from_unixtime", "unix_date", "date_from_unix_date", "equal_null"),
        *("nanvl", "nullifzero", "zeroifnull", "pi", "e", "positive", "printf", "monthname", "dayname", "to_json"),
        *("regexp_substr", "to_timestamp_ntz"),
        *("timestamp_seconds", "timestamp_millis", "timestamp_micros", "unix_seconds", "unix_millis", "unix_micros"),
    }
    assert set(FUNCTIONS) - set(KERNELS) == made_of_others
    assert set(ALIASES.values()) <= set(FUNCTIONS)


def test_now_is_one_moment_given_by_the_caller() -> None:
    now = datetime.datetime(2024, 2, 29, 23, 30, tzinfo=UTC)
    assert values("current_timestamp()", [{}, {}], now=now) == [now, now]
    assert values("date_sub(current_date(), 1)", [{}], now=now) == [datetime.date(2024, 2, 28)]
    assert parse_predicate("dt >= current_date() - 7", SCHEMA, now=now) == parse_predicate("dt >= '2024-02-22'", SCHEMA)


def test_a_struct_member_of_a_null_struct_is_null_and_a_constant_fills_every_row() -> None:
    assert values("n1.x + 1", [{"n1": {"x": 1}}, {"n1": None}, {"n1": {"x": None}}]) == [2, None, None]
    assert values("'x'", [{}, {}]) == ["x", "x"]
    empty = evaluate(parse("i + 1", SCHEMA), ARROW_SCHEMA.empty_table())
    assert empty.type == pa.int32()
    assert len(empty) == 0


def test_arrays_of_other_arrow_types_are_taken_for_the_same_values() -> None:
    table = pa.table({"s": pa.chunked_array([pa.array(["a"], pa.large_string()), pa.array(["b"], pa.large_string())])})
    assert evaluate(parse("upper(s)", SCHEMA), table).to_pylist() == ["A", "B"]


# --- skipping -------------------------------------------------------------------------------------------------


def test_a_condition_that_cannot_prune_excludes_no_file_even_below_not() -> None:
    predicate = parse_predicate("i = 5 AND NOT (upper(s) = 'A' OR j > 3)", SCHEMA)
    assert prunable(predicate).columns() == {"i", "j"}
    stats = '{"numRecords": 2, "minValues": {"i": %s, "j": %s}, "maxValues": {"i": 9, "j": 9}, "nullCount": {}}'
    judged = [Pruner(predicate, SCHEMA, ()).may_match({}, stats % bounds) for bounds in ((5, 0), (6, 0), (5, 4))]
    assert judged == [True, False, False]


def test_a_constant_part_is_computed_once_so_that_files_are_skipped_by_it() -> None:
    assert parse_predicate("i = 2 + 3", SCHEMA) == parse_predicate("i = 5", SCHEMA)
    assert parse_predicate("dt = CAST('2024-' || '02-29' AS DATE)", SCHEMA) == parse_predicate(
        "dt = '2024-02-29'", SCHEMA
    )
    assert isinstance(parse_predicate("l > CAST('5' AS INT)", SCHEMA), Comparison)
    assert prunable(parse_predicate("i < j", SCHEMA)) == ExcludesNothing()


# --- two sides ------------------------------------------------------------------------------------------------

SOURCE = Struct((Field("ID", delta.LONG), Field("amount", delta.INTEGER), Field("op", delta.STRING)))
TARGET = Struct((Field("id", delta.INTEGER), Field("amount", delta.INTEGER), Field("day", delta.DATE)))


def joined(text: str) -> Any:
    return parse_predicate(text, TARGET, source=SOURCE, target_alias="t", source_alias="s")


def test_a_join_condition_comes_apart_into_keys_and_terms_of_each_side() -> None:
    parts = split_join(joined("t.id = s.id AND day >= '2024-01-01' AND op != 'D' AND t.amount < s.amount AND TRUE"))
    assert [(key.source_path, key.target_path, key.type) for key in parts.keys] == [(("ID",), ("id",), delta.LONG)]
    assert parts.target == parse_predicate("day >= '2024-01-01'", TARGET)
    assert parts.source is not None
    assert columns_of(parts.source) == {("source", ("op",))}
    assert parts.residual is not None
    assert parts.residual.sides == {"target", "source"}
    source = pa.table({"ID": [1], "amount": [5], "op": ["D"]})
    assert evaluate(parts.source, None, source).to_pylist() == [False]


def test_computed_values_are_keys_and_table_columns_come_first() -> None:
    parts = split_join(joined("t.id * 2 = s.id AND t.id = s.id + 1"))
    assert [(key.source_path, key.target_path) for key in parts.keys] == [(None, ("id",)), (("ID",), None)]
    assert parts.residual is None


def test_a_null_safe_equality_becomes_two_keys_that_are_never_null() -> None:
    parts = split_join(joined("t.id <=> s.id"))
    target, source = pa.table({"id": pa.array([None, 0, 3], pa.int32())}), pa.table({"ID": [None, 0, 3]})
    for key in parts.keys:
        assert evaluate(key.target, target).to_pylist() == evaluate(key.source, None, source).to_pylist()
        assert evaluate(key.target, target).null_count == 0
    assert (len(parts.keys), parts.residual) == (2, None)


@pytest.mark.parametrize(
    ("text", "operators"),
    [
        ("t.id > s.id", [">"]),
        ("s.id > t.id AND t.amount + 1 >= s.amount", ["<", ">="]),
        ("s.amount BETWEEN t.id AND t.amount", ["<=", ">="]),
        ("t.id + s.id = 3", []),
        ("t.id = s.id OR t.amount = s.amount", []),
    ],
)
def test_a_term_on_both_sides_is_evaluated_for_pairs_and_searched_for_if_it_compares_them(
    text: str, operators: list[str]
) -> None:
    parts = split_join(joined(text))
    assert parts.keys == ()
    assert parts.residual is not None
    assert conjuncts(joined(text)) == conjuncts(parts.residual)
    assert [each.operator for each in parts.ranges] == operators


def test_an_expression_over_target_and_source_is_evaluated_row_by_row() -> None:
    target = pa.RecordBatch.from_pylist([{"id": 1, "amount": 5}, {"id": 2, "amount": None}])
    source = pa.RecordBatch.from_pylist([{"ID": 1, "amount": 7}, {"ID": 3, "amount": 1}])
    value = parse("t.amount + s.amount", TARGET, source=SOURCE, target_alias="t", source_alias="s")
    assert evaluate(value, target, source).to_pylist() == [12, None]
    with pytest.raises(TypeError, match="source rows"):
        evaluate(value, target)
    with pytest.raises(TypeError, match="same number of rows"):
        evaluate(value, target, source.slice(1))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("amount = 1", "write t.amount or s.amount"),
        ("t.op = 'D'", "no column op: the table has"),
        ("target.id = 1", "does not say which side"),
    ],
)
def test_a_name_that_either_side_may_mean_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        joined(text)


def test_the_sides_are_called_target_and_source_unless_named() -> None:
    named = parse_predicate("target.id = source.id", TARGET, source=SOURCE)
    assert named == joined("t.id = s.id")
    assert str(named) == "CAST(id AS BIGINT) = source.ID"


# --- store assignment -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "column", "row", "expected"),
    [
        ("m * 1.1", "m", {"m": Decimal("1.05")}, Decimal("1.16")),
        ("i + 1", "y", {"i": 5}, 6),
        ("l", "d", {"l": 2}, 2.0),
        ("1.5", "i", {}, 1),
        ("i", "s", {"i": 5}, "5"),
        ("-5", "s", {}, "-5"),
        ("NULL", "dt", {}, None),
        ("dt", "ts", {"dt": datetime.date(2024, 1, 1)}, datetime.datetime(2024, 1, 1, tzinfo=UTC)),
        ("i > 1", "b", {"i": 2}, True),
    ],
)
def test_a_value_is_stored_in_the_type_of_its_column(
    text: str, column: str, row: dict[str, Any], expected: Any
) -> None:
    stored = assign(txlog.expr(text), Field(column, TYPES[column]), SCHEMA)
    assert stored.type == TYPES[column]
    assert evaluate(stored, batch_of([row])).to_pylist() == [expected]


@pytest.mark.parametrize(
    ("text", "column", "row"),
    [("i * 100", "y", {"i": 5}), ("m * 1000", "m", {"m": Decimal("99")}), ("l", "i", {"l": 2**40})],
)
def test_a_value_too_great_for_its_column_is_an_error(text: str, column: str, row: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="cannot compute CAST"):
        evaluate(assign(txlog.expr(text), Field(column, TYPES[column]), SCHEMA), batch_of([row]))


@pytest.mark.parametrize(
    ("text", "column"), [("s", "i"), ("'5'", "i"), ("i", "b"), ("b", "i"), ("i", "dt"), ("i", "n1")]
)
def test_a_value_of_another_kind_is_refused_for_a_column(text: str, column: str) -> None:
    with pytest.raises(InvalidInputError, match=f"column {column} .*cannot be (set|stored)"):
        assign(txlog.expr(text), Field(column, TYPES[column]), SCHEMA)


@pytest.mark.parametrize("text", ["2026-11-01", "555-1234", "1 + 1"])
def test_arithmetic_on_literals_is_no_value_of_a_string_column(text: str) -> None:
    with pytest.raises(InvalidInputError, match="column s is a string") as caught:
        assign(txlog.expr(text), Field("s", TYPES["s"]), SCHEMA)
    assert f"write \"'{text}'\"" in caught.value.message
    stored = assign(txlog.expr(f"'{text}'"), Field("s", TYPES["s"]), SCHEMA)
    assert evaluate(stored, batch_of([{}])).to_pylist() == [text]
    assert assign(txlog.expr(text.replace("-", "+")), Field("l", TYPES["l"]), SCHEMA).type == TYPES["l"]


@pytest.mark.parametrize("column", ["dt", "ts", "tn"])
def test_a_date_without_quotes_is_no_value_of_a_column_of_times(column: str) -> None:
    with pytest.raises(InvalidInputError, match=f"column {column} is a .* is arithmetic .*write \"'2026-11-01'\"$"):
        assign(txlog.expr("2026-11-01"), Field(column, TYPES[column]), SCHEMA)


def test_a_dotted_name_without_backticks_is_refused_with_the_name_in_backticks() -> None:
    schema = from_arrow(pa.schema([("a.b", pa.int64())]))
    with pytest.raises(InvalidInputError, match=r"no column a\.b: the table has a\.b\. .* `a\.b` in backticks"):
        bind_predicate("a.b = 1", schema, zone="UTC")
    assert bind_predicate("`a.b` = 1", schema, zone="UTC") is not None


# --- what users give for a value ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (txlog.expr("i + 1"), "i + 1"),
        (txlog.expr("'open'"), "'open'"),
        (txlog.lit("i"), "'i'"),
        (txlog.col("i") + 1, "i + 1"),
        (1.5 - txlog.col("d") * -txlog.col("e"), "1.5D - d * -e"),
        (txlog.expr("i + j") / txlog.col("l") % 3, "(i + j) / l % 3"),
        (txlog.lit(Decimal("1.5")) * txlog.col("i"), "1.5 * i"),
        (txlog.col("i") + 1 > txlog.col("j"), "i + 1 > j"),
        (
            (txlog.col("i") == txlog.lit(1)) & ~txlog.expr("b") | (txlog.col("i") / 2).is_null(),
            "i = 1 AND NOT b OR i / 2 IS NULL",
        ),
        (txlog.expr("upper(s)").is_in(["A", None, txlog.col("s")]), "upper(s) IN ('A', NULL, s)"),
        (txlog.col("n1.x").between(1, txlog.col("l")), "n1.x BETWEEN 1 AND l"),
        (pa.scalar("open"), "'open'"),
        (True, "TRUE"),
        (None, "NULL"),
        (5, "5"),
        (2**40, "1099511627776"),
        (1.5, "1.5D"),
        (Decimal("1.50"), "1.50"),
        (datetime.date(2024, 2, 29), "DATE '2024-02-29'"),
        (datetime.datetime(2024, 2, 29, 1, tzinfo=UTC), "TIMESTAMP '2024-02-29 01:00:00'"),
        (b"\x00\xff", "X'00FF'"),
        (txlog.col("I"), "i"),
        (txlog.col("n1", "X"), "n1.x"),
        (txlog.col("n1.X"), "n1.x"),
        (txlog.col("i") > 1, "i > 1"),
        (parse("j * 2", SCHEMA), "j * 2"),
    ],
)
def test_what_expr_col_and_values_build_is_what_sql_text_means(value: Any, text: str) -> None:
    assert bind_value(value, SCHEMA) == parse(text, SCHEMA)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (txlog.expr("open"), "For the string open, write \"'open'\""),
        ("open", r"pass txlog\.lit\('open'\) for the text itself, or txlog\.expr\('open'\) for SQL"),
        ([1], "cannot be the value of a column"),
        ({}, "cannot be the value of a column"),
    ],
)
def test_a_value_that_is_none_is_refused_with_what_to_write(value: Any, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        bind_value(value, SCHEMA)


def test_a_read_filters_by_expressions_and_by_the_date_of_today(tmp_path: Path) -> None:
    today = datetime.datetime.now(UTC).date()
    days = [today - datetime.timedelta(days=days) for days in (0, 1, 40)]
    rows = pa.table({"name": ["Ann", "bob", "Ann"], "n": [1, 2, 3], "m": [0, 5, 9], "day": pa.array(days, pa.date32())})
    snapshot = txlog.write(tmp_path / "t", rows) and txlog.Table.open(tmp_path / "t").snapshot()
    where = "lower(name) = 'ann' AND day > current_date() - 7"
    assert snapshot.to_arrow(["n"], where).to_pydict() == {"n": [1]}
    assert snapshot.to_arrow(["n"], "n < m").to_pydict() == {"n": [2, 3]}
    with pytest.raises(InvalidInputError, match="divide by zero") as caught:
        snapshot.to_arrow(["n"], "n / m > 1")
    assert caught.value.version == 0


# --- pyarrow's expressions ------------------------------------------------------------------------------------

X, S = pc.field("i"), pc.field("s")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ((X > 1) & (S == "a"), "i > 1 AND s = 'a'"),
        ((pc.field("l") >= X + 1) | ~(X == 3), "l >= i + 1 OR NOT (i = 3)"),
        (pc.field("n1", "x").is_null(), "n1.x IS NULL"),
        (X.is_valid(), "i IS NOT NULL"),
        (S.isin(["a", "b", None]), "s IN ('a', 'b', NULL)"),
        (pc.field("dt") >= pc.scalar(datetime.date(2024, 2, 29)), "dt >= DATE '2024-02-29'"),
        (pc.starts_with(S, "it's"), "startswith(s, 'it''s')"),
        (pc.match_like(S, "%a_"), "s LIKE '%a_'"),
        (pc.utf8_length(pc.utf8_upper(S)) > 2, "length(upper(s)) > 2"),
        (pc.field("d") / 2 > pc.field("e"), "d / 2 > e"),
        (pc.if_else(X > 1, X, pc.field("l")) == 5, "if(i > 1, i, l) = 5"),
    ],
)
def test_an_expression_of_pyarrow_is_read_as_its_sql_equivalent(expression: pc.Expression, text: str) -> None:
    assert bind_predicate(expression, SCHEMA, zone="UTC") == parse_predicate(text, SCHEMA)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (pc.field(0) > 1, "not understood.*Write it as SQL text"),
        (X / 2 == 1, "divides integers to integers"),
        (pc.add(X, 1) > 1, r"function add\(int, int\) has no SQL equivalent here"),
        (pc.field("nothing") > 1, "no column nothing: the table has"),
        (X + 1, "a condition must be a boolean"),
        (X.is_null(nan_is_null=True), "is_null"),
    ],
)
def test_a_pyarrow_expression_without_an_sql_equivalent_is_refused_and_named(
    expression: pc.Expression, reason: str
) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        bind_predicate(expression, SCHEMA, zone="UTC")


# --- plain data -----------------------------------------------------------------------------------------------


@example("-(-(d))")
@example("replace(nullif('a', 'a'), 'a', 'xy')")
@given(text=ANY)
def test_an_expression_pickles_and_its_text_reads_back_with_the_same_type(text: str) -> None:
    expression = parse(text, SCHEMA)
    assert pickle.loads(pickle.dumps(expression)) == expression
    again = parse(str(expression), SCHEMA)
    assert type_name(again.type) == type_name(expression.type)
    assert columns_of(again) == columns_of(expression)


@pytest.mark.parametrize("name", ["comment", "set", "SHOW", "cache", "use", "load", "copy", "kill"])
@pytest.mark.parametrize("condition", ["{} = 1", "{} is not null", "{} IN (1, 2)", "{}+1 > 1 and true", "{} < 2"])
def test_a_column_may_have_the_name_of_a_statement(name: str, condition: str) -> None:
    schema = delta.from_arrow(pa.schema([(name, pa.int64())]))
    found = evaluate(parse(condition.format(name), schema), pa.record_batch({name: [1]}))
    assert found.to_pylist() == [True]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("d % 2", [1.0, 0.5, -0.0, -1.75, None]),
        ("pmod(d, 3D)", [1.0, 2.5, 2.0, 2.25, None]),
        ("7 % d", [0.0, 2.0, 3.0, 3.25, None]),
        ("CAST(-7.25 AS DECIMAL(5,2)) % 2", [Decimal("-1.25")] * 5),
        ("12345678901234567890123456789012345678 % 0.7", [Decimal("0.6")] * 5),
        ("d % 1 = 0", [True, False, True, False, None]),
        ("f % CAST(0.5 AS FLOAT)", [0.0, 0.25, None, 0.10000000149011612, -0.25]),
        ("f = CAST(0.1 AS FLOAT)", [False, False, None, True, False]),
        ("f IN (CAST(0.1 AS FLOAT), 1)", [True, False, None, True, False]),
        ("d > CAST(2.4999999999 AS FLOAT)", [False, False, False, False, None]),
        ("CAST(16777217 AS FLOAT)", [16777216.0] * 5),
        ("CAST(9007200328482817 AS FLOAT)", [9007200328482816.0] * 5),
    ],
)
def test_floats_are_computed_in_their_own_width(text: str, expected: list[Any]) -> None:
    rows = pa.table(
        {"d": [1.0, 2.5, -4.0, -0.75 - 3, None], "f": pa.array([1.0, 0.25, None, 0.1, -0.25], pa.float32())}
    )
    found = evaluate(parse(text, from_arrow(rows.schema)), rows).to_pylist()
    assert list(map(repr, found)) == list(map(repr, expected))


def test_an_extracted_second_has_its_fraction() -> None:
    moments = [-1, 0, 1_500_000, 253_402_300_799_999_999, -(2**63), None]
    expected = ["59.999999", "0.000000", "1.500000", "59.999999", "5.224192", "None"]
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        rows = pa.table({"ts": pa.array(moments, pa.int64()).cast(kind)})
        expression = parse("EXTRACT(SECOND FROM ts)", from_arrow(rows.schema))
        assert type_name(expression.type) == "decimal(8,6)"
        assert list(map(str, evaluate(expression, rows).to_pylist())) == expected
        assert parse(str(expression), from_arrow(rows.schema)) == expression
    with pytest.raises(ValueError, match="takes a timestamp, not string"):
        parse("EXTRACT(SECOND FROM s)", from_arrow(pa.schema({"s": pa.string()})))


@pytest.mark.parametrize("text", ["round(l, -1)", "bround(l, -3)", "add_months(ts, 1)", "ts + INTERVAL 1 MONTH"])
def test_a_result_beyond_its_type_is_a_typed_error(text: str) -> None:
    beyond = pa.array([253402300800000000], pa.int64()).cast(pa.timestamp("us", "UTC"))
    rows = pa.table({"l": [2**63 - 1], "ts": beyond})
    with pytest.raises(InvalidInputError, match="cannot compute"):
        evaluate(parse(text, from_arrow(rows.schema)), rows)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("unix_seconds(timestamp_micros(n))", [-9223372036855, -1, 0, 9223372036854]),
        ("unix_millis(timestamp_micros(n))", [-9223372036854776, -1, 0, 9223372036854775]),
        ("unix_micros(timestamp_micros(n))", [-(2**63), -1, 0, 2**63 - 1]),
    ],
)
def test_moments_at_the_ends_of_time_are_counted_downwards(text: str, expected: list[int]) -> None:
    rows = pa.table({"n": pa.array([-(2**63), -1, 0, 2**63 - 1])})
    assert evaluate(parse(text, from_arrow(rows.schema)), rows).to_pylist() == expected


@pytest.mark.parametrize("part", ["year(at)", "dayofweek(at)", "date_trunc('MONTH', at)", "year(CAST(at AS DATE))"])
@pytest.mark.parametrize("micros", [-(2**63), 2**63 - 1, 10**18])
def test_a_year_beyond_arrows_calendar_is_an_error_and_no_other_year(part: str, micros: int) -> None:
    rows = pa.table({"at": pa.array([micros, None, 0], pa.timestamp("us", "UTC")), "n": [0, 1, 1]})
    schema = from_arrow(rows.schema)
    with pytest.raises(InvalidInputError, match="the year is not between -28000 and 31900"):
        evaluate(parse(part, schema), rows)
    guarded = evaluate(parse(f"CASE WHEN n = 1 THEN {part} END", schema), rows)
    assert [value is None for value in guarded.to_pylist()] == [True, True, False]


def test_a_substring_from_the_least_position_is_refused() -> None:
    schema = from_arrow(pa.schema([("s", pa.string())]))
    with pytest.raises(InvalidInputError, match="loses a letter in Spark"):
        parse("substring(s, -2147483648)", schema)


def test_decimals_near_powers_of_two_are_cast_divided_and_cut_exactly(tmp_path: Path) -> None:
    """pyarrow's own division of decimals is wrong there (`txlog.core.format.arrow.decimals`)."""
    largest = Decimal(2**64 - 1)
    columns = "e decimal(20,0), f decimal(38,18), a decimal(25,5), b decimal(18,18), s string, g decimal(38,4)"
    table = txlog.Table.create(tmp_path, columns)
    row = {"e": largest, "f": largest, "a": Decimal("147573952589676412.926"), "b": Decimal("0.1"), "s": str(largest)}
    table.append(pa.table({name: pa.array([value], table.schema.field(name).type) for name, value in row.items()}))
    for condition in (
        f"e = cast('{largest}' as decimal(20,0))",
        f"floor(f) = {largest} and ceil(f) = {largest} and floor(0 - e) = -{largest}",
        f"floor(f - 0.5) = {largest - 1} and ceil(f + 0.5) = {largest + 1} and floor(f + 0.5) = {largest}",
        "a / b = 1475739525896764129.26",
    ):
        assert table.count(condition) == 1, condition
    table.update({"g": txlog.expr("cast(s as decimal(38,4))")})
    assert table.to_arrow()["g"].to_pylist() == [largest]
    source = pa.table({"k": pa.array([largest], pa.decimal128(38, 18))})
    merged = table.merge(source, "target.e = source.k").when_matched_update({"s": txlog.expr("'found'")}).execute()
    assert merged.metrics.rows_updated == 1


def test_size_counts_the_entries_of_a_map_as_those_of_an_array() -> None:
    maps = pa.array([[("a", 1), ("b", None)], [], None], pa.map_(pa.string(), pa.int32()))
    lists = pa.array([["a", "b"], [], None])
    batch = pa.RecordBatch.from_arrays([maps, lists], ["m", "l"])
    schema = from_arrow(batch.schema)
    for name in ("m", "l"):
        assert evaluate(parse(f"size({name})", schema), batch).to_pylist() == [2, 0, None]
        assert evaluate(parse_predicate(f"size({name}) = 2", schema), batch.slice(1)).to_pylist() == [False, None]


@pytest.mark.parametrize("kind", ["map<string, int>", "struct<a: int>", "array<array<decimal(3, 1)>>"])
def test_a_cast_to_another_nested_type_is_refused_with_its_name(kind: str) -> None:
    with pytest.raises(InvalidInputError, match=f"a cast of array<int> to {kind[:5]}"):
        parse(f"cast(l as {kind})", from_arrow(pa.schema({"l": pa.list_(pa.int32())})))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([1, 2], r'"array\(1, 2\)"'),
        (pa.scalar([1, 2]), r'"array\(1, 2\)"'),
        ({"x": 1}, r"\"named_struct\('x', 1\)\""),
        (pa.scalar({"x": 1}), r"\"named_struct\('x', 1\)\""),
    ],
)
def test_values_of_several_values_are_told_what_to_write(value: object, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        literal(value)


def test_a_float_for_a_decimal_column_is_told_what_to_pass() -> None:
    with pytest.raises(ValueError, match=r"pass a decimal\.Decimal, or in SQL a number with a point, such as 1\.50"):
        assigned(literal(1.5), delta.Decimal(10, 2))
    assert assigned(literal(Decimal("1.50")), delta.Decimal(10, 2)).type == delta.Decimal(10, 2)


def test_a_column_called_as_is_read_where_no_alias_can_be() -> None:
    schema = Struct((Field("as", delta.STRING), Field("s", delta.STRING)))
    row = pa.RecordBatch.from_pylist([{"as": "A", "s": "p"}])
    for text, value in {
        "as": "A",
        "concat(s, as)": "pA",
        "concat(as, as)": "AA",
        "coalesce(NULL, as)": "A",
        "CASE as WHEN 'A' THEN s END": "p",
        "CAST(as AS STRING)": "A",
        "as = 'A' AND s IN ('q', as) IS NOT NULL": True,
        "NOT as < 'B'": False,
    }.items():
        assert evaluate(parse(text, schema), row).to_pylist() == [value], text


@pytest.mark.parametrize("text", ["concat(s, )", "concat(s,, t)", "concat(, s)", "s IN ('p', )", "coalesce(s, all)"])
def test_a_list_in_which_a_value_is_missing_is_refused(text: str) -> None:
    """An older sqlglot takes ``all`` for the name of a column, which the table lacks."""
    with pytest.raises(
        InvalidInputError, match=r"a value is missing in a list at line 1, column|there is no column all"
    ):
        parse(text, SCHEMA)


@pytest.mark.parametrize(
    ("built", "sql"),
    [
        (txlog.expr("a + b") * 2 > 5, "(a + b) * 2 > 5"),
        (-txlog.expr("a + b") <= txlog.col("a"), "-(a + b) <= a"),
        (3 - txlog.expr("a - b") == 3, "3 - (a - b) = 3"),
        (txlog.expr("a = 1 OR b = 2") == (txlog.col("a") > 0), "(a = 1 OR b = 2) = (a > 0)"),
        (txlog.expr("upper(s)") == "IT'S", "upper(s) = 'IT''S'"),
        (txlog.expr("a % 3").is_in([0, 2]) & txlog.expr("a = 1 OR b = 2"), "(a % 3) IN (0, 2) AND (a = 1 OR b = 2)"),
    ],
)
def test_the_text_of_a_condition_means_what_the_condition_means(built: Any, sql: str) -> None:
    """It is what errors and the history of an optimize show, and what people copy from there."""
    values = [None, *range(-2, 4)]
    pairs = [(a, b, s) for a in values for b in values for s in ("it's", "x", None)]
    types: list[tuple[str, Any]] = [("a", pa.int64()), ("b", pa.int64()), ("s", pa.string())]
    rows = pa.Table.from_pydict(dict(zip("abs", map(list, zip(*pairs, strict=True)), strict=True)), pa.schema(types))
    expected = duckdb.sql(f"SELECT coalesce({sql}, false) AS found FROM rows").to_arrow_table()["found"].to_pylist()
    for condition in (built, str(built)):
        bound = bind_predicate(condition, from_arrow(rows.schema))
        found = [flag is True for flag in evaluate(bound, rows).to_pylist()]
        assert found == expected
        assert any(found)


@pytest.mark.parametrize(
    "text",
    [
        "sequence(1, 2147483647)",
        "sequence(1L, 9223372036854775807L)",
        "sequence(l, 1L, -1L)",
        "sequence(DATE '0001-01-01', day)",
        "array_repeat('x', 2000000000)",
        "size(array_repeat(NULL, 2000000000))",
    ],
)
def test_more_values_than_memory_has_room_for_are_an_error_before_they_are_made(text: str) -> None:
    rows = pa.table({"l": [2**40] * 2, "day": pa.array([2_932_896] * 2, pa.int32()).cast(pa.date32())})
    rows = pa.concat_tables([rows] * 50)
    with pytest.raises(InvalidInputError, match=r"cannot compute .* more than (134217728|16777216) values"):
        evaluate(parse(text, from_arrow(rows.schema)), rows)


@pytest.mark.parametrize("text", ["1 / 0", "l / 0", "CAST(l AS DOUBLE) / (0 * l)", "l * 9223372036854775807L"])
def test_an_error_shows_what_was_written_without_the_casts_that_types_need(text: str) -> None:
    rows = pa.table({"l": [2]})
    with pytest.raises(InvalidInputError) as caught:
        evaluate(parse(text, from_arrow(rows.schema)), rows)
    assert str(caught.value).startswith(f"cannot compute {text.replace('9223372036854775807L', '')}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CAST(a - b AS BIGINT)", 90_000),  # an hour is missing between, and clocks show it
        ("b + INTERVAL '1' DAY * n", datetime.datetime(2026, 3, 29, 11, tzinfo=UTC)),
        ("b + INTERVAL '1' HOUR * (24 * n)", datetime.datetime(2026, 3, 29, 11, tzinfo=UTC)),
        ("b + INTERVAL '1' HOUR * (23 * n)", datetime.datetime(2026, 3, 29, 11, tzinfo=UTC)),
        ("b + make_ym_interval(0, n)", datetime.datetime(2026, 4, 28, 11, tzinfo=UTC)),
        ("a - b BETWEEN INTERVAL 1 DAY AND INTERVAL '1 01:00:00' DAY TO SECOND", True),
        ("-(a - b) IS NULL", False),
        ("EXTRACT(HOUR FROM a - b)", 1),
        ("CAST((a - b) / 7 AS BIGINT)", 12_857),
        ("CAST(CAST(a - b AS INTERVAL HOUR) AS INT)", 25),
        ("date(a) + CAST(n AS INTERVAL DAY)", datetime.date(2026, 3, 30)),
        ("b + coalesce(NULL, if(n = 1, a - b, INTERVAL 1 DAY))", datetime.datetime(2026, 3, 29, 12, tzinfo=UTC)),
        ("greatest(a - b, b - a) IN (INTERVAL '1 01:00:00' DAY TO SECOND, NULL)", True),
        ("date(a) - (date(b) - date(a))", datetime.date(2026, 3, 30)),
    ],
)
def test_an_interval_is_a_part_of_an_expression_about_what_clocks_show(text: str, expected: object) -> None:
    times = [[datetime.datetime(2026, 3, day, 12, tzinfo=UTC)] for day in (29, 28)]
    moment = pa.timestamp("us", "UTC")
    rows = pa.table({"a": pa.array(times[0], moment), "b": pa.array(times[1], moment), "n": pa.array([1], pa.int32())})
    schema = from_arrow(rows.schema)
    expression = parse(text, schema, zone="Europe/Berlin")
    assert evaluate(expression, rows).to_pylist() == [expected]
    in_utc = parse(text, schema, zone="UTC")
    assert evaluate(parse(str(in_utc), schema, zone="UTC"), rows) == evaluate(in_utc, rows)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a - b", "an interval is no value here: it is a part of an expression"),
        ("coalesce(a - b, INTERVAL 1 DAY)", "an interval is no value here: it is a part of an expression"),
        ("coalesce(a - b, 1) > INTERVAL 1 DAY", "an interval and a value of type int have no common type"),
        ("hash(a - b)", "an interval is no value here"),
        ("a - b > 5", "an interval is compared with an interval, not with int"),
        ("a - b < INTERVAL 1 MONTH", "have no common type"),
        ("(a - b) * 1.5", "CAST it to a number"),
        ("EXTRACT(DAY FROM INTERVAL 30 HOURS)", "takes an interval with that field"),
        ("a + make_interval(1)", "write make_dt_interval"),
        ("a + INTERVAL 1 DAY 2 HOURS", "DAY TO SECOND"),
    ],
)
def test_an_interval_that_is_no_part_of_one_is_refused(text: str, reason: str) -> None:
    schema = from_arrow(pa.schema({"a": pa.timestamp("us", "UTC"), "b": pa.timestamp("us", "UTC")}))
    with pytest.raises(InvalidInputError, match=reason):
        parse(text, schema, zone="UTC")
