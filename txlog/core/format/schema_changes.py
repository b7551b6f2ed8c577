"""Changes of the columns of a schema: renamed, dropped, moved, with other metadata or nullability.

In: a schema, and the path of a column, of a struct field, or of an ``element``, ``key`` or ``value``. Out: the
changed schema, or ``InvalidInputError`` that says which names there are. Whether a table may be changed like this is
decided by the callers; wider types are in ``type_widening``. PROTOCOL.md, "Change Metadata", "Column Mapping".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from txlog.core.format.properties import ColumnPath, column_paths, path_text
from txlog.core.format.schema import Array, DataType, Field, Map, Struct, fold_name, type_name
from txlog.core.util import invalid
from txlog.errors import InvalidInputError


def column_path(given: Any, schema: Struct) -> ColumnPath:
    """The path that ``"a"``, ``"a.b"``, ``"tags.element.x"`` or ``"`a.b`.c"`` names, in the schema's spelling.

    A column whose own name has the dot takes precedence. Raises ``InvalidInputError`` if there is none.
    """
    expected = "the name of a column, such as 'a', or of a struct field, such as 'a.b'"
    if not isinstance(given, str) or not given:
        raise invalid("column", given, expected)
    whole = schema.find(given)
    if whole is not None:
        return (whole.name,)
    try:
        (path,) = column_paths(given)
    except ValueError:
        raise invalid("column", given, f"{expected}; names with other characters in backticks") from None
    return _spelled(schema, path, given)


def field_at(schema: Struct, path: ColumnPath) -> Field | None:
    """The column or member at a path of `column_path`; None for an element, a key or a value."""
    here: DataType | Field = schema
    for name in path:
        here = _inside(here.type if isinstance(here, Field) else here, name)
    return here if isinstance(here, Field) else None


def type_at(schema: Struct, path: ColumnPath) -> DataType:
    """The type at a path of `column_path`."""
    here: DataType | Field = schema
    for name in path:
        here = _inside(here.type if isinstance(here, Field) else here, name)
    return here.type if isinstance(here, Field) else here


def with_field(schema: Struct, path: ColumnPath, change: Callable[[Field], Field]) -> Struct:
    """The schema with another field at a path, which must be that of a column or of a struct field."""

    def changed(parent: Struct, name: str) -> Struct:
        return Struct(tuple(change(each) if each.name == name else each for each in parent.fields))

    return _with_struct(schema, path, changed)


def renamed(schema: Struct, path: ColumnPath, name: str) -> Struct:
    """The schema with another name for one column. Raises ``InvalidInputError`` if its neighbors have the name."""

    def changed(parent: Struct, old: str) -> Struct:
        taken = next((each for each in parent.fields if fold_name(each.name) == fold_name(name)), None)
        if taken is not None and taken.name != old:
            raise InvalidInputError(
                f"{path_text(path)} cannot be renamed to {name}: there is a column"
                f" {path_text((*path[:-1], taken.name))}, and case does not count in names"
            )
        return Struct(tuple(replace(each, name=name) if each.name == old else each for each in parent.fields))

    return _with_struct(schema, path, changed)


def dropped(schema: Struct, *paths: ColumnPath) -> Struct:
    """The schema without some columns. Raises ``InvalidInputError`` if their struct, or the table, would have none
    left."""
    together: dict[ColumnPath, dict[str, None]] = {}
    for path in paths:
        together.setdefault(path[:-1], {})[path[-1]] = None

    def changed(parent: Struct, name: str) -> Struct:
        left = tuple(each for each in parent.fields if each.name not in names)
        if not left:
            path = (*above, name)
            whole = f"the struct {path_text(above)}, which can be dropped as a whole" if above else "the table"
            raise InvalidInputError(f"{path_text(path)} is the only column of {whole}: it cannot be dropped alone")
        return Struct(left)

    for above, names in together.items():
        schema = _with_struct(schema, (*above, [*names][-1]), changed)
    return schema


def moved(schema: Struct, path: ColumnPath, after: str | None) -> Struct:
    """The schema with one column at another place among its neighbors: behind the one named ``after``, None: first."""

    def changed(parent: Struct, name: str) -> Struct:
        field = next(each for each in parent.fields if each.name == name)
        others = [each for each in parent.fields if each.name != name]
        if after is None:
            return Struct((field, *others))
        found = Struct(tuple(others)).find(after)
        if found is None:
            neighbors = ", ".join(each.name for each in others) or "none"
            raise InvalidInputError(
                f"there is no column {after!r} next to {path_text(path)}; its neighbors: {neighbors}"
            )
        at = others.index(found) + 1
        return Struct((*others[:at], field, *others[at:]))

    return _with_struct(schema, path, changed)


# --- paths --------------------------------------------------------------------------------------------------------


def _spelled(schema: Struct, path: ColumnPath, given: str) -> ColumnPath:
    here: DataType = schema
    found: list[str] = []
    for name in path:
        parts = _parts_of(here)
        inner = parts.find(name)
        if inner is None:
            owner = f"{path_text(tuple(found))}, a {type_name(here)}," if found else "the table"
            raise InvalidInputError(
                f"there is no column {given!r}: {owner} has {', '.join(parts.names) or 'no fields'}"
            )
        here = inner.type
        found.append(inner.name)
    return tuple(found)


def _parts_of(data_type: DataType) -> Struct:
    match data_type:
        case Struct():
            return data_type
        case Array(element):
            return Struct((Field("element", element),))
        case Map(key, value):
            return Struct((Field("key", key), Field("value", value)))
    return Struct(())


def _inside(data_type: DataType, name: str) -> DataType | Field:
    match data_type:
        case Struct():
            found = data_type.find(name)
            if found is not None:
                return found
        case Array(element):
            return element
        case Map(key, value):
            return key if name == "key" else value
    raise KeyError(name)


def _with_struct(schema: Struct, path: ColumnPath, change: Callable[[Struct, str], Struct]) -> Struct:
    changed = _with_parent(schema, path, change)
    assert isinstance(changed, Struct)
    return changed


def _with_parent(data_type: DataType, path: ColumnPath, change: Callable[[Struct, str], Struct]) -> DataType:
    """The type with the struct that holds the last name of the path changed."""
    name, *below = path
    match data_type:
        case Struct(fields):
            if not below:
                return change(data_type, name)
            return Struct(
                tuple(
                    replace(each, type=_with_parent(each.type, tuple(below), change)) if each.name == name else each
                    for each in fields
                )
            )
        case _ if not below:
            raise InvalidInputError(
                f"{name} is the {name} of a {type_name(data_type)}, not a column: only its type can be changed"
            )
        case Array(element):
            return replace(data_type, element=_with_parent(element, tuple(below), change))
        case Map(key, value) if name == "key":
            return replace(data_type, key=_with_parent(key, tuple(below), change))
        case Map(key, value):
            return replace(data_type, value=_with_parent(value, tuple(below), change))
    raise KeyError(name)
