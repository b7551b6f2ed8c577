"""Many keys, searchable in little memory: sorted numbers of 8 or 16 bytes each, whatever the keys' type.

In: the numbers of keys, and the column values that help to choose files. Out: for key columns, the index of each key,
or -1. `KeyIndex` does the same with hash tables, for sources that are in memory anyway; hash tables take several times
the keys' memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.schema import type_to_arrow
from txlog.core.predicates.skipping import KeyRanges
from txlog.core.reading import KeyNumbers, KeyValues
from txlog.core.row_rules import KeyColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FLAGS_PER_KEY, _FLAGS_MAX = 8, 1 << 24
_IN_CACHE = 1 << 16  # keys; if there are more, a search for sorted keys is faster


class SortedKeys:
    """Distinct keys. Thread-safe.

    Attributes:
        keys: The key columns.
        numbers: Converts keys to numbers.
        values: The numbers, ascending.
        columns: For each key column its distinct values, or ranges that hold all of them.
    """

    def __init__(
        self,
        keys: Sequence[KeyColumn],
        numbers: KeyNumbers,
        values: KeyValues,
        columns: Sequence[pa.Array | KeyRanges] = (),
    ) -> None:
        self.keys = tuple(keys)
        self.numbers = numbers
        self.values = values
        self.columns = tuple(columns)
        self._flags = _flags(values.numbers)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_cheap(self) -> bool:
        """Whether a lookup costs nothing besides the rows looked up: False, since it sorts them."""
        return False

    def matches(self, columns: Sequence[pa.Array]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The indices of the keys in ``columns`` that are here, ascending, and each one's index here."""
        found = self.source_rows(columns)
        at = np.flatnonzero(found >= 0)
        return at, found[at]

    def source_rows(self, columns: Sequence[pa.Array]) -> NDArray[np.int64]:
        """For each key in ``columns``, its index here; -1 if it is not here or null."""
        found = np.full(len(columns[0]), -1, dtype=np.int64)
        if not len(self):
            return found
        asked, rows = self.numbers.of(columns)
        if self._flags is not None:
            at = np.flatnonzero(self._flags[_flag_of(asked.numbers, len(self._flags))])
            asked, rows = asked.at(at), at if rows is None else rows[at]
        if len(self) > _IN_CACHE:
            at = np.argsort(asked.numbers)
            asked, rows = asked.at(at), at if rows is None else rows[at]
        found[slice(None) if rows is None else rows] = self._places(asked)
        return found

    def _places(self, asked: KeyValues) -> NDArray[np.int64]:
        numbers, second = self.values.numbers, self.values.second
        at = np.searchsorted(numbers, asked.numbers)
        is_equal = numbers[np.minimum(at, len(numbers) - 1)] == asked.numbers
        if second is None or asked.second is None:
            return np.where(is_equal, at, -1)
        places = np.full(len(asked), -1, dtype=np.int64)
        rows = np.flatnonzero(is_equal)
        while len(rows):  # repeats only for different keys with equal first halves, which is rare
            is_found = second[at[rows]] == asked.second[rows]
            places[rows[is_found]] = at[rows[is_found]]
            rows = rows[~is_found]
            at[rows] += 1
            rows = rows[at[rows] < len(numbers)]
            rows = rows[numbers[at[rows]] == asked.numbers[rows]]
        return places


def sort_order(values: KeyValues) -> NDArray[np.int64]:
    """The indices of the keys in ascending order; equal keys are adjacent."""
    # A stable sort is fast on key files, which are sorted. Fingerprints have no such order.
    order = np.argsort(values.numbers, kind="stable" if values.second is None else None)
    if values.second is not None:
        numbers = values.numbers[order]
        if (numbers[1:] == numbers[:-1]).any():
            order = np.lexsort((values.second, values.numbers))
    return order


def _flags(numbers: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Flags for the lowest bits of the numbers: a key without a flag is not here. None if there would be too many flags
    to be fast."""
    size = 1 << (len(numbers) * _FLAGS_PER_KEY).bit_length()
    if size > _FLAGS_MAX:
        return None
    flags = np.zeros(size, dtype=bool)
    flags[_flag_of(numbers, size)] = True
    return flags


def _flag_of(numbers: NDArray[Any], size: int) -> NDArray[np.int64]:
    found: NDArray[np.int64] = (numbers & numbers.dtype.type(size - 1)).astype(np.int64, copy=False)
    return found


class ColumnValues:
    """What is known about a key column's values, to choose files: the distinct values while there are few enough, then
    only the least and the greatest."""

    def __init__(self, key: KeyColumn, distinct_max: int) -> None:
        self._distinct_max = distinct_max
        self._parts = [pa.array([], type_to_arrow(key.type))]
        self._num_values = 0
        self._are_all = True

    def add(self, column: pa.Array) -> None:
        """Add values; none may be null."""
        self._join(pc.unique(column) if self._are_all else _ends(column), are_all=self._are_all)

    def join(self, other: ColumnValues) -> None:
        """Add another part's values."""
        self._join(other._joined(), are_all=other._are_all)

    def _join(self, values: pa.Array, *, are_all: bool) -> None:
        self._are_all &= are_all
        self._parts.append(values)
        self._num_values += len(values)
        if self._num_values > self._distinct_max:  # the parts may have values in common
            self._parts = [self._joined()]
            self._num_values = len(self._parts[0])
        if self._num_values > self._distinct_max:
            self._are_all = False
            self._parts = [self._joined()]
            self._num_values = len(self._parts[0])

    def _joined(self) -> pa.Array:
        joined = pa.concat_arrays(self._parts)
        return pc.unique(joined) if self._are_all else _ends(joined)

    def found(self) -> pa.Array | KeyRanges:
        """The values, or a range that holds them."""
        values = self._joined()
        return values if self._are_all else KeyRanges(values[:1], values[1:])


def _ends(column: pa.Array) -> pa.Array:
    """The least and the greatest value."""
    if not len(column):
        return column
    ends = pc.min_max(column)
    return pa.concat_arrays([pa.repeat(ends["min"], 1), pa.repeat(ends["max"], 1)])
