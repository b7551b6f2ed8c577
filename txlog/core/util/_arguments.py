"""Checks of a caller's arguments: any library's integers, lists of names, values in errors.

In: an argument. Out: the plain ``int`` or tuple of names that it means, or ``InvalidInputError``; `invalid`, the error
for a wrong value; and `described`, which shows a value in an error message without printing a user's data. `UTC` is
what ``time_zone`` is by default.
"""

from __future__ import annotations

import operator
import os
import reprlib
from collections.abc import Iterable
from datetime import date
from numbers import Number
from typing import Any

from txlog.core.wording import argument
from txlog.errors import InvalidInputError

UTC = "UTC"
"""The zone of times without one, if nobody says otherwise (`time_zones`)."""

_INT64_MAX = 2**63 - 1


def whole_number(name: str, value: Any, *, at_least: int = 0, table: str | None = None) -> int:
    """``value`` as an ``int``, if ``operator.index`` accepts it (as it accepts NumPy's integers) and it fits in 64
    bits.

    Booleans are refused, although Python (and older NumPy) accepts them as integers. Raises ``InvalidInputError`` that
    names the argument.
    """
    if type(value) is int and at_least <= value <= _INT64_MAX:
        return value
    try:
        is_flag = isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", None) == "b"
        number = None if is_flag else operator.index(value)
    except TypeError:
        number = None
    if number is None or not at_least <= number <= _INT64_MAX:
        is_time = name.endswith("version") and isinstance(value, str | date)
        hint = "table.snapshot(timestamp=...).version is the version at a time" if is_time else None
        number_of = "number of bytes" if name.endswith(("_size", "_bytes")) else "number"
        raise invalid(name, value, f"a whole {number_of} from {at_least} to 2**63-1", hint=hint, table=table)
    return number


def check_text(what: str, value: object) -> None:
    """Refuse a value that a commit would not store as a string: readers expect one. None is allowed."""
    if value is None:
        return
    if type(value) is not str:
        raise invalid(what, value, "a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise invalid(what, value, "a string that UTF-8 can encode") from None


def names_in(name: str, value: Any) -> tuple[str, ...]:
    """The names in the argument ``name``: a list of strings, or one string with commas between the names.

    A name with a comma can only be passed in a list. An empty string contains no name. Raises
    ``InvalidInputError`` that names the argument.
    """
    if isinstance(value, str):
        found = tuple(part.strip() for part in value.split(",")) if value.strip() else ()
    else:
        try:
            found = tuple(value)
        except TypeError:
            raise invalid(name, value, "a list of names") from None
    if not all(isinstance(part, str) and part for part in found):
        raise invalid(name, value, "a list of names, each a non-empty string")
    return found


def invalid(
    name: str, value: Any, expected: str, *, hint: str | None = None, table: str | None = None
) -> InvalidInputError:
    """The error for an argument with a wrong value: ``Invalid mode 'x': expected 'append' or 'overwrite'``.

    Args:
        name: The argument, or what the value is, such as ``"table location"``.
        value: The wrong value, shown as `described` shows it.
        expected: What the value can be.
        hint: A sentence that says what to do next, without its period.
        table: The URI of the table, if known.

    Returns:
        The error, for the caller to raise.
    """
    named = argument(name) if name.isidentifier() else name
    message = f"Invalid {named} {described(value)}: expected {expected}"
    return InvalidInputError(f"{message}. {hint}" if hint else message, table=table)


def one_of(choices: Iterable[str]) -> str:
    """The choices for an error message: ``'a'``, ``'a' or 'b'``, ``'a', 'b' or 'c'``."""
    *others, last = map(repr, choices)
    return f"{', '.join(others)} or {last}" if others else last


def described(value: Any) -> str:
    """A value for an error message: its repr, shortened if long. Tables and other data show only their type."""
    return _SHORT.repr(value)


def type_name_of(value: Any) -> str:
    """A type's name with its library: ``pandas.DataFrame``, ``dict``, ``None``."""
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
