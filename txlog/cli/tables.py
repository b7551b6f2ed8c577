"""How the command line lays out what it shows a person: tables of columns, rows, and lists of names with values."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
import pyarrow as pa
import typer
from rich.table import Table
from rich.text import Text

from txlog.cli.console import Output
from txlog.cli.values import csv_line, plain
from txlog.core.format.arrow.wide_years import python_rows

_LINES_AT_ONCE = 1000


class FirstRows(msgspec.Struct, frozen=True):
    """Rows of a stream as Python values, and whether it has more."""

    schema: pa.Schema
    rows: list[dict[str, Any]]
    is_cut: bool


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


def first_rows(reader: Any, most: int | None) -> FirstRows:
    """The first rows of a stream of record batches; all for None."""
    rows: list[dict[str, Any]] = []
    for batch in reader:
        room = None if most is None else most - len(rows)
        if room is not None and batch.num_rows > room:
            return FirstRows(reader.schema, rows + python_rows(batch.slice(0, room)), is_cut=True)
        rows += python_rows(batch)
    return FirstRows(reader.schema, rows, is_cut=False)


def print_csv(out: Output, names: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Print rows as CSV. The command ends if nobody can read them."""
    out.line(csv_line(names))
    lines = map(csv_line, rows)
    while some := list(itertools.islice(lines, _LINES_AT_ONCE)):
        out.line("\n".join(some))


def check_one_form(as_csv: bool, as_json: bool) -> None:
    if as_csv and as_json:
        raise typer.BadParameter("use --json or --csv, not both")


def show_rows(out: Output, found: FirstRows, nothing: str = "no rows", *, as_csv: bool = False) -> None:
    """Print rows: one JSON document, CSV, or a table for a person, with ``nothing`` if there are none."""
    rows = found.rows
    if as_csv:
        print_csv(out, found.schema.names, (row.values() for row in rows))
        return
    if out.as_json:
        out.result([{name: plain(value) for name, value in row.items()} for row in rows])
        return
    note = [f"and more: --limit shows more than {len(rows)} rows"] if found.is_cut else [] if rows else [nothing]
    shown = [rows_table(found.schema, (row.values() for row in rows))] if rows else []
    out.result(None, *shown, *note, is_folded=False)
