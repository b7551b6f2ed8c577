"""What a mirror knows of a table at its source: columns, types, keys. Pure."""

from __future__ import annotations

from typing import NamedTuple

from txlog.mirror.types import ColumnType

__all__ = ["SourceColumn", "SourceTable"]


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
    """

    number: int
    schema: str
    name: str
    columns: tuple[SourceColumn, ...]
    keys: tuple[str, ...]
    logs_whole_rows: bool
    key_is_immediate: bool
    has_partitions: bool = False
    condition: str | None = None

    @property
    def shown(self) -> str:
        """``schema.table``."""
        return f"{self.schema}.{self.name}"
