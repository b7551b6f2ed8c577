"""Whether a merge's result depends on the order of rows from several tasks, which have no order among each other.

In: a checkpoint's rows with their task numbers, and a `MergeEngine`. Out: two rows with one key whose order decides the
merge but is unknown, or None. Rows from one task are in order of arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from txlog.changelog.merge_engines.engine import MergeEngine
from txlog.changelog.merge_engines.keyed_rows import KeyedRows
from txlog.changelog.merge_engines.runs import ranks
from txlog.changelog.row_kinds import DELETE
from txlog.core.row_rules import KeyColumn
from txlog.core.wording import advice

if TYPE_CHECKING:
    from numpy.typing import NDArray

ONE_TASK_FOR_EACH_KEY = advice("one task for each key", "Send all rows of a key to one task (Sink.partition_of)")


class Unclear(msgspec.Struct, frozen=True):
    """Two rows with one key from two tasks, by index, and the sequence columns where they are equal."""

    rows: tuple[int, int]
    sequence: tuple[str, ...]


def is_order_free(engine: MergeEngine, columns: Sequence[str], keys: Sequence[KeyColumn]) -> bool:
    """Whether rows may arrive in any order, whatever their values."""
    return engine.is_commutative(_beside_keys(columns, keys))


def first_unclear(
    engine: MergeEngine, changes: KeyedRows, tasks: NDArray[np.int64], keys: Sequence[KeyColumn]
) -> Unclear | None:
    """Two rows whose order is unknown, although the merge depends on it; ``tasks`` ascend."""
    kinds = changes.kinds
    assert kinds is not None
    for order in engine.orders(changes, kinds, _beside_keys(changes.rows.schema.names, keys)):
        rows = np.flatnonzero(order.is_wanted)
        by = [ranks(changes.rows.column(name))[rows] for name in order.sequence]
        ties = ties_of_tasks(changes.keys[rows], by, tasks[rows], by_last_alone=order.by_last_alone)
        before, after = rows[ties]
        if engine.takes_last_row:  # among several deletes, any may be the last
            counts = (kinds[before] != DELETE) | (kinds[after] != DELETE)
            before, after = before[counts], after[counts]
        if len(before):
            return Unclear((int(before[0]), int(after[0])), order.sequence)
    return None


def ties_of_tasks(
    keys: NDArray[np.int64], by: Sequence[NDArray[np.int64]], tasks: NDArray[np.int64], *, by_last_alone: bool
) -> NDArray[np.int64]:
    """Pairs of rows with one key and equal ranks ``by``, from different tasks: the indices of the first, and of the
    second ones. ``by_last_alone``: only such rows of which none with their key comes later."""
    places = np.lexsort((tasks, *reversed(by), keys))
    before, after = places[:-1], places[1:]
    is_tie = np.logical_and.reduce([keys[before] == keys[after], *(rank[before] == rank[after] for rank in by)])
    found = is_tie & (tasks[before] != tasks[after])
    if by_last_alone and len(places):
        run = np.concatenate([[0], np.cumsum(~is_tie)])
        last_run = np.zeros(int(keys.max()) + 1, dtype=np.int64)
        last_run[keys[places]] = run
        found &= run[1:] == last_run[keys[after]]
    return np.stack([before[found], after[found]])


def _beside_keys(columns: Sequence[str], keys: Sequence[KeyColumn]) -> list[str]:
    """The columns that hold more than a key: a struct with a key field also has other fields."""
    whole = {key.path[0] for key in keys if len(key.path) == 1}
    return [column for column in columns if column not in whole]
