"""Specs: what a change of rows is asked to do, as plain data that travels to Spark tasks.

In: the caller's arguments. Out: in a task or on the driver, the ``RowOperation`` that they mean for some rows of the
source. A part of the source gives a part of the change: a task binds it to the rows whose keys its files may hold.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import pyarrow as pa

from txlog.commands.assignments import Assignments
from txlog.commands.delete import Condition, DeleteRows
from txlog.commands.merge import Clause, MergeOptions, MergeRows
from txlog.commands.merge_source import merge_join, read_merge_source
from txlog.commands.row_change.operation import RowOperation, Touched
from txlog.commands.update import UpdateRows
from txlog.commands.upsert.source import require_columns
from txlog.commands.upsert.upsert import UpsertOptions, bound_upsert, source_columns
from txlog.commit.open_table import OpenTable
from txlog.errors import UnsupportedFeatureError
from txlog.expressions.predicates import Predicate
from txlog.log.state import TableState
from txlog.protocol.merge_options import merge_options
from txlog.protocol.schema import Struct, to_arrow
from txlog.result import WriteMetrics
from txlog.writer.keys import KeyColumn

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "Bound",
    "DeleteSpec",
    "MergeSpec",
    "RowSpec",
    "SourceShape",
    "SourceSpec",
    "UpdateSpec",
    "UpsertSpec",
    "fitted",
]


@dataclass(frozen=True, slots=True)
class Bound:
    """An operation bound to a version. ``matched`` says which rows of the source a live row of the files matches."""

    operation: RowOperation
    matched: Callable[[Sequence[Touched]], NDArray[np.bool_]] | None = None


class RowSpec(Protocol):
    """One change of rows. Pickles."""

    what: ClassVar[str]
    """Its name in refusals: ``"a delete"``."""

    def bind(self, open_table: OpenTable, state: TableState, rows: pa.Table | None) -> Bound:
        """The operation for these rows of the source (None for a change without one). Raises as `Table` documents."""


@dataclass(frozen=True, slots=True)
class SourceShape:
    """Which columns of the source are used, in which types, and by which of them its rows join those of the table.

    ``left_out`` are columns that it may have and that are not looked at. ``table_keys`` and ``source_keys`` go
    together; a pair has one type, to which both sides are cast.
    """

    schema: Struct
    left_out: tuple[str, ...]
    table_keys: tuple[KeyColumn, ...]
    source_keys: tuple[KeyColumn, ...]


AnySpec = TypeVar("AnySpec", bound=RowSpec)


class SourceSpec(RowSpec, Protocol):
    """A change that has a source."""

    @property
    def needs_distinct_keys(self) -> bool:
        """Whether each row of the source needs a key, and one of its own."""

    @property
    def reads_every_file(self) -> bool:
        """Whether rows of the table change that no row of the source matches."""

    @property
    def writes_every_row(self) -> bool:
        """Whether each row of the source is written, whatever it matches."""

    @property
    def writes_in_place(self) -> bool:
        """Whether each part writes the rows of the source that take the place of its own, one of each key."""

    def may_add(self, num_rows: int, num_matched: int) -> bool:
        """Whether some row of the source may add a row, given how many there are and how many match."""

    def shape(self, state: TableState, found: Struct, table: str) -> SourceShape:
        """Which of the columns ``found`` are used. Raises ``SchemaMismatchError``, ``InvalidInputError``."""

    def new_rows(
        self, open_table: OpenTable, state: TableState, rows: pa.Table, is_matched: NDArray[np.bool_]
    ) -> Iterator[pa.RecordBatch]:
        """The rows that some rows of the source add to the table beside new versions of its own rows."""

    def counts(self, written: int, matched: int, parts: WriteMetrics) -> tuple[int, int, int]:
        """How many rows were inserted, updated and deleted, given what all parts did together."""


def fitted(spec: AnySpec, state: TableState) -> AnySpec:
    """The same change for a table of this definition: for its row ids and its change data feed."""
    properties = state.properties
    if isinstance(spec, UpsertSpec) and (properties.enable_change_data_feed or properties.enable_row_tracking):
        return replace(spec, keeps_places=True)
    return spec


@dataclass(frozen=True, slots=True)
class DeleteSpec:
    """`Table.delete`; ``now`` is bound once."""

    what: ClassVar[str] = "a delete"
    where: str | Predicate | None
    now: datetime.datetime

    def bind(self, open_table: OpenTable, state: TableState, rows: pa.Table | None) -> Bound:
        return Bound(DeleteRows(Condition(self.where, state, self.now)))


@dataclass(frozen=True, slots=True)
class UpdateSpec:
    """`Table.update`."""

    what: ClassVar[str] = "an update"
    values: Mapping[str, Any]
    where: str | Predicate | None
    now: datetime.datetime

    def bind(self, open_table: OpenTable, state: TableState, rows: pa.Table | None) -> Bound:
        values = Assignments(self.values, state.schema, now=self.now)
        return Bound(UpdateRows(Condition(self.where, state, self.now), values, state))


@dataclass(frozen=True, slots=True)
class UpsertSpec:
    """`Table.upsert`, of a source whose keys are distinct by now.

    ``keeps_places``: a row of the source is a new version of the row that it replaces. It takes over that one's row id,
    and the change feed tells of both together.
    """

    what: ClassVar[str] = "an upsert"
    upsert: UpsertOptions
    keeps_places: bool = False

    @property
    def needs_distinct_keys(self) -> bool:
        return True

    @property
    def reads_every_file(self) -> bool:
        return False

    @property
    def _writes_matched(self) -> bool:
        return self.upsert.when_matched == "update" and self.upsert.update_columns is None

    @property
    def writes_in_place(self) -> bool:
        return self.keeps_places and self._writes_matched

    @property
    def _adds_matched(self) -> bool:
        """Whether the rows that match are added as the others are, wherever they match."""
        return self._writes_matched and not self.keeps_places

    @property
    def writes_every_row(self) -> bool:
        return self._adds_matched and self.upsert.when_not_matched == "insert"

    def may_add(self, num_rows: int, num_matched: int) -> bool:
        inserts = self.upsert.when_not_matched == "insert" and num_matched < num_rows
        return inserts or (self._adds_matched and num_matched > 0)

    def shape(self, state: TableState, found: Struct, table: str) -> SourceShape:
        if merge_options(state.metadata.configuration):
            raise UnsupportedFeatureError(
                "the table's properties say how rows of one key are merged (txlog.merge-engine), which"
                " txlog.spark.upsert and to.upsert do not: write the rows by df.write.format('txlog').mode('append')"
                ".option('upsertKeys', '<keys>').save(path), those of a stream by writeStream or"
                " foreach_batch(path, options={'upsertKeys': '<keys>'})",
                features=("txlog.merge-engine",),
                table=table,
                version=state.version,
            )
        keys, _, schema = source_columns(self.upsert, state.schema)
        require_columns(schema, to_arrow(found), table)
        left_out = tuple(name for name in state.schema.names if schema.find(name) is None)
        return SourceShape(schema, left_out, keys, keys)

    def bind(self, open_table: OpenTable, state: TableState, rows: pa.Table | None) -> Bound:
        upsert = replace(self.upsert, on_duplicate="error", sequence_by=None)
        operation = bound_upsert(open_table, state, rows, upsert)

        def matched(touched: Sequence[Touched]) -> NDArray[np.bool_]:
            import numpy as np

            found = np.zeros(operation.num_source_rows, dtype=bool)
            for each in touched:
                found[each.live_source_rows] = True
            return found

        return Bound(operation, matched)

    def new_rows(
        self, open_table: OpenTable, state: TableState, rows: pa.Table, is_matched: NDArray[np.bool_]
    ) -> Iterator[pa.RecordBatch]:
        import numpy as np

        is_written = is_matched if self._adds_matched else np.zeros(len(is_matched), dtype=bool)
        if self.upsert.when_not_matched == "insert":
            is_written = is_written | ~is_matched
        return iter(rows.filter(pa.array(is_written)).to_batches())

    def counts(self, written: int, matched: int, parts: WriteMetrics) -> tuple[int, int, int]:
        if not self._writes_matched:
            return written, parts.rows_updated, 0
        inserted = written - matched if self._adds_matched else written
        return inserted, matched, parts.rows_updated + parts.rows_deleted - matched


@dataclass(frozen=True, slots=True)
class MergeSpec:
    """`Table.merge`."""

    what: ClassVar[str] = "a merge"
    merge: MergeOptions
    clauses: tuple[Clause, ...]
    now: datetime.datetime

    @property
    def needs_distinct_keys(self) -> bool:
        return False

    @property
    def reads_every_file(self) -> bool:
        return any(clause.when == "not matched by source" for clause in self.clauses)

    @property
    def writes_every_row(self) -> bool:
        return False

    @property
    def writes_in_place(self) -> bool:
        return False

    def may_add(self, num_rows: int, num_matched: int) -> bool:
        return num_matched < num_rows and any(clause.when == "not matched" for clause in self.clauses)

    def shape(self, state: TableState, found: Struct, table: str) -> SourceShape:
        merge = self.merge
        join = merge_join(merge.condition, state, found, self.now, merge.source_alias, merge.target_alias)
        return SourceShape(
            found,
            (),
            tuple(KeyColumn(key.target, key.type) for key in join.keys),
            tuple(KeyColumn(key.source, key.type) for key in join.keys),
        )

    def bind(self, open_table: OpenTable, state: TableState, rows: pa.Table | None) -> Bound:
        merge = self.merge
        source = read_merge_source(
            rows, merge.condition, state, self.now, merge.source_alias, merge.target_alias, table=open_table.uri
        )

        def matched(touched: Sequence[Touched]) -> NDArray[np.bool_]:
            return source.is_matched([found[found >= 0] for found in (each.live_source_rows for each in touched)])

        return Bound(MergeRows(source, merge, self.clauses, state, self.now), matched)

    def new_rows(
        self, open_table: OpenTable, state: TableState, rows: pa.Table, is_matched: NDArray[np.bool_]
    ) -> Iterator[pa.RecordBatch]:
        operation = self.bind(open_table, state, rows).operation
        is_written = operation.inserted(())
        assert is_written is not None
        return operation.source_batches(is_written & ~is_matched)

    def counts(self, written: int, matched: int, parts: WriteMetrics) -> tuple[int, int, int]:
        return written, parts.rows_updated, parts.rows_deleted
