"""Regular expressions, properties and the names of a room that are computed on first use.

In: a pattern's text, at the top of a module; a method; the names that a room shows. Out: an object with the methods of
a compiled pattern; the method's result as an attribute; a module's ``__getattr__`` (PEP 562). An append imports modules
with thirty patterns and uses seven, and compiling one costs a hundred times more than matching it.

Before Python 3.12, ``functools.cached_property`` holds one lock for all objects of a class while it computes. Threads
that work on different tables would wait for each other, and a process forked meanwhile would wait forever. From Python
3.12 on it has no lock, but two threads that compute the value at the same time may go on with two objects. Here both
get the first.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any


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
    from functools import cached_property as cached_property  # noqa: TID251
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


def face(room: str, modules: str, *, of: str | None = None) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a room: a name's module is imported when somebody first asks for the name.

    The room's ``__init__`` imports the same names under ``if TYPE_CHECKING``, for type checkers and the checks of
    layers. Nothing is kept: who replaces a name in its module, as tests do, is seen by the next import of it.

    Args:
        room: The package's name.
        modules: The names that each module of the room gives to the face: "_base: FileStore LogStore", a module a line.
            A line without a module goes on with the names of the line before it.
        of: The package that these modules belong to, if it is another one.
    """
    homes: dict[str, str] = {}
    module = room
    for word in modules.split():
        if word.endswith(":"):
            module = f"{of or room}.{word[:-1]}"
        else:
            homes[word] = module

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        loaded = sys.modules.get(home)  # a look that costs a tenth of an import, which threads may still wait for
        is_whole = loaded is not None and not getattr(loaded.__spec__, "_initializing", False)
        found = getattr(loaded if is_whole else importlib.import_module(home), name, None)
        return importlib.import_module(f"{home}.{name}") if found is None else found  # a module that a face shows

    return find, lambda: sorted(homes)
