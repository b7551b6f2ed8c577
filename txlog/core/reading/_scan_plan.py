"""Plans a scan: from a table version and its live files to one task for each file.

In: a table's definition, the files that may hold matching rows (pruned once by the caller), the requested columns and
a bound predicate. Out: a `ScanPlan`: tasks for workers, or their batches, read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from txlog.core.format.actions import DeletionVectorDescriptor
from txlog.core.format.arrow.arrays import from_numbers
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.features import check_can_read
from txlog.core.format.schema import Field
from txlog.core.format.stats_struct import recorded_rows
from txlog.core.format.wire import ActionError
from txlog.core.predicates.terms.predicate import Predicate
from txlog.core.reading._footers import path_in_store
from txlog.core.reading._scan_task import ScanTask, Selection, TaskReader
from txlog.core.store import TableFiles
from txlog.core.util import invalid
from txlog.errors import CorruptLogError, InvalidInputError, TxlogError

_TASKS_AT_ONCE = 1024
_NEEDED = ["path", "size", "partitionValues", "deletionVector"]
"""The columns of ``DeltaLog.files`` that tasks are made from, with the number of rows, which is in ``stats``."""
_ROWS = "numRecords"


class ScanPlan(msgspec.Struct, frozen=True):
    """What to read, and from which files: rows of ``DeltaLog.files`` or ``DeltaLog.matching_files``."""

    selection: Selection
    files: pa.Table

    def tasks(self) -> Iterator[ScanTask]:
        """A task for each file, in the order of the files.

        Raises:
            CorruptLogError: The log's entry for a file cannot be parsed.
        """
        for start in range(0, self.files.num_rows, _TASKS_AT_ONCE):
            for row in _needed(self.files.slice(start, _TASKS_AT_ONCE)).to_pylist():
                yield _task(self.selection, row)

    def __reduce__(self) -> tuple[Any, ...]:
        """It arrives with the columns that tasks need. Arrow itself would pickle the whole table that a slice is of."""
        body = pa.BufferOutputStream()
        files = _needed(self.files)
        with pa.ipc.new_stream(body, files.schema) as writer:
            writer.write_table(files)
        return _arrived, (self.selection, body.getvalue().to_pybytes())

    def batches(self, store: TableFiles, *, wants_all: bool = False) -> Iterator[pa.RecordBatch]:
        """The rows of all tasks, in order. Raises what `tasks` and `ScanTask.batches` raise."""
        return batches_of(store, TaskReader(store, self.selection), self.tasks(), wants_all)

    def to_arrow(self, store: TableFiles) -> pa.Table:
        """The rows of all tasks as one table. Raises what `batches` raises."""
        return pa.Table.from_batches(self.batches(store, wants_all=True), schema=self.selection.arrow_schema())


def batches_of(
    store: TableFiles, reader: TaskReader, tasks: Iterable[ScanTask], wants_all: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows of the tasks, in order. If each file costs requests, several are read at a time (see ``read_ahead``);
    else small files that follow each other are read together."""
    if not store.has_cheap_calls:
        from txlog.core.reading._read_ahead import read_ahead

        yield from read_ahead(reader, tasks, wants_all=wants_all)
        return
    yield from reader.in_order(tasks, wants_all=wants_all)


def select(
    uri: str,
    state: DefinedTable,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    *,
    file_column: str | None = None,
    position_column: str | None = None,
) -> Selection:
    """Which columns and rows of a table version to read.

    Args:
        uri: The table, for errors.
        state: The version to read.
        columns: Names in the requested order, in any case; None means all, in the table's order.
        predicate: The condition on rows, bound to the table's schema; None means all.
        file_column: Add the path of each row's file under this name.
        position_column: Add each row's number in its file under this name.

    Raises:
        InvalidInputError: A column does not exist, is named twice, or has the same name as an extra column.
        UnsupportedFeatureError: The table needs a reader feature that this release lacks.
    """
    if isinstance(columns, str) or not isinstance(columns, Iterable | None):
        example = f", such as [{columns!r}]" if isinstance(columns, str) else ""
        raise invalid("columns", columns, f"a list of names{example}", table=uri)
    with TxlogError.located(uri, state.version):
        check_can_read(state.protocol, state.metadata)
        fields = _fields(state, columns)
        extra = [name for name in (file_column, position_column) if name is not None]
        for name in extra:
            if state.schema.find(name) is not None or extra.count(name) > 1:
                raise InvalidInputError(f"column {name!r} already exists: choose another name for the extra column")
        return Selection(
            uri,
            state.version,
            fields,
            predicate,
            state.schema,
            state.partition_columns,
            state.properties.column_mapping_mode,
            file_column,
            position_column,
        )


def _needed(files: pa.Table) -> pa.Table:
    if _ROWS in files.column_names:  # it has arrived from elsewhere
        return files
    found = files.select(_NEEDED)
    if "stats" not in files.column_names:
        return found.append_column(_ROWS, pa.nulls(len(files), pa.int64()))
    counts = [recorded_rows(chunk) for chunk in files.column("stats").chunks]
    known = [from_numbers(each, each >= 0) for each in counts]
    return found.append_column(_ROWS, pa.chunked_array(known, pa.int64()))


def _arrived(selection: Selection, files: bytes) -> ScanPlan:
    return ScanPlan(selection, pa.ipc.open_stream(files).read_all())


def _fields(state: DefinedTable, columns: Sequence[str] | None) -> tuple[Field, ...]:
    if columns is None:
        return state.schema.fields
    wanted = tuple(_field(state, name) for name in columns)
    if len({field.name for field in wanted}) < len(wanted):
        raise InvalidInputError(f"columns contains a name twice: {', '.join(columns)}")
    return wanted


def _field(state: DefinedTable, name: Any) -> Field:
    found = state.schema.find(name) if isinstance(name, str) else None
    if found is None:
        raise InvalidInputError(f"there is no column {name!r}; the table has {', '.join(state.schema.names)}")
    return found


def _task(selection: Selection, row: dict[str, Any]) -> ScanTask:
    uri, log_path = selection.uri, row["path"]
    with TxlogError.located(uri, selection.version):
        path = path_in_store(uri, log_path)
        try:
            vector = row["deletionVector"] and DeletionVectorDescriptor.from_json(row["deletionVector"])
        except ActionError as error:
            raise CorruptLogError(f"the log's entry for a file is damaged: {error}", path=log_path) from error
        return ScanTask(
            path,
            log_path,
            row["size"],
            selection,
            dict(row["partitionValues"] or ()),
            vector,
            num_records=row[_ROWS],
        )
