"""Changes to a table's columns (rename, drop, alter) and to its description.

In: a version of a table and what the caller asks for. Out: a `DefinitionChange` that needs only the log, for its own
commit or as part of a transaction. A new NOT NULL is a rule that the table's rows must meet first. PROTOCOL.md, "Column
Mapping", "Type Widening", "Change Metadata".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from txlog.core.definition._change_definition import history_column, history_name
from txlog.core.definition._checked_definition import DefinitionChange
from txlog.core.definition._column_references import (
    ColumnReference,
    ColumnReferences,
    references_to,
    with_new_name,
    without_column,
)
from txlog.core.definition._table_definition import Definition, check_retyped, redefined
from txlog.core.format.actions import operation_parameters
from txlog.core.format.column_mapping import MODE_KEY, mapping_mode
from txlog.core.format.properties import ColumnPath, path_text
from txlog.core.format.schema import (
    PRIMITIVES,
    TEXT_LENGTH_KEY,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Primitive,
    Struct,
    from_arrow,
    type_name,
)
from txlog.core.format.schema_changes import column_path, dropped, field_at, moved, renamed, type_at, with_field
from txlog.core.format.schema_input import from_any
from txlog.core.format.schema_merge import check_partition_columns
from txlog.core.format.type_widening import ENABLED_KEY, TYPE_CHANGES_KEY, may_widen, retyped
from txlog.core.format.upgrade_note import readers_note
from txlog.core.row_rules import Constraint, check_computed_columns
from txlog.core.util import UTC, check_text, invalid, pattern
from txlog.core.versions.decisions.state import TableState
from txlog.core.wording import argument, call, setting
from txlog.errors import InvalidInputError

_TEXT_LENGTH = pattern(r"(varchar|char)\((\d+)\)")
_COMMENT, _DEFAULT, _GENERATED = "comment", "CURRENT_DEFAULT", "delta.generationExpression"


class ColumnAlteration(msgspec.Struct, frozen=True):
    """The arguments of `Table.alter_column`; None leaves a property of the column as it is."""

    type: Any = None
    nullable: bool | None = None
    comment: str | None = None
    default: str | None = None
    first: bool = False
    after: str | None = None


def renamed_column(state: TableState, column: Any, name: Any) -> DefinitionChange:
    """See `Table.rename_column`."""
    path = _column(state, column, "renamed")
    check_text("name", name)
    if not name:
        raise invalid("name", name, "a string that is not empty")
    refused = [each for each in references_to(state, path) if each.place in ("rule", "generated column")]
    schema = renamed(state.schema, path, name)
    if schema != state.schema and refused:
        raise InvalidInputError(
            f"{path_text(path)} cannot be renamed: {_listed(refused)}. Drop the rule first, and add it again with the"
            " new name"
        )
    _require_mapping(state, f"{path_text(path)} cannot be renamed")
    partition_columns, configuration = with_new_name(state.metadata, path, name)
    definition = redefined(state, schema, configuration=configuration, partition_columns=partition_columns)
    parameters = operation_parameters(oldColumnPath=history_name(path), newColumnPath=history_name((*path[:-1], name)))
    return DefinitionChange(definition, "RENAME COLUMN", parameters)


def dropped_columns(state: TableState, columns: Any) -> DefinitionChange:
    """See `Table.drop_columns`."""
    given = [columns] if isinstance(columns, str) else columns
    if not isinstance(given, Iterable) or isinstance(given, bytes) or not (named := list(given)):
        raise invalid("columns", columns, "the name of a column, or a list of names")
    paths = [_column(state, each, "dropped") for each in named]
    if len({*paths}) < len(paths):
        raise InvalidInputError(f"a column is named twice: {', '.join(map(path_text, paths))}")
    configuration = dict(state.metadata.configuration)
    references = ColumnReferences(state)
    for path in paths:
        refused = [each for each in references.to(path) if _keeps(each.place, each.owner, paths)]
        if refused:
            raise InvalidInputError(f"{path_text(path)} cannot be dropped: {_listed(refused)}. {_way_out(refused)}")
        configuration = without_column(configuration, path)
    schema = dropped(state.schema, *paths)
    check_partition_columns(schema, state.partition_columns)
    _require_mapping(state, f"{', '.join(map(path_text, paths))} cannot be dropped without a rewrite of every file")
    parameters = operation_parameters(columns=[history_name(path) for path in paths])
    return DefinitionChange(redefined(state, schema, configuration=configuration), "DROP COLUMNS", parameters)


def altered_column(state: TableState, column: Any, asked: ColumnAlteration) -> DefinitionChange:
    """See `Table.alter_column`."""
    if asked == ColumnAlteration():
        names = ", ".join(map(argument, ("type", "nullable", "comment", "default", "first", "after")))
        raise InvalidInputError(f"nothing to change: pass one of {names}")
    if asked.nullable not in (None, True, False):
        raise invalid("nullable", asked.nullable, "True or False")
    path = column_path(column, state.schema)
    schema, before = state.schema, field_at(state.schema, path)
    if asked.type is not None:
        asked_field = _asked_field(asked.type)
        schema = _with_type(state, path, asked_field.type)
        schema = _with_length(schema, path, asked_field.metadata.get(TEXT_LENGTH_KEY))
    schema = _with_metadata(schema, path, asked)
    needs: tuple[str, ...] = ()
    rule = None
    if asked.nullable is not None:
        schema = with_field(schema, path, lambda field: replace(field, nullable=bool(asked.nullable)))
        if not asked.nullable and before is not None and before.nullable:
            rule, needs = _not_null(state.schema, path), ("invariants",)
    if asked.first and asked.after is not None:
        raise InvalidInputError(f"pass {argument('first')} or {argument('after')}, not both")
    if asked.first or asked.after is not None:
        schema = moved(schema, path, asked.after)
    if asked.default is not None:
        check_computed_columns(schema)
    definition = redefined(state, schema, needs=needs)
    return DefinitionChange(definition, "CHANGE COLUMN", _parameters(state, schema, path, asked), rule)


def described_table(state: TableState, description: str | None, name: str | None) -> DefinitionChange:
    """See `Table.set_description`. In Spark, the description is the property ``comment``."""
    given = {"description": description, "name": name}
    for parameter, value in given.items():
        if value is not None and not isinstance(value, str):
            raise invalid(parameter, value, "text; an empty one removes it")
    if description is None and name is None:
        raise InvalidInputError(f"pass {argument('description')} or {argument('name')}")
    changes: dict[str, Any] = {key: value or None for key, value in given.items() if value is not None}
    metadata = replace(state.metadata, **changes)
    keys = {"description": _COMMENT}  # Spark's COMMENT ON TABLE sets this property
    properties = {keys.get(key, key): value for key, value in given.items() if value is not None}
    definition = None if metadata == state.metadata else Definition(metadata)
    return DefinitionChange(definition, "SET TBLPROPERTIES", operation_parameters(properties=properties))


# --- what is allowed ----------------------------------------------------------------------------------------------


def _column(state: TableState, given: Any, what: str) -> ColumnPath:
    path = column_path(given, state.schema)
    if field_at(state.schema, path) is None:
        raise InvalidInputError(f"{path_text(path)} has no name of its own: it cannot be {what}")
    return path


def _require_mapping(state: TableState, problem: str) -> None:
    if mapping_mode(state.metadata.configuration) == "none":
        raise InvalidInputError(
            f"{problem}, because readers find its columns in files by name. Turn on column mapping first, with"
            f" {call('set_properties', {MODE_KEY: 'name'})}: that rewrites no file, but to turn it off again, every"
            f" file must be rewritten. {readers_note('columnMapping')}"
        )


def _keeps(place: str, owner: str | None, paths: list[ColumnPath]) -> bool:
    """Whether a reference prevents dropping the column; it does not if its owner is dropped too."""
    return place not in ("statistics", "encoding", "key index") and (owner is None or owner not in map(".".join, paths))


def _way_out(references: Iterable[ColumnReference]) -> str:
    """What to do about references that prevent dropping a column."""
    if any(each.place == "partitioning" for each in references):
        return (
            "No change of the definition changes the partitioning: overwrite the table with its rows, with"
            f" {setting('schema_mode', 'overwrite')} and other columns in {argument('partition_by')}, or write them to"
            " a new table"
        )
    return "Change that first, or drop what depends on it in the same call"


def _listed(references: Iterable[Any]) -> str:
    return "; ".join(each.text for each in references)


def _with_type(state: TableState, path: ColumnPath, new: DataType) -> Struct:
    old = type_at(state.schema, path)
    if old == new:
        return state.schema
    name, types = path_text(path), f"from {type_name(old)} to {type_name(new)}"
    if not may_widen(old, new):
        raise InvalidInputError(
            f"the type of {name} cannot change {types}: only to a wider one ({_wider_than(old)}). Write the rows to a"
            " column of the other type, or to another table"
        )
    if not state.properties.enable_type_widening:
        raise InvalidInputError(
            f"the type of {name} cannot change {types} unless the table allows it: turn that on with"
            f" {call('set_properties', {ENABLED_KEY: 'true'})}. {readers_note('typeWidening')}"
        )
    check_retyped(state, path, new)
    schema = retyped(state.schema, path, new)
    field = field_at(schema, path)
    if field is not None and _GENERATED in field.metadata:
        check_computed_columns(schema)
    return schema


def _with_length(schema: Struct, path: ColumnPath, new: str | None) -> Struct:
    """The column with another length of text, or with none, as Spark allows: no value of the table becomes too long."""
    field = field_at(schema, path)
    old = None if field is None else field.metadata.get(TEXT_LENGTH_KEY)
    if old == new:
        return schema
    if new is not None and not _may_lengthen(old, new):
        raise InvalidInputError(
            f"the type of {path_text(path)} cannot change from {old or type_name(type_at(schema, path))} to {new}: a"
            " varchar may get longer, a char may become a varchar that is not shorter, and both may become string."
            " Write the rows to a column of the other type, or to another table"
        )
    if path[1:]:
        raise InvalidInputError(f"{path_text(path)} is a part of a column: the length of its text cannot change")
    return with_field(schema, path, lambda field: _marked(field, TEXT_LENGTH_KEY, new or ""))


def _may_lengthen(old: str | None, new: str) -> bool:
    was, will_be = (_TEXT_LENGTH.fullmatch(text or "") for text in (old, new))
    if was is None or will_be is None:
        return False
    return will_be[1] == "varchar" and int(was[2]) <= int(will_be[2])


def _wider_than(old: DataType) -> str:
    if isinstance(old, Struct | Array | Map):
        return "name the field, such as 'a.b' or 'tags.element'"
    if isinstance(old, Decimal):
        return "a decimal with at least as many digits on both sides"
    wider = [type_name(new) for new in map(Primitive, PRIMITIVES) if may_widen(old, new)]
    whole = next((digits for digits in (10, 20) if may_widen(old, Decimal(digits, 0))), None)
    wider += [f"decimal({whole},0) or more"] if whole else []
    return ", ".join(wider) or "none for this type"


def _asked_field(given: Any) -> Field:
    """A column of the type."""
    if isinstance(given, pa.DataType):
        return from_arrow(pa.schema([("value", given)])).fields[0]
    if isinstance(given, str):
        return from_any({"value": given}).fields[0]
    raise invalid("type", given, "a type in DDL, such as 'bigint', or a pyarrow.DataType")


def _with_metadata(schema: Struct, path: ColumnPath, asked: ColumnAlteration) -> Struct:
    given = {_COMMENT: asked.comment, _DEFAULT: asked.default}
    for (key, value), parameter in zip(given.items(), ("comment", "default"), strict=True):
        if value is None:
            continue
        if not isinstance(value, str):
            raise invalid(parameter, value, "text; an empty one removes it")
        schema = with_field(schema, path, lambda field, key=key, value=value: _marked(field, key, value))  # type: ignore[misc]
    return schema


def _marked(field: Field, key: str, value: str) -> Field:
    kept = {name: each for name, each in field.metadata.items() if name != key}
    return replace(field, metadata={**kept, key: value} if value else kept)


def _not_null(schema: Struct, path: ColumnPath) -> Constraint:
    """That the column has a value in every row in which its struct has one."""
    from txlog.core.predicates import parse_predicate

    if any(isinstance(type_at(schema, path[:length]), Array | Map) for length in range(1, len(path))):
        raise InvalidInputError(f"{path_text(path)} is inside an array or a map, where Delta does not check NOT NULL")
    sql = f"{path_text(path)} IS NOT NULL"
    if path[1:]:
        sql = f"{path_text(path[:-1])} IS NULL OR {sql}"
    return Constraint(f"NOT NULL of column {path_text(path)}", sql, parse_predicate(sql, schema, zone=UTC))


def _parameters(state: TableState, schema: Struct, path: ColumnPath, asked: ColumnAlteration) -> dict[str, str]:
    """As Spark writes them: the current column, with its earlier type changes and its new position."""
    position = "FIRST" if asked.first else None if asked.after is None else f"AFTER {asked.after}"
    field, before = field_at(schema, path), field_at(state.schema, path)
    if field is None:
        column = Field(path[-1], type_at(schema, path), _may_be_null(schema, path))
    else:
        history = {} if before is None else {key: before.metadata.get(key) for key in (TYPE_CHANGES_KEY,)}
        metadata = {**field.metadata, **history}
        column = replace(field, metadata={key: value for key, value in metadata.items() if value is not None})
    return operation_parameters(column=history_column(column, path), position=position)


def _may_be_null(schema: Struct, path: ColumnPath) -> bool:
    """Whether an element or a value may be null; keys may not."""
    around = type_at(schema, path[:-1])
    if isinstance(around, Array):
        return around.contains_null
    return isinstance(around, Map) and path[-1] == "value" and around.value_contains_null
