"""Reads several scan tasks at a time, for stores where each file costs requests.

In: a `TaskReader` and tasks. Out: the batches of all tasks, in task order. At most `TASKS_AT_ONCE` tasks are open,
whose files have at most `BYTES_AT_ONCE` together, each with one batch read ahead: this bounds the memory. A larger file
is read alone. Local disks gain nothing from this, so ``_scan_plan`` reads one task after the other there.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections import deque
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from txlog.core.parallel import Threads
from txlog.core.reading._scan_task import ScanTask, TaskReader

if TYPE_CHECKING:
    from concurrent.futures import Future

TASKS_AT_ONCE = 32
BYTES_AT_ONCE = 256 << 20


def read_ahead(
    reader: TaskReader, tasks: Iterable[ScanTask], *, wants_all: bool = False
) -> Generator[pa.RecordBatch, None, None]:
    """The rows of all tasks, in order.

    Unless the caller ``wants_all``, reading ahead begins when it asks for the second batch: a caller who needs only the
    first rows causes no other requests. Raises what ``tasks`` raises as soon as it does, and what `TaskReader.batches`
    raises after all batches before it.
    """
    remaining = iter(tasks)
    upcoming = next(remaining, None)
    streams: deque[_Stream] = deque()
    wants_more = wants_all
    with Threads(TASKS_AT_ONCE, "txlog-read") as pool:
        try:
            while upcoming is not None or streams:
                while upcoming is not None and (not streams or (wants_more and _has_room(streams, upcoming))):
                    streams.append(_Stream(reader, upcoming, pool))
                    upcoming = next(remaining, None)
                current = streams[0]
                batch = current.next()
                if batch is None:
                    streams.popleft()
                    continue
                if wants_more:
                    current.read_next()
                    yield batch
                else:
                    yield batch
                    wants_more = True
                    current.read_next()
        finally:
            for stream in streams:
                stream.close()


def _has_room(streams: Iterable[_Stream], task: ScanTask) -> bool:
    sizes = [stream.size_bytes for stream in streams]
    return len(sizes) < TASKS_AT_ONCE and sum(sizes) + task.size_bytes <= BYTES_AT_ONCE


class _Stream:
    """The batches of one task; a thread reads one of them ahead."""

    def __init__(self, reader: TaskReader, task: ScanTask, pool: Threads) -> None:
        self.size_bytes = task.size_bytes
        self._pool = pool
        self._batches = reader.batches(task)
        self._context = contextvars.copy_context()
        self._ahead: Future[pa.RecordBatch | None]
        self.read_next()

    def read_next(self) -> None:
        """Start reading the batch that `next` returns."""
        self._ahead = self._pool.submit(self._context.run, self._read)

    def _read(self) -> pa.RecordBatch | None:
        return next(self._batches, None)

    def next(self) -> pa.RecordBatch | None:
        """The batch that was read ahead; None at the end."""
        return self._ahead.result()

    def close(self) -> None:
        """Release the file. Waits for a running read, and drops what it found."""
        self._ahead.cancel()
        with contextlib.suppress(Exception):
            self._ahead.result()
        self._batches.close()
