"""Columns that rows lack: a row that replaces a whole row would be null there.

In: the columns of a table and of data. Out: the paths of missing columns and struct fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from txlog.core.format.schema import Array, DataType, Field, Map, Struct


def absent_columns(schema: Struct, found: pa.Schema) -> list[str]:
    """The paths that ``found`` lacks, in schema order; for a missing column, only its own path."""
    return list(_absent(schema.fields, "", found))


def _absent(fields: Sequence[Field], prefix: str, found: pa.Schema | pa.StructType) -> Iterator[str]:
    """The paths of the columns, or of their fields, that ``found`` lacks."""
    known = Struct(tuple(fields))
    given = {there.name: other.type for other in found if (there := known.find(other.name)) is not None}
    for field in fields:
        path, other = f"{prefix}{field.name}", given.get(field.name)
        if other is None:
            yield path
        else:
            yield from _absent_members(field.type, path, other)


def _absent_members(kind: DataType, path: str, found: pa.DataType) -> Iterator[str]:
    """The same for a type. Types that do not fit each other are left to the conversion."""
    if isinstance(kind, Struct) and pa.types.is_struct(found):
        yield from _absent(kind.fields, f"{path}.", found)
    elif isinstance(kind, Array) and isinstance(getattr(found, "value_type", None), pa.DataType):
        yield from _absent_members(kind.element, f"{path}.element", found.value_type)
    elif isinstance(kind, Map) and pa.types.is_map(found):
        yield from _absent_members(kind.key, f"{path}.key", found.key_type)
        yield from _absent_members(kind.value, f"{path}.value", found.item_type)
