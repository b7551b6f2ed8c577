"""What the changes of a key leave, if a retraction removes only the row that it carries.

In: changes by key, in order. Out: for most keys one change, whatever the table has; for the others all their changes,
whose result depends on the table's row: `decide`. With that row, `resolve` says which one is left.

A ``+I`` or ``+U`` is the row that its key has from then on. A ``-D`` deletes whatever row its key has. A ``-U`` (and,
in a retract stream, a ``-D``) carries the old row. If keys shift (``UPDATE t SET id = id + 1``), the new row of a key
may come before the old one goes: the retraction that follows is then about the table's row, not about the new one. It
is about

- the table's row, if that is equal to the row that it carries;
- otherwise a row that came before in the same changes, if one is equal;
- otherwise no row, if the table has another one: the row it removes was replaced in an earlier commit;
- otherwise whatever row its key has.

A retraction whose columns are null but for its key is of that last kind too, since it tells no row. A ``-D`` that
deletes by key spares a new row only if it carries just the row that the table has, or one that came before in the same
changes, and this row differs from the new one.
Flink's SinkUpsertMaterializer keeps the rows of each key for the same purpose; here the table has them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from txlog.changelog.row_kinds import DELETE, UPDATE_BEFORE
from txlog.core.format.arrow.arrays import flags_of, joined_chunks
from txlog.core.format.arrow.take_rows import taken_rows
from txlog.core.format.identity import is_identity
from txlog.core.format.schema import Struct, fold_name
from txlog.core.row_rules import KeyColumn, is_computed

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EVENTS_MAX = 64
"""More changes of one key are left to the commit, as the table's row decides faster than all rows that it may have."""
_GONE, _STAYS = -1, -2
_OTHER = -1


class Decided(msgspec.Struct, frozen=True):
    """Marks rows: ``deciding`` is the only change that counts of its key, ``is_open`` is each change of a key whose
    result depends on the table's row."""

    deciding: NDArray[np.bool_]
    is_open: NDArray[np.bool_]


class Resolved(msgspec.Struct, frozen=True):
    """The result for each key.

    Attributes:
        row: The index of the change whose row the key gets; -1 if it gets none.
        stays: Whether the table's row stays as it is.
        is_odd: Whether a change retracts a row that the table does not have, although it has one with the key.
    """

    row: NDArray[np.int64]
    stays: NDArray[np.bool_]
    is_odd: NDArray[np.bool_]


class _Event(msgspec.Struct, frozen=True):
    """One change: ``value`` is the number of its row, which equal rows share; ``tells`` whether it tells a row."""

    row: int
    kind: int
    value: int
    tells: bool


def compared_columns(schema: Struct, keys: Sequence[KeyColumn], beside: Collection[str] = ()) -> list[str]:
    """The columns in which a retraction and the row that it removes are equal: all but the keys, columns with computed
    values, and the columns ``beside``, in which a change tells about itself (its kind, its sequence)."""
    own = {fold_name(name) for name in beside} | {fold_name(key.path[0]) for key in keys if len(key.path) == 1}
    fields = (field for field in schema.fields if not is_identity(field) and not is_computed(field))
    return [field.name for field in fields if fold_name(field.name) not in own]


def decide(
    rows: pa.Table, kinds: NDArray[np.int8], keys: NDArray[np.int64], order: NDArray[np.int64], compared: Sequence[str]
) -> Decided:
    """The change of each key that counts, as far as the changes themselves tell.

    Args:
        rows: At least the columns ``compared``.
        kinds: As ``row_kinds`` numbers them; ``-U`` retracts the row that it carries, ``-D`` deletes by key.
        keys: The key number of each row.
        order: The rows by key, and in order within a key.
        compared: See `compared_columns`.
    """
    deciding, is_open = np.zeros(len(kinds), dtype=bool), np.zeros(len(kinds), dtype=bool)
    if not len(order):
        return Decided(deciding, is_open)
    of_key = keys[order]
    starts = np.flatnonzero(np.append(True, of_key[1:] != of_key[:-1]))
    last = order[np.append(starts[1:], len(order)) - 1]
    goes = (kinds == UPDATE_BEFORE) | (kinds == DELETE)
    has_new = np.logical_or.reduceat(~goes[order], starts)
    is_clear = ~goes[last] | (~has_new & (kinds[last] == DELETE))
    deciding[last[is_clear]] = True
    unclear = np.flatnonzero(~is_clear)
    if len(unclear):
        ends = np.append(starts[1:], len(order))
        places = np.concatenate([order[starts[at] : ends[at]] for at in unclear.tolist()])
        for events in _by_key(_events(rows, kinds, places, compared), keys):
            row = _decided(events)
            if row is None:
                is_open[[each.row for each in events]] = True
            else:
                deciding[row] = True
    return Decided(deciding, is_open)


def resolve(
    rows: pa.Table,
    kinds: NDArray[np.int8],
    keys: NDArray[np.int64],
    old: pa.Table,
    old_keys: NDArray[np.int64],
    compared: Sequence[str],
    num_keys: int,
) -> Resolved:
    """The result of changes, given the table's rows ``old`` with the key numbers ``old_keys``.

    Args:
        rows: The changes, in order within each key.
        kinds: See `decide`.
        keys: The key number of each change, less than ``num_keys``.
        old: All rows of the table with one of the keys, with at least the columns ``compared``.
        old_keys: Their key numbers.
        compared: See `compared_columns`.
        num_keys: The length of the results.
    """
    found = Resolved(np.full(num_keys, -1), np.zeros(num_keys, dtype=bool), np.zeros(num_keys, dtype=bool))
    both = pa.concat_tables([rows.select(compared), old.select(compared).cast(rows.select(compared).schema)])
    values, tells = row_numbers(both, len(kinds) + len(old_keys))
    before: dict[int, set[int]] = {}
    for key, value in zip(old_keys.tolist(), values[len(kinds) :].tolist(), strict=True):
        before.setdefault(key, set()).add(value)
    order = np.argsort(keys, kind="stable")
    columns = (each.tolist() for each in (order, kinds[order], values[order], tells[order]))
    for events in _by_key([_Event(*each) for each in zip(*columns, strict=True)], keys):
        key = int(keys[events[0].row])
        row, is_odd = _outcome(events, before.get(key, set()))
        found.row[key], found.stays[key], found.is_odd[key] = max(row, -1), row == _STAYS, is_odd
    return found


def _decided(events: Sequence[_Event]) -> int | None:
    """The change that counts, if it is the same whatever row the table has."""
    if len(events) > _EVENTS_MAX:
        return None
    possible = {each.value for each in events if each.kind in (UPDATE_BEFORE, DELETE)}
    first = _outcome(events, set())[0]
    if any(_outcome(events, {value})[0] != first for value in (*possible, _OTHER)):
        return None
    return events[-1].row if first == _GONE else first


def _outcome(events: Sequence[_Event], before: Collection[int]) -> tuple[int, bool]:
    """The change whose row is left, `_GONE` or `_STAYS`; and whether a change retracts a row that is not there.

    ``before`` are the values of the table's rows with the key.
    """
    is_there, is_odd = bool(before), False
    current: _Event | None = None
    replaced: list[int] = []  # rows of these changes that later ones replaced, until they are retracted
    for event in events:
        by_row = event.kind == UPDATE_BEFORE
        is_tables = is_there and event.value in before
        if not (by_row or event.kind == DELETE):
            if current is not None:
                replaced.append(current.value)
            current = event
        elif current is None:
            if by_row and event.tells and not is_tables:
                is_odd |= is_there
            else:
                is_there = False
        elif is_tables and (by_row or (event.tells and event.value != current.value)):
            is_there = False
        elif event.value in replaced and (by_row or (event.tells and event.value != current.value)):
            replaced.remove(event.value)
        elif by_row and event.tells and is_there and event.value != current.value:
            is_odd = True
        else:
            current, is_there, replaced = None, False, []
    if current is not None:
        return current.row, is_odd
    return (_STAYS if is_there else _GONE), is_odd


def _events(
    rows: pa.Table, kinds: NDArray[np.int8], places: NDArray[np.int64], compared: Sequence[str]
) -> list[_Event]:
    values, tells = row_numbers(taken_rows(rows.select(compared), places), len(places))
    columns = (each.tolist() for each in (places, kinds[places], values, tells))
    return [_Event(*each) for each in zip(*columns, strict=True)]


def _by_key(events: Sequence[_Event], keys: NDArray[np.int64]) -> Iterator[list[_Event]]:
    """The changes of each key; those of one key are adjacent."""
    found: list[_Event] = []
    for event in events:
        if found and keys[found[0].row] != keys[event.row]:
            yield found
            found = []
        found.append(event)
    if found:
        yield found


def row_numbers(rows: pa.Table, num_rows: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """A number for each row, which equal rows share: nulls are equal, and so are NaNs. And whether a row tells
    anything: a column is not null, or there is none."""
    numbers = np.zeros(num_rows, dtype=np.int64)
    tells = np.full(num_rows, not rows.num_columns)
    for column in map(joined_chunks, rows.columns):
        tells |= flags_of(column.is_valid())
        codes = _codes(column)
        numbers = np.unique(numbers * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1].astype(np.int64)
    return numbers, tells


def _codes(column: pa.Array) -> NDArray[np.int64]:
    """A number for each value of a column, which equal values share; 0 for null."""
    kind: Any = column.type
    if pa.types.is_nested(kind):
        column = pa.array([None if each is None else repr(each) for each in column.to_pylist()], pa.large_string())
    elif pa.types.is_floating(kind):
        column = pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), kind), column)
        column = column.view(pa.int32() if kind == pa.float32() else pa.int64())
    encoded = column.dictionary_encode()
    found = pc.fill_null(encoded.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    return np.asarray(found + 1, dtype=np.int64)
