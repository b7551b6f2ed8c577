"""A lane: one partition's rows on their way into files, one open file at a time, rolled by size and row count.

In: routed record batches. Out: `PendingFile`s. Batches wait in the lane until there is enough for a large row group;
when to flush, and on which thread, is ``_task_writer``'s decision.

The threads of an `EncoderPool` encode and publish. The jobs of one lane run one after the other, in order; different
lanes run concurrently. The first error stops all jobs, and the next call raises it.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import pyarrow as pa

from txlog.core.parallel import Threads
from txlog.core.store import FileStore
from txlog.core.writing._data_file import DataFileWriter, FileFormat
from txlog.core.writing._write_plan import FileNames
from txlog.core.writing.committable import PendingFile

if TYPE_CHECKING:
    from concurrent.futures import Future

SMALLEST_PIECE_BYTES = 64 << 10
"""Files get at least this many rows, however small the target size: one file per row would be useless."""

ONE_PIECE_BYTES = 16 << 20
"""Files whose rows are at most this large wait in memory and are written in one piece."""

_UNSHARED_BYTES = 4 << 10


class FileLayout(msgspec.Struct, frozen=True):
    """What all lanes of a task share."""

    files: FileStore
    file_format: FileFormat
    target_file_size_bytes: int
    max_records_per_file: int | None
    names: FileNames


class PartitionWriter:
    """One partition's rows: waiting rows, the file in progress, finished files.

    `add` and `take` belong to the routing thread; `write`, `finish` and `abort` run one at a time, on any thread.
    """

    def __init__(
        self, layout: FileLayout, ordinal: int, directory: str, partition_values: dict[str, str | None]
    ) -> None:
        self.queue = JobQueue()
        self.finished: list[PendingFile] = []
        self.waiting_bytes = 0
        self.waiting_rows = 0
        self.ordinal = ordinal
        self.file_bytes = 0
        """The bytes encoded so far for the file in progress."""
        self._layout = layout
        self._directory = directory
        self._partition_values = partition_values
        self._waiting: list[pa.RecordBatch] = []
        self._writer: DataFileWriter | None = None
        self._files_begun = 0
        self._last_write_bytes = 0
        self._row_bytes = 0.0
        """A row's size in bytes; encoded, if that is known."""

    def add(self, batch: pa.RecordBatch, size_bytes: int) -> None:
        self._waiting.append(self._layout.file_format.labelled(batch))
        self.waiting_rows += batch.num_rows
        self.waiting_bytes += size_bytes

    def take(self) -> pa.Table:
        """All waiting rows, as one table without copying."""
        table = pa.Table.from_batches(self._waiting, self._layout.file_format.schema)
        self._waiting = []
        self.waiting_rows = self.waiting_bytes = 0
        return table

    def write(
        self,
        table: pa.Table,
        dictionary: tuple[str, ...],
        encoding: contextlib.AbstractContextManager[object],
        *,
        is_last: bool = False,
    ) -> None:
        """Append ``table``, and start a new file when one is full, even in the middle of the table. ``encoding`` is
        held during encoding.

        With ``is_last``, nothing follows this table, so a small file that it starts is written in one piece.
        """
        if not self._row_bytes:
            self._row_bytes = held_bytes(table) / max(table.num_rows, 1)
        left: pa.Table | None = table
        while left is not None and left.num_rows:
            room_rows = self._room_rows(left.num_rows)
            fits = room_rows >= left.num_rows
            piece, left = (left, None) if fits else (left.slice(0, room_rows), left.slice(room_rows))
            if self._writer is None:
                in_one_piece = is_last and table.nbytes <= ONE_PIECE_BYTES
                self._writer = self._begin(dictionary, piece, in_one_piece=in_one_piece)
            with encoding:
                self._writer.write(piece)
            before_bytes, self.file_bytes = self.file_bytes, self._writer.size_bytes
            self._last_write_bytes = self.file_bytes - before_bytes
            self._row_bytes = self._last_write_bytes / piece.num_rows
            if self._is_full(self._writer):
                self.finish()
        if is_last:
            self.finish()

    def write_empty_file(self) -> None:
        """Publish a file without rows."""
        nothing = self._layout.file_format.schema.empty_table()
        self._writer = self._begin((), nothing, in_one_piece=True)
        self._writer.write(nothing)
        self.finish()

    def finish(self) -> None:
        """Close and publish the file in progress, if there is one."""
        if self._writer is None:
            return
        self.finished.append(self._writer.finish())
        self._writer = None
        self.file_bytes = 0

    def abort(self) -> list[str]:
        """Remove the file in progress. Returns the pending ones, to delete: no commit names them yet. Never raises."""
        self._waiting = []
        if self._writer is not None:
            self._writer.abort()
            self._writer = None
        finished, self.finished = self.finished, []
        return [file.path for file in finished]

    def _begin(self, dictionary: tuple[str, ...], first: pa.Table, *, in_one_piece: bool) -> DataFileWriter:
        """A new file, whose first rows are these."""
        layout = self._layout
        file_format = layout.file_format
        if file_format.by_package and first.num_rows:
            file_format = file_format.beginning_with(first)
        path = layout.names.path(self._directory, self.ordinal, self._files_begun)
        self._files_begun += 1
        return DataFileWriter(
            layout.files,
            path,
            file_format,
            self._partition_values,
            dictionary,
            in_one_piece=in_one_piece,
            rows_expected=first.num_rows,
        )

    def _room_rows(self, wanted: int) -> int:
        """How many of the ``wanted`` rows go into the file in progress as one row group."""
        written_rows = self._writer.num_rows if self._writer else 0
        room_bytes = max(self._layout.target_file_size_bytes - self.file_bytes, SMALLEST_PIECE_BYTES)
        # slightly more than the target is better than a sliver after it
        fits = wanted * self._row_bytes <= 1.5 * room_bytes
        rows = wanted if fits else math.ceil(room_bytes / self._row_bytes)
        most = self._layout.max_records_per_file
        return rows if most is None else min(rows, most - written_rows)

    def _is_full(self, writer: DataFileWriter) -> bool:
        """Whether stopping here comes closer to the target size than another row group like the last one."""
        rows = self._layout.max_records_per_file
        if rows is not None and writer.num_rows >= rows:
            return True
        return self.file_bytes + self._last_write_bytes // 2 >= self._layout.target_file_size_bytes


def held_bytes(rows: pa.RecordBatch | pa.Table) -> int:
    """How much memory ``rows`` take. Computing a slice's part of larger buffers takes Arrow as long as encoding a
    column, and does not matter if the whole is small."""
    whole_bytes: int = rows.get_total_buffer_size()
    return whole_bytes if whole_bytes <= _UNSHARED_BYTES else int(rows.nbytes)


# --- the threads that encode ---------------------------------------------------------------------------------------


ENCODERS = min(2, os.cpu_count() or 1)
"""The default number of row groups encoded at a time: more would starve the routing thread."""

THREADS = 8
"""More than encoders, since publishing a file mostly waits for a disk or store."""

UPLOADS = 32
"""How many small files are published at a time where each takes a request."""

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

    def __init__(self, encoders: int = ENCODERS, threads: int = THREADS) -> None:
        self.encoding = threading.Semaphore(encoders)
        self._lock = threading.RLock()  # taken itself, as in `Threads`
        self._changed = threading.Condition(self._lock)
        self._error: BaseException | None = None
        self._held_bytes = 0
        self._threads = Threads(threads, "txlog-encoder")

    @property
    def held_bytes(self) -> int:
        """Bytes kept alive by jobs that have not ended."""
        return self._held_bytes

    def submit(self, queue: JobQueue, job: Job, size_bytes: int = 0) -> None:
        """Run ``job`` after the earlier jobs of ``queue``. Raises the first error of any earlier job."""
        with self._lock:
            self._raise_error()
            self._held_bytes += size_bytes
            queue.jobs.append((job, size_bytes))
            if queue.is_busy:
                return
            queue.is_busy = True
        queue.call = self._threads.submit(self._work, queue)

    def wait_below(self, limit_bytes: int) -> None:
        """Wait until the jobs hold at most ``limit_bytes``. Raises the first error of any job."""
        with self._lock:
            self._changed.wait_for(lambda: self._held_bytes <= limit_bytes or self._error is not None)
            self._raise_error()

    def wait_for(self, queues: Iterable[JobQueue]) -> None:
        """Wait until these queues are empty and idle. Raises the first error of any job."""
        for queue in queues:
            if queue.call is not None:
                queue.call.result()
        with self._lock:
            self._raise_error()

    def stop(self) -> None:
        """Let no new job start, and wait for running ones."""
        with self._lock:
            if self._error is None:
                self._error = RuntimeError("the encoder pool was stopped")
        self._threads.close()

    def _work(self, queue: JobQueue) -> None:
        while True:
            with self._lock:
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
                with self._lock:
                    self._error = self._error or error
            del job
            with self._lock:
                self._held_bytes -= size_bytes
                self._changed.notify_all()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error
