"""UPDATE: sets columns of the rows for which a condition is true.

In: a condition and assignments, bound to the table's schema. Out: a `RowOperation` that replaces rows by their new
versions, in another partition if their partition columns change.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np
import pyarrow as pa

from txlog.core import ambient
from txlog.core.changes.tasks import FileRows, Images, MatchedFile, MatchedRows
from txlog.core.changes.tasks.operations._assignments import Assignments, assigned_names
from txlog.core.changes.tasks.operations._delete import RowsOfCondition
from txlog.core.format.actions import AddFile
from txlog.core.format.defined_table import DefinedTable
from txlog.core.predicates import AnyCondition
from txlog.core.row_rules import computed_columns, refuse_set_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEPT_MAX_BYTES = 32 << 20


class UpdateSpec(msgspec.Struct, frozen=True):
    """`Table.update`, as a `RowSpec`. All tasks use the same ``now`` for ``current_timestamp()``."""

    what: ClassVar[str] = "an update"
    values: Mapping[str, Any]
    where: AnyCondition | None
    now: datetime.datetime = msgspec.field(default_factory=ambient.now)

    def bind(
        self, table: DefinedTable, rows: pa.Table | None = None, elsewhere: NDArray[np.bool_] | None = None
    ) -> UpdateRows:
        """Bind the update to a version. Raises ``InvalidInputError``, ``UnsupportedFeatureError``."""
        refuse_set_numbers(table.schema, assigned_names(self.values, table.schema))
        computed = computed_columns(table.schema, None, table.partition_columns, zone=table.time_zone)
        assignments = Assignments(self.values, table.schema, computed, zone=table.time_zone, now=self.now)
        return UpdateRows(self.where, assignments, table, self.now)


class UpdateRows(RowsOfCondition):
    """The `RowOperation` of an update."""

    name = "UPDATE"
    makes_images = True
    replaces_rows = True

    def __init__(
        self, where: AnyCondition | None, assignments: Assignments, table: DefinedTable, now: datetime.datetime
    ) -> None:
        super().__init__(where, table, now)
        self._assignments = assignments
        needed = assignments.needed
        self.image_fields = tuple(field for field in table.schema.fields if field.name in needed)
        if assignments.changes_alone:
            names = assignments.names
            self.changed_fields = tuple(field for field in table.schema.fields if field.name in names)
            read = names | assignments.needed_to_change
            self.fields_for_changes = tuple(field for field in table.schema.fields if field.name in read)
        read = self.predicate.columns() - {*table.partition_columns}
        self._read_fields = tuple(field for field in self.image_fields if field.name in read)
        self._kept_bytes = 0

    def matches_whole_file(self, add: AddFile) -> bool:
        return False

    def look_up(self, rows: FileRows, add: AddFile) -> MatchedRows:
        """Keeps the condition's columns that new versions of rows need too, as far as memory allows."""
        left_bytes = KEPT_MAX_BYTES - self._kept_bytes  # approximately: two threads look into files
        positions, values = self._matches(rows, add, self._read_fields, left_bytes)
        self._kept_bytes += 0 if values is None else values.nbytes
        return MatchedRows(positions, values=values)

    def images(self, rows: pa.RecordBatch | None, hits: MatchedRows) -> Iterator[Images]:
        yield self._assignments.apply(rows, None, len(hits.positions)), np.arange(len(hits.positions))

    def changes(self, rows: pa.RecordBatch, hits: MatchedRows) -> Iterator[Images]:
        new = self._assignments.apply(rows, None, rows.num_rows, only=self.changed_fields)
        yield new, np.arange(rows.num_rows)

    def counts(self, touched: Sequence[MatchedFile], is_written: NDArray[np.bool_] | None) -> tuple[int, int, int]:
        return 0, sum(len(each.replaced) for each in touched), 0
