"""The keys of a source with many rows: sorted numbers, and the row of the source that has each.

In: the key columns of a source. Out: an index like `KeyIndex`. But that one builds a hash table of all keys at every
lookup, which for millions of strings takes longer than the lookup itself, and gigabytes of memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core import ambient
from txlog.core.changes.tasks.operations._sorted_keys import SortedKeys, sort_order
from txlog.core.format.schema import type_to_arrow
from txlog.core.predicates.skipping import KeyRanges
from txlog.core.reading import KeyNumbers, KeyValues
from txlog.core.row_rules import KeyColumn, KeyIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

MANY_ROWS = 1 << 20
ROWS_AT_ONCE = 1 << 18
RANGES_MAX = 1 << 14


class NumberedKeys:
    """Distinct keys without nulls. Thread-safe. ``values`` are their numbers.

    Attributes:
        keys: The key columns.
        columns: Their values.
        ranges: For each column, a few ranges that hold all its values, to choose files.
        num_rows: How many keys there are.
    """

    is_cheap = False

    def __init__(
        self, keys: Sequence[KeyColumn], columns: Sequence[pa.Array], numbers: KeyNumbers, values: KeyValues
    ) -> None:
        self.keys = tuple(keys)
        self.columns = tuple(columns)
        self.ranges = tuple(_ranges(key, column) for key, column in zip(keys, columns, strict=True))
        self.num_rows = len(values)
        self._row_of_key = sort_order(values)
        self._sorted = SortedKeys(keys, numbers, values.at(self._row_of_key))

    @property
    def has_repeated(self) -> bool:
        """Whether two of the given keys are equal after all: then lookups are wrong."""
        values = self._sorted.values
        is_equal = values.numbers[1:] == values.numbers[:-1]
        if values.second is not None:
            is_equal &= values.second[1:] == values.second[:-1]
        return bool(is_equal.any())

    def matches(self, columns: Sequence[pa.Array]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See `KeyIndex.matches`."""
        at, places = self._sorted.matches(columns)
        return at, self._row_of_key[places]


def index_of(keys: Sequence[KeyColumn], columns: Sequence[pa.Array]) -> KeyIndex | NumberedKeys:
    """The index that suits the keys of a source, none of which is null."""
    if len(columns[0]) <= MANY_ROWS or KeyIndex.suits(keys, columns):
        return KeyIndex(keys, columns)
    secret = f"{ambient.uuid4()}{ambient.uuid4()}".encode()
    numbers = KeyNumbers([type_to_arrow(key.type) for key in keys], secret)
    index = NumberedKeys(keys, columns, numbers, numbers_in_parts(numbers, columns))
    return KeyIndex(keys, columns) if index.has_repeated else index


def numbers_in_parts(numbers: KeyNumbers, columns: Sequence[pa.Array]) -> KeyValues:
    """The numbers of keys without nulls, made in parts, because this copies text."""
    starts = range(0, max(1, len(columns[0])), ROWS_AT_ONCE)
    parts = [numbers.of([column.slice(start, ROWS_AT_ONCE) for column in columns])[0] for start in starts]
    second = [part.second for part in parts if part.second is not None]
    return KeyValues(np.concatenate([part.numbers for part in parts]), np.concatenate(second) if second else None)


def _ranges(key: KeyColumn, column: pa.Array) -> KeyRanges:
    """Ranges with about equally many values each. As a Python list, the values would take much more memory."""
    order = pc.array_sort_indices(column)
    step = -(-len(column) // RANGES_MAX) or 1
    places = [(start, min(start + step, len(column)) - 1) for start in range(0, len(column), step)]
    lows, highs = (column.take(order.take(pa.array(ends, pa.int64()))) for ends in zip(*places, strict=True))
    values = list(zip(lows.to_pylist(), highs.to_pylist(), strict=True))
    # A repeated value may be in several of them: these become one range.
    is_first = [at == 0 or values[at - 1][1] != low for at, (low, _) in enumerate(values)]
    is_last = [*is_first[1:], True]
    kind = type_to_arrow(key.type)
    return KeyRanges(lows.filter(pa.array(is_first)).cast(kind), highs.filter(pa.array(is_last)).cast(kind))
