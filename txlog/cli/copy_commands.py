"""The command of `txlog` that loads the new files of a folder."""

from __future__ import annotations

from typing import Annotated, Any, cast

import typer
from rich.console import RenderableType
from rich.text import Text

from txlog.cli.opened import opened
from txlog.cli.options import Json, Storage, Uri, UserMetadata, pairs
from txlog.cli.write_commands import Delimiter, Format, MergeSchema, NoHeader, NullValues, separator_of
from txlog.result import counted, human_size
from txlog.result.maintenance import CopyResult

__all__ = ["copy_into"]

_FILES_SHOWN = 20


def copy_into(
    uri: Uri,
    source: Annotated[str, typer.Argument(metavar="FOLDER", help="the folder with the files", show_default=False)],
    file_format: Format = None,
    pattern: Annotated[str | None, typer.Option(metavar="GLOB", help="only these files: '2026-*/*.csv'")] = None,
    merge_schema: MergeSchema = False,
    delimiter: Delimiter = None,
    no_header: NoHeader = False,
    null_values: NullValues = None,
    force: Annotated[bool, typer.Option("--force", help="load files that were loaded before, too")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only show what would be loaded")] = False,
    source_options: Annotated[
        list[str] | None,
        typer.Option("--source-option", metavar="KEY=VALUE", help="a storage option of FOLDER, if it has others"),
    ] = None,
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Load the files of a folder that were not loaded before.

    The table notes which files it has, so each is loaded once, however often this runs, also in several processes.
    """
    for_source = pairs(source_options, "--source-option") if source_options else None
    with opened(uri, storage_options, as_json) as (table, out):
        with out.steps() as report:
            done = table.copy_into(
                source,
                cast(Any, file_format),
                pattern,
                schema_mode="merge" if merge_schema else "strict",
                delimiter=separator_of(delimiter),
                header=not no_header,
                null_values=null_values or (),
                force=force,
                dry_run=dry_run,
                storage_options=for_source,
                user_metadata=user_metadata,
                on_progress=lambda read, total: report("reading bytes", read, total),
            )
        out.result({"table": table.uri, **done.to_dict()}, *_shown(done))


def _shown(done: CopyResult) -> list[RenderableType]:
    if not done.files:
        return [Text(f"nothing to load: {counted(done.files_skipped, 'file')} loaded before")]
    lines: list[RenderableType] = [Text(name) for name in done.files[:_FILES_SHOWN]]
    if len(done.files) > _FILES_SHOWN:
        lines.append(Text(f"... and {len(done.files) - _FILES_SHOWN:,} more"))
    size = f"{counted(len(done.files), 'file')}, {human_size(done.size_bytes)}"
    before = f"; {done.files_skipped:,} loaded before" if done.files_skipped else ""
    if done.dry_run:
        return [*lines, Text(f"would load {size}{before}")]
    return [*lines, Text(f"loaded {size}, {counted(done.rows, 'row')}, as version {done.version}{before}")]
