"""The driver's view of a row change: which files may hold a match, and the entry in the commit's history.

In: a spec bound to the table's definition, and the extent of its source. Out: a `Target`. For a small source, the
driver compares its keys with each file's statistics. For a large one it knows only the least and greatest key, which
exclude fewer files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from txlog.commit.open_table import OpenTable
from txlog.expressions.predicates import Predicate
from txlog.log.proposal_builder import ProposalBuilder
from txlog.log.state import TableState
from txlog.protocol.actions import AddFile
from txlog.protocol.schema import to_arrow
from txlog.result import WriteMetrics
from txlog.skipping.key_pruning import key_range
from txlog.skipping.many_files import FilePruner
from txlog.skipping.one_file import Pruner
from txlog.spark.rows.part import PartSource
from txlog.spark.rows.specs import RowSpec, SourceShape, SourceSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Extent", "Target"]


class Extent(msgspec.Struct, frozen=True):
    """What the driver knows of a source.

    Attributes:
        spec: The change.
        shape: Its columns and keys.
        num_rows: Its rows, without rows that were dropped because another row has the same key.
        num_given: Its rows, dropped ones included.
        ends: For each key column an array of the least and the greatest value, or an empty array if no row has a key.
        few: Its rows, if it is small.
    """

    spec: SourceSpec
    shape: SourceShape
    num_rows: int
    num_given: int
    ends: tuple[pa.Array, ...]
    few: PartSource | None

    def key_range(self, state: TableState) -> Predicate | None:
        """A condition that is true for every row with one of the keys; None if none can be built."""
        return key_range([key.path for key in self.shape.table_keys], self.ends, state.schema)


class Target:
    """A row change of one table, bound to a version."""

    def __init__(self, open_table: OpenTable, state: TableState, spec: RowSpec, source: Extent | None) -> None:
        self.source = source
        self.few = None if source is None else source.few
        rows = None if source is None else to_arrow(source.shape.schema).empty_table()
        self._operation = spec.bind(open_table, state, rows if self.few is None else self.few.rows).operation
        self.name = self._operation.name
        self._range: Predicate | None = None
        self._pruner: FilePruner | None = None
        if source is not None and self.few is None:
            self._range = source.key_range(state)
            if self._range is not None:
                self._pruner = FilePruner(Pruner(self._range, state.schema, state.partition_columns))

    @property
    def is_in_spark(self) -> bool:
        """Whether only Spark, and not the driver, holds the rows of the source."""
        return self.source is not None and self.few is None

    def candidates(self, files: pa.Table) -> NDArray[np.bool_]:
        """Whether each of these live files may hold a row that changes. False only if it certainly holds none."""
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
        """Whether the change certainly removes every row of the file."""
        return self._operation.matches_whole_file(add)

    def declare_reads(self, builder: ProposalBuilder, files: Sequence[str]) -> None:
        """Declare what the change depends on if it is not executed again after a lost race.

        Args:
            builder: Receives the read set.
            files: The paths of the files that may hold a match.
        """
        if not self.is_in_spark:
            self._operation.declare_reads(builder, files)
        elif self._range is None or (self.source is not None and self.source.spec.reads_every_file):
            builder.read_table()
        else:
            builder.read_where(self._range, files)

    def parameters(self) -> dict[str, str]:
        """commitInfo's ``operationParameters``."""
        return self._operation.parameters()

    def metrics(self, done: WriteMetrics) -> dict[str, str]:
        """commitInfo's ``operationMetrics``."""
        found = self._operation.metrics(done)
        return found if self.source is None else {**found, "numSourceRows": str(self.source.num_given)}
