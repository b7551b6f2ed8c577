"""Which data files hold a column in a type that the table's column had before, as the work of tasks.

In: live files of a table whose columns were given wider types. Out: the paths of those whose footers have an earlier
type. PROTOCOL.md, "Type Widening".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa

from txlog.core.changes.tasks._file_rows import FileRows
from txlog.core.changes.tasks._task_table import TaskTable
from txlog.core.format.actions import AddFile
from txlog.core.format.column_mapping import file_schema
from txlog.core.format.schema import Array, DataType, Field, Map, Struct, from_arrow, type_name
from txlog.core.format.type_widening import TYPE_CHANGES_KEY
from txlog.core.util import cached_property


class HasOlderTypes(msgspec.Struct, frozen=True, dict=True):
    """The work of a task: to find the files that have an earlier type of a column, at any depth."""

    table: TaskTable

    def __call__(self, adds: Sequence[AddFile]) -> list[str]:
        """Their paths. Raises ``NotFoundError``, ``CorruptLogError``, ``StorageError`` if a footer cannot be read."""
        rows = FileRows(self.table.files, self.table)
        return [add.path for add in adds if self._is_older(rows.arrow_schema(add))]

    def _is_older(self, found: pa.Schema) -> bool:
        known = self._types
        return any(type_name(_type_of(field)) != known[field.name] for field in found if field.name in known)

    @cached_property
    def _types(self) -> dict[str, str]:
        """The types of the columns that have had others, by their names in files."""
        schema = self.table.schema
        changed = [any(TYPE_CHANGES_KEY in each.metadata for each in _fields(field)) for field in schema.fields]
        stored = zip(file_schema(schema), changed, strict=True)
        return {field.name: type_name(_type_of(field)) for field, has_changed in stored if has_changed}


def _type_of(field: pa.Field) -> DataType:
    return from_arrow(pa.schema([field.remove_metadata()])).fields[0].type


def _fields(field: Field) -> Iterator[Field]:
    """A column and the struct fields in it."""
    yield field
    yield from _members(field.type)


def _members(data_type: DataType) -> Iterator[Field]:
    match data_type:
        case Struct(fields):
            for member in fields:
                yield from _fields(member)
        case Array(element):
            yield from _members(element)
        case Map(key, value):
            yield from _members(key)
            yield from _members(value)
