"""Which live files were written for an older definition of the table: their footers are read by workers.

In: an open table and files of a version. Out: the paths of those that still hold values of columns that the table no
longer has, or a column in a type that it had before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from txlog.core.changes.tasks import HasDroppedColumns, HasOlderTypes
from txlog.core.format.column_mapping import physical_name
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.partition_values import canonical_text
from txlog.core.format.type_widening import TYPE_CHANGES_KEY
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.core.workers import shares

if TYPE_CHECKING:
    from txlog.core.workers import GivenWorkers

_FOOTERS_AT_ONCE = 8
_FOOTERS_MAX = 1_000  # for each task


def files_with_dropped_columns(
    open_table: OpenTable, state: TableState, files: pa.Table, workers: GivenWorkers | None = None
) -> list[str]:
    """The paths, as the log has them, of those ``files`` that hold a dropped column, or a dropped struct field.

    Raises ``NotFoundError``, ``CorruptLogError``, ``StorageError`` for a file whose footer cannot be read.
    """
    if state.properties.column_mapping_mode == "none":
        return []
    return _found(open_table, HasDroppedColumns(open_table.task_table(state)), files, workers)


def files_with_older_types(
    open_table: OpenTable, state: TableState, files: pa.Table, workers: GivenWorkers | None = None
) -> list[str]:
    """The same of those ``files`` that hold a column in a narrower type that it had before, or whose partition values
    the log has as text of such a type: readers of the new one alone need not take it. Raises the same errors."""
    if TYPE_CHANGES_KEY not in state.metadata.schema_string:
        return []
    found = _found(open_table, HasOlderTypes(open_table.task_table(state)), files, workers)
    return [*dict.fromkeys((*found, *_files_with_older_texts(state, files)))]


def _files_with_older_texts(state: TableState, files: pa.Table) -> Iterator[str]:
    fields = [field for name in state.partition_columns if (field := state.schema.find(name)) is not None]
    types = {physical_name(field): field.type for field in fields if TYPE_CHANGES_KEY in field.metadata}
    for add in add_files_of(files) if types else ():
        texts = {key: add.partition_values.get(key) for key in types}
        if any(text != canonical_text(text, types[key]) for key, text in texts.items()):
            yield add.path


def _found(
    open_table: OpenTable, work: HasDroppedColumns | HasOlderTypes, files: pa.Table, workers: GivenWorkers | None
) -> list[str]:
    places = open_table.workers(workers, _FOOTERS_AT_ONCE)
    found = dict(places.map(work, shares(add_files_of(files), places, _FOOTERS_MAX)))
    return [path for number in sorted(found) for path in found[number]]
