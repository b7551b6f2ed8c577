"""DELETE: removes the rows for which a condition is true.

In: a condition bound to the table's schema. Out: a `RowOperation` that decides which files may hold such rows, which
files hold nothing else, and where the rows are in the other files.
"""

from __future__ import annotations

import datetime
from abc import abstractmethod
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
        return DeleteRows(Condition(self.where, table, self.now))


class Condition:
    """A condition on rows of a table, evaluated on statistics, partition values or rows. Thread-safe."""

    def __init__(self, where: AnyCondition | None, table: DefinedTable, now: datetime.datetime) -> None:
        from txlog.core.predicates.skipping import FilePruner, MatchProver, Pruner, without_nan_doubts

        self.is_everything = where is None
        self.predicate = _bound(where, table, now)
        self.necessary = without_nan_doubts(self.predicate, table.schema)
        """Whether a row satisfies the condition; it may exclude files by statistics and partition values."""
        names = self.predicate.columns()
        self.fields = tuple(field for field in table.schema.fields if field.name in names)
        """The columns that it reads."""
        self._decided = None if self.is_everything else PartitionPredicate.of(self.predicate, table)
        pruner = Pruner(self.predicate, table.schema, table.partition_columns)
        self._prover = MatchProver(pruner)
        if self.necessary != self.predicate:
            pruner = Pruner(self.necessary, table.schema, table.partition_columns)
        self._pruner = FilePruner(pruner)

    @property
    def reads(self) -> Predicate | None:
        """The condition itself; None if it selects every row."""
        return None if self.is_everything else self.predicate

    def candidates(self, files: pa.Table) -> NDArray[np.bool_]:
        """Which files may hold a row for which it is true; True in case of doubt."""
        mask = self._pruner.mask_of_table(files)
        if self._decided is not None:
            at = np.flatnonzero(mask)
            values = files.column("partitionValues").take(pa.array(at)).to_pylist()
            mask[at] = [self._decided.holds(dict(each)) for each in values]
        return mask

    def holds_for_every_row(self, add: AddFile) -> bool:
        """Whether partition values or statistics prove that it is true for the whole file."""
        if self._decided is not None:
            return self._decided.holds(add.partition_values)
        return self._prover.every_row_matches(add.partition_values, add.stats)

    def places(self, rows: pa.RecordBatch) -> NDArray[np.int64]:
        """Which of these rows match. Raises ``InvalidInputError``."""
        from txlog.core.predicates import evaluate

        return np.flatnonzero(flags_of(evaluate(self.predicate, rows)))

    def matches(
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


def _bound(where: AnyCondition | None, table: DefinedTable, now: datetime.datetime) -> Predicate:
    if where is None:
        return Constant(True)
    return bind_predicate(where, table.schema, zone=table.time_zone, now=now)


class RowsOfCondition(RowOperation):
    """What deletes and updates share: a condition selects their rows, and there is no source."""

    def __init__(self, condition: Condition) -> None:
        self._condition = condition

    @property
    def reads(self) -> Predicate | None:
        return self._condition.reads

    def parameters(self) -> dict[str, str]:
        condition = self._condition  # in Spark's form, a JSON list of conditions
        return operation_parameters(predicate=[] if condition.is_everything else [f"({condition.predicate})"])

    def metrics(self, done: WriteMetrics) -> dict[str, str]:
        counts = {
            "numRemovedFiles": done.files_removed,
            "numAddedFiles": done.files,
            **self._rows_changed(done),
            "numCopiedRows": done.rows_copied,
            "numDeletionVectorsAdded": done.vectors,
            "numAddedChangeFiles": done.change_files,
            "numAddedBytes": done.bytes,
        }
        return {name: str(count) for name, count in counts.items()}

    @abstractmethod
    def _rows_changed(self, done: WriteMetrics) -> dict[str, int]:
        """The number of changed rows, under Spark's name for it."""

    def candidates(self, files: pa.Table) -> NDArray[np.bool_]:
        return self._condition.candidates(files)

    def look_up(self, rows: FileRows, add: AddFile) -> MatchedRows:
        return MatchedRows(self._condition.matches(rows, add)[0])

    def look_up_all(self, rows: FileRows, adds: Sequence[AddFile]) -> Iterator[MatchedRows]:
        for joined in rows.joined(adds, self._condition.fields):
            if joined.rows is None:
                yield self.look_up(rows, joined.adds[0])
                continue
            places = self._condition.places(joined.rows)
            yield from MatchedRows(places.astype(np.uint64)).in_files(joined.counts)

    def updated(self, touched: Sequence[MatchedFile]) -> tuple[Sequence[NDArray[np.bool_]], NDArray[np.bool_]]:
        return [np.full(len(each.replaced), self.makes_images) for each in touched], np.zeros(0, bool)


class DeleteRows(RowsOfCondition):
    """The `RowOperation` of a delete."""

    name = "DELETE"
    makes_images = False
    replaces_rows = False
    image_fields: tuple[Field, ...] = ()

    def _rows_changed(self, done: WriteMetrics) -> dict[str, int]:
        return {"numDeletedRows": done.rows_deleted}

    def matches_whole_file(self, add: AddFile) -> bool:
        return not is_tombstones(add) and self._condition.holds_for_every_row(add)

    def counts(self, touched: Sequence[MatchedFile], is_written: NDArray[np.bool_] | None) -> tuple[int, int, int]:
        return 0, 0, sum(len(each.replaced) for each in touched)
