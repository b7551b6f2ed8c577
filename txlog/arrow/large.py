"""Columns with more text than the 2 GiB that one array of Arrow's strings or binaries holds.

In: batches and columns of any size. Out: batches small enough for their text, large strings that Arrow can cast to
plain ones, and one array of all chunks of a column, with a large type if it needs one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["PART_BYTES", "cut_by_text", "joined_chunks", "large_type", "small_offsets", "text_bytes"]

PART_BYTES = 256 << 20  # far below the limit of a string column, to save memory
_BYTES_MAX = (1 << 31) - 1
_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def large_type(kind: pa.DataType) -> pa.DataType:
    """The type of the same values with offsets of 64 bits; ``kind`` itself if it has no offsets of 32 bits."""
    return _LARGE.get(kind, kind)


def joined_chunks(column: pa.ChunkedArray) -> pa.Array:
    """All values in one array; of `large_type` if they have too much text for their own type."""
    if column.type in _LARGE and column.nbytes > _BYTES_MAX:
        column = column.cast(_LARGE[column.type])
    return column.combine_chunks()


def small_offsets(array: pa.Array) -> pa.Array:
    """Large strings or binaries of at most 2 GiB, with offsets that begin at 0, so a cast accepts them.

    A slice keeps its parent's offsets, and Arrow refuses to cast offsets that need more than 32 bits.
    """
    if not len(array) or (body := array.buffers()[2]) is None:
        return array
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    first, end = int(offsets[0]), int(offsets[-1])
    if end <= _BYTES_MAX:
        return array
    validity = array.is_valid().buffers()[1] if array.null_count else None
    moved = pa.py_buffer(offsets - first)
    return pa.Array.from_buffers(array.type, len(array), [validity, moved, body.slice(first, end - first)])


def cut_by_text(batch: pa.RecordBatch, part_bytes: int = PART_BYTES) -> Iterator[pa.RecordBatch]:
    """The same rows in batches with at most ``part_bytes`` of text in a column, or one row.

    Only text outside plain string columns counts: in a large column, a view, or a dictionary, which stores a value once
    for many rows.
    """
    rows = batch.num_rows
    may_exceed = batch.get_total_buffer_size() > part_bytes or any(map(_has_dictionary, batch.schema.types))
    if rows > 1 and may_exceed and any(text_bytes(column, part_bytes) > part_bytes for column in batch.columns):
        yield from cut_by_text(batch.slice(0, rows // 2), part_bytes)
        yield from cut_by_text(batch.slice(rows // 2), part_bytes)
    else:
        yield batch


def text_bytes(column: pa.Array, enough_bytes: int = 0) -> int:
    """The bytes that a column's text takes in a plain string column; 0 if it is in one, or there is no text.

    May return an upper bound instead if that is at most ``enough_bytes``.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _dictionary_bytes(column, enough_bytes)
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _span(column, "<i8")
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return _view_bytes(column)
    if pa.types.is_struct(kind):
        return max((text_bytes(column.field(at), enough_bytes) for at in range(kind.num_fields)), default=0)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return text_bytes(column.flatten(), enough_bytes)
    return 0


def _has_dictionary(kind: Any) -> bool:
    if not pa.types.is_nested(kind):
        return bool(pa.types.is_dictionary(kind))
    return any(_has_dictionary(kind.field(at).type) for at in range(kind.num_fields))


def _dictionary_bytes(column: pa.DictionaryArray, enough_bytes: int) -> int:
    from txlog.arrow.compute import pc

    values = column.dictionary
    at_most_bytes = values.get_total_buffer_size() * len(column)  # `nbytes` fails for views in the lowest Arrow
    if not len(values) or at_most_bytes <= enough_bytes or not _is_text(values.type):
        return 0
    lengths = pc.binary_length(values.cast(pa.large_binary()))
    longest = pc.max(lengths).as_py() or 0
    if longest * len(column) <= enough_bytes:
        return int(longest * len(column))
    return int(pc.sum(pc.cast(lengths.take(column.indices), pa.int64())).as_py() or 0)


def _is_text(kind: Any) -> bool:
    types = pa.types
    is_view = types.is_string_view(kind) or types.is_binary_view(kind)
    return bool(is_view or kind in _LARGE or kind in _LARGE.values())


def _span(column: pa.Array, offset_type: str) -> int:
    if not len(column):
        return 0
    offsets = np.frombuffer(column.buffers()[1], offset_type)
    return int(offsets[column.offset + len(column)] - offsets[column.offset])


def _view_bytes(column: pa.Array) -> int:
    """The bytes of the text in a column of views: each view takes 16 bytes and begins with a length."""
    lengths = np.frombuffer(column.buffers()[1] or b"", "<i4")[::4][column.offset : column.offset + len(column)]
    return int(lengths.sum(dtype=np.int64))
