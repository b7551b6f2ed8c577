"""A table's schema: Delta's types, their JSON in ``metaData.schemaString``, and their Arrow form.

In: schema JSON, Arrow schemas, Spark schemas. Out: one immutable tree of `Field` and `DataType`, and from it
JSON as Spark writes it, or Arrow. `PRIMITIVES` has what differs from one type without parameters to another. What a
*new* schema may hold and how two schemas merge is in ``schema_merge``. PROTOCOL.md, "Schema Serialization Format".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import orjson
import pyarrow as pa

from txlog.core.util import cached_property, pattern
from txlog.errors import ASK_VERIFY, CorruptLogError, InvalidInputError, UnsupportedFeatureError

ARROW_METADATA_KEY = b"delta.metadata"
"""The Arrow field metadata key that holds the Delta field's whole ``metadata`` object as JSON."""

_DEPTH_MAX = 75  # orjson writes 254 levels, and each struct takes three


class Primitive(msgspec.Struct, frozen=True):
    """A type without parameters, by its Delta name: ``Primitive("long")``. Use the constants below."""

    name: str

    @property
    def facts(self) -> TypeFacts:
        return PRIMITIVES[self.name]


class TypeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What readers, writers and doors have to know of a type without parameters.

    Attributes:
        arrow: Its values in memory, and in the data files that txlog writes.
        takes: Other Arrow types whose values it has too.
        sql: Its name in SQL, if that is not Delta's name.
        parsed: sqlglot's names of it: of a column's type, and of the target of a CAST.
        stored: The number of a fixed width that a value is, as numpy names it, such as ``i4``; empty if it is none.
        is_ordered: Values can be compared.
        has_bounds: Every writer keeps minima and maxima of such columns.
        bounds_feature: The table feature with which files have bounds of the type's own kind (`package_bounds`).
        widens_to: The names of other primitive types that its values may have later, apart from integers.
        feature: The table feature that such a column needs.
        by_package: A package makes the values (`type_support`); the core alone reads them, as the files have them.
        iceberg: Its name in Iceberg; empty if Iceberg does not have it.
        iceberg_from: The first version of Iceberg's format that has it.
        duckdb: Its name in duckdb; empty if queries that duckdb runs do not have it.
        part_hint: The end of an error about a part of a value, saying how one is written, if it has parts.
        comparison_hint: The end of an error about a comparison of values, if their parts can be compared.
    """

    arrow: pa.DataType
    takes: tuple[pa.DataType, ...] = ()
    sql: str = ""
    parsed: tuple[str, ...] = ()
    stored: str = ""
    is_ordered: bool = True
    has_bounds: bool = True
    bounds_feature: str = ""
    widens_to: tuple[str, ...] = ()
    feature: str = ""
    by_package: bool = False
    iceberg: str = ""
    iceberg_from: int = 1
    duckdb: str = ""
    part_hint: str = ""
    comparison_hint: str = ""


class Decimal(msgspec.Struct, frozen=True):
    """``decimal(precision, scale)``: 1 <= precision <= 38, 0 <= scale <= precision."""

    precision: int
    scale: int


class Array(msgspec.Struct, frozen=True):
    element: DataType
    contains_null: bool = True


class Map(msgspec.Struct, frozen=True):
    """Keys are never null."""

    key: DataType
    value: DataType
    value_contains_null: bool = True


class Field(msgspec.Struct, frozen=True):
    """One column, or one struct field. ``metadata`` is any JSON object and is never mutated."""

    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = msgspec.field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.name, self.nullable))  # enough for the caches that each small write uses


class Struct(msgspec.Struct, frozen=True, dict=True):
    """Fields in order. A table's schema is the outermost one."""

    fields: tuple[Field, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    def find(self, name: str) -> Field | None:
        """The field of this name, or else the one that has it in another case; None if there is none.

        Raises InvalidInputError if several have it in other cases: older writers made such tables.
        """
        found = self._by_name.get(fold_name(name))
        if found is None:
            return None
        if len(found) > 1:
            found = [field for field in found if field.name == name] or found
        if len(found) > 1:
            fits = ", ".join(field.name for field in found)
            raise InvalidInputError(f"{name!r} may be any of {fits}: write it as one of them, letter by letter")
        return found[0]

    @cached_property
    def _by_name(self) -> Mapping[str, Sequence[Field]]:
        """By their folded names: a wide table's columns are looked up one by one."""
        found: dict[str, list[Field]] = {}
        for field in self.fields:
            found.setdefault(fold_name(field.name), []).append(field)
        return found

    def own_names(self, names: Iterable[str]) -> frozenset[str]:
        """Those of ``names`` that it has, as its fields write them. Raises what `find` raises."""
        return frozenset(field.name for name in names if (field := self.find(name)) is not None)

    def without(self, names: tuple[str, ...]) -> Struct:
        """This struct without some fields (a data file holds no partition columns)."""
        left_out = self.own_names(names)
        return Struct(tuple(f for f in self.fields if f.name not in left_out))


DataType: TypeAlias = Primitive | Decimal | Array | Map | Struct

STRING = Primitive("string")
LONG = Primitive("long")
INTEGER = Primitive("integer")
SHORT = Primitive("short")
BYTE = Primitive("byte")
FLOAT = Primitive("float")
DOUBLE = Primitive("double")
BOOLEAN = Primitive("boolean")
BINARY = Primitive("binary")
DATE = Primitive("date")
TIMESTAMP = Primitive("timestamp")
TIMESTAMP_NTZ = Primitive("timestamp_ntz")
VARIANT = Primitive("variant")
VOID = Primitive("void")

_VARIANT_MARK = {b"variant": b"true"}
"""By this PySpark tells the struct of a variant from a plain one."""

PRIMITIVES: Mapping[str, TypeFacts] = {
    "string": TypeFacts(
        arrow=pa.string(),
        takes=(pa.large_string(), pa.string_view()),
        parsed=("TEXT", "VARCHAR"),
        iceberg="string",
        duckdb="VARCHAR",
    ),
    "byte": TypeFacts(
        arrow=pa.int8(), sql="tinyint", parsed=("TINYINT",), stored="i1", iceberg="int", duckdb="TINYINT"
    ),
    "short": TypeFacts(
        arrow=pa.int16(),
        takes=(pa.uint8(),),
        sql="smallint",
        parsed=("SMALLINT",),
        stored="i2",
        iceberg="int",
        duckdb="SMALLINT",
    ),
    "integer": TypeFacts(
        arrow=pa.int32(),
        takes=(pa.uint16(),),
        sql="int",
        parsed=("INT",),
        stored="i4",
        iceberg="int",
        duckdb="INTEGER",
    ),
    "long": TypeFacts(
        arrow=pa.int64(),
        takes=(pa.uint32(),),
        sql="bigint",
        parsed=("BIGINT",),
        stored="i8",
        iceberg="long",
        duckdb="BIGINT",
    ),
    "float": TypeFacts(
        arrow=pa.float32(),
        takes=(pa.float16(),),
        parsed=("FLOAT",),
        stored="f4",
        widens_to=("double",),
        iceberg="float",
        duckdb="FLOAT",
    ),
    "double": TypeFacts(arrow=pa.float64(), parsed=("DOUBLE",), stored="f8", iceberg="double", duckdb="DOUBLE"),
    "boolean": TypeFacts(arrow=pa.bool_(), parsed=("BOOLEAN",), has_bounds=False, iceberg="boolean", duckdb="BOOLEAN"),
    "binary": TypeFacts(
        arrow=pa.binary(),
        takes=(pa.large_binary(), pa.binary_view(), pa.binary(16)),
        parsed=("BINARY",),
        has_bounds=False,
        iceberg="binary",
        duckdb="BLOB",
    ),
    "date": TypeFacts(
        arrow=pa.date32(),
        takes=(pa.date64(),),
        parsed=("DATE",),
        stored="i4",
        widens_to=("timestamp_ntz",),
        iceberg="date",
        duckdb="DATE",
    ),
    "timestamp": TypeFacts(
        arrow=pa.timestamp("us", "UTC"),
        parsed=("TIMESTAMP", "TIMESTAMPLTZ", "TIMESTAMPTZ"),
        stored="i8",
        iceberg="timestamptz",
        duckdb="TIMESTAMPTZ",
    ),
    "timestamp_ntz": TypeFacts(
        arrow=pa.timestamp("us"),
        parsed=("TIMESTAMPNTZ",),
        stored="i8",
        feature="timestampNtz",
        iceberg="timestamp",
        duckdb="TIMESTAMP",
    ),
    "variant": TypeFacts(
        arrow=pa.struct(
            [
                pa.field("value", pa.binary(), nullable=False),
                pa.field("metadata", pa.binary(), nullable=False, metadata=_VARIANT_MARK),
            ]
        ),
        parsed=("VARIANT",),
        is_ordered=False,
        has_bounds=False,
        feature="variantType",
        bounds_feature="variantShredding",
        by_package=True,
        iceberg="variant",
        iceberg_from=3,
        part_hint=". A part of a variant is v:name or v:[0], with a type as in v:name::int",
        comparison_hint=": in SQL, v:part::int = value compares a part of a variant v, as a type",
        duckdb='STRUCT("value" BLOB, "metadata" BLOB)',
    ),
    "void": TypeFacts(arrow=pa.null(), is_ordered=False, has_bounds=False, duckdb="INTEGER"),
}
"""Every type without parameters, by its name. A new type has its line here, and what only it does where that is done:
other modules ask this table, and do not name types that they treat alike."""

OF_PACKAGES = frozenset(name for name, facts in PRIMITIVES.items() if facts.by_package)
"""The names of the types whose values a package makes."""

TIMESTAMPS = (TIMESTAMP, TIMESTAMP_NTZ)
TIMES = (DATE, *TIMESTAMPS)


PARSED_TYPES: Mapping[str, Primitive] = {
    parsed: Primitive(name) for name, facts in PRIMITIVES.items() for parsed in facts.parsed
}
"""The types by sqlglot's names of them."""


def has_bounds(data_type: DataType) -> bool:
    """Whether every writer keeps minima and maxima of such columns. Spark's Delta clusters by no others."""
    return data_type.facts.has_bounds if isinstance(data_type, Primitive) else isinstance(data_type, Decimal)


def is_variant_struct(arrow: pa.DataType) -> bool:
    """Whether a type is the struct of a variant, and not a plain one with fields of the same names."""
    return pa.types.is_struct(arrow) and any(
        _VARIANT_MARK.items() <= (member.metadata or {}).items() for member in arrow
    )


def as_variant_struct(arrow: pa.StructType) -> pa.StructType:
    """The same struct as one of a variant."""
    return pa.struct([each.with_metadata(_VARIANT_MARK) if each.name == "metadata" else each for each in arrow])


def timestamp_of(*, has_zone: bool) -> Primitive:
    """The type of times with a zone, which are instants, or of those without one, which are what a clock shows."""
    return TIMESTAMP if has_zone else TIMESTAMP_NTZ


def backquoted(name: str) -> str:
    """A name in SQL, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def member_name(name: str) -> str:
    """A struct field's name in the text of a type, as Spark's parser reads it: ``a``, and other names in backticks."""
    return name if _PLAIN_NAME.fullmatch(name) else backquoted(name)


_PLAIN_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*")


def fold_name(name: str) -> str:
    """The form in which two column names are compared: Delta keeps the case of names and ignores it in comparisons."""
    return name.lower()


def places_by_name(names: Iterable[str]) -> Callable[[str], Sequence[int]]:
    """A function of a name: the places of those ``names`` that it may mean, which are the ones with its letters, or
    else all that have them in another case."""
    exact: dict[str, list[int]] = {}
    folded: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        exact.setdefault(name, []).append(at)
        folded.setdefault(fold_name(name), []).append(at)

    def places_of(name: str) -> Sequence[int]:
        return exact.get(name) or folded.get(fold_name(name), [])

    return places_of


def repeated_in_other_case(data_type: DataType) -> list[str]:
    """The fields of a struct that another one has in another case; empty for other types and most structs."""
    names = data_type.names if isinstance(data_type, Struct) else ()
    return [name for name in names if sum(fold_name(each) == fold_name(name) for each in names) > 1]


def type_name(data_type: DataType) -> str:
    """The type as SQL writes it, for messages: ``decimal(10,2)``, ``array<struct<a:int>>``."""
    match data_type:
        case Primitive(name):
            return (name in PRIMITIVES and PRIMITIVES[name].sql) or name
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case Array(element):
            return f"array<{type_name(element)}>"
        case Map(key, value):
            return f"map<{type_name(key)},{type_name(value)}>"
        case Struct(fields):
            return f"struct<{','.join(f'{f.name}:{type_name(f.type)}' for f in fields)}>"


def leaf_paths(schema: Struct) -> Iterator[tuple[tuple[str, ...], DataType]]:
    """Every leaf column in order with its path of names. Structs are entered; arrays and maps are leaves."""
    for member in schema.fields:
        if isinstance(member.type, Struct):
            yield from (((member.name, *path), leaf) for path, leaf in leaf_paths(member.type))
        else:
            yield (member.name,), member.type


def types_in(data_type: DataType) -> Iterator[DataType]:
    """The type, and the types of all its parts, at every depth."""
    yield data_type
    match data_type:
        case Struct(fields):
            for member in fields:
                yield from types_in(member.type)
        case Array(element):
            yield from types_in(element)
        case Map(key, value):
            yield from types_in(key)
            yield from types_in(value)


def has_package_type(data_type: DataType) -> bool:
    """Whether it is a type whose values a package makes, or has a part of one."""
    return any(isinstance(each, Primitive) and each.facts.by_package for each in types_in(data_type))


def field_at(schema: Struct, path: Sequence[str]) -> Field:
    """The field at a path that the schema has: of a leaf, or of a struct on the way to one."""
    field = next(member for member in schema.fields if member.name == path[0])
    return field_at(field.type, path[1:]) if isinstance(field.type, Struct) and path[1:] else field


# --- JSON -----------------------------------------------------------------------------------------------------


def parse_schema(schema_string: str) -> Struct:
    """The schema of a table from ``metaData.schemaString``.

    Raises CorruptLogError if the text is not a schema, UnsupportedFeatureError naming a type (and its column)
    that this release does not know. ``variant`` and ``void`` parse; writing them is refused elsewhere.
    """
    try:
        return schema_from_json(schema_string)
    except ValueError as error:
        message = f"the table's schemaString is not a Delta schema: {error}"
        raise CorruptLogError(message, repair=ASK_VERIFY) from None


def schema_from_json(value: Any) -> Struct:
    """The schema of a Delta schema JSON, as text or parsed.

    Raises ValueError saying what is wrong with it, UnsupportedFeatureError naming a type (and its column).
    """
    try:
        value = orjson.loads(value) if isinstance(value, str | bytes) else value
    except orjson.JSONDecodeError as error:
        raise _NotASchema(f"it is not JSON, from line {error.lineno}, column {error.colno} on") from None
    return _struct_from_json(value, "", 0)


def schema_to_json(schema: Struct) -> str:
    """The text for ``metaData.schemaString``, key for key as Spark writes it. Raises InvalidInputError."""
    return _json_bytes(type_to_json(schema)).decode()


def _json_bytes(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise InvalidInputError(f"the schema's names and metadata must be plain JSON values: {error}") from None


def with_fields(data_type: DataType, change: Callable[[Field], Field], *, parts_nullable: bool = False) -> DataType:
    """The type with its fields changed, also where structs are in arrays or maps, but not the fields inside these
    fields. With ``parts_nullable``, elements and values may be null."""

    def inside(part: DataType) -> DataType:
        return with_fields(part, change, parts_nullable=parts_nullable)

    match data_type:
        case Struct(fields):
            return Struct(tuple(map(change, fields)))
        case Array(element, contains_null):
            return Array(inside(element), contains_null or parts_nullable)
        case Map(key, value, contains_null):
            return Map(inside(key), inside(value), contains_null or parts_nullable)
    return data_type


def type_to_json(data_type: DataType) -> Any:
    """The type as the JSON of a schema has it: a name, or an object."""
    match data_type:
        case Primitive(name):
            return name
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case Array(element, contains_null):
            return {"type": "array", "elementType": type_to_json(element), "containsNull": contains_null}
        case Map(key, value, value_contains_null):
            return {
                "type": "map",
                "keyType": type_to_json(key),
                "valueType": type_to_json(value),
                "valueContainsNull": value_contains_null,
            }
        case Struct(fields):
            return {
                "type": "struct",
                "fields": [
                    {
                        "name": f.name,
                        "type": type_to_json(f.type),
                        "nullable": f.nullable,
                        "metadata": dict(f.metadata),
                    }
                    for f in fields
                ],
            }


class _NotASchema(ValueError):
    """The JSON has the wrong shape. The caller knows where it came from and reports it."""


_NAMED_TYPES: dict[str, DataType] = {
    **{name: Primitive(name) for name in PRIMITIVES},
    # older spellings that Spark still reads
    **{"null": VOID, "timestamp_ltz": TIMESTAMP, "decimal": Decimal(10, 0)},
}
_DECIMAL = pattern(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")


def _type_from_json(value: Any, column: str, depth: int) -> DataType:
    if depth > _DEPTH_MAX:
        raise UnsupportedFeatureError(f"column {column} nests deeper than {_DEPTH_MAX} levels", features=("nesting",))
    if type(value) is str:
        return _named_type(value, column)
    kind = _member(value, "type", str, column)
    if kind == "struct":
        return _struct_from_json(value, column, depth + 1)
    if kind == "array":
        return Array(
            _type_from_json(_member(value, "elementType", object, column), f"{column}.element", depth + 1),
            _member(value, "containsNull", bool, column),
        )
    if kind == "map":
        return Map(
            _type_from_json(_member(value, "keyType", object, column), f"{column}.key", depth + 1),
            _type_from_json(_member(value, "valueType", object, column), f"{column}.value", depth + 1),
            _member(value, "valueContainsNull", bool, column),
        )
    raise _unknown_type(kind, column)


def _struct_from_json(value: Any, column: str, depth: int) -> Struct:
    if _member(value, "type", str, column) != "struct":
        raise _NotASchema("the outermost type must be a struct")
    fields = []
    for member in _member(value, "fields", list, column):
        name = _member(member, "name", str, column)
        inner = f"{column}.{name}" if column else name
        fields.append(
            Field(
                name,
                _type_from_json(_member(member, "type", object, inner), inner, depth),
                _member(member, "nullable", bool, inner),
                _member(member, "metadata", dict, inner) if member.get("metadata") is not None else {},
            )
        )
    return Struct(tuple(fields))


def _member(value: Any, key: str, kind: type, column: str) -> Any:
    where = f"column {column}" if column else "it"
    if type(value) is not dict:
        raise _NotASchema(f"{where} must be an object, not {_in_json(type(value))}")
    if key not in value:
        raise _NotASchema(f"{where} has no {key!r}")
    if not isinstance(value[key], kind):
        raise _NotASchema(f"{where} must have {_in_json(kind)} as {key!r}, not {_in_json(type(value[key]))}")
    return value[key]


def _in_json(kind: type) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(kind, "a number" if kind in (int, float) else f"a {kind.__name__}")


def _named_type(name: str, column: str) -> DataType:
    known = _NAMED_TYPES.get(name)
    if known is not None:
        return known
    matched = _DECIMAL.fullmatch(name)
    if matched is None:
        raise _unknown_type(name, column)
    precision, scale = int(matched[1]), int(matched[2])
    if not 1 <= precision <= 38 or scale > precision:
        raise _NotASchema(f"column {column}: {name} is out of range (precision 1 to 38, scale 0 to precision)")
    return Decimal(precision, scale)


def _unknown_type(name: str, column: str) -> UnsupportedFeatureError:
    primitives = (name for name, facts in PRIMITIVES.items() if facts.is_ordered)
    known = ", ".join([*primitives, "decimal(p,s)", "array", "map"])
    message = f"column {column} has type {name!r}, which txlog does not support: it knows {known} and struct"
    return UnsupportedFeatureError(message, features=(name,))


# --- Arrow ----------------------------------------------------------------------------------------------------


def to_arrow(schema: Struct) -> pa.Schema:
    """The Arrow schema that rows of this table are read and written with.

    Timestamps are microseconds, in UTC or without a zone; nullability is kept; a field's
    Delta metadata is JSON under `ARROW_METADATA_KEY`. A variant is a struct of its two binary parts, as in data files.
    """
    return pa.schema([_field_to_arrow(f, f.name) for f in schema.fields])


def type_to_arrow(data_type: DataType, column: str = "value") -> pa.DataType:
    """One type of `to_arrow`; ``column`` names it in the error."""
    match data_type:
        case Primitive(name):
            if name not in PRIMITIVES:
                raise _unknown_type(name, column)
            return PRIMITIVES[name].arrow
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Array(element, contains_null):
            item = type_to_arrow(element, f"{column}.element")
            return pa.list_(pa.field("element", item, contains_null))
        case Map(key, value, value_contains_null):
            return pa.map_(
                pa.field("key", type_to_arrow(key, f"{column}.key"), nullable=False),
                pa.field("value", type_to_arrow(value, f"{column}.value"), value_contains_null),
            )
        case Struct(fields):
            return pa.struct([_field_to_arrow(f, f"{column}.{f.name}") for f in fields])


def _field_to_arrow(member: Field, column: str) -> pa.Field:
    metadata = {ARROW_METADATA_KEY: _json_bytes(dict(member.metadata))} if member.metadata else None
    return pa.field(member.name, type_to_arrow(member.type, column), member.nullable, metadata)


def from_arrow(schema: pa.Schema) -> Struct:
    """The Delta schema that holds every value of these Arrow types.

    ``uint8/16/32/64`` become short, integer, long, decimal(20,0); any timestamp becomes microseconds, with a zone or
    without; ``null`` becomes ``void``; UUID and JSON become string. Delta
    metadata is taken from `ARROW_METADATA_KEY`, a ``comment`` and the keys that Delta and Spark know, such
    as ``delta.generationExpression``, from keys of their own, where deltalake has them. Other Arrow metadata is
    dropped. Raises InvalidInputError naming the column and the type or the metadata that Delta does not have, and for
    types that nest deeper than Python's stack.
    """
    try:
        return Struct(tuple(_field_from_arrow(f, f.name) for f in schema))
    except RecursionError:
        raise InvalidInputError("a column nests hundreds of levels deep, which no reader accepts: flatten it") from None


def _field_from_arrow(arrow: pa.Field, column: str) -> Field:
    return Field(arrow.name, _type_from_arrow(arrow.type, column), arrow.nullable, _metadata_from_arrow(arrow, column))


def _metadata_from_arrow(arrow: pa.Field, column: str) -> dict[str, Any]:
    kept = arrow.metadata or {}
    try:
        metadata = orjson.loads(kept[ARROW_METADATA_KEY]) if ARROW_METADATA_KEY in kept else {}
        if type(metadata) is not dict:
            raise ValueError("not an object")
        return {**{key: _value_from_arrow(key, text) for key, text in _texts(kept)}, **metadata}
    except ValueError as error:
        raise InvalidInputError(f"column {column} carries Arrow metadata that is not Delta's: {error}") from None


def _texts(metadata: Mapping[bytes, bytes]) -> Iterator[tuple[str, str]]:
    """The keys, and their values, that Delta and Spark know besides `ARROW_METADATA_KEY`."""
    for key, value in metadata.items():
        name = key.decode(errors="replace")
        if name == "comment" or (key != ARROW_METADATA_KEY and name.startswith(_KEPT_KEYS)):
            yield name, value.decode()


def _value_from_arrow(key: str, text: str) -> Any:
    """Arrow has texts only: other engines write what is not a text in Delta as JSON."""
    return orjson.loads(text) if key.startswith(_JSON_KEYS) else text


TEXT_LENGTH_KEY = "__CHAR_VARCHAR_TYPE_STRING"
"""The type of a column with lengths of text, such as ``varchar(3)``, as Spark writes it; in Delta it is a string."""

COLLATIONS_KEY = "__COLLATIONS"
"""How the texts of a column are compared, if not by their bytes."""

_KEPT_KEYS = ("delta.", "CURRENT_DEFAULT", "EXISTS_DEFAULT", TEXT_LENGTH_KEY, COLLATIONS_KEY)
"""What Delta and Spark give a meaning, so that it may not be lost."""
_JSON_KEYS = (
    "delta.identity.",
    "delta.columnMapping.id",
    "delta.columnMapping.nested.ids",
    "delta.typeChanges",
    COLLATIONS_KEY,
)


def _part_from_arrow(arrow: pa.Field, column: str) -> DataType:
    """The type of an element, a key or a value, which has no metadata in Delta."""
    found = sorted(key for key, _ in _texts(arrow.metadata or {}) if key not in ("comment", "delta.columnMapping.id"))
    if found:
        raise InvalidInputError(
            f"{column} has the Arrow metadata {', '.join(found)}, which Delta keeps only for columns and members of"
            " structs: remove it"
        )
    return _type_from_arrow(arrow.type, column)


def _type_from_arrow(arrow: pa.DataType, column: str) -> DataType:
    extension = _BY_EXTENSION.get(getattr(arrow, "extension_name", ""))
    found = extension or _DELTA_BY_ARROW_ID.get(arrow.id)
    if found is not None:
        return found
    if isinstance(arrow, pa.TimestampType):
        return timestamp_of(has_zone=bool(arrow.tz))
    if pa.types.is_decimal(arrow) and arrow.precision <= 38 and 0 <= arrow.scale <= arrow.precision:
        return Decimal(arrow.precision, arrow.scale)
    if isinstance(arrow, (pa.DictionaryType, pa.RunEndEncodedType)):
        return _type_from_arrow(arrow.value_type, column)
    if isinstance(arrow, pa.StructType):
        if is_variant_struct(arrow):
            return VARIANT
        return Struct(tuple(_field_from_arrow(f, f"{column}.{f.name}") for f in arrow))
    if isinstance(arrow, pa.MapType):
        return Map(
            _part_from_arrow(arrow.key_field, f"{column}.key"),
            _part_from_arrow(arrow.item_field, f"{column}.value"),
            arrow.item_field.nullable,
        )
    if isinstance(arrow, _LISTS):
        return Array(_part_from_arrow(arrow.value_field, f"{column}.element"), arrow.value_field.nullable)
    raise InvalidInputError(f"column {column} has Arrow type {arrow}, unknown to Delta: cast it or leave it out")


_DELTA_BY_ARROW_ID: dict[int, DataType] = {
    arrow.id: Primitive(name)
    for name, facts in PRIMITIVES.items()
    for arrow in (facts.arrow, *facts.takes)
    if not isinstance(arrow, (pa.TimestampType, pa.StructType))
}
_DELTA_BY_ARROW_ID[pa.uint64().id] = Decimal(20, 0)
_BY_EXTENSION = {
    **{"arrow.json": STRING, "arrow.uuid": STRING, "arrow.bool8": BOOLEAN},
    **dict.fromkeys(("arrow.parquet.variant", "parquet.variant"), VARIANT),
}
_LISTS = (pa.ListType, pa.LargeListType, pa.FixedSizeListType, pa.ListViewType, pa.LargeListViewType)
