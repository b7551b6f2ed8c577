"""The threads that encode and publish data files: how many, in which order, and with how much memory.

In: jobs of a lane, each with the bytes it keeps alive. Out: the jobs of one lane run one after the other, in
order; different lanes run concurrently. The first error stops all jobs, and the next call raises it.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from txlog.util.parallel import Threads

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["ENCODERS", "EncoderPool", "JobQueue"]

ENCODERS = min(2, os.cpu_count() or 1)
"""The default number of row groups encoded at a time: more would starve the routing thread."""

_THREADS = 8
"""More than encoders, since publishing a file mostly waits for a disk or store."""

Job: TypeAlias = Callable[[], None]


class JobQueue:
    """The jobs of one lane that have not started, whether a thread runs them, and the last call that does or did."""

    __slots__ = ("call", "is_busy", "jobs")

    def __init__(self) -> None:
        self.jobs: deque[tuple[Job, int]] = deque()
        self.is_busy = False
        self.call: Future[None] | None = None


class EncoderPool:
    """Runs jobs on a few threads. One thread submits and waits; jobs must not submit."""

    def __init__(self, encoders: int = ENCODERS) -> None:
        self.encoding = threading.Semaphore(encoders)
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._held_bytes = 0
        self._threads = Threads(_THREADS, "txlog-encoder")

    @property
    def held_bytes(self) -> int:
        """Bytes kept alive by jobs that have not ended."""
        return self._held_bytes

    def submit(self, queue: JobQueue, job: Job, size_bytes: int = 0) -> None:
        """Run ``job`` after the earlier jobs of ``queue``. Raises the first error of any earlier job."""
        with self._changed:
            self._raise_error()
            self._held_bytes += size_bytes
            queue.jobs.append((job, size_bytes))
            if queue.is_busy:
                return
            queue.is_busy = True
        queue.call = self._threads.submit(self._work, queue)

    def wait_below(self, limit_bytes: int) -> None:
        """Wait until the jobs hold at most ``limit_bytes``. Raises the first error of any job."""
        with self._changed:
            self._changed.wait_for(lambda: self._held_bytes <= limit_bytes or self._error is not None)
            self._raise_error()

    def wait_for(self, queues: Iterable[JobQueue]) -> None:
        """Wait until these queues are empty and idle. Raises the first error of any job."""
        for queue in queues:
            if queue.call is not None:
                queue.call.result()
        with self._changed:
            self._raise_error()

    def stop(self) -> None:
        """Let no new job start, and wait for running ones."""
        with self._changed:
            if self._error is None:
                self._error = RuntimeError("the encoder pool was stopped")
        self._threads.close()

    def _work(self, queue: JobQueue) -> None:
        while True:
            with self._changed:
                if not queue.jobs:
                    queue.is_busy = False
                    self._changed.notify_all()
                    return
                job, size_bytes = queue.jobs.popleft()
                is_stopped = self._error is not None
            try:
                if not is_stopped:
                    job()
            except BaseException as error:
                with self._changed:
                    self._error = self._error or error
            del job
            with self._changed:
                self._held_bytes -= size_bytes
                self._changed.notify_all()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error
