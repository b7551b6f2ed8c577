"""DELETE: removes the rows for which a condition is true.

In: a condition bound to the table's schema. Out: a `RowOperation` that decides which files may hold such rows, which
files hold nothing else, and where the rows are in the other files.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec
import numpy as np
import pyarrow as pa

from txlog.core import ambient
from txlog.core.changes.tasks import FileRows, MatchedFile, MatchedRows, RowOperation
from txlog.core.format.actions import AddFile, operation_parameters
from txlog.core.format.arrow.arrays import flags_of
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.schema import Field
from txlog.core.format.tombstones import is_tombstones
from txlog.core.predicates import AnyCondition, bind_predicate
from txlog.core.predicates.skipping import PartitionPredicate
from txlog.core.predicates.terms.predicate import Constant, Predicate
from txlog.result import WriteMetrics

if TYPE_CHECKING:
    from numpy.typing import NDArray


class DeleteSpec(msgspec.Struct, frozen=True):
    """`Table.delete`, as a `RowSpec`. All tasks use the same ``now`` for ``current_timestamp()``."""

    what: ClassVar[str] = "a delete"
    where: AnyCondition | None
    now: datetime.datetime = msgspec.field(default_factory=ambient.now)

    def bind(
        self, table: DefinedTable, rows: pa.Table | None = None, elsewhere: NDArray[np.bool_] | None = None
    ) -> DeleteRows:
        """Bind the delete to a version."""
        return DeleteRows(self.where, table, self.now)


class RowsOfCondition(RowOperation):
    """What deletes and updates share: a condition selects their rows, and there is no source. It is evaluated on
    partition values, statistics and rows."""

    def __init__(self, where: AnyCondition | None, table: DefinedTable, now: datetime.datetime) -> None:
        """``where`` None selects every row."""
        from txlog.core.predicates.skipping import FilePruner, Pruner, without_nan_doubts

        self._selects_all = where is None
        self.predicate: Predicate = (
            Constant(True) if where is None else bind_predicate(where, table.schema, zone=table.time_zone, now=now)
        )
        self.necessary = without_nan_doubts(self.predicate, table.schema)
        """Whether a row satisfies the condition; it may exclude files by statistics and partition values."""
        names = self.predicate.columns()
        self._fields = tuple(field for field in table.schema.fields if field.name in names)
        self._decided = None if where is None else PartitionPredicate.of(self.predicate, table)
        self._pruner = pruner = Pruner(self.predicate, table.schema, table.partition_columns)
        if self.necessary != self.predicate:
            pruner = Pruner(self.necessary, table.schema, table.partition_columns)
        self._file_pruner = FilePruner(pruner)

    @property
    def reads(self) -> Predicate | None:
        return None if self._selects_all else self.predicate

    def parameters(self) -> dict[str, str]:
        conditions = [] if self._selects_all else [f"({self.predicate})"]
        return operation_parameters(predicate=conditions)  # in Spark's form, a JSON list

    def metrics(self, done: WriteMetrics) -> dict[str, str]:
        counts = {
            "numRemovedFiles": done.files_removed,
            "numAddedFiles": done.files,
            **({"numUpdatedRows": done.rows_updated} if self.makes_images else {"numDeletedRows": done.rows_deleted}),
            "numCopiedRows": done.rows_copied,
            "numDeletionVectorsAdded": done.vectors,
            "numAddedChangeFiles": done.change_files,
            "numAddedBytes": done.bytes,
        }
        return {name: str(count) for name, count in counts.items()}

    def candidates(self, files: pa.Table) -> NDArray[np.bool_]:
        mask = self._file_pruner.mask_of_table(files)
        if self._decided is not None:
            at = np.flatnonzero(mask)
            values = files.column("partitionValues").take(pa.array(at)).to_pylist()
            mask[at] = [self._decided.holds(dict(each)) for each in values]
        return mask

    def look_up(self, rows: FileRows, add: AddFile) -> MatchedRows:
        return MatchedRows(self._matches(rows, add)[0])

    def look_up_all(self, rows: FileRows, adds: Sequence[AddFile]) -> Iterator[MatchedRows]:
        from txlog.core.predicates import evaluate

        for joined in rows.joined(adds, self._fields):
            if joined.rows is None:
                yield self.look_up(rows, joined.adds[0])
                continue
            places = np.flatnonzero(flags_of(evaluate(self.predicate, joined.rows)))
            yield from MatchedRows(places.astype(np.uint64)).in_files(joined.counts)

    def _matches(
        self, rows: FileRows, add: AddFile, fields: tuple[Field, ...] = (), values_max_bytes: int = 0
    ) -> tuple[NDArray[np.uint64], pa.RecordBatch | None]:
        """The positions of the matching rows of one file, dead ones included, and their values of ``fields``; None
        instead of values that take more memory than ``values_max_bytes``."""
        positions = [np.empty(0, np.int64)]
        values: list[pa.RecordBatch] | None = [] if fields else None
        left_bytes = values_max_bytes
        for numbers, batch in rows.reader(fields, self.predicate).batches(add, with_dead_rows=True):
            positions.append(numbers)
            left_bytes -= batch.nbytes
            if values is not None:
                values = [*values, batch] if left_bytes >= 0 else None
        return np.concatenate(positions).astype(np.uint64), pa.concat_batches(values) if values else None

    def updated(self, touched: Sequence[MatchedFile]) -> tuple[Sequence[NDArray[np.bool_]], NDArray[np.bool_]]:
        return [np.full(len(each.replaced), self.makes_images) for each in touched], np.zeros(0, bool)


class DeleteRows(RowsOfCondition):
    """The `RowOperation` of a delete."""

    name = "DELETE"

    def matches_whole_file(self, add: AddFile) -> bool:
        if is_tombstones(add):
            return False
        if self._decided is not None:
            return self._decided.holds(add.partition_values)
        from txlog.core.predicates.skipping import every_row_matches

        return every_row_matches(self._pruner, add.partition_values, add.stats)

    def counts(self, touched: Sequence[MatchedFile], is_written: NDArray[np.bool_] | None) -> tuple[int, int, int]:
        return 0, 0, sum(len(each.replaced) for each in touched)
