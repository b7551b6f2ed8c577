"""Merged rows that are the same as the table's: a key that has one keeps it.

In: `Merged` and the table's rows. Out: `Merged` without these keys. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from txlog.changelog.merge_engines.engine import Merged
from txlog.changelog.merge_engines.keyed_rows import KeyedRows
from txlog.core.format.arrow.arrays import flags_of
from txlog.core.format.arrow.take_rows import taken_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

_COMPARED_AT_ONCE = 1 << 14
"""Rows whose strings fit in one array."""


def without_same(merged: Merged, old: KeyedRows) -> Merged:
    """The same, but a key whose single old row equals the new one keeps it. ``old`` has all columns."""
    count = np.bincount(old.keys, minlength=len(merged.has_row))
    old_row = np.zeros(len(count), dtype=np.int64)
    old_row[old.keys] = np.arange(len(old.keys))
    keys = np.flatnonzero(merged.has_row)
    is_same = count[keys] == 1
    if not is_same.any():
        return merged
    before = taken_rows(old.rows, old_row[keys])
    for first in range(0, len(keys), _COMPARED_AT_ONCE):
        new, was = (rows.slice(first, _COMPARED_AT_ONCE) for rows in (merged.rows, before))
        for name in new.schema.names:
            columns = (rows.column(name).combine_chunks() for rows in (new, was))
            is_same[first : first + _COMPARED_AT_ONCE] &= _same_values(*columns)
    has_row = merged.has_row.copy()
    has_row[keys[is_same]] = False
    return replace(merged, rows=merged.rows.filter(pa.array(~is_same)), has_row=has_row)


def _same_values(new: pa.Array, old: pa.Array) -> NDArray[np.bool_]:
    """Which values are the same: nulls are, a NaN is the same as itself, and -0.0 is not the same as 0.0."""
    kind = new.type
    new_valid, old_valid = (values.is_valid().to_numpy(zero_copy_only=False) for values in (new, old))
    same: NDArray[np.bool_] = new_valid & old_valid
    if pa.types.is_struct(kind):
        for member, other in zip(new.flatten(), old.flatten(), strict=True):
            same &= _same_values(member, other)
    elif pa.types.is_map(kind) or pa.types.is_list(kind):
        if pa.types.is_map(kind):
            entries = pa.list_(pa.struct([kind.key_field, kind.item_field]))
            new, old = new.cast(entries), old.cast(entries)
        lengths = [pc.list_value_length(values).fill_null(0).to_numpy() for values in (new, old)]
        same &= lengths[0] == lengths[1]
        elements = _same_values(*(values.filter(pa.array(same)).flatten() for values in (new, old)))
        same[np.repeat(np.flatnonzero(same), lengths[0][same])[~elements]] = False
    else:
        if pa.types.is_floating(kind):
            bits = pa.int32() if kind == pa.float32() else pa.int64()
            new, old = new.view(bits), old.view(bits)
        same &= flags_of(pc.equal(new, old))
    same |= ~(new_valid | old_valid)
    return same
