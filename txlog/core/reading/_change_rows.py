"""Reads the changes of versions: rows of change files, added files and removed files, each with its change type.

In: a selection of all columns of the table, as the feed's last version defines them, and the `ChangedRows` of each
version. Out: batches of the requested columns and the feed's columns. PROTOCOL.md, "Change Data Files".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.core.format.actions import DeletionVectorDescriptor
from txlog.core.format.arrow.arrays import array_of, from_flags, numbers_of
from txlog.core.format.arrow.parquet_rows import row_count, rows_by_group
from txlog.core.format.change_data import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, FEED_FIELDS
from txlog.core.format.changed_rows import ChangedRows
from txlog.core.format.deletion_vector import vector_path
from txlog.core.format.paths import stored_path
from txlog.core.format.schema import Field, Struct, to_arrow, type_to_arrow
from txlog.core.predicates import evaluate
from txlog.core.predicates.terms.predicate import Predicate
from txlog.core.reading._deletion_vectors import DeletionVectorReader
from txlog.core.reading._footers import path_in_store, read_footer
from txlog.core.reading._scan_task import ScanTask, Selection, TaskReader
from txlog.core.store import TableFiles
from txlog.errors import CorruptLogError, NotFoundError, TxlogError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_POSITION = "row\0position"


class VersionChanges(msgspec.Struct, frozen=True):
    """What one version changed, and when it was committed (ms since the epoch)."""

    version: int
    timestamp_ms: int
    files: tuple[ChangedRows, ...]


class ChangeTask(msgspec.Struct, frozen=True):
    """Changes of one version to read from one file: plain data, without credentials.

    ``table`` selects all columns of the table; ``fields`` are the columns to return, in this order, including those of
    the feed.
    """

    table: Selection
    fields: tuple[Field, ...]
    predicate: Predicate | None
    changes: VersionChanges
    size_bytes: int


class ChangeReader:
    """Reads the changes of one table's versions as the columns of ``table``.

    Args:
        store: The table's store.
        table: All columns of the version with the schema for reading, as ``scan_plan.select`` returns them.
        fields: The columns of the table and of the feed to return, in this order.
        predicate: Which rows to return, bound to the columns of the table and the feed; None means all.
    """

    def __init__(
        self, store: TableFiles, table: Selection, fields: tuple[Field, ...], predicate: Predicate | None
    ) -> None:
        self._store = store
        self.schema = to_arrow(Struct(fields))
        read = {field.name for field in fields} | (predicate.columns() if predicate is not None else frozenset())
        asks_for_feed = predicate is not None and any(field.name in predicate.columns() for field in FEED_FIELDS)
        # Row group statistics apply only to conditions on the table's own columns.
        self._predicate = predicate if asks_for_feed else None
        self._data = replace(
            table,
            fields=tuple(field for field in table.schema.fields if field.name in read),
            predicate=None if asks_for_feed else predicate,
            position_column=_POSITION,
        )
        self._changes = replace(
            self._data,
            fields=(*self._data.fields, CHANGE_TYPE),
            schema=Struct((*table.schema.fields, CHANGE_TYPE)),
            position_column=None,
            # Change files have physical column names; the feed's column has no id.
            column_mapping_mode="name" if table.column_mapping_mode == "id" else table.column_mapping_mode,
        )
        self._data_reader = TaskReader(store, self._data)
        self._change_reader = TaskReader(store, self._changes)

    def batches(self, changes: VersionChanges) -> Iterator[pa.RecordBatch]:
        """The changes of one version, file by file.

        Raises:
            NotFoundError: A file is missing: this version's changes were vacuumed.
            CorruptLogError: A file or deletion vector is damaged.
            StorageError: The store failed.
        """
        for rows in changes.files:
            try:
                for batch in self._rows_of(rows, changes.version):
                    if (found := self._finished(batch, changes)).num_rows:
                        yield found
            except TxlogError as error:
                raise self._explained(error, rows, changes.version) from error

    def _rows_of(self, rows: ChangedRows, version: int) -> Iterator[pa.RecordBatch]:
        path = path_in_store(self._store.uri, rows.path)
        is_change_file = rows.change_type is None
        selection = self._changes if is_change_file else self._data
        values = rows.partition_values or {}
        task = ScanTask(path, rows.path, rows.size_bytes, selection, values, rows.vector)
        if is_change_file:
            yield from self._change_reader.batches(task)
            return
        wanted = None
        if rows.dead_under is not None:
            wanted, row_groups = self._between(rows, path, version)
            task = replace(task, deletion_vector=None, row_groups=row_groups)
        for batch in self._data_reader.batches(task):
            if wanted is not None:
                batch = _at(batch, wanted)
            kind = pa.repeat(array_of([rows.change_type], pa.string())[0], batch.num_rows)
            yield batch.drop_columns([_POSITION]).append_column(CHANGE_TYPE.name, kind)

    def _between(self, rows: ChangedRows, path: str, version: int) -> tuple[NDArray[np.uint64], tuple[int, ...]]:
        """The rows that are dead in one vector and live in the other, and their row groups."""
        metadata = read_footer(self._store, path, path, version=version)
        ends = np.cumsum(rows_by_group(metadata))
        vectors = DeletionVectorReader(self._store, version)
        assert rows.dead_under is not None
        found = vectors.dead_rows(rows.dead_under, row_count(metadata))
        if rows.vector is not None:
            dead = vectors.dead_rows(rows.vector, row_count(metadata))
            found = np.setdiff1d(found, dead, assume_unique=True)
        return found, tuple(np.unique(np.searchsorted(ends, found, side="right")).tolist())

    def _finished(self, batch: pa.RecordBatch, changes: VersionChanges) -> pa.RecordBatch:
        count = batch.num_rows
        version = pa.repeat(array_of([changes.version], pa.int64())[0], count)
        moment = array_of([changes.timestamp_ms * 1000], pa.int64())[0].cast(type_to_arrow(COMMIT_TIMESTAMP.type))
        batch = batch.append_column(COMMIT_VERSION.name, version)
        batch = batch.append_column(COMMIT_TIMESTAMP.name, pa.repeat(moment, count))
        if self._predicate is not None:
            batch = batch.filter(evaluate(self._predicate, batch))
        return pa.RecordBatch.from_arrays([batch.column(name) for name in self.schema.names], schema=self.schema)

    def _explained(self, error: TxlogError, rows: ChangedRows, version: int) -> TxlogError:
        """The error with the version whose changes were read; an old version's file may have been vacuumed
        legitimately."""
        path = error.path or rows.path
        is_gone = isinstance(error, NotFoundError) or (
            isinstance(error, CorruptLogError)
            and not all(self._has(vector) for vector in (rows.vector, rows.dead_under))
        )
        if is_gone:
            return NotFoundError(
                f"the changes of version {version} need {path}, which is missing: most likely a vacuum deleted it."
                " Changes can be read only as far back as vacuum keeps files: start from a later version",
                table=self._store.uri,
                version=version,
                path=path,
            )
        error.table, error.version = error.table or self._store.uri, version
        return error

    def _has(self, vector: DeletionVectorDescriptor | None) -> bool:
        named = None if vector is None else vector_path(vector)
        if named is None:
            return True
        try:
            self._store.files.open(stored_path(self._store.uri, named)).close()
        except (FileNotFoundError, NotFoundError):
            return False
        return True


def _at(batch: pa.RecordBatch, wanted: NDArray[Any]) -> pa.RecordBatch:
    positions = numbers_of(batch.column(_POSITION)).astype(np.uint64)
    return batch.filter(from_flags(np.isin(positions, wanted, assume_unique=True)))
