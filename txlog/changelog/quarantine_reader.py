"""Rereads the changes of some of a checkpoint's keys from its tasks' files, for the quarantine.

In: the committables of a checkpoint, its keys, and the selected ones. Out: changes in the table's columns. For a
deleted row a task keeps only the key, so its other columns are null.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from txlog.changelog.key_files import StagedKeyRows, read_keys
from txlog.changelog.mismatches import QuarantineRows
from txlog.changelog.partial_columns import column_of_parts
from txlog.changelog.row_kinds import DELETE, KINDS, UPDATE_AFTER
from txlog.changelog.staged_keys import StagedKeys
from txlog.core.changes.tasks import FileReader, FileRows
from txlog.core.format.schema import to_arrow
from txlog.core.row_rules import key_text
from txlog.core.util import cached_property
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import nullable
from txlog.core.writing.committable import Committable

if TYPE_CHECKING:
    from numpy.typing import NDArray


class QuarantineReader:
    """Reads the changes of keys, numbered as in ``staged``. It costs nothing until it is used."""

    def __init__(
        self, open_table: OpenTable, state: TableState, committables: Sequence[Committable], staged: StagedKeys
    ) -> None:
        self._files = open_table.store.files
        self._table = open_table.uri
        self._committables = committables
        self._staged = staged
        self._open_table, self._state = open_table, state

    @cached_property
    def _schema(self) -> pa.Schema:
        return to_arrow(nullable(self._state.schema))

    @cached_property
    def _rows(self) -> FileReader:
        return FileRows(self._open_table.store, self._state).reader(self._state.schema.fields)

    def text_of(self, key: int) -> str:
        """A key, for error messages."""
        index = self._staged.index
        for columns in itertools.chain((rows.columns for rows in self._key_rows()), self._new_keys()):
            at = np.flatnonzero(index.source_rows(columns) == key)
            if len(at):
                return key_text(index.keys, columns, int(at[0]))
        return "a key that can no longer be read"

    def rows(self, cases: NDArray[np.int8]) -> Iterator[QuarantineRows]:
        """The changes of the keys that have a case."""
        index, keys = self._staged.index, self._staged.index.keys
        for each in self._committables:
            superseded = self._staged.superseded.get(each.task_id)
            for file in each.files:
                for _, batch in self._rows.batches(file.to_add(), with_dead_rows=True):
                    columns = [key.of(batch) for key in keys]
                    found = cases[index.source_rows(columns)]
                    if superseded is not None:
                        found = np.where(superseded.source_rows(columns) < 0, found, 0)
                    if found.any():
                        plain = pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)
                        yield plain.filter(pa.array(found > 0)), _words(UPDATE_AFTER, found), found[found > 0]
        for rows in self._key_rows():
            places = index.source_rows(rows.columns)
            found = np.where(rows.are_deletes & self._staged.are_deletes[places], cases[places], 0)
            if found.any():
                mask = pa.array(found > 0)
                paths = {key.path: column.filter(mask) for key, column in zip(keys, rows.columns, strict=True)}
                yield self._of_keys(paths, int((found > 0).sum())), _words(DELETE, found), found[found > 0]

    def _new_keys(self) -> Iterator[list[pa.Array]]:
        """The changes with rows in data files; a task without deletes writes no other file."""
        for file in (file for each in self._committables for file in each.files):
            for _, batch in self._rows.batches(file.to_add(), with_dead_rows=True):
                yield [key.of(batch) for key in self._staged.index.keys]

    def _key_rows(self) -> Iterator[StagedKeyRows]:
        for each in self._committables:
            for file in each.key_files:
                yield from read_keys(self._files, file, self._staged.index.keys, self._table)

    def _of_keys(self, columns: dict[tuple[str, ...], pa.Array], count: int) -> pa.RecordBatch:
        found = [column_of_parts(columns, (field.name,), field.type, count) for field in self._schema]
        return pa.RecordBatch.from_arrays(found, schema=self._schema)


def _words(kind: int, cases: NDArray[np.int8]) -> list[str]:
    return [KINDS[kind]] * int((cases > 0).sum())
