"""The command of `txlog` that writes a report on a table: one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from txlog.extend.cli import Json, Uri, opened
from txlog.result import counted, human_size

__all__ = ["report"]


def report(
    uri: Uri,
    output: Annotated[
        Path, typer.Option("--output", "-o", dir_okay=False, metavar="FILE", help="the file to write")
    ] = Path("report.html"),
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, metavar="NUMBER", help="only the newest commits")
    ] = None,
    orphans: Annotated[
        bool, typer.Option("--orphans", help="also list the table's folder: files that no version needs")
    ] = False,
    storage_options: Annotated[
        list[str] | None,
        typer.Option("--storage-option", metavar="KEY=VALUE", help="an option of the store; may be repeated"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a page about the table: commits, files, clustering, upkeep, readers, and what to do.

    One HTML file that works offline, made from the log alone.
    """
    with opened(uri, storage_options, as_json) as (table, out):
        with out.steps() as on_progress:
            done = table.report(limit=limit, orphans=orphans, on_progress=on_progress)
        done.save(output)
        size_bytes = output.stat().st_size
        lines = [Text(f"- {each.title}: {each.command}") for each in done.facts.advice if not each.is_optional]
        size = human_size(size_bytes)
        summary = f"{output}: version {done.version}, {counted(len(lines), 'thing')} to do ({size})"
        facts = {"table": table.uri, "version": done.version, "file": str(output), "size_bytes": size_bytes}
        out.result({**facts, **done.to_dict()}, Text(summary), *lines)
