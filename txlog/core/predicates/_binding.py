"""What users pass as a value or a condition, bound to a table's columns.

In: what ``_unbound`` builds, a literal, or a ``pyarrow.compute.Expression``; and what it may name. Out: bound
expressions of ``tree`` and ``predicate``. Only SQL text needs the SQL parser, which imports slowly.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from txlog.core.format.schema import STRING, TIMES, TIMESTAMP, Array, DataType, Field, Map, Struct, type_name
from txlog.core.predicates._build import (
    arithmetic,
    as_condition,
    assigned,
    call,
    check_sign,
    compare,
    is_null,
    lit,
    literal,
    member,
    struct_of,
)
from txlog.core.predicates._scope import Context, Scope
from txlog.core.predicates._unbound import Arithmetic, Column, Sql
from txlog.core.predicates.terms.predicate import (
    And,
    Comparison,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    UnboundCondition,
    bind,
)
from txlog.core.predicates.terms.tree import Call, Expression, Value
from txlog.core.predicates.terms.types import is_numeric
from txlog.core.predicates.terms.zones import read_in
from txlog.core.util import UTC, described
from txlog.errors import InvalidInputError

if TYPE_CHECKING:
    from typing_extensions import Unpack

_WRITTEN_IN_QUOTES = (STRING, *TIMES)
_PLAIN_NUMBER = re.compile(r"\s*[+-]?[\d.]+\s*")


def bind_value(value: Any, schema: Struct, **context: Unpack[Context]) -> Expression:
    """A bound expression from what users pass as a value.

    Args:
        value: `col`, `expr`, a condition, a bound expression, a ``pyarrow.compute.Expression`` that has an SQL
            equivalent, or a value that `lit` takes, other than a string: nobody can tell whether that is text or SQL.
        schema: Columns of the target, with the names that users know.
        context: What else it may name: see `Context`.

    Raises:
        InvalidInputError: It is a string, it cannot be read, or it does not fit the columns.
    """
    if isinstance(value, str):
        raise InvalidInputError(_text_or_sql(str.__str__(value)))
    scope = Scope(schema, **context)
    try:
        with read_in(scope.zone):
            return _bound(value, scope)
    except RecursionError:
        raise _too_deep() from None


def bind_condition(condition: Predicate, scope: Scope) -> Predicate:
    """A condition with its columns found, and values in their types. Binding a bound condition changes nothing.

    Raises:
        InvalidInputError: Names a column that does not exist, or cannot be compared with its value.
    """
    try:
        with read_in(scope.zone):
            return _condition(condition, scope)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise error if isinstance(error, InvalidInputError) else InvalidInputError(str(error)) from None


def assign(value: Any, column: Field, schema: Struct, **context: Unpack[Context]) -> Expression:
    """A column's value as UPDATE SET and INSERT store it: cast to the column's type, and checked.

    SQL store assignment (Spark's ``ANSI`` policy): numbers go into any numeric type, decimals are rounded to the
    column's scale, and a number that does not fit fails at evaluation; a string is not a number. The caller checks
    whether NULL may be stored.

    Args:
        value: What `bind_value` takes, or a list or mapping for a column of arrays, structs or maps.
        column: The column that takes the value.
        schema: Columns of the target, with the names that users know.
        context: What else it may name: see `Context`.

    Raises:
        InvalidInputError: What `bind_value` raises; or the column cannot store a value of this type.
    """
    if isinstance(value, list | tuple | Mapping):
        return _nested(value, column.type, column.name, context.get("zone", UTC))
    try:
        bound = bind_value(value, schema, **context)
    except InvalidInputError as error:
        if isinstance(value, Sql):
            raise
        raise InvalidInputError(f"column {column.name} cannot be set to {described(value)}: {error}") from None
    if isinstance(value, Sql) and column.type in _WRITTEN_IN_QUOTES and is_numeric(bound.type):
        _refuse_a_sum_of_literals(value.text, column)
    try:
        with read_in(context.get("zone", UTC)):
            return assigned(bound, column.type)
    except ValueError as error:
        raise InvalidInputError(
            f"column {column.name} ({type_name(column.type)}) cannot be set to {bound}: {error}"
        ) from None


# --- values ---------------------------------------------------------------------------------------------------


def _bound(value: Any, scope: Scope) -> Expression:
    match value:
        case Sql():
            return _parsed(value, scope)
        case Column():
            return scope.find(scope.spelled(value.path))
        case Arithmetic():
            return _computed(value, scope)
        case Predicate():
            return _condition(value, scope)
        case Value(_, kind, datetime.datetime()) if kind == TIMESTAMP:
            return lit(value.written)  # of `lit`, which knows no zone
        case Expression():
            return value
    from txlog.core.predicates._arrow_input import is_arrow_expression, read_arrow_expression

    if is_arrow_expression(value):
        return read_arrow_expression(value, scope.find)
    return lit(value)


def _parsed(sql: Sql, scope: Scope) -> Expression:
    from txlog.core.predicates._sql import as_string, parse_in

    try:
        return parse_in(sql.text, scope.with_parameters(sql.parameters))
    except InvalidInputError as error:
        hint = as_string(sql.text)
        if not hint:
            raise
        raise InvalidInputError(f"{error}{hint}") from None


def _operand(value: Any, scope: Scope) -> Expression:
    """An operand beside another one, where a string is text."""
    return literal(value) if isinstance(value, str) else _bound(value, scope)


def _computed(value: Arithmetic, scope: Scope) -> Expression:
    operands = [_operand(each, scope) for each in value.operands]
    try:
        if value.operator != "negative":
            return arithmetic(value.operator, *operands)
        if not is_numeric(operands[0].type):
            raise ValueError(f"cannot negate {type_name(operands[0].type)}")
        check_sign(operands[0])
        return call("negate", operands, operands[0].type)
    except ValueError as error:
        raise (
            error if isinstance(error, InvalidInputError) else InvalidInputError(f"cannot compute {value}: {error}")
        ) from None


def _nested(value: Any, kind: DataType, name: str, zone: str) -> Expression:
    """The constant of a list or mapping for a column of this type, each member assigned as a column's value."""
    try:
        if isinstance(kind, Array) and isinstance(value, list | tuple):
            elements = [_member(each, kind.element, f"{name}.element", zone) for each in value]
            return Call("array", tuple(elements), kind)
        if isinstance(kind, Struct) and isinstance(value, Mapping):
            return _nested_struct(value, kind, name, zone)
        if isinstance(kind, Map) and isinstance(value, Mapping):
            keys = [_member(each, kind.key, f"{name}.key", zone) for each in value]
            if any(each is None for each in value):
                raise ValueError("a key of a map cannot be NULL")
            values = [_member(each, kind.value, f"{name}.value", zone) for each in value.values()]
            return Call("map", (*keys, *values), kind)
        raise ValueError(f"a {type(value).__name__} is not a value of this type")
    except ValueError as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(
            f"column {name} ({type_name(kind)}) cannot be set to {described(value)}: {error}"
        ) from None


def _nested_struct(value: Mapping[Any, Any], kind: Struct, name: str, zone: str) -> Expression:
    given: dict[str, Any] = {}
    for key, each in value.items():
        field = kind.find(key) if isinstance(key, str) else None
        if field is None:
            raise ValueError(f"it has no field {key!r}: it has {', '.join(kind.names)}")
        given[field.name] = each
    lacks = [each for each in kind.names if each not in given]
    if lacks:
        raise ValueError(f"the value of field {lacks[0]} is missing: pass None for null")
    return struct_of(kind, [_member(given[each.name], each.type, f"{name}.{each.name}", zone) for each in kind.fields])


def _member(value: Any, kind: DataType, name: str, zone: str) -> Expression:
    """A member of a nested value; text in it is text, since nothing in it is SQL."""
    if isinstance(value, list | tuple | Mapping):
        return _nested(value, kind, name, zone)
    text = lit(value) if isinstance(value, str) else value
    if isinstance(text, Sql | Column | Arithmetic):
        raise ValueError("a list or a mapping has values only: write the whole with txlog.expr")
    return assign(text, Field(name, kind), Struct(()), zone=zone)


def _text_or_sql(text: str) -> str:
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    return (
        f"a string may be text or SQL: pass txlog.lit({shown!r}) for the text itself, or txlog.expr({shown!r}) for SQL"
    )


def _refuse_a_sum_of_literals(sql_text: str, column: Field) -> None:
    """In SQL ``2026-11-01`` is the number 2014, which is never meant for a string or a date column."""
    if not (any(each.isalpha() or each in "'`:" for each in sql_text) or _PLAIN_NUMBER.fullmatch(sql_text)):
        quoted = "'" + sql_text + "'"
        raise InvalidInputError(
            f"column {column.name} is a {type_name(column.type)}, and {sql_text} is arithmetic on numbers: for the"
            f' {type_name(column.type)} {sql_text}, write "{quoted}"'
            + (f"; for the number as a string, CAST({sql_text} AS STRING)" if column.type == STRING else "")
        )


# --- conditions -----------------------------------------------------------------------------------------------


def _condition(condition: Predicate, scope: Scope) -> Predicate:
    match condition:
        case And(left, right):
            return And(_condition(left, scope), _condition(right, scope))
        case Or(left, right):
            return Or(_condition(left, scope), _condition(right, scope))
        case Not(operand):
            return Not(_condition(operand, scope))
        case UnboundCondition():
            return _built(condition, scope)
        case Comparison(path, _, _, None) | In(path, _, _, None) | StartsWith(path, _, None) | IsNull(path, None):
            found = scope.spelled(path)
            if scope.source is None:
                return bind(_at(condition, found), scope.target, scope.zone)
            return as_condition(_of_side(condition, scope.find(found)))
    return condition


def _at(leaf: Any, path: Any) -> Predicate:
    moved: Predicate = leaf if leaf.path == path else replace(leaf, path=path)
    return moved


def _of_side(leaf: Predicate, column: Expression) -> Expression:
    """A comparison of `col` where two sides have columns."""
    match leaf:
        case Comparison(_, operator, value):
            return compare(operator, column, literal(value))
        case In(_, values, has_null):
            return member(column, [literal(value) for value in (*values, *[None] * has_null)])
        case StartsWith(_, prefix):
            return _starts_with(column, literal(prefix))
    return is_null(column)


def _starts_with(column: Expression, prefix: Expression) -> Expression:
    from txlog.core.predicates._functions import function

    return function("startswith", [column, prefix])


_MADE: dict[str, Callable[..., Expression]] = {
    "true": lambda operand: operand,
    "is null": is_null,
    "in": lambda operand, *items: member(operand, items),
    "starts with": _starts_with,
}


def _built(condition: UnboundCondition, scope: Scope) -> Predicate:
    operands = [_operand(each, scope) for each in condition.operands]
    make = _MADE.get(condition.name)
    try:
        return as_condition(compare(condition.name, *operands) if make is None else make(*operands))
    except ValueError as error:
        raise error if isinstance(error, InvalidInputError) else InvalidInputError(f"{condition}: {error}") from None


def _too_deep() -> InvalidInputError:
    return InvalidInputError("the condition is nested too deeply: use is_in() to compare with many values")
