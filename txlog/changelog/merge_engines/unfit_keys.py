"""Which keys keep a merge from being stored: found after it failed, so all others can be merged without them.

In: a `MergeEngine` and the rows that were merged. Out: the keys whose row cannot be made, or lacks a value that the
table requires. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from txlog.changelog.merge_engines.engine import Merged, MergeEngine
from txlog.changelog.merge_engines.keyed_rows import KeyedRows
from txlog.core.format.schema import Struct
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_UNFIT_MAX = 1000
"""Each unfit key costs several merges of the others. If there are more, the problem is not just single rows."""


def unfit_keys(engine: MergeEngine, num_keys: int, new: KeyedRows, old: KeyedRows) -> NDArray[np.bool_]:
    """The keys that cannot be merged, among rows whose merge failed.

    Raises ``InvalidInputError``, one key's reason, if there are too many.
    """
    found = np.zeros(num_keys, dtype=bool)
    waiting = [np.unique(new.keys)]
    while waiting:
        keys = waiting.pop()
        is_meant = np.zeros(num_keys, dtype=bool)
        is_meant[keys] = True
        try:
            engine.merge(num_keys, new.of_keys(is_meant), old.of_keys(is_meant))
        except InvalidInputError:
            if len(keys) > 1:
                waiting += [keys[: len(keys) // 2], keys[len(keys) // 2 :]]
                continue
            found[keys] = True
            if found.sum() > _UNFIT_MAX:
                raise
    return found


def keys_that_lack_values(merged: Merged, schema: Struct) -> NDArray[np.bool_]:
    """The keys whose row has a null in a column that ``schema`` requires."""
    found = np.zeros(len(merged.has_row), dtype=bool)
    keys = np.flatnonzero(merged.has_row)
    for field in schema.fields:
        column = merged.rows.column(field.name)
        if not field.nullable and column.null_count:
            found[keys[column.is_null().to_numpy()]] = True
    return found
