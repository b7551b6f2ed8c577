"""Rewrites a bin to new files, and records where each row goes.

In: a `Bin` and the version it was planned on. Out: a `RewrittenBin`: the new files, durable, with the live rows of its
sources, and for each source the rows that were dead. A bin's live rows are numbered from 0, in the order of its files.
This keeps that order, so a row's number is its position in the new file; a clustering (``clustering``) keeps the row
numbers of each new file. So a row that another writer deletes meanwhile can be marked in the new file.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.changes.tasks import FileRows, TaskTable
from txlog.core.format.actions import AddFile
from txlog.core.format.arrow.arrays import from_flags
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.statistics_read import num_records
from txlog.core.maintenance.rewriting._bin import Bin
from txlog.core.parallel import parallel_map
from txlog.core.reading import DeletionVectorReader
from txlog.core.store import FileStore, TableFiles
from txlog.core.writing import MIB, DataStream, TaskCommitter, TaskIdentity, TaskWriter, UnsentFiles, WritePlan
from txlog.core.writing.committable import PendingFile
from txlog.errors import CorruptLogError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from txlog.core.workers import Workers

_Sized = TypeVar("_Sized")

_ONE_FILE_BYTES = 1 << 62
_MEMORY_BYTES = 96 * MIB  # for each bin that is rewritten at the same time
_SMALL_BYTES = 2 * MIB  # files that are together this small are read at a time
HELD_BYTES = 64 * MIB  # the maximum memory for their rows
_FILES_TOGETHER_MAX = 64
_READS_AT_ONCE = 2
_SMALL_BINS_BYTES = 4 * MIB  # bins that are together this small are one task
_BINS_TOGETHER_MAX = 64
_BINS_AT_ONCE = 8  # small bins mostly wait for the disk
_REQUESTS_AT_ONCE = 64
_BINS_OF_REQUESTS_AT_ONCE = 32  # or for their requests


class RewrittenFile(msgspec.Struct, frozen=True):
    """A rewritten file: ``dead`` are the positions of the rows that were left out, ascending.

    ``first`` is the number of its first live row, ``num_live`` the number of its live rows.
    """

    add: AddFile
    num_rows: int
    dead: NDArray[np.uint64]
    first: int
    num_live: int

    def numbers(self, positions: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The numbers of the live rows at these positions, ascending like ``positions``."""
        left_out = np.searchsorted(self.dead, positions).astype(np.uint64)
        found: NDArray[np.uint64] = positions - left_out + np.uint64(self.first)
        return found


class FileOfBin(msgspec.Struct, frozen=True):
    """A file written for a bin. A NumPy file holds its rows' numbers: ``order`` on this machine, or ``stored_order`` in
    the table's folder. Without one, they count from 0."""

    file: PendingFile
    order: Path | None = None
    stored_order: str | None = None

    def places(self, numbers: NDArray[np.uint64], files: FileStore) -> NDArray[np.uint64]:
        """The positions in the file of the numbered rows that it holds, ascending. ``files`` are the table's.

        Raises ``NotFoundError`` or ``StorageError`` if a stored order cannot be read.
        """
        if not len(numbers):
            return np.empty(0, np.uint64)
        if self.order is not None:
            own = np.load(self.order, mmap_mode="r")
        elif self.stored_order is not None:
            own = np.load(io.BytesIO(files.read_from(self.stored_order, 0)))
        else:
            return numbers
        return np.flatnonzero(np.isin(own, numbers)).astype(np.uint64)


class RewrittenBin(msgspec.Struct, frozen=True):
    """A bin and its new files; no files if no source row was live."""

    sources: tuple[RewrittenFile, ...]
    files: tuple[FileOfBin, ...]

    def check(self, table: str, version: int) -> None:
        """Raises ``CorruptLogError`` if a row was lost or written twice."""
        expected = sum(source.num_live for source in self.sources)
        written = sum(new.file.num_rows for new in self.files)
        if written != expected:
            raise _defect(f"{expected} rows of {len(self.sources)} files were rewritten as {written}", table, version)


class RewriteBins(msgspec.Struct, frozen=True):
    """The work of a task: rewrite bins of a version, whose rows keep their order.

    ``written_as`` is the definition of the new files, if it is another one with the same columns.
    """

    table: TaskTable
    written_as: TaskTable | None = None

    def __call__(self, bins: Sequence[Bin]) -> list[RewrittenBin]:
        """The new files are durable when it returns, and deleted if it raises."""
        store = self.table.files
        most = _BINS_AT_ONCE if store.has_cheap_calls else _BINS_OF_REQUESTS_AT_ONCE
        with UnsentFiles(store.files) as unsent:
            rewriter = BinRewriter(store, self.table, unsent, self.written_as, at_once=min(len(bins), most))
            rewritten = rewriter.rewrite_all(bins)
            unsent.mark_sent()  # from here on the receiver owns the files
            return rewritten


def rewritten_bins(workers: Workers, work: RewriteBins, bins: Sequence[Bin]) -> Iterator[tuple[int, RewrittenBin]]:
    """Every bin as it was rewritten, with its place in ``bins``, in order of completion. Small bins share tasks.

    Raises the errors of `Workers.map`.
    """
    most = min(_BINS_TOGETHER_MAX, -(-len(bins) // workers.slots))
    tasks = list(_runs(bins, lambda each: each.size_bytes, _SMALL_BINS_BYTES, most))
    first = [0, *itertools.accumulate(map(len, tasks))]
    for number, rewritten in workers.map(work, tasks):
        yield from enumerate(rewritten, first[number])


class BinRewriter:
    """Rewrites bins of one version of a table, ``at_once`` of them at a time. ``written_as`` is as for
    `RewriteBins`."""

    def __init__(
        self,
        store: TableFiles,
        table: DefinedTable,
        unsent: UnsentFiles,
        written_as: DefinedTable | None = None,
        *,
        at_once: int = 1,
    ) -> None:
        self._store = store
        self._unsent = unsent
        self._version = table.version
        self._rows = FileRows(store, table, opens_once=True)
        self._vectors = DeletionVectorReader(store, table.version)
        self.schema = self._rows.schema
        plan = WritePlan.of_table(written_as or table, store.uri, rows="old")
        plan = plan if self._rows.ids is None else self._rows.ids.plan(plan)
        self._plan = replace(
            plan,
            target_file_size_bytes=_ONE_FILE_BYTES,
            max_records_per_file=None,
            memory_budget_bytes=_MEMORY_BYTES // at_once,
        )
        self._at_once = at_once
        self._held_bytes = HELD_BYTES // at_once
        self._job_id = ambient.uuid4()
        self._task_ids = itertools.count()

    def rewrite_all(self, bins: Sequence[Bin]) -> list[RewrittenBin]:
        """Write the new files of some bins, and make them durable together.

        Raises ``NotFoundError``, ``CorruptLogError``, ``StorageError`` if a source cannot be read; unfinished new
        files are then removed.
        """
        rewritten = [*parallel_map(self.rewrite, bins, threads=self._at_once)]
        self._seal([new.file for each in rewritten for new in each.files])
        return rewritten

    def rewrite(self, each: Bin) -> RewrittenBin:
        """Write the new file of a bin, with the rows in the order of its files. Its name is not durable yet."""
        sources: list[RewrittenFile] = []
        files = self._pending(self._live_rows(each, sources))
        if len(files) > 1:
            raise _defect(f"a bin was written to {len(files)} files", self._store.uri, self._version)
        rewritten = RewrittenBin(tuple(sources), tuple(map(FileOfBin, files)))
        rewritten.check(self._store.uri, self._version)
        return rewritten

    def store_order(self, order: NDArray[Any]) -> str:
        """Write row numbers to the table's folder, under a name that every engine's vacuum looks at."""
        body = io.BytesIO()
        np.save(body, order)
        path = f"txlog-order-{ambient.uuid4()}.npy"
        self._unsent.own([path])
        self._store.files.write(path, body.getvalue())
        return path

    def write(self, batches: Iterator[pa.RecordBatch]) -> tuple[PendingFile, ...]:
        """Write one durable file of these rows; none if there is no row."""
        return self._seal(self._pending(batches))

    def _pending(self, batches: Iterator[pa.RecordBatch]) -> tuple[PendingFile, ...]:
        """Uses one encoder: with two, the row groups would alternate between two files."""
        task = TaskIdentity(self._job_id, next(self._task_ids))
        with TaskWriter(self._store.files, self._plan, task, encoders=1) as writer:
            writer.write(DataStream(self.schema, batches))
            files = writer.close()
        self._unsent.own(file.path for file in files)
        return files

    def _seal(self, files: Sequence[PendingFile]) -> tuple[PendingFile, ...]:
        task = TaskIdentity(self._job_id, next(self._task_ids))
        return TaskCommitter(self._store.files, self._plan).seal(task, files).files

    def _live_rows(self, each: Bin, sources: list[RewrittenFile]) -> Iterator[pa.RecordBatch]:
        """The rows of each file in turn; ``sources`` gets a file when its last row was taken.

        Several small files are read together, on two threads, and come as one batch: each batch costs time in later
        steps.
        """
        first = 0
        runs = small_runs(each.files, lambda add: add.size)
        for files, found in parallel_map(lambda run: (run, self.read_small(run)), runs, threads=_READS_AT_ONCE):
            counts = [] if found is None else found[0]
            if found is None:
                for add in files:
                    counts.append(0)
                    for batch in self.live_batches(add):
                        counts[-1] += batch.num_rows
                        yield batch
            elif found[1] is not None:
                yield found[1]
            for add, num_live in zip(files, counts, strict=True):
                sources.append(self.source(add, first, num_live))
                first += num_live

    def read_small(self, files: Sequence[AddFile]) -> tuple[list[int], pa.RecordBatch | None] | None:
        """The number of live rows in each file, and all their rows.

        None for a large file, and for files whose rows take much more memory than the files: these are read in pieces.
        Raises what `rewrite` raises.
        """
        if files[0].size > _SMALL_BYTES:
            return None
        with self._rows.holding(self._rows.bodies(files, _REQUESTS_AT_ONCE // self._at_once)):
            return self._joined(files) if self._rows.ids is None else self._of_each(files)

    def _of_each(self, files: Sequence[AddFile]) -> tuple[list[int], pa.RecordBatch | None] | None:
        counts: list[int] = []
        batches: list[pa.RecordBatch] = []
        held_bytes = 0
        for found in map(self._few_rows, files):
            held_bytes += sum(batch.nbytes for batch in found or ())
            if found is None or held_bytes > self._held_bytes:
                return None
            counts.append(sum(batch.num_rows for batch in found))
            batches += found
        return counts, pa.concat_batches(batches) if batches else None

    def _joined(self, files: Sequence[AddFile]) -> tuple[list[int], pa.RecordBatch | None] | None:
        """`read_small` in one step for all files, in a fraction of the time."""
        rows, counts = self._rows.reader(self._rows.fields, are_whole_rows=True).whole(files, self._held_bytes)
        if rows is None or len(counts) < len(files) or rows.nbytes > self._held_bytes:
            return None
        rows = pa.RecordBatch.from_arrays(rows.columns, schema=self.schema)
        if any(add.deletion_vector is not None for add in files):
            is_live = np.ones(rows.num_rows, dtype=bool)
            ends = np.cumsum(counts).tolist()
            for at, (add, end, count) in enumerate(zip(files, ends, list(counts), strict=True)):
                if add.deletion_vector is not None:
                    dead = self._vectors.dead_rows(add.deletion_vector, count)
                    is_live[end - count + dead.astype(np.int64)] = False
                    counts[at] -= len(dead)
            rows = rows.filter(from_flags(is_live))
        return counts, rows

    def _few_rows(self, add: AddFile) -> list[pa.RecordBatch] | None:
        """The live rows of one file; None if they take too much memory."""
        held_bytes = 0
        found: list[pa.RecordBatch] = []
        for batch in self.live_batches(add):
            held_bytes += batch.nbytes
            found.append(batch)
            if held_bytes > self._held_bytes:
                return None
        return found

    def live_batches(self, add: AddFile) -> Iterator[pa.RecordBatch]:
        """The live rows of a file, as new files hold them. Raises what `rewrite` raises."""
        for _, batch in self._rows.live(add):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)

    def source(self, add: AddFile, first: int, num_live: int) -> RewrittenFile:
        """A file of which all live rows were read, numbered from ``first``."""
        if add.deletion_vector is None:
            return RewrittenFile(add, num_live, np.empty(0, np.uint64), first, num_live)
        counted = num_records(add.stats)
        num_rows = self._rows.count(add) if counted is None else counted
        dead = self._vectors.dead_rows(add.deletion_vector, num_rows)
        if num_live + len(dead) != num_rows:  # the statistics are wrong: count in the file itself
            num_rows = self._rows.count(add)
            dead = self._vectors.dead_rows(add.deletion_vector, num_rows)
        return RewrittenFile(add, num_rows, dead, first, num_live)


def _defect(what: str, table: str, version: int) -> CorruptLogError:
    return CorruptLogError(
        f"{what}. Nothing was committed; this is a defect of txlog, or files change while they are read",
        table=table,
        version=version,
    )


def small_runs(items: Sequence[_Sized], size_bytes: Callable[[_Sized], int]) -> Iterator[list[_Sized]]:
    """Runs of small files that are read together; a large one is a run by itself."""
    return _runs(items, size_bytes, _SMALL_BYTES, _FILES_TOGETHER_MAX)


def _runs(
    items: Sequence[_Sized], size_bytes: Callable[[_Sized], int], most_bytes: int, most: int
) -> Iterator[list[_Sized]]:
    """Runs of at most ``most`` small items, which are worked on together; a large one is a run by itself."""
    run: list[_Sized] = []
    run_bytes = 0
    for each in items:
        run_bytes += size_bytes(each)
        if run and (run_bytes > most_bytes or len(run) >= most):
            yield run
            run, run_bytes = [], size_bytes(each)
        run.append(each)
    if run:
        yield run
