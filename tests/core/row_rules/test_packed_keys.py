"""Keys of integers, dates and timestamps as numbers: what a dictionary finds, however far apart the values are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.format.schema import from_arrow
from txlog.core.row_rules import KeyColumn, KeyIndex
from txlog.core.row_rules import _keys as keys_module
from txlog.core.row_rules._packed_keys import PackedKeys

ENDS = [-(2**63), -(2**63) + 1, 2**63 - 1, 2**62, 2**32, 0, 1, 7 << 40]
near = st.integers(-4, 4)
far = st.sampled_from(ENDS)
FLAGS = pytest.mark.parametrize("flags_max", [1, 1 << 26], ids=["flags of hashes", "flags of values"])


def found_by_a_dictionary(mine: list[Any], theirs: list[Any]) -> list[int]:
    last = {row: at for at, row in enumerate(mine)}
    return [-1 if None in row else last.get(row, -1) for row in theirs]


@FLAGS
@given(
    st.lists(st.tuples(near, near), max_size=12),
    st.lists(st.tuples(st.one_of(st.none(), near, far), st.one_of(st.none(), near, far)), max_size=12),
)
def test_keys_of_two_integers_are_found(flags_max: int, mine: list[Any], theirs: list[Any]) -> None:
    check(flags_max, [pa.int64(), pa.int32()], mine, [(a, b if b is None or abs(b) < 9 else 9) for a, b in theirs])


@FLAGS
@given(st.lists(st.tuples(st.one_of(near, far)), max_size=12), st.lists(st.tuples(st.one_of(st.none(), near, far))))
def test_keys_of_far_integers_are_found(flags_max: int, mine: list[Any], theirs: list[Any]) -> None:
    check(flags_max, [pa.int64()], mine, theirs)


@FLAGS
@pytest.mark.parametrize("second", [pa.date32(), pa.timestamp("us", "UTC"), pa.int8()], ids=str)
def test_keys_of_dates_and_times_are_found(flags_max: int, second: pa.DataType) -> None:
    mine = [(3, 100), (3, 101), (2, 100), (3, 100)]
    check(flags_max, [pa.int16(), second], mine, [(3, 101), (3, 100), (2, 101), (2, 100), (None, 100), (3, None)])


def check(flags_max: int, types: list[pa.DataType], mine: list[Any], theirs: list[Any]) -> None:
    schema = from_arrow(pa.schema([(f"k{at}", kind) for at, kind in enumerate(types)]))
    keys = [KeyColumn((field.name,), field.type) for field in schema.fields]

    def columns(rows: list[Any]) -> list[pa.Array]:
        padded = [*rows, (None,) * len(types)]  # a slice of a longer array, with a null outside of it
        numbers = [pa.array([row[at] for row in padded], pa.int64()) for at in range(len(types))]
        return [as_type(each, kind).slice(0, len(rows)) for each, kind in zip(numbers, types, strict=True)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys_module, "FLAGS_MAX", flags_max)
        index = KeyIndex(keys, [column.drop_null() for column in columns(mine)])
    assert index.source_rows(columns(theirs)).tolist() == found_by_a_dictionary(mine, theirs)
    last = {row: at for at, row in enumerate(mine)}
    assert index.num_keys == len(last)
    assert index.last_rows().tolist() == [last[row] == at for at, row in enumerate(mine)]
    assert (index.first_repeated() is None) == (len(last) == len(mine))


def as_type(numbers: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_date32(kind):
        return numbers.cast(pa.int32()).view(kind)
    return numbers.view(kind) if pa.types.is_timestamp(kind) else numbers.cast(kind)


def test_columns_whose_values_are_too_far_apart_together_are_left_to_others() -> None:
    wide, narrow = pa.array([0, 2**62]), pa.array([0, 4])
    assert PackedKeys.of([wide], 8) is not None
    assert PackedKeys.of([wide, narrow], 8) is None
    assert PackedKeys.of([narrow, wide], 8) is None
    assert PackedKeys.of([narrow, pa.array(["a", "b"])], 8) is None
    one, all_values = pa.array([5, 5]), pa.array([-(2**63), 2**63 - 1])
    assert PackedKeys.of([one, all_values], 8) is None
