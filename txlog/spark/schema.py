"""The conversion of a DataFrame's schema to txlog's, checked on the driver before any task runs.

In: the Spark schema of `df.write`. Out: our `Struct` without Spark's internal metadata, or an error that names every
column that cannot be written. ``core/writing/_conform`` checks whether the columns fit the *table*.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from txlog.core.format.schema import (
    OF_PACKAGES,
    PRIMITIVES,
    VOID,
    Array,
    DataType,
    Field,
    Map,
    Struct,
    schema_to_json,
    with_fields,
)
from txlog.core.format.schema_input import from_any
from txlog.core.format.type_support import is_supported
from txlog.errors import UnsupportedFeatureError

_INTERNAL_METADATA = ("delta.", "__", "CURRENT_DEFAULT", "EXISTS_DEFAULT")
"""Keys that bind a column to the table it was read from (generation, identity, mapping ids, collation, char length)."""


def frame_schema(spark_schema: Any) -> Struct:
    """Convert a DataFrame's schema. Comments and user metadata are kept.

    Args:
        spark_schema: A pyspark ``StructType``.

    Returns:
        The columns in txlog's types.

    Raises:
        UnsupportedFeatureError: txlog cannot write a column's type (intervals, time, user-defined types,
            collated strings, empty structs); the message names all such columns.
    """
    document = spark_schema.jsonValue()
    refused = list(_refused("", document))
    if refused:
        lines = "".join(f"\n  {column}  {reason}" for column, reason in refused)
        raise UnsupportedFeatureError(
            f"{len(refused)} column{'s' if len(refused) > 1 else ''} of the DataFrame cannot be written:{lines}",
            features=tuple(reason.split(":")[0] for _, reason in refused),
        )
    plain = _plain(from_any(document))
    assert isinstance(plain, Struct)
    return plain


def struct_type(given: Any) -> Any:
    """The schema that an engine passes to a data source, as a pyspark ``StructType``: Sail passes Arrow's."""
    if not isinstance(given, pa.Schema):
        return given
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(given, prefer_timestamp_ntz=True)


def as_nullable(data_type: DataType) -> DataType:
    """The type without any NOT NULL. Spark creates tables like this, since it infers a DataFrame's nullability."""

    def nullable(field: Field) -> Field:
        return replace(field, type=as_nullable(field.type), nullable=True)

    return with_fields(data_type, nullable, parts_nullable=True)


def spark_type(schema: Struct) -> Any:
    """The pyspark ``StructType`` of rows that tasks return: all columns nullable, without table metadata."""
    from pyspark.sql.types import StructType

    plain = as_nullable(_plain(schema))
    assert isinstance(plain, Struct)
    return StructType.fromJson(json.loads(schema_to_json(plain)))


_ADVICE = {
    "calendar interval": "cast it to string or to a number of units",
    **dict.fromkeys(OF_PACKAGES, "cast it to string, as to_json does"),
    "udt": "write its parts as columns",
}
_KNOWN = {*PRIMITIVES, "null"} - OF_PACKAGES


def _refused(column: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield (column path, type and advice) for every part that cannot be written."""
    if isinstance(value, str):
        if value not in _KNOWN and not value.startswith("decimal") and not is_supported(value):
            yield column, _reason(value)
        return
    kind = value["type"]
    if kind == "struct":
        if column and not value["fields"]:
            yield column, "empty struct: Parquet cannot hold one; drop the column or give it a field"
        for member in value["fields"]:
            path = f"{column}.{member['name']}" if column else member["name"]
            if (member.get("metadata") or {}).get("__COLLATIONS"):
                yield path, "collated string: cast it with COLLATE UTF8_BINARY"
            yield from _refused(path, member["type"])
    elif kind == "array":
        yield from _refused(f"{column}.element", value["elementType"])
    elif kind == "map":
        if value["keyType"] in ("void", "null"):  # Arrow has no such maps
            yield column, "map with keys of no type: name its type, as cast(map() as map<string, int>) does"
            return
        yield from _refused(f"{column}.key", value["keyType"])
        yield from _refused(f"{column}.value", value["valueType"])
    else:
        yield column, _reason(kind)


def _reason(name: str) -> str:
    if name.startswith("interval"):
        return f"{name}: cast it to string or to a number of units"
    if name.startswith("time("):
        return f"{name}: cast it to string or to a timestamp"
    return f"{name}: {_ADVICE.get(name, 'cast it or leave it out')}"


def _plain(data_type: DataType) -> DataType:
    """The type without internal metadata, and with every part of type void nullable: Spark's ``array()`` is an array of
    void without nulls, and Arrow has no such type."""
    match data_type:
        case Struct(fields):
            return Struct(tuple(_plain_field(member) for member in fields))
        case Array(element, contains_null):
            return Array(_plain(element), contains_null or element == VOID)
        case Map(key, value, contains_null):
            return Map(_plain(key), _plain(value), contains_null or value == VOID)
    return data_type


def _plain_field(member: Field) -> Field:
    kept = {key: value for key, value in member.metadata.items() if not key.startswith(_INTERNAL_METADATA)}
    return replace(member, type=_plain(member.type), nullable=member.nullable or member.type == VOID, metadata=kept)
