"""One change for each key: the combined effect of all its changes in a changelog.

In: changes in order of arrival. Out: one change of each key, the last one by arrival or sequence. If retractions make
the result depend on the table's row, all changes of the key: `retractions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.changelog.change_order import in_versions
from txlog.changelog.retractions import decide
from txlog.changelog.row_kinds import DELETE, UPDATE_BEFORE
from txlog.core.row_rules import KeyColumn, KeyIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Changes(msgspec.Struct, frozen=True):
    """Rows and their kinds, in order of arrival.

    Attributes:
        rows: The table's columns. Key columns are never null; a deleted row may be null everywhere else.
        kinds: The kind of each row, as ``row_kinds`` numbers them.
        sequence: The values that order changes of one key, without nulls; None: order of arrival.
        are_open: Which of them belong to a key whose result depends on the table's row; None: not known yet.
    """

    rows: pa.Table
    kinds: NDArray[np.int8]
    sequence: pa.ChunkedArray | None = None
    are_open: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def are_deletes(self) -> NDArray[np.bool_]:
        """Which of them delete a row: ``-D`` and ``-U``."""
        found: NDArray[np.bool_] = (self.kinds == DELETE) | (self.kinds == UPDATE_BEFORE)
        return found

    def take(self, places: NDArray[np.int64]) -> Changes:
        """The changes at these indices, in this order."""
        at = pa.array(places)
        sequence = None if self.sequence is None else self.sequence.take(at)
        are_open = None if self.are_open is None else self.are_open[places]
        return Changes(self.rows.take(at), self.kinds[places], sequence, are_open)

    def filter(self, stays: NDArray[np.bool_]) -> Changes:
        """The marked changes."""
        if stays.all():
            return self
        mask = pa.array(stays)
        sequence = None if self.sequence is None else self.sequence.filter(mask)
        are_open = None if self.are_open is None else self.are_open[stays]
        return Changes(self.rows.filter(mask), self.kinds[stays], sequence, are_open)


def collapse(
    changes: Changes,
    keys: Sequence[KeyColumn],
    *,
    compared: Sequence[str] = (),
    of_feed: bool = False,
) -> Changes:
    """One change for each key, the last one, or all changes of a key that stays open.

    ``compared`` are the columns in which a ``-U`` and its row are equal (`retractions.compared_columns`). ``of_feed``:
    the sequence is `change_order.feed_order`.
    """
    if not len(changes):
        return changes
    index = KeyIndex(keys, [key.of(changes.rows) for key in keys])
    if not (changes.kinds == UPDATE_BEFORE).any() and not changes.are_deletes.any():
        if index.num_keys == len(changes):
            return changes
        return changes.filter(index.last_rows(_order(changes)))
    codes = index.code_of_row
    if of_feed and changes.sequence is not None:
        order, both = in_versions(changes.rows, changes.kinds, codes, changes.sequence.to_numpy(), compared)
        goes = (changes.kinds == UPDATE_BEFORE) & ~both
        kinds = np.where(goes, np.int8(DELETE), changes.kinds)
        changes = Changes(changes.rows, kinds, pa.chunked_array([pa.array(order)]))
    decided = decide(changes.rows, changes.kinds, codes, _by_key(codes, _order(changes)), compared)
    # A change that decides alone deletes whatever row its key has.
    kinds = np.where(decided.deciding & (changes.kinds == UPDATE_BEFORE), np.int8(DELETE), changes.kinds)
    found = Changes(changes.rows, kinds, changes.sequence, decided.is_open)
    return found.filter(decided.deciding | decided.is_open)


def in_order(changes: Changes, keys: Sequence[KeyColumn]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The indices of the changes by key, and within a key by sequence, then by arrival; and of each key's last one."""
    codes = KeyIndex(keys, [key.of(changes.rows) for key in keys]).code_of_row
    order = _by_key(codes, _order(changes))
    is_last = np.append(codes[order][1:] != codes[order][:-1], True)[: len(order)]
    return order, order[is_last]


def _by_key(codes: NDArray[np.int64], order: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """``order`` (None: as they are) by key number."""
    by_key = np.argsort(codes if order is None else codes[order], kind="stable").astype(np.int64)
    return by_key if order is None else order[by_key]


def sorted_by_key(changes: Changes, keys: Sequence[KeyColumn]) -> Changes:
    """The same in ascending key order, so files compress well and statistics can skip them."""
    if len(changes) < 2:
        return changes
    names = [str(at) for at in range(len(keys))]
    columns = pa.table([key.of(changes.rows) for key in keys], names=names)
    places = pc.sort_indices(columns, sort_keys=[(name, "ascending") for name in names])
    return changes.take(places.to_numpy().astype("int64"))


def joined(parts: Sequence[Changes]) -> Changes:
    """All changes, in this order; ``parts`` must not be empty."""
    if len(parts) == 1:
        return parts[0]
    sequences = [part.sequence for part in parts if part.sequence is not None]
    return Changes(
        pa.concat_tables([part.rows for part in parts]),
        np.concatenate([part.kinds for part in parts]),
        pa.chunked_array([chunk for each in sequences for chunk in each.chunks], sequences[0].type)
        if sequences
        else None,
    )


def _order(changes: Changes) -> NDArray[np.int64] | None:
    """The indices of the changes by sequence, then by arrival; None if they are already in order."""
    if changes.sequence is None:
        return None
    columns: list[Any] = [changes.sequence, pa.array(np.arange(len(changes)))]
    table = pa.table(columns, names=["sequence", "arrival"])
    places = pc.sort_indices(table, sort_keys=[("sequence", "ascending"), ("arrival", "ascending")])
    found: NDArray[np.int64] = places.to_numpy().astype(np.int64)
    return found
