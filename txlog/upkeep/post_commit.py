"""What follows an acknowledged commit: checkpoint, checksum, compaction, cleanup. Never its latency or its failure.

In: the head after a commit. Out: nothing. Beside the writer a checkpoint is written when one is due, with it what the
log's retention no longer keeps is deleted, except where looking for that took long not long ago; a checksum file for
each tenth version, and for each where one writer alone commits slowly, since one costs the disk as much as a small
commit does. A failure is a warning: the log is the whole truth.
"""

from __future__ import annotations

import contextvars
import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from txlog.log.state import TableState
from txlog.log_files.delta_log import DeltaLog
from txlog.result import counted
from txlog.util import ambient
from txlog.util.logs import logger

__all__ = ["PostCommit"]

Step = Callable[[TableState], bool]

_CHECKSUM_EVERY = 10  # versions, however fast they follow each other, so that no writer opens far behind one
_CHECKSUM_SPACING_S = 1.0  # where commits are so far apart, each of them is followed by one
_CLEANED_UP_AT_ONCE = 1000  # a process that ends waits for it; the rest goes with the next checkpoint
_CLEAN_UP_SHARE = 100  # times as long as it took, until the log, which may be long, is listed for it again


class PostCommit:
    """Runs post-commit work of one table handle, at most one piece at a time, on a thread of its own.

    A process that ends while it runs waits for it (an executor's threads are joined at exit).
    """

    def __init__(self, log: DeltaLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._running: Future[None] | None = None
        self._checkpoints = False  # whether what runs writes a checkpoint
        self._process_id = os.getpid()
        self._checksum_begun_s = ambient.monotonic_s()
        self._clean_up_from_s = -math.inf
        self._last_version: int | None = None

    def after(self, state: TableState, txn_id: str | None = None) -> None:
        """Begin what is due at ``head``; what is due while something runs waits for a later commit. Never raises."""
        try:
            self._begin(state, txn_id)
        except Exception as error:  # the store does not answer, or the interpreter is about to end
            logger.warning("%s: nothing follows v%d, the commit stands: %s", self._log.uri, state.version, error)

    def _begin(self, state: TableState, txn_id: str | None) -> None:
        checkpoint, checksum = self._log.checkpoint_is_due(state), self._checksum_is_due(state)
        self._last_version = state.version
        if not checkpoint and not checksum:
            return
        with self._lock:
            if self._process_id != os.getpid():  # a fork took the object along, not the thread
                self._executor, self._running, self._process_id = None, None, os.getpid()
            if self._running is not None and not self._running.done() and (self._checkpoints or not checkpoint):
                return
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="txlog-post-commit")
            self._checksum_begun_s = ambient.monotonic_s()
            self._checkpoints = checkpoint
            work = partial(self._work, state, txn_id, checkpoint=checkpoint, checksum=checksum)
            self._running = self._executor.submit(contextvars.copy_context().run, work)

    def drain(self) -> None:
        """Wait for what has begun: for a process that will be ended without ceremony, such as a Spark worker."""
        running = self._running
        if running is not None and self._process_id == os.getpid():
            running.result()

    def _checksum_is_due(self, state: TableState) -> bool:
        if state.totals is None:
            return False
        if state.version % _CHECKSUM_EVERY == 0:
            return state.version > 0  # the first commit itself is the whole state
        if self._last_version not in (None, state.version - 1):
            return False  # others commit too, and need the disk
        return ambient.monotonic_s() - self._checksum_begun_s >= _CHECKSUM_SPACING_S

    def _work(self, state: TableState, txn_id: str | None, *, checkpoint: bool, checksum: bool) -> None:
        checkpoint = checkpoint and self._done("checkpoint", self._checkpoint, state)
        if checkpoint or checksum:
            self._done("checksum", partial(self._checksum, txn_id), state)
        if checkpoint and state.properties.enable_expired_log_cleanup:
            self._done("log cleanup", self._clean_up, state)

    def _done(self, what: str, step: Step, state: TableState) -> bool:
        try:
            return step(state)
        except Exception as error:
            logger.warning("%s: no %s at v%d, the commit stands: %s", self._log.uri, what, state.version, error)
            return False

    def _checkpoint(self, state: TableState) -> bool:
        state = self._log.on_newest_checkpoint(state)
        if not self._log.checkpoint_is_due(state):
            return False  # another writer's came first
        logger.debug("%s: checkpoint at v%d", self._log.uri, self._log.write_checkpoint(state))
        return True

    def _checksum(self, txn_id: str | None, state: TableState) -> bool:
        from txlog.upkeep.version_checksum import write_checksum

        return write_checksum(self._log, state, txn_id)

    def _clean_up(self, state: TableState) -> bool:
        from txlog.upkeep.log_clean_up import clean_up_log

        began_s = ambient.monotonic_s()
        if began_s < self._clean_up_from_s:
            return False
        done = clean_up_log(self._log, state, most=_CLEANED_UP_AT_ONCE)
        if len(done.names) < _CLEANED_UP_AT_ONCE:
            ended_s = ambient.monotonic_s()
            self._clean_up_from_s = ended_s + _CLEAN_UP_SHARE * (ended_s - began_s)
        if done.names:
            logger.info(
                "%s: log cleanup deleted %s (%d bytes)",
                self._log.uri,
                counted(len(done.names), "file"),
                done.size_bytes,
            )
        return True
