"""Columns of text as a caller gives them: batches with more text than a file's column takes, and text that is not
UTF-8.

In: batches of rows, each column in any of Arrow's forms of text. Out: the same rows in smaller batches, and the first
row that nobody could read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

PART_BYTES = 256 << 20  # far below the limit of a string column, to save memory
_TEXT = frozenset({pa.string(), pa.binary(), pa.large_string(), pa.large_binary()})


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
    from txlog.core.format.arrow.compute import pc

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
    return bool(is_view or kind in _TEXT)


def _span(column: pa.Array, offset_type: str) -> int:
    if not len(column):
        return 0
    offsets = np.frombuffer(column.buffers()[1], offset_type)
    return int(offsets[column.offset + len(column)] - offsets[column.offset])


def _view_bytes(column: pa.Array) -> int:
    """The bytes of the text in a column of views: each view takes 16 bytes and begins with a length."""
    lengths = np.frombuffer(column.buffers()[1] or b"", "<i4")[::4][column.offset : column.offset + len(column)]
    return int(lengths.sum(dtype=np.int64))


# --- text that claims to be UTF-8 and is not ----------------------------------------------------------------------
#
# Arrow checks what it is told about bytes only when asked: its readers of JSON and Parquet pass on any bytes as
# strings. A data file with such a string is readable by nobody: Polars takes the process down, others fail in the
# middle of a query.


def first_not_utf8(batch: pa.RecordBatch) -> tuple[str, int] | None:
    """The first column with text, at any depth, that is not UTF-8, and its first such row; None if there is none.

    Null text, and what lies outside a slice, does not count.
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if not _is_utf8(column):
            return name, _first_row(column)
    return None


def _first_row(column: pa.Array) -> int:
    """The first row that is not UTF-8, by halving."""
    start, length = 0, len(column)
    while length > 1:
        half = length // 2
        if _is_utf8(column.slice(start, half)):
            start, length = start + half, length - half
        else:
            length = half
    return start


def _is_utf8(array: pa.Array) -> bool:
    kind = array.type
    if pa.types.is_primitive(kind) or not len(array):
        return True
    if pa.types.is_string(kind):
        return _is_ascii(array, "<i4") or _is_valid(array)
    if pa.types.is_large_string(kind):
        return _is_ascii(array, "<i8") or _is_valid(array)
    if pa.types.is_string_view(kind):
        return _is_valid(array)
    if pa.types.is_dictionary(kind):
        return _is_utf8_dictionary(array)
    if pa.types.is_run_end_encoded(kind):
        from txlog.core.format.arrow.compute import pc

        return _is_utf8(array.values) or _is_utf8(pc.run_end_decode(array))
    if pa.types.is_nested(kind):
        return _is_utf8_nested(array)
    if isinstance(kind, pa.BaseExtensionType):
        return _is_utf8(array.storage)
    return True


def _is_utf8_nested(array: Any) -> bool:
    kind = array.type
    if pa.types.is_struct(kind):
        # Values below a null struct are undefined, and hiding them costs a copy of the marks of nulls.
        members = (array.field(at) for at in range(kind.num_fields))
        return all(map(_is_utf8, members)) or (array.null_count > 0 and all(map(_is_utf8, array.flatten())))
    if pa.types.is_map(kind):
        from txlog.core.format.arrow.arrays import numbers_of

        offsets = numbers_of(array.offsets)
        start, length = int(offsets[0]), int(offsets[-1] - offsets[0])
        return _is_utf8(array.keys.slice(start, length)) and _is_utf8(array.items.slice(start, length))
    from txlog.core.format.arrow.arrays import LIST_TYPES

    return not isinstance(kind, LIST_TYPES) or _is_utf8(array.flatten())


def _is_utf8_dictionary(array: pa.DictionaryArray) -> bool:
    """Many batches may share one dictionary, and a batch need not use all of it."""
    values = array.dictionary
    is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    if is_text and len(values) > len(array):
        return _is_utf8(array.dictionary_decode())
    return _is_utf8(values) or (is_text and _is_utf8(array.dictionary_decode()))


def _is_ascii(array: pa.Array, offset_type: str) -> bool:
    """Whether no byte is above 127, which is a quarter of the work of `_is_valid`, and true of most columns."""
    _, offsets, body = array.buffers()
    ends = np.frombuffer(offsets, offset_type)[array.offset : array.offset + len(array) + 1]
    text = np.frombuffer(body or b"", np.uint8)[ends[0] : ends[-1]]
    return not len(text) or int(text.max()) < 128


def _is_valid(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
