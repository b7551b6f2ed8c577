"""Programs of a story's actors that export to Iceberg: export, rebuild, clean up, and commit as a foreign writer.

In: a `Session`. Out: nothing. `ExportHistory` checks what Iceberg readers see as soon as it appears, and the answer
to an exporter when it gets it.
"""

from __future__ import annotations

import orjson

from explorer.other_engines import append_unsynced
from explorer.programs import append
from explorer.row_programs import delete_where
from explorer.session import Session
from txlog.core.store._base import PutOutcome
from txlog.errors import IcebergExportError
from txlog.iceberg.after_commit import IcebergUpkeep
from txlog.iceberg.clean_up import clean_up_metadata
from txlog.iceberg.metadata.names import HINT, metadata_name, metadata_number
from txlog.table import Table

__all__ = [
    "append_and_export",
    "clean_up_exports",
    "delete_and_export",
    "export",
    "export_anew",
    "foreign_iceberg_commit",
    "move_on_and_export",
]

_HOUR_MS = 3_600_000


def export(session: Session, *, rebuild: bool = False) -> None:
    """Let Iceberg readers see the newest version."""
    _export(session, session.table(), rebuild=rebuild)


def export_anew(session: Session) -> None:
    """Rebuild the export, as an operator does who does not trust the metadata, or wants fewer files."""
    export(session, rebuild=True)


def append_and_export(session: Session) -> None:
    append(session)
    export(session)


def move_on_and_export(session: Session) -> None:
    """Append as another engine, in one step, and export that version."""
    append_unsynced(session, times=1)
    export(session)


def delete_and_export(session: Session) -> None:
    """Delete rows by deletion vectors, which the export turns into delete files."""
    delete_where(session)
    export(session)


def clean_up_exports(session: Session) -> None:
    """Two hours later, delete what no reader needs, as every fiftieth export does."""
    session.let_pass(2 * _HOUR_MS)
    upkeep = session.table(fresh=True)._open_table.post_commit.follower("txlog.iceberg")
    assert isinstance(upkeep, IcebergUpkeep)
    exporter = upkeep.exporter()
    newest = exporter._folder.newest()
    if newest is not None:
        clean_up_metadata(exporter._folder, exporter._folder.exported(newest))


def foreign_iceberg_commit(session: Session) -> None:
    """A library that knows nothing of Delta commits the metadata file after the newest one. It names nothing new."""
    store = session.iceberg
    newest = max(filter(None, (metadata_number(meta.name) for meta in store.list_from("v"))))
    document = orjson.loads(store.read(metadata_name(newest)))
    document["last-updated-ms"] += 1
    document = dict(reversed(document.items()))  # each library formats JSON in its own way
    store.make_durable(metadata_name(newest))  # a sync of the folder writes the older names too
    if store.put_if_absent(metadata_name(newest + 1), orjson.dumps(document)) is PutOutcome.WRITTEN:
        store.put(HINT, str(newest + 1).encode())


def _export(session: Session, table: Table, *, rebuild: bool) -> None:
    session.clock.attempt += 1
    ledger = session.run.ledger
    try:
        done = table.export_iceberg(rebuild=rebuild)
    except IcebergExportError as error:
        ledger.observe()
        if not any(version is None for version in ledger.exports.versions.values()):
            raise
        session.run.record(f"{session.actor.name}: refused: {error.message}"[:150])
        return
    session.run.record(f"{session.actor.name}: exported v{done.version} as {done.metadata_location.rpartition('/')[2]}")
    ledger.observe()
    ledger.exports.require(done.version, session.actor.name)
