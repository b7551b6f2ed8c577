"""Regular expressions that are compiled on first use.

In: a pattern's text, at the top of a module. Out: an object with the methods of a compiled pattern. An append imports
modules with thirty of them and uses seven, and compiling one costs a hundred times more than matching it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

__all__ = ["pattern"]


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
