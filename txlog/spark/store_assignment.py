"""The rows of a DataFrame as the rows of a table, as `statements.store_assignment` has it for batches: SQL's store
assignment.

In: types of Spark, and fields of the table. Out: the expressions to select. A value that does not fit is an error,
whatever the session says: where spark.sql.ansi.enabled is false, Spark's CAST has another value or NULL in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from txlog.core.format.schema import OF_PACKAGES, Array, DataType, Field, Map, Struct, backquoted, type_name
from txlog.statements.cursor import quoted
from txlog.statements.store_assignment import PairFields, pairing, unstorable

_SHOWN_CHARACTERS = 100
"""How much the error shows of a value that does not fit."""


def store_assignment(types: Sequence[Any], fields: Sequence[Field], *, by_name: bool) -> tuple[list[str], list[str]]:
    """What to select from columns called c0, c1, ..., and then from what this gives, for rows of the table.

    Args:
        types: The columns' types in Spark.
        fields: The column of the table for each.
        by_name: Whether fields of structs go by their names, not by position.

    Raises:
        InvalidInputError: The fields of a struct do not fit, or a nested column gets something else.
    """
    first, then, pair = [], [], pairing(by_name=by_name)
    for at, (given, field) in enumerate(zip(types, fields, strict=True)):
        cast = _cast(f"c{at}", given, field.type, field.name, pair)
        first.append(f"c{at}" if cast is None else f"CAST(c{at} AS {_numbered(given)}) AS c{at}")
        then.append(f"{_or_plain(cast, f'c{at}', field.type)} AS {backquoted(field.name)}")
    return first, then


def _cast(value: str, given: Any, wanted: DataType, column: str, pair: PairFields, depth: int = 0) -> str | None:
    """SQL for what a column stores of a value, or of a part of one.

    TRY_CAST has NULL for what does not fit, whatever the session says, and so has each part of a nested value. So each
    part is cast by itself, or a list would store NULL for an element.

    Args:
        value: The value in SQL. The fields of its structs are called f0, f1, ...
        given: Its type in Spark.
        wanted: The type to store.
        column: The path of the column, for errors.
        pair: Which field of a struct goes where.
        depth: How many values this one is a part of, so that each lambda's variable has its own name.

    Returns:
        None if at most the names of fields differ, which CAST changes.
    """
    kind, each = given.typeName(), f"e{depth}"
    if given.simpleString() == type_name(wanted):
        return None

    def part(text: str, of: Any, to: DataType, path: str) -> str | None:
        return _cast(text, of, to, f"{column}.{path}", pair, depth + 1)

    match wanted:
        case Struct(fields) if kind == "struct":
            places = pair(fields, given.names, column)
            members = [(f"{value}.f{at}", given[at].dataType, field) for at, field in zip(places, fields, strict=True)]
            casts = [part(text, of, field.type, field.name) for text, of, field in members]
            if places == sorted(places) and not any(casts):
                return None
            pairs = (
                f"{quoted(field.name)}, {_or_plain(cast, text, field.type)}"
                for cast, (text, _, field) in zip(casts, members, strict=True)
            )
            return f"if({value} IS NULL, NULL, named_struct({', '.join(pairs)}))"
        case Array(element) if kind == "array":
            cast = part(each, given.elementType, element, "element")
            return cast and f"transform({value}, {each} -> {cast})"
        case Map(key, member) if kind == "map":
            casts = [part(each, given.keyType, key, "key"), part(each, given.valueType, member, "value")]
            if not any(casts):
                return None
            keys, values = (
                f"transform({side}({value}), {each} -> {_or_plain(cast, each, to)})"
                for side, cast, to in zip(("map_keys", "map_values"), casts, (key, member), strict=True)
            )
            return f"map_from_arrays({keys}, {values})"
        case Struct() | Array() | Map() if kind not in ("void", *OF_PACKAGES):
            raise unstorable(column, wanted, given.simpleString())
    if kind in OF_PACKAGES:  # its CAST is the same in every session, and has NULL for JSON's null
        return _or_plain(None, value, wanted)
    why = quoted(f"column {column} is a {type_name(wanted)}: it cannot store ")
    fault = f"raise_error(concat({why}, left(CAST({value} AS STRING), {_SHOWN_CHARACTERS})))"
    return f"coalesce(try_cast({value} AS {_quoted_type(wanted)}), if({value} IS NULL, NULL, {fault}))"


def _or_plain(cast: str | None, value: str, wanted: DataType) -> str:
    return cast or f"CAST({value} AS {_quoted_type(wanted)})"


def _quoted_type(kind: DataType) -> str:
    """The type in SQL, whatever the names of fields."""
    match kind:
        case Struct(fields):
            return f"struct<{','.join(f'{backquoted(field.name)}:{_quoted_type(field.type)}' for field in fields)}>"
        case Array(element):
            return f"array<{_quoted_type(element)}>"
        case Map(key, member):
            return f"map<{_quoted_type(key)},{_quoted_type(member)}>"
    return type_name(kind)


def _numbered(given: Any) -> str:
    """One of Spark's types with f0, f1, ... for the fields of structs: a query may have two of one name."""
    match given.typeName():
        case "struct":
            return f"struct<{','.join(f'f{at}:{_numbered(field.dataType)}' for at, field in enumerate(given))}>"
        case "array":
            return f"array<{_numbered(given.elementType)}>"
        case "map":
            return f"map<{_numbered(given.keyType)},{_numbered(given.valueType)}>"
    return str(given.simpleString())
