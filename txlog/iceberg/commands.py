"""The command of `txlog` that writes metadata for Iceberg readers."""

from __future__ import annotations

from rich.text import Text

from txlog.extend.cli import CommandCall, of_operation
from txlog.result import counted


@of_operation("export_iceberg")
def iceberg(call: CommandCall) -> None:
    """Writes Iceberg metadata next to the log, for the same data files. With the table property txlog.iceberg = v2 (or
    v3) every commit does this automatically.
    """
    with call.opened() as (table, out):
        done = call.done(table, out, "exporting")
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
