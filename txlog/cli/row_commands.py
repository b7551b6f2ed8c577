"""The commands of `txlog` that change a table's rows: delete, update, upsert, merge."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from txlog.cli import show
from txlog.cli.console import Output
from txlog.cli.declared import CommandCall, of_operation
from txlog.cli.options import assignments, pairs
from txlog.result import WriteResult
from txlog.table import Table


@of_operation("delete")
def delete(call: CommandCall) -> None:
    if ("where" in call.given) == call.given["all"]:
        raise typer.BadParameter("give --where, or --all for every row")
    with call.opened() as (table, out):
        _print(table, out, call.done(table, out))


@of_operation("update")
def update(call: CommandCall) -> None:
    with call.opened() as (table, out):
        _print(table, out, call.done(table, out))


@of_operation(
    "upsert",
    "Update the rows whose keys the files have, and insert the others, as one version.",
    from_files=True,
)
def upsert(
    call: CommandCall,
    merge_options: Annotated[
        list[str] | None,
        typer.Option(
            "--merge-option", metavar="KEY=VALUE", help="an engine's option: fields.sold.aggregate-function=sum"
        ),
    ] = None,
) -> None:
    """With --row-kind, the rows can also be deletes. With a merge engine, rows with the same key are merged,
    for example summed.
    """
    given = call.given
    engine, options = given.pop("merge_engine", None), pairs(merge_options, "--merge-option")
    given["merge_engine"] = {**({} if engine is None else {"merge-engine": engine}), **options} or None
    # A value of digits is added as a number too, for files with a numeric column.
    words = given.pop("row_kinds", {})
    given["row_kinds"] = {**words, **{int(word): kind for word, kind in words.items() if word.isdecimal()}} or None
    with call.opened() as (table, out):
        # A merge engine says itself what a null means.
        is_plain = given["merge_engine"] is None and "txlog.merge-engine" not in table.snapshot().properties
        kinds = (given.get("row_kind"), given["row_kinds"]) if is_plain else None
        with call.rows(table, out, keeps_missing=is_plain, replacing=kinds) as rows:
            done = table.upsert(rows, **given)
        _print(table, out, done)


@of_operation(
    "merge",
    "Merge files into a table: update and delete rows that match, and insert the others, as one version.",
    from_files=True,
)
def merge(
    call: CommandCall,
    delete_if: Annotated[
        str | None, typer.Option(metavar="SQL", help="delete matched rows for which this is true, before updates")
    ] = None,
    update_all: Annotated[bool, typer.Option("--update-all", help="replace matched rows by the files' rows")] = False,
    update: Annotated[
        list[str] | None, typer.Option("--update", metavar="COLUMN=SQL", help="set a column of matched rows")
    ] = None,
    update_if: Annotated[str | None, typer.Option(metavar="SQL", help="update only if this is true")] = None,
    insert_all: Annotated[
        bool, typer.Option("--insert-all", help="insert rows that match no row of the table")
    ] = False,
    insert: Annotated[
        list[str] | None, typer.Option("--insert", metavar="COLUMN=SQL", help="insert them with these columns")
    ] = None,
    insert_if: Annotated[str | None, typer.Option(metavar="SQL", help="insert only if this is true")] = None,
    delete_rest: Annotated[
        bool, typer.Option("--delete-rest", help="delete rows of the table that no row of the files matches")
    ] = False,
    delete_rest_if: Annotated[str | None, typer.Option(metavar="SQL", help="delete those only if this is true")] = None,
) -> None:
    """Conditions and values name the table's columns target.COLUMN and the files' columns source.COLUMN."""
    clauses: dict[str, Any] = {
        "when_matched_delete": () if delete_if is None else (delete_if,),
        **_clause("update", "when_matched_update", update_all, update, update_if),
        **_clause("insert", "when_not_matched_insert", insert_all, insert, insert_if),
        "when_not_matched_by_source_delete": (delete_rest_if,) if delete_rest or delete_rest_if else (),
    }
    if not any(clauses.values()):
        raise typer.BadParameter("pass a clause, such as --update-all and --insert-all")
    with call.opened() as (table, out):
        with call.rows(table, out, keeps_missing=True) as rows:
            builder = table.merge(rows, **call.given)
            for name, arguments in clauses.items():
                builder = getattr(builder, name)(*arguments) if arguments else builder
            done = builder.execute()
        _print(table, out, done)


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
    assigned = assignments(values, f"--{option}")
    return {name: (assigned, condition) if assigned else ()}


def _print(table: Table, out: Output, result: WriteResult) -> None:
    out.result(show.write_facts(table.uri, result), show.rows_shown(table.uri, result))
