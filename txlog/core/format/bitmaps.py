"""Sets of integers as roaring bitmaps: row positions in files, numbers of source rows.

In: NumPy arrays. Out: roaring bitmaps and their serialized form, a few dozen bytes for a million consecutive numbers.
Adding numbers to a large set costs only as much as the added ones; a sorted array would be rebuilt.
"""

from __future__ import annotations

import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from pyroaring import BitMap64

if TYPE_CHECKING:
    from numpy.typing import NDArray


def bitmap_of(numbers: NDArray[Any]) -> BitMap64:
    """A bitmap of numbers >= 0 in any order."""
    return BitMap64(array.array("Q", numbers.astype(np.uint64, copy=False).tobytes()))


def numbers_of(bitmap: BitMap64) -> NDArray[np.uint64]:
    """The bitmap's numbers in ascending order."""
    return np.frombuffer(bitmap.to_array(), dtype=np.uint64) if bitmap else np.empty(0, np.uint64)


def is_in(numbers: NDArray[Any], bitmap: BitMap64) -> NDArray[np.bool_]:
    """Whether the bitmap holds each of the numbers, which are in any order."""
    return are_among(numbers, numbers_of(bitmap & bitmap_of(numbers) if bitmap else bitmap))


def are_absent(numbers: NDArray[Any], bitmap: BitMap64) -> NDArray[np.bool_]:
    """The opposite of `is_in`. Fast if the bitmap holds none of them."""
    asked = bitmap_of(numbers)
    if not bitmap.intersect(asked):
        return np.ones(len(numbers), dtype=bool)
    return ~are_among(numbers, numbers_of(bitmap & asked))


def are_among(numbers: NDArray[Any], others: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Whether each of the numbers is one of ``others``, which ascend.

    NumPy's own function sorts or hashes first. If a change has few rows in many files, that costs more than everything
    else.
    """
    if not len(others):
        return np.zeros(len(numbers), dtype=bool)
    numbers = numbers.astype(np.uint64, copy=False)
    found: NDArray[np.bool_] = others[np.minimum(np.searchsorted(others, numbers), len(others) - 1)] == numbers
    return found


def union(bitmaps: Iterable[bytes]) -> BitMap64:
    """A bitmap of all numbers in some serialized bitmaps."""
    found = BitMap64()
    for each in bitmaps:
        found |= unpack(each)
    return found


def pack(numbers: NDArray[Any]) -> bytes:
    """The numbers as a serialized bitmap."""
    bitmap = bitmap_of(numbers)
    bitmap.run_optimize()
    return bytes(bitmap.serialize())


def unpack(packed: bytes) -> BitMap64:
    """The bitmap that `pack` serialized; the empty set if there are no bytes."""
    return deserialized(packed) if packed else BitMap64()


def deserialized(packed: bytes) -> BitMap64:
    """The bitmap in these bytes. Raises ValueError, IndexError or OverflowError if they are not a bitmap."""
    return BitMap64.deserialize(packed)
