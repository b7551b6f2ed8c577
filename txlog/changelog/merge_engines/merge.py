"""The merge: combines the table's and a changelog's rows for each key into one row.

In: a `MergeEngine`, and rows with the numbers of their keys. Out: `Merged`, a row for each key that has one. Pure: it
depends only on the old rows and the changelog, so it can be repeated on a newer version.

Order. A key's old rows come first, then the changelog as it arrived. A sequence sorts all of them; among equals, old
rows come before new ones. Without a sequence, a merge is a fold, so its result does not depend on how a changelog is
split into commits. With a sequence, a committed delete leaves no trace unless the table keeps tombstones (old rows of
the kind -D), so a row that arrives later counts even if it is older; and all values of a table row have its greatest
sequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from txlog.changelog.merge_engines.deduplicate import last_of_keys
from txlog.changelog.merge_engines.engine import RETRACTABLE, FieldFunction, MergeEngine, SequenceGroup
from txlog.changelog.merge_engines.functions import aggregated
from txlog.changelog.merge_engines.keyed_rows import KeyedRows
from txlog.changelog.merge_engines.runs import Runs, ranks, runs_of
from txlog.changelog.row_kinds import DELETE, UPDATE_BEFORE
from txlog.core.format.arrow.arrays import flags_of
from txlog.core.format.arrow.take_rows import taken_rows
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Merged", "check_kinds", "merge", "needed_columns", "wanted_rows", "without_same"]

_COMPARED_AT_ONCE = 1 << 14
"""Rows whose strings fit in one array."""
_LAST = FieldFunction("last_value")
_LAST_NON_NULL = FieldFunction("last_non_null_value")


class Merged(msgspec.Struct, frozen=True):
    """The result for each key.

    Attributes:
        rows: A row for each key with a new one, by key number.
        has_row: Which keys these are.
        is_dead: Which keys no longer have a row. A key in neither keeps its row in the table.
        deletes: In an engine that takes whole rows, the row that deleted each of these keys.
        is_odd: Which keys have a change that retracts a row that the table does not have, although it has another one;
            None: none.
    """

    rows: pa.Table
    has_row: NDArray[np.bool_]
    is_dead: NDArray[np.bool_]
    deletes: pa.Table | None = None
    is_odd: NDArray[np.bool_] | None = None


def needed_columns(engine: MergeEngine, columns: tuple[str, ...]) -> tuple[str, ...]:
    """The table's columns whose old values `merge` reads."""
    if not engine.reads_old_rows:
        return ()
    return engine.sequence if engine.takes_whole_rows else columns


def check_kinds(engine: MergeEngine, kinds: NDArray[np.int8]) -> None:
    """Refuse rows of the kinds -U and -D that an engine cannot apply.

    Raises:
        InvalidInputError: There is such a row; the message names the options that allow it.
    """
    if engine.ignores_deletes or engine.takes_last_row:
        return
    retracted, deletes = kinds == UPDATE_BEFORE, kinds == DELETE
    if engine.name == "aggregation":
        retracts = retracted.any() or (deletes.any() and not engine.removes_on_delete)
        refused = [
            f"{column} ({function.name})"
            for column, function in engine.functions.items()
            if function.name not in RETRACTABLE and not function.ignores_retracts
        ]
        if retracts and refused:
            raise InvalidInputError(
                "the changelog retracts rows (-U or -D), which these columns' functions cannot do:"
                f" {', '.join(refused)}. Set txlog.fields.<column>.ignore-retract = true, or txlog.ignore-delete"
            )
        return
    if engine.removes_on_delete:
        return
    refused = [
        f"{column} ({engine.functions[column].name})"
        for group in engine.groups
        for column in group.columns
        if column in engine.functions and engine.functions[column].name not in RETRACTABLE
        if not engine.functions[column].ignores_retracts
    ]
    if (retracted.any() or deletes.any()) and (refused or not engine.groups):
        also = "" if not engine.replaces_rows else ", txlog.partial-update.remove-record-on-delete, or sequence groups"
        of = f" of {', '.join(refused)}" if refused else ""
        raise InvalidInputError(
            f"the changelog has rows of the kinds -U and -D, which merge-engine {engine.name} cannot retract{of}: set"
            f" txlog.ignore-delete = true{also}"
        )


def merge(engine: MergeEngine, num_keys: int, new: KeyedRows, old: KeyedRows | None = None) -> Merged:
    """One row for each key.

    Args:
        engine: For the table's columns.
        num_keys: Key numbers are lower.
        new: The rows to merge into the table, with all its columns; rows of the kinds -U and -D may have only the key.
        old: The table's rows for the keys, with at least `needed_columns`; None if there are none, or they do not
            matter. For keys of `may_need_old`, in "deduplicate", with all columns.

    Raises:
        InvalidInputError: A row has a kind that the engine cannot take, or a result does not fit its column.
    """
    if new.kinds is not None:
        check_kinds(engine, new.kinds)
    if engine.takes_last_row:
        return _last_rows(engine, num_keys, new, old)
    num_old = 0 if old is None else len(old.keys)
    keys = new.keys if old is None else np.concatenate([old.keys, new.keys])
    kinds = np.zeros(num_old + len(new.keys), dtype=np.int8)
    if new.kinds is not None:
        kinds[num_old:] = new.kinds
    if old is not None and old.kinds is not None:
        kinds[:num_old] = old.kinds
    columns = _Columns(new.rows, None if old is None else old.rows)
    retracts = (kinds == UPDATE_BEFORE) | (kinds == DELETE)
    is_wanted = wanted_rows(engine, kinds)
    order_by = [ranks(columns.of(name)) for name in engine.sequence]
    runs = runs_of(keys, retracts, num_keys=num_keys, num_old=num_old, order_by=order_by, is_wanted=is_wanted)
    if engine.takes_whole_rows:
        return _first_rows(runs, columns)
    if engine.leaves_absent_values and engine.removes_on_delete:
        _refuse_unpaired(keys, kinds, np.lexsort((*reversed(order_by), keys)), num_keys)
    left = runs
    if engine.removes_on_delete:
        left = runs.after(runs.last(kinds[runs.rows] == DELETE))
    is_changed = runs.filter(runs.rows >= num_old).has_row()
    added = left if engine.name == "aggregation" else left.filter(~left.retracts)
    has_row = is_changed & added.has_row()
    merging = _Merging(engine, left, columns, keys, retracts)
    rows = pa.table([merging.column(name) for name in new.rows.schema.names], schema=new.rows.schema)
    return Merged(rows.filter(pa.array(has_row)), has_row, is_changed & ~has_row)


def without_same(merged: Merged, old: KeyedRows) -> Merged:
    """The same, but a key whose single old row equals the new one keeps it. ``old`` has all columns."""
    count = np.bincount(old.keys, minlength=len(merged.has_row))
    old_row = np.zeros(len(count), dtype=np.int64)
    old_row[old.keys] = np.arange(len(old.keys))
    keys = np.flatnonzero(merged.has_row)
    is_same = count[keys] == 1
    if not is_same.any():
        return merged
    before = taken_rows(old.rows, old_row[keys])
    for first in range(0, len(keys), _COMPARED_AT_ONCE):
        new, was = (rows.slice(first, _COMPARED_AT_ONCE) for rows in (merged.rows, before))
        for name in new.schema.names:
            columns = (rows.column(name).combine_chunks() for rows in (new, was))
            is_same[first : first + _COMPARED_AT_ONCE] &= _same_values(*columns)
    has_row = merged.has_row.copy()
    has_row[keys[is_same]] = False
    return replace(merged, rows=merged.rows.filter(pa.array(~is_same)), has_row=has_row)


def _same_values(new: pa.Array, old: pa.Array) -> NDArray[np.bool_]:
    """Which values are the same: nulls are, a NaN is the same as itself, and -0.0 is not the same as 0.0."""
    kind = new.type
    new_valid, old_valid = (values.is_valid().to_numpy(zero_copy_only=False) for values in (new, old))
    same: NDArray[np.bool_] = new_valid & old_valid
    if pa.types.is_struct(kind):
        for member, other in zip(new.flatten(), old.flatten(), strict=True):
            same &= _same_values(member, other)
    elif pa.types.is_map(kind) or pa.types.is_list(kind):
        if pa.types.is_map(kind):
            entries = pa.list_(pa.struct([kind.key_field, kind.item_field]))
            new, old = new.cast(entries), old.cast(entries)
        lengths = [pc.list_value_length(values).fill_null(0).to_numpy() for values in (new, old)]
        same &= lengths[0] == lengths[1]
        elements = _same_values(*(values.filter(pa.array(same)).flatten() for values in (new, old)))
        same[np.repeat(np.flatnonzero(same), lengths[0][same])[~elements]] = False
    else:
        if pa.types.is_floating(kind):
            bits = pa.int32() if kind == pa.float32() else pa.int64()
            new, old = new.view(bits), old.view(bits)
        same &= flags_of(pc.equal(new, old))
    same |= ~(new_valid | old_valid)
    return same


def wanted_rows(engine: MergeEngine, kinds: NDArray[np.int8]) -> NDArray[np.bool_] | None:
    """The rows that the merge uses; None: all."""
    if engine.ignores_deletes:
        stays: NDArray[np.bool_] = (kinds != UPDATE_BEFORE) & (kinds != DELETE)
        return stays
    return kinds != UPDATE_BEFORE if engine.leaves_absent_values and engine.removes_on_delete else None


def _refuse_unpaired(keys: NDArray[np.int64], kinds: NDArray[np.int8], order: NDArray[np.int64], num_keys: int) -> None:
    """Refuse a -U after which the key gets no new row: the row that it retracts may be gone, or its new version may
    come in a later commit, and would then lack the columns of a deleted row."""
    last = np.full(num_keys, -1, dtype=np.int64)
    last[keys[order]] = order
    last = last[last >= 0]
    if (kinds[last] == UPDATE_BEFORE).any():
        raise InvalidInputError(
            "a -U has no +U with its key after it, and merge-engine partial-update cannot tell whether the row is gone,"
            " or gets its new columns in a later commit: write the -U and the +U in one commit, send a -D if the row is"
            " gone, or leave rows of the kind -U out"
        )


def _last_rows(engine: MergeEngine, num_keys: int, new: KeyedRows, old: KeyedRows | None) -> Merged:
    """Takes the last row of each key, which may be a delete."""
    if engine.ignores_deletes and new.kinds is not None:
        stays = wanted_rows(engine, new.kinds)
        assert stays is not None
        new = KeyedRows(new.rows.filter(pa.array(stays)), new.keys[stays], new.kinds[stays], compared=new.compared)
    last = last_of_keys(new, num_keys, old, engine.sequence)
    has_row = (last.row >= 0) & ~last.is_delete
    rows = taken_rows(new.rows, last.row[has_row])
    deletes = taken_rows(new.rows, last.row[last.is_delete]) if last.is_delete.any() else None
    return Merged(rows, has_row, last.is_delete, deletes, last.is_odd)


def _first_rows(runs: Runs, columns: _Columns) -> Merged:
    """Takes the first row of each key."""
    places = runs.first()
    has_row = places >= 0
    has_row[has_row] = runs.rows[places[has_row]] >= runs.num_old
    rows = taken_rows(columns.new, runs.rows[places[has_row]] - runs.num_old)
    return Merged(rows, has_row, np.zeros(len(places), dtype=bool))


class _Columns:
    """The columns of the old rows, followed by those of the new rows."""

    def __init__(self, new: pa.Table, old: pa.Table | None) -> None:
        self.new = new
        self._old = old

    def of(self, name: str) -> pa.ChunkedArray:
        new = self.new.column(name)
        if self._old is None:
            return new
        return pa.chunked_array([*self._old.column(name).chunks, *new.chunks], new.type)


class _Merging:
    """Computes the columns of merged rows, each in the order of its sequence group or of the rows."""

    def __init__(
        self,
        engine: MergeEngine,
        runs: Runs,
        columns: _Columns,
        keys: NDArray[np.int64],
        retracts: NDArray[np.bool_],
    ) -> None:
        self._engine = engine
        self._runs = runs
        self._adds = runs.filter(~runs.retracts) if engine.leaves_absent_values else runs
        self._columns = columns
        self._keys = keys
        self._retracts = retracts
        self._of_group: dict[SequenceGroup, Runs] = {}

    def column(self, name: str) -> pa.ChunkedArray:
        engine, values = self._engine, self._columns.of(name)
        group = engine.group_of(name)
        runs = self._runs if group is None else self._group(group)
        if name in engine.sequence or (group is not None and name in group.sequence):
            return runs.picked(values, runs.last(), nulls=False)
        function = engine.functions.get(name)
        if function is not None:
            return aggregated(runs, values, name, function)
        if group is not None:
            return aggregated(runs, values, name, _LAST)
        if engine.name == "aggregation":  # a column of the key
            return runs.picked(values, runs.last(), nulls=False)
        return aggregated(self._adds, values, name, _LAST_NON_NULL)

    def _group(self, group: SequenceGroup) -> Runs:
        """The rows that have a sequence, in its order."""
        found = self._of_group.get(group)
        if found is None:
            order_by = [ranks(self._columns.of(name)) for name in group.sequence]
            is_wanted = np.zeros(len(self._keys), dtype=bool)
            is_wanted[self._runs.rows] = True
            is_wanted &= np.logical_or.reduce([rank > 0 for rank in order_by])
            found = self._of_group[group] = runs_of(
                self._keys,
                self._retracts,
                num_keys=self._runs.num_keys,
                num_old=self._runs.num_old,
                order_by=order_by,
                is_wanted=is_wanted,
            )
        return found
