"""The commands of `txlog` that write rows from files: append, overwrite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer

import txlog
from txlog.cli import show
from txlog.cli.console import Output
from txlog.cli.file_rows import FileRows, opens_files
from txlog.cli.opened import open_table
from txlog.cli.options import (
    AppId,
    CheckpointId,
    ClusterBy,
    Json,
    ParquetSettings,
    PartitionBy,
    Storage,
    Uri,
    UserMetadata,
    commit_arguments,
    names,
    pairs,
    time_zone,
)
from txlog.core.writing.generated_columns import computed_names

__all__ = ["append", "check_format", "data_for", "overwrite"]

Format = Annotated[
    str | None, typer.Option("--format", metavar="parquet|csv|json", help="the format of files without a known suffix")
]
NullValues = Annotated[
    list[str] | None,
    typer.Option(
        "--null",
        metavar="TEXT",
        help="a string that means null in CSV, like an empty field (in a file of one column, an empty line)",
    ),
]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", metavar="CHARACTER", help="separates CSV values: ';', '|', 'tab'")
]
NoHeader = Annotated[bool, typer.Option("--no-header", help="CSV has no header; its columns are the table's, in order")]
Files = Annotated[
    list[Path],
    typer.Argument(
        exists=True,
        dir_okay=False,
        readable=True,
        show_default=False,
        metavar="FILES",
        help="the rows: .parquet, .csv, .tsv, .json, .jsonl, .ndjson; text also as .gz, .bz2, .zst",
    ),
]
MergeSchema = Annotated[bool, typer.Option("--merge-schema", help="add columns that the table lacks")]


def append(
    uri: Uri,
    files: Files,
    file_format: Format = None,
    null_values: NullValues = None,
    delimiter: Delimiter = None,
    no_header: NoHeader = False,
    create_table: Annotated[bool, typer.Option("--create", help="create the table from the files if absent")] = False,
    partition_by: PartitionBy = None,
    cluster_by: ClusterBy = None,
    merge_schema: MergeSchema = False,
    parquet: ParquetSettings = None,
    app_id: AppId = None,
    checkpoint_id: CheckpointId = None,
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Append Parquet, CSV or JSON files as one version.

    JSON files have one object per line.
    """
    check_format(file_format)
    commit = commit_arguments(app_id, checkpoint_id, user_metadata)
    if (partition_by or cluster_by) and not create_table:
        raise typer.BadParameter(f"{'--partition-by' if partition_by else '--cluster-by'} needs --create")
    options = pairs(storage_options, "--storage-option")
    out = Output(as_json)
    with out.reporting():
        from txlog.core.catalogs import open_place

        existing = not create_table or txlog.Table.exists(uri, storage_options=options)
        table = open_table(uri, options) if existing else None
        data = data_for(table, files, file_format, (null_values, delimiter, no_header))
        if table is None:
            data.require_types()
        arguments = {**_file_arguments(parquet, merge_schema=merge_schema), **commit}
        layout = {"partition_by": names(partition_by) or None, "cluster_by": cluster_by}
        result = _append(out, uri, table, data, layout, options, arguments)
        located = open_place(uri, options).uri if table is None else table.uri
        out.result({"table": located, **result.to_dict()}, show.append_shown(located, result))


def overwrite(
    uri: Uri,
    files: Files,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="replace only these rows; the files must not have others")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only show what would be replaced")] = False,
    file_format: Format = None,
    null_values: NullValues = None,
    delimiter: Delimiter = None,
    no_header: NoHeader = False,
    merge_schema: MergeSchema = False,
    parquet: ParquetSettings = None,
    mode: Annotated[
        str | None,
        typer.Option(metavar="merge-on-read|copy-on-write", help="how to remove rows from files that keep other rows"),
    ] = None,
    on_conflict: Annotated[
        str, typer.Option(metavar="fail|rerun", help="if others commit first: rerun replaces what they wrote too")
    ] = "fail",
    read_version: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", min=0, help="the version that the rows come from; later changes conflict"),
    ] = None,
    app_id: AppId = None,
    checkpoint_id: CheckpointId = None,
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Replace all rows of a table, or those that match --where, by rows from files, as one version."""
    check_format(file_format)
    commit = commit_arguments(app_id, checkpoint_id, user_metadata, on_conflict, read_version)
    out = Output(as_json)
    with out.reporting():
        table = open_table(uri, pairs(storage_options, "--storage-option"))
        data = data_for(table, files, file_format, (null_values, delimiter, no_header))
        arguments = {"where": where, **_file_arguments(parquet, merge_schema=merge_schema)}
        with out.progress("reading", data.size_bytes, in_bytes=True) as advance:
            result = table.overwrite(data.reader(advance), mode=cast(Any, mode), dry_run=dry_run, **arguments, **commit)
        out.result(show.write_facts(table.uri, result, replaces=True), show.overwrite_shown(table.uri, result))


# --- from arguments to values ---------------------------------------------------------------------------------------


def _file_arguments(parquet: list[str] | None, *, merge_schema: bool) -> dict[str, Any]:
    return {"schema_mode": "merge" if merge_schema else "strict", "parquet": pairs(parquet, "--parquet")}


def check_format(file_format: str | None) -> None:
    if file_format not in (None, "parquet", "csv", "json"):
        raise typer.BadParameter(f"Invalid --format {file_format!r}: expected 'parquet', 'csv' or 'json'")


def data_for(
    table: txlog.Table | None,
    files: Sequence[Path],
    file_format: str | None,
    text: tuple[list[str] | None, str | None, bool],
    *,
    keeps_missing: bool = False,
) -> FileRows:
    """The files as rows for a table. ``text`` is --null-value, --delimiter and --no-header.

    With ``keeps_missing``, rows that are there already keep what the files lack.
    """
    null_values, delimiter, no_header = text
    mark = separator_of(delimiter)
    if no_header and table is None:
        raise txlog.InvalidInputError(
            "--no-header: the columns of a new table would have no names; create the table first with txlog create"
        )
    types = _column_types(table)
    optional = frozenset(types)
    if not keeps_missing and table is not None:
        optional = computed_names(table.snapshot().delta_schema)
    return opens_files()(
        files,
        file_format,
        column_types=types,
        null_values=("", *(null_values or ())),
        delimiter=mark,
        has_header=not no_header,
        optional=optional,
    )


def separator_of(delimiter: str | None) -> str | None:
    mark = {"tab": "\t", "\\t": "\t"}.get(delimiter or "", delimiter)
    if mark is not None and len(mark) != 1:
        raise typer.BadParameter(f"Invalid --delimiter {delimiter!r}: expected one character, or tab")
    return mark


def _column_types(table: txlog.Table | None) -> dict[str, Any]:
    return {} if table is None else {member.name: member.type for member in table.snapshot().schema}


def _append(
    out: Output,
    uri: str,
    table: txlog.Table | None,
    data: FileRows,
    layout: dict[str, Any],
    storage_options: dict[str, str],
    arguments: dict[str, Any],
) -> txlog.WriteResult:
    with out.progress("reading", data.size_bytes, in_bytes=True) as advance:
        reader = data.reader(advance)
        if table is not None and not any(layout.values()):
            return table.append(reader, **arguments)
        return txlog.write(
            uri, reader, storage_options=storage_options, time_zone=time_zone.get(), **layout, **arguments
        )
