"""The commands of `txlog` that change a table's rows: delete, update, upsert."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import typer

import txlog
from txlog.cli import show
from txlog.cli.console import Output
from txlog.cli.opened import opened
from txlog.cli.options import AppId, CheckpointId, Json, Storage, Uri, UserMetadata, Workers, commit_arguments, pairs
from txlog.cli.write_commands import (
    Delimiter,
    Files,
    Format,
    MergeSchema,
    NoHeader,
    NullValues,
    check_format,
    data_for,
)

__all__ = ["assignments", "delete", "update", "upsert"]

_LOOKING = "looking into files"

DryRun = Annotated[bool, typer.Option("--dry-run", help="show how many rows and files would change, and write nothing")]
RowKind = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="the kind of each row: +I, -U, +U, -D, or c, r, u, d")
]
RowKinds = Annotated[
    list[str] | None, typer.Option("--row-kinds", metavar="WORD=KIND", help="the kind for another value: gone=-D")
]
MergeEngine = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="how to merge rows with one key: deduplicate, aggregation, partial-update, first-row, or an installed"
        " package's engine; default: the table's",
    ),
]
MergeOptions = Annotated[
    list[str] | None,
    typer.Option("--merge-option", metavar="KEY=VALUE", help="an engine's option: fields.sold.aggregate-function=sum"),
]


def delete(
    uri: Uri,
    where: Annotated[str | None, typer.Option(metavar="SQL", help="the rows to delete")] = None,
    all_rows: Annotated[bool, typer.Option("--all", help="delete every row, instead of --where")] = False,
    dry_run: DryRun = False,
    app_id: AppId = None,
    checkpoint_id: CheckpointId = None,
    workers: Workers = None,
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Delete the rows for which a condition is true, as one version."""
    commit = commit_arguments(app_id, checkpoint_id, user_metadata)
    if (where is None) != all_rows:
        raise typer.BadParameter("give --where, or --all for every row")
    with opened(uri, storage_options, as_json, workers) as (table, out):
        with out.steps() as report:
            found = table.delete(where, all=all_rows, **commit, dry_run=dry_run, on_progress=partial(report, _LOOKING))
        _result(out, table, found)


def update(
    uri: Uri,
    values: Annotated[
        list[str],
        typer.Option("--set", metavar="COLUMN=SQL", help="a column's new value: 'n=n + 1'; quote strings"),
    ],
    where: Annotated[str | None, typer.Option(metavar="SQL", help="the rows to change; default: all")] = None,
    dry_run: DryRun = False,
    app_id: AppId = None,
    checkpoint_id: CheckpointId = None,
    workers: Workers = None,
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Set columns of the rows for which a condition is true, as one version."""
    commit = commit_arguments(app_id, checkpoint_id, user_metadata)
    assigned = assignments(values, "--set")
    with opened(uri, storage_options, as_json, workers) as (table, out):
        with out.steps() as report:
            found = table.update(assigned, where, **commit, dry_run=dry_run, on_progress=partial(report, _LOOKING))
        _result(out, table, found)


def assignments(given: Sequence[str], option: str) -> dict[str, object]:
    """``n = n + 1``, as SQL writes it, or ``n=n + 1``: the columns and their new values."""
    split = [each.partition("=") for each in given]
    texts = pairs([f"{column.strip()}{equals}{value}" for column, equals, value in split], option, "COLUMN=SQL")
    return {column: txlog.expr(text) for column, text in texts.items()}


def upsert(
    uri: Uri,
    files: Files,
    keys: Annotated[list[str], typer.Option("--key", metavar="COLUMN", help="a column of the key; may be repeated")],
    when_matched: Annotated[str, typer.Option(metavar="update|ignore", help="known keys")] = "update",
    when_not_matched: Annotated[str, typer.Option(metavar="insert|ignore", help="new keys")] = "insert",
    missing_columns: Annotated[str, typer.Option(metavar="error|default", help="columns not in the files")] = "error",
    on_duplicate: Annotated[str, typer.Option(metavar="error|last|first", help="for repeated keys")] = "error",
    sequence_by: Annotated[str | None, typer.Option(metavar="COLUMN", help="its greatest value comes last")] = None,
    row_kind: RowKind = None,
    row_kinds: RowKinds = None,
    merge_engine: MergeEngine = None,
    merge_options: MergeOptions = None,
    dry_run: DryRun = False,
    file_format: Format = None,
    null_values: NullValues = None,
    delimiter: Delimiter = None,
    no_header: NoHeader = False,
    merge_schema: MergeSchema = False,
    app_id: AppId = None,
    checkpoint_id: CheckpointId = None,
    workers: Workers = None,
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Update the rows whose keys the files have, and insert the others, as one version.

    With --row-kind, rows may be deleted too. With a merge engine, rows with one key are merged, for example summed.
    """
    check_format(file_format)
    commit = commit_arguments(app_id, checkpoint_id, user_metadata)
    how: dict[str, Any] = {
        "when_matched": when_matched,
        "when_not_matched": when_not_matched,
        "missing_columns": missing_columns,
        "on_duplicate": on_duplicate,
        "sequence_by": sequence_by,
        "schema_mode": "merge" if merge_schema else "strict",
        "row_kind": row_kind,
        "row_kinds": _words(pairs(row_kinds, "--row-kinds", "WORD=KIND")) or None,
        "merge_engine": _merge_engine(merge_engine, pairs(merge_options, "--merge-option")),
    }
    with opened(uri, storage_options, as_json, workers) as (table, out):
        # A merge engine says itself what a null means.
        keeps_missing = how["merge_engine"] is None and "txlog.merge-engine" not in table.snapshot().properties
        data = data_for(table, files, file_format, (null_values, delimiter, no_header), keeps_missing=keeps_missing)
        with out.progress("reading", data.size_bytes, in_bytes=True) as advance:
            done = table.upsert(data.reader(advance), keys, **how, **commit, dry_run=dry_run)
        _result(out, table, done)


def _words(given: dict[str, str]) -> dict[Any, str]:
    """Row kinds by value. A value of digits is added as a number too, for files with a numeric column."""
    return {**given, **{int(word): kind for word, kind in given.items() if word.isdecimal()}}


def _merge_engine(engine: str | None, options: dict[str, str]) -> dict[str, str] | None:
    if engine is not None:
        options = {"merge-engine": engine, **options}
    return options or None


def _result(out: Output, table: txlog.Table, result: txlog.WriteResult) -> None:
    out.result(show.write_facts(table.uri, result), show.rows_shown(table.uri, result))
