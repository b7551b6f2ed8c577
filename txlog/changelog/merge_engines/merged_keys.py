"""The rows of a merge, the table's and a changelog's, by key: what `MergeEngine.merged` takes.

In: both with their key numbers, and what orders them. Out: their columns, one after the other, and `Runs` of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from txlog.changelog.merge_engines.keyed_rows import KeyedRows
from txlog.changelog.merge_engines.runs import Runs, ranks, runs_of
from txlog.changelog.row_kinds import DELETE, UPDATE_BEFORE

if TYPE_CHECKING:
    from numpy.typing import NDArray


class KeyRuns:
    """Old and new rows by key. They are numbered across both, the table's first.

    Attributes:
        new: The new rows.
        keys: The key number of each row.
        kinds: The kind of each row.
        runs: The rows that the merge uses, by key and in order.
    """

    def __init__(
        self, new: pa.Table, old: pa.Table | None, keys: NDArray[np.int64], kinds: NDArray[np.int8], runs: Runs
    ) -> None:
        self.new = new
        self._old = old
        self.keys = keys
        self.kinds = kinds
        self.runs = runs
        self._by_sequence: dict[tuple[str, ...], Runs] = {}

    @classmethod
    def of(
        cls,
        num_keys: int,
        new: KeyedRows,
        old: KeyedRows | None,
        sequence: tuple[str, ...],
        wanted_rows: Callable[[NDArray[np.int8]], NDArray[np.bool_] | None],
    ) -> KeyRuns:
        """The rows of both, ordered by the columns ``sequence``, of those kinds that are wanted."""
        num_old = 0 if old is None else len(old.keys)
        keys = new.keys if old is None else np.concatenate([old.keys, new.keys])
        kinds = np.zeros(len(keys), dtype=np.int8)
        if new.kinds is not None:
            kinds[num_old:] = new.kinds
        if old is not None and old.kinds is not None:
            kinds[:num_old] = old.kinds
        none = Runs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_), num_keys, num_old)
        found = cls(new.rows, None if old is None else old.rows, keys, kinds, none)
        found.runs = found._ordered(sequence, wanted_rows(kinds))
        return found

    def column(self, name: str) -> pa.ChunkedArray:
        """A column of the old rows, followed by that of the new rows."""
        new = self.new.column(name)
        if self._old is None:
            return new
        return pa.chunked_array([*self._old.column(name).chunks, *new.chunks], new.type)

    def by_sequence(self, runs: Runs, sequence: tuple[str, ...]) -> Runs:
        """Those of the rows that have a value in a sequence's columns, in its order. Kept for other columns of the
        sequence: ``runs`` must be the same."""
        found = self._by_sequence.get(sequence)
        if found is None:
            is_wanted = np.zeros(len(self.keys), dtype=bool)
            is_wanted[runs.rows] = True
            has_value = [self.column(name).is_valid().to_numpy() for name in sequence]
            is_wanted &= np.logical_or.reduce(has_value)
            found = self._by_sequence[sequence] = self._ordered(sequence, is_wanted)
        return found

    def _ordered(self, sequence: tuple[str, ...], is_wanted: NDArray[np.bool_] | None) -> Runs:
        return runs_of(
            self.keys,
            np.isin(self.kinds, (UPDATE_BEFORE, DELETE)),
            num_keys=self.runs.num_keys,
            num_old=self.runs.num_old,
            order_by=[ranks(self.column(name)) for name in sequence],
            is_wanted=is_wanted,
        )
