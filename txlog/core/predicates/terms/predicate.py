"""Predicates: conditions that can skip files. Their nodes, how to build them, and how to bind them.

In: what ``_unbound`` builds from ``col("day") == "2026-11-20"``, and ``sql`` from text. Out: an immutable tree that
`bind` checks against a schema. It follows SQL's three-valued logic and Spark's order: NaN equals NaN and is greater
than every number, strings compare by their UTF-8 bytes. Any other boolean expression of ``tree``, such as
``upper(s) = 'A'``, is wrapped in a `BooleanExpression`: it filters rows, and `prunable` puts `ExcludesNothing` in its
place for ``skipping``.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec.structs import replace

from txlog.core.format.properties import path_text
from txlog.core.format.schema import BOOLEAN, COLLATIONS_KEY, STRING, DataType, Primitive, Struct, type_name
from txlog.core.predicates.terms.tree import Call, Expression, Path, Reference, columns_of
from txlog.core.predicates.terms.values import NO_NUMBER, Ordered, fit, value_text
from txlog.core.predicates.terms.zones import UTC, current_zone, read_in
from txlog.errors import InvalidInputError, UnsupportedFeatureError

Literal: TypeAlias = bool | int | float | decimal.Decimal | str | bytes | datetime.date | datetime.datetime
"""The values that a column may be compared with, before `bind` converts them to the column's type."""


class UnlikeTextError(InvalidInputError):
    """The library's ``InvalidInputError``, for a number compared with text that is none."""

    kind = "InvalidInputError"


class Predicate(Expression, frozen=True):
    """One condition on a row: true, false or (as in SQL) unknown. ``str()`` returns it as SQL."""

    @property
    def type(self) -> DataType:
        """A condition is a boolean."""
        return BOOLEAN

    def as_operand(self) -> str:
        return f"({self})"

    def as_term(self) -> str:
        """The text as a term of AND, OR and NOT: in parentheses if it has terms itself."""
        return str(self)

    def __and__(self, other: Predicate) -> Predicate:
        return And(self, _condition(other)) if _joins(other) else NotImplemented

    def __or__(self, other: Predicate) -> Predicate:
        return Or(self, _condition(other)) if _joins(other) else NotImplemented

    def __invert__(self) -> Predicate:
        return Not(self)

    def columns(self) -> frozenset[str]:
        """The top-level columns that the condition reads."""
        return frozenset(path[0] for path in paths_of(self))

    def __bool__(self) -> bool:
        raise TypeError("a predicate has no truth value: combine predicates with &, | and ~, not with and, or, not")


class Constant(Predicate, frozen=True):
    """TRUE, FALSE, or (None) NULL."""

    value: bool | None

    def __str__(self) -> str:
        return "CAST(NULL AS BOOLEAN)" if self.value is None else str(self.value).upper()

    def as_operand(self) -> str:
        return str(self)


class Comparison(Predicate, frozen=True):
    """``column operator value``. Binding sets ``column_type`` and makes the value an `Ordered`."""

    path: Path
    operator: str
    value: Literal | Ordered
    column_type: DataType | None = None

    def __str__(self) -> str:
        return f"{path_text(self.path)} {self.operator} {value_text(self.value, self.column_type)}"


class In(Predicate, frozen=True):
    """``column IN (values)``. With ``has_null``, the list has a NULL, and a value without a match makes it unknown."""

    path: Path
    values: tuple[Literal | Ordered, ...]
    has_null: bool = False
    column_type: DataType | None = None

    def __str__(self) -> str:
        shown = [value_text(value, self.column_type) for value in self.values[:10]]
        shown += [f"... {len(self.values) - 10} more"] if len(self.values) > 10 else []
        shown += ["NULL"] if self.has_null else []
        return f"{path_text(self.path)} IN ({', '.join(shown)})"


class StartsWith(Predicate, frozen=True):
    """``column LIKE 'prefix%'``."""

    path: Path
    prefix: str
    column_type: DataType | None = None

    def __str__(self) -> str:
        return f"{path_text(self.path)} LIKE {value_text(self.prefix + '%', STRING)}"


class IsNull(Predicate, frozen=True):
    """``column IS NULL``; never unknown."""

    path: Path
    column_type: DataType | None = None

    def __str__(self) -> str:
        return f"{path_text(self.path)} IS NULL"


class BooleanExpression(Predicate, frozen=True):
    """Any other boolean expression as a condition, such as ``upper(s) = 'A'`` or ``a < b``."""

    condition: Expression

    def __str__(self) -> str:
        return str(self.condition)

    def as_operand(self) -> str:
        return self.condition.as_operand()

    def as_term(self) -> str:
        return self.condition.as_operand()


class ExcludesNothing(Predicate, frozen=True):
    """Replaces a condition that excludes no file: it may be true for some rows and false for others."""

    def __str__(self) -> str:
        return "(any condition)"


def operand_text(operand: Any) -> str:
    """An operand as a part of a larger text: a value is a SQL literal."""
    return operand.as_operand() if hasattr(operand, "as_operand") else value_text(operand, None)


class UnboundCondition(Predicate, frozen=True):
    """A condition from Python's operators on operands that no schema is known for yet: ``_binding`` makes it another.

    ``name`` is that of a comparison, or "in", "is null", "starts with" or "true" for an operand that is a boolean.
    """

    name: str
    operands: tuple[Any, ...]

    def __str__(self) -> str:
        if self.name == "true":
            return str(self.operands[0])
        first, *others = map(operand_text, self.operands)
        match self.name:
            case "is null":
                return f"{first} IS NULL"
            case "in":
                return f"{first} IN ({', '.join(others)})"
            case "starts with":
                return f"startswith({first}, {others[0]})"
        return f"{first} {self.name} {others[0]}"

    def as_term(self) -> str:
        return f"({self})"


class And(Predicate, frozen=True):
    left: Predicate
    right: Predicate

    def __str__(self) -> str:
        return f"{self.left.as_term()} AND {self.right.as_term()}"

    def as_term(self) -> str:
        return f"({self})"


class Or(Predicate, frozen=True):
    left: Predicate
    right: Predicate

    def __str__(self) -> str:
        return f"{self.left.as_term()} OR {self.right.as_term()}"

    def as_term(self) -> str:
        return f"({self})"


class Not(Predicate, frozen=True):
    operand: Predicate

    def __str__(self) -> str:
        return f"NOT {self.operand.as_term()}"

    def as_term(self) -> str:
        return f"({self})"


def _joins(other: object) -> bool:
    return isinstance(other, Predicate) or hasattr(other, "as_condition")


def _condition(other: Any) -> Predicate:
    """What ``&`` and ``|`` join: a condition, or an operand that is a boolean."""
    return other if isinstance(other, Predicate) else other.as_condition()


def bind(predicate: Predicate, schema: Struct, zone: str = UTC) -> Predicate:
    """The predicate with the table's spelling of column names, and values in the columns' types.

    Times without a zone are in ``zone``.
    Names match regardless of case. Binding a bound predicate changes nothing. A value between two values of
    its column's type (``id > 1.5`` where id is an integer) is rewritten without loss. Raises
    ``InvalidInputError`` naming the column that does not exist or cannot be compared with its value.
    """
    try:
        with read_in(zone):
            return _bind(predicate, schema)
    except RecursionError:
        raise InvalidInputError("the predicate is nested too deeply: use is_in() to compare with many values") from None


def bind_leaf(predicate: Comparison | In | StartsWith, data_type: DataType) -> Predicate:
    """A leaf on a column with a resolved path, with values in the column's type. Raises ``InvalidInputError``."""
    match predicate:
        case Comparison(path, operator, value):
            return _bind_comparison(path, data_type, operator, value)
        case In(path, values, has_null):
            return _bind_in(path, data_type, values, has_null)
        case StartsWith(path, prefix):
            if data_type != STRING:
                raise _cannot_compare(path, data_type, prefix + "%", "LIKE takes a string column")
            _bind_comparison(path, data_type, ">=", prefix)  # refuses text that no column can hold
            return StartsWith(path, prefix, data_type)


def prunable(predicate: Predicate) -> Predicate:
    """A bound condition with `ExcludesNothing` in place of each part that ``skipping`` does not understand.

    This is sound inside NOT too, since `ExcludesNothing` may be true or false.
    """
    match predicate:
        case And(left, right):
            return And(prunable(left), prunable(right))
        case Or(left, right):
            return Or(prunable(left), prunable(right))
        case Not(operand):
            return Not(prunable(operand))
        case BooleanExpression():
            return ExcludesNothing()
    return predicate


def paths_of(predicate: Expression) -> frozenset[Path]:
    """Every column or struct field of the table that the predicate reads."""
    return frozenset(path for side, path in columns_of(predicate) if side == "target")


def type_of(path: Path, schema: Struct) -> DataType:
    """The type of a column that `bind` has resolved."""
    return resolve(path, schema)[1]


def with_paths(predicate: Expression, change: Callable[[Path], Path]) -> Any:
    """The same condition on other columns: each path replaced by what ``change`` makes of it."""
    match predicate:
        case And(left, right):
            return And(with_paths(left, change), with_paths(right, change))
        case Or(left, right):
            return Or(with_paths(left, change), with_paths(right, change))
        case Not(operand):
            return Not(with_paths(operand, change))
        case BooleanExpression(condition):
            return BooleanExpression(with_paths(condition, change))
        case Call(_, arguments):
            return replace(predicate, arguments=tuple(with_paths(argument, change) for argument in arguments))
        case Comparison(path) | In(path) | StartsWith(path) | IsNull(path) | Reference(path, _, "target"):
            return replace(predicate, path=change(path))
    return predicate


def resolve(path: Path, schema: Struct, owner: str = "the table") -> tuple[Path, DataType]:
    """The path in the schema's spelling, and its type.

    Raises ``InvalidInputError`` that lists the columns of ``owner``, which the schema belongs to, and
    ``UnsupportedFeatureError`` for texts that are compared by a collation.
    """
    found: list[str] = []
    here: DataType = schema
    for name in path:
        member = here.find(name) if isinstance(here, Struct) else None
        if member is None:
            known = (
                f"has {', '.join(here.names) or 'none'}"
                if isinstance(here, Struct)
                else f"is of type {type_name(here)}"
            )
            where = path_text(tuple(found)) if found else owner
            dotted = schema.find(".".join(path)) if len(path) > 1 else None
            hint = f". For the column with a dot in its name, write `{dotted.name}` in backticks" if dotted else ""
            if isinstance(here, Primitive) and here.facts.by_package:
                hint = (
                    f". A part of its values is {where}:{path_text(path[len(found) :])}, with a type as in v:part::int"
                )
            raise InvalidInputError(f"there is no column {path_text(path)}: {where} {known}{hint}")
        found.append(member.name)
        here = member.type
        if COLLATIONS_KEY in member.metadata:
            _refuse_collated(found, member.metadata[COLLATIONS_KEY])
    return tuple(found), here


def _refuse_collated(path: list[str], collations: object) -> None:
    """A collation says which texts are equal, and in which order they are: it may not be that of their bytes."""
    names = [str(name) for name in collations.values()] if isinstance(collations, Mapping) else [str(collations)]
    other = [name for name in names if not name.endswith("UTF8_BINARY")]
    if other:
        raise UnsupportedFeatureError(
            f"column {path_text(tuple(path))} compares its texts by the collation {other[0]}, and txlog by their bytes:"
            " read the column without a condition on it, or use an engine that knows the collation",
            features=("collations",),
        )


# --- binding ------------------------------------------------------------------------------------------------


def _bind(predicate: Predicate, schema: Struct) -> Predicate:
    match predicate:
        case And(left, right):
            return And(_bind(left, schema), _bind(right, schema))
        case Or(left, right):
            return Or(_bind(left, schema), _bind(right, schema))
        case Not(operand):
            return Not(_bind(operand, schema))
        case IsNull(path, None):
            return IsNull(*resolve(path, schema))
        case Comparison(path, _, _, None) | In(path, _, _, None) | StartsWith(path, _, None):
            found, data_type = resolve(path, schema)
            return bind_leaf(replace(predicate, path=found), data_type)
        case UnboundCondition():
            raise TypeError(f"binding.bind_condition binds {predicate}")
    return predicate


def _bind_comparison(path: Path, data_type: DataType, operator: str, value: Literal | Ordered) -> Predicate:
    try:
        fitted = fit(value, data_type, current_zone())
    except ValueError as error:
        raise _cannot_compare(path, data_type, value, str(error)) from None
    if fitted.exact and fitted.value is not None:
        return Comparison(path, operator, fitted.value, data_type)
    if isinstance(value, str):
        raise _cannot_compare(path, data_type, value, "Spark reads the text as a value of the column's type, and fails")
    return _around_gap(path, data_type, operator, fitted.value)


def _around_gap(path: Path, data_type: DataType, operator: str, below: Ordered | None) -> Predicate:
    """A comparison with a number that the column's type cannot hold; ``below`` is the next lower number that it can
    hold."""
    always = Or(Not(IsNull(path, data_type)), Constant(None))
    never = And(IsNull(path, data_type), Constant(None))
    if operator in ("=", "!="):
        return never if operator == "=" else always
    upward = operator in (">", ">=")
    if below is None:
        return always if upward else never
    return Comparison(path, ">" if upward else "<=", below, data_type)


def _bind_in(path: Path, data_type: DataType, values: tuple[Literal | Ordered, ...], has_null: bool) -> Predicate:
    kept: list[Ordered] = []
    for value in values:
        try:
            fitted = fit(value, data_type, current_zone())
        except ValueError as error:
            raise _cannot_compare(path, data_type, value, str(error)) from None
        if fitted.exact and fitted.value is not None:
            kept.append(fitted.value)
    return In(path, tuple(kept), has_null, data_type)


def _cannot_compare(path: Path, data_type: DataType, value: object, why: str) -> InvalidInputError:
    error = UnlikeTextError if why == NO_NUMBER else InvalidInputError
    return error(f"column {path_text(path)} ({type_name(data_type)}) cannot be compared with {value!r}: {why}")
