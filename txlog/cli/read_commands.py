"""The commands of `txlog` that print rows of a table: head, count, changes."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from txlog.cli import show
from txlog.cli.declared import CommandCall, of_operation
from txlog.cli.opened import opened_at
from txlog.cli.options import Columns, Csv, Json, Parameters, Storage, Timestamp, Uri, Version, names, pairs
from txlog.cli.tables import check_one_form, first_rows, show_rows

Where = Annotated[str | None, typer.Option(metavar="SQL", help="only matching rows: \"day = '2026-11-20'\"")]

_SHOWN_ROWS = 100


@of_operation("changes", "List the rows that versions inserted, updated and deleted.")
def changes(
    call: CommandCall,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, metavar="NUMBER", help="only the first rows")
    ] = None,
    as_csv: Csv = False,
) -> None:
    """The table's change data feed must be on (delta.enableChangeDataFeed). With --json, all rows are one document;
    --csv prints them all too. Otherwise it shows the first 100 rows, or --limit.
    """
    if ("from_version" in call.given) == ("from_timestamp" in call.given):
        raise typer.BadParameter("use --from or --from-timestamp, where the changes start")
    check_one_form(as_csv, call.as_json)
    most = limit or (None if call.as_json or as_csv else _SHOWN_ROWS)
    with call.opened() as (table, out):
        with out.waiting("reading changes"):
            rows = first_rows(table.changes(**call.given), most)
        show_rows(out, rows, nothing="no changes", as_csv=as_csv)


@of_operation("history")
def history(call: CommandCall) -> None:
    with call.opened() as (table, out):
        entries = call.done(table, out, "reading commits")
        out.result(show.history_facts(entries), show.history_shown(entries))


def head(
    uri: Uri,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="NUMBER", help="how many rows")] = 10,
    columns: Columns = None,
    where: Where = None,
    parameters: Parameters = None,
    version: Version = None,
    timestamp: Timestamp = None,
    storage_options: Storage = None,
    as_csv: Csv = False,
    as_json: Json = False,
) -> None:
    """Show the first rows of a table. Reads only the files that have them."""
    check_one_form(as_csv, as_json)
    with opened_at(uri, version, timestamp, storage_options, as_json) as (_, snapshot, out):
        with out.waiting("reading rows"):
            wanted = names(columns) if columns else None
            found = snapshot.head(limit, wanted, where, parameters=pairs(parameters, "--param") or None)
        show_rows(out, first_rows(found.to_reader(), None), as_csv=as_csv)


def count(
    uri: Uri,
    where: Where = None,
    parameters: Parameters = None,
    version: Version = None,
    timestamp: Timestamp = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Count the rows of a table, or those that match a condition.

    Without --where, the number comes from the log. With it, reads a file only if the log
    does not say which of its rows match.
    """
    with opened_at(uri, version, timestamp, storage_options, as_json) as (table, snapshot, out):
        with out.waiting("counting rows"):
            rows = snapshot.count(where, parameters=pairs(parameters, "--param") or None)
        out.result({"table": table.uri, "version": snapshot.version, "rows": rows}, Text(str(rows)))
