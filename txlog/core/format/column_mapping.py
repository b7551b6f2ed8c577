"""Column mapping: the names that columns have in data files, in statistics and in partition values.

In: a schema whose fields carry an id and a physical name in their metadata. Out: the same schema under the names of
the files, or with ids and names for the fields that have none yet. A table without column mapping has one name for
both, and all functions here return their input. PROTOCOL.md, "Column Mapping".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from txlog.core.format.actions import Metadata
from txlog.core.format.schema import Array, DataType, Field, Map, Struct, parse_schema, to_arrow, with_fields
from txlog.errors import ASK_VERIFY, CorruptLogError

MODE_KEY = "delta.columnMapping.mode"
MAX_COLUMN_ID_KEY = "delta.columnMapping.maxColumnId"
PARQUET_FIELD_ID = b"PARQUET:field_id"
"""Arrow field metadata key that pyarrow writes to, and reads from, a Parquet file's field id."""

MAPPING_PREFIX = "delta.columnMapping."
"""The prefix of the keys of ids and physical names in field metadata."""

NESTED_IDS_KEY = "delta.columnMapping.nested.ids"
"""Field metadata: the ids of the elements, keys and values in the lists and maps of this column, by path."""

ROW_ID_COLUMNS = {
    "delta.rowTracking.materializedRowIdColumnName": 2147483540,
    "delta.rowTracking.materializedRowCommitVersionColumnName": 2147483539,
}
"""The properties that name the columns in which rewritten files keep row ids and their versions, and Iceberg's field
ids for these columns. Files of tables with column mapping use these ids, as IcebergCompatV3 requires."""

ID_KEY = "delta.columnMapping.id"
"""Field metadata: the column's id."""

PHYSICAL_NAME_KEY = "delta.columnMapping.physicalName"
"""Field metadata: the column's name in files."""

_Change = Callable[[Field], Field]


def mapping_mode(configuration: Mapping[str, str]) -> str:
    """``"none"``, ``"name"`` or ``"id"``; an unknown mode as it is written."""
    return configuration.get(MODE_KEY, "none").strip().lower()


def schema_of(metadata: Metadata) -> Struct:
    """The table's schema; its fields have ids and physical names if, and only if, the table maps its columns.

    Raises CorruptLogError if the table maps its columns and a field lacks its id or physical name, and whatever
    `parse_schema` raises.
    """
    schema = parse_schema(metadata.schema_string)
    mode = mapping_mode(metadata.configuration)
    if mode == "none":
        return without_metadata(schema, MAPPING_PREFIX) if MAPPING_PREFIX in metadata.schema_string else schema
    _each(schema, _checked_by_id if mode == "id" else _checked_by_name)
    return schema


def physical_name(field: Field) -> str:
    """The name of this column in files, statistics and partition values."""
    name: str = field.metadata.get(PHYSICAL_NAME_KEY, field.name)
    return name


def field_id(field: Field) -> int | None:
    """The id that the column has in Parquet files; None in a table that does not map its columns."""
    return field.metadata.get(ID_KEY)


def with_field_id(field: Field, number: int) -> Field:
    """The field with this id for Parquet files."""
    return replace(field, metadata={**field.metadata, ID_KEY: number})


def nested_ids(field: Field) -> Mapping[str, int]:
    """The ids of the elements, keys and values in a column's lists and maps, which have no name and so are not fields.

    A path begins with the column's physical name: ``tags.element``, ``prices.value.element``. It ends at a struct,
    whose fields have their own ids. If a file has ids, Iceberg readers find its columns by id alone.
    """
    found = field.metadata.get(NESTED_IDS_KEY)
    if not isinstance(found, Mapping):
        return {}
    return {path: number for path, number in found.items() if type(number) is int}


def is_mapped(schema: Struct) -> bool:
    """Whether the fields have physical names of their own."""
    return any(PHYSICAL_NAME_KEY in field.metadata for field in schema.fields)


def physical_schema(schema: Struct) -> Struct:
    """The same fields under their physical names, at every depth. Returns the same object if nothing is mapped."""
    if not is_mapped(schema):
        return schema
    return _each(schema, lambda field: replace(field, name=physical_name(field)))


def repeated_physical_names(schema: Struct) -> list[str]:
    """The physical names that several columns have, or several fields of a struct at any depth: files have one column
    for all of them."""
    return list(_repeated(schema))


def physical_names(schema: Struct, columns: Iterable[str]) -> tuple[str, ...]:
    """The physical names of some top-level columns. A name that the schema lacks is returned unchanged."""
    by_name = {field.name: physical_name(field) for field in schema.fields}
    return tuple(by_name.get(name, name) for name in columns)


def physical_fields(schema: Struct, columns: Iterable[str]) -> dict[str, Field]:
    """Some top-level columns by their physical names."""
    wanted = set(columns)
    return {physical_name(field): field for field in schema.fields if field.name in wanted}


def physical_path(schema: Struct, path: tuple[str, ...]) -> tuple[str, ...]:
    """The physical names that lead to the struct field that ``path`` names. Raises KeyError if there is none."""
    found = schema.find(path[0])
    if found is None:
        raise KeyError(path[0])
    if len(path) == 1:
        return (physical_name(found),)
    if not isinstance(found.type, Struct):
        raise KeyError(path[1])
    return (physical_name(found), *physical_path(found.type, path[1:]))


def file_schema(schema: Struct) -> pa.Schema:
    """The Arrow schema to write data files with: physical names, and field ids if the table maps its columns."""
    physical = physical_schema(schema)
    fields = to_arrow(physical)
    return fields if physical is schema else pa.schema(map(_with_field_id, fields, physical.fields))


def file_ids(columns: Iterable[pa.Field], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int | None]]:
    """The id of each column of a data file and of what is inside it, None for one without, by its path: names, and in
    lists and maps ``element``, ``key`` and ``value``."""
    for column in columns:
        yield from _ids_inside(column, (*above, column.name))


def without_metadata(schema: Struct, *prefixes: str) -> Struct:
    """The schema without the field metadata whose keys have these prefixes, which belongs to one table only."""

    def stripped(field: Field) -> Field:
        kept = {key: value for key, value in field.metadata.items() if not key.startswith(prefixes)}
        return field if len(kept) == len(field.metadata) else replace(field, metadata=kept)

    return _each(schema, stripped)


def assign(schema: Struct, max_column_id: int, new_name: Callable[[Field], str]) -> tuple[Struct, int]:
    """Give every field that has no id the next one above ``max_column_id``, and a physical name by ``new_name``.

    Elements, keys and values get ids too (`nested_ids`). Returns the schema and the highest id in use, at least every
    field's id.
    """
    highest = max([max_column_id, *ids_of(schema)])

    def next_id() -> int:
        nonlocal highest
        highest += 1
        return highest

    def assigned(field: Field) -> Field:
        metadata = dict(field.metadata)
        if ID_KEY not in metadata:
            metadata[ID_KEY] = next_id()
        metadata.setdefault(PHYSICAL_NAME_KEY, new_name(field))
        paths = list(_nested_paths(field.type, metadata[PHYSICAL_NAME_KEY]))
        if paths:
            known = nested_ids(field)
            metadata[NESTED_IDS_KEY] = {path: known.get(path) or next_id() for path in paths}
        return replace(field, metadata=metadata)

    return _each(schema, assigned), highest


# --- walking a schema ---------------------------------------------------------------------------------------------


def _each(schema: Struct, change: _Change) -> Struct:
    """The schema with every field, at every depth, replaced; a field before those inside it."""

    def changed(field: Field) -> Field:
        field = change(field)
        inner = with_fields(field.type, changed)
        return field if inner is field.type else replace(field, type=inner)

    return Struct(tuple(map(changed, schema.fields)))


def ids_of(schema: Struct) -> list[int]:
    """The ids of all fields at every depth, and of elements, keys and values."""
    found: list[int] = []

    def note(field: Field) -> Field:
        if isinstance(field.metadata.get(ID_KEY), int):
            found.append(field.metadata[ID_KEY])
        found.extend(nested_ids(field).values())
        return field

    _each(schema, note)
    return found


def _repeated(data_type: DataType) -> Iterator[str]:
    match data_type:
        case Struct(fields):
            yield from (name for name, count in Counter(map(physical_name, fields)).items() if count > 1)
            for field in fields:
                yield from _repeated(field.type)
        case Array(element):
            yield from _repeated(element)
        case Map(key, value):
            yield from _repeated(key)
            yield from _repeated(value)


def _checked_by_name(field: Field) -> Field:
    name = field.metadata.get(PHYSICAL_NAME_KEY)
    if type(name) is not str or not name:
        raise CorruptLogError(
            f"the table maps its columns, but column {field.name!r} has no {PHYSICAL_NAME_KEY}", repair=ASK_VERIFY
        )
    return field


def _checked_by_id(field: Field) -> Field:
    if type(field.metadata.get(ID_KEY)) is not int:
        raise CorruptLogError(
            f"the table maps its columns by id, but column {field.name!r} has no {ID_KEY}", repair=ASK_VERIFY
        )
    return _checked_by_name(field)


def _nested_paths(data_type: DataType, path: str) -> Iterator[str]:
    match data_type:
        case Array(element):
            yield f"{path}.element"
            yield from _nested_paths(element, f"{path}.element")
        case Map(key, value):
            for name, inner in (("key", key), ("value", value)):
                yield f"{path}.{name}"
                yield from _nested_paths(inner, f"{path}.{name}")


def _with_field_id(arrow: pa.Field, field: Field) -> pa.Field:
    inner = _type_with_field_ids(arrow.type, field.type, physical_name(field), nested_ids(field))
    number = field_id(field)  # a field that is not a column of the table, such as row ids, has none
    return pa.field(arrow.name, inner, arrow.nullable, _id_metadata(number))


def _type_with_field_ids(arrow: pa.DataType, data_type: DataType, path: str, numbers: Mapping[str, int]) -> pa.DataType:
    def inside(item: pa.Field, name: str, kind: DataType) -> pa.Field:
        below = f"{path}.{name}"
        typed = _type_with_field_ids(item.type, kind, below, numbers)
        return pa.field(name, typed, item.nullable, _id_metadata(numbers.get(below)))

    match data_type:
        case Struct(fields):
            return pa.struct(list(map(_with_field_id, arrow, fields)))
        case Array(element):
            return pa.list_(inside(arrow.value_field, "element", element))
        case Map(key, value):
            return pa.map_(inside(arrow.key_field, "key", key), inside(arrow.item_field, "value", value))
    return arrow


def _ids_inside(column: pa.Field, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int | None]]:
    number = (column.metadata or {}).get(PARQUET_FIELD_ID)
    yield path, None if number is None else int(number)
    kind = column.type.storage_type if isinstance(column.type, pa.BaseExtensionType) else column.type
    if pa.types.is_struct(kind):
        yield from file_ids(kind, path)
    elif pa.types.is_map(kind):
        yield from _ids_inside(kind.key_field, (*path, "key"))
        yield from _ids_inside(kind.item_field, (*path, "value"))
    elif pa.types.is_nested(kind):  # one of Arrow's kinds of lists
        yield from _ids_inside(kind.value_field, (*path, "element"))


def _id_metadata(number: int | None) -> dict[bytes, Any]:
    return {} if number is None else {PARQUET_FIELD_ID: str(number).encode()}
