"""Rows with the numbers of their keys: what a merge takes.

In: rows of a changelog or of a table. Out: the same, to be merged or filtered by key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from txlog.core.format.arrow.take_rows import taken_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class KeyedRows(msgspec.Struct, frozen=True):
    """Rows, and the key number of each.

    Attributes:
        rows: In order of arrival.
        keys: Key numbers, from 0.
        kinds: Numbered as in ``row_kinds``; None: all are inserts and updates.
        came_as: The changelog's own kinds, if some are merged as other kinds; None: ``kinds``.
        compared: The columns in which a retraction and its row are equal: `retractions.compared_columns`.
    """

    rows: pa.Table
    keys: NDArray[np.int64]
    kinds: NDArray[np.int8] | None = None
    came_as: NDArray[np.int8] | None = None
    compared: tuple[str, ...] = ()

    def taken(self, places: NDArray[np.int64]) -> KeyedRows:
        """The rows at these indices, in this order."""
        kinds, came_as = (None if each is None else each[places] for each in (self.kinds, self.came_as))
        return KeyedRows(taken_rows(self.rows, places), self.keys[places], kinds, came_as, self.compared)

    def of_keys(self, is_meant: NDArray[np.bool_]) -> KeyedRows:
        """The rows whose keys are marked."""
        stays = is_meant[self.keys]
        if stays.all():
            return self
        kinds, came_as = (None if each is None else each[stays] for each in (self.kinds, self.came_as))
        return KeyedRows(self.rows.filter(pa.array(stays)), self.keys[stays], kinds, came_as, self.compared)
