"""The commands of `txlog` that write rows from files: append, overwrite."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import txlog
from txlog.cli import show
from txlog.cli.console import Output
from txlog.cli.declared import CommandCall, of_operation
from txlog.cli.opened import open_table
from txlog.cli.options import ClusterBy, PartitionBy, names, time_zone


@of_operation("append", "Append Parquet, CSV or JSON files as one version.", from_files=True)
def append(
    call: CommandCall,
    create_table: Annotated[bool, typer.Option("--create", help="create the table from the files if absent")] = False,
    partition_by: PartitionBy = None,
    cluster_by: ClusterBy = None,
) -> None:
    """JSON files have one object per line."""
    if (partition_by or cluster_by) and not create_table:
        raise typer.BadParameter(f"{'--partition-by' if partition_by else '--cluster-by'} needs --create")
    uri, options, out = call.uri, call.storage_options, Output(call.as_json)
    with out.reporting():
        from txlog.core.catalogs import open_place

        existing = not create_table or txlog.Table.exists(uri, storage_options=options)
        table = open_table(uri, options) if existing else None
        layout: dict[str, Any] = {"partition_by": names(partition_by) or None, "cluster_by": cluster_by}
        with call.rows(table, out) as rows:
            if table is not None and not any(layout.values()):
                result = table.append(rows, **call.given)
            else:
                at: Any = {"storage_options": options, "time_zone": time_zone.get(), **layout}
                result = txlog.write(uri, rows, **at, **call.given)
        located = open_place(uri, options).uri if table is None else table.uri
        out.result({"table": located, **result.to_dict()}, show.append_shown(located, result))


@of_operation(
    "overwrite",
    "Replace all rows of a table, or those that match --where, by rows from files, as one version.",
    from_files=True,
)
def overwrite(call: CommandCall) -> None:
    _replace(call)


@of_operation(
    "overwrite_partitions", "Replace the partitions that have rows in the files, as one version.", from_files=True
)
def overwrite_partitions(call: CommandCall) -> None:
    _replace(call)


def _replace(call: CommandCall) -> None:
    with call.opened() as (table, out):
        with call.rows(table, out) as rows:
            done = getattr(table, call.operation.name)(rows, **call.given)
        out.result(show.write_facts(table.uri, done, replaces=True), show.overwrite_shown(table.uri, done))
