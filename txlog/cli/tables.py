"""How the command line lays out what it shows a person: tables of columns, rows, and lists of names with values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
from rich.table import Table
from rich.text import Text

from txlog.cli.values import plain

__all__ = ["grid", "rows_table", "table_of"]


def table_of(*names: str, numbers: Sequence[str] = (), unbroken: Sequence[str] = ()) -> Table:
    """A table of these columns, without rows yet. ``numbers`` are aligned right, ``unbroken`` ones never wrap."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        justify: Literal["left", "right"] = "right" if name in numbers else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name in unbroken)
    return table


def grid(lines: Mapping[str, str]) -> Table:
    """A line for each name, with its value beside it."""
    found = Table.grid(padding=(0, 2))
    for name, value in lines.items():
        found.add_row(Text(name, style="bold"), Text(value))
    return found


def rows_table(schema: pa.Schema, rows: Iterable[Iterable[Any]]) -> Table:
    """Rows of a table, as Python values in the order of the schema; numbers are aligned right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    types = pa.types
    for field in schema:
        is_number = types.is_integer(field.type) or types.is_floating(field.type) or types.is_decimal(field.type)
        table.add_column(Text(field.name), justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*(Text("null" if value is None else str(plain(value))) for value in row))
    return table
