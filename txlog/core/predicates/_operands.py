"""What a function requires of its operands: a type, or a literal.

In: a bound operand and the name of the function, for the error. Out: the operand, or its value; or ``ValueError``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from txlog.core.format.schema import DATE, STRING, TIMES, TIMESTAMP, TIMESTAMPS, VOID, Array, DataType, type_name
from txlog.core.predicates._build import call, cast_to, convert
from txlog.core.predicates.terms.tree import Expression, Value
from txlog.core.predicates.terms.types import common_type, is_integer

Make = Callable[..., Expression]


def typed(operand: Expression, data_type: DataType, name: str) -> Expression:
    """The operand; its type must be this one, or NULL."""
    if operand.type == data_type or (isinstance(operand, Value) and operand.value is None):
        return convert(operand, data_type)
    raise ValueError(f"{name}() takes {type_name(data_type)}, not {type_name(operand.type)}: CAST it")


def constant(operand: Expression, kind: type, name: str) -> Any:
    """The value of a literal of this Python type."""
    if isinstance(operand, Value) and type(operand.value) is kind:
        return operand.value
    raise ValueError(f"{name}() takes a literal {'string' if kind is str else 'whole number'} here, not {operand}")


def arrays_alike(one: Expression, other: Expression, name: str) -> list[Expression]:
    """Two arrays as arrays of one type, which Spark finds for integers alone."""
    if not isinstance(one.type, Array) or not isinstance(other.type, Array):
        raise ValueError(f"{name}() takes two arrays, not {type_name(one.type)} and {type_name(other.type)}")
    elements = one.type.element, other.type.element
    kind = common_type(*elements) if all(map(is_integer, elements)) or VOID in elements else None
    if kind is None and elements[0] != elements[1]:
        raise ValueError(f"{name}() takes arrays of one type: CAST their values")
    return [convert(each, Array(kind or elements[0])) for each in (one, other)]


def day(value: Expression, name: str) -> Expression:
    """The day of a date, of a timestamp, or of a text."""
    return cast_to(value, DATE) if value.type in (STRING, *TIMESTAMPS) else typed(value, DATE, name)


def moment(value: Expression, name: str) -> Expression:
    """A timestamp, with a zone or without; that of a text, or the begin of a date."""
    return value if value.type in TIMESTAMPS else instant(value, name)


def instant(value: Expression, name: str) -> Expression:
    """The same with a zone."""
    return cast_to(value, TIMESTAMP) if value.type in (STRING, *TIMES) else typed(value, TIMESTAMP, name)


def of_types(name: str, types: Sequence[DataType], result: DataType = STRING) -> Make:
    """Builds the function with this name in ``_kernels``, whose operands have exactly these types."""

    def make(*operands: Expression) -> Expression:
        return call(name, [typed(each, kind, name) for each, kind in zip(operands, types, strict=True)], result)

    return make
