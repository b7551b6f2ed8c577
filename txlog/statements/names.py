"""How a statement names a table, and a version of it.

In: a `Cursor`. Out: `TableName`, `AsOf`.
"""

from __future__ import annotations

import msgspec

from txlog.core.catalogs import name_text
from txlog.core.format.properties import column_paths
from txlog.statements.cursor import Cursor


class TableName(msgspec.Struct, frozen=True):
    """A table by its name in the catalog, or by its location: ``delta.`/data/orders```. ``at`` is where it is named."""

    parts: tuple[str, ...]
    at: str = ""

    @property
    def location(self) -> str | None:
        """The location, None for a name in the catalog."""
        is_location = len(self.parts) == 2 and self.parts[0].lower() == "delta" and set("/:") & set(self.parts[1])
        return self.parts[1] if is_location else None

    @property
    def text(self) -> str:
        return name_text(self.parts)

    @property
    def key(self) -> str:
        """The same for all spellings of a name."""
        return self.location or self.text.lower()


class AsOf(msgspec.Struct, frozen=True):
    """``VERSION AS OF 3``, or ``TIMESTAMP AS OF '2026-11-20'``: one of the two is set, or neither for the newest."""

    version: int | None = None
    timestamp: str | None = None


def read_table_name(cursor: Cursor) -> TableName:
    """``orders``, ``sales.orders``, ``delta.`path```, or a location in quotes."""
    at = cursor.place()
    if cursor.is_at_string():
        return TableName(("delta", cursor.string()), at)
    return TableName(cursor.names("the name of a table"), at)


def table_in_string(cursor: Cursor, at: str) -> TableName:
    """The table that a string names: ``sales.orders``, ``delta.`/data/orders```, or a location, which has a slash or a
    colon. Moves behind the string."""
    text = cursor.copy().string()
    if "`" not in text:
        parts = ("delta", text) if set("/:") & set(text) else tuple(text.split("."))
    else:
        try:
            (parts,) = column_paths(text)
        except ValueError:
            raise cursor.refused("expected the name of a table, such as 'sales.orders' or 'delta.`path`'") from None
    cursor.string()
    return TableName(parts, at)


def read_as_of(cursor: Cursor) -> AsOf:
    """What is behind a table's name, if a version is."""
    cursor.take("FOR")
    if cursor.take("VERSION", "AS", "OF") or cursor.take("SYSTEM_VERSION", "AS", "OF"):
        if cursor.is_at_string():
            text = cursor.string()
            if not text.isdecimal():
                raise cursor.refused("expected the number of a version")
            return AsOf(version=int(text))
        return AsOf(version=cursor.whole_number("the number of a version"))
    if cursor.take("TIMESTAMP", "AS", "OF") or cursor.take("SYSTEM_TIME", "AS", "OF"):
        return AsOf(timestamp=cursor.primary("a time"))
    return AsOf()
