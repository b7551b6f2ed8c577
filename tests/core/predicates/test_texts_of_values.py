"""Times and floats as text: by duckdb's ``strftime``, and by what Java 17 and Java 25 wrote."""

from __future__ import annotations

import math
import random

import duckdb
import pyarrow as pa
import pytest

from txlog.core.format.schema import from_arrow
from txlog.core.predicates._evaluate import evaluate
from txlog.core.predicates._sql import parse
from txlog.errors import InvalidInputError

_DAY_US = 86_400_000_000


def test_times_of_all_years_are_written_as_duckdb_writes_them() -> None:
    draw = random.Random(3)
    ends = (-719_162 * _DAY_US, 2_932_897 * _DAY_US - 1)
    moments = [*ends, None, 0, -1, *(draw.randint(*ends) for _ in range(2000))]
    rows = pa.table({"ts": pa.array(moments, pa.timestamp("us")), "day": pa.array(moments, pa.timestamp("us"))})
    rows = rows.set_column(1, "day", rows["day"].cast(pa.date32(), safe=False))
    for name, pattern, wanted in (
        ("ts", "dd.MM.yyyy HH:mm:ss", "%d.%m.%Y %H:%M:%S"),
        ("ts", "yyyy-MM-dd\\'T\\'HH", "%Y-%m-%dT%H"),
        ("day", "yyyy/MM", "%Y/%m"),
        ("day", "HH", "%H"),
        ("ts", "EEE, d MMM yyyy h:mm:s a", "%a, %-d %b %Y %-I:%M:%-S %p"),
        ("ts", "EEEE dd MMMM yy hh SSSSSS", "%A %d %B %y %I %f"),
    ):
        found = evaluate(parse(f"date_format({name}, '{pattern}')", from_arrow(rows.schema)), rows)
        expected = duckdb.sql(f"SELECT strftime({name}, '{wanted}') AS v FROM rows").to_arrow_table()["v"]
        assert found.to_pylist() == expected.to_pylist(), pattern
        part = evaluate(parse(f"date_format({name}, '{pattern}')", from_arrow(rows.schema)), rows.slice(1, 3))
        assert part.to_pylist() == expected.to_pylist()[1:4], pattern


DOUBLES = {
    **{1.0: "1.0", -1.5: "-1.5", 0.0: "0.0", 0.1: "0.1", 100.0: "100.0", 2.675: "2.675", 123456.789: "123456.789"},
    **{1e-3: "0.001", 9.99e-4: "9.99E-4", 9999999.0: "9999999.0", 1e7: "1.0E7", 12345678.5: "1.23456785E7"},
    **{1e17: "1.0E17", 1e20: "1.0E20", -1e22: "-1.0E22", 1e26: "1.0E26"},
    **{1e15: "1.0E15", 9007199254740993.0: "9.007199254740992E15", 1e300: "1.0E300", -1.5e-300: "-1.5E-300"},
    **{math.inf: "Infinity", -math.inf: "-Infinity", 1.7976931348623157e308: "1.7976931348623157E308"},
}
"""As Java 17 and Java 25 write them."""


def test_doubles_are_written_as_java_writes_them() -> None:
    rows = pa.table({"d": pa.array([*DOUBLES, math.nan, -0.0, None])})
    found = evaluate(parse("CAST(d AS STRING)", from_arrow(rows.schema)), rows)
    assert found.to_pylist() == [*DOUBLES.values(), "NaN", "-0.0", None]


def test_floats_have_the_digits_of_their_own_precision() -> None:
    rows = pa.table({"f": pa.array([0.1, 16777216.0, 3.4028235e38, 1e-10, -7.25], pa.float32())})
    found = evaluate(parse("CAST(f AS STRING)", from_arrow(rows.schema)), rows)
    assert found.to_pylist() == ["0.1", "1.6777216E7", "3.4028235E38", "1.0E-10", "-7.25"]


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        (pa.float64(), 5.2536265718864783e18),  # 5.2536265718864783E18 in Java 17, 5.253626571886478E18 since 19
        (pa.float64(), 1e23),
        (pa.float64(), 1e-322),
        (pa.float32(), 33600992.0),
        (pa.float32(), 2.24e-44),
    ],
)
def test_a_number_that_java_versions_write_differently_is_refused(kind: pa.DataType, number: float) -> None:
    rows = pa.table({"x": pa.array([1.0, number], kind)})
    with pytest.raises(InvalidInputError, match=r"versions write .* with different digits"):
        evaluate(parse("CAST(x AS STRING)", from_arrow(rows.schema)), rows)
    assert (
        evaluate(parse("CASE WHEN x = 1 THEN CAST(x AS STRING) END", from_arrow(rows.schema)), rows)[0].as_py() == "1.0"
    )
