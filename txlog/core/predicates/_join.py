"""A condition on pairs of rows (MERGE), taken apart: equal values, terms on one side alone, and the rest.

In: a bound condition whose columns are of two sides. Out: `JoinCondition`; a pair of rows satisfies the condition where
it satisfies every part. Equal values are found by hashing, `JoinRange`s by a search in sorted values; only what is left
has to be evaluated on pairs of rows.
"""

from __future__ import annotations

import decimal
from typing import Literal, TypeAlias, cast

import msgspec

from txlog.core.format.schema import BINARY, BOOLEAN, STRING, TIMES, DataType, Decimal
from txlog.core.predicates._build import FLIPPED, balanced, call
from txlog.core.predicates.terms.predicate import And, BooleanExpression, Constant, Predicate
from txlog.core.predicates.terms.tree import Call, Expression, Path, Reference, Value
from txlog.core.predicates.terms.types import is_floating, is_integer
from txlog.core.predicates.terms.values import Ordered

Operator: TypeAlias = Literal["=", "<", "<=", ">", ">="]

_ORDERED = ("=", "<", "<=", ">", ">=")
_ZEROS: dict[DataType, Ordered] = {STRING: "", BINARY: b"", BOOLEAN: False, **dict.fromkeys(TIMES, 0)}


class JoinKey(msgspec.Struct, frozen=True):
    """``source = target``, of a value of each side. A null equals nothing.

    Both are compared as ``type`` if their types differ: the wider one of two integers, the target's one of two
    decimals.
    """

    source: Expression
    target: Expression
    type: DataType

    @property
    def source_path(self) -> Path | None:
        """The source column that is compared; None if the value is computed from columns."""
        return path_of(self.source)

    @property
    def target_path(self) -> Path | None:
        """The table's column that is compared; None if the value is computed from columns."""
        return path_of(self.target)


class JoinRange(msgspec.Struct, frozen=True):
    """``target operator source``, of a number, date or time of each side; both have the same type."""

    target: Expression
    operator: Operator
    source: Expression


class JoinCondition(msgspec.Struct, frozen=True):
    """The parts of a condition, joined by AND; None for an absent part.

    Attributes:
        keys: Equalities of a source value with a target value. Those of a target column come first, each in the order
            of the text.
        target: The terms that read the target alone (``evaluate(target)``); a constant term is here too.
        source: The terms that read the source alone (``evaluate(None, source)``).
        residual: The terms that read both and are not keys.
        ranges: Those terms of ``residual`` that compare ordered values.
    """

    keys: tuple[JoinKey, ...]
    target: Predicate | None
    source: Predicate | None
    residual: Predicate | None
    ranges: tuple[JoinRange, ...]


def split_join(condition: Predicate) -> JoinCondition:
    """The parts of a bound two-sided condition."""
    keys: list[JoinKey] = []
    ranges: list[JoinRange] = []
    terms: dict[str, list[Predicate]] = {"target": [], "source": [], "residual": []}
    for term in conjuncts(condition):
        found = _keys(term)
        if found:
            keys += found
            continue
        sides = term.sides
        terms["residual" if len(sides) == 2 else "source" if sides == {"source"} else "target"].append(term)
        ordered = _range(term)
        if ordered is not None:
            ranges.append(ordered)
    joined = {name: balanced(parts, And) if parts else None for name, parts in terms.items()}
    distinct = sorted(dict.fromkeys(keys), key=lambda key: key.target_path is None)
    return JoinCondition(tuple(distinct), joined["target"], joined["source"], joined["residual"], tuple(ranges))


def conjuncts(condition: Predicate) -> list[Predicate]:
    """The terms that AND joins, from left to right; TRUE has no terms."""
    found: list[Predicate] = []
    waiting = [condition]
    while waiting:
        term = waiting.pop()
        if isinstance(term, And):
            waiting += [term.right, term.left]
        elif term != Constant(True):
            found.append(term)
    return found


def _compared(term: Predicate, *operators: str) -> tuple[Expression, str, Expression] | None:
    """The target's value, the operator, and the source's value, of a term that compares one of each side."""
    if (
        not isinstance(term, BooleanExpression)
        or not isinstance(term.condition, Call)
        or term.condition.name not in operators
    ):
        return None
    left, right = term.condition.arguments
    if left.sides == frozenset({"target"}) and right.sides == frozenset({"source"}):
        return left, term.condition.name, right
    if left.sides == frozenset({"source"}) and right.sides == frozenset({"target"}):
        return right, FLIPPED[term.condition.name], left
    return None


def _keys(term: Predicate) -> list[JoinKey]:
    """The keys that a term amounts to: one for ``=``, two for ``<=>``, none for another term."""
    found = _compared(term, "=", "<=>")
    if found is None:
        return []
    target, operator, source = found
    if operator == "<=>":
        kind, zero = target.type, _zero(target.type)
        if kind != source.type or zero is None:
            return []
        pairs = zip(_null_safe(source, zero), _null_safe(target, zero), strict=True)
        return [JoinKey(one, other, one.type) for one, other in pairs]
    # File statistics have the table's decimals. A source value that fits none of them equals no row of the table.
    are_decimals = isinstance(target.type, Decimal) and isinstance(source.type, Decimal)
    if not are_decimals and (target.type != source.type or _zero(target.type) is None):
        return []
    return [JoinKey(source, target, target.type)]


def _null_safe(value: Expression, zero: Value) -> tuple[Expression, Expression]:
    """Two values that are never null, and that are equal on both sides where ``<=>`` is true."""
    return call("is_null", (value,), BOOLEAN), call("coalesce", (value, zero), value.type)


def _zero(data_type: DataType) -> Value | None:
    """Any value of a type whose values are simply equal or different; None for another type."""
    if isinstance(data_type, Decimal):
        return Value(decimal.Decimal(0), data_type)
    if is_integer(data_type):
        return Value(0, data_type)
    return Value(_ZEROS[data_type], data_type) if data_type in _ZEROS else None


def _range(term: Predicate) -> JoinRange | None:
    found = _compared(term, *_ORDERED)
    if found is None:
        return None
    target, operator, source = found
    is_searched = is_integer(target.type) or is_floating(target.type) or target.type in TIMES
    return JoinRange(target, cast(Operator, operator), source) if target.type == source.type and is_searched else None


def path_of(operand: Expression) -> Path | None:
    """The operand's column, even inside a cast to a wider integer, which a comparison may add."""
    if isinstance(operand, Call) and operand.name == "cast" and is_integer(operand.type):
        inner = operand.arguments[0]
        return inner.path if isinstance(inner, Reference) and is_integer(inner.type) else None
    return operand.path if isinstance(operand, Reference) else None
