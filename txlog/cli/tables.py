"""How the command line lays out what it shows a person: tables of columns, and lists of names with values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from rich.table import Table
from rich.text import Text

__all__ = ["grid", "table_of"]


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
