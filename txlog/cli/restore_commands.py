"""The commands of `txlog` that bring a table back: to an older version, or to the files that are left."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from txlog.cli.opened import opened
from txlog.cli.options import Json, Storage, Uri, UserMetadata
from txlog.result import counted, human_size
from txlog.result.maintenance import RepairResult, RestoreResult

__all__ = ["repair", "restore"]

_PATHS_SHOWN = 20


def restore(
    uri: Uri,
    version: Annotated[int | None, typer.Option(min=0, metavar="NUMBER", help="the version to restore")] = None,
    timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="the newest version at this time (ISO 8601, see --time-zone)")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only show what would change and what is missing")] = False,
    allow_missing_files: Annotated[
        bool, typer.Option("--allow-missing-files", help="leave out rows whose files are missing")
    ] = False,
    allow_expired_files: Annotated[
        bool,
        typer.Option("--allow-expired-files", help="also restore files that a vacuum may delete; only if none runs"),
    ] = False,
    user_metadata: Annotated[str | None, typer.Option(metavar="TEXT", help="a note for the table's history")] = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Restore a table to an older version.

    The versions in between stay in the history.
    """
    if (version is None) == (timestamp is None):
        raise typer.BadParameter("give --version or --timestamp")
    with opened(uri, storage_options, as_json) as (table, out):
        with out.steps() as report:
            done = table.restore(
                version,
                timestamp,
                allow_missing_files=allow_missing_files,
                allow_expired_files=allow_expired_files,
                dry_run=dry_run,
                user_metadata=user_metadata,
                on_progress=lambda looked_up, total: report("looking up files", looked_up, total),
            )
        out.result({"table": table.uri, **done.to_dict()}, *_shown(done))


def _shown(done: RestoreResult) -> list[RenderableType]:
    shown: list[RenderableType] = [Text(f"missing: {path}") for path in done.missing[:_PATHS_SHOWN]]
    if len(done.missing) > _PATHS_SHOWN:
        shown.append(Text(f"... and {len(done.missing) - _PATHS_SHOWN:,} more"))
    verb = "would restore" if done.dry_run else "restored"
    now = "" if done.dry_run else f", as version {done.version}"
    return [
        *shown,
        Text(
            f"{verb} version {done.restored_version}{now}: {counted(done.files_restored, 'file')} back"
            f" ({human_size(done.bytes_restored)}), {counted(done.files_removed, 'file')} removed"
        ),
    ]


def repair(
    uri: Uri,
    remove: Annotated[
        bool, typer.Option("--remove", help="take the files that are gone out of the table; else only show them")
    ] = False,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="even if no file of the table is left")] = False,
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Show files that are gone, and what is lost with them; with --remove, take them out.

    Without --remove no version is changed. Restore the files from a copy if you can: their rows do not come back. A
    catalog that has forgotten published versions gets them back.
    """
    with opened(uri, storage_options, as_json) as (table, out):
        with out.waiting("looking for files"):
            done = table.repair(remove=remove, allow_empty=allow_empty, user_metadata=user_metadata)
        out.result({"table": table.uri, **done.to_dict()}, *_repaired(done))


def _repaired(done: RepairResult) -> list[RenderableType]:
    shown: list[RenderableType] = [Text(f"version {version}: the catalog has it again") for version in done.offered]
    shown += [Text(f"given up for what is published: {path}") for path in done.given_up]
    shown += [Text(f"missing: {path}") for path in done.files[:_PATHS_SHOWN]]
    if len(done.files) > _PATHS_SHOWN:
        shown.append(Text(f"... and {len(done.files) - _PATHS_SHOWN:,} more"))
    for each in done.partitions[:_PATHS_SHOWN]:
        named = ", ".join(f"{name}={'null' if value is None else value}" for name, value in each.values.items())
        rows = "unknown rows" if each.rows is None else counted(each.rows, "row")
        shown += [Text(f"{named}: {rows}, {counted(each.files, 'file')}")] if named else []
    if not done.files:
        return [*shown, Text(f"all {counted(done.files_checked, 'file')} are there")]
    rows = "an unknown number of rows" if done.rows is None else counted(done.rows, "row")
    size = f"{counted(len(done.files), 'file')} of {done.files_checked:,}, {rows}, {human_size(done.size_bytes)}"
    end = f"took out {size}, as version {done.version}"
    return [*shown, Text(f"--remove would take out {size}" if done.version is None else end)]
