"""One change for each key: of all that a changelog does to a row, what is left in the end.

In: changes in order of arrival. Out: changes of which no two have one key. The last one counts, by arrival or by a
sequence, or a `MergeFunction` makes one of them. All of it in columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from txlog.writer.changelog.row_kinds import DELETE, UPDATE_BEFORE
from txlog.writer.keys import KeyColumn, KeyIndex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Changes", "KeyRuns", "MergeFunction", "collapse", "joined", "runs_by_key", "sorted_by_key"]


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows and what happens to them, in order of arrival.

    Attributes:
        rows: The table's columns. Those of the key are never null; a row that is deleted may be null everywhere else.
        kinds: The kind of each row, as ``row_kinds`` numbers them.
        sequence: What orders changes of one key, without nulls; None: the order of arrival.
    """

    rows: pa.Table
    kinds: NDArray[np.int8]
    sequence: pa.ChunkedArray | None = None

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def are_deletes(self) -> NDArray[np.bool_]:
        """Which of them take a row away: ``-D``, and ``-U`` where it was kept."""
        found: NDArray[np.bool_] = (self.kinds == DELETE) | (self.kinds == UPDATE_BEFORE)
        return found

    def take(self, places: NDArray[np.int64]) -> Changes:
        """Some of them, in this order."""
        at = pa.array(places)
        sequence = None if self.sequence is None else self.sequence.take(at)
        return Changes(self.rows.take(at), self.kinds[places], sequence)

    def filter(self, stays: NDArray[np.bool_]) -> Changes:
        """Those that are marked."""
        if stays.all():
            return self
        mask = pa.array(stays)
        sequence = None if self.sequence is None else self.sequence.filter(mask)
        return Changes(self.rows.filter(mask), self.kinds[stays], sequence)


@dataclass(frozen=True, slots=True)
class KeyRuns:
    """Changes by key: ``order[starts[i]:starts[i + 1]]`` are the places of those of the i-th key, the last one last."""

    order: NDArray[np.int64]
    starts: NDArray[np.int64]

    @property
    def last(self) -> NDArray[np.int64]:
        """The place of the last change of each key."""
        import numpy as np

        ends = np.append(self.starts[1:], len(self.order))[: len(self.starts)]
        found: NDArray[np.int64] = self.order[ends - 1]
        return found


class MergeFunction(Protocol):
    """What becomes of several changes of one key. It travels to tasks, so it has to pickle.

    It is applied again to its own results and later changes, so it has to be associative in the order of the changes.
    """

    def merge(self, changes: Changes, runs: KeyRuns) -> Changes:
        """One change for each of ``runs``, in their order; of the kind ``+U`` or ``-D``.

        ``sequence`` of the result is the greatest of each run.
        """


def collapse(changes: Changes, keys: Sequence[KeyColumn], *, merge: MergeFunction | None = None) -> Changes:
    """At most one change for each key; without ``merge``, the last one, in order of arrival."""
    if not len(changes):
        return changes
    if merge is not None:
        return merge.merge(changes, runs_by_key(changes, keys))
    index = KeyIndex(keys, [key.of(changes.rows) for key in keys])
    if index.num_keys == len(changes):
        return changes
    return changes.filter(index.last_rows(_order(changes)))


def runs_by_key(changes: Changes, keys: Sequence[KeyColumn]) -> KeyRuns:
    """The changes of each key together; of one key in order of the sequence, and then of arrival."""
    import numpy as np

    codes = KeyIndex(keys, [key.of(changes.rows) for key in keys]).code_of_row
    order = _order(changes)
    by_key = np.argsort(codes if order is None else codes[order], kind="stable")
    places = by_key if order is None else order[by_key]
    sorted_codes = codes[places]
    starts = np.flatnonzero(np.append(True, sorted_codes[1:] != sorted_codes[:-1])) if len(places) else places
    return KeyRuns(places.astype(np.int64), starts.astype(np.int64))


def sorted_by_key(changes: Changes, keys: Sequence[KeyColumn]) -> Changes:
    """The same in ascending order of their keys, which files are pruned by and compress well in."""
    if len(changes) < 2:
        return changes
    names = [str(at) for at in range(len(keys))]
    columns = pa.table([key.of(changes.rows) for key in keys], names=names)
    places = pc.sort_indices(columns, sort_keys=[(name, "ascending") for name in names])
    return changes.take(places.to_numpy().astype("int64"))


def joined(parts: Sequence[Changes]) -> Changes:
    """All of them, in this order; at least one."""
    import numpy as np

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
    """The places of the changes by sequence, those of equal sequence by arrival; None: they are in order."""
    import numpy as np

    if changes.sequence is None:
        return None
    columns: list[Any] = [changes.sequence, pa.array(np.arange(len(changes)))]
    table = pa.table(columns, names=["sequence", "arrival"])
    places = pc.sort_indices(table, sort_keys=[("sequence", "ascending"), ("arrival", "ascending")])
    found: NDArray[np.int64] = places.to_numpy().astype(np.int64)
    return found
