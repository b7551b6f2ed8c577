"""The aggregate functions of columns, as options name them: the types that each takes, and what each can retract.

In: a function's name and a column's type. Out: plain data, and whether they fit. ``functions`` has the values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from txlog.core.format.schema import PRIMITIVES, Array, DataType, Decimal, Primitive

RETRACTABLE = frozenset(("sum", "product", "count", "last_value", "last_non_null_value", "collect"))
"""The functions that can retract a value."""

COMMUTATIVE = frozenset(("sum", "product", "count", "min", "max", "bool_and", "bool_or"))
"""The functions whose result does not depend on the order of the values."""

_WHOLE = frozenset(("byte", "short", "integer", "long"))
_FLOATING = frozenset(("float", "double"))
_ORDERED = frozenset(name for name, facts in PRIMITIVES.items() if facts.is_ordered) - {"boolean"}


class FieldFunction(msgspec.Struct, frozen=True):
    """The aggregate function of one column."""

    name: str
    ignores_retracts: bool = False
    delimiter: str = ","
    is_distinct: bool = False

    @property
    def refuses_retracts(self) -> bool:
        """Whether a retracted value is an error."""
        return self.name not in RETRACTABLE and not self.ignores_retracts


def needed_type(function: str, found: DataType) -> str | None:
    """What a function's column must be, in words, if ``found`` is not that; None if it fits."""
    expected = _EXPECTED.get(function)
    return None if expected is None or expected[1](found) else expected[0]


def is_ordered(data_type: DataType) -> bool:
    """Whether the values of a type have an order."""
    return isinstance(data_type, Decimal) or _is_primitive(data_type, _ORDERED)


def is_plain(data_type: DataType) -> bool:
    """Whether the values of a type can be compared."""
    return is_ordered(data_type) or _is_primitive(data_type, frozenset(("boolean",)))


def _is_primitive(data_type: DataType, names: frozenset[str]) -> bool:
    return isinstance(data_type, Primitive) and data_type.name in names


_EXPECTED: Mapping[str, tuple[str, Callable[[DataType], bool]]] = {
    "sum": (
        "a column of numbers",
        lambda found: isinstance(found, Decimal) or _is_primitive(found, _WHOLE | _FLOATING),
    ),
    "product": ("a column of integers or floats", lambda found: _is_primitive(found, _WHOLE | _FLOATING)),
    "count": ("a column of integers", lambda found: _is_primitive(found, _WHOLE)),
    "min": ("a column whose values have an order", is_ordered),
    "max": ("a column whose values have an order", is_ordered),
    "listagg": ("a column of strings", lambda found: _is_primitive(found, frozenset(("string",)))),
    "bool_and": ("a column of booleans", lambda found: _is_primitive(found, frozenset(("boolean",)))),
    "bool_or": ("a column of booleans", lambda found: _is_primitive(found, frozenset(("boolean",)))),
    "collect": ("an array column", lambda found: isinstance(found, Array)),
}
"""The column types that functions require, and whether a type is one of them."""
