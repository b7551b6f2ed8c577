"""The commands of `txlog`: their arguments, the one library call that each makes, and how they show its result."""

from __future__ import annotations

from typing import Annotated

import typer

import txlog
from txlog.cli import (
    definition_commands,
    log_commands,
    maintain_commands,
    read_commands,
    restore_commands,
    rewrite_commands,
    row_commands,
    show,
    sink_commands,
    tag_commands,
    vacuum_commands,
    write_commands,
)
from txlog.cli.console import FAILED, Output
from txlog.cli.files_summary import summary_facts, summary_shown
from txlog.cli.opened import opened_at
from txlog.cli.options import (
    Json,
    Parameters,
    Storage,
    Timestamp,
    Uri,
    Version,
    pairs,
    time_zone,
)
from txlog.cli.usage import CommandGroup
from txlog.cli.wording import of_environment
from txlog.core.operations import operation
from txlog.core.util import UTC
from txlog.extend import open_table_of

app = typer.Typer(
    name="txlog",
    cls=CommandGroup,
    help="Delta tables from a terminal: every write is atomic, conflict-checked and durable when it returns.",
    no_args_is_help=True,
    suggest_commands=False,  # which knows no commands of packages: `CommandGroup` suggests
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Properties = Annotated[
    list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help="a table property; may be repeated")
]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"txlog {txlog.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="show the version")
    ] = False,
    zone: Annotated[
        str,
        typer.Option(
            "--time-zone",
            envvar="TXLOG_TIME_ZONE",
            metavar="ZONE",
            help="the time zone of times that have none, such as Europe/Berlin or +02:00; before or after the command",
        ),
    ] = UTC,
) -> None:
    time_zone.set(zone)
    source = context.get_parameter_source("zone")
    is_of_environment = source is not None and source.name == "ENVIRONMENT"
    of_environment.set(frozenset({"time_zone"} if is_of_environment else ()))


app.command("create")(definition_commands.create)
app.command("set")(definition_commands.set_properties)
app.command("add-columns")(definition_commands.add_columns)
app.command("rename-column")(definition_commands.rename_column)
app.command("drop-columns")(definition_commands.drop_columns)
app.command("alter-column")(definition_commands.alter_column)
app.command("drop-feature")(definition_commands.drop_feature)
app.command("sync-identity")(definition_commands.sync_identity)
app.command("set-description")(definition_commands.set_description)
app.command("constraint")(definition_commands.constraint)
app.command("append")(write_commands.append)
app.command("overwrite")(write_commands.overwrite)
app.command("overwrite-partitions")(write_commands.overwrite_partitions)
app.command("delete")(row_commands.delete)
app.command("update")(row_commands.update)
app.command("upsert")(row_commands.upsert)
app.command("merge")(row_commands.merge)


app.command("head")(read_commands.head)
app.command("count")(read_commands.count)


@app.command("show")
def show_table(
    uri: Uri,
    version: Version = None,
    timestamp: Timestamp = None,
    files_summary: Annotated[
        bool, typer.Option("--files-summary", help="sizes, partitions, small files and removed files, not the columns")
    ] = False,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Show schema, partitioning, size, protocol, properties."""
    with opened_at(uri, version, timestamp, storage_options, as_json) as (table, snapshot, out):
        if files_summary:
            with out.waiting("counting files"):
                summary = operation("files_summary")(open_table_of(table), version=snapshot.version)
            out.result(summary_facts(table.uri, summary), *summary_shown(table.uri, summary))
            return
        with out.waiting("counting rows"):
            facts = show.snapshot_facts(table.uri, snapshot)
            facts["iceberg"] = show.iceberg_facts(table, snapshot.version)
        out.result(facts, *show.snapshot_shown(facts))


app.command("history")(read_commands.history)


@app.command()
def files(
    uri: Uri,
    where: Annotated[str | None, typer.Option(metavar="SQL", help="only files that may hold a matching row")] = None,
    parameters: Parameters = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, metavar="NUMBER", help="only the first")] = None,
    statistics: Annotated[
        bool,
        typer.Option("--statistics", help="also the least and the greatest value of each column, and how many nulls"),
    ] = False,
    version: Version = None,
    timestamp: Timestamp = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """List the data files of a version."""
    with opened_at(uri, version, timestamp, storage_options, as_json) as (table, snapshot, out):
        with out.waiting("listing files"):
            given = pairs(parameters, "--param") or None
            found = snapshot.files(where, parameters=given)
            facts = show.file_facts(table.uri, found.slice(0, limit))
            if statistics:
                typed = snapshot.files(where, parameters=given, statistics=True)
                show.add_statistics(facts, typed.slice(0, limit))
        out.result(facts, *show.files_shown(facts, found.num_rows), is_folded=False)


@app.command("probe-store")
def probe_store(
    uri: Uri,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Test whether a store is safe for concurrent writers.

    Runs conditional puts against each other. Exit code 1 if the store is not safe.
    """
    options = pairs(storage_options, "--storage-option")
    out = Output(as_json)
    with out.reporting():
        report = txlog.probe_store(uri, options)
        out.result(show.probe_facts(report), *show.probe_shown(report))
        if not report.is_safe:
            raise typer.Exit(FAILED)


app.command("changes")(read_commands.changes)
app.command("checkpoint")(log_commands.checkpoint)
app.command("compact-log")(log_commands.compact_log)
app.command("clean-up-log")(log_commands.clean_up_log)
app.command("maintain")(maintain_commands.maintain)
app.command("generate")(log_commands.generate)
app.command("optimize")(rewrite_commands.optimize)
app.command("purge")(rewrite_commands.purge)
app.command("restore")(restore_commands.restore)
app.command("repair")(restore_commands.repair)
app.command("tag")(tag_commands.tag)
app.command("tags")(tag_commands.tags)
app.command("untag")(tag_commands.untag)
app.command("vacuum")(vacuum_commands.vacuum)
app.command("sinks")(sink_commands.sinks)
app.command("staging")(sink_commands.staging)
app.command("abandon")(sink_commands.abandon)


# --- from arguments to values ---------------------------------------------------------------------------------------
