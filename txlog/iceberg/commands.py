"""The command of `txlog` that writes metadata for Iceberg readers."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from txlog.extend.cli import Json, Storage, Uri, opened
from txlog.result import counted

__all__ = ["iceberg"]


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
