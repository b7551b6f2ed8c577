"""PostgreSQL's types and texts in Delta. What the texts mean is PostgreSQL's documentation; integration/test_mirror.py
compares them with a server."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from txlog.errors import InvalidInputError
from txlog.mirror.types import ColumnType, SourceType, column_type, values_of

NUMERIC = SourceType("pg_catalog", "numeric")


def of(name: str, modifier: int = -1) -> ColumnType:
    return column_type(SourceType("pg_catalog", name), modifier)


def numeric(precision: int, scale: int) -> int:
    return (precision << 16 | scale & 0x7FF) + 4


@pytest.mark.parametrize(
    ("modifier", "arrow"),
    [
        (numeric(10, 2), pa.decimal128(10, 2)),
        (numeric(38, 38), pa.decimal128(38, 38)),
        (numeric(3, -2), pa.decimal128(5, 0)),
        (numeric(2, 5), pa.decimal128(5, 5)),
        (numeric(39, 0), pa.string()),
        (-1, pa.string()),
    ],
)
def test_a_numeric_is_a_decimal_if_delta_has_one_of_its_digits(modifier: int, arrow: pa.DataType) -> None:
    found = column_type(NUMERIC, modifier)
    assert found.arrow == arrow
    assert (found.differs is None) == (arrow != pa.string())


def test_a_domain_has_the_type_that_it_restricts_and_an_array_that_of_its_elements() -> None:
    cents = SourceType("shop", "cents", NUMERIC, numeric(12, 2))
    assert column_type(cents, -1).arrow == pa.decimal128(12, 2)
    assert column_type(SourceType("shop", "price", cents, -1), -1).arrow == pa.decimal128(12, 2)
    assert column_type(SourceType("shop", "_cents", element=cents), -1).arrow == pa.list_(pa.decimal128(12, 2))
    assert column_type(cents, -1, as_text=True).arrow == pa.string()


def test_values_are_those_of_the_texts() -> None:
    assert values_of(pa.array(["t", "f", None]), of("bool")).to_pylist() == [True, False, None]
    assert values_of(pa.array(["-1.50", None]), of("numeric", numeric(5, 2))).to_pylist() == [Decimal("-1.50"), None]
    assert values_of(pa.array(["\\x00FF", "\\x"]), of("bytea")).to_pylist() == [b"\0\xff", b""]
    times = values_of(pa.array(["0001-01-01 00:00:00+00", "2024-02-29 12:00:00.000001+00"]), of("timestamptz"))
    assert times.to_pylist()[1] == datetime(2024, 2, 29, 12, 0, 0, 1, timezone.utc)
    assert times.to_pylist()[0] == datetime(1, 1, 1, tzinfo=timezone.utc)


def test_an_array_has_quoted_elements_nulls_and_the_word_null() -> None:
    texts = column_type(SourceType("pg_catalog", "_text", element=SourceType("pg_catalog", "text")), -1)
    found = values_of(pa.array([r'{a,"b,\"\\ {}",NULL,"NULL",""}', None, "{}"]), texts)
    assert found.to_pylist() == [["a", 'b,"\\ {}', None, "NULL", ""], None, []]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("date", "infinity"),
        ("date", "0044-03-15 BC"),
        ("date", "10000-01-01"),
        ("timestamptz", "-infinity"),
        ("timestamp", "20000-01-01 00:00:00"),
        ("numeric", "NaN"),
    ],
)
def test_a_value_that_delta_lacks_is_refused_by_its_text(name: str, text: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{text!r} is not a value"):
        values_of(pa.array([None, text]), of(name, numeric(10, 2) if name == "numeric" else -1))


@pytest.mark.parametrize("text", ["{{1,2},{3,4}}", "[0:1]={1,2}"])
def test_an_array_that_delta_lacks_is_refused_by_its_text(text: str) -> None:
    ints = column_type(SourceType("pg_catalog", "_int4", element=SourceType("pg_catalog", "int4")), -1)
    with pytest.raises(InvalidInputError, match="is not a value of an array"):
        values_of(pa.array([text]), ints)
