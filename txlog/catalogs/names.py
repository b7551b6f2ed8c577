"""The parts of a table's name, checked.

In: ``sales.orders``, also with backquotes around a part. Out: its parts, in lower case: names do not differ by case.
"""

from __future__ import annotations

from txlog.util.arguments import invalid
from txlog.util.lazy import pattern

__all__ = ["name_parts"]

_PART = pattern(r"[a-z0-9][a-z0-9_-]{0,127}")


def name_parts(name: object, count: int, default: tuple[str, ...] = (), *, is_schema: bool = False) -> tuple[str, ...]:
    """The ``count`` parts of a table's name, or a schema's; ``default`` are the first parts of a name with fewer.

    Raises InvalidInputError for anything else, so a part can be the name of a folder.
    """
    parts = [part.strip("`") for part in name.lower().split(".")] if isinstance(name, str) else []
    found = (*default[: count - len(parts)], *parts)
    if not parts or len(found) != count or not all(map(_PART.fullmatch, found)):
        levels = ("catalog", "schema") if is_schema else ("catalog", "schema", "table")
        form = ".".join(levels[-count:])
        expected = f"{form}, where each part has letters, digits, _ and -, and begins with a letter or digit"
        raise invalid("schema" if is_schema else "name", name, expected)
    return found
