"""Maps of strings in Arrow memory, such as the partition values of many files.

In: a map array. Out: the values of one key, as columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from txlog.arrow.arrays import array_of, flags_of, from_numbers, numbers_of

__all__ = ["STRING_MAP", "partition_texts"]

STRING_MAP = pa.map_(pa.string(), pa.string())


def partition_texts(maps: pa.MapArray, name: str) -> tuple[pa.StringArray, Any]:
    """The raw strings of one partition column, and a mask of the maps that lack it (None if no map lacks it)."""
    from txlog.arrow.compute import pc

    offsets = numbers_of(maps.offsets)
    start, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    width = length // max(1, len(maps))
    # Nearly always all maps have the same keys in the same order. Looking up each map is six times slower.
    if width and not maps.null_count and (np.diff(offsets) == width).all():
        keys, items = maps.keys.slice(start, length), maps.items.slice(start, length)
        for slot in range(width):
            if keys[slot].as_py() == name:
                places = from_numbers(np.arange(slot, length, width))
                if pc.all(pc.equal(keys.take(places), array_of([name], pa.string())[0])).as_py():
                    return items if width == 1 else items.take(places), None
    absent = flags_of(pc.map_lookup(maps, name, "all").is_null())
    return pc.map_lookup(maps, name, "first"), absent if absent.any() else None
