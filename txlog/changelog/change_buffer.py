"""The changes of one task until they are written: one for each key, or those of an open key, in bounded memory.

In: changes in order of arrival. Out: the same, collapsed, in parts that share no key. Changes above the memory limit
are collapsed. If that is not enough, a hash of their keys distributes them and all later changes to temporary files; at
the end each file is collapsed separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from txlog.changelog.collapse import Changes, collapse, joined
from txlog.changelog.key_hash import key_hashes
from txlog.core.format.arrow.buckets import Buckets
from txlog.core.format.arrow.spill import no_room
from txlog.core.row_rules import KeyColumn
from txlog.core.writing import held_bytes
from txlog.errors import StorageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NUM_BUCKETS = 64
_WAITING_PART = 4  # part of the memory limit: sorting rows by their keys takes several times the memory of the rows
_KIND, _SEQUENCE = "kind", "sequence"
_BUCKET_SHIFT = 40  # the remainder of the hash is the same for all keys of a task


class ChangeBuffer:
    """Collects changes. For one thread. ``memory_max_bytes`` limits their memory, except for what the last batch
    adds. ``compared`` and ``of_feed`` are for `collapse`."""

    def __init__(
        self,
        keys: Sequence[KeyColumn],
        memory_max_bytes: int,
        table: str | None = None,
        compared: Sequence[str] = (),
        *,
        of_feed: bool = False,
    ) -> None:
        self._keys = tuple(keys)
        self._compared = tuple(compared)
        self._of_feed = of_feed
        self._memory_max_bytes = memory_max_bytes
        self._table = table
        self._waiting: list[Changes] = []
        self._waiting_bytes = 0
        self._buckets: Buckets | None = None

    @property
    def is_spilled(self) -> bool:
        """Whether changes are in temporary files."""
        return self._buckets is not None

    def add(self, changes: Changes) -> None:
        """Add changes, which come after all earlier ones. Raises ``StorageError`` if there is no space for them."""
        if not len(changes):
            return
        self._waiting.append(changes)
        self._waiting_bytes += held_bytes(_rows_of(changes))
        if self._waiting_bytes <= self._memory_max_bytes // _WAITING_PART:
            return
        self._collapse_waiting()
        if self._waiting_bytes > self._memory_max_bytes // _WAITING_PART // 2:
            self._spill()

    def drain(self) -> Iterator[Changes]:
        """All changes, collapsed. Raises ``StorageError``."""
        if self._buckets is None:
            if self._waiting:
                yield self._collapsed(self._waiting)
            self._waiting = []
            return
        if self._waiting:
            self._collapse_waiting()
        self._spill()
        try:
            for rows in self._buckets.drain():
                yield self._collapsed([_changes_of(rows)])
        except OSError as error:
            raise self._no_room(error) from error

    def close(self) -> None:
        """Drop all changes. Never raises."""
        self._waiting = []
        if self._buckets is not None:
            self._buckets.close()

    def _collapsed(self, parts: Sequence[Changes]) -> Changes:
        return collapse(joined(parts), self._keys, compared=self._compared, of_feed=self._of_feed)

    def _collapse_waiting(self) -> None:
        left = self._collapsed(self._waiting)
        self._waiting = [left]
        self._waiting_bytes = held_bytes(_rows_of(left))

    def _spill(self) -> None:
        """Collapse the waiting changes and move them to temporary files."""
        if not self._waiting:
            return
        changes = joined(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        rows = _rows_of(changes)
        try:
            if self._buckets is None:
                self._buckets = Buckets(_NUM_BUCKETS)
            self._buckets.add(rows, self._buckets_of(changes))
        except OSError as error:
            raise self._no_room(error) from error

    def _buckets_of(self, changes: Changes) -> NDArray[np.int64]:
        columns = [key.of(changes.rows) for key in self._keys]
        hashes = key_hashes(self._keys, columns, is_shared=False).view(np.uint64)
        found: NDArray[np.int64] = (hashes >> np.uint64(_BUCKET_SHIFT)).astype(np.int64) % _NUM_BUCKETS
        return found

    def _no_room(self, error: OSError) -> StorageError:
        return no_room("changes that did not fit into memory", error, self._table, "Nothing was staged. ")


def _rows_of(changes: Changes) -> pa.Table:
    """The changes as one table, with the columns of `Changes` last, whatever the table's columns are named."""
    columns = [*changes.rows.columns, pa.chunked_array([pa.array(changes.kinds)])]
    names = [*changes.rows.column_names, _KIND]
    if changes.sequence is not None:
        columns.append(changes.sequence)
        names.append(_SEQUENCE)
    return pa.Table.from_arrays(columns, names=names)


def _changes_of(rows: pa.Table) -> Changes:
    has_sequence = rows.column_names[-1] == _SEQUENCE  # the last column is ours, even if a table column has the name
    at = rows.num_columns - 1 - has_sequence
    kinds = rows.column(at).to_numpy().astype("int8")
    return Changes(rows.select(range(at)), kinds, rows.column(at + 1) if has_sequence else None)
