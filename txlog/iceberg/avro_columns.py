"""Avro values for many rows at a time, as Arrow columns of bytes that are joined row by row.

In: numbers, bytes and strings by column, null where a value is absent. Out: a binary array with each row's Avro bytes.
No row becomes a Python object. Avro 1.11, "Binary Encoding".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.arrow.arrays import flags_of, from_numbers, numbers_of
from txlog.iceberg.avro import NULL, SOME, encode_long

__all__ = ["binary_array", "blobs", "constant", "fixed_blobs", "joined", "longs", "maps"]


def binary_array(values: Sequence[bytes | None]) -> pa.BinaryArray:
    sizes = np.fromiter(map(len, (value or b"" for value in values)), np.int32, len(values))
    valid = np.fromiter((value is not None for value in values), bool, len(values))
    return _from_parts(sizes, b"".join(value or b"" for value in values), valid)


def constant(body: bytes) -> pa.BinaryScalar:
    """The same bytes in every row: for `joined`."""
    return binary_array([body])[0]


def joined(columns: Sequence[Any]) -> pa.BinaryArray:
    """Each row's bytes from all columns, one after the other. At least one column is an array. Nulls are empty."""
    if len(columns) == 1:
        return columns[0]
    return pc.binary_join_element_wise(*columns, constant(b""), null_handling="replace", null_replacement=b"")


def longs(numbers: Any, valid: Any = None) -> pa.BinaryArray:
    """Each number as an ``int`` or ``long``; null where not ``valid``."""
    signed = np.asarray(numbers, np.int64)
    left = ((signed << 1) ^ (signed >> 63)).view(np.uint64)
    sizes = np.ones(len(left), np.int32)
    for bits in range(7, 64, 7):
        more = left >= np.uint64(1 << bits)
        if not more.any():
            break
        sizes += more
    if valid is not None:
        sizes = np.where(valid, sizes, 0).astype(np.int32)
    starts = np.cumsum(sizes) - sizes
    body = np.empty(int(sizes.sum()), np.uint8)
    for at in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > at)
        low = (left[rows] & np.uint64(0x7F)).astype(np.uint8)
        body[starts[rows] + at] = low | np.where(sizes[rows] > at + 1, 0x80, 0).astype(np.uint8)
        left = left >> np.uint64(7)
    return _from_parts(sizes, body, valid)


def blobs(values: pa.Array) -> pa.BinaryArray:
    """Each value of a column of strings or bytes as ``string`` or ``bytes``; null stays null."""
    body = values.cast(pa.binary())
    sizes = longs(numbers_of(pc.binary_length(body)))
    return pc.binary_join_element_wise(sizes, body, constant(b""))


def fixed_blobs(numbers: Any, valid: Any = None) -> pa.BinaryArray:
    """The bytes of each number of an array, all of one width, as ``bytes``; null where not ``valid``."""
    width = numbers.dtype.itemsize
    matrix = np.empty((len(numbers), 1 + width), np.uint8)
    matrix[:, 0] = encode_long(width)[0]
    matrix[:, 1:] = np.ascontiguousarray(numbers).view(np.uint8).reshape(len(numbers), width)
    return _from_parts(np.full(len(numbers), 1 + width, np.int32), matrix, valid)


def maps(pairs: Sequence[tuple[bytes, pa.BinaryArray]], length: int) -> Any:
    """Optional maps from an encoded column id to a value.

    Ids whose value is null are left out, and a map without any is null.
    """
    counts = np.zeros(length, np.int64)
    columns: list[Any] = []
    for key, values in pairs:
        if values.null_count:
            valid = flags_of(values.is_valid())
            counts += valid
            columns += [_taken([b"", key], valid), values]
        else:
            counts += 1
            columns += [constant(key), values]
    heads = [NULL, *[SOME + encode_long(count) for count in range(1, len(pairs) + 1)]]
    return joined([_taken(heads, counts), *columns, _taken([b"", b"\0"], counts > 0)])


def _taken(choices: Sequence[bytes], numbers: Any) -> pa.BinaryArray:
    """For each row, the choice with its number."""
    return binary_array(choices).take(from_numbers(numbers.astype(np.int64)))


def _from_parts(sizes: Any, body: Any, valid: Any) -> pa.BinaryArray:
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    bitmap = None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), len(sizes), [bitmap, pa.py_buffer(offsets), pa.py_buffer(body)])
