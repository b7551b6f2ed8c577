"""Functions of arrays with an expression for each element: ``transform(values, x -> x + 1)``.

In: bound operands, and what binds a lambda's body. Out: a `Call` whose options have the body. Its arguments are the
array and the columns that the body names; in the body, these and the lambda's variables are columns of one row for each
element, and have other names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from txlog.core.format.schema import BOOLEAN, INTEGER, Array, DataType, Field, Map, Struct, fold_name, type_name
from txlog.core.predicates._build import as_condition, convert
from txlog.core.predicates.terms.predicate import resolve
from txlog.core.predicates.terms.tree import Call, CallSql, Expression, Path, Reference, captured_name, variable_name


class LambdaScope:
    """The names that a lambda's body may use: its variables, and what the text around it may name."""

    def __init__(self, outer: Any, names: Sequence[str], types: Sequence[DataType]) -> None:
        self.outer, self.now, self.zone = outer, outer.now, outer.zone
        self.variables = {fold_name(name): at for at, name in enumerate(names)}
        self.types = types
        self.captured: list[Reference] = []

    def parameter(self, name: str) -> Any:
        return self.outer.parameter(name)

    def find(self, path: Path) -> Reference:
        at = self.variables.get(fold_name(path[0]))
        if at is not None:
            (_, *fields), kind = resolve(path, Struct((Field(path[0], self.types[at]),)), "the lambda")
            return Reference((variable_name(at), *fields), kind)
        found: Reference = self.outer.find(path)
        if found not in self.captured:
            self.captured.append(found)
        return Reference((captured_name(self.captured.index(found)),), found.type)


Body = Callable[[Sequence[DataType]], tuple[Expression, LambdaScope]]
"""Binds a lambda to the types of its variables."""


def _called(name: str, values: Expression, body: Expression, scope: LambdaScope, kind: DataType, *more: Any) -> Call:
    names = ", ".join(scope.variables)
    shown = f"{name}({{}}, ({names}) -> {_escaped(_shown(body, scope))})"
    return Call(name, (values, *scope.captured), kind, (body, *more, CallSql(shown)))


def _shown(body: Expression, scope: LambdaScope) -> str:
    text = str(body)
    for name, at in scope.variables.items():
        text = re.sub(rf"\b{variable_name(at)}\b", lambda _, name=name: name, text)  # type: ignore[misc]
    for at, reference in enumerate(scope.captured):
        text = re.sub(rf"\b{captured_name(at)}\b", lambda _, shown=str(reference): shown, text)  # type: ignore[misc]
    return text


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _array_of(name: str, values: Expression) -> Array:
    if not isinstance(values.type, Array):
        raise ValueError(f"{name}() takes an array, not {type_name(values.type)}")
    return values.type


def _transform(values: Expression, body: Body) -> Expression:
    found, scope = body([_array_of("transform", values).element, INTEGER])
    return _called("transform", values, found, scope, Array(found.type))


def _filter(values: Expression, body: Body) -> Expression:
    found, scope = body([_array_of("filter", values).element, INTEGER])
    return _called("filter", values, as_condition(found), scope, values.type)


def _quantified(name: str) -> Callable[[Expression, Body], Expression]:
    def make(values: Expression, body: Body) -> Expression:
        found, scope = body([_array_of(name, values).element])
        return _called(name, values, as_condition(found), scope, BOOLEAN)

    return make


def _aggregate(values: Expression, first: Expression, body: Body) -> Expression:
    """A value that begins as ``first``, and that ``body`` makes of the one before and of each element."""
    found, scope = body([first.type, _array_of("aggregate", values).element])
    if found.type != first.type:
        raise ValueError(
            f"aggregate() begins with {type_name(first.type)}, and its lambda makes {type_name(found.type)}: CAST the"
            " first to this type"
        )
    names = ", ".join(scope.variables)
    shown = CallSql(f"aggregate({{}}, {{}}, ({names}) -> {_escaped(_shown(found, scope))})")
    arguments = (values, convert(first, found.type), *scope.captured)
    return Call("aggregate", arguments, found.type, (found, shown))


def _zip_with(one: Expression, other: Expression, body: Body) -> Expression:
    """What ``body`` makes of the elements at each place; the shorter array has nulls behind its end."""
    found, scope = body([_array_of("zip_with", one).element, _array_of("zip_with", other).element])
    names = ", ".join(scope.variables)
    shown = CallSql(f"zip_with({{}}, {{}}, ({names}) -> {_escaped(_shown(found, scope))})")
    return Call("zip_with", (one, other, *scope.captured), Array(found.type), (found, shown))


def _of_map(name: str) -> Callable[[Expression, Body], Expression]:
    """A function with a lambda of a key and its value."""

    def make(values: Expression, body: Body) -> Expression:
        kind = values.type
        if not isinstance(kind, Map):
            raise ValueError(f"{name}() takes a map, not {type_name(kind)}")
        found, scope = body([kind.key, kind.value])
        if name == "map_filter":
            return _called(name, values, as_condition(found), scope, kind)
        result = Map(found.type, kind.value) if name == "transform_keys" else Map(kind.key, found.type)
        return _called(name, values, found, scope, result)

    return make


LAMBDA_FUNCTIONS: dict[str, tuple[tuple[int, ...], Callable[..., Expression]]] = {
    "transform": ((1, 2), _transform),
    "filter": ((1, 2), _filter),
    "exists": ((1,), _quantified("exists")),
    "forall": ((1,), _quantified("forall")),
    "aggregate": ((2,), _aggregate),
    "reduce": ((2,), _aggregate),
    "zip_with": ((2,), _zip_with),
    **{name: ((2,), _of_map(name)) for name in ("map_filter", "transform_keys", "transform_values")},
}
"""Name -> how many variables the lambda, which is the last operand, may have, and what builds the expression."""
