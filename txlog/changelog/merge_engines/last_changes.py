"""The merge of ``deduplicate``: the last row of each key, where a retraction removes only the row that it carries.

In: a changelog and the table's rows for its keys. Out: which change each key is left with. Pure; ``retractions`` has
the rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from txlog.changelog.merge_engines.keyed_rows import KeyedRows
from txlog.changelog.merge_engines.runs import ranks
from txlog.changelog.retractions import Resolved, decide, resolve
from txlog.changelog.row_kinds import DELETE, UPDATE_BEFORE
from txlog.core.format.arrow.take_rows import taken_rows
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class Last(msgspec.Struct, frozen=True):
    """The change that each key is left with.

    Attributes:
        row: Its index; -1 if the table's row stays, or there is no change.
        is_delete: Whether the key then has no row.
        is_odd: Whether a change retracts a row that the table does not have, although it has one with the key.
    """

    row: NDArray[np.int64]
    is_delete: NDArray[np.bool_]
    is_odd: NDArray[np.bool_]


def may_need_old(new: KeyedRows, num_keys: int, sequence: Sequence[str]) -> NDArray[np.bool_]:
    """The keys whose merge depends on all columns of the table's rows."""
    found = np.zeros(num_keys, dtype=bool)
    if new.kinds is None or not len(new.keys):
        return found
    order = _in_order(new, [ranks(new.rows.column(name)) for name in sequence])
    found[new.keys[decide(new.rows, new.kinds, new.keys, order, new.compared).is_open]] = True
    if sequence:  # the first changes may be older than the table's row, and the others depend on it without them
        last = np.zeros(num_keys, dtype=np.int64)
        last[new.keys[order]] = order
        goes = np.isin(new.kinds, (UPDATE_BEFORE, DELETE))
        has_change = np.bincount(new.keys, minlength=num_keys) > 0
        has_new = np.bincount(new.keys[~goes], minlength=num_keys) > 0
        found |= has_change & goes[last] & (has_new | (new.kinds[last] == UPDATE_BEFORE))
    return found


def last_of_keys(new: KeyedRows, num_keys: int, old: KeyedRows | None, sequence: Sequence[str]) -> Last:
    """The change that each key is left with, given the table's rows ``old``, which may have tombstones among them.

    Raises ``InvalidInputError`` if a row with an older sequence than the table's takes the key of a row that goes: it
    may be late, or another row with this key.
    """
    kinds = np.zeros(len(new.keys), dtype=np.int8) if new.kinds is None else new.kinds
    by = [_ranks_of_both(new, old, name) for name in sequence]
    order = _in_order(new, [each[0] for each in by])
    in_time = np.ones(len(kinds), dtype=bool)
    if old is not None and by and len(old.keys):
        in_time = ~_are_late(new.keys, old.keys, by)
    kept = order[in_time[order]]
    row = np.full(num_keys, -1, dtype=np.int64)
    is_odd = np.zeros(num_keys, dtype=bool)
    decided = decide(new.rows, kinds, new.keys, kept, new.compared)
    deciding = np.flatnonzero(decided.deciding)
    row[new.keys[deciding]] = deciding
    if decided.is_open.any():
        found = _resolved(new, kinds, kept[decided.is_open[kept]], old, num_keys)
        keys = np.unique(new.keys[decided.is_open])
        if not in_time.all():
            _refuse_unclear(new, kinds, order, keys, found, old, num_keys)
        last = np.full(num_keys, -1, dtype=np.int64)
        last[new.keys[kept]] = kept
        gone = (found.row[keys] < 0) & ~found.stays[keys]
        row[keys] = np.where(gone, last[keys], found.row[keys])
        is_odd = found.is_odd
    there = row >= 0
    is_delete = np.zeros(num_keys, dtype=bool)
    is_delete[there] = np.isin(kinds[row[there]], (UPDATE_BEFORE, DELETE))
    return Last(row, is_delete, is_odd)


def _in_order(new: KeyedRows, by: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The changes by key, and in order within a key."""
    found: NDArray[np.int64] = np.lexsort((*reversed(by), new.keys)).astype(np.int64)
    return found


def _ranks_of_both(new: KeyedRows, old: KeyedRows | None, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The ranks of a column's values in the changes and in the table's rows."""
    column = new.rows.column(name)
    if old is None:
        return ranks(column), np.empty(0, np.int64)
    both = ranks(pa.chunked_array([*column.chunks, *old.rows.column(name).cast(column.type).chunks], column.type))
    return both[: len(new.keys)], both[len(new.keys) :]


def _are_late(
    keys: NDArray[np.int64],
    old_keys: NDArray[np.int64],
    by: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> NDArray[np.bool_]:
    """Which changes have a smaller sequence than a row of the table with their key."""
    is_new = np.repeat([True, False], [len(keys), len(old_keys)])
    columns = [np.concatenate(each) for each in by]
    both = np.concatenate([keys, old_keys])
    order = np.lexsort((is_new, *reversed(columns), both))  # among equals, the table's row comes first
    last_old = np.full(len(both), -1, dtype=np.int64)
    places = np.flatnonzero(~is_new[order])
    greatest = np.full(int(both.max()) + 1, -1, dtype=np.int64)
    greatest[both[order[places]]] = places
    last_old = greatest[both[order]]
    found = np.zeros(len(both), dtype=bool)
    found[order] = np.arange(len(both)) < last_old
    return found[: len(keys)]


def _resolved(
    new: KeyedRows, kinds: NDArray[np.int8], at: NDArray[np.int64], old: KeyedRows | None, num_keys: int
) -> Resolved:
    """The result of these changes, in this order."""
    there = np.unique(new.keys[at])
    old_rows, old_keys = new.rows.slice(0, 0), np.empty(0, np.int64)
    if old is not None:
        lives = np.isin(old.keys, there)
        if old.kinds is not None:
            lives &= old.kinds != DELETE
        old_rows, old_keys = taken_rows(old.rows, np.flatnonzero(lives)), old.keys[lives]
    rows = taken_rows(new.rows, at)
    found = resolve(rows, kinds[at], new.keys[at], old_rows, old_keys, new.compared, num_keys)
    return Resolved(np.where(found.row < 0, -1, at[found.row]), found.stays, found.is_odd)


def _refuse_unclear(
    new: KeyedRows,
    kinds: NDArray[np.int8],
    order: NDArray[np.int64],
    keys: NDArray[np.int64],
    found: Resolved,
    old: KeyedRows | None,
    num_keys: int,
) -> None:
    gone = keys[(found.row[keys] < 0) & ~found.stays[keys]]
    if not len(gone):
        return
    with_late = _resolved(new, kinds, order[np.isin(new.keys[order], gone)], old, num_keys)
    unclear = gone[with_late.row[gone] >= 0]
    if len(unclear):
        raise InvalidInputError(
            "a -U removes the row of a key, and another row of the changes has this key and an older sequence than the"
            " removed row: it may be late, or take over the key. A row that changes its key must get a greater"
            " sequence, too"
        )
