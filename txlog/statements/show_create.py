"""SHOW CREATE TABLE: the statement that makes a table with an equal definition.

In: a version of a table. Out: text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from txlog.core.format.identity import IdentityColumn, identity_columns, is_identity
from txlog.core.format.properties import column_paths
from txlog.core.format.schema import (
    TEXT_LENGTH_KEY,
    Array,
    DataType,
    Field,
    Map,
    Struct,
    backquoted,
    type_name,
)
from txlog.core.format.schema_ddl import parse_columns
from txlog.errors import UnsupportedFeatureError
from txlog.extend import state_of
from txlog.snapshot import Snapshot
from txlog.statements.cursor import quoted

_GENERATED, _DEFAULT, _COMMENT = "delta.generationExpression", "CURRENT_DEFAULT", "comment"
_CONSTRAINT = "delta.constraints."
_FEATURE = "delta.feature."
_OF_ONE_TABLE = (
    "delta.columnMapping.maxColumnId",
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)
_OF_CATALOGS = ("catalogManaged", "catalogOwned-preview")


def create_text(snapshot: Snapshot, name: Sequence[str]) -> str:
    """The statement.

    Raises:
        UnsupportedFeatureError: No statement can say what a column is, such as an array whose elements are never null.
    """
    schema = snapshot.delta_schema
    properties = snapshot.properties
    identities = {each.name: each for each in identity_columns(schema)}
    columns = [_column(field, identities.get(field.name)) for field in schema.fields]
    _check(schema, ", ".join(columns), snapshot)
    constraints = [
        f"CONSTRAINT {backquoted(key.removeprefix(_CONSTRAINT))} CHECK ({condition})"
        for key, condition in sorted(properties.items())
        if key.startswith(_CONSTRAINT)
    ]
    lines = [
        f"CREATE TABLE {'.'.join(map(backquoted, name))} (",
        ",\n".join(f"  {each}" for each in (*columns, *constraints)),
        ")",
        "USING delta",
        *_clauses(snapshot),
    ]
    return "\n".join(lines)


def _clauses(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.partition_columns:
        yield f"PARTITIONED BY ({', '.join(map(backquoted, snapshot.partition_columns))})"
    if snapshot.clustering_columns:
        paths = (column_paths(column)[0] for column in snapshot.clustering_columns)
        yield f"CLUSTER BY ({', '.join('.'.join(map(backquoted, path)) for path in paths)})"
    description = state_of(snapshot).metadata.description
    if description:
        yield f"COMMENT {quoted(description)}"
    pairs = {**_features(snapshot), **_kept(snapshot.properties)}
    if pairs:
        listed = ",\n".join(f"  {quoted(key)} = {quoted(value)}" for key, value in sorted(pairs.items()))
        yield f"TBLPROPERTIES (\n{listed})"


def _kept(properties: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value
        for key, value in properties.items()
        if key not in _OF_ONE_TABLE and not key.startswith((_CONSTRAINT, _FEATURE))
    }


def _features(snapshot: Snapshot) -> dict[str, str]:
    protocol = snapshot.protocol
    found = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    return {f"{_FEATURE}{feature}": "supported" for feature in found.difference(_OF_CATALOGS)}


def _column(field: Field, identity: IdentityColumn | None) -> str:
    text = f"{backquoted(field.name)} {field.metadata.get(TEXT_LENGTH_KEY) or _type(field.type)}"
    if identity is not None:
        words = identity.kind.removesuffix(" IDENTITY")
        text += f" {words} IDENTITY (START WITH {identity.start} INCREMENT BY {identity.step})"
    if _GENERATED in field.metadata:
        text += f" GENERATED ALWAYS AS ({field.metadata[_GENERATED]})"
    if _DEFAULT in field.metadata:
        text += f" DEFAULT {field.metadata[_DEFAULT]}"
    return text + _rules(field)


def _rules(field: Field) -> str:
    text = "" if field.nullable else " NOT NULL"
    return f"{text} COMMENT {quoted(field.metadata[_COMMENT])}" if field.metadata.get(_COMMENT) else text


def _type(kind: DataType) -> str:
    match kind:
        case Struct(fields):
            members = (f"{backquoted(each.name)}: {_type(each.type)}{_rules(each)}" for each in fields)
            return f"struct<{', '.join(members)}>"
        case Array(element):
            return f"array<{_type(element)}>"
        case Map(key, value):
            return f"map<{_type(key)}, {_type(value)}>"
    return type_name(kind)


def _check(schema: Struct, columns: str, snapshot: Snapshot) -> None:
    """Raise if the columns, read again, would be others."""
    for field, again in zip(schema.fields, parse_columns(columns).fields, strict=True):
        if _said(field) != _said(again):
            raise UnsupportedFeatureError(
                f"no CREATE TABLE says what column {field.name} is, {field.type}: make a table like this one by CLONE,"
                " or from the schema in Python",
                version=snapshot.version,
            )


def _said(field: Field) -> Any:
    """All that a statement says of a column."""
    keys = (_GENERATED, _DEFAULT, _COMMENT, TEXT_LENGTH_KEY)
    return field.name, field.nullable, is_identity(field), _shape(field.type), [field.metadata.get(key) for key in keys]


def _shape(kind: DataType) -> Any:
    match kind:
        case Struct(fields):
            return [_said(each) for each in fields]
        case Array(element, contains_null):
            return ("array", _shape(element), contains_null)
        case Map(key, value, contains_null):
            return ("map", _shape(key), _shape(value), contains_null)
    return kind
