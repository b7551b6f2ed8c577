"""Text that stays in a dictionary, from the file that it is read from to the one it goes to.

In: dictionary arrays, some rows of which are gone. Out: the same rows with just the entries that they use, so that no
other row's text goes into the new file; and the nulls and bounds that Arrow's writer would find by decoding the values.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from txlog.core.format.arrow.arrays import flags_of, from_flags, from_numbers, numbers_of

_BOUND_BYTES = 4096
"""Arrow's writer leaves out longer ones."""


def with_used_entries(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same values, with a dictionary of just these."""
    indices, valid = numbers_of(array.indices), flags_of(array.is_valid()) if array.null_count else None
    is_used = np.zeros(len(array.dictionary), dtype=bool)
    is_used[indices if valid is None else indices[valid]] = True
    if is_used.all():
        return array
    if valid is not None:  # what stands at nulls may be no index
        indices = np.where(valid, indices, 0)
    places = np.cumsum(is_used, dtype=np.int32) - np.int32(1)
    entries = array.dictionary.filter(from_flags(is_used))
    return pa.DictionaryArray.from_arrays(from_numbers(places[indices], valid).cast(pa.int32()), entries)


def dictionary_bounds(column: pa.ChunkedArray) -> tuple[int, bytes | None, bytes | None]:
    """The nulls, the minimum and the maximum of a column whose dictionaries have only used entries, as bytes. None for
    a bound that a footer is not to have."""
    from txlog.core.format.arrow.compute import pc

    ends = [pc.min_max(chunk.dictionary.cast(pa.binary())) for chunk in column.chunks]
    low, high = ([value for end in ends if (value := end[name].as_py()) is not None] for name in ("min", "max"))
    bounds = [min(low), max(high)] if low else []
    kept = [bound if len(bound) <= _BOUND_BYTES else None for bound in bounds] or [None, None]
    return column.null_count, kept[0], kept[1]
