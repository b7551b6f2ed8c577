"""Dictionary arrays of which rows are gone: the values stay, and entries that nobody uses go."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.format.arrow.used_dictionary import dictionary_bounds, with_used_entries

TEXTS = ["b", "", "é", "a\x00", "z" * 5000, "zz"]


@given(
    st.lists(st.one_of(st.none(), st.sampled_from(TEXTS)), max_size=30),
    st.integers(0, 29),
    st.sampled_from([pa.string(), pa.binary()]),
)
def test_the_values_stay_and_footers_get_the_bounds_that_arrow_finds(
    values: list[str | None], first: int, kind: pa.DataType
) -> None:
    array = pa.array(TEXTS + values, pa.string()).cast(kind).dictionary_encode()[len(TEXTS) :][first:]
    found = with_used_entries(array)
    plain = array.dictionary_decode()
    assert found.dictionary_decode().equals(plain)
    assert sorted(found.dictionary.to_pylist()) == sorted(plain.drop_null().unique().to_pylist())
    body = pa.BufferOutputStream()
    pq.write_table(pa.table({"c": plain}), body)
    told = pq.read_metadata(pa.BufferReader(body.getvalue())).row_group(0).column(0) if len(plain) else None
    nulls, low, high = dictionary_bounds(pa.chunked_array([found]))
    assert nulls == plain.null_count
    if told is not None and told.statistics.has_min_max:
        assert (low, high) == (told.statistics.min_raw, told.statistics.max_raw)
    elif "z" * 5000 not in array.to_pylist() and b"z" * 5000 not in array.to_pylist():
        assert (low, high) == (None, None)


@pytest.mark.parametrize("values", [[], [None, None]])
def test_no_value_has_no_bounds(values: list[None]) -> None:
    array = pa.array(["gone", *values], pa.string()).dictionary_encode()[1:]
    assert dictionary_bounds(pa.chunked_array([with_used_entries(array)])) == (len(values), None, None)
