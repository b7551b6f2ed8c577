"""Rows that are taken out of columns too large for one Arrow array."""

from __future__ import annotations

import mmap

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.core.format.arrow import take_rows as taken
from txlog.core.format.arrow.take_rows import joined_rows, taken_batches, taken_column, taken_rows

MIB = 1 << 20


@given(
    sizes=st.lists(st.integers(0, 5), min_size=1, max_size=5),
    draws=st.lists(st.floats(0, 1, exclude_max=True), max_size=20),
    whole_bytes=st.sampled_from([0, 1 << 30]),
)
def test_rows_come_in_the_order_of_their_numbers(sizes: list[int], draws: list[float], whole_bytes: int) -> None:
    numbers = iter(range(100))
    chunks = [[{"n": (at := next(numbers)), "t": f"text {at}" if at % 3 else None} for _ in range(n)] for n in sizes]
    kind = pa.struct([("n", pa.int64()), ("t", pa.string())])
    column = pa.chunked_array([pa.array(chunk, kind) for chunk in chunks], kind)
    asked = [int(draw * (len(column) + 1)) - 1 for draw in draws]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(taken, "WHOLE_BYTES", whole_bytes)
        patch.setattr(taken, "ROWS_AT_ONCE", 3)
        found = taken_column(column, np.array(asked, np.int64))
        values = column.to_pylist()
        assert found.to_pylist() == [None if at < 0 else values[at] for at in asked]
        there = np.array([at for at in asked if at >= 0], np.int64)
        table = pa.table({"a": column, "b": column})
        batches = list(taken_batches(table, there))
        assert pa.Table.from_batches([batch for _, batch in batches], table.schema) == taken_rows(table, there)
        assert [start for start, _ in batches] == list(np.cumsum([0, *(len(b) for _, b in batches)])[:-1])


def test_single_rows_come_out_of_a_column_of_more_text_than_an_array_holds() -> None:
    """The text is memory that nothing has written to, so it costs nothing."""
    text = pa.py_buffer(mmap.mmap(-1, 40 * 64 * MIB))
    offsets = pa.py_buffer(np.array([0, 64 * MIB - 3, 64 * MIB], np.int32))
    chunks = [
        pa.Array.from_buffers(pa.binary(), 2, [None, offsets, text.slice(at * 64 * MIB, 64 * MIB)]) for at in range(40)
    ]
    found = taken_column(pa.chunked_array(chunks), np.array([79, 1, 79]))
    assert found.to_pylist() == [b"\0" * 3] * 3


def test_only_few_rows_are_copied_to_one_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"n": pa.chunked_array([[1, 2], [3]])})
    assert joined_rows(rows).column("n").num_chunks == 1
    assert joined_rows(rows) == rows
    monkeypatch.setattr(taken, "JOINED_BYTES", 20)
    assert joined_rows(rows) is rows
