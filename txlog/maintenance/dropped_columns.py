"""Which data files still hold values of columns that the table no longer has.

In: live files of a table with column mapping (without it, no column can be dropped without rewriting files). Out: the
paths of files whose footers have more columns than the table's schema. PROTOCOL.md, "Column Mapping".
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import pyarrow as pa

from txlog.commit.open_table import OpenTable
from txlog.log.state import TableState
from txlog.protocol.actions import AddFile
from txlog.protocol.column_mapping import ROW_ID_COLUMNS, file_schema
from txlog.protocol.file_columns import add_files_of
from txlog.protocol.schema import Array, DataType, Map, Struct
from txlog.tasks.file_rows import FileRows
from txlog.util.parallel import parallel_map

__all__ = ["files_with_dropped_columns"]

_FOOTERS_AT_ONCE = 8
_FIELD_ID = b"PARQUET:field_id"
_COLUMN_ID = "delta.columnMapping.id"


def files_with_dropped_columns(open_table: OpenTable, state: TableState, files: pa.Table) -> list[str]:
    """The log's paths of the ``files`` that hold a dropped column or struct field.

    Raises ``NotFoundError``, ``CorruptLogError``, ``StorageError`` for a file whose footer cannot be read.
    """
    mode = state.properties.column_mapping_mode
    if mode == "none":
        return []
    by_id = mode == "id"
    rows = FileRows(open_table.store, state)
    configuration = state.metadata.configuration
    known = set(_ids(state.schema) if by_id else _names(file_schema(state.schema)))
    known |= {(configuration.get(key),) for key in ROW_ID_COLUMNS} | set(map(str, ROW_ID_COLUMNS.values()))

    def has_more(add: AddFile) -> tuple[str, bool]:
        schema = rows.arrow_schema(add)
        return add.path, not known.issuperset(_ids_in_file(schema) if by_id else _names(schema))

    adds = add_files_of(files)
    return [path for path, found in parallel_map(has_more, adds, threads=_FOOTERS_AT_ONCE) if found]


def _ids(data_type: DataType) -> Iterator[Hashable]:
    """The column ids of a schema, at any depth."""
    match data_type:
        case Struct(fields):
            for member in fields:
                yield str(member.metadata.get(_COLUMN_ID))
                yield from _ids(member.type)
        case Array(element):
            yield from _ids(element)
        case Map(key, value):
            yield from _ids(key)
            yield from _ids(value)


def _ids_in_file(schema: pa.Schema) -> Iterator[Hashable]:
    """The column ids of a data file, at any depth; no reader of the table finds a column without an id."""
    for path, field in _members(schema):
        found = (field.metadata or {}).get(_FIELD_ID)
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
