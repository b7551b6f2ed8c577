"""Compaction after commits, if the table property ``delta.autoOptimize.autoCompact`` requests it.

In: the table state after a commit. Out: nothing. After every tenth version, whichever process committed it, the handle
looks for partitions with many small files and compacts them in a separate thread, one compaction at a time. It never
delays the commit or makes it fail: errors are logged.

The thread imports nothing, for the reason given in ``upkeep.post_commit``.
"""

from __future__ import annotations

import contextvars
import os
import threading
from typing import TYPE_CHECKING

from txlog.log.state import TableState
from txlog.util.logs import logger

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from txlog.commit.open_table import OpenTable

__all__ = ["AutoCompaction"]

SMALL_FILES_MIN = 50
"""A partition with fewer small files is left as it is, as by Spark's auto compaction."""
_EVERY = 10  # versions, so that processes that commit once each share the work
_BYTES_MAX = 2 << 30  # a process that ends waits for the compaction, so one has a limit; the next one does the rest


class AutoCompaction:
    """Compacts one table. Called after each commit. A process that ends waits for a running compaction."""

    def __init__(self, open_table: OpenTable) -> None:
        self._open_table = open_table
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._running: Future[None] | None = None
        self._process_id = os.getpid()

    def after(self, state: TableState) -> None:
        """Start a compaction if one is due at ``state`` and none runs. Never raises."""
        if not state.properties.auto_compact or state.version % _EVERY:
            return
        try:
            from txlog.maintenance import optimize  # noqa: F401  so that the thread finds it imported

            self._begin()
        except Exception as error:  # the interpreter is about to end
            logger.warning("%s: the compaction after v%d failed, the commit is safe: %s", *self._at(state), error)

    def drain(self) -> None:
        """Wait for a running compaction."""
        running = self._running
        if running is not None and self._process_id == os.getpid():
            running.result()

    def _begin(self) -> None:
        from concurrent.futures import ThreadPoolExecutor

        with self._lock:
            if self._process_id != os.getpid():  # a fork copies the object, not the thread
                self._executor, self._running, self._process_id = None, None, os.getpid()
            if self._running is not None and not self._running.done():
                return
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="txlog-compaction")
            self._running = self._executor.submit(contextvars.copy_context().run, self._compact)

    def _compact(self) -> None:
        from txlog.maintenance.optimize import optimize

        try:
            optimize(self._open_table, max_bytes=_BYTES_MAX, files_min=SMALL_FILES_MIN, is_automatic=True)
        except Exception as error:
            logger.warning("%s: the compaction in the background failed: %s", self._open_table.uri, error)

    def _at(self, state: TableState) -> tuple[str, int]:
        return self._open_table.uri, state.version
