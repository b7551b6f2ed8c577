"""Keeps a table's Iceberg metadata up to date after commits, in a separate thread.

In: the state after each commit of a handle. Out: nothing. Only tables with the property ``txlog.iceberg`` have one.
One export runs at a time, and includes all commits made meanwhile: a writer that commits faster than the store takes
exports is never slowed down. A failure is logged once for each reason; the next export catches up.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from txlog.core.background import Background
from txlog.core.parallel import new_lock
from txlog.core.util import logger
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import DeltaLog
from txlog.iceberg.metadata.properties import catalog_entry, format_name

if TYPE_CHECKING:
    from txlog.iceberg.exporter import IcebergExporter


class IcebergUpkeep:
    """The exports of one table handle. Thread-safe; an ending process waits for the running export."""

    def __init__(self, log: DeltaLog) -> None:
        self._log = log
        self._lock = new_lock()
        self.background = Background("txlog-iceberg")
        self._exporter: IcebergExporter | None = None
        self._wanted: TableState | None = None
        self._warned: str | None = None

    def exporter(self) -> IcebergExporter:
        """The exporter that this handle's exports share. Raises IcebergExportError on stores without Iceberg
        metadata."""
        if self._exporter is None:
            from txlog.iceberg.exporter import IcebergExporter

            self._exporter = IcebergExporter(self._log)
        return self._exporter

    def after(self, state: TableState) -> None:
        """Export ``state`` soon: the table's property requests it. May raise; the caller, who has committed, warns."""
        if format_name(state.metadata.configuration) is None:
            return
        exporter = self.exporter()  # imports here, never on the other thread
        entry = catalog_entry(state.metadata.configuration)
        if entry is not None:
            from txlog.iceberg.catalog import import_client

            import_client(entry)
        with self._lock:
            if self._wanted is None or self._wanted.version < state.version:  # threads may report in any order
                self._wanted = state
        what = f"the Iceberg export of {self._log.uri} at v{state.version}"
        self.background.begin(what, partial(self._work, exporter), waits=True)

    def drain(self) -> None:
        """Wait until every requested export is made or has failed."""
        self.background.drain()

    def _work(self, exporter: IcebergExporter) -> None:
        while (state := self._taken()) is not None:
            try:
                exporter.export(state, is_on_disk=True)  # acknowledged, so it is on disk
                self._warned = None
            except Exception as error:
                reason = str(error)
                if reason != self._warned:
                    logger.warning(
                        "%s: not all Iceberg readers see v%d yet, the commit is safe: %s",
                        self._log.uri,
                        state.version,
                        error,
                    )
                self._warned = reason

    def _taken(self) -> TableState | None:
        with self._lock:
            state, self._wanted = self._wanted, None
            return state
