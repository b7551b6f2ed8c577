"""Specs: row changes as plain data that can be sent to tasks.

In: the caller's arguments. Out: the `RowOperation` for some source rows, in a task or in the driver. A
task binds a spec only to the source rows whose keys its files may hold. Changes without a source have their specs with
their operations.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.core.changes.tasks._operation import RowOperation
from txlog.core.changes.tasks._task_table import TaskTable
from txlog.core.changes.tasks.operations import (
    ComputedKey,
    MergeClause,
    MergeOptions,
    MergeRows,
    UpsertInPlace,
    UpsertOptions,
    for_source,
    keeping_numbers,
    merge_join,
    read_merge_source,
    read_upsert,
    read_upsert_source,
    require_columns,
    source_columns,
    source_computed,
)
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.properties import merge_options
from txlog.core.format.schema import Struct, to_arrow
from txlog.core.row_rules import ComputedColumns, KeyColumn
from txlog.errors import UnsupportedFeatureError
from txlog.result import WriteMetrics

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self


class RowSpec(Protocol):
    """One row change. Can be pickled."""

    what: ClassVar[str]
    """Its name in error messages: ``"a delete"``."""

    def bind(self, table: TaskTable, rows: pa.Table | None, elsewhere: NDArray[np.bool_] | None = None) -> RowOperation:
        """Bind the change to a version and to some source rows.

        Args:
            table: The table at a version.
            rows: Rows of the source; None for a change without a source.
            elsewhere: Which of these rows another task writes in place of its rows, if the change `writes_in_place`;
                None if the operation is not executed.

        Raises:
            TxlogError: What the method of `Table` raises.
        """


class SourceShape(msgspec.Struct, frozen=True):
    """Which source columns are used, their types, and the keys that join source rows with table rows.

    ``left_out`` names ignored source columns. ``table_keys`` and ``source_keys`` have the same length; both sides of a
    pair are cast to its one type. Without keys, any two rows may join. ``computed`` are generated columns of
    ``schema``, which the source may lack.
    """

    schema: Struct
    left_out: tuple[str, ...]
    table_keys: tuple[KeyColumn, ...]
    source_keys: tuple[KeyColumn | ComputedKey, ...]
    computed: ComputedColumns | None = None


AnySpec = TypeVar("AnySpec", bound=RowSpec)


class SourceSpec(RowSpec, Protocol):
    """A change that has a source."""

    @property
    def needs_distinct_keys(self) -> bool:
        """Whether each source row must have a key that no other row has."""

    @property
    def reads_every_file(self) -> bool:
        """Whether table rows that no source row matches may change."""

    @property
    def writes_every_row(self) -> bool:
        """Whether each source row is written, with or without a match."""

    @property
    def writes_in_place(self) -> bool:
        """Whether each part writes the source rows that replace its own rows, one for each key."""

    def for_columns(self, found: Sequence[str], target: DefinedTable) -> Self:
        """The same change for a source with these columns, which may lack some of the table's.

        Raises:
            InvalidInputError: It lacks a column that the change names.
        """

    def may_add(self, num_rows: int, num_matched: int) -> bool:
        """Whether a source row may add a row, given the numbers of source rows and of matched source rows."""

    def shape(self, target: TaskTable, found: Struct, table: str) -> SourceShape:
        """Choose the columns to use.

        Args:
            target: The table's definition.
            found: The source's columns.
            table: The table's URI, for errors.

        Raises:
            SchemaMismatchError: The columns do not fit the table.
            InvalidInputError: The keys or the condition do not fit the source or the table.
        """

    def new_rows(self, table: TaskTable, rows: pa.Table, is_matched: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        """The rows that some source rows add to the table, not counting new versions of existing rows."""

    def counts(self, written: int, matched: int, parts: WriteMetrics) -> tuple[int, int, int]:
        """The numbers of inserted, updated and deleted rows.

        Args:
            written: How many new rows were written.
            matched: How many source rows matched.
            parts: What all parts did, added up.
        """


def adapted(spec: AnySpec, table: DefinedTable) -> AnySpec:
    """The same change, adapted to the table's row ids, change data feed and identity columns."""
    properties = table.properties
    if not isinstance(spec, UpsertSpec):
        return spec
    in_place = properties.enable_change_data_feed or properties.enable_row_tracking
    upsert = keeping_numbers(spec.upsert, table)
    return replace(spec, upsert=upsert, updates_in_place=spec.updates_in_place or in_place)


class UpsertSpec(msgspec.Struct, frozen=True):
    """`Table.upsert`, for a source whose keys are already distinct.

    With ``updates_in_place``, a source row becomes a new version of the row that it replaces: it keeps the row's id,
    and the change data feed records both as one update.
    """

    what: ClassVar[str] = "an upsert"
    upsert: UpsertOptions
    updates_in_place: bool = False

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
        return self.updates_in_place and self._writes_matched

    @property
    def _adds_matched(self) -> bool:
        """Whether matched source rows are added like the others, wherever they match."""
        return self._writes_matched and not self.updates_in_place

    @property
    def writes_every_row(self) -> bool:
        return self._adds_matched and self.upsert.when_not_matched == "insert"

    def for_columns(self, found: Sequence[str], target: DefinedTable) -> UpsertSpec:
        return replace(self, upsert=for_source(self.upsert, found, target))

    def may_add(self, num_rows: int, num_matched: int) -> bool:
        inserts = self.upsert.when_not_matched == "insert" and num_matched < num_rows
        return inserts or (self._adds_matched and num_matched > 0)

    def shape(self, target: TaskTable, found: Struct, table: str) -> SourceShape:
        if merge_options(target.metadata.configuration):
            raise UnsupportedFeatureError(
                "the table property txlog.merge-engine defines how rows with the same key are merged, which"
                " txlog.spark.upsert and to.upsert do not support: write the rows with"
                " df.write.format('txlog').mode('append').option('upsertKeys', '<keys>').save(path), a stream's rows"
                " with writeStream or foreach_batch(path, options={'upsertKeys': '<keys>'})",
                features=("txlog.merge-engine",),
                table=table,
                version=target.version,
            )
        keys, _, schema = source_columns(self.upsert, target.schema, target.partition_columns)
        computed = source_computed(self.upsert, target, table, target.numbers)
        may_lack = self.upsert.missing_columns == "default"
        require_columns(schema, keys, to_arrow(found), table, computed, may_lack=may_lack)
        left_out = tuple(name for name in target.schema.names if schema.find(name) is None)
        return SourceShape(schema, left_out, keys, keys, computed)

    def bind(self, table: TaskTable, rows: pa.Table | None, elsewhere: NDArray[np.bool_] | None = None) -> RowOperation:
        upsert = replace(self.upsert, on_duplicate="error", sequence_by=None)
        if self.writes_in_place and elsewhere is not None:
            source, _ = read_upsert_source(table, table.uri, rows, upsert)
            return UpsertInPlace(source, upsert, table, elsewhere)
        return read_upsert(table, table.uri, rows, upsert)

    def new_rows(self, table: TaskTable, rows: pa.Table, is_matched: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        is_written = is_matched if self._adds_matched else np.zeros(len(is_matched), dtype=bool)
        if self.upsert.when_not_matched == "insert":
            is_written = is_written | ~is_matched
        return iter(rows.filter(pa.array(is_written)).to_batches())

    def counts(self, written: int, matched: int, parts: WriteMetrics) -> tuple[int, int, int]:
        if not self._writes_matched:
            return written, parts.rows_updated, 0
        inserted = written - matched if self._adds_matched else written
        return inserted, matched, parts.rows_updated + parts.rows_deleted - matched


class MergeSpec(msgspec.Struct, frozen=True):
    """`Table.merge`."""

    what: ClassVar[str] = "a merge"
    merge: MergeOptions
    clauses: tuple[MergeClause, ...]
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

    def for_columns(self, found: Sequence[str], target: DefinedTable) -> MergeSpec:
        return self

    def may_add(self, num_rows: int, num_matched: int) -> bool:
        return num_matched < num_rows and any(clause.when == "not matched" for clause in self.clauses)

    def shape(self, target: TaskTable, found: Struct, table: str) -> SourceShape:
        merge = self.merge
        join = merge_join(merge.condition, target, found, self.now, merge.source_alias, merge.target_alias)
        return SourceShape(
            found,
            (),
            tuple(KeyColumn(key.target_path, key.type) for key in join.keys if key.target_path is not None),
            tuple(
                KeyColumn(key.source_path, key.type)
                if key.source_path is not None
                else ComputedKey(key.source, key.type)
                for key in join.keys
                if key.target_path is not None
            ),
        )

    def bind(self, table: TaskTable, rows: pa.Table | None, elsewhere: NDArray[np.bool_] | None = None) -> RowOperation:
        merge = self.merge
        source = read_merge_source(
            rows, merge.condition, table, self.now, merge.source_alias, merge.target_alias, table=table.uri
        )
        return MergeRows(source, merge, self.clauses, table, self.now, numbers=table.numbers)

    def new_rows(self, table: TaskTable, rows: pa.Table, is_matched: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        operation = self.bind(table, rows)
        return operation.source_batches(operation.inserted(()) & ~is_matched)

    def counts(self, written: int, matched: int, parts: WriteMetrics) -> tuple[int, int, int]:
        return written, parts.rows_updated, parts.rows_deleted
