"""A condition on pairs of rows (MERGE), taken apart: key columns, terms on one side alone, and the rest.

In: a bound condition on columns of two sides. Out: `JoinCondition`; a pair of rows satisfies the condition if it
satisfies every part. A key matches if both values are equal and neither is null.
"""

from __future__ import annotations

import msgspec

from txlog.expressions.build import balanced
from txlog.expressions.predicates import And, Constant, Holds, Predicate
from txlog.expressions.tree import Call, Expression, Path, Reference
from txlog.expressions.types import is_integer
from txlog.protocol.schema import DataType, Decimal

__all__ = ["JoinCondition", "JoinKey", "conjuncts", "split_join"]


class JoinKey(msgspec.Struct, frozen=True):
    """``source column = target column``; both are compared as ``type`` if their types differ.

    That is the wider of two integer types, and of two decimal types the target's.
    """

    source: Path
    target: Path
    type: DataType


class JoinCondition(msgspec.Struct, frozen=True):
    """The parts of a condition, joined by AND; None for an absent part.

    Attributes:
        keys: Equalities of a source column with a target column, in the order of the text.
        target: The terms that read the target alone (``evaluate(target)``); a constant term is here too.
        source: The terms that read the source alone (``evaluate(None, source)``).
        residual: The terms that read both and are not keys.
    """

    keys: tuple[JoinKey, ...]
    target: Predicate | None
    source: Predicate | None
    residual: Predicate | None


def split_join(condition: Predicate) -> JoinCondition:
    """The parts of a bound two-sided condition."""
    keys: list[JoinKey] = []
    terms: dict[str, list[Predicate]] = {"target": [], "source": [], "residual": []}
    for term in conjuncts(condition):
        key = _key(term)
        if key is not None:
            keys.append(key)
            continue
        sides = term.sides
        terms["residual" if len(sides) == 2 else "source" if sides == {"source"} else "target"].append(term)
    joined = {name: balanced(parts, And) if parts else None for name, parts in terms.items()}
    return JoinCondition(tuple(dict.fromkeys(keys)), joined["target"], joined["source"], joined["residual"])


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


def _key(term: Predicate) -> JoinKey | None:
    if not isinstance(term, Holds) or not isinstance(term.condition, Call) or term.condition.name != "=":
        return None
    left, right = term.condition.arguments
    columns = {column.side: column for column in map(_column, (left, right)) if column is not None}
    if len(columns) < 2:
        return None
    target = columns["target"]
    # File statistics have the table's decimals. A source value that fits none of them equals no row of the table.
    kind = target.type if isinstance(target.type, Decimal) else left.type
    return JoinKey(columns["source"].path, target.path, kind)


def _column(operand: Expression) -> Reference | None:
    """The operand's column, even inside a cast to a wider integer, which a comparison may add."""
    if isinstance(operand, Call) and operand.name == "cast" and is_integer(operand.type):
        inner = operand.arguments[0]
        return inner if isinstance(inner, Reference) and is_integer(inner.type) else None
    return operand if isinstance(operand, Reference) else None
