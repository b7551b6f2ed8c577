"""The command of `txlog` that writes a report on a table: one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from txlog.extend.cli import CommandCall, of_operation
from txlog.result import counted, human_size


@of_operation("report")
def report(
    call: CommandCall,
    output: Annotated[
        Path, typer.Option("--output", "-o", dir_okay=False, metavar="FILE", help="the file to write")
    ] = Path("report.html"),
) -> None:
    """One HTML file that works offline, made from the log alone."""
    with call.opened() as (table, out):
        done = call.done(table, out)
        done.save(output)
        size_bytes = output.stat().st_size
        lines = [Text(f"- {each.title}: {each.command}") for each in done.facts.advice if not each.is_optional]
        size = human_size(size_bytes)
        summary = f"{output}: version {done.version}, {counted(len(lines), 'thing')} to do ({size})"
        facts = {"table": table.uri, "version": done.version, "file": str(output), "size_bytes": size_bytes}
        out.result({**facts, **done.to_dict()}, Text(summary), *lines)
