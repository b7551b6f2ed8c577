"""The commands of `txlog` that write metadata for Iceberg readers, with the facts about its lag, and manifests."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from msgspec.structs import asdict
from rich.text import Text

import txlog
from txlog.cli.opened import opened
from txlog.cli.options import Json, Storage, Uri
from txlog.core.operations import OPERATIONS
from txlog.errors import TxlogError
from txlog.result import counted

__all__ = ["generate", "iceberg", "iceberg_facts", "iceberg_shown"]


def iceberg(
    uri: Uri,
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", help="export the newest version in full, replacing existing Iceberg metadata"),
    ] = False,
    register: Annotated[
        str | None,
        typer.Option(
            metavar="CATALOG.NAMESPACE.TABLE",
            help="create or update this entry in an Iceberg catalog (see PyIceberg); later exports update it",
        ),
    ] = None,
    storage_options: Storage = None,
    as_json: Json = False,
) -> None:
    """Export the newest version for Iceberg readers.

    Writes Iceberg metadata next to the log, for the same data files. With the table property txlog.iceberg = v2 (or v3)
    every commit does this automatically.
    """
    with opened(uri, storage_options, as_json) as (table, out):
        with out.waiting("exporting"):
            done = table.export_iceberg(rebuild=rebuild, register=register)
        facts = {
            "table": table.uri,
            "version": done.version,
            "metadata_location": done.metadata_location,
            "snapshots": done.snapshots,
            "attempts": done.attempts,
            "catalog_entry": table.properties.get("txlog.iceberg.catalog"),
        }
        new = f"{counted(done.snapshots, 'new snapshot')}" if done.snapshots else "nothing new"
        out.result(facts, Text(f"Iceberg readers see version {done.version}: {new}\n{done.metadata_location}"))


def generate(uri: Uri, storage_options: Storage = None, as_json: Json = False) -> None:
    """Write the symlink manifests of the newest version, for readers without Delta.

    Presto, Athena and others read the table by them. With the table property
    delta.compatibility.symlinkFormatManifest.enabled = true every commit updates them.
    """
    with opened(uri, storage_options, as_json) as (table, out):
        with out.waiting("writing manifests"):
            count = table.generate()
        out.result({"table": table.uri, "manifests": count}, Text(f"wrote {counted(count, 'manifest')}"))


def iceberg_facts(table: txlog.Table, newest: int) -> dict[str, Any] | None:
    """The exported version and its lag, without exporting; None if the table was never exported."""
    try:
        lag = OPERATIONS.get("iceberg_lag")
        found = None if lag is None else lag(table._open_table, newest=newest)
    except TxlogError as error:
        return {"version": None, "lag": None, "problem": error.message}
    return None if found is None else asdict(found)


def iceberg_shown(facts: dict[str, Any]) -> str:
    if facts["problem"] is not None:
        return str(facts["problem"])
    lag = f"{counted(facts['lag'], 'version')} behind" if facts["lag"] else "up to date"
    return f"version {facts['version']}, {lag}"
