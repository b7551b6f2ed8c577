"""The changes of one table that wait for their commit: rows as Arrow batches, whose kinds and order they keep.

In: changes one by one, in the order of the stream. Out: batches with the table's columns, and beside them what each
change is, where it was in the stream, and which values the database did not send.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from txlog.errors import InvalidInputError
from txlog.mirror.columns import StreamColumn, moved_rows
from txlog.mirror.pgoutput import UNCHANGED, Values
from txlog.mirror.properties import MirrorColumn
from txlog.mirror.spool import Spool
from txlog.mirror.types import ColumnType, values_of

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE, TRUNCATE = "+I", "-U", "+U", "-D", "T"

_CHUNK_ROWS = 8192
_CHUNK_BYTES = 8 << 20

_BESIDE = {
    "_change": pa.string(),
    "_lsn": pa.int64(),
    "_committed": pa.timestamp("us", "UTC"),
    "_number": pa.int64(),
    "_unchanged": pa.list_(pa.int32()),
}
"""What a change has beside the table's columns: its kind, its transaction's place and time, its number there, and the
numbers of the columns whose values were not sent."""


class Place(NamedTuple):
    """Where a change is in the stream: its transaction's commit, that one's time in ms, and its number there."""

    lsn: int
    committed_ms: int
    number: int


def beside_names(columns: Sequence[str]) -> list[str]:
    """The names of what a change has beside these columns: with more underscores in front where one is taken."""
    taken = {name.lower() for name in columns}
    found = []
    for name in _BESIDE:
        while name in taken:
            name = f"_{name}"
        found.append(name)
    return found


def stored(table: str, name: str, texts: pa.Array, of: ColumnType) -> pa.Array:
    """The values of a column. Raises InvalidInputError for one that Delta lacks, with what to do."""
    try:
        return values_of(texts, of)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{table}: the column {name}: {error.message}. Nothing of its transaction was applied. Let the mirror store"
            f" the column as text, from a new snapshot: --text {table}.{name} --resync {table}"
        ) from None


class TableChanges:
    """The changes of one table since the last commit. ``columns``: those that its rows have by now."""

    def __init__(self, table: str, columns: Sequence[MirrorColumn], stream: Sequence[StreamColumn]) -> None:
        self.table = table
        self.columns = tuple(columns)
        self.num_rows = 0
        self.num_bytes = 0
        self.is_truncated = False
        self.has_unchanged = False
        self.deleted_before: tuple[Any, ...] | None = None
        """The key of the row that the change before the first one deleted, in an earlier commit."""
        self._types = {column.name: column.type for column in stream}
        self._rows: list[Values] = []
        self._beside: list[tuple[str, Place]] = []
        self._chunk_bytes = 0
        self._spool = Spool()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be committed."""
        return not self.num_rows and not self.is_truncated

    @property
    def beside(self) -> list[str]:
        """The names of what each change has beside the table's columns."""
        return beside_names([column.name for column in self.columns])

    def add(self, kind: str, values: Values, place: Place, size: int) -> None:
        """Add a change; ``size`` is about what it takes, in bytes."""
        self.has_unchanged = self.has_unchanged or UNCHANGED in values
        self._rows.append(values)
        self._beside.append((kind, place))
        self.num_rows += 1
        self.num_bytes += size
        self._chunk_bytes += size
        if len(self._rows) >= _CHUNK_ROWS or self._chunk_bytes >= _CHUNK_BYTES:
            self.convert()

    def truncate(self) -> None:
        """Forget the changes so far: the table is emptied before those that follow."""
        self._rows, self._beside, self._chunk_bytes = [], [], 0
        self._spool.close()
        self.num_rows = self.num_bytes = 0
        self.is_truncated, self.has_unchanged = True, False

    def move(self, columns: Sequence[MirrorColumn], stream: Sequence[StreamColumn]) -> None:
        """Give the changes so far the columns that the table has from now on."""
        self.convert()
        self._types |= {column.name: column.type for column in stream}
        names = beside_names([column.name for column in columns])
        moved = Spool()
        for batch in self._spool:
            rows = moved_rows(batch, self.columns, columns, self._types)
            moved.append(rows.rename_columns([*rows.schema.names[: len(columns)], *names]))
        self._spool.close()
        self._spool, self.columns = moved, tuple(columns)

    def convert(self) -> None:
        """Make Arrow values of all changes. Raises InvalidInputError for one that Delta lacks."""
        if self._rows:
            batch = self._batch()
            self._rows, self._beside, self._chunk_bytes = [], [], 0
            self._spool.append(batch)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All changes, in order. May be called again."""
        self.convert()
        yield from self._spool

    def close(self) -> None:
        """Give up the memory and the file."""
        self._spool.close()

    def _batch(self) -> pa.RecordBatch:
        numbers = [column.number for column in self.columns]
        unchanged = [
            [number for number, value in zip(numbers, row, strict=True) if value is UNCHANGED]
            if UNCHANGED in row
            else None
            for row in self._rows
        ]
        arrays = []
        for column, texts in zip(self.columns, zip(*self._rows, strict=True), strict=True):
            sent = [None if text is UNCHANGED else text for text in texts]
            arrays.append(stored(self.table, column.name, pa.array(sent, pa.string()), self._types[column.name]))
        beside = (
            [kind for kind, _ in self._beside],
            [place.lsn for _, place in self._beside],
            [place.committed_ms * 1000 for _, place in self._beside],
            [place.number for _, place in self._beside],
            unchanged,
        )
        arrays += [pa.array(values, of) for values, of in zip(beside, _BESIDE.values(), strict=True)]
        return pa.RecordBatch.from_arrays(arrays, names=[*(column.name for column in self.columns), *self.beside])
