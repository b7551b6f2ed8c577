"""Predicates against an independent oracle: duckdb evaluates the same text over the same rows.

duckdb shares the semantics that Delta's engines have: three-valued logic, NaN equal to itself and greatest,
strings ordered by their UTF-8 bytes.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from decimal import Decimal
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import txlog
from txlog.core.format import schema as delta
from txlog.core.format.schema import Field, Struct, to_arrow
from txlog.core.predicates._conditions import bind_predicate
from txlog.core.predicates._evaluate import evaluate
from txlog.core.predicates._sql import parse_predicate
from txlog.core.predicates._unbound import col
from txlog.core.predicates.skipping import Pruner, prune_files
from txlog.core.predicates.terms.predicate import Constant, Predicate, bind
from txlog.errors import InvalidInputError

UTC = datetime.timezone.utc
TYPES: dict[str, delta.DataType] = {
    "i": delta.INTEGER,
    "l": delta.LONG,
    "f": delta.FLOAT,
    "d": delta.DOUBLE,
    "dec": delta.Decimal(5, 2),
    "s": delta.STRING,
    "b": delta.BOOLEAN,
    "dt": delta.DATE,
    "ts": delta.TIMESTAMP,
    "tn": delta.TIMESTAMP_NTZ,
    "n": Struct((Field("x", delta.LONG),)),
    "p": delta.STRING,
    "q": delta.INTEGER,
}
SCHEMA = Struct(tuple(Field(name, data_type) for name, data_type in TYPES.items()))
ARROW_SCHEMA = to_arrow(SCHEMA)

# --- rows and texts ---------------------------------------------------------------------------------------------

DOUBLES = st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 0.1, 0.25, 3.0, 1e300, math.inf, math.nan])
FLOATS = st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 0.10000000149011612, 0.25, 3.0, math.inf, math.nan])
TEXTS = st.sampled_from(["", "a", "ab", "abc", "b", "B", "é", "\uffff", "\U0001f600", "a" * 40])
DATES = st.dates(datetime.date(2024, 1, 1), datetime.date(2024, 1, 4))
MOMENTS = st.datetimes(datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, 0, 0, 0, 3000))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.sampled_from([-(2**31), -1, 0, 1, 2, 2**31 - 1]),
    "l": st.sampled_from([-(2**63), -1, 0, 1, 2, 2**63 - 1]),
    "f": FLOATS,
    "d": DOUBLES,
    "dec": st.sampled_from([Decimal(text) for text in ("-999.99", "-0.01", "0", "0.10", "1.25", "999.99")]),
    "s": TEXTS,
    "b": st.booleans(),
    "dt": DATES,
    "ts": MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC)),
    "tn": MOMENTS,
    "n": st.fixed_dictionaries({"x": st.none() | st.integers(0, 3)}),
    "p": st.sampled_from(["x", "y z", "é"]),
    "q": st.integers(1, 3),
}
ROW = st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()})


def quoted(text: str) -> str:
    return f"'{text}'"


WHOLE = st.sampled_from(["-3000000000", "-1", "0", "1", "1.5", "-0.5", "2", "9223372036854775807", "1e1"])
APPROXIMATE = st.sampled_from(["-1.5", "0", "0.25", "3"]) | DOUBLES.map(lambda value: f"CAST('{value}' AS DOUBLE)")
LITERALS: dict[str, st.SearchStrategy[str]] = {
    "i": WHOLE,
    "l": WHOLE.filter(lambda text: text != "1e1"),
    "f": APPROXIMATE,
    "d": APPROXIMATE | st.just("0.1"),
    "dec": st.sampled_from(["-1000", "-999.99", "-0.01", "0", "0.1", "0.105", "1.25", "1000"]),
    "s": TEXTS.map(quoted),
    "b": st.sampled_from(["TRUE", "FALSE"]),
    "dt": DATES.map(lambda day: f"DATE '{day}'") | DATES.map(lambda day: f"'{day}'"),
    "ts": MOMENTS.map(lambda moment: f"TIMESTAMP '{moment}'"),
    "tn": MOMENTS.map(lambda moment: f"TIMESTAMP '{moment}'") | DATES.map(lambda day: f"DATE '{day}'"),
    "n.x": st.integers(0, 3).map(str),
    "p": st.sampled_from(["'x'", "'y z'", "'z'"]),
    "q": st.integers(0, 4).map(str),
}


@st.composite
def leaves(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(LITERALS)))
    literal = LITERALS[name]
    form = draw(st.sampled_from(["compare", "compare", "exchanged", "between", "in", "null", "like", "bare"]))
    if form == "between":
        return f"{name} BETWEEN {draw(literal)} AND {draw(literal)}"
    if form == "in":
        items = draw(st.lists(literal, min_size=1, max_size=3)) + draw(st.sampled_from([[], ["NULL"]]))
        return f"{name} {draw(st.sampled_from(['', 'NOT ']))}IN ({', '.join(items)})"
    if form == "null":
        return f"{name} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    if form == "like":
        prefix = draw(st.sampled_from(["", "a", "ab%", "ab", "é%", "%"]))
        return f"s {draw(st.sampled_from(['', 'NOT ']))}LIKE '{prefix}'"
    if form == "bare":
        return "b"
    operator = draw(st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="]))
    sides = [name, draw(literal)]
    return f" {operator} ".join(reversed(sides) if form == "exchanged" else sides)


CONDITIONS = st.recursive(
    leaves() | st.sampled_from(["TRUE", "FALSE"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} AND {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} OR {pair[1]})"),
        inner.map(lambda one: f"NOT ({one})"),
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def oracle() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone='UTC'")
    return connection


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=ARROW_SCHEMA).append_column("row", pa.array(range(len(rows)), pa.int64()))


def matching(oracle: duckdb.DuckDBPyConnection, rows: pa.Table, text: str) -> list[int]:
    oracle.register("rows", rows)
    return sorted(row for (row,) in oracle.execute(f"SELECT row FROM rows WHERE {text}").fetchall())


@given(rows=st.lists(ROW, min_size=1, max_size=8), text=CONDITIONS)
def test_the_exact_filter_keeps_the_rows_that_sql_keeps(
    oracle: duckdb.DuckDBPyConnection, rows: list[dict[str, Any]], text: str
) -> None:
    table = table_of(rows)
    predicate = parse_predicate(text, SCHEMA)
    assert table.filter(evaluate(predicate, table)).column("row").to_pylist() == matching(oracle, table, text)


# --- pruning ----------------------------------------------------------------------------------------------------


def stats_of(rows: list[dict[str, Any]], known: set[str]) -> str:
    """Statistics as the protocol asks for them, written independently of txlog: timestamps cut to ms, strings to 32."""
    stats: dict[str, Any] = {"numRecords": len(rows), "minValues": {}, "maxValues": {}, "nullCount": {}}
    for name in known - {"p", "q"}:
        inside = [row[name] for row in rows]
        target = stats
        if name == "n":
            inside = [None if value is None else value["x"] for value in inside]
        values = [value for value in inside if value is not None]

        def put(kind: str, value: Any, name: str = name, target: dict[str, Any] = target) -> None:
            target[kind][name] = {"x": value} if name == "n" else value

        put("nullCount", len(inside) - len(values))
        if not values or name == "b":
            continue
        if name in ("f", "d"):
            if any(math.isnan(value) for value in values):
                continue
            put("minValues", written(min(values)))
            put("maxValues", written(max(values)))
        elif name == "s":
            low, high = min(values), max(values)
            put("minValues", low[:32])
            put("maxValues", high if len(high) <= 32 else high[:32] + "\u007f")
        else:
            put("minValues", written(min(values)))
            put("maxValues", written(max(values)))
    return json.dumps(stats)


def written(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        text = value.isoformat(timespec="milliseconds")
        return text.replace("+00:00", "Z")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def partition_of(row: dict[str, Any]) -> dict[str, str | None]:
    return {"p": row["p"], "q": None if row["q"] is None else str(row["q"])}


@given(
    rows=st.lists(ROW, min_size=1, max_size=10),
    text=CONDITIONS,
    known=st.sets(st.sampled_from(sorted(TYPES))) | st.just(set(TYPES)),
    data=st.data(),
)
def test_a_pruned_file_never_holds_a_matching_row(
    oracle: duckdb.DuckDBPyConnection, rows: list[dict[str, Any]], text: str, known: set[str], data: st.DataObject
) -> None:
    table = table_of(rows)
    matched = set(matching(oracle, table, text))
    files: dict[Any, list[int]] = {}
    for number, row in enumerate(rows):
        files.setdefault((row["p"], row["q"], data.draw(st.integers(0, 1))), []).append(number)
    listed = [
        {
            "partitionValues": list(partition_of(rows[numbers[0]]).items()),
            "stats": stats_of([rows[n] for n in numbers], known),
        }
        for numbers in files.values()
    ]
    predicate = parse_predicate(text, SCHEMA)
    pruner = Pruner(predicate, SCHEMA, ("q", "p"))
    verdicts = [pruner.may_match(dict(file["partitionValues"]), file["stats"]) for file in listed]
    for numbers, verdict in zip(files.values(), verdicts, strict=True):
        assert verdict or not matched.intersection(numbers)
    mask = prune_files(files_table(listed), predicate, SCHEMA, ("q", "p"))
    assert mask.to_pylist() == verdicts


FILES_SCHEMA = pa.schema([("partitionValues", pa.map_(pa.string(), pa.string())), ("stats", pa.string())])


def files_table(listed: list[dict[str, Any]]) -> pa.Table:
    """In two chunks, as a live file list is."""
    table = pa.Table.from_pylist(listed, schema=FILES_SCHEMA)
    return pa.concat_tables([table.slice(0, 1), table.slice(1)])


ONE_FILE = json.dumps(
    {
        "numRecords": 10,
        "minValues": {"l": 10, "s": "mango", "d": 1.5, "dt": "2024-01-02", "ts": "2024-01-02T00:00:00.000Z", "i": 7},
        "maxValues": {"l": 20, "s": "melon", "d": 9.5, "dt": "2024-01-05", "ts": "2024-01-02T00:00:00.000Z", "i": 7},
        "nullCount": {"l": 0, "s": 0, "d": 0, "b": 10, "i": 0, "dt": 3},
    }
)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("l = 9", False),
        ("l = 10", True),
        ("l > 20", False),
        ("l >= 20", True),
        ("l < 10", False),
        ("l <= 9.99", False),
        ("l <= 10", True),
        ("l != 15", True),
        ("i != 7", False),
        ("NOT (i = 7)", False),
        ("i NOT IN (1, 7)", False),
        ("i NOT IN (1, 8)", True),
        ("i NOT IN (1, NULL)", False),
        ("l IN (1, 2, 30)", False),
        ("l IN (1, 2, 12)", True),
        ("l BETWEEN 21 AND 30", False),
        ("NOT (l BETWEEN 5 AND 25)", False),
        ("NOT (l BETWEEN 5 AND 15)", True),
        ("l IS NULL", False),
        ("l IS NOT NULL", True),
        ("b IS NOT NULL", False),
        ("b", False),
        ("NOT b", False),
        ("b = FALSE OR b", False),
        ("dt IS NULL", True),
        ("s LIKE 'man%'", True),
        ("s LIKE 'na%'", False),
        ("s LIKE 'l%'", False),
        ("s NOT LIKE 'm%'", False),
        ("s NOT LIKE 'man%'", True),
        ("s = 'zebra'", False),
        ("d > 9.5", False),
        ("d < 1", False),
        ("d = CAST('NaN' AS DOUBLE)", False),
        ("dt = DATE '2024-01-01'", False),
        ("dt >= DATE '2024-01-05'", True),
        ("ts > TIMESTAMP '2024-01-02 00:00:00.0005'", True),
        ("ts > TIMESTAMP '2024-01-02 00:00:00.0011'", False),
        ("f > 5", True),
        ("n.x = 1", True),
        ("l = NULL", False),
        ("FALSE", False),
        ("TRUE", True),
        ("p = 'x'", True),
        ("p = 'y'", False),
        ("p IS NULL", False),
        ("q IS NULL", True),
        ("q IS NOT NULL", False),
        ("q = 1", False),
        ("NOT (q = 1)", False),
        ("p = 'x' AND l = 9", False),
        ("p = 'y' OR l = 10", True),
        ("(p = 'y' AND l = 10) OR (p = 'x' AND l = 99)", False),
    ],
)
def test_files_are_pruned_as_far_as_what_is_known_of_them_allows(text: str, kept: bool) -> None:
    assert Pruner(parse_predicate(text, SCHEMA), SCHEMA, ("p", "q")).may_match({"p": "x", "q": None}, ONE_FILE) is kept


@pytest.mark.parametrize(
    ("partition_values", "stats"),
    [
        ({"p": "x", "q": "1"}, None),
        ({"p": "x", "q": "1"}, ""),
        ({"p": "x", "q": "1"}, "not json"),
        ({"p": "x", "q": "1"}, "[]"),
        ({"p": "x", "q": "1"}, '{"minValues": {"l": "text"}, "maxValues": 7}'),
        ({"p": "x", "q": "one"}, '{"numRecords": 1}'),
        ({}, '{"numRecords": 1}'),
    ],
)
def test_a_file_with_missing_or_unclear_statistics_is_not_skipped(
    partition_values: dict[str, str | None], stats: str | None
) -> None:
    predicate = parse_predicate("l = 5 AND q = 1 AND p = 'x'", SCHEMA)
    assert Pruner(predicate, SCHEMA, ("p", "q")).may_match(partition_values, stats)


def test_a_file_without_rows_matches_nothing() -> None:
    assert not Pruner(parse_predicate("l = 5 OR l IS NULL", SCHEMA), SCHEMA, ()).may_match({}, '{"numRecords": 0}')


def test_null_counts_of_a_file_with_a_deletion_vector_count_only_at_their_ends() -> None:
    def stats(nulls: int) -> str:
        return json.dumps({"numRecords": 9, "tightBounds": False, "nullCount": {"l": nulls}})

    is_null, not_null = parse_predicate("l IS NULL", SCHEMA), parse_predicate("l IS NOT NULL", SCHEMA)
    kept = [[Pruner(p, SCHEMA, ()).may_match({}, stats(n)) for p in (is_null, not_null)] for n in (0, 5, 9)]
    assert kept == [[False, True], [True, True], [True, False]]


def test_pruning_a_table_without_files_gives_an_empty_mask() -> None:
    for text in ("p = 'x'", "l = 1", "p = 'x' AND q = 1 AND l = 1", "TRUE"):
        mask = prune_files(files_table([]), parse_predicate(text, SCHEMA), SCHEMA, ("p", "q"))
        assert mask.to_pylist() == []


# --- building and binding ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (col("l") == 1, "l = 1"),
        (col("L") != 1, "l <> 1"),
        (col("l") < 1, "l < 1"),
        (col("l") <= 1, "1 >= l"),
        (col("l") > -1, "l > -1"),
        (col("l") >= 1, "`L` >= 1"),
        (col("s").is_in(["a", None]), "s IN ('a', NULL)"),
        (col("s").starts_with("a"), "S LIKE 'a%'"),
        (col("s").is_null() | ~col("b").is_not_null(), "s IS NULL OR NOT (b IS NOT NULL)"),
        (col("l").between(1, 2) & (col("n", "X") == 3), "(l BETWEEN 1 AND 2) AND N.x = 3"),
        (col("dt") == datetime.date(2024, 1, 2), "dt = '2024-01-02'"),
        (col("ts") == datetime.datetime(2024, 1, 2, 3, tzinfo=UTC), "ts = TIMESTAMP '2024-01-02 04:00:00+01:00'"),
        (col("ts") == datetime.datetime(2024, 1, 2), "ts = DATE '2024-01-02'"),
        (col("tn") == datetime.datetime(2024, 1, 2, 3), "tn = TIMESTAMP_NTZ '2024-01-02 03:00'"),
        (col("dec") == Decimal("1.50"), "dec = 1.5"),
        (col("d") == 1.5, "d = 1.5D"),
        (col("l") == 5, "l = '5'"),
        (Constant(True), "TRUE"),
    ],
)
def test_a_built_predicate_is_the_same_as_its_text(built: Predicate, text: str) -> None:
    assert bind_predicate(built, SCHEMA, zone="UTC") == bind_predicate(text, SCHEMA, zone="UTC")


@pytest.mark.parametrize(
    "built",
    [
        (col("s") == "it's") | (col("s") == "back\\slash"),
        col("s").is_in(["a", "b", None]) & ~(col("l") > 5),
        ~((col("b") == True) & col("dt").between("2024-01-01", "2024-02-01")),  # noqa: E712
        col("ts") >= datetime.datetime(1969, 12, 31, 23, 59, 59, 5, tzinfo=UTC),
        (col("tn") < datetime.datetime(2024, 1, 2, 3, 4, 5)) | (col("n", "x") == 1) | col("s").starts_with("x'y"),
        (col("d") == 1e300) & (col("dec") > Decimal("-1.25")),
    ],
)
def test_the_text_of_a_predicate_reads_back_as_itself(built: Predicate) -> None:
    bound = bind(built, SCHEMA)
    assert parse_predicate(str(bound), SCHEMA) == bound


def test_a_name_that_is_no_word_is_quoted() -> None:
    schema = Struct((Field("day of `week`", delta.STRING), Field("a.b", delta.LONG)))
    bound = bind((col("day of `week`") == "mon") & (col("A.B") == 1), schema)
    assert parse_predicate(str(bound), schema) == bound
    assert bound.columns() == {"day of `week`", "a.b"}


def test_binding_twice_changes_nothing() -> None:
    bound = parse_predicate("l > 1.5 AND dt = '2024-01-02' AND s IN ('a')", SCHEMA)
    assert bind(bound, SCHEMA) == bound


@pytest.mark.parametrize(
    ("literal", "kept"),
    [
        ("-99999999999999999999.999999999999999999", 0),
        ("-99999999999999999999.999999999999999998", 1),
        ("-12345678901234567890.123456789012345678", 2),
        ("-12345678901234567890.123456789012345677", 3),
        ("-100000000000000000000", 0),
    ],
)
def test_a_decimal_keeps_all_of_its_38_digits_below_zero(literal: str, kept: int) -> None:
    below = ("-99999999999999999999.999999999999999999", "-99999999999999999999.999999999999999998")
    rows = pa.table({"x": pa.array([*map(Decimal, below), Decimal("-12345678901234567890.123456789012345678")])})
    predicate = parse_predicate(f"x < {literal}", Struct((Field("x", delta.Decimal(38, 18)),)))
    assert rows.filter(evaluate(predicate, rows)).num_rows == kept


def test_binary_values_are_written_in_hex() -> None:
    schema = Struct((Field("raw", delta.BINARY),))
    bound = parse_predicate("raw >= X'00ff'", schema)
    assert bound == bind(col("raw") >= b"\x00\xff", schema)
    table = pa.table({"raw": pa.array([b"\x00", b"\x00\xff", None], pa.binary())})
    assert table.filter(evaluate(bound, table)).num_rows == 1


def test_a_thousand_terms_do_not_nest_a_thousand_deep() -> None:
    text = " OR ".join(f"l = {number}" for number in range(1000))
    predicate = parse_predicate(text, SCHEMA)
    rows = table_of([{"l": 999}, {"l": 1000}])
    assert rows.filter(evaluate(predicate, rows)).num_rows == 1
    assert Pruner(predicate, SCHEMA, ()).may_match({}, ONE_FILE)


def test_a_chain_too_deep_to_follow_says_what_to_use_instead() -> None:
    deep = reduce(or_, [col("l") == number for number in range(20_000)])
    with pytest.raises(InvalidInputError, match="is_in"):
        bind_predicate(deep, SCHEMA, zone="UTC")


def test_a_predicate_has_no_truth_value_so_that_and_or_not_are_never_used_by_mistake() -> None:
    with pytest.raises(TypeError, match="combine predicates with &"):
        bool(col("l") == 1)


def test_a_filter_of_an_unbound_predicate_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="bind"):
        evaluate(col("l") == 1, table_of([{"l": 1}]))


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("", "the expression '' is empty: write one condition.* empty string is ''$"),
        ("l = 1; l = 2", "one condition.* contains 2"),
        ("l = ", "operand or a keyword is missing .* column"),
        ("l = 'abc", "cannot parse .*: the closing ' is missing$"),
        ("`l = 1", "cannot parse .*: the closing ` is missing$"),
        ("l == (1", "line 1"),
        ("nothing = 1", "nothing"),
        ("nothing = NULL", "nothing"),
        ("n.y = 1", r"no column n.y: n has x"),
        ("l.x = 1", r"no column l.x: l is of type (bigint|long)"),
        ("s LIKE 'a' ESCAPE '!!'", "ESCAPE"),
        ("l IN (SELECT 1)", "IN"),
        ("EXISTS (SELECT 1)", "EXISTS"),
        ("dt = current_date()", "current_date.* changes over time"),
        ("dt = DATE 'yesterday'", "'yesterday' is not a value of type date"),
        ("s = 'a' & l = 1", r"operators on bits: conditions are combined by AND and OR"),
        ("dt = 2026-11-01", "a date without quotes.*: write DATE '2026-11-01'$"),
        ("dt = 'yesterday'", "not a date"),
        ("dt = TIMESTAMP '2024-01-01 12:00:00'", "date column needs a date"),
        ("l = 'one'", "not a number"),
        ("s IN (1, 'a')", "string column needs a string in quotes, such as 'a'"),
        ("b = 1", "boolean column needs true or false, without quotes"),
        ("l", "column l .*needs a number"),
        ("n = 1", "not compared as a whole"),
        ("i LIKE '1%'", "LIKE takes a string"),
        ("tn = TIMESTAMP '2024-01-01 00:00:00+01:00'", "without a zone"),
        ('s = "a"', "double quotes .* line 1, column 5.* Write 'a' .* `a` for the column"),
        ('s = "it\'s"', r"Write 'it\\'s' for the string"),
        ("l = CAST('1x' AS BIGINT)", "'1x' is not a value of type bigint"),
        ("l = ?", "a parameter without a name"),
        ("l = :n", "there is no value for the parameter :n: pass parameters"),
        ("SELECT 1", "SELECT"),
        ("DROP TABLE t", "DROP"),
        ("*", "STAR|column"),
        ("(" * 3000 + "b" + ")" * 3000, "too deeply"),
    ],
)
def test_refused_text_names_what_is_wrong(text: str, reported: str) -> None:
    with pytest.raises(InvalidInputError, match=reported):
        parse_predicate(text, SCHEMA)


@pytest.mark.parametrize(
    "build",
    [
        lambda: col(),
        lambda: col(""),
        lambda: col("l") == None,  # noqa: E711
        lambda: bind_predicate(3, SCHEMA, zone="UTC"),  # type: ignore[arg-type]
        lambda: bind(col("l") == True, SCHEMA),  # noqa: E712
        lambda: bind(col("dt") == datetime.datetime(2024, 1, 1), SCHEMA),
        lambda: bind(col("s").is_in(["a", 1]), SCHEMA),
    ],
)
def test_an_expression_that_cannot_be_evaluated_is_refused(build: Any) -> None:
    with pytest.raises(InvalidInputError):
        build()


@pytest.mark.parametrize(
    "huge", [10**400, -(10**400), Decimal("1e400"), Decimal("-1e400")], ids=["+i", "-i", "+d", "-d"]
)
@pytest.mark.parametrize("column", ["f", "d"])
def test_a_number_beyond_every_float_compares_as_infinity(tmp_path: Path, column: str, huge: Any) -> None:
    rows = pa.table({"f": pa.array([1.5, math.inf], pa.float32()), "d": pa.array([1.5, math.inf], pa.float64())})
    txlog.write(tmp_path / "t", rows)
    snapshot = txlog.Table.open(tmp_path / "t").snapshot()
    infinity = math.inf if huge > 0 else -math.inf
    for compared in (lambda limit: col(column) > limit, lambda limit: col(column) == limit):
        assert snapshot.to_arrow(where=compared(huge)).equals(snapshot.to_arrow(where=compared(infinity)))


def test_a_whole_number_of_400_digits_in_sql_is_the_callers_mistake(tmp_path: Path) -> None:
    txlog.write(tmp_path / "t", pa.table({"f": [1.5]}))
    with pytest.raises(InvalidInputError, match="at most 38 digits"):
        txlog.Table.open(tmp_path / "t").snapshot().to_arrow(where="f > " + "9" * 400)


def test_statistics_with_a_number_beyond_every_float_exclude_no_file(tmp_path: Path) -> None:
    txlog.write(tmp_path / "t", pa.table({"d": [1.5]}))
    commit = tmp_path / "t" / "_delta_log" / f"{0:020d}.json"
    huge = "9" * 400
    text = commit.read_text()
    assert text.count(":1.5") == 2
    commit.write_text(text.replace(":1.5", f":-{huge}", 1).replace(":1.5", f":{huge}", 1))
    assert txlog.Table.open(tmp_path / "t").snapshot().to_arrow(where="d > 1").num_rows == 1


@pytest.mark.parametrize(("name", "sql"), [("__floordiv__", "`a b` div 2"), ("__rpow__", r"power\(`a b`, 2\)")])
def test_an_operator_that_python_and_sql_read_otherwise_is_refused_with_the_sql_to_write(name: str, sql: str) -> None:
    with pytest.raises(InvalidInputError, match=f'txlog.expr.*"{sql}"') as caught:
        getattr(col("a b"), name)(1)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("wrong", "named", "meant"),
    [
        (col("l") == [1], "array_contains(c, value)", "array_contains(l, 1)"),
        ("l = array(1)", "c[0] = value", "l[0] = 1"),
        ("l = l", "size(c) = number", "size(l) = 1"),
        (col("m") != {"k": 1}, "c['key'] = value", "m['k'] = 1"),
        ("m IN (m)", "c['key'] = value", "m['k'] = 1"),
        (col("s") < {"a": 1}, "txlog.col('c', 'a') == value", col("s", "a") == 1),
        ("s = named_struct('a', 1)", "c.a = value", "s.a = 1"),
    ],
    ids=str,
)
def test_a_comparison_of_nested_values_is_refused_with_one_that_there_is(
    tmp_path: Path, wrong: Any, named: str, meant: Any
) -> None:
    rows = pa.table(
        {"l": [[1]], "s": [{"a": 1}], "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), "id": [1]}
    )
    txlog.write(tmp_path / "t", rows)
    table = txlog.Table.open(tmp_path / "t")
    with pytest.raises(InvalidInputError, match=re.escape(named)):
        table.count(wrong)
    assert table.count(meant) == 1
