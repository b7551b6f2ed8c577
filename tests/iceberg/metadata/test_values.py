"""Bounds and partition values as bytes, against those that PyIceberg makes of the same values."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import fastavro
import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from txlog.core.format.schema import Decimal, Primitive
from txlog.iceberg.metadata.values import avro_encoder, avro_type, bound_encoder, order_key

UTC = datetime.timezone.utc
VALUES: list[tuple[Any, IcebergType, list[Any]]] = [
    (Primitive("byte"), IntegerType(), [-128, 0, 127]),
    (Primitive("integer"), IntegerType(), [-(2**31), 7, 2**31 - 1]),
    (Primitive("long"), LongType(), [-(2**63), 7, 2**63 - 1]),
    (Primitive("float"), FloatType(), [-1.5, 2.25]),
    (Primitive("double"), DoubleType(), [-1e300, 0.1]),
    (Primitive("boolean"), BooleanType(), [False, True]),
    (Primitive("string"), StringType(), ["", "é", "\U0001f600"]),
    (Primitive("binary"), BinaryType(), [b"", b"\0\xff"]),
    (Primitive("date"), DateType(), [datetime.date(1, 1, 1), datetime.date(1970, 1, 2), datetime.date(9999, 12, 31)]),
    (
        Primitive("timestamp_ntz"),
        TimestampType(),
        [
            datetime.datetime(1, 1, 1),
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
            datetime.datetime(9999, 1, 1),
        ],
    ),
    (
        Primitive("timestamp"),
        TimestamptzType(),
        [datetime.datetime(1900, 1, 1, tzinfo=UTC), datetime.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC)],
    ),
    (
        Decimal(9, 2),
        DecimalType(9, 2),
        [decimal.Decimal("-1.28"), decimal.Decimal("0.00"), decimal.Decimal("9999999.99")],
    ),
    (Decimal(38, 0), DecimalType(38, 0), [decimal.Decimal(-(10**38) + 1), decimal.Decimal(10**38 - 1)]),
]


@pytest.mark.parametrize(("ours", "theirs", "values"), VALUES, ids=lambda value: str(value)[:30])
def test_a_bound_has_the_bytes_that_pyiceberg_gives_it_and_keeps_its_order(
    ours: Any, theirs: IcebergType, values: list[Any]
) -> None:
    lower, upper = bound_encoder(ours), bound_encoder(ours, upper=True)
    assert lower is not None
    assert upper is not None
    encoded = [lower(value) for value in values]
    assert encoded == [upper(value) for value in values] == [to_bytes(theirs, value) for value in values]
    keys = [order_key(ours)(each) for each in encoded if each is not None]
    assert keys == sorted(keys)


@pytest.mark.parametrize(("ours", "theirs", "values"), VALUES, ids=lambda value: str(value)[:30])
def test_fastavro_decodes_a_partition_value_to_what_it_was(ours: Any, theirs: IcebergType, values: list[Any]) -> None:
    import io

    for value in values:
        found = fastavro.schemaless_reader(io.BytesIO(avro_encoder(ours)(value)), avro_type(ours), None)
        if isinstance(found, datetime.datetime) and not isinstance(theirs, TimestamptzType):
            found = found.replace(tzinfo=None)
        assert found == value


def test_bounds_of_zero_cover_both_zeros_and_nan_is_no_bound() -> None:
    lower, upper = bound_encoder(Primitive("double")), bound_encoder(Primitive("double"), upper=True)
    assert lower is not None
    assert upper is not None
    assert lower(0.0) == to_bytes(DoubleType(), -0.0)
    assert upper(-0.0) == to_bytes(DoubleType(), 0.0)
    assert lower(float("nan")) is None


def test_a_decimal_bound_that_was_rounded_by_its_writer_still_holds() -> None:
    lower, upper = bound_encoder(Decimal(5, 1)), bound_encoder(Decimal(5, 1), upper=True)
    assert lower is not None
    assert upper is not None
    assert lower(decimal.Decimal("-1.25")) == to_bytes(DecimalType(5, 1), decimal.Decimal("-1.3"))
    assert upper(decimal.Decimal("1.25")) == to_bytes(DecimalType(5, 1), decimal.Decimal("1.3"))
    assert upper(decimal.Decimal("99999.9")) is None
