"""The command of `txlog` that merges files into a table by a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from txlog.cli import show
from txlog.cli.opened import opened
from txlog.cli.options import AppId, CheckpointId, Json, Storage, Uri, UserMetadata, Workers, commit_arguments
from txlog.cli.row_commands import DryRun, assignments
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

if TYPE_CHECKING:
    from txlog.core.changes.plan import MergeBuilder
    from txlog.result import WriteResult

__all__ = ["merge"]


def merge(
    uri: Uri,
    files: Files,
    on: Annotated[
        str, typer.Option("--on", metavar="SQL", help="which rows match: 'target.id = source.id'", show_default=False)
    ],
    delete_if: Annotated[
        str | None, typer.Option(metavar="SQL", help="delete matched rows for which this is true, before updates")
    ] = None,
    update_all: Annotated[bool, typer.Option("--update-all", help="matched rows become the files' rows")] = False,
    update: Annotated[
        list[str] | None, typer.Option("--update", metavar="COLUMN=SQL", help="set a column of matched rows")
    ] = None,
    update_if: Annotated[str | None, typer.Option(metavar="SQL", help="update only if this is true")] = None,
    insert_all: Annotated[bool, typer.Option("--insert-all", help="insert rows that match none")] = False,
    insert: Annotated[
        list[str] | None, typer.Option("--insert", metavar="COLUMN=SQL", help="insert them with these columns")
    ] = None,
    insert_if: Annotated[str | None, typer.Option(metavar="SQL", help="insert only if this is true")] = None,
    delete_rest: Annotated[
        bool, typer.Option("--delete-rest", help="delete rows of the table that no row of the files matches")
    ] = False,
    delete_rest_if: Annotated[str | None, typer.Option(metavar="SQL", help="only those for which this is true")] = None,
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
    """Merge files into a table: update and delete rows that match, and insert the others, as one version.

    Conditions and values name the table's columns target.COLUMN and the files' columns source.COLUMN.
    """
    check_format(file_format)
    commit = commit_arguments(app_id, checkpoint_id, user_metadata)
    how: dict[str, Any] = {"schema_mode": "merge" if merge_schema else "strict", "dry_run": dry_run, **commit}
    clauses: dict[str, Any] = {
        "when_matched_delete": () if delete_if is None else (delete_if,),
        **_clause("update", "when_matched_update", update_all, update, update_if),
        **_clause("insert", "when_not_matched_insert", insert_all, insert, insert_if),
        "when_not_matched_by_source_delete": (delete_rest_if,) if delete_rest or delete_rest_if else (),
    }
    if not any(clauses.values()):
        raise typer.BadParameter("pass a clause, such as --update-all and --insert-all")
    with opened(uri, storage_options, as_json, workers) as (table, out):
        data = data_for(table, files, file_format, (null_values, delimiter, no_header), keeps_missing=True)
        with out.progress("reading", data.size_bytes, in_bytes=True) as advance:
            builder: MergeBuilder[WriteResult] = table.merge(data.reader(advance), on, **how)
            for name, arguments in clauses.items():
                builder = getattr(builder, name)(*arguments) if arguments else builder
            result = builder.execute()
        out.result(show.write_facts(table.uri, result), show.rows_shown(table.uri, result))


def _clause(
    option: str, name: str, is_all: bool, values: list[str] | None, condition: str | None
) -> dict[str, tuple[Any, ...]]:
    """The builder's method, and its arguments."""
    if is_all and values:
        raise typer.BadParameter(f"pass --{option}-all or --{option}, not both")
    if condition is not None and not (is_all or values):
        raise typer.BadParameter(f"--{option}-if needs --{option}-all or --{option}")
    if is_all:
        return {f"{name}_all": (condition,)}
    assigned = assignments(values or (), f"--{option}")
    return {name: (assigned, condition) if assigned else ()}
