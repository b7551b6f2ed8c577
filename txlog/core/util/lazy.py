"""Regular expressions and properties that are computed on first use.

In: a pattern's text, at the top of a module; a method. Out: an object with the methods of a compiled pattern; the
method's result as an attribute. An append imports modules with thirty patterns and uses seven, and compiling one costs
a hundred times more than matching it.

Before Python 3.12, ``functools.cached_property`` holds one lock for all objects of a class while it computes. Threads
that work on different tables would wait for each other, and a process forked meanwhile would wait forever. From Python
3.12 on it has no lock, but two threads that compute the value at the same time may go on with two objects. Here both
get the first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property", "pattern"]


class _Pattern:
    """Gets the methods of a compiled pattern when one of them is first used."""

    def __init__(self, text: str, flags: re.RegexFlag | int) -> None:
        self._given = text, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        compiled = re.compile(*self._given)
        for each in ("findall", "finditer", "fullmatch", "match", "pattern", "search", "split", "sub", "subn"):
            setattr(self, each, getattr(compiled, each))
        return getattr(compiled, name)


if TYPE_CHECKING:
    pattern = re.compile
else:

    def pattern(text: str, flags: re.RegexFlag | int = 0) -> _Pattern:
        """The regular expression ``text``, compiled on first use."""
        return _Pattern(text, flags)


if TYPE_CHECKING:
    from functools import cached_property  # noqa: TID251
else:

    class cached_property:
        """A method whose result becomes an attribute of the object, which needs a ``__dict__``."""

        def __init__(self, function: Any) -> None:
            self.func = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self._name, self.func(instance))
