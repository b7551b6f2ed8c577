"""A ``pyarrow.compute.Expression`` as a bound expression, if SQL has an equivalent.

In: an expression built with pyarrow, and a schema. Out: a tree as from SQL text, with SQL's meaning of NULL and NaN.
pyarrow shows the parts of an expression only in its serialized form: an Arrow file whose schema metadata lists calls,
fields and literals in order, and whose columns are the literals and options.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.schema import STRING, type_name
from txlog.core.predicates._build import arithmetic, as_condition, chosen, compare, is_null, like, literal, member
from txlog.core.predicates._functions import function
from txlog.core.predicates.terms.predicate import And, Not, Or
from txlog.core.predicates.terms.tree import Expression, Path
from txlog.core.predicates.terms.types import is_floating
from txlog.errors import InvalidInputError

_ENTRY = re.compile(r"(call|end|field_ref|nested_field_ref|literal|options): '(.*)'")
_COMPARISONS = {
    **{"equal": "=", "not_equal": "!="},
    **{"less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="},
}
_ARITHMETIC = {"add_checked": "+", "subtract_checked": "-", "multiply_checked": "*", "divide_checked": "/"}
_PATTERNS = {"starts_with": "startswith", "ends_with": "endswith", "match_substring": "contains"}
_FUNCTIONS = {
    **{
        "utf8_upper": "upper",
        "utf8_lower": "lower",
        "utf8_length": "length",
        "is_nan": "isnan",
        "coalesce": "coalesce",
    },
    **{name: name for name in ("year", "month", "day", "hour", "minute", "second", "quarter")},
    **{"abs_checked": "abs", "negate_checked": "negative"},
}


def is_arrow_expression(value: object) -> bool:
    """Whether the caller passed a pyarrow expression."""
    return isinstance(value, pc.Expression)


def read_arrow_expression(expression: pc.Expression, column: Callable[[Path], Expression]) -> Expression:
    """The bound expression; ``column`` finds a column by its path.

    Raises:
        InvalidInputError: Names the function or form that is not understood.
    """
    try:
        buffer = expression.__reduce__()[1][0]
    except pa.ArrowNotImplementedError as error:
        raise _not_understood(expression, str(error)) from None
    with pa.ipc.open_file(buffer) as file:
        parts = file.read_all()
        text = file.schema.to_string(show_field_metadata=False, show_schema_metadata=True, truncate_metadata=False)
    lines = text.partition("-- schema metadata --\n")[2].splitlines()
    entries = [_ENTRY.fullmatch(line) for line in lines]
    reader = _ArrowReader(parts, column)
    try:
        return reader.read(iter([(found[1], found[2]) for found in entries if found is not None]))
    except InvalidInputError:
        raise
    except (ValueError, LookupError, StopIteration) as error:
        raise _not_understood(expression, str(error)) from None


def _not_understood(expression: pc.Expression, why: str) -> InvalidInputError:
    return InvalidInputError(f"the pyarrow expression {expression} is not understood: {why}. Write it as SQL text")


class _ArrowReader:
    def __init__(self, parts: pa.Table, column: Callable[[Path], Expression]) -> None:
        self._parts = parts
        self._column = column

    def read(self, entries: Iterator[tuple[str, str]]) -> Expression:
        kind, value = next(entries)
        return self._read(kind, value, entries)

    def _read(self, kind: str, value: str, entries: Iterator[tuple[str, str]]) -> Expression:
        match kind:
            case "field_ref":
                return self._column((value,))
            case "nested_field_ref":
                return self._column(tuple(next(entries)[1] for _ in range(int(value))))
            case "literal":
                return literal(self._part(value))
            case "call":
                return self._call(value, entries)
        raise ValueError(f"it has an unexpected {kind}")

    def _part(self, number: str) -> Any:
        return self._parts.column(int(number))[0].as_py()

    def _call(self, name: str, entries: Iterator[tuple[str, str]]) -> Expression:
        operands: list[Expression] = []
        options: dict[str, Any] = {}
        for kind, value in entries:
            if kind == "end":
                return _made(name, operands, options)
            if kind == "options":
                options = self._part(value)
            else:
                operands.append(self._read(kind, value, entries))
        raise ValueError("it ends early")


def _made(name: str, operands: list[Expression], options: dict[str, Any]) -> Expression:
    if name in _COMPARISONS:
        return as_condition(compare(_COMPARISONS[name], *operands))
    if name in _ARITHMETIC:
        result = arithmetic(_ARITHMETIC[name], *operands)
        if name == "divide_checked" and not any(is_floating(operand.type) for operand in operands):
            raise ValueError("pyarrow divides integers to integers, SQL does not")
        return result
    if name in _FUNCTIONS:
        return function(_FUNCTIONS[name], operands)
    if name in _PATTERNS and not options["ignore_case"]:
        return function(_PATTERNS[name], [*operands, literal(options["pattern"])])
    match name:
        case "and_kleene" | "and":
            return And(*map(as_condition, operands))
        case "or_kleene" | "or":
            return Or(*map(as_condition, operands))
        case "invert":
            return Not(as_condition(operands[0]))
        case "is_valid":
            return Not(as_condition(is_null(operands[0])))
        case "is_null" if not options.get("nan_is_null"):
            return is_null(operands[0])
        case "is_in":
            return member(operands[0], [literal(value) for value in options["value_set"]])
        case "match_like" if not options["ignore_case"] and operands[0].type == STRING:
            return like(operands[0], options["pattern"])
        case "if_else":
            return chosen([as_condition(operands[0])], operands[1:])
    types = ", ".join(type_name(operand.type) for operand in operands)
    raise ValueError(f"its function {name}({types}) has no SQL equivalent here")
