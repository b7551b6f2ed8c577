"""The command of `txlog` that compares two versions of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from txlog.cli.opened import opened
from txlog.cli.options import Json, Storage, Uri
from txlog.cli.tables import table_of
from txlog.result import counted, human_size

if TYPE_CHECKING:
    from txlog.result.audits import Change, VersionDiff

__all__ = ["diff"]


def diff(
    uri: Uri,
    before: Annotated[int, typer.Argument(metavar="FROM", min=0, help="the version before", show_default=False)],
    after: Annotated[
        int | None, typer.Argument(metavar="[TO]", min=0, help="the version after (default: the newest)")
    ] = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Show what changed between two versions: columns, properties, files and rows.

    Rows are counted by the change data feed, if the table has it (delta.enableChangeDataFeed).
    """
    with opened(uri, storage_options, as_json) as (table, out):
        with out.waiting("comparing versions"):
            found = table.diff(before, after)
        out.result({"table": table.uri, **found.to_dict()}, *_shown(found))


def _shown(found: VersionDiff) -> Iterator[RenderableType]:
    if changes := [*found.columns, *found.definition, *found.properties]:
        yield _table(changes)
    yield Text(_files(found))
    yield Text(_rows(found))


def _table(changes: Sequence[Change]) -> Table:
    table = table_of("what", "before", "after")
    for each in changes:
        table.add_row(*(Text("-" if text is None else text) for text in (each.what, each.before, each.after)))
    return table


def _files(found: VersionDiff) -> str:
    added = f"{counted(found.files_added, 'file')} added, {human_size(found.bytes_added)}"
    removed = f"{counted(found.files_removed, 'file')} removed, {human_size(found.bytes_removed)}"
    marked = f"; {counted(found.files_marked, 'file')} with other deleted rows" if found.files_marked else ""
    return f"{added}; {removed}{marked}"


def _rows(found: VersionDiff) -> str:
    totals = " to ".join("unknown" if rows is None else f"{rows:,}" for rows in (found.rows_before, found.rows_after))
    if found.rows is None:
        why = (found.rows_unknown or "").partition(". ")[0]  # what follows are calls of Python
        return f"rows: {totals}; which of them changed is not known: {why}"
    rows = found.rows
    return f"rows: {totals}; {rows.inserted:,} inserted, {rows.updated:,} updated, {rows.deleted:,} deleted"
