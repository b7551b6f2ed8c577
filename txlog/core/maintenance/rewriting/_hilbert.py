"""Positions on a Hilbert curve: rows near each other in several columns get numbers near each other.

In: values of the columns to cluster by. Out: ranks, and the distance along the curve. Ranks come from a sample's
quantiles, so each column counts equally, whatever its type and distribution. Pure. John Skilling, "Programming the
Hilbert curve", AIP Conference Proceedings 707 (2004).
"""

from __future__ import annotations

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


def bits_for(columns: int) -> int:
    """How many bits each of this many columns gets in a 63-bit distance."""
    return max(1, min(_BITS_MAX, 63 // columns))


def hilbert_distance(ranks: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    """The distance along the curve of each point.

    Args:
        ranks: One row for each dimension, one column for each point; each rank less than ``2**bits``.
        bits: Bits in each rank. Dimensions times bits are at most 64.
    """
    x = ranks.astype(np.uint64)
    dimensions = len(x)
    one = np.uint64(1)
    for bit in range(bits - 1, 0, -1):
        low = np.uint64((1 << bit) - 1)
        for axis in range(dimensions):
            is_set = (x[axis] >> np.uint64(bit)) & one == one
            swapped = np.where(is_set, np.uint64(0), (x[0] ^ x[axis]) & low)
            x[0] ^= np.where(is_set, low, swapped)
            x[axis] ^= swapped
    for axis in range(1, dimensions):
        x[axis] ^= x[axis - 1]
    flips = np.zeros(x.shape[1], np.uint64)
    for bit in range(bits - 1, 0, -1):
        is_set = (x[-1] >> np.uint64(bit)) & one == one
        flips ^= np.where(is_set, np.uint64((1 << bit) - 1), np.uint64(0))
    x ^= flips
    distance = np.zeros(x.shape[1], np.uint64)
    for bit in range(bits - 1, -1, -1):
        for axis in range(dimensions):
            distance = distance << one | (x[axis] >> np.uint64(bit)) & one
    return distance


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
        is_null = values.is_null().to_numpy(zero_copy_only=False)
        steps = np.searchsorted(self.bounds, _numbers(values, self.prefix), side="right")
        ranks = (steps * ((1 << self.bits) - 1) // len(self.bounds)).astype(np.uint64)
        ranks[is_null] = 0
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
    found: NDArray[Any] = values.fill_null(0).to_numpy(zero_copy_only=False)
    return found
