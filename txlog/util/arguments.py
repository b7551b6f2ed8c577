"""What a caller passes, checked before it is used: whole numbers of any library, lists of names, values in errors.

In: an argument. Out: the plain ``int`` or tuple of names that it means, or ``InvalidInputError``; and `described`, the
words for a value that is not what was asked for, which never print somebody's data.
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
    """``value`` as an ``int``, if ``operator.index`` takes it for one (numpy's are) and it is a 64-bit one.

    A flag is refused, though Python counts with it, and an older NumPy with its own. Raises ``InvalidInputError``,
    which names the argument.
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
        raise InvalidInputError(message, table=table)
    return number


def names_in(name: str, value: Any) -> tuple[str, ...]:
    """The names that the argument ``name`` holds: a list of strings, or one string with commas between them.

    A name that has a comma in it can only be given in a list. An empty string holds no name. Raises
    ``InvalidInputError``, which names the argument.
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
    """A value as an error message shows it: a short one as Python writes it, a long one cut, data by its type alone."""
    return _SHORT.repr(value)


def type_name_of(value: Any) -> str:
    """``pandas.DataFrame``, ``dict``, ``None``: the type, and the library that it is of."""
    if value is None:
        return "None"
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


class _Short(reprlib.Repr):
    """Texts and collections are cut short. What a library calls its repr may run a query and print a million rows."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = 60

    def repr_instance(self, x: Any, level: int) -> str:
        if x is None or isinstance(x, bool | Number | date | os.PathLike | bytes):
            return repr(x)[:60]
        return f"the class {x.__name__}" if isinstance(x, type) else type_name_of(x)


_SHORT = _Short()
