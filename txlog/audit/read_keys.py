"""The keys of a table's rows as numbers, read as the work of tasks.

In: for each task some files, or a share of a large one. Out: a number of 8 or 16 bytes for each of their keys, so that
a result of a million rows stays small enough to be returned.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from txlog.core.changes.tasks import TaskStore
from txlog.core.reading import KeyNumbers, KeyValues, ScanTask, TaskReader
from txlog.core.row_rules import KeyColumn


class FoundKeys(msgspec.Struct, frozen=True):
    """The keys of ``num_rows`` live rows; those with a null in their key, ``nulls``, have none."""

    values: KeyValues
    num_rows: int
    nulls: int


class ReadKeys(msgspec.Struct, frozen=True):
    """The work of a task. ``numbers`` is the same for all tasks whose keys are compared."""

    store: TaskStore
    keys: tuple[KeyColumn, ...]
    numbers: KeyNumbers

    def __call__(self, tasks: Sequence[ScanTask]) -> list[FoundKeys]:
        """What each of them holds. Raises ``NotFoundError``, ``CorruptLogError``, ``StorageError`` if a file cannot be
        read."""
        reader = TaskReader(self.store.files, tasks[0].selection)
        return [self._found(reader, task) for task in tasks]

    def _found(self, reader: TaskReader, task: ScanTask) -> FoundKeys:
        found, num_rows = [], 0
        for batch in reader.batches(task):
            found.append(self.numbers.of([key.of(batch) for key in self.keys])[0])
            num_rows += batch.num_rows
        values = KeyValues.joined(found) if found else KeyValues(np.empty(0, np.int64), None)
        return FoundKeys(values, num_rows, num_rows - len(values))
