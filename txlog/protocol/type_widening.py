"""Type widening: the type changes of a column that leave old data files as they are.

In: the history of type changes that a schema carries, or the Arrow type a file has for a column. Out: whether values
of the old type are values of the new one. Nothing is widened here; readers cast. PROTOCOL.md, "Type Widening".
"""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from txlog.errors import TxlogError
from txlog.protocol.schema import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    TIMESTAMP_NTZ,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Struct,
    parse_schema,
)

__all__ = ["TYPE_CHANGES_KEY", "is_widening", "unknown_changes", "was_float", "was_integer"]

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
    return (old, new) in ((FLOAT, DOUBLE), (DATE, TIMESTAMP_NTZ))


def unknown_changes(schema: Struct) -> list[str]:
    """Each type change in the schema's history that this release cannot follow, as ``"column: from -> to"``."""
    found = []
    for field in _fields(schema):
        changes = field.metadata.get(TYPE_CHANGES_KEY, [])
        for change in changes if isinstance(changes, list) else [changes]:
            old, new = (change.get(key) if isinstance(change, dict) else None for key in ("fromType", "toType"))
            before, after = _type_named(old), _type_named(new)
            if before is None or after is None or not is_widening(before, after):
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
