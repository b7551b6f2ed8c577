"""What follows an acknowledged commit: today the Delta checkpoint. Never on its latency, never its failure.

In: the head after a commit. Out: nothing; a checkpoint is written beside the writer when one is due, and a failure
is a warning, since the log alone is already the whole truth.
"""

from __future__ import annotations

import logging
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor

from txlog.delta_log import DeltaLog
from txlog.log.state import TableHead

__all__ = ["PostCommit"]

logger = logging.getLogger("txlog")


class PostCommit:
    """Runs post-commit work of one table handle, at most one piece at a time, on a thread of its own.

    A process that ends while it runs waits for it (an executor's threads are joined at exit).
    """

    def __init__(self, log: DeltaLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._running: Future[None] | None = None
        self._process_id = os.getpid()

    def after(self, head: TableHead) -> None:
        """Begin what is due at ``head``; what is due while something runs waits for a later commit. Never raises."""
        try:
            self._begin(head)
        except Exception as error:  # the store does not answer, or the interpreter is about to end
            logger.warning("%s: nothing follows v%d, the commit stands: %s", self._log.table, head.version, error)

    def _begin(self, head: TableHead) -> None:
        if not self._log.checkpoint_is_due(head):
            return
        with self._lock:
            if self._process_id != os.getpid():  # a fork took the object along, not the thread
                self._executor, self._running, self._process_id = None, None, os.getpid()
            if self._running is not None and not self._running.done():
                return
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="txlog-post-commit")
            self._running = self._executor.submit(self._checkpoint, head)

    def drain(self) -> None:
        """Wait for what has begun: for a process that will be ended without ceremony, such as a Spark worker."""
        running = self._running
        if running is not None and self._process_id == os.getpid():
            running.result()

    def _checkpoint(self, head: TableHead) -> None:
        try:
            version = self._log.write_checkpoint(head)
        except Exception as error:
            logger.warning("%s: no checkpoint at v%d, the commit stands: %s", self._log.table, head.version, error)
        else:
            logger.debug("%s: checkpoint at v%d", self._log.table, version)
