"""Checks of the arguments that a caller passes: integers of any library, lists of names, values in errors.

In: an argument. Out: the plain ``int`` or tuple of names that it means, or ``InvalidInputError``; and `described`,
which shows an unexpected value in an error message without printing a user's data.
"""

from __future__ import annotations

import operator
import os
import reprlib
from datetime import date
from numbers import Number
from typing import Any

from txlog.errors import InvalidInputError

__all__ = ["described", "names_in", "type_name_of", "whole_number"]

_INT64_MAX = 2**63 - 1


def whole_number(name: str, value: Any, *, at_least: int = 0, table: str | None = None) -> int:
    """``value`` as an ``int``, if ``operator.index`` accepts it, as it does NumPy's integers, and it fits in 64 bits.

    Booleans are refused, although Python (and older NumPy) accepts them as integers. Raises ``InvalidInputError``
    that names the argument.
    """
    if type(value) is int and at_least <= value <= _INT64_MAX:
        return value
    try:
        is_flag = isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", None) == "b"
        number = None if is_flag else operator.index(value)
    except TypeError:
        number = None
    if number is None or not at_least <= number <= _INT64_MAX:
        message = f"{name} must be a whole number from {at_least} to 2**63-1, is {described(value)}"
        if name.endswith("version") and isinstance(value, str | date):
            message += "; table.snapshot(timestamp=...).version is the version at a time"
        raise InvalidInputError(message, table=table)
    return number


def names_in(name: str, value: Any) -> tuple[str, ...]:
    """The names in the argument ``name``: a list of strings, or one string with commas between the names.

    A name that contains a comma can only be passed in a list. An empty string holds no name. Raises
    ``InvalidInputError`` that names the argument.
    """
    if isinstance(value, str):
        found = tuple(part.strip() for part in value.split(",")) if value.strip() else ()
    else:
        try:
            found = tuple(value)
        except TypeError:
            raise InvalidInputError(f"{name} must be a list of names, is {described(value)}") from None
    if not all(isinstance(part, str) and part for part in found):
        raise InvalidInputError(f"{name} must be a list of names, each a non-empty string, is {described(value)}")
    return found


def described(value: Any) -> str:
    """A value for an error message: its repr, shortened if long. Tables and other data show only their type."""
    return _SHORT.repr(value)


def type_name_of(value: Any) -> str:
    """The name of a value's type, with its library: ``pandas.DataFrame``, ``dict``, ``None``."""
    if value is None:
        return "None"
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


class _Short(reprlib.Repr):
    """Shortens strings and collections. Never calls a library's own repr, which may run a query."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = 60

    def repr_instance(self, x: Any, level: int) -> str:
        if x is None or isinstance(x, bool | Number | date | os.PathLike | bytes):
            return repr(x)[:60]
        return f"the class {x.__name__}" if isinstance(x, type) else type_name_of(x)


_SHORT = _Short()
