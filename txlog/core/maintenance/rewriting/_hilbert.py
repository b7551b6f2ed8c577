"""Positions on a Hilbert curve: rows near each other in several columns get numbers near each other.

In: values of the columns to cluster by. Out: ranks, and the distance along the curve. Ranks come from a sample's
quantiles, so each column counts equally, whatever its type and distribution. Pure. John Skilling, "Programming the
Hilbert curve", AIP Conference Proceedings 707 (2004).
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BITS_MAX = 12
_PREFIX_BYTES = 8
_TABLE_BITS = 12


def bits_for(columns: int) -> int:
    """How many bits each of this many columns gets in a 63-bit distance."""
    return max(1, min(_BITS_MAX, 63 // columns))


def hilbert_distance(ranks: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    """The distance along the curve of each point.

    Args:
        ranks: One row for each dimension, one column for each point; each rank less than ``2**bits``.
        bits: Bits in each rank. Dimensions times bits are at most 64.
    """
    kind = np.uint16 if bits <= 16 else np.uint64  # fewer bytes take less time
    x = ranks.astype(kind)
    dimensions = len(x)
    for bit in range(bits - 1, 0, -1):
        low = kind((1 << bit) - 1)
        for axis in range(dimensions):
            flipped = _low_where_set(x[axis], bit)
            swapped = (x[0] ^ x[axis]) & (flipped ^ low)
            x[0] ^= flipped | swapped
            x[axis] ^= swapped
    for axis in range(1, dimensions):
        x[axis] ^= x[axis - 1]
    flips = np.zeros(x.shape[1], kind)
    for bit in range(bits - 1, 0, -1):
        flips ^= _low_where_set(x[-1], bit)
    x ^= flips
    distance = np.zeros(x.shape[1], np.uint64)
    for axis in range(dimensions):
        distance |= _spread(x[axis], bits, dimensions) << np.uint64(dimensions - 1 - axis)
    return distance


def stable_order(numbers: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The stable order of numbers. NumPy sorts 16 bits in a fraction of the time, by their digits."""
    if not len(numbers):
        return np.empty(0, np.int64)
    least = numbers.min()
    bits, left = int(numbers.max() - least).bit_length(), numbers - least
    if bits > 48:
        return np.argsort(left, kind="stable")
    order = np.argsort(left.astype(np.uint16), kind="stable")
    for shift in range(16, bits, 16):
        digits = (left >> np.uint64(shift)).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order


def _low_where_set(numbers: NDArray[Any], bit: int) -> NDArray[Any]:
    """All lower bits, of the numbers that have this bit; 0 of the others."""
    kind = numbers.dtype.type
    found: NDArray[Any] = (numbers >> kind(bit) & kind(1)) * kind((1 << bit) - 1)
    return found


def _spread(numbers: NDArray[Any], bits: int, step: int) -> NDArray[np.uint64]:
    """The bits of each number, ``step`` bits apart."""
    found = np.zeros(len(numbers), np.uint64)
    for first in range(0, bits, _TABLE_BITS):
        digits = (numbers >> numbers.dtype.type(first)) & numbers.dtype.type((1 << _TABLE_BITS) - 1)
        found |= _spread_table(step)[digits] << np.uint64(first * step)
    return found


@functools.lru_cache(maxsize=16)
def _spread_table(step: int) -> NDArray[np.uint64]:
    """`_spread` of all numbers of a few bits."""
    numbers = np.arange(1 << _TABLE_BITS, dtype=np.uint64)
    found = np.zeros(len(numbers), np.uint64)
    for bit in range(_TABLE_BITS):
        found |= (numbers >> np.uint64(bit) & np.uint64(1)) << np.uint64(min(bit * step, 63))
    return found


def can_rank(kind: pa.DataType) -> bool:
    """Whether values of this type have an order that a table can be clustered by."""
    is_number: bool = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return is_number or _is_text(kind) or bool(pa.types.is_boolean(kind) or pa.types.is_temporal(kind))


class Ranks(msgspec.Struct, frozen=True):
    """Ranks of one column's values, from 0 to ``2**bits - 1``, by a sample's quantiles."""

    bounds: NDArray[Any]
    bits: int
    prefix: bytes = b""

    @classmethod
    def of(cls, sample: pa.Array, bits: int) -> Ranks:
        """``sample`` holds values of the column; nulls in it are ignored."""
        values = sample.drop_null()
        prefix = b""
        if _is_text(values.type) and len(values):
            prefix = _common_prefix(_bytes(pc.min(values)), _bytes(pc.max(values)))  # the prefix of all values
        known = np.sort(_numbers(values, prefix))
        wanted = min(len(known), (1 << bits) - 1)
        places = (np.arange(1, wanted + 1) * len(known)) // (wanted + 1) if wanted else np.empty(0, np.int64)
        return cls(np.unique(known[places]), bits, prefix)

    def of_values(self, values: pa.Array) -> NDArray[np.uint64]:
        """The rank of each; 0 for null. Few distinct values are spread over all ranks."""
        if not len(self.bounds):
            return np.zeros(len(values), np.uint64)
        ranks_of_steps = (np.arange(len(self.bounds) + 1) * ((1 << self.bits) - 1) // len(self.bounds)).astype(
            np.uint64
        )
        ranks = ranks_of_steps[np.searchsorted(self.bounds, _numbers(values, self.prefix), side="right")]
        if values.null_count:
            ranks[values.is_null().to_numpy(zero_copy_only=False)] = 0
        return ranks


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind))


def _common_prefix(first: bytes, second: bytes) -> bytes:
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return bytes(one for one, _ in same)


def _bytes(value: pa.Scalar) -> bytes:
    return bytes(value.as_buffer())  # not as Python's `str`, since files of other writers hold any bytes as text


def _numbers(values: pa.Array, prefix: bytes) -> NDArray[Any]:
    """Numbers that sort like the values; any number for null."""
    kind = values.type
    if _is_text(kind):
        start = len(prefix)
        cut = pc.binary_slice(values.cast(pa.binary()).fill_null(b""), start, start + _PREFIX_BYTES)
        return np.array(cut.to_pylist(), dtype=f"S{_PREFIX_BYTES}").view(">u8").astype(np.uint64)
    if pa.types.is_decimal(kind):
        values = values.cast(pa.float64())
    elif pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    elif pa.types.is_temporal(kind):
        values = values.cast(pa.int64() if kind.bit_width == 64 else pa.int32())
    found: NDArray[Any] = (values.fill_null(0) if values.null_count else values).to_numpy(zero_copy_only=False)
    return found
