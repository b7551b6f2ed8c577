"""The binary encoding against bytes of the specification and of PySpark's own code, and against hostile bytes."""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.variant_utils import VariantUtils

from txlog.variant.encoding import (
    DEPTH_MAX,
    MalformedVariantError,
    Nanoseconds,
    Part,
    Single,
    Timestamp,
    encode,
    metadata_of,
    names_of,
)
from txlog.variant.json_text import encode_json, parsed

UTC = datetime.timezone.utc


def decoded(metadata: bytes, value: bytes) -> Any:
    return Part(names_of(metadata), value).python()


@pytest.mark.parametrize(
    ("value", "encoded"),
    [  # VariantEncoding.md: one header byte, and the little-endian value
        (None, "00"),
        (True, "04"),
        (False, "08"),
        (1, "0c01"),
        (-128, "0c80"),
        (128, "108000"),
        (-32769, "14ff7fffff"),
        (1 << 31, "180000008000000000"),
        (1.5, "1c000000000000f83f"),
        (decimal.Decimal("1.25"), "20027d000000"),
        (decimal.Decimal("1234567890.5"), "2401" + (12345678905).to_bytes(8, "little").hex()),
        (datetime.date(1970, 1, 2), "2c01000000"),
        (datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "3040420f0000000000"),
        (datetime.datetime(1970, 1, 1, 0, 0, 1), "3440420f0000000000"),
        (Single(0.5), "380000003f"),
        (b"ab", "3c020000006162"),
        ("a" * 64, "4040000000" + "61" * 64),
        ("hi", "096869"),
        (datetime.time(0, 0, 1), "4440420f0000000000"),
        (uuid.UUID(int=1), "50" + "00" * 15 + "01"),
        ([1, "a"], "030200" + "0204" + "0c010561"),
        ({"b": 1, "a": None}, "0202" + "0100" + "000103" + "00" + "0c01"),
    ],
)
def test_a_value_has_the_bytes_of_the_specification(value: Any, encoded: str) -> None:
    assert encode(value)[1].hex() == encoded


def test_names_are_in_a_dictionary_that_says_whether_it_is_sorted() -> None:
    assert metadata_of(()).hex() == "010000"
    assert metadata_of(("a", "b")).hex() == "1102000102" + "6162"
    assert metadata_of(("b", "a")).hex() == "0102000102" + "6261"
    assert names_of(metadata_of(("ä", "", "x" * 300))) == ("ä", "", "x" * 300)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**38) + 1, 10**38 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=80)
    | st.binary(max_size=20)
    | st.dates()
    | st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
    | st.decimals(-(10**20), 10**20, places=10),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)


@given(values)
def test_a_value_comes_back_as_it_went_in(value: Any) -> None:
    metadata, encoded = encode(value)
    assert decoded(metadata, encoded) == value
    assert Part(names_of(metadata), encoded).encoded() == encoded


@given(values)
@settings(max_examples=50)
def test_pyspark_reads_the_same_value(value: Any) -> None:
    metadata, encoded = encode(value)
    with decimal.localcontext(decimal.Context(prec=80)):  # by which PySpark would round decimals of more than 28 digits
        assert VariantUtils.to_python(encoded, metadata) == value


def test_names_that_spark_would_not_find_in_an_object_of_32_fields_are_refused() -> None:
    """Spark's Delta has NULL for both: it looks for a name by halves, in the order of UTF-16."""
    few = {f"k{number}": number for number in range(30)}
    for names in ("￥😀", "\ue000\U00010000"):
        encode(few | {names[1]: 30})
        encode(few | {names[1]: 30, "z": 31, "é": 32, "": 33})
        assert encode(dict.fromkeys([*[*few][:29], *names]))
        with pytest.raises(ValueError, match="Spark would not find"):
            encode(few | dict.fromkeys(names))
        with pytest.raises(ValueError, match="Spark would not find"):
            encode([{"deep": {**dict.fromkeys(map(str, range(100))), **dict.fromkeys(names)}}])


def test_objects_and_arrays_may_have_more_members_than_one_byte_counts() -> None:
    value = {f"name {at}": list(range(at)) for at in range(300)}
    metadata, encoded = encode(value)
    assert decoded(metadata, encoded) == value
    assert VariantUtils.to_python(encoded, metadata) == value


def test_an_integer_beyond_64_bits_is_a_decimal_and_beyond_38_digits_a_double() -> None:
    assert [Part((), encode(number)[1]).kind for number in (1 << 63, 10**38 - 1, 10**38)] == [
        "decimal",
        "decimal",
        "double",
    ]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (object(), "cannot hold"),
        ({1: 2}, "names are strings"),
        ("\ud800", "UTF-8"),
        (decimal.Decimal("NaN"), "no decimal NaN"),
        (decimal.Decimal(10**39), "38 digits"),
        (decimal.Decimal("1e-39"), "38 digits"),
        (10**400, "no number as large"),
        (datetime.time(1, tzinfo=UTC), "no zone"),
    ],
)
def test_a_value_that_no_variant_holds_is_refused(value: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        encode([value])


def test_a_value_nests_300_levels_and_no_more() -> None:
    deep: list[Any] = []
    for _ in range(DEPTH_MAX):
        deep = [deep]
    assert decoded(*encode(deep)) == deep
    with pytest.raises(ValueError, match="deeper than 300 levels"):
        encode([deep])


def test_times_that_python_lacks_are_numbers() -> None:
    for value in (Timestamp(-(10**18), True), Timestamp(10**18, False), Nanoseconds(1, True), Nanoseconds(-1, False)):
        assert decoded(*encode(value)) == value
    fine = encode(Nanoseconds(1000, False))
    assert decoded(*fine) == datetime.datetime(1970, 1, 1, 0, 0, 0, 1)


def test_a_float_of_32_bits_stays_one() -> None:
    found = decoded(*encode(Single(0.1)))
    assert encode(found)[1][0] == 14 << 2
    assert math.isclose(found, 0.1, rel_tol=1e-7)


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ("", "empty"),
        ("020000", "version 2"),
        ("0105", "too few|in a number"),
        ("01020001", "too few"),
        ("010100ff", "beyond its end"),
        ("0102000201616263", "out of order"),
        ("01010102" + "6162", "out of order"),
        ("010100" + "01" + "ff", "not UTF-8"),
        ("c1ffffffff", "too few"),
    ],
)
def test_damaged_metadata_are_refused(metadata: str, why: str) -> None:
    with pytest.raises(MalformedVariantError, match=why):
        names_of(bytes.fromhex(metadata))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "ends at byte 0"),
        ("18", "ends at byte 1"),
        ("0d", "ends at byte 1"),
        ("3cffffffff", "in one of 4294967295 bytes"),
        ("54", "type 21"),
        ("2003", "in one of 4 bytes"),
        ("200a01000000", "more than 9 digits"),
        ("2c" + "ffffff7f", "outside the years"),
        ("44ffffffffffffffff", "time of day"),
        ("0301", "in a number"),
        ("030100ff", "behind its end"),
        ("03010501" + "00", "where another one should begin"),
        ("0201" + "05" + "0001" + "00", "field 5, of 0"),
        ("130000010000", "ends at byte"),
        ("1dff", "ends at byte 2"),
        ("05ff", "not UTF-8"),
    ],
)
def test_a_damaged_value_is_refused(value: str, why: str) -> None:
    with pytest.raises(MalformedVariantError, match=why):
        Part((), bytes.fromhex(value)).python()


def test_offsets_to_one_value_again_and_again_are_refused_before_they_fill_the_memory() -> None:
    """Each level has 200 elements that are the same bytes: 200 ** 40 values."""
    value = b"\0"
    for _ in range(40):
        value = bytes((0x03 | 1 << 2, 200)) + b"\0\0" * 200 + len(value).to_bytes(2, "little") + value
    with pytest.raises(MalformedVariantError, match="point to one value"):
        Part((), value).python()


def test_a_name_twice_is_refused() -> None:
    names = ("a", "a")
    with pytest.raises(MalformedVariantError, match="a name twice"):
        Part(names, bytes.fromhex("0202" + "0001" + "000102" + "0000")).python()


@given(st.binary(max_size=60), st.binary(max_size=30))
def test_any_bytes_are_a_value_or_are_refused(value: bytes, names: bytes) -> None:
    for metadata in (b"\1" + names, metadata_of(("a", "b", "c"))):
        try:
            found = decoded(metadata, value)
        except MalformedVariantError:
            continue
        encode(found)


TRICKY_TEXTS = [
    *('{"a": 1, "b": "x:y", "c:d": ":"}', '{"a":"\\u003a"}', '{"url":"http://x/?a=1:2","at":"2026-01-01T00:00:00"}'),
    *("[1.50, -0.5, -0.0, 0.000, 12345678901.25, 1E2, 1.5e-3]", "123456789012345678901234567890", "-0"),
    *(f"0.{'1' * 38}", f"0.{'1' * 39}", "1" * 38, "1" * 39, f"-{'9' * 38}.5", "18446744073709551616", "[[], {}, [{}]]"),
    *('{"é":{"é":1}}', '"\\u00e9\\ud83d\\ude00"', ' { "a" : [ 1 , 2 ] } ', '{"a":{"b":{"c":":"}}}', '""', "true"),
]


@pytest.mark.parametrize("text", TRICKY_TEXTS)
def test_the_fast_parser_has_the_values_of_the_slow_one(text: str) -> None:
    assert encode_json(text) == encode(parsed(text))


REFUSED_TEXTS = [
    *('{"a":1,"a":2}', '{"a":1,"b":{"c":1,"c":2}}', '[{"a":":","a":1}]', '{"x":"\\u003a","a":1,"a":2}'),
    *('{"a" :1,"a":":"}', '{"\\u0061":1,"a":2}', "", "{", "[1,]", "NaN", "1e999", '"\\ud800"', "01", "\ufeff1"),
]


@pytest.mark.parametrize("text", REFUSED_TEXTS)
def test_the_fast_parser_refuses_what_the_slow_one_refuses(text: str) -> None:
    slow = refusal(lambda: encode(parsed(text)))
    assert refusal(lambda: encode_json(text)) == slow != ""


def refusal(make: Callable[[], object]) -> str:
    try:
        make()
    except ValueError as error:
        return str(error)
    return ""


def test_texts_nested_too_deep_are_refused() -> None:
    with pytest.raises(ValueError, match="nests"):
        encode_json("[" * 100_000 + "]" * 100_000)
