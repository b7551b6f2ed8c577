"""The changes of a checkpoint whose result depends on the table's rows: retractions of rows that its tasks do not know.

In: the files in which tasks staged the changes of open keys, and the table's rows with these keys. Out: which keys lose
their row, which keep it, and which get one of the staged rows. `retractions` has the rules.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from txlog.changelog.retractions import Resolved, compared_columns, resolve
from txlog.changelog.row_kinds import DELETE, UPDATE_BEFORE
from txlog.changelog.staged_keys import StagedKeys
from txlog.changelog.staged_rows import KIND, PLACE, TOLD
from txlog.changelog.staged_rows_reader import read_staged_rows
from txlog.core.changes.tasks import FileRows, Touched
from txlog.core.changes.tasks.operations import MEMORY_MAX_BYTES
from txlog.core.format.arrow.spill import SpillError, no_room
from txlog.core.format.arrow.spill import held as held_rows
from txlog.core.format.arrow.take_rows import taken_rows
from txlog.core.format.column_mapping import physical_name
from txlog.core.format.schema import to_arrow
from txlog.core.row_rules import KeyColumn
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import nullable
from txlog.core.writing.committable import Committable

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OpenChanges", "OpenRowsFound", "read_open_changes"]


class OpenRowsFound(Exception):
    """The changes whose rows keys get, by key; -1 for none: the tasks' files do not have them."""

    def __init__(self, rows: NDArray[np.int64]) -> None:
        super().__init__()
        self.rows = rows


class OpenChanges(msgspec.Struct, frozen=True):
    """The changes of open keys.

    Attributes:
        rows: The changes in the table's columns, in order within each key.
        kinds: As ``row_kinds`` numbers them.
        keys: Their keys, numbered as in `StagedKeys`.
        compared: The columns in which a retraction and its row are equal.
        num_keys: The number of all keys of the checkpoint.
    """

    rows: pa.Table
    kinds: NDArray[np.int8]
    keys: NDArray[np.int64]
    compared: list[str]
    num_keys: int

    def only_retracted(self, are_deletes: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The keys of ``are_deletes`` without those that also get new rows."""
        found: NDArray[np.bool_] = are_deletes.copy()
        found[self.keys[(self.kinds != UPDATE_BEFORE) & (self.kinds != DELETE)]] = False
        return found

    def resolved(self, files: FileRows, state: TableState, touched: Sequence[Touched]) -> Resolved:
        """The result, given the rows of the table that have these keys."""
        is_open = np.zeros(self.num_keys, dtype=bool)
        is_open[self.keys] = True
        fields = tuple(field for field in nullable(state.schema).fields if field.name in self.compared)
        batches, keys = [], [np.empty(0, np.int64)]
        for each in touched:
            assert each.hits.source_rows is not None
            hits = each.hits.at(each.live & is_open[each.hits.source_rows])
            assert hits.source_rows is not None
            if not len(hits.positions):
                continue
            for here, rows in files.at(each.add, hits.positions, fields):
                batches.append(pa.RecordBatch.from_arrays(rows.columns, names=self.compared))
                keys.append(hits.source_rows[np.searchsorted(hits.positions, here)])
        old_keys = np.concatenate(keys)
        old = pa.Table.from_batches(batches) if batches else self.rows.select(self.compared).slice(0, 0)
        return resolve(self.rows, self.kinds, self.keys, old, old_keys, self.compared, self.num_keys)

    def new_rows(self, chosen: NDArray[np.int64]) -> pa.Table:
        """The rows that keys get."""
        return taken_rows(self.rows, chosen[chosen >= 0])


def read_open_changes(
    open_table: OpenTable,
    state: TableState,
    committables: Sequence[Committable],
    keys: Sequence[KeyColumn],
    staged: StagedKeys,
    superseded: Callable[[int, pa.RecordBatch], NDArray[np.bool_]],
) -> OpenChanges | None:
    """The changes of open keys that tasks staged; None if there are none. ``superseded`` marks the rows of a task whose
    keys other tasks changed later.

    Raises what `read_staged_rows` raises.
    """
    in_order = sorted(committables, key=lambda each: each.task_id)
    open_files = [(each.task_id, file) for each in in_order for file in each.keys if file.is_open]
    if not open_files:
        return None
    told: set[str] = set()
    wanted = to_arrow(nullable(state.schema))
    width = len(wanted)

    def parts() -> list[pa.RecordBatch]:
        found: list[pa.RecordBatch] = []
        for task_id, file in open_files:
            rows = read_staged_rows(open_table.store.files, file, state.schema, keys, open_table.uri)
            places = np.argsort(rows.column(PLACE).to_numpy(), kind="stable")
            for text in rows.column(TOLD).unique().to_pylist():
                told.update(json.loads(text))
            for batch in taken_rows(rows, places).to_batches():
                found.append(batch.filter(pa.array(~superseded(task_id, batch))))
        return found

    own = [(KIND, pa.int8()), (PLACE, pa.int64()), (TOLD, pa.string())]
    try:
        rows = held_rows(iter(parts()), pa.schema([*wanted, *own]), memory_max_bytes=MEMORY_MAX_BYTES)
    except SpillError as error:
        raise no_room("the changes", error, open_table.uri) from error
    if not rows.num_rows:
        return None
    beside = [field.name for field in state.schema.fields if physical_name(field) in told]
    numbers = staged.index.source_rows([key.of(rows) for key in keys])
    compared = compared_columns(state.schema, keys, beside)
    kinds = rows.column(width).to_numpy().astype(np.int8)
    return OpenChanges(rows.select(range(width)), kinds, numbers, compared, staged.num_rows)
