"""Arrow's five kinds of list, read as one: where each list begins among all elements.

Not ``Array.cast``: from list_view to list it silently loses elements (pyarrow 26).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

__all__ = ["LIST_TYPES", "offsets_and_mask"]

LIST_TYPES = (pa.ListType, pa.LargeListType, pa.FixedSizeListType, pa.ListViewType, pa.LargeListViewType)


def offsets_and_mask(array: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """Offsets into ``array.flatten()`` (which skips null lists and what lies outside a slice), and the null lists."""
    from txlog.arrow.compute import pc

    mask = array.is_null() if array.null_count else None
    lengths = pc.list_value_length(array).fill_null(0)
    offsets = np.zeros(len(array) + 1, dtype=np.int64)
    np.cumsum(lengths.to_numpy(zero_copy_only=False), out=offsets[1:])
    return pa.array(offsets).cast(pa.int32()), mask
