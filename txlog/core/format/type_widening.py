"""Type widening: the type changes of a column that leave old data files as they are.

In: the history of type changes that a schema carries, or a change that is asked for. Out: whether values of the old
type are values of the new one; the schema with the new type and its history. Files are left alone: readers cast.
PROTOCOL.md, "Type Widening".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import orjson
from msgspec.structs import replace

from txlog.core.format.properties import ColumnPath
from txlog.core.format.schema import (
    BYTE,
    DOUBLE,
    INTEGER,
    LONG,
    SHORT,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Primitive,
    Struct,
    parse_schema,
    type_to_json,
)
from txlog.errors import TxlogError

ENABLED_KEY = "delta.enableTypeWidening"

TYPE_CHANGES_KEY = "delta.typeChanges"
"""Field metadata: a list of ``{"fromType", "toType", "fieldPath"?}``, oldest first."""

_DIGITS = {BYTE: 3, SHORT: 5, INTEGER: 10, LONG: 20}
"""The whole digits a decimal needs for each integer type. The protocol wants 10 for small ones too, Spark does not."""
_INTEGERS = (BYTE, SHORT, INTEGER, LONG)
_NAMES = tuple(each.name for each in _INTEGERS)


def is_widening(old: DataType, new: DataType) -> bool:
    """Whether the protocol lets a column of type ``old`` become one of type ``new``."""
    if old in _INTEGERS:
        if isinstance(new, Decimal):
            return new.precision - new.scale >= _DIGITS[old]
        if new in _INTEGERS:
            return _INTEGERS.index(old) < _INTEGERS.index(new)
        return new == DOUBLE and old != LONG
    if isinstance(old, Decimal) and isinstance(new, Decimal):
        more_digits = new.precision - old.precision
        return old != new and more_digits >= new.scale - old.scale >= 0
    return isinstance(old, Primitive) and isinstance(new, Primitive) and new.name in old.facts.widens_to


def may_widen(old: DataType, new: DataType) -> bool:
    """Whether txlog makes this change: as the protocol has it, which wants 10 digits for each integer up to 32 bits."""
    digits = new.precision - new.scale if isinstance(new, Decimal) and old in _INTEGERS else _DIGITS[INTEGER]
    return is_widening(old, new) and digits >= _DIGITS[INTEGER]


def wider_types(table: Struct, data: Struct) -> Iterator[tuple[ColumnPath, DataType]]:
    """The columns of ``table`` that get the wider type of ``data`` when schemas are merged, at every depth.

    Spark's Delta makes the same changes by itself.
    """
    for new in data.fields:
        old = table.find(new.name)
        if old is not None:
            yield from (((old.name, *path), wider) for path, wider in _wider(old.type, new.type))


def _wider(old: DataType, new: DataType) -> Iterator[tuple[ColumnPath, DataType]]:
    match old, new:
        case Struct(), Struct():
            yield from wider_types(old, new)
        case Array(), Array():
            yield from ((("element", *path), wider) for path, wider in _wider(old.element, new.element))
        case Map(), Map():
            yield from ((("key", *path), wider) for path, wider in _wider(old.key, new.key))
            yield from ((("value", *path), wider) for path, wider in _wider(old.value, new.value))
        case _ if may_widen(old, new):
            yield (), new


def retyped(schema: Struct, path: ColumnPath, new: DataType) -> Struct:
    """The schema with another type at ``path`` (see ``schema_changes.column_path``), and the change in its history.

    The nearest column or struct field keeps the history; ``fieldPath`` leads from it to an element, key or value.
    """
    name, *below = path
    return Struct(tuple(_retyped(each, tuple(below), new) if each.name == name else each for each in schema.fields))


def _retyped(field: Field, path: ColumnPath, new: DataType) -> Field:
    inside: list[str] = []
    here = field.type
    for at, name in enumerate(path):
        if isinstance(here, Struct):
            inner = retyped(here, path[at:], new)
            return replace(field, type=_with_inner(field.type, tuple(inside), inner))
        inside.append(name)
        here = _inner(here, name)
    change = {"fromType": type_to_json(here), "toType": type_to_json(new)}
    if inside:
        change["fieldPath"] = ".".join(inside)
    history = [*field.metadata.get(TYPE_CHANGES_KEY, ()), change]
    metadata = {**field.metadata, TYPE_CHANGES_KEY: history}
    return replace(field, type=_with_inner(field.type, tuple(inside), new), metadata=metadata)


def _inner(data_type: DataType, name: str) -> DataType:
    if isinstance(data_type, Array):
        return data_type.element
    assert isinstance(data_type, Map)
    return data_type.key if name == "key" else data_type.value


def _with_inner(data_type: DataType, path: ColumnPath, inner: DataType) -> DataType:
    """The type with another one at a path of ``element``, ``key`` and ``value``."""
    if not path:
        return inner
    changed = _with_inner(_inner(data_type, path[0]), path[1:], inner)
    if isinstance(data_type, Array):
        return replace(data_type, element=changed)
    assert isinstance(data_type, Map)
    return replace(data_type, key=changed) if path[0] == "key" else replace(data_type, value=changed)


def unknown_changes(schema: Struct) -> list[str]:
    """Each type change in the schema's history that this release cannot follow, as ``"column: from -> to"``."""
    return _changes_but(is_widening, schema)


def changes_beyond_iceberg(schema: Struct) -> list[str]:
    """Each type change in the schema's history that Iceberg does not know, in the same form. Iceberg's table
    specification, "Schema Evolution"."""
    return _changes_but(_is_promotion, schema)


def _is_promotion(old: DataType, new: DataType) -> bool:
    if isinstance(old, Decimal) and isinstance(new, Decimal):
        return old.scale == new.scale and is_widening(old, new)
    return is_widening(old, new) and (new in _INTEGERS or (new == DOUBLE and old not in _INTEGERS))


def _changes_but(is_known: Callable[[DataType, DataType], bool], schema: Struct) -> list[str]:
    """The type changes in the schema's history other than the known ones."""
    found = []
    for field in _fields(schema):
        changes = field.metadata.get(TYPE_CHANGES_KEY, [])
        for change in changes if isinstance(changes, list) else [changes]:
            old, new = (change.get(key) if isinstance(change, dict) else None for key in ("fromType", "toType"))
            before, after = _type_named(old), _type_named(new)
            if before is None or after is None or not is_known(before, after):
                found.append(f"{field.name}: {old} -> {new}")
    return found


def was_float(field: Field) -> bool:
    """Whether old files may hold this ``double`` column as ``float``, and its bounds as the shortest such text."""
    changes = field.metadata.get(TYPE_CHANGES_KEY, [])
    return isinstance(changes, list) and any(isinstance(c, dict) and c.get("fromType") == "float" for c in changes)


def was_integer(schema: Struct) -> bool:
    """Whether old files may hold a decimal column, at any depth of ``schema``, as integers."""
    return any(
        isinstance(change, dict)
        and str(change.get("toType")).startswith("decimal")
        and change.get("fromType") in _NAMES
        for field in _fields(schema)
        for change in field.metadata.get(TYPE_CHANGES_KEY, ())
    )


def _type_named(name: object) -> DataType | None:
    column = {"name": "value", "type": name, "nullable": True, "metadata": {}}
    try:
        return parse_schema(orjson.dumps({"type": "struct", "fields": [column]}).decode()).fields[0].type
    except TxlogError:
        return None


def _fields(data_type: DataType) -> Iterator[Field]:
    match data_type:
        case Struct(fields):
            for field in fields:
                yield field
                yield from _fields(field.type)
        case Array(element):
            yield from _fields(element)
        case Map(key, value):
            yield from _fields(key)
            yield from _fields(value)
