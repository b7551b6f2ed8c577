"""What ``msgspec`` structs lack for our values: a repr that leaves fields out, and their fields as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def repr_without(*hidden: str) -> Callable[[Any], str]:
    """A ``__repr__`` that leaves fields out: they may hold secrets, or are too long to read."""

    def __repr__(self: Any) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in hidden)
        return f"{type(self).__name__}({', '.join(shown)})"

    return __repr__


def public_fields(value: Any) -> dict[str, Any]:
    """A struct's fields by name, except those with an underscore: the ``default`` of `orjson.dumps`."""
    return {name: getattr(value, name) for name in value.__struct_fields__ if not name.startswith("_")}
