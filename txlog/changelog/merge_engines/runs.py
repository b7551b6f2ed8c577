"""Rows grouped by key, in order: the input of every merge engine and aggregate function.

In: each row's key number, and the columns that order rows with one key. Out: `Runs`. A key number identifies a key of a
merge; rows are numbered across old and new rows, the table's old rows first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.arrow.take_rows import taken_column

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Runs(msgspec.Struct, frozen=True):
    """Rows by key number, ascending; rows with one key are adjacent and in order.

    Attributes:
        rows: The number of each row.
        keys: The key number of each row.
        retracts: Which rows retract their values instead of adding them.
        num_keys: The number of keys; some may have no row here.
        num_old: Rows with a lower number are the table's.
    """

    rows: NDArray[np.int64]
    keys: NDArray[np.int64]
    retracts: NDArray[np.bool_]
    num_keys: int
    num_old: int

    def filter(self, stays: NDArray[np.bool_]) -> Runs:
        """Without some of the rows."""
        if stays.all():
            return self
        return Runs(self.rows[stays], self.keys[stays], self.retracts[stays], self.num_keys, self.num_old)

    def last(self, is_wanted: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """The index in these runs of each key's last wanted row; -1 if it has none."""
        places = np.arange(len(self.rows)) if is_wanted is None else np.flatnonzero(is_wanted)
        found = np.full(self.num_keys, -1, dtype=np.int64)
        found[self.keys[places]] = places  # for repeated keys the last assignment stays
        return found

    def first(self, is_wanted: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """The same for the first row."""
        places = np.arange(len(self.rows)) if is_wanted is None else np.flatnonzero(is_wanted)
        found = np.full(self.num_keys, -1, dtype=np.int64)
        found[self.keys[places[::-1]]] = places[::-1]
        return found

    def after(self, places: NDArray[np.int64]) -> Runs:
        """The rows after one index per key; all rows of a key whose index is -1."""
        return self.filter(np.arange(len(self.rows)) > places[self.keys])

    def sorted_by(self, values: NDArray[np.int64]) -> Runs:
        """The same rows, those of a key by the ``values`` that all rows have by number, such as `ranks`."""
        order = np.lexsort((values[self.rows], self.keys))
        return Runs(self.rows[order], self.keys[order], self.retracts[order], self.num_keys, self.num_old)

    def has_row(self) -> NDArray[np.bool_]:
        """Which keys have a row."""
        found = np.zeros(self.num_keys, dtype=bool)
        found[self.keys] = True
        return found

    def valid(self, column: pa.ChunkedArray) -> NDArray[np.bool_]:
        """Which of the rows hold a value in a column."""
        if column.null_count == 0:
            return np.ones(len(self.rows), dtype=bool)
        found: NDArray[np.bool_] = column.is_valid().to_numpy()[self.rows]
        return found

    def picked(self, column: pa.ChunkedArray, places: NDArray[np.int64], *, nulls: bool = True) -> pa.ChunkedArray:
        """The value at one index per key; null if that is -1 or, with ``nulls``, a retracting row."""
        rows = np.full(len(places), -1, dtype=np.int64)
        there = places >= 0
        rows[there] = self.rows[places[there]]
        if nulls:
            rows[there] = np.where(self.retracts[places[there]], -1, rows[there])
        return taken_column(column, rows)


def runs_of(
    keys: NDArray[np.int64],
    retracts: NDArray[np.bool_],
    *,
    num_keys: int,
    num_old: int,
    order_by: Sequence[NDArray[np.int64]] = (),
    is_wanted: NDArray[np.bool_] | None = None,
) -> Runs:
    """The rows by key; within a key by the ranks ``order_by``, one after another, and then by their numbers."""
    rows = np.arange(len(keys)) if is_wanted is None else np.flatnonzero(is_wanted)
    ranks_of_rows = [rank[rows] for rank in reversed(order_by)]
    order = np.lexsort((*ranks_of_rows, keys[rows])) if order_by else np.argsort(keys[rows], kind="stable")
    rows = rows[order]
    return Runs(rows, keys[rows], retracts[rows], num_keys, num_old)


def ranks(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Each value's rank; equal values share one: null has rank 0, NaN the highest."""
    found: NDArray[np.int64] = pc.rank(column, tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    if column.null_count:
        found[column.is_null().to_numpy()] = 0
    return found
