"""The command of `txlog` that deletes data files that a table no longer needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

import txlog
from txlog.cli.opened import opened
from txlog.cli.options import Json, Storage, Uri, Workers
from txlog.result import counted, human_size
from txlog.result.maintenance import VacuumResult

__all__ = ["vacuum"]

_PATHS_SHOWN = 20


def vacuum(
    uri: Uri,
    retention_hours: Annotated[
        float | None,
        typer.Option(min=0, metavar="HOURS", help="delete what is unneeded for this long (default: the table's)"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only list what would be deleted")] = False,
    lite: Annotated[
        bool, typer.Option("--lite", help="take the removed files from the log; finds no files of crashed writers")
    ] = False,
    inventory: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            metavar="FILE",
            help="a Parquet file that lists the files: path, length, isDir, modificationTime",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="accept a retention shorter than the table's")] = False,
    workers: Workers = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Delete data files that no retained version needs.

    The retention is delta.deletedFileRetentionDuration (default: 7 days). Try it with --dry-run first.
    """
    with opened(uri, storage_options, as_json, workers) as (table, out):
        with out.steps() as report:
            done = table.vacuum(
                retention_hours,
                dry_run=dry_run,
                lite=lite,
                inventory=_read(inventory),
                force=force,
                on_progress=report,
            )
        out.result({"table": table.uri, **done.to_dict()}, *_shown(done))


def _read(inventory: Path | None) -> Any:
    if inventory is None:
        return None
    from pyarrow import ArrowException
    from pyarrow.parquet import read_table

    try:
        return read_table(inventory)
    except (ArrowException, OSError) as error:
        raise txlog.InvalidInputError(f"the inventory cannot be read: {error}", path=str(inventory)) from None


def _shown(done: VacuumResult) -> list[RenderableType]:
    if not done.paths:
        return [Text("nothing to delete: every file is needed, or younger than the retention")]
    shown: list[RenderableType] = [Text(path) for path in done.paths[:_PATHS_SHOWN]] if done.dry_run else []
    if done.dry_run and len(done.paths) > _PATHS_SHOWN:
        shown.append(Text(f"... and {len(done.paths) - _PATHS_SHOWN:,} more"))
    verb = "would delete" if done.dry_run else "deleted"
    return [*shown, Text(f"{verb} {counted(len(done.paths), 'file')}, {human_size(done.size_bytes)}")]
