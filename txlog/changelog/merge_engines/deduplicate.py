"""The engine ``deduplicate``, which is built in: the last row of each key, which may be a delete.

A retraction removes only the row that it carries: ``last_changes`` decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from msgspec.structs import replace

from txlog.changelog.merge_engines.engine import Merged, MergeEngine
from txlog.changelog.merge_engines.keyed_rows import KeyedRows
from txlog.changelog.merge_engines.last_changes import last_of_keys, may_need_old
from txlog.core.format.arrow.take_rows import taken_rows
from txlog.core.format.properties import DEFAULT_MERGE_ENGINE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Deduplicate(MergeEngine, frozen=True):
    """The last change of a key decides, by arrival or by the sequence, in which the table's row has its place too."""

    name: ClassVar[str] = DEFAULT_MERGE_ENGINE
    takes_whole_rows: ClassVar[bool] = True
    takes_last_row: ClassVar[bool] = True
    retracts: ClassVar[bool] = True
    why_no_tombstones: ClassVar[str | None] = None

    def merge(self, num_keys: int, new: KeyedRows, old: KeyedRows | None = None) -> Merged:
        if self.ignores_deletes and new.kinds is not None:
            stays = self.wanted_rows(new.kinds)
            assert stays is not None
            new = replace(new, rows=new.rows.filter(pa.array(stays)), keys=new.keys[stays], kinds=new.kinds[stays])
        last = last_of_keys(new, num_keys, old, self.sequence)
        has_row = (last.row >= 0) & ~last.is_delete
        rows = taken_rows(new.rows, last.row[has_row])
        deletes = taken_rows(new.rows, last.row[last.is_delete]) if last.is_delete.any() else None
        return Merged(rows, has_row, last.is_delete, deletes, last.is_odd)

    def needed_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        return self.sequence

    def open_keys(self, changes: KeyedRows, num_keys: int) -> NDArray[np.bool_] | None:
        return None if self.ignores_deletes else may_need_old(changes, num_keys, self.sequence)
