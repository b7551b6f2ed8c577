"""The parts of a table's name, checked.

In: ``sales.orders``, also with backquotes around a part, which may then have dots where the catalog allows them. Out:
its parts, in lower case: names do not differ by case. And back: `name_text`.
"""

from __future__ import annotations

from collections.abc import Sequence

from txlog.core.format.properties import column_paths
from txlog.core.format.schema import backquoted
from txlog.core.util import invalid, pattern

_PART = pattern(r"[a-z0-9][a-z0-9_-]{0,127}")
_DOTTED_PART = pattern(r"[a-z0-9][a-z0-9_.-]{0,127}")


def name_parts(
    name: object, count: int, default: tuple[str, ...] = (), *, is_schema: bool = False, takes_dots: bool = False
) -> tuple[str, ...]:
    """The ``count`` parts of a table's name, or a schema's; ``default`` are the first parts of a name with fewer.

    ``takes_dots`` is whether a part in backquotes may have dots. Raises InvalidInputError for anything else, so a part
    can be the name of a folder.
    """
    parts = _split(name.lower()) if isinstance(name, str) else ()
    found = (*default[: count - len(parts)], *parts)
    allowed = _DOTTED_PART if takes_dots else _PART
    if not parts or len(found) != count or not all(map(allowed.fullmatch, found)):
        levels = ("catalog", "schema") if is_schema else ("catalog", "schema", "table")
        form = ".".join(levels[-count:])
        expected = f"{form}, where each part has letters, digits, _ and -, and begins with a letter or digit"
        expected += "; a part in backquotes may have dots" if takes_dots else ""
        raise invalid("schema" if is_schema else "name", name, expected)
    return found


def name_text(parts: Sequence[str]) -> str:
    """The name with these parts: ``sales.orders``, or with backquotes where a dot would be taken for a separator."""
    return ".".join(backquoted(part) if {".", "`"} & {*part} else part for part in parts)


def _split(name: str) -> tuple[str, ...]:
    try:
        (parts,) = column_paths(name)
    except ValueError:
        return ()
    return parts
