"""Which data files still hold values of columns that the table no longer has, as the work of tasks.

In: live files of a table with column mapping (without it, no column can be dropped without rewriting files). Out: the
paths of those whose footers have more columns than the table's schema. PROTOCOL.md, "Column Mapping".
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import msgspec
import pyarrow as pa

from txlog.core.changes.tasks._file_rows import FileRows
from txlog.core.changes.tasks._task_table import TaskTable
from txlog.core.format.actions import AddFile
from txlog.core.format.column_mapping import PARQUET_FIELD_ID, ROW_ID_COLUMNS, field_id, file_schema
from txlog.core.format.schema import Array, DataType, Map, Struct
from txlog.core.util import cached_property


class HasDroppedColumns(msgspec.Struct, frozen=True, dict=True):
    """The work of a task: to find the files that hold a dropped column, or a dropped struct field."""

    table: TaskTable

    def __call__(self, adds: Sequence[AddFile]) -> list[str]:
        """Raises ``NotFoundError``, ``CorruptLogError``, ``StorageError`` if a footer cannot be read."""
        rows = FileRows(self.table.files, self.table)
        return [add.path for add in adds if self._has_more(rows.arrow_schema(add))]

    def _has_more(self, schema: pa.Schema) -> bool:
        return not self._known.issuperset(_ids_in_file(schema) if self._by_id else _names(schema))

    @property
    def _by_id(self) -> bool:
        return self.table.properties.column_mapping_mode == "id"

    @cached_property
    def _known(self) -> frozenset[Hashable]:
        """The columns that a file of the table may have."""
        table, configuration = self.table, self.table.metadata.configuration
        known = set(_ids(table.schema) if self._by_id else _names(file_schema(table.schema)))
        known |= {(configuration.get(key),) for key in ROW_ID_COLUMNS} | set(map(str, ROW_ID_COLUMNS.values()))
        return frozenset(known)


def _ids(data_type: DataType) -> Iterator[Hashable]:
    """The column ids of a schema, at any depth."""
    match data_type:
        case Struct(fields):
            for member in fields:
                yield str(field_id(member))
                yield from _ids(member.type)
        case Array(element):
            yield from _ids(element)
        case Map(key, value):
            yield from _ids(key)
            yield from _ids(value)


def _ids_in_file(schema: pa.Schema) -> Iterator[Hashable]:
    """The column ids of a data file, at any depth; no reader of the table finds a column without an id."""
    for path, field in _members(schema):
        found = (field.metadata or {}).get(PARQUET_FIELD_ID)
        yield path if found is None else found.decode()


def _names(schema: pa.Schema) -> Iterator[Hashable]:
    """The path of each column and struct field."""
    for path, _ in _members(schema):
        yield path


def _members(schema: pa.Schema) -> Iterator[tuple[tuple[str, ...], pa.Field]]:
    """Columns and struct fields. Elements, keys and values do not count, but fields of structs inside them do."""
    for field in schema:
        yield (field.name,), field
        yield from _inside(field.type, (field.name,))


def _inside(kind: pa.DataType, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], pa.Field]]:
    if pa.types.is_struct(kind):
        for member in kind:
            yield (*path, member.name), member
            yield from _inside(member.type, (*path, member.name))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _inside(kind.value_type, (*path, "element"))
    elif pa.types.is_map(kind):
        yield from _inside(kind.key_type, (*path, "key"))
        yield from _inside(kind.item_type, (*path, "value"))
