"""Exports a table for Iceberg readers, and says how far they are behind: the operations of the exports.

In: an open table. Out: `IcebergExport`, `IcebergLag`.
"""

from __future__ import annotations

from typing import cast

from txlog.core.definition import set_properties
from txlog.core.versions import OpenTable
from txlog.iceberg.after_commit import IcebergUpkeep
from txlog.iceberg.exporter import IcebergExporter, IcebergLag
from txlog.iceberg.metadata.properties import ICEBERG, ICEBERG_CATALOG, catalog_entry
from txlog.result.audits import IcebergExport


def export_iceberg(open_table: OpenTable, *, rebuild: bool, register: str | None) -> IcebergExport:
    """`Table.export_iceberg`."""
    exporter = _exporter(open_table)
    state = open_table.log.newest_state()
    done = exporter.export(state, rebuild=rebuild, is_on_disk=open_table.is_on_disk(state.version))
    if register is None or register == catalog_entry(state.metadata.configuration):
        return done
    exporter.move_entry(register, done)
    set_properties(open_table, {ICEBERG_CATALOG: register}, None)
    return exporter.export(open_table.log.newest_state())


def iceberg_lag(open_table: OpenTable, *, newest: int) -> IcebergLag | None:
    """How far Iceberg readers are behind the version ``newest``; None if the table was never exported.

    Raises IcebergExportError on stores without Iceberg metadata.
    """
    return _exporter(open_table).lag(newest)


def _exporter(open_table: OpenTable) -> IcebergExporter:
    return cast(IcebergUpkeep, open_table.post_commit.follower(ICEBERG)).exporter()
