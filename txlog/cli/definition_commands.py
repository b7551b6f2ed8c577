"""The commands of `txlog` that change a table's definition: its properties, columns and description."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from txlog.cli import show
from txlog.cli.console import Output
from txlog.cli.declared import CommandCall, of_operation
from txlog.cli.file_rows import opens_files
from txlog.cli.options import read_schema, schema_file, time_zone
from txlog.errors import InvalidInputError
from txlog.result import WriteResult
from txlog.table import Table


@of_operation("create", optional=("schema",))
def create(
    call: CommandCall,
    like: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, metavar="FILE", help="a Parquet, CSV or JSON file with the same columns"
        ),
    ] = None,
    schema_in_json: Annotated[
        str | None, typer.Option("--schema", metavar="FILE", help="a file with a Delta (or Spark) schema in JSON")
    ] = None,
) -> None:
    columns = call.given.pop("schema", None)
    if sum(source is not None for source in (columns, like, schema_in_json)) != 1:
        raise typer.BadParameter("pass exactly one of --columns, --like and --schema")
    schema_path = None if schema_in_json is None else schema_file(schema_in_json)
    out = Output(call.as_json)
    with out.reporting():
        table = Table.create(
            call.uri,
            _schema(columns, like, schema_path),
            storage_options=call.storage_options,
            time_zone=time_zone.get(),
            **call.given,
        )
        facts = show.snapshot_facts(table.uri, table.snapshot())
        out.result(facts, *show.snapshot_shown(facts))


@of_operation("set_properties", "Set and remove properties of a table.")
def set_properties(
    call: CommandCall,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="KEY", help="a property to remove; may be repeated")
    ] = None,
) -> None:
    """If you both set and remove properties, that makes two versions. `txlog show` lists a table's properties."""
    note, to_set = call.given.get("user_metadata"), call.given.get("properties", {})
    if not to_set and not unset:
        raise typer.BadParameter("pass KEY=VALUE, such as delta.appendOnly=true, or --unset KEY")
    both = sorted({*to_set} & {*(unset or ())})
    if both:
        raise typer.BadParameter(f"{', '.join(both)} cannot be both set and unset")
    with call.opened() as (table, out):
        _require_set(table, unset or ())  # before anything is set
        notes = list(table.set_properties(to_set, user_metadata=note).notes) if to_set else []
        if unset:
            notes += table.unset_properties(unset, user_metadata=note).notes
        snapshot = table.snapshot()
        found = dict(sorted(snapshot.properties.items()))
        lines = [f"{table.uri} is at version {snapshot.version}, with", *(f"  {key}={found[key]}" for key in found)]
        shown = "\n".join(lines) if found else f"{table.uri} is at version {snapshot.version}, without properties"
        facts = {"table": table.uri, "version": snapshot.version, "properties": found, **_noted(notes)}
        out.result(facts, Text(shown))


def _require_set(table: Table, keys: Sequence[str]) -> None:
    there = table.snapshot().properties if keys else {}
    if missing := [key for key in keys if key not in there]:
        known = ", ".join(sorted(there)) or "none"
        raise InvalidInputError(f"property {missing[0]!r} is not set; the table has: {known}", table=table.uri)


@of_operation("add_columns")
def add_columns(call: CommandCall) -> None:
    _change(call, f"it has {call.given['schema']}")


@of_operation("rename_column")
def rename_column(call: CommandCall) -> None:
    """The table must map its columns: `txlog set URI delta.columnMapping.mode=name`, which some readers do not know."""
    _change(call, f"{call.given['column']} is now {call.given['name']}")


@of_operation("drop_columns")
def drop_columns(call: CommandCall) -> None:
    """The values stay in the files until `txlog purge` and `txlog vacuum`. The table must map its columns, as for
    `txlog rename-column`.
    """
    _change(call, f"dropped {', '.join(call.given['columns'])}")


@of_operation("alter_column")
def alter_column(call: CommandCall) -> None:
    """A wider type needs `txlog set URI delta.enableTypeWidening=true`, which some readers do not know."""
    _change(call, f"{call.given['column']} is changed")


@of_operation("drop_feature")
def drop_feature(call: CommandCall) -> None:
    """`txlog show` lists a table's features. If readers need the feature, they
    still need it for older versions.
    """
    _change(call, f"it no longer has the feature {call.given['name']}")


@of_operation("sync_identity")
def sync_identity(call: CommandCall) -> None:
    _change(call, f"new rows get values of {call.given['column']} beyond all that it has")


@of_operation("set_description")
def set_description(call: CommandCall) -> None:
    if not {"description", "name"} & call.given.keys():
        raise typer.BadParameter("pass a description or --name")
    _change(call, "the description is set")


@of_operation(
    "add_constraint",
    "Add a condition that every row must meet, or drop one. The rows of the table are checked first.",
)
def constraint(
    call: CommandCall,
    drop: Annotated[bool, typer.Option("--drop", help="drop the constraint")] = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="with --drop: accept that there is none")] = False,
) -> None:
    """`txlog show` lists a table's constraints, as properties delta.constraints.NAME."""
    condition = call.given.get("condition")
    if drop == (condition is not None):
        raise typer.BadParameter("pass a condition, such as 'amount > 0', or --drop")
    if if_exists and not drop:
        raise typer.BadParameter("--if-exists needs --drop")
    if condition is not None:
        _change(call, f"every row must meet {condition}")
        return
    with call.opened() as (table, out):
        result = table.drop_constraint(**call.given, if_exists=if_exists)
        _show(out, table, result, f"dropped the constraint {call.given['name']}")


def _change(call: CommandCall, text: str) -> None:
    with call.opened() as (table, out):
        _show(out, table, call.done(table, out), text)


def _show(out: Output, table: Table, result: WriteResult, done: str) -> None:
    text = done if result.attempts else "nothing to change"
    facts = {"table": table.uri, "version": result.version, "changed": bool(result.attempts), **_noted(result.notes)}
    out.result(facts, Text(f"{table.uri} is at version {result.version}: {text}"))


def _noted(notes: Sequence[str]) -> dict[str, list[str]]:
    """For JSON; on a terminal the log's warnings say the same."""
    return {"notes": list(notes)} if notes else {}


def _schema(columns: str | None, like: Path | None, schema: Path | None) -> Any:
    if columns is not None:
        return columns
    if like is not None:
        files = opens_files()([like])
        files.require_types()
        return files.schema
    assert schema is not None
    return read_schema(schema)
