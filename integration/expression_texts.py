"""Random rows and random texts of expressions that mean the same in SQL dialects: for the comparisons with engines.

`ANY` is the text of an expression of any type, `CONDITIONS` are texts of conditions, `ROW` is a row of `SCHEMA`. The
values are small, so nothing overflows and nothing is divided by zero.
"""

from __future__ import annotations

import datetime
import math
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from txlog.core.format import schema as delta
from txlog.core.format.schema import Field, Struct, to_arrow

UTC = datetime.timezone.utc
TYPES: dict[str, delta.DataType] = {
    "y": delta.BYTE,
    "i": delta.INTEGER,
    "j": delta.INTEGER,
    "l": delta.LONG,
    "f": delta.FLOAT,
    "d": delta.DOUBLE,
    "e": delta.DOUBLE,
    "m": delta.Decimal(6, 2),
    "n": delta.Decimal(9, 4),
    "s": delta.STRING,
    "t": delta.STRING,
    "b": delta.BOOLEAN,
    "dt": delta.DATE,
    "du": delta.DATE,
    "ts": delta.TIMESTAMP,
    "tn": delta.TIMESTAMP_NTZ,
    "n1": Struct((Field("x", delta.LONG),)),
}
SCHEMA = Struct(tuple(Field(name, data_type) for name, data_type in TYPES.items()))
ARROW_SCHEMA = to_arrow(SCHEMA)

DOUBLES = st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 0.1, 2.5, 1e300, math.inf, math.nan])
STRINGS = st.sampled_from(["", "a", "ab", " ab ", "Ab%_", "é", "it's", "back\\slash", "line\nbreak", "\U0001f600x"])
MOMENTS = st.datetimes(datetime.datetime(1905, 1, 1), datetime.datetime(2095, 1, 1))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "y": st.integers(-5, 5),
    "i": st.integers(-20, 20),
    "j": st.integers(-3, 3),
    "l": st.sampled_from([-(2**53) - 1, -7, -1, 0, 1, 7, 2**53 + 1]),
    "f": st.sampled_from([-1.5, 0.0, 0.25, 3.0, math.inf, math.nan]),
    "d": DOUBLES,
    "e": DOUBLES,
    "m": st.decimals(-99, 99, places=2),
    "n": st.decimals(-99, 99, places=4),
    "s": STRINGS,
    "t": STRINGS,
    "b": st.booleans(),
    "dt": st.dates(datetime.date(1905, 1, 1), datetime.date(2095, 1, 1)),
    "du": st.dates(datetime.date(1905, 1, 1), datetime.date(2095, 1, 1)),
    "ts": MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC)),
    "tn": MOMENTS,
    "n1": st.fixed_dictionaries({"x": st.none() | st.integers(0, 3)}),
}
ROW = st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()})


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict.fromkeys(TYPES) | row for row in rows], schema=ARROW_SCHEMA)


# Of each kind, texts of expressions that mean the same in both dialects; `{}` is an expression of the kind named.
NUMBERS = st.recursive(
    st.sampled_from(["y", "i", "j", "l", "n1.x", "1", "7", "-3"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-"), inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
        inner.map(lambda one: f"(CAST({one} AS BIGINT) % 5)"),
        st.tuples(inner, inner).map(lambda parts: f"coalesce({parts[0]}, {parts[1]})"),
        inner.map(lambda one: f"abs({one})"),
        inner.map(lambda one: f"CAST({one} AS BIGINT)"),
        st.sampled_from(["length(s)", "year(dt)", "month(ts)", "day(tn)", "quarter(dt)", "dayofyear(ts)"]),
        st.sampled_from(["hour(ts)", "minute(tn)", "second(ts)", "datediff(dt, du)", "weekofyear(dt)"]),
    ),
    max_leaves=4,
)
DECIMALS = st.sampled_from(["m", "n", "m + n", "m - n", "m * n", "-m", "abs(n)", "m + 1", "i + m", "m * 1.1"])
FLOATS = st.recursive(
    st.sampled_from(["d", "e", "f", "CAST(i AS DOUBLE)", "CAST(m AS DOUBLE)", "CAST(l AS DOUBLE)", "1.5e0"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
        inner.map(lambda one: f"-({one})"),
        inner.map(lambda one: f"({one} / 4e0)"),
        inner.map(lambda one: f"abs({one})"),
    ),
    max_leaves=3,
)
WORDS = st.recursive(
    st.sampled_from(["s", "t", "'a'", "'it''s'", "''", "CAST(i AS STRING)", "CAST(dt AS STRING)", "CAST(b AS STRING)"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda parts: f"({parts[0]} || {parts[1]})"),
        st.sampled_from(["upper", "lower", "trim", "ltrim", "rtrim"]).flatmap(
            lambda name: inner.map(lambda one: f"{name}({one})")
        ),
        inner.map(lambda one: f"substring({one}, 2, 2)"),
        inner.map(lambda one: f"left({one}, 1)"),
        inner.map(lambda one: f"right({one}, 2)"),
        inner.map(lambda one: f"replace({one}, 'a', 'xy')"),
        st.tuples(inner, inner).map(lambda parts: f"nullif({parts[0]}, {parts[1]})"),
    ),
    max_leaves=3,
)
DAYS = st.sampled_from(
    ["dt", "du", "CAST(ts AS DATE)", "CAST(tn AS DATE)", "DATE '2024-02-29'", "coalesce(dt, du)", "dt + 3", "du - j"]
)
TIMES = st.sampled_from(
    ["tn", "TIMESTAMP_NTZ '2024-02-29 12:00:00'", "CAST(dt AS TIMESTAMP_NTZ)"]
    + [
        f"CAST(date_trunc('{unit}', ts) AS TIMESTAMP_NTZ)"
        for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
    ]
)
KINDS = {"number": NUMBERS, "decimal": DECIMALS, "float": FLOATS, "string": WORDS, "date": DAYS, "time": TIMES}


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    kind = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    left, right = draw(kind), draw(kind)
    form = draw(st.sampled_from(["compare", "distinct", "null", "in", "between"]))
    if form == "null":
        return f"({left}) IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    if form == "in":
        return f"({left}) {draw(st.sampled_from(['', 'NOT ']))}IN ({right}, {draw(kind)})"
    if form == "between":
        return f"({left}) BETWEEN {right} AND {draw(kind)}"
    operator = "IS DISTINCT FROM" if form == "distinct" else draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    return f"({left}) {operator} ({right})"


PATTERNS = st.sampled_from(["a%", "%b%", "_b", "a_", "%", "", "%e_", "A%", "é", "it''s", "li%k"])
CONDITIONS = st.recursive(
    comparisons() | st.just("b") | PATTERNS.map(lambda pattern: f"s LIKE '{pattern}'") | st.just("b IS NOT TRUE"),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        inner.map(lambda one: f"NOT ({one})"),
        st.tuples(inner, inner, inner).map(lambda p: f"(CASE WHEN {p[0]} THEN {p[1]} ELSE {p[2]} END)"),
    ),
    max_leaves=4,
)
ANY = st.one_of(*KINDS.values(), CONDITIONS)
