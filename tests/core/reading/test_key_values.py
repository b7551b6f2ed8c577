"""Keys as numbers: equal keys agree, other keys do not, whatever arrays they come in."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.reading._key_values import KeyNumbers

SECRET = b"0123456789abcdef"
LONG = "x" * 600
COLUMNS: dict[str, tuple[pa.DataType, Any]] = {
    "integer": (pa.int32(), st.integers(-3, 3)),
    "long": (pa.int64(), st.sampled_from((-(2**63), -1, 0, 2**63 - 1))),
    "date": (pa.date32(), st.sampled_from((datetime.date(1, 1, 1), datetime.date(2026, 11, 20)))),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        st.sampled_from((datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc),)),
    ),
    "boolean": (pa.bool_(), st.booleans()),
    "decimal": (pa.decimal128(38, 2), st.decimals(-(10**30), 10**30, places=2).map(decimal.Decimal)),
    "string": (pa.string(), st.text("a\0é\U0001f600", max_size=20)),
    "long string": (pa.string(), st.sampled_from(("", "a", LONG, LONG + "y", "x" * 512, "x" * 513))),
    "binary": (pa.binary(), st.binary(max_size=18)),
}


@given(st.data(), st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=3))
def test_keys_have_equal_numbers_exactly_where_they_are_equal(data: Any, names: list[str]) -> None:
    values = st.tuples(*(st.one_of(COLUMNS[name][1], st.none()) for name in names))
    keys = data.draw(st.lists(values, max_size=12))
    cut = data.draw(st.integers(0, len(keys)))
    columns = [pa.array([key[at] for key in keys], COLUMNS[name][0]) for at, name in enumerate(names)]
    numbers = KeyNumbers([column.type for column in columns], SECRET)
    found: list[tuple[Any, ...]] = []
    expected: list[int] = []
    for start, length in ((0, cut), (cut, len(keys) - cut)):
        one, rows = numbers.of([column.slice(start, length) for column in columns])
        second = [0] * len(one) if one.second is None else one.second.tolist()
        found += zip(one.numbers.tolist(), second, strict=True)
        expected += range(start, start + length) if rows is None else (rows + start).tolist()
    assert expected == [row for row, key in enumerate(keys) if None not in key], "a null is no key"
    kept = [keys[row] for row in expected]
    for a, (mine, my_key) in enumerate(zip(found, kept, strict=True)):
        assert [other == mine for other in found] == [other == my_key for other in kept], a


def test_an_integer_key_is_its_own_number_and_a_string_key_is_hashed_with_a_secret() -> None:
    assert KeyNumbers([pa.int64()], SECRET).of([pa.array([5, -7])])[0].numbers.tolist() == [5, -7]
    names = [pa.array(["a"])]
    mine, yours = (KeyNumbers([pa.string()], secret).of(names)[0] for secret in (SECRET, SECRET[::-1]))
    assert mine.numbers.tolist() != yours.numbers.tolist()


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.bool_(), pa.decimal128(5, 1)])
def test_an_empty_array_of_keys_has_no_numbers(kind: pa.DataType) -> None:
    found, rows = KeyNumbers([kind], SECRET).of([pa.array([], kind)])
    assert len(found) == 0
    assert rows is None


def test_both_halves_of_a_fingerprint_distinguish_keys() -> None:
    numbers = KeyNumbers([pa.string()], SECRET)
    found = numbers.of([pa.array([f"key {number}" for number in range(50_000)])])[0]
    assert found.second is not None
    assert len(set(found.numbers.tolist())) == len(set(found.second.tolist())) == 50_000
    assert set(found.numbers.tolist()).isdisjoint(found.second.tolist())
