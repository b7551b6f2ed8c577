"""Text beyond what Arrow's strings hold."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import txlog
from txlog.core.format.arrow import arrays
from txlog.core.format.arrow.arrays import are_among, coded, joined_chunks, small_offsets
from txlog.core.format.arrow.text import cut_by_text

TEXTS = ["x" * 1_000, "y" * 10, None, "z" * 1_000] * 25
FORMS = [
    pa.array(TEXTS).dictionary_encode(),
    pa.array(TEXTS).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.large_string())),
    pa.array(TEXTS, pa.large_string()),
    pa.array(TEXTS, pa.string_view()),
    pa.StructArray.from_arrays([pa.array(TEXTS, pa.large_string())], names=["inside"]),
    pa.array([[text] for text in TEXTS], pa.list_(pa.large_string())),
    pa.array([None, *([text] for text in TEXTS[1:])], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
]


@pytest.mark.parametrize("text", FORMS, ids=lambda form: str(form.type))
def test_batches_are_cut_until_their_text_fits(text: pa.Array) -> None:
    longer = pa.concat_arrays([text[:1], text, text[:1]])
    batch = pa.record_batch({"id": pa.array(range(102)), "text": longer}).slice(1, 100)
    parts = list(cut_by_text(batch, part_bytes=8_000))
    assert pa.Table.from_batches(parts).to_pylist() == pa.Table.from_batches([batch]).to_pylist()
    assert 7 <= len(parts) <= 16
    assert list(cut_by_text(batch, part_bytes=200_000)) == [batch]


def test_a_single_row_of_any_length_is_not_cut() -> None:
    batch = pa.record_batch({"text": pa.array(["x" * 1_000], pa.large_string())})
    assert list(cut_by_text(batch, part_bytes=10)) == [batch]


def far_behind() -> pa.Array:
    """Three values of a large string column, of which 2 GiB lie before them. They are memory that nothing wrote to."""
    start = 1 << 31
    text = mmap.mmap(-1, start + 64)
    text[start : start + 6] = b"abcdef"
    offsets = np.array([start, start + 1, start + 1, start + 6])
    return pa.Array.from_buffers(
        pa.large_string(), 3, [pa.py_buffer(b"\x05"), pa.py_buffer(offsets), pa.py_buffer(text)]
    )


def test_rows_far_behind_in_a_large_column_are_written(tmp_path: Path) -> None:
    with pytest.raises(pa.ArrowInvalid):
        far_behind().cast(pa.string())
    assert small_offsets(far_behind().slice(1)).to_pylist() == [None, "bcdef"]
    data = pa.table({"id": [1, 2, 3], "text": far_behind()})
    table = txlog.Table.create(tmp_path / "t", {"id": pa.int64(), "text": pa.string()})
    table.append(data)
    table.upsert(data, keys=["id"])
    assert table.to_arrow().sort_by("id")["text"].to_pylist() == ["a", None, "bcdef"]


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()], ids=str)
def test_more_text_than_fits_is_joined_to_a_large_column(kind: pa.DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    column = pa.chunked_array([["a" * 60], ["b" * 60]], kind)
    assert joined_chunks(column).type == kind
    monkeypatch.setattr(arrays, "BYTES_MAX", 100)
    assert joined_chunks(column).type == arrays.large_type(kind)
    assert joined_chunks(column).to_pylist() == column.to_pylist()


LETTERS = st.lists(st.sampled_from([*"abcde", None]), max_size=5)


@given(LETTERS, st.lists(LETTERS, max_size=4), st.sampled_from([0, 30, 1 << 30]))
def test_values_are_found_among_others_in_any_chunks(
    values: list[str | None], among: list[list[str | None]], index_bytes: int
) -> None:
    others = pa.chunked_array([pa.array(chunk, pa.string()) for chunk in among], pa.string())
    expected = [value in others.to_pylist() for value in values]
    for column in (pa.array(values, pa.string()), pa.chunked_array([values[:2], values[2:]], pa.string())):
        assert are_among(column, others, index_bytes).to_pylist() == expected


@given(st.lists(LETTERS, max_size=4))
def test_coded_values_are_the_values(chunks: list[list[str | None]]) -> None:
    texts = pa.chunked_array([pa.array(chunk, pa.string()) for chunk in chunks], pa.string())
    values, numbers = coded(texts)
    assert [values[at].as_py() for at in numbers.tolist()] == texts.to_pylist()
    assert len(set(values.to_pylist())) == len(values)


MIB = 1 << 20
LONG = ["x" * MIB, *(f"{letter}{'y' * MIB}" for letter in "abc")]


@pytest.fixture(scope="module")
def beyond() -> pa.ChunkedArray:
    """More text than one array holds; all chunks are the same memory."""
    chunk = pa.array(LONG * 4)
    return pa.chunked_array([chunk] * 140)


def test_values_are_looked_up_among_more_text_than_an_index_holds(
    beyond: pa.ChunkedArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed: list[int] = []
    is_in = pc.is_in

    def counted(values: pa.Array, value_set: pa.ChunkedArray) -> pa.Array:
        indexed.append(value_set.nbytes)
        return is_in(values, value_set=value_set)

    monkeypatch.setattr(pc, "is_in", counted)
    with pytest.raises(pa.ArrowInvalid):
        beyond.combine_chunks()
    assert are_among(pa.array([LONG[1], "z"]), beyond).to_pylist() == [True, False]
    assert sum(indexed) == beyond.nbytes
    assert max(indexed) <= 1 << 30


def test_more_text_than_one_array_holds_is_coded(beyond: pa.ChunkedArray) -> None:
    values, numbers = coded(beyond)
    assert values.to_pylist() == LONG
    assert numbers.tolist() == [0, 1, 2, 3] * (len(beyond) // 4)
