"""Partition values against rows observed from Spark, against deltalake, and there and back for any value."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import struct
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import deltalake
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.format.partition_values import decode, decode_array, encode, encode_array
from txlog.core.format.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    Array,
    DataType,
    Decimal,
    Field,
    Struct,
    parse_schema,
    type_to_arrow,
)
from txlog.errors import CorruptLogError, InvalidInputError

UTC = datetime.timezone.utc
DECIMAL_38_18 = Decimal(38, 18)


def utc(*parts: int) -> datetime.datetime:
    return datetime.datetime(*parts).replace(tzinfo=UTC)  # type: ignore[arg-type]


# What Spark writes for each value (the partitionValues column of delta-kernel-rs's table of observed rows).
SPARK_ROWS: list[tuple[DataType, Any, str | None]] = [
    (INTEGER, 0, "0"),
    (INTEGER, -1, "-1"),
    (INTEGER, 2147483647, "2147483647"),
    (INTEGER, -2147483648, "-2147483648"),
    (LONG, 9223372036854775807, "9223372036854775807"),
    (LONG, -9223372036854775808, "-9223372036854775808"),
    (BYTE, 127, "127"),
    (BYTE, -128, "-128"),
    (SHORT, 32767, "32767"),
    (SHORT, -32768, "-32768"),
    (DOUBLE, 0.0, "0.0"),
    (DOUBLE, -0.0, "-0.0"),
    (DOUBLE, 1.7976931348623157e308, "1.7976931348623157E308"),
    (DOUBLE, 5e-324, "4.9E-324"),
    (DOUBLE, math.nan, "NaN"),
    (DOUBLE, math.inf, "Infinity"),
    (DOUBLE, -math.inf, "-Infinity"),
    (FLOAT, 0.0, "0.0"),
    (FLOAT, math.nan, "NaN"),
    (FLOAT, math.inf, "Infinity"),
    (FLOAT, -math.inf, "-Infinity"),
    (BOOLEAN, True, "true"),
    (BOOLEAN, False, "false"),
    (DECIMAL_38_18, decimal.Decimal("0"), "0.000000000000000000"),
    (DECIMAL_38_18, decimal.Decimal("1.23"), "1.230000000000000000"),
    (DECIMAL_38_18, decimal.Decimal("-1.23"), "-1.230000000000000000"),
    (DATE, datetime.date(2024, 1, 1), "2024-01-01"),
    (DATE, datetime.date(1970, 1, 1), "1970-01-01"),
    (DATE, datetime.date(1, 1, 1), "0001-01-01"),
    (DATE, datetime.date(9999, 12, 31), "9999-12-31"),
    (TIMESTAMP, utc(2024, 6, 15, 19, 30, 45), "2024-06-15T19:30:45.000000Z"),
    (TIMESTAMP, utc(1970, 1, 1, 8), "1970-01-01T08:00:00.000000Z"),
    (TIMESTAMP, utc(2024, 6, 16, 6, 59, 59, 999999), "2024-06-16T06:59:59.999999Z"),
    (TIMESTAMP_NTZ, datetime.datetime(2024, 6, 15, 12, 30, 45), "2024-06-15 12:30:45"),
    (TIMESTAMP_NTZ, datetime.datetime(1970, 1, 1), "1970-01-01 00:00:00"),
    (TIMESTAMP_NTZ, datetime.datetime(2013, 7, 5, 17, 1, 0, 123456), "2013-07-05 17:01:00.123456"),
    (BINARY, b"", None),
    (BINARY, b"HELLO", "HELLO"),
    (BINARY, b"/=%", "/=%"),
    (STRING, "", None),
    *((STRING, text, text) for text in (" ", "  ", "a{b", "hello world", "München", "日本語", "🎵🎶", "a<b>c|d")),
    *((STRING, text, text) for text in ("Serbia/srb%", "100%25", "a&b+c$d;e,f", "line\nbreak", "x" * 300, "..")),
    *((kind, None, None) for kind in (INTEGER, DOUBLE, BOOLEAN, DECIMAL_38_18, DATE, TIMESTAMP, STRING, BINARY)),
]


@pytest.mark.parametrize(("kind", "value", "text"), SPARK_ROWS, ids=lambda value: str(value)[:40])
def test_a_value_is_written_as_spark_writes_it_and_read_back(kind: DataType, value: Any, text: str | None) -> None:
    assert encode(value, kind) == text
    assert encode_array(pa.array([value, None, value], type_to_arrow(kind)), kind).to_pylist() == [text, None, text]
    expected = None if text is None else value
    back = decode(text, kind)
    assert back == expected or (value != value and back != back)


# What Java's Float.toString and Double.toString print (JDK 19 and later; tried against JDK 25).
@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (DOUBLE, 1e-3, "0.001"),
        (DOUBLE, 9.999e-4, "9.999E-4"),
        (DOUBLE, 1e7, "1.0E7"),
        (DOUBLE, 9999999.0, "9999999.0"),
        (DOUBLE, 12345678.9, "1.23456789E7"),
        (DOUBLE, 100.0, "100.0"),
        (DOUBLE, -0.5, "-0.5"),
        (DOUBLE, 1e23, "1.0E23"),
        (DOUBLE, 2e-3, "0.002"),
        (DOUBLE, 1e-323, "9.9E-324"),
        (DOUBLE, 2.2250738585072014e-308, "2.2250738585072014E-308"),
        (DOUBLE, 9007199254740993.0, "9.007199254740992E15"),
        (FLOAT, 3.4028234663852886e38, "3.4028235E38"),
        (FLOAT, 1e-45, "1.4E-45"),
        (FLOAT, 0.10000000149011612, "0.1"),
        (FLOAT, 16777216.0, "1.6777216E7"),
        (FLOAT, 1.17549435e-38, "1.1754944E-38"),
    ],
)
def test_a_float_is_written_as_java_writes_it(kind: DataType, value: float, text: str) -> None:
    assert encode(value, kind) == text
    assert (
        decode(text, kind) == value if kind == DOUBLE else decode(text, kind) == pa.scalar(value, pa.float32()).as_py()
    )


VALUES = {
    STRING: st.text(min_size=1),
    BINARY: st.text(min_size=1).map(str.encode),
    BOOLEAN: st.booleans(),
    BYTE: st.integers(-128, 127),
    SHORT: st.integers(-(2**15), 2**15 - 1),
    INTEGER: st.integers(-(2**31), 2**31 - 1),
    LONG: st.integers(-(2**63), 2**63 - 1),
    FLOAT: st.floats(width=32, allow_nan=False),
    DOUBLE: st.floats(allow_nan=False),
    DATE: st.dates(),
    TIMESTAMP: st.datetimes(timezones=st.just(UTC)),
    TIMESTAMP_NTZ: st.datetimes(),
    Decimal(38, 0): st.integers(-(10**38) + 1, 10**38 - 1).map(decimal.Decimal),
    Decimal(38, 38): st.integers(-(10**38) + 1, 10**38 - 1).map(
        lambda n: decimal.Decimal((n < 0, (*map(int, str(abs(n))),), -38))
    ),
    Decimal(9, 4): st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: decimal.Decimal(n).scaleb(-4)),
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data())
def test_any_values_survive_the_way_through_text(kind: DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[kind], max_size=8))
    array = pa.array(values, type_to_arrow(kind))
    texts = encode_array(array, kind)
    assert texts.type == pa.string()
    assert decode_array(texts, kind).equals(array)
    assert [decode(text, kind) for text in texts.to_pylist()] == array.to_pylist()
    assert [encode(value, kind) for value in values] == texts.to_pylist()


@given(bits=st.integers(0, 2**32 - 1))
def test_the_text_of_a_single_float_reads_back_to_the_same_bits(bits: int) -> None:
    value = struct.unpack("<f", struct.pack("<I", bits))[0]
    text = encode_array(pa.array([value], pa.float32()), FLOAT)[0].as_py()
    back = decode(text, FLOAT)
    assert back == value or (math.isnan(back) and math.isnan(value))


def test_an_array_of_another_arrow_type_is_encoded_as_the_column_type() -> None:
    nanos = pa.array([1_000, None], pa.timestamp("ns", "Asia/Tokyo"))
    assert encode_array(nanos, TIMESTAMP).to_pylist() == ["1970-01-01T00:00:00.000001Z", None]
    words = pa.array(["a", "b", "a", ""]).dictionary_encode()
    assert encode_array(words, STRING).to_pylist() == ["a", "b", "a", None]
    assert encode_array(pa.array(["x"], pa.string_view()), STRING).to_pylist() == ["x"]
    assert encode_array(pa.chunked_array([[1], [2, None]]), BYTE).to_pylist() == ["1", "2", None]
    assert encode_array(pa.array([], pa.int64()), LONG).to_pylist() == []
    assert encode_array(pa.array([1.5, 2.5])[1:], DOUBLE).to_pylist() == ["2.5"]
    assert encode(pa.scalar(5, pa.uint8()), LONG) == "5"


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([b"\xde\xad\xbe\xef"]), BINARY),
        (pa.array([1], pa.timestamp("ns")), TIMESTAMP_NTZ),  # a nanosecond has no text
        (pa.array([300]), BYTE),
        (pa.array(["abc"]), INTEGER),
        (pa.array([decimal.Decimal("1.234")]), Decimal(5, 2)),
        (pa.array([2_932_897], pa.int32()).view(pa.date32()), DATE),
        (pa.array([-719_163], pa.int32()).view(pa.date32()), DATE),
        (pa.array([253_402_300_800_000_000]).view(pa.timestamp("us")), TIMESTAMP_NTZ),
        (pa.array([2**63 - 1]).view(pa.timestamp("us", "UTC")), TIMESTAMP),
        (pa.array([[1]]), LONG),
        (pa.array([[1]]), Array(LONG)),
        (pa.array([{"a": 1}]), Struct((Field("a", LONG),))),
        (pa.array([b""]), VARIANT),
        (pa.nulls(1), VOID),
    ],
    ids=str,
)
def test_a_partition_value_without_a_text_form_is_refused_by_column(values: pa.Array, kind: DataType) -> None:
    with pytest.raises(InvalidInputError, match=r"^day"):
        encode_array(values, kind, column="day")


@pytest.mark.parametrize("value", [object(), "x", 2**70, [1]])
def test_a_python_value_of_another_type_is_refused_by_column(value: object) -> None:
    with pytest.raises(InvalidInputError, match=r"^n"):
        encode(value, INTEGER, column="n")


@pytest.mark.parametrize(
    "kind", [STRING, INTEGER, BOOLEAN, DATE, TIMESTAMP, TIMESTAMP_NTZ, DECIMAL_38_18, DOUBLE, BINARY], ids=str
)
def test_an_empty_text_is_null_for_every_type(kind: DataType) -> None:
    assert decode("", kind) is None
    assert decode_array(pa.array(["", None]), kind).null_count == 2


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-06-15T19:30:45.000000Z", utc(2024, 6, 15, 19, 30, 45)),
        ("2024-06-15T19:30:45Z", utc(2024, 6, 15, 19, 30, 45)),
        ("2024-06-15T21:30:45.5+02:00", utc(2024, 6, 15, 19, 30, 45, 500000)),
        ("2024-06-15 12:30:45 -0700", utc(2024, 6, 15, 19, 30, 45)),
        ("2024-06-15 19:30:45.001", utc(2024, 6, 15, 19, 30, 45, 1000)),
        ("2024-06-15 19:30:45.123456789", utc(2024, 6, 15, 19, 30, 45, 123456)),
        ("2024-06-15 19:30", utc(2024, 6, 15, 19, 30)),
        ("2024-6-5", utc(2024, 6, 5)),
    ],
)
def test_both_forms_of_a_timestamp_are_read(text: str, moment: datetime.datetime) -> None:
    assert decode(text, TIMESTAMP) == moment
    assert decode_array(pa.array([text]), TIMESTAMP).to_pylist() == [moment]


def test_a_timestamp_without_a_zone_is_read_in_the_zone_given() -> None:
    zone = ZoneInfo("America/Los_Angeles")
    assert decode("2024-06-15 12:30:45", TIMESTAMP, zone=zone) == utc(2024, 6, 15, 19, 30, 45)
    assert decode("2024-06-15T12:30:45Z", TIMESTAMP, zone=zone) == utc(2024, 6, 15, 12, 30, 45)
    assert decode_array(pa.array(["2024-01-15 12:00:00"]), TIMESTAMP, zone=zone)[0].as_py() == utc(2024, 1, 15, 20)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x", INTEGER),
        ("1.0", INTEGER),
        ("128", BYTE),
        ("9" * 5000, LONG),
        ("yes", BOOLEAN),
        ("1_0", DOUBLE),
        ("nan(1)", DOUBLE),
        ("1e39", FLOAT),
        ("1.234", Decimal(5, 2)),
        ("1234", Decimal(5, 2)),
        ("1e999999999", Decimal(38, 0)),
        ("Infinity", Decimal(38, 0)),
        ("2024-02-30", DATE),
        ("20240101", DATE),
        ("2024-01-01 25:00:00", TIMESTAMP),
        ("0001-01-01 00:00:00+14:00", TIMESTAMP),
        ("\uff12\uff10\uff12\uff14-01-01", DATE),
        ("a", VARIANT),
        ("a", VOID),
        ("a", Array(LONG)),
    ],
)
def test_a_text_that_is_no_value_of_its_type_is_a_corrupt_log_naming_the_column(text: str, kind: DataType) -> None:
    with pytest.raises(CorruptLogError, match=r"^day is a"):
        decode(text, kind, column="day")


def test_every_golden_partition_value_reads_as_its_column_type(golden_lines: list[tuple[str, dict[str, Any]]]) -> None:
    types: dict[tuple[str, str], DataType] = {}
    for table, line in golden_lines:
        if "schemaString" in line.get("metaData", {}):
            for field in parse_schema(line["metaData"]["schemaString"]).fields:
                types[table, str(field.metadata.get("delta.columnMapping.physicalName", field.name))] = field.type
    checked = 0
    for table, line in golden_lines:
        for column, text in (line.get("add", {}).get("partitionValues") or {}).items():
            kind = types.get((table, column))
            if kind is not None and text:
                value = decode(text, kind)
                assert decode(encode(value, kind), kind) == value
                checked += 1
    assert checked > 50


# deltalake 1.6 cannot write negative decimals, or values whose directory would be longer than 255 bytes
DELTALAKE_VALUES = {
    STRING: [" ", "a/b=c%", "München", "日本語", "line\nbreak", "..", "it's", None],
    BINARY: [b"HELLO", b"\xff", None],
    BOOLEAN: [True, False, None],
    BYTE: [127, -128, None],
    LONG: [2**63 - 1, -(2**63), None],
    FLOAT: [0.1, 1e10, -1e-10, math.inf, -math.inf, None],
    DOUBLE: [0.1, 1e100, -1e-100, math.inf, -math.inf, None],
    DATE: [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None],
    TIMESTAMP: [utc(2024, 6, 15, 19, 30, 45), utc(1600, 1, 1, 0, 0, 0, 1), None],
    TIMESTAMP_NTZ: [datetime.datetime(2024, 6, 15, 19, 30, 45), datetime.datetime(1600, 1, 1, 0, 0, 0, 1), None],
    DECIMAL_38_18: [decimal.Decimal("1.23"), decimal.Decimal(0), None],
}


@pytest.mark.parametrize("kind", DELTALAKE_VALUES, ids=str)
def test_we_read_the_partition_values_deltalake_wrote_as_deltalake_does(kind: DataType, tmp_path: Path) -> None:
    values = pa.array(DELTALAKE_VALUES[kind], type_to_arrow(kind))
    deltalake.write_deltalake(str(tmp_path), pa.table({"n": range(len(values)), "p": values}), partition_by=["p"])
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(tmp_path)))
    theirs = pa.table(query.execute("SELECT p FROM t")).column("p").cast(values.type)
    lines = map(json.loads, (tmp_path / "_delta_log" / f"{0:020}.json").read_text().splitlines())
    texts = [line["add"]["partitionValues"]["p"] for line in lines if "add" in line]
    assert len(texts) == len(values)
    assert set(decode_array(pa.array(texts, pa.string()), kind).to_pylist()) == set(theirs.to_pylist())
    if kind != BINARY:  # deltalake escapes binary in a way that no reader, its own included, undoes
        assert set(theirs.to_pylist()) == set(values.to_pylist())
