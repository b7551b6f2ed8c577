"""Conditions on parts of columns whose type a package brings, compared by a function of it: the package
finds the bounds of the part in the statistics of the column.

In: a bound predicate. Out: the same with each such part as a column of its own, and a schema that has it; and the
statistics of a file with its bounds. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import orjson

from txlog.core.format.properties import path_text
from txlog.core.format.schema import DataType, Decimal, Field, Primitive, Struct, type_name
from txlog.core.format.statistics import value_at
from txlog.core.format.type_support import TypeSupport, type_support
from txlog.core.predicates import package_function
from txlog.core.predicates.terms.predicate import And, BooleanExpression, Comparison, In, Not, Or, Predicate
from txlog.core.predicates.terms.tree import Call, Expression, Path, Value

_OPERATORS = frozenset(("<", "<=", ">", ">=", "=", "!="))


class _ColumnPart(msgspec.Struct, frozen=True):
    """A part of a column: its name in the package, the name of the column that stands for it, and its type."""

    key: str
    name: str
    type: DataType


class Parts:
    """The parts that a predicate compares. ``predicate`` and ``schema`` have a column for each."""

    def __init__(self, predicate: Predicate, schema: Struct) -> None:
        self._columns: dict[Path, tuple[TypeSupport, dict[str, _ColumnPart]]] = {}
        self.predicate = self._replaced(predicate)
        named = [Field(part.name, part.type) for _, parts in self._columns.values() for part in parts.values()]
        self.schema = Struct((*schema.fields, *named)) if named else schema
        self.has_any = bool(named)

    def in_statistics(self, stats: str | None) -> str | None:
        """The text of ``add.stats`` with the bounds of the parts."""
        if stats is None:
            return stats
        try:
            document = orjson.loads(stats)
        except ValueError:
            return stats
        if not isinstance(document, dict):
            return stats
        for tree in ("minValues", "maxValues"):
            bounds = document.get(tree)
            for path, (support, parts) in self._columns.items() if isinstance(bounds, dict) else ():
                found = _bounds(support, parts, value_at(bounds, path), is_maximum=tree == "maxValues")
                document[tree].update(found)
        return orjson.dumps(document).decode()

    def _replaced(self, predicate: Predicate) -> Predicate:
        match predicate:
            case And(left, right):
                return And(self._replaced(left), self._replaced(right))
            case Or(left, right):
                return Or(self._replaced(left), self._replaced(right))
            case Not(operand):
                return Not(self._replaced(operand))
            case BooleanExpression(Call(operator, (left, Value(value)))) if (
                operator in _OPERATORS and value is not None
            ):
                name = self._name_of(left)
                return Comparison((name,), operator, value, left.type) if name else predicate
            case BooleanExpression(Call("in", (left,), _, (values, has_null))):
                name = self._name_of(left)
                return In((name,), values, has_null, left.type) if name else predicate
        return predicate

    def _name_of(self, operand: Expression) -> str | None:
        """The column that stands for the part that this is; None for anything else."""
        if not isinstance(operand, Call) or not isinstance(operand.type, Primitive | Decimal):
            return None
        given = operand.arguments[0].type if operand.arguments else None
        if not isinstance(given, Primitive) or not given.facts.by_package:
            return None
        function, support = package_function(operand.name), type_support(given.name)
        found = function.part(operand) if function is not None and function.part is not None else None
        if found is None or support is None:
            return None
        path, key = found
        name = f"{path_text(path)}:{key}::{type_name(operand.type)}"
        self._columns.setdefault(path, (support, {}))[1].setdefault(name, _ColumnPart(key, name, operand.type))
        return name


def _bounds(support: TypeSupport, parts: Mapping[str, _ColumnPart], bound: Any, *, is_maximum: bool) -> dict[str, Any]:
    """The bounds by the names of the columns that stand for the parts."""
    found = {
        part.name: support.bound_of_part(bound, part.key, part.type, is_maximum=is_maximum)
        for part in (parts.values() if bound is not None else ())
    }
    return {name: value for name, value in found.items() if value is not None}
