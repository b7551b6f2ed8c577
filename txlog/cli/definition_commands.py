"""The commands of `txlog` that change a table's definition: its properties, columns and description."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from txlog.cli.console import Output
from txlog.cli.opened import opened
from txlog.cli.options import Json, Storage, Uri, UserMetadata, Workers, pairs
from txlog.result import WriteResult
from txlog.table import Table

__all__ = [
    "add_columns",
    "alter_column",
    "drop_columns",
    "drop_feature",
    "rename_column",
    "set_description",
    "set_properties",
    "sync_identity",
]

Column = Annotated[
    str, typer.Argument(metavar="COLUMN", help="a column, or a struct field: place.city", show_default=False)
]


def set_properties(
    uri: Uri,
    properties: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="properties to set: delta.appendOnly=true", show_default=False),
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="KEY", help="a property to remove; may be repeated")
    ] = None,
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Set and remove properties of a table.

    Setting and removing make one version each. `txlog show` lists a table's properties.
    """
    to_set = pairs(properties, "property")
    if not to_set and not unset:
        raise typer.BadParameter("pass KEY=VALUE, such as delta.appendOnly=true, or --unset KEY")
    both = sorted({*to_set} & {*(unset or ())})
    if both:
        raise typer.BadParameter(f"{', '.join(both)} cannot be both set and unset")
    with opened(uri, storage_options, as_json) as (table, out):
        notes = list(table.set_properties(to_set, user_metadata=user_metadata).notes) if to_set else []
        if unset:
            notes += table.unset_properties(unset, user_metadata=user_metadata).notes
        snapshot = table.snapshot()
        found = dict(sorted(snapshot.properties.items()))
        lines = [f"{table.uri} is at version {snapshot.version}, with", *(f"  {key}={found[key]}" for key in found)]
        shown = "\n".join(lines) if found else f"{table.uri} is at version {snapshot.version}, without properties"
        facts = {"table": table.uri, "version": snapshot.version, "properties": found, **_noted(notes)}
        out.result(facts, Text(shown))


def add_columns(
    uri: Uri,
    columns: Annotated[
        str,
        typer.Argument(
            metavar="SQL", help="the columns: 'day date, place struct<country: string>'", show_default=False
        ),
    ],
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Add columns or struct fields. They are null in the rows of the table."""
    with opened(uri, storage_options, as_json) as (table, out):
        result = table.add_columns(columns, user_metadata=user_metadata)
        _show(out, table, result, f"it has {columns}")


def rename_column(
    uri: Uri,
    column: Column,
    name: Annotated[str, typer.Argument(metavar="NAME", help="the new name", show_default=False)],
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Rename a column or a struct field. No file is rewritten.

    The table must map its columns: `txlog set URI delta.columnMapping.mode=name`, which some readers do not know.
    """
    with opened(uri, storage_options, as_json) as (table, out):
        _show(out, table, table.rename_column(column, name, user_metadata=user_metadata), f"{column} is now {name}")


def drop_columns(
    uri: Uri,
    columns: Annotated[
        list[str], typer.Argument(metavar="COLUMN...", help="columns or struct fields", show_default=False)
    ],
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Drop columns or struct fields. No file is rewritten.

    The values stay in the files until `txlog purge` and `txlog vacuum`. The table must map its columns, as for
    `txlog rename-column`.
    """
    with opened(uri, storage_options, as_json) as (table, out):
        result = table.drop_columns(columns, user_metadata=user_metadata)
        _show(out, table, result, f"dropped {', '.join(columns)}")


def alter_column(
    uri: Uri,
    column: Column,
    new_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="a wider type: bigint, double, decimal(20,2)")
    ] = None,
    nullable: Annotated[
        bool | None, typer.Option("--nullable/--not-null", help="whether rows may lack a value; all rows are checked")
    ] = None,
    comment: Annotated[str | None, typer.Option(metavar="TEXT", help="an empty text removes it")] = None,
    default: Annotated[
        str | None, typer.Option(metavar="SQL", help="the value of rows that lack the column; empty for none")
    ] = None,
    first: Annotated[bool, typer.Option("--first", help="make it the first column")] = False,
    after: Annotated[str | None, typer.Option(metavar="COLUMN", help="the column to put it after")] = None,
    workers: Workers = None,
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Change the type, NOT NULL, the comment, the default or the position of a column. No file is rewritten.

    A wider type needs `txlog set URI delta.enableTypeWidening=true`, which some readers do not know.
    """
    with opened(uri, storage_options, as_json, workers) as (table, out):
        result = table.alter_column(
            column,
            type=new_type,
            nullable=nullable,
            comment=comment,
            default=default,
            first=first,
            after=after,
            user_metadata=user_metadata,
        )
        _show(out, table, result, f"{column} is changed")


def drop_feature(
    uri: Uri,
    name: Annotated[str, typer.Argument(metavar="FEATURE", help="such as deletionVectors", show_default=False)],
    truncate_history: Annotated[
        bool, typer.Option("--truncate-history", help="remove the versions that need it; they must be older than a day")
    ] = False,
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Drop a table feature, after removing what the table has of it.

    `txlog show` lists a table's features. Dropping one that readers need protects the older versions, which only
    those who know it can read.
    """
    with opened(uri, storage_options, as_json) as (table, out):
        result = table.drop_feature(name, truncate_history=truncate_history, user_metadata=user_metadata)
        _show(out, table, result, f"it no longer has the feature {name}")


def sync_identity(
    uri: Uri,
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="the identity column", show_default=False)],
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Let an identity column count on from the values that its rows have."""
    with opened(uri, storage_options, as_json) as (table, out):
        result = table.sync_identity(column, user_metadata=user_metadata)
        _show(out, table, result, f"new rows get values of {column} beyond all that it has")


def set_description(
    uri: Uri,
    description: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="an empty text removes it", show_default=False)
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="TEXT", help="the name in the table's metadata")] = None,
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Set the description of a table, or its name."""
    if description is None and name is None:
        raise typer.BadParameter("pass a description or --name")
    with opened(uri, storage_options, as_json) as (table, out):
        result = table.set_description(description, name=name, user_metadata=user_metadata)
        _show(out, table, result, "the description is set")


def constraint(
    uri: Uri,
    name: Annotated[str, typer.Argument(metavar="NAME", help="the constraint", show_default=False)],
    condition: Annotated[
        str | None, typer.Argument(metavar="[SQL]", help="what every row must meet: 'amount > 0'", show_default=False)
    ] = None,
    drop: Annotated[bool, typer.Option("--drop", help="drop the constraint")] = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="with --drop: accept that there is none")] = False,
    user_metadata: UserMetadata = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Add a condition that every row must meet, or drop one. The rows of the table are checked first.

    `txlog show` lists a table's constraints, as properties delta.constraints.NAME.
    """
    if drop == (condition is not None):
        raise typer.BadParameter("pass a condition, such as 'amount > 0', or --drop")
    if if_exists and not drop:
        raise typer.BadParameter("--if-exists needs --drop")
    with opened(uri, storage_options, as_json) as (table, out):
        if condition is None:
            result = table.drop_constraint(name, if_exists=if_exists, user_metadata=user_metadata)
            _show(out, table, result, f"dropped the constraint {name}")
        else:
            result = table.add_constraint(name, condition, user_metadata=user_metadata)
            _show(out, table, result, f"every row must meet {condition}")


def _show(out: Output, table: Table, result: WriteResult, done: str) -> None:
    text = done if result.attempts else "nothing to change"
    facts = {"table": table.uri, "version": result.version, "changed": bool(result.attempts), **_noted(result.notes)}
    out.result(facts, Text(f"{table.uri} is at version {result.version}: {text}"))


def _noted(notes: Sequence[str]) -> dict[str, list[str]]:
    """For JSON; on a terminal the log's warnings say the same."""
    return {"notes": list(notes)} if notes else {}
