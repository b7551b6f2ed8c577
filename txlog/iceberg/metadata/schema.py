"""A Delta schema as an Iceberg schema: its types, the ids of its columns, and the name mapping for reading files.

In: the schema of one table version, and the ids exported before. Out: the ``fields`` of an Iceberg schema, its name
mapping and where each id is; or an `IcebergExportError` that names the column that Iceberg readers would misread. Data
files have no Iceberg ids of their own: readers find their columns by the name mapping, except in tables with column
mapping, whose files hold Delta's ids. Iceberg spec, "Schemas and Data Types", "Column Projection".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from txlog.core.format.column_mapping import field_id, nested_ids, physical_name
from txlog.core.format.schema import (
    COLLATIONS_KEY,
    PRIMITIVES,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Primitive,
    Struct,
    type_name,
    type_to_json,
)
from txlog.core.format.type_widening import TYPE_CHANGES_KEY
from txlog.errors import IcebergExportError

ColumnPath: TypeAlias = tuple[str, ...]
"""Physical names from the outermost column inwards; ``element``, ``key`` and ``value`` inside lists and maps."""


class IcebergLeaf(msgspec.Struct, frozen=True):
    """A column that may have counts and bounds in a manifest: neither a list or a map, nor inside one."""

    path: ColumnPath
    type: DataType
    field_id: int


class KnownColumn(msgspec.Struct, frozen=True):
    """An earlier export's column: its id and its Iceberg type (``struct``, ``list`` or ``map`` if nested)."""

    field_id: int
    kind: str


Known: TypeAlias = Mapping[ColumnPath, KnownColumn]


class IcebergSchema(msgspec.Struct):
    """One converted schema. ``last_column_id`` is the highest id ever given, at least every column's id."""

    fields: list[dict[str, Any]]
    name_mapping: list[dict[str, Any]]
    last_column_id: int
    leaves: list[IcebergLeaf] = msgspec.field(default_factory=list)
    ids: dict[ColumnPath, int] = msgspec.field(default_factory=dict)


class NewMeaningError(Exception):
    """An exported name or id now means another column: older snapshots can no longer be read."""


def convert(schema: Struct, *, mapped: bool, format_version: int, known: Known, last_column_id: int) -> IcebergSchema:
    """The Iceberg form of ``schema``.

    Args:
        schema: The table's schema (`column_mapping.schema_of`).
        mapped: Whether the table maps its columns; then their ids are Delta's. Otherwise a column keeps its id in
            ``known``, and a new one gets the next id: columns in order, each before what is inside it.
        format_version: 2 or 3.
        known: The columns exported before, including dropped ones.
        last_column_id: The highest id exported before.

    Raises:
        IcebergExportError: Iceberg cannot hold a column, or readers would misread it.
        NewMeaningError: ``known`` holds another column under the same name or id.
    """
    conversion = _Conversion(mapped, format_version, known, IcebergSchema([], [], last_column_id))
    out = conversion.out
    out.fields, out.name_mapping = conversion.struct(schema, (), (), has_statistics=True)
    _check_names(out.fields)
    return out


def can_follow_widening(old: DataType, new: DataType) -> bool:
    """Whether Iceberg readers may read files of the old type as the new one."""
    before, after = (_kind_named(str(type_to_json(each))) for each in (old, new))
    return _may_become(before, after)


class _TypePlace(msgspec.Struct, frozen=True):
    """Where in the schema a type is."""

    path: ColumnPath
    names: tuple[str, ...]
    """The path as users know it, for errors."""
    nested: str
    """The path in the form of ``nested.ids``: from the nearest column."""
    nested_ids: Mapping[str, int]
    has_statistics: bool

    def inside(self, name: str) -> _TypePlace:
        """The element of this list, or the key or value of this map."""
        path, names, nested = (*self.path, name), (*self.names, name), f"{self.nested}.{name}"
        return _TypePlace(path, names, nested, self.nested_ids, has_statistics=False)


class _Conversion:
    def __init__(self, mapped: bool, format_version: int, known: Known, out: IcebergSchema) -> None:
        self.mapped = mapped
        self.format_version = format_version
        self.known = known
        self.known_ids = {column.field_id: path for path, column in known.items()}
        self.out = out

    def struct(
        self, struct: Struct, path: ColumnPath, names: tuple[str, ...], *, has_statistics: bool
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The fields of a struct and their name mapping."""
        fields, mapping = [], []
        for member in struct.fields:
            physical = physical_name(member)
            place = _TypePlace((*path, physical), (*names, member.name), physical, nested_ids(member), has_statistics)
            _check_type_changes(member, place.names)
            _check_collations(member, place.names)
            number = self._id(place, member.type, field_id(member))
            typed, inner = self._type(member.type, place)
            entry = {"id": number, "name": member.name, "required": not member.nullable, "type": typed}
            if isinstance(member.metadata.get("comment"), str):
                entry["doc"] = member.metadata["comment"]
            fields.append(entry)
            mapping.append(_mapped_field(number, physical, inner))
        return fields, mapping

    def _type(self, data_type: DataType, place: _TypePlace) -> tuple[Any, list[dict[str, Any]]]:
        """A type, and the name mapping of its contents."""
        match data_type:
            case Struct():
                fields, inner = self.struct(data_type, place.path, place.names, has_statistics=place.has_statistics)
                return {"type": "struct", "fields": fields}, inner
            case Array(element, contains_null):
                number, typed, mapped = self._inside(element, place.inside("element"))
                listed = {"element-id": number, "element": typed, "element-required": not contains_null}
                return {"type": "list", **listed}, [mapped]
            case Map(key, value, value_contains_null):
                key_id, key_type, key_mapped = self._inside(key, place.inside("key"))
                value_id, value_type, value_mapped = self._inside(value, place.inside("value"))
                pair = {"key-id": key_id, "key": key_type, "value-id": value_id, "value": value_type}
                return {"type": "map", **pair, "value-required": not value_contains_null}, [key_mapped, value_mapped]
        kind = self._primitive(data_type, place.names)
        if place.has_statistics and not (isinstance(data_type, Primitive) and data_type.facts.by_package):
            self.out.leaves.append(IcebergLeaf(place.path, data_type, self.out.ids[place.path]))
        return kind, []

    def _inside(self, data_type: DataType, place: _TypePlace) -> tuple[int, Any, dict[str, Any]]:
        """The id, the type and the name mapping of an element, key or value."""
        number = self._id(place, data_type, place.nested_ids.get(place.nested))
        typed, inner = self._type(data_type, place)
        return number, typed, _mapped_field(number, place.path[-1], inner)

    def _id(self, place: _TypePlace, data_type: DataType, delta_id: int | None) -> int:
        known = self.known.get(place.path)
        if known is not None and not _may_become(known.kind, kind_of(data_type)):
            raise NewMeaningError
        if self.mapped:
            number = _delta_id(delta_id, place)
        else:
            number = self.out.last_column_id + 1 if known is None else known.field_id
        if (known is not None and known.field_id != number) or self.known_ids.get(number, place.path) != place.path:
            raise NewMeaningError
        self.out.ids[place.path] = number
        self.out.last_column_id = max(self.out.last_column_id, number)
        return number

    def _primitive(self, data_type: DataType, names: tuple[str, ...]) -> str:
        first = data_type.facts.iceberg_from if isinstance(data_type, Primitive) else 1
        if self.format_version < first:
            needed = f"needs Iceberg format version {first}: set txlog.iceberg to v{first}"
            raise _refused(names, f"is a {type_name(data_type)}, which {needed}")
        if isinstance(data_type, Primitive) and not data_type.facts.iceberg:
            raise _refused(names, f"is of type {type_name(data_type)}, which Iceberg readers do not support")
        return kind_of(data_type)


def kind_of(data_type: DataType) -> str:
    """The name of the Iceberg type; ``struct``, ``list`` or ``map`` for nested types."""
    match data_type:
        case Struct():
            return "struct"
        case Array():
            return "list"
        case Map():
            return "map"
        case Decimal(precision, scale):
            return f"decimal({precision}, {scale})"
        case Primitive(name):
            return _named(name)


def _named(name: str) -> str:
    return (name in PRIMITIVES and PRIMITIVES[name].iceberg) or name


def _may_become(old: str, new: str) -> bool:
    """Whether Iceberg lets a column of type ``old`` become one of type ``new`` (Iceberg spec, "Type Promotion")."""
    if old == new or (old, new) in (("int", "long"), ("float", "double")):
        return True
    if old.startswith("decimal") and new.startswith("decimal"):
        (old_precision, old_scale), (precision, scale) = _digits(old), _digits(new)
        return old_scale == scale and precision >= old_precision
    return False


def _digits(kind: str) -> tuple[int, int]:
    precision, scale = kind[len("decimal(") : -1].split(",")
    return int(precision), int(scale)


def _delta_id(number: int | None, place: _TypePlace) -> int:
    if number is not None:
        return number
    if place.path[-1] == place.nested:
        raise _refused(place.names, "has no delta.columnMapping.id, although the table maps its columns")
    raise _refused(
        place.names[: len(place.names) - place.nested.count(".")],
        "is a list or a map of a table that maps its columns, and the schema has no ids for its contents"
        " (delta.columnMapping.nested.ids): some Iceberg readers would show it as null. Tables that txlog creates have"
        " these ids; write the rows into a new one",
    )


def _check_type_changes(member: Field, names: tuple[str, ...]) -> None:
    changes = member.metadata.get(TYPE_CHANGES_KEY, [])
    for change in changes if isinstance(changes, list) else []:
        old, new = (str(change.get(key)) for key in ("fromType", "toType"))
        if not _may_become(_kind_named(old), _kind_named(new)):
            raise _refused(
                names,
                f"was widened from {old} to {new}, which Iceberg does not allow: older files would be read wrongly or"
                " not at all. Write the rows into a new table",
            )


def _check_collations(member: Field, names: tuple[str, ...]) -> None:
    if member.metadata.get(COLLATIONS_KEY):
        raise _refused(names, "has a collation, and Iceberg readers compare strings by their bytes")


def _kind_named(name: str) -> str:
    if name.startswith("decimal("):
        precision, scale = _digits(name)
        return f"decimal({precision}, {scale})"
    return _named(name)


def _mapped_field(number: int, name: str, inner: list[dict[str, Any]]) -> dict[str, Any]:
    entry: dict[str, Any] = {"field-id": number, "names": [name]}
    return {**entry, "fields": inner} if inner else entry


def _check_names(fields: list[dict[str, Any]]) -> None:
    """Iceberg joins the names of nested columns with dots, and refuses a schema where two of them become equal."""
    seen: set[str] = set()
    for name in _full_names(fields, ""):
        if name in seen:
            raise _refused((name,), "is also the path of another column: Iceberg cannot distinguish them")
        seen.add(name)


def _full_names(fields: list[dict[str, Any]], prefix: str) -> Iterator[str]:
    for each in fields:
        name = f"{prefix}{each['name']}"
        yield name
        yield from _names_inside(each["type"], name)


def _names_inside(typed: Any, name: str) -> Iterator[str]:
    if isinstance(typed, str):
        return
    if typed["type"] == "struct":
        yield from _full_names(typed["fields"], f"{name}.")
        return
    for inner in ("element", "key", "value"):
        if inner in typed:
            yield f"{name}.{inner}"
            yield from _names_inside(typed[inner], f"{name}.{inner}")


def _refused(names: tuple[str, ...], why: str) -> IcebergExportError:
    return IcebergExportError(f"column {'.'.join(names)} {why}")
