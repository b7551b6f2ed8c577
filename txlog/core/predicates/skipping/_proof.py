"""Proofs about whole files: every row matches a predicate, so the file need not be read.

In: a bound predicate and what the log knows about a file: partition values and statistics. Out: True only if it is
certain; in doubt, False. Bounds may be wider than the rows: a condition that holds for all values between them holds
for each row. Only types with exact bounds are used: no floats (NaN), and no strings in statistics (writers cut them).
Also `without_nan_doubts`: a condition that follows from the predicate and can safely exclude files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from txlog.core.format.schema import DOUBLE, FLOAT, PRIMITIVES, Decimal, Primitive, Struct
from txlog.core.predicates.skipping._one_file import ColumnFacts, Pruner, possible
from txlog.core.predicates.terms.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    type_of,
)
from txlog.core.predicates.terms.tree import Path

_Certain: TypeAlias = tuple[bool, bool]
"""Whether the predicate is certainly (true, false) for every row."""

_EXACT = frozenset(name for name, facts in PRIMITIVES.items() if name == "boolean" or facts.stored.startswith("i"))
_UNKNOWN = ColumnFacts()


def every_row_matches(pruner: Pruner, partition_values: Mapping[str, str | None], stats: str | None) -> bool:
    """Whether the pruner's predicate is certainly true for each row of this file. True for a file without rows too."""
    facts = dict(pruner.partition_facts(partition_values))
    for path, known in pruner.statistics_facts(stats).items():
        if path not in facts and _is_exact(path, pruner.schema):
            facts[path] = known
    return _certain(pruner.predicate, facts)[0]


def _is_exact(path: Path, schema: Struct) -> bool:
    data_type = type_of(path, schema)
    return isinstance(data_type, Decimal) or (isinstance(data_type, Primitive) and data_type.name in _EXACT)


def _certain(predicate: Predicate, facts: Mapping[Path, ColumnFacts]) -> _Certain:
    match predicate:
        case And(left, right):
            (left_true, left_false), (right_true, right_false) = _certain(left, facts), _certain(right, facts)
            return left_true and right_true, left_false or right_false
        case Or(left, right):
            (left_true, left_false), (right_true, right_false) = _certain(left, facts), _certain(right, facts)
            return left_true or right_true, left_false and right_false
        case Not(operand):
            is_true, is_false = _certain(operand, facts)
            return is_false, is_true
        case Constant(value):
            return value is True, value is False
        case IsNull(path):
            known = facts.get(path, _UNKNOWN)
            return not known.may_be_value, not known.may_be_null
        case Comparison(path) | In(path) | StartsWith(path):
            if facts.get(path, _UNKNOWN).may_be_null:
                return False, False  # it is unknown for a null
            may_be_true, may_be_false = possible(predicate, facts)
            has_null = isinstance(predicate, In) and predicate.has_null
            return not may_be_false and not has_null, not may_be_true and not has_null
    return False, False


def without_nan_doubts(predicate: Predicate, schema: Struct) -> Predicate:
    """A condition that each matching row satisfies, and that may exclude any writer's files by their bounds.

    NaN is greater than every number, and some writers leave it out of bounds: a condition that NaN may satisfy becomes
    TRUE.
    """
    match predicate:
        case And(left, right):
            return And(without_nan_doubts(left, schema), without_nan_doubts(right, schema))
        case Or(left, right):
            return Or(without_nan_doubts(left, schema), without_nan_doubts(right, schema))
        case Not(And(left, right)):
            return without_nan_doubts(Or(Not(left), Not(right)), schema)
        case Not(Or(left, right)):
            return without_nan_doubts(And(Not(left), Not(right)), schema)
        case Not(Not(operand)):
            return without_nan_doubts(operand, schema)
        case Not(Comparison(path) | In(path)) if _is_float(path, schema):
            return Constant(True)
        case Comparison(path, operator, value) if _is_float(path, schema):
            is_met_by_nan = operator in (">", ">=", "!=") or _is_nan(value)
            return Constant(True) if is_met_by_nan else predicate
        case In(path, values) if _is_float(path, schema) and any(map(_is_nan, values)):
            return Constant(True)
    return predicate


def _is_float(path: Path, schema: Struct) -> bool:
    return type_of(path, schema) in (FLOAT, DOUBLE)


def _is_nan(value: Any) -> bool:
    return bool(value != value)
