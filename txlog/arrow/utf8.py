"""Text that claims to be UTF-8 and is not.

Arrow checks what it is told about bytes only when asked: its readers of JSON and Parquet pass on any bytes as strings.
A data file with such a string is readable by nobody: Polars takes the process down, others fail in the middle of a
query. In: record batches from outside. Out: the first text at fault.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from txlog.arrow.arrays import LIST_TYPES, numbers_of

__all__ = ["first_not_utf8"]


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
        from txlog.arrow.compute import pc

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
        offsets = numbers_of(array.offsets)
        start, length = int(offsets[0]), int(offsets[-1] - offsets[0])
        return _is_utf8(array.keys.slice(start, length)) and _is_utf8(array.items.slice(start, length))
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
