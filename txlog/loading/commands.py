"""The commands of `txlog` that take over data that is already there: clone, convert, copy-into."""

from __future__ import annotations

from typing import Annotated, Any, cast

import typer
from rich.console import RenderableType
from rich.text import Text

import txlog
from txlog.extend.cli import (
    Delimiter,
    Format,
    Json,
    MergeSchema,
    NoHeader,
    NullValues,
    Output,
    Storage,
    Uri,
    UserMetadata,
    opened,
    pairs,
    separator_of,
)
from txlog.result import counted, human_size
from txlog.result.maintenance import CloneResult, ConvertResult, CopyResult

__all__ = ["clone", "convert", "copy_into"]

_FILES_SHOWN = 20


def clone(
    uri: Uri,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="the clone's location", show_default=False)],
    shallow: Annotated[
        bool, typer.Option("--shallow", help="read the table's files instead of copies; see the page about clones")
    ] = False,
    version: Annotated[int | None, typer.Option(min=0, metavar="NUMBER", help="the version to clone")] = None,
    timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="the newest version at this time (ISO 8601, see --time-zone)")
    ] = None,
    mode: Annotated[
        str, typer.Option(metavar="error|ignore|replace", help="what to do if there is a table at TARGET")
    ] = "error",
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="KEY=VALUE", help="a property of the clone; may be repeated"),
    ] = None,
    target_options: Annotated[
        list[str] | None,
        typer.Option("--target-option", metavar="KEY=VALUE", help="a storage option of TARGET, if it has others"),
    ] = None,
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Copy a table, or make one that reads its files.

    `--mode replace` again copies only what is new, and follows what was removed. A run that was killed is continued.
    """
    for_target = pairs(target_options, "--target-option") if target_options else None
    with opened(uri, storage_options, as_json) as (table, out):
        with out.steps() as report:
            done = table.clone(
                target,
                version,
                timestamp,
                shallow=shallow,
                mode=cast(Any, mode),
                properties=pairs(properties, "--property"),
                storage_options=for_target,
                user_metadata=user_metadata,
                on_progress=lambda copied, total: report("copying files", copied, total),
            )
        out.result({"table": table.uri, **done.to_dict()}, Text(_cloned(done)))


def convert(
    uri: Uri,
    partition_by: Annotated[
        str | None,
        typer.Option("--partition-by", metavar="SQL", help="the columns of directories, with types: 'day date, n int'"),
    ] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help="a table property; may be repeated")
    ] = None,
    iceberg_metadata: Annotated[
        str | None,
        typer.Option("--iceberg-metadata", metavar="PATH", help="the current metadata.json of an Iceberg table"),
    ] = None,
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Make a Delta table of the Parquet files in a folder, or of an Iceberg table. No file is rewritten.

    Partition columns come from directories such as day=2026-11-20. A folder that is a table already stays as it is.
    """
    options, table_properties = pairs(storage_options, "--storage-option"), pairs(properties, "--property")
    out = Output(as_json)
    with out.reporting():
        with out.steps() as report:
            done = txlog.Table.convert(
                uri,
                partition_by,
                table_properties,
                iceberg_metadata=iceberg_metadata,
                storage_options=options,
                user_metadata=user_metadata,
                on_progress=lambda read, total: report("reading footers", read, total),
            )
        out.result({"table": done.uri, **done.to_dict()}, Text(_converted(done)))


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
        out.result({"table": table.uri, **done.to_dict()}, *_loaded(done))


def _converted(done: ConvertResult) -> str:
    if done.outcome == "already_a_table":
        return f"{done.uri} is a Delta table already, at version {done.version}: nothing was changed"
    by = f", partitioned by {', '.join(done.partition_columns)}" if done.partition_columns else ""
    return f"{done.uri} is a Delta table: {counted(done.files, 'file')}, {human_size(done.size_bytes)}{by}"


def _cloned(done: CloneResult) -> str:
    if done.outcome == "ignored":
        return f"{done.uri} exists, and stays as it is"
    if done.outcome == "unchanged":
        return f"{done.uri} is at version {done.version}: it is a clone of version {done.source_version} already"
    how = "reads the files of the table" if done.is_shallow else f"{human_size(done.bytes_copied)} copied"
    size = f"{counted(done.files, 'file')}, {human_size(done.size_bytes)}"
    return f"{done.uri} is at version {done.version}: a clone of version {done.source_version}, {size}, {how}"


def _loaded(done: CopyResult) -> list[RenderableType]:
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
