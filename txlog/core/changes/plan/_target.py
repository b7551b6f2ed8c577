"""`ChangeTarget`: what the commit must know about a row change in tasks, and which files may hold a match.

In: a spec bound to the table's definition, and the extent of its source. Out: a `ChangeTarget`. For a small source, the
driver compares its keys with each file's statistics. For a large one it knows only the least and greatest key, which
exclude fewer files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from txlog.core.changes.tasks import PartSource, RowSpec, SourceShape, SourceSpec, TaskTable
from txlog.core.format.actions import AddFile
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.schema import to_arrow
from txlog.core.predicates.skipping import FilePruner, Pruner, key_range
from txlog.core.predicates.terms.predicate import Predicate
from txlog.result import WriteMetrics

if TYPE_CHECKING:
    from numpy.typing import NDArray


class SourceSummary(msgspec.Struct, frozen=True):
    """What the driver knows about a source.

    Attributes:
        spec: The change.
        shape: Its columns and keys.
        num_rows: The number of its rows, without those dropped because another row has the same key.
        num_given: The number of its rows, dropped ones included.
        ends: For each key column, an array of the least and the greatest value, or an empty array if no row has a key.
        few: Its rows, if it is small.
    """

    spec: SourceSpec
    shape: SourceShape
    num_rows: int
    num_given: int
    ends: tuple[pa.Array, ...]
    few: PartSource | None

    def key_range(self, table: DefinedTable) -> Predicate | None:
        """A condition that is true for every row with one of the keys; None if none can be built."""
        return key_range([key.path for key in self.shape.table_keys], self.ends, table.schema)


class ChangeTarget:
    """A row change of one table, bound to a version."""

    keeps_row_ids = True

    def __init__(self, table: TaskTable, spec: RowSpec, source: SourceSummary | None) -> None:
        self._has_feed = table.properties.enable_change_data_feed
        self.source = source
        self.few = None if source is None else source.few
        rows = None if source is None else to_arrow(source.shape.schema).empty_table()
        self._operation = spec.bind(table, rows if self.few is None else self.few.rows)
        self.name = self._operation.name
        self._range: Predicate | None = None
        self._pruner: FilePruner | None = None
        if source is not None and self.few is None:
            self._range = source.key_range(table)
            if self._range is not None:
                self._pruner = FilePruner(Pruner(self._range, table.schema, table.partition_columns))

    @property
    def is_spread(self) -> bool:
        """Whether only the workers, and not the driver, hold the rows of the source."""
        return self.source is not None and self.few is None

    def candidates(self, files: pa.Table) -> NDArray[np.bool_]:
        """Whether each of these live files may hold a row that changes. False only if it is sure to hold none."""
        if self.source is None or self.few is not None:
            return self._operation.candidates(files)
        if self.source.spec.reads_every_file:
            return np.ones(files.num_rows, dtype=bool)
        if any(len(ends) == 0 for ends in self.source.ends):
            return np.zeros(files.num_rows, dtype=bool)
        if self._pruner is None:
            return np.ones(files.num_rows, dtype=bool)
        return self._pruner.mask_of_table(files)

    def matches_whole_file(self, add: AddFile) -> bool:
        """Whether the change is sure to remove every row of the file, and no task need look at it."""
        if self._has_feed and add.deletion_vector is not None:
            return False  # the feed needs change files for the remaining rows, as in ``ChangeFiles.finish``
        return self._operation.matches_whole_file(add)

    @property
    def reads(self) -> Predicate | None:
        """The rows that the change depends on if it does not rerun; None: every row of the table."""
        if not self.is_spread:
            return self._operation.reads
        return None if self.source is not None and self.source.spec.reads_every_file else self._range

    def parameters(self) -> dict[str, str]:
        """commitInfo's ``operationParameters``."""
        return self._operation.parameters()

    def metrics(self, done: WriteMetrics) -> dict[str, str]:
        """commitInfo's ``operationMetrics``."""
        found = self._operation.metrics(done)
        return found if self.source is None else {**found, "numSourceRows": str(self.source.num_given)}
