"""What follows an acknowledged commit: checkpoint and log cleanup. Never on its latency, never its failure.

In: the head after a commit. Out: nothing; a checkpoint is written beside the writer when one is due, then what the
log's retention no longer keeps is deleted. A failure is a warning, since the log alone is already the whole truth.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from txlog.delta_log import DeltaLog
from txlog.log.state import TableHead

__all__ = ["PostCommit"]

logger = logging.getLogger("txlog")

_CLEANED_UP_AT_ONCE = 1000  # a process that ends waits for it; the rest goes with the next checkpoint


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
            self._running = self._executor.submit(self._work, head)

    def drain(self) -> None:
        """Wait for what has begun: for a process that will be ended without ceremony, such as a Spark worker."""
        running = self._running
        if running is not None and self._process_id == os.getpid():
            running.result()

    def _work(self, head: TableHead) -> None:
        if self._succeeds("checkpoint", head, self._checkpoint) and head.properties.enable_expired_log_cleanup:
            self._succeeds("log cleanup", head, self._clean_up)

    def _succeeds(self, what: str, head: TableHead, work: Callable[[TableHead], None]) -> bool:
        try:
            work(head)
        except Exception as error:
            logger.warning("%s: no %s at v%d, the commit stands: %s", self._log.table, what, head.version, error)
            return False
        return True

    def _checkpoint(self, head: TableHead) -> None:
        logger.debug("%s: checkpoint at v%d", self._log.table, self._log.write_checkpoint(head))

    def _clean_up(self, head: TableHead) -> None:
        from txlog.upkeep.log_clean_up import clean_up_log

        done = clean_up_log(self._log, head, most=_CLEANED_UP_AT_ONCE)
        if done.names:
            logger.info(
                "%s: log cleanup deleted %d files (%d bytes)", self._log.table, len(done.names), done.size_bytes
            )
