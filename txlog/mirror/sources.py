"""What a mirror knows of a table at its source: columns, types, keys. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from txlog.mirror.types import ColumnType

_CHARACTERS_MAX = 128


def target_name(schema: str, name: str) -> str:
    """The name of a table's mirror: as catalogs take names, in lower case, with ``_`` for what none has. A part that
    begins with neither a letter nor a digit gets a ``t`` before it."""
    parts = (re.sub(r"[^a-z0-9_-]", "_", part.lower()) for part in (schema, name))
    return ".".join((part if part[:1].isalnum() else f"t{part}")[:_CHARACTERS_MAX] for part in parts)


class SourceColumn(NamedTuple):
    """A column: ``number`` stays with it when it is renamed. ``existing``: what rows have that were there before it, as
    PostgreSQL's text; ``is_filled``: they may have values that only the rows themselves show."""

    name: str
    number: int
    type: ColumnType
    existing: str | None = None
    is_filled: bool = False


class SourceTable(NamedTuple):
    """A table. ``keys``: the columns that identify a row, or none.

    ``logs_whole_rows``: each change has the whole old row (REPLICA IDENTITY FULL). ``key_is_immediate``: no two rows
    ever have the same key, not even within a transaction. ``condition``: only rows that meet it are published.

    ``number`` is that of the table and ``entry`` that of its place in the publication: a table that is made again, or
    is put there again, has another one. ``partitions``: those that have rows of their own; None: it has no partitions.
    """

    number: int
    schema: str
    name: str
    columns: tuple[SourceColumn, ...]
    keys: tuple[str, ...]
    logs_whole_rows: bool
    key_is_immediate: bool
    partitions: tuple[str, ...] | None = None
    condition: str | None = None
    entry: int = 0

    @property
    def has_partitions(self) -> bool:
        return self.partitions is not None

    @property
    def shown(self) -> str:
        """``schema.table``."""
        return f"{self.schema}.{self.name}"
