"""Row groups that a predicate needs, by the bounds in a Parquet footer: none with a match is left out."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.format.arrow.parquet_footer import read_footer
from txlog.core.format.schema import from_arrow
from txlog.core.predicates import evaluate, parse_predicate
from txlog.core.predicates.skipping._row_groups import RowGroupPruner


def matching(rows: pa.Table, where: str, group_rows: int, *, table: pa.Schema | None = None, **partition: str) -> Any:
    """The row groups to read of a file of these rows; ``table`` is the table's schema where the file's is another."""
    body = pa.BufferOutputStream()
    pq.write_table(rows, body, row_group_size=group_rows)
    source = pa.BufferReader(body.getvalue())
    schema = from_arrow(table or rows.schema)
    pruner = RowGroupPruner(parse_predicate(where, schema), schema, tuple(partition))
    return pruner.matching(pq.ParquetFile(source).metadata, read_footer(source), partition)


def moments(unit: str, zone: str | None) -> pa.Array:
    """The first four seconds of 1970, each of them twice."""
    ticks = {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    return pa.array([n // 2 * ticks for n in range(8)], pa.timestamp(unit, zone))


COLUMNS: dict[str, tuple[pa.Array, str, list[int]]] = {
    "integer": (pa.array(range(8), pa.int32()), "c = 5", [2]),
    "short": (pa.array(range(8), pa.int16()), "c < 2", [0]),
    "long beyond 32 bits": (pa.array([n << 40 for n in range(8)]), f"c >= {6 << 40}", [3]),
    "boolean": (pa.array([False] * 4 + [True] * 4), "c = true", [2, 3]),
    "string": (pa.array(list("aabbccdd")), "c > 'b'", [2, 3]),
    "text beyond ASCII": (pa.array(["a", "z", "é", "é", "€", "€", "😀", "😀"]), "c >= '€'", [2, 3]),
    "prefix": (pa.array(["ab", "ac", "ba", "bb", "ca", "cb", "da", "db"]), "c like 'b%'", [1]),
    "date": (pa.array([datetime.date(2024, 1, n + 1) for n in range(8)]), "c = date '2024-01-04'", [1]),
    "date before 1970": (pa.array([datetime.date(1024, 1, n + 1) for n in range(8)]), "c < '1024-01-03'", [0]),
    "decimal in 32 bits": (pa.array([decimal.Decimal(n) for n in range(8)], pa.decimal128(9, 2)), "c > 5.99", [3]),
    "decimal in 16 bytes": (
        pa.array([decimal.Decimal(n - 4).scaleb(25) for n in range(8)], pa.decimal128(38, 2)),
        "c < -30000000000000000000000000",
        [0],
    ),
    "timestamp in ms": (moments("ms", "UTC"), "c = '1970-01-01 00:00:02'", [2]),
    "timestamp in us": (moments("us", "UTC"), "c > '1970-01-01 00:00:01.999999'", [2, 3]),
    "timestamp in ns": (moments("ns", "UTC"), "c <= '1970-01-01 00:00:00'", [0]),
    "timestamp_ntz": (moments("us", None), "c = '1970-01-01 00:00:03'", [3]),
    "null": (pa.array([None] * 4 + [1] * 4), "c is null", [0, 1]),
    "not null": (pa.array([None] * 4 + [1] * 4), "c is not null", [2, 3]),
    "binary is null": (pa.array([b"x"] * 6 + [None] * 2), "c is null", [3]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_only_row_groups_that_may_match_are_left(name: str) -> None:
    values, where, expected = COLUMNS[name]
    assert matching(pa.table({"c": values}), where, 2) == expected


UNKNOWN: dict[str, tuple[pa.Array, pa.DataType, str]] = {
    "floats, whose footer leaves NaN out": (pa.array([float(n) for n in range(8)]), pa.float64(), "c > 100"),
    "dates in a file for a timestamp": (
        pa.array([datetime.date(2024, 1, 1)] * 8),
        pa.timestamp("us"),
        "c < '2020-01-01'",
    ),
    "a decimal of another scale": (
        pa.array([decimal.Decimal(n) for n in range(8)], pa.decimal128(9, 1)),
        pa.decimal128(9, 2),
        "c > 100",
    ),
    "integers in a file for a double": (pa.array(range(8), pa.int32()), pa.float64(), "c > 100"),
    "a timestamp without the zone of the table": (moments("us", None), pa.timestamp("us", "UTC"), "c > '2024-01-01'"),
    "an array, whose footer counts its elements": (pa.array([[None], []] * 4), pa.list_(pa.int64()), "c is null"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_untrusted_bound_keeps_the_row_group(name: str) -> None:
    values, kind, where = UNKNOWN[name]
    assert matching(pa.table({"c": values}), where, 2, table=pa.schema({"c": kind})) == [0, 1, 2, 3]


def test_a_column_that_the_file_lacks_keeps_every_row_group() -> None:
    rows = pa.table({"a": range(4)})
    assert matching(rows, "b = 1", 2, table=pa.schema({"a": pa.int64(), "b": pa.int64()})) == [0, 1]


def test_the_partition_value_decides_along_with_the_bounds() -> None:
    rows, table = pa.table({"n": range(4)}), pa.schema({"n": pa.int64(), "p": pa.string()})
    where = "p = 'x' and n = 3 or p = 'y' and n = 0"
    assert matching(rows, where, 2, table=table, p="x") == [1]
    assert matching(rows, where, 2, table=table, p="y") == [0]
    assert matching(rows, where, 2, table=table, p="z") == []


NANOSECONDS = st.integers(-3_000_000, 3_000_000)


@given(st.lists(NANOSECONDS, min_size=2, max_size=20), st.integers(-2_000, 2_000), st.sampled_from(["<", "=", ">="]))
def test_nanoseconds_are_found_at_the_microsecond_they_are_read_as(
    values: list[int], bound: int, operator: str
) -> None:
    """Also before 1970, where cutting the rest off moves a value up."""
    column = pa.array(values, pa.timestamp("ns"))
    literal = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=bound)
    left = matching(pa.table({"c": column}), f"c {operator} '{literal}'", 1)
    compare = {"<": int.__lt__, "=": int.__eq__, ">=": int.__ge__}[operator]
    read = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64()).to_pylist()
    assert set(left) >= {row for row, value in enumerate(read) if compare(value, bound)}


@given(
    st.lists(st.one_of(st.none(), st.integers(-5, 5)), min_size=1, max_size=30),
    st.integers(1, 10),
    st.sampled_from(["c = 2", "c <> 2", "c < -3", "not (c >= 0)", "c in (1, 4)", "c is null", "c is null or c = 5"]),
)
def test_no_row_group_with_a_match_is_left_out(values: list[int | None], group_rows: int, where: str) -> None:
    rows = pa.table({"c": pa.array(values, pa.int64())})
    left = matching(rows, where, group_rows)
    numbered = rows.append_column("group", pa.array([n // group_rows for n in range(len(values))]))
    kept = numbered.filter(evaluate(parse_predicate(where, from_arrow(rows.schema)), numbered))
    assert set(left) >= set(kept.column("group").to_pylist())
