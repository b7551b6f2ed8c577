"""Tables that together hold every type, every kind of null and all problematic characters."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

__all__ = ["SAMPLES", "Sample", "every_type"]

UTC = dt.timezone.utc
PARTITIONS = (
    "a",
    "b/c",
    "d=e",
    "f g",
    "h%i",
    "j%20k",
    "l:m",
    'n"o',
    "p'q",
    "r\\s",
    "t\nu",
    "ünï\U0001f600",
    "%2F",
    "+",
    None,
)


@dataclass(frozen=True)
class Sample:
    """A table to write: rows, in one or more appends, and how it is partitioned."""

    appends: tuple[pa.Table, ...]
    partition_by: tuple[str, ...] = ()

    @property
    def rows(self) -> pa.Table:
        return pa.concat_tables(self.appends)


def every_type() -> pa.Table:
    """A column of each type, named like it: the extremes, NaN, empty and null."""
    return pa.table(
        {
            "boolean": pa.array([True, False, None, True]),
            "byte": pa.array([-(2**7), 2**7 - 1, None, 0], pa.int8()),
            "short": pa.array([-(2**15), 2**15 - 1, None, 0], pa.int16()),
            "integer": pa.array([-(2**31), 2**31 - 1, None, 0], pa.int32()),
            "long": pa.array([-(2**63), 2**63 - 1, None, 0], pa.int64()),
            "float": pa.array([1.1, float("nan"), None, -0.0], pa.float32()),
            "double": pa.array([float("-inf"), float("nan"), None, -0.0], pa.float64()),
            "decimal_of_32_bits": pa.array([Decimal("1.23"), Decimal("-9999999.99"), None, 0], pa.decimal128(9, 2)),
            "decimal_of_64_bits": pa.array([Decimal("1.23"), Decimal("-1e14"), None, 0], pa.decimal128(18, 3)),
            "decimal_of_128_bits": pa.array([Decimal("1" * 28 + ".0123456789"), -1, None, 0], pa.decimal128(38, 10)),
            "string": pa.array(["a" * 100, "ünï\U0001f600", "", None]),
            "binary": pa.array([b"\x00\xff", b"", None, b"x"]),
            "date": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31), None, dt.date(2026, 11, 20)]),
            "timestamp": pa.array(
                [
                    dt.datetime(1900, 1, 1, 0, 0, 0, 1, UTC),
                    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
                    None,
                    dt.datetime(2026, 11, 20, 18, 30, tzinfo=UTC),
                ],
                pa.timestamp("us", "UTC"),
            ),
            "timestamp_ntz": pa.array(
                [dt.datetime(1900, 1, 1, 0, 0, 0, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999), None, None],
                pa.timestamp("us"),
            ),
            "array": pa.array([[1, None], [], None, [3]], pa.list_(pa.int64())),
            "struct": pa.array(
                [{"a": 1, "b": {"c": "x"}}, {"a": None, "b": None}, None, {"a": 2, "b": {"c": None}}],
                pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string())]))]),
            ),
            "map": pa.array([[("k", 1)], [], None, [("a", None)]], pa.map_(pa.string(), pa.int64())),
        }
    )


def _nested() -> pa.Table:
    item = pa.struct([("name", pa.string()), ("tags", pa.list_(pa.string())), ("price", pa.decimal128(10, 2))])
    values: list[Any] = [
        [{"name": "x", "tags": ["p", None], "price": Decimal("1.50")}, None],
        [],
        None,
        [{"name": None, "tags": None, "price": None}],
    ]
    return pa.table(
        {
            "id": pa.array([1, 2, 3, 4]),
            "items": pa.array(values, pa.list_(item)),
            "by_name": pa.array(
                [[("m", [1, 2])], [], None, [("n", None), ("o", [])]], pa.map_(pa.string(), pa.list_(pa.int32()))
            ),
            "deep": pa.array([{"l": [{"m": [("k", {"x": 1.5})]}]}, None, {"l": None}, {"l": []}], _deep()),
        }
    )


def _deep() -> pa.DataType:
    leaf = pa.struct([("x", pa.float64())])
    return pa.struct([("l", pa.list_(pa.struct([("m", pa.map_(pa.string(), leaf))])))])


def _special_partitions() -> pa.Table:
    return pa.table({"id": pa.array(range(len(PARTITIONS)), pa.int64()), "part": pa.array(PARTITIONS, pa.string())})


def _typed_partitions() -> pa.Table:
    """Every type a table can be partitioned by, null included; the order of rows does not follow the partitions."""
    columns = every_type().select(
        ["boolean", "byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz", "decimal_of_64_bits"]
    )
    return columns.append_column("id", pa.array([10, 20, 30, 40]))


SAMPLES = {
    "every type": Sample((every_type(),)),
    "every type, in several files": Sample((every_type(), every_type().slice(1, 2), every_type().slice(3))),
    "nested": Sample((_nested(),)),
    "all null": Sample((pa.table({"id": pa.nulls(3, pa.int64()), "s": pa.nulls(3, pa.struct([("a", pa.int8())]))}),)),
    "NaN only": Sample((pa.table({"x": [float("nan")] * 2, "y": pa.array([float("nan"), None], pa.float32())}),)),
    "empty batches": Sample((every_type().slice(0, 0), every_type(), every_type().slice(0, 0))),
    "no rows at all": Sample((every_type().slice(0, 0),)),
    "partitions with special characters": Sample((_special_partitions(),), ("part",)),
    "partitions of every type": Sample(
        (_typed_partitions(),), tuple(name for name in _typed_partitions().column_names if name != "id")
    ),
    "columns with special characters": Sample(
        (
            pa.table(
                {"a.b": [1, 2], "c-d": ["x", None], "ünï\U0001f600": [1.5, 2.5], "`": [True, None], "select": [1, 2]}
            ),
        )
    ),
    "a partition column with special characters": Sample((pa.table({"id": [1, 2], "a.b": ["x", "y z"]}),), ("a.b",)),
}
