"""Keys of integers, dates and timestamps: each one number, sorted, so that neither building nor searching hashes them.

In: a source's key columns, without nulls. Out: for columns of keys, where each is among the source's distinct keys. The
numbers count from each column's least value, and those of several columns become one exactly; columns whose values lie
too far apart for that are left to others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from txlog.core.format.arrow.arrays import flags_of, numbers_of
from txlog.core.util import cached_property

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NUMBERS = 1 << 64
_MIXER = np.uint64(0x9E3779B97F4A7C15)  # odd, with bits in no order: the products' high bits depend on all bits
_FLAGS_PER_KEY, _FLAGS_MAX = 16, 1 << 24


class PackedKeys:
    """The distinct keys of a source, ascending. Thread-safe.

    Attributes:
        row_of_key: The last row that has each key.
        key_of_row: For each row, which of the keys it has.
    """

    def __init__(
        self, lows: Sequence[int], counts: Sequence[int], columns: Sequence[NDArray[np.uint64]], flags_max: int
    ) -> None:
        self._flags_max = flags_max
        self._lows = [np.uint64(low % _NUMBERS) for low in lows]
        self._highest = [np.uint64(count - 1) for count in counts]
        self._counts = [np.uint64(count % _NUMBERS) for count in counts]
        numbers, _ = self._packed(columns)
        order = _ascending(numbers)
        ordered = numbers if order is None else numbers[order]
        is_last = np.append(ordered[1:] != ordered[:-1], True)
        rows = np.arange(len(numbers)) if order is None else order.astype(np.int64, copy=False)
        self.row_of_key: NDArray[np.int64] = rows if is_last.all() else rows[is_last]
        self.key_of_row: NDArray[np.int64] = np.empty(len(numbers), np.int64)
        self.key_of_row[rows] = np.cumsum(is_last) - is_last
        self._values = ordered[is_last]

    @classmethod
    def of(cls, columns: Sequence[pa.Array], flags_max: int) -> PackedKeys | None:
        """None for no keys, for other types, and for values too far apart. A flag is kept for each value from the least
        to the greatest of the first column, if these are at most ``flags_max``."""
        if not len(columns[0]) or not all(_is_number(column) for column in columns):
            return None
        numbers = [_numbers(column) for column in columns]
        lows = [int(each.view(np.int64).min()) for each in numbers]
        counts = [int(each.view(np.int64).max()) - low + 1 for each, low in zip(numbers, lows, strict=True)]
        product = 1
        for count in counts:
            product *= count
        if product >= _NUMBERS and len(columns) > 1:
            return None
        return cls(lows, counts, numbers, flags_max)

    def matches(self, columns: Sequence[pa.Array]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The indices of the keys in ``columns`` that are here, ascending, and which keys they are."""
        numbers = [_numbers(column) for column in columns]
        at = self._possible(numbers[0])
        for column in columns:
            if column.null_count:
                at = at[flags_of(column.is_valid())[at]]
        packed, is_inside = self._packed([each[at] for each in numbers])
        keys = np.searchsorted(self._values, packed)
        np.minimum(keys, len(self._values) - 1, out=keys)
        is_here = self._values[keys] == packed
        is_here &= is_inside
        return at[is_here], keys[is_here]

    def _packed(self, columns: Sequence[NDArray[np.uint64]]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """The numbers of keys, and whether they are any: a value outside of its column's range has none."""
        found = columns[0] - self._lows[0]
        is_inside = found <= self._highest[0]
        for column, low, highest, count in zip(
            columns[1:], self._lows[1:], self._highest[1:], self._counts[1:], strict=True
        ):
            other = column - low
            is_inside &= other <= highest
            found *= count
            found += other
        return found, is_inside

    def _possible(self, first: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Where the first column may hold one of its values here."""
        flags, shift = self._flags
        places = first - self._lows[0]
        if shift is None:  # no value has the last flag, so it stands for all that are outside
            np.minimum(places, np.uint64(len(flags) - 1), out=places)
        else:
            places *= _MIXER
            places >>= shift
        return np.flatnonzero(flags[places.view(np.int64)])

    @cached_property
    def _flags(self) -> tuple[NDArray[np.bool_], np.uint64 | None]:
        """A flag for each value of the first column; or for the highest bits of its product with a constant."""
        values = self._values
        for count in self._counts[1:]:
            values = values // count
        highest = int(self._highest[0])
        if highest < self._flags_max:
            flags = np.zeros(highest + 2, dtype=bool)
            flags[values.view(np.int64)] = True
            return flags, None
        bits = min(len(values) * _FLAGS_PER_KEY, _FLAGS_MAX).bit_length()
        shift = np.uint64(64 - bits)
        flags = np.zeros(1 << bits, dtype=bool)
        flags[(values * _MIXER >> shift).view(np.int64)] = True
        return flags, shift


def _is_number(column: pa.Array) -> bool:
    kind, types = column.type, pa.types
    return bool(types.is_signed_integer(kind) or types.is_date32(kind) or types.is_timestamp(kind))


def _numbers(column: pa.Array) -> NDArray[np.uint64]:
    """The values as 64-bit integers, with their sign as the highest bit. Null slots hold arbitrary ones."""
    found: NDArray[np.uint64] = numbers_of(column).astype(np.int64, copy=False).view(np.uint64)
    return found


def _ascending(numbers: NDArray[np.uint64]) -> NDArray[np.int64] | None:
    """The order in which the numbers ascend, equal ones as they come; None if they do already."""
    if (numbers[1:] >= numbers[:-1]).all():
        return None
    order: NDArray[np.int64] = np.argsort(numbers)
    ordered = numbers[order]
    if (ordered[1:] == ordered[:-1]).any():  # a stable sort takes several times as long
        order = np.argsort(numbers, kind="stable")
    return order
