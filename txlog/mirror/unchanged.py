"""Large values that an update did not touch, which PostgreSQL does not send (TOAST): taken from where they are.

In: the changes of one table, in order, and its rows before them. Out: the same changes, complete. A value that was not
sent is that of the row which the update replaces: an earlier change of the same commit, or the table's row. Only rows
that later changes refer to are kept in memory.

An update that changes the key is a delete and an insert. So an insert that lacks values takes them from the row that
the change before it deletes, which may be a change of an earlier commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from txlog.errors import CorruptLogError
from txlog.mirror.changes import DELETE, INSERT, TableChanges

Key: TypeAlias = tuple[Any, ...]
Row: TypeAlias = dict[str, Any]
LooksUp: TypeAlias = Callable[[Sequence[Key], Sequence[str]], dict[Key, Row]]
"""The values of columns in the table's rows with these keys."""


class _Step(NamedTuple):
    """The changes of one batch, by their place in it: kinds, keys, the keys of the rows that they replace, and the
    columns that they lack."""

    batch: pa.RecordBatch
    kinds: list[str]
    keys: list[Key]
    replaced: list[Key]
    lacking: list[list[str]]


def completed(changes: TableChanges, keys: Sequence[str], look_up: LooksUp) -> Iterator[pa.RecordBatch]:
    """The changes with all their values. Raises CorruptLogError if the table lacks a row that an update replaces."""
    columns, needed = set[str](), set[Key]()
    for step in _steps(changes, keys):
        for replaced, lacking in zip(step.replaced, step.lacking, strict=True):
            if lacking:
                columns.update(lacking)
                needed.add(replaced)
    held = _HeldRows(changes.table, sorted(columns), needed)
    for step in _steps(changes, keys):
        yield held.completed(step, look_up)


class _HeldRows:
    """The newest values of the rows that later changes refer to."""

    def __init__(self, table: str, columns: Sequence[str], needed: set[Key]) -> None:
        self._table = table
        self._columns = columns
        self._needed = needed
        self._rows: dict[Key, Row] = {}
        self._deleted: tuple[Key, Row] | None = None
        """The row that the change before deleted."""

    def completed(self, step: _Step, look_up: LooksUp) -> pa.RecordBatch:
        asked = {
            key for key, lacking in zip(step.replaced, step.lacking, strict=True) if lacking and not self._has(key)
        }
        self._rows.update(look_up(sorted(asked), self._columns))
        sent = {name: step.batch.column(name) for name in self._columns}
        found: dict[str, dict[int, Any]] = {name: {} for name in self._columns}
        for place, (kind, key, lacking) in enumerate(zip(step.kinds, step.keys, step.lacking, strict=True)):
            if kind == DELETE:
                row = self._rows.pop(key, None)
                self._deleted = None if row is None else (key, row)
                continue
            source = self._source(step.replaced[place]) if lacking else {}
            for name in lacking:
                found[name][place] = source[name]
            if key in self._needed:
                self._rows[key] = {
                    name: source[name] if name in lacking else sent[name][place].as_py() for name in self._columns
                }
            self._deleted = None
        return _filled(step.batch, found)

    def _has(self, key: Key) -> bool:
        return key in self._rows or (self._deleted is not None and self._deleted[0] == key)

    def _source(self, key: Key) -> Row:
        if self._deleted is not None and self._deleted[0] == key:
            return self._deleted[1]
        if key not in self._rows:
            raise CorruptLogError(
                f"the mirror of {self._table} has no row with the key {key}, and the source sent an update of it"
                " without its large values: another writer changed the mirror. Mirror the table from a new snapshot:"
                f" txlog mirror ... --resync {self._table}"
            )
        return self._rows[key]


def _steps(changes: TableChanges, keys: Sequence[str]) -> Iterator[_Step]:
    names = {column.number: column.name for column in changes.columns}
    kind_name, *_, unchanged_name = changes.beside
    before: tuple[str, Key] = ("", ()) if changes.deleted_before is None else (DELETE, changes.deleted_before)
    for batch in changes.batches():
        kinds = batch.column(kind_name).to_pylist()
        own = list(zip(*(batch.column(name).to_pylist() for name in keys), strict=True))
        lacking = [
            [names[number] for number in numbers or () if number in names]
            for numbers in batch.column(unchanged_name).to_pylist()
        ]
        befores = (before, *zip(kinds, own, strict=True))
        replaced = [
            earlier if (kind, earlier_kind) == (INSERT, DELETE) else key
            for kind, key, (earlier_kind, earlier) in zip(kinds, own, befores, strict=False)
        ]
        yield _Step(batch, kinds, own, replaced, lacking)
        before = kinds[-1], own[-1]


def _filled(batch: pa.RecordBatch, values: dict[str, dict[int, Any]]) -> pa.RecordBatch:
    """A batch with these values, by column and place."""
    arrays = []
    for name, sent in zip(batch.schema.names, batch.columns, strict=True):
        found = values.get(name)
        if not found:
            arrays.append(sent)
            continue
        places = list(range(len(sent)))
        for number, place in enumerate(found):
            places[place] = len(sent) + number
        both = pa.concat_arrays([sent, pa.array(list(found.values()), sent.type)])
        arrays.append(both.take(pa.array(places, pa.int64())))
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
