"""The command of `txlog` that reads a table's change data feed."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from txlog.cli.console import Output
from txlog.cli.opened import open_table
from txlog.cli.options import Json, Storage, Uri, names, pairs
from txlog.cli.values import plain
from txlog.core.format.arrow.wide_years import python_rows

__all__ = ["changes"]

_SHOWN_ROWS = 100


def changes(
    uri: Uri,
    from_version: Annotated[
        int | None, typer.Option("--from", min=0, metavar="VERSION", help="the first version")
    ] = None,
    to_version: Annotated[
        int | None, typer.Option("--to", min=0, metavar="VERSION", help="the last version, not the newest")
    ] = None,
    from_timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="the first version at or after this time, not --from")
    ] = None,
    to_timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="the last version at or before this time, not --to")
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--columns", metavar="NAMES", help="only these columns: 'id,day'")
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="only these rows, such as \"_change_type = 'delete'\"")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, metavar="NUMBER", help="only the first rows")
    ] = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """List the rows that versions inserted, updated and deleted.

    The table's change data feed must be on (delta.enableChangeDataFeed). With --json, all rows are one document.
    Otherwise it shows the first 100 rows, or --limit.
    """
    if (from_version is None) == (from_timestamp is None):
        raise typer.BadParameter("use --from or --from-timestamp, where the changes start")
    options = pairs(storage_options, "--storage-option")
    most = limit or (None if as_json else _SHOWN_ROWS)
    out = Output(as_json)
    with out.reporting():
        with out.waiting("reading changes"):
            reader = open_table(uri, options).changes(
                from_version,
                to_version,
                names(columns) if columns else None,
                where,
                from_timestamp=from_timestamp,
                to_timestamp=to_timestamp,
            )
            rows, is_cut = _first_rows(reader, most)
        if as_json:
            out.result([{name: plain(value) for name, value in row.items()} for row in rows])
            return
        shown = Table(box=None, pad_edge=False, header_style="bold")
        for name in reader.schema.names:
            shown.add_column(Text(name))
        for row in rows:
            shown.add_row(*(Text("" if value is None else str(plain(value))) for value in row.values()))
        note = [f"and more: --limit shows more than {len(rows)} rows"] if is_cut else [] if rows else ["no changes"]
        out.result(None, *([shown] if rows else []), *note, is_folded=False)


def _first_rows(reader: Any, most: int | None) -> tuple[list[dict[str, Any]], bool]:
    """The first rows, and whether there are more."""
    rows: list[dict[str, Any]] = []
    for batch in reader:
        room = None if most is None else most - len(rows)
        if room is not None and batch.num_rows > room:
            return rows + python_rows(batch.slice(0, room)), True
        rows += python_rows(batch)
    return rows, False
