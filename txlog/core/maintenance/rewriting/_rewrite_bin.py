"""Rewrites a bin to new files, and records where each row goes.

In: a `Bin` and the version it was planned on. Out: a `RewrittenBin`: the new files, durable, with the live rows of its
sources, and for each source the rows that were dead. A bin's live rows are numbered from 0, in the order of its files.
This keeps that order, so a row's number is its position in the new file; a clustering (``clustering``) keeps the row
numbers of each new file. So a row that another writer deletes meanwhile can be marked in the new file.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.core.changes.tasks.file_rows import FileRows
from txlog.core.changes.tasks.task_table import TaskTable
from txlog.core.format.actions import AddFile
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.statistics_read import num_records
from txlog.core.maintenance.rewriting._bin import Bin
from txlog.core.reading import DeletionVectorReader
from txlog.core.store import FileStore, TableFiles
from txlog.core.util import ambient
from txlog.core.util.parallel import parallel_map
from txlog.core.writing.committable import PendingFile
from txlog.core.writing.input import DataStream
from txlog.core.writing.task_committer import write_task
from txlog.core.writing.unsent_files import UnsentFiles
from txlog.core.writing.write_plan import MIB, TaskIdentity, WritePlan
from txlog.errors import CorruptLogError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BinRewriter", "FileOfBin", "RewriteBins", "RewrittenBin", "RewrittenFile"]

_ONE_FILE_BYTES = 1 << 62
_MEMORY_BYTES = 96 * MIB  # for each bin that is rewritten at the same time
_SMALL_BYTES = 2 * MIB  # files that are together this small are read at a time
_HELD_BYTES = 64 * MIB  # the maximum memory for their rows
_FILES_TOGETHER_MAX = 64
_READS_AT_ONCE = 2
_SMALL_AT_ONCE = 8  # where each is a request


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
    """The work of a task: rewrite one bin of a version, whose rows keep their order.

    ``written_as`` is the definition of the new files, if it is another one with the same columns.
    """

    table: TaskTable
    written_as: TaskTable | None = None

    def __call__(self, each: Bin) -> RewrittenBin:
        """The new files are durable when it returns, and deleted if it raises."""
        store = self.table.files
        with UnsentFiles(store.files) as unsent:
            rewritten = BinRewriter(store, self.table, unsent, self.written_as).rewrite(each)
            unsent.mark_sent()  # from here on the receiver owns the files
            return rewritten


class BinRewriter:
    """Rewrites bins of one version of a table. One thread. ``written_as`` is as for `RewriteBins`."""

    def __init__(
        self, store: TableFiles, table: DefinedTable, unsent: UnsentFiles, written_as: DefinedTable | None = None
    ) -> None:
        self._store = store
        self._unsent = unsent
        self._version = table.version
        self._rows = FileRows(store, table)
        self._vectors = DeletionVectorReader(store, table.version)
        self.schema = self._rows.schema
        new = written_as or table
        plan = WritePlan.of(new.metadata, table=store.uri, read_version=table.version, schema=new.schema, rows="old")
        plan = plan if self._rows.ids is None else self._rows.ids.plan(plan)
        self._plan = replace(
            plan,
            target_file_size_bytes=_ONE_FILE_BYTES,
            max_records_per_file=None,
            memory_budget_bytes=_MEMORY_BYTES,
        )
        self._job_id = ambient.uuid4()
        self._task_ids = itertools.count()

    def rewrite(self, each: Bin) -> RewrittenBin:
        """Write the new file of a bin, with the rows in the order of its files.

        Raises ``NotFoundError``, ``CorruptLogError``, ``StorageError`` if a source cannot be read; an unfinished new
        file is then removed.
        """
        sources: list[RewrittenFile] = []
        files = self.write(self._live_rows(each, sources))
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
        """Write one file of these rows; none if there is no row.

        Uses one encoder: with two, the row groups would alternate between two files.
        """
        task = TaskIdentity(self._job_id, next(self._task_ids))
        stream = DataStream(self.schema, batches)
        files = write_task(self._store.files, self._plan, task, stream, encoders=1).files
        self._unsent.own(file.path for file in files)
        return files

    def _live_rows(self, each: Bin, sources: list[RewrittenFile]) -> Iterator[pa.RecordBatch]:
        """The rows of each file in turn; ``sources`` gets a file when its last row was taken.

        Several small files are read together, on two threads, and come as one batch: each batch costs time in later
        steps.
        """
        first = 0
        for files, found in parallel_map(self._read_small, _together(each.files), threads=_READS_AT_ONCE):
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

    def _read_small(
        self, files: Sequence[AddFile]
    ) -> tuple[Sequence[AddFile], tuple[list[int], pa.RecordBatch | None] | None]:
        """The number of live rows in each file, and all their rows.

        None for a large file, and for files whose rows take much more memory than the files: these are read in pieces.
        """
        if files[0].size > _SMALL_BYTES:
            return files, None
        counts: list[int] = []
        batches: list[pa.RecordBatch] = []
        held_bytes = 0
        cheap = self._store.has_cheap_calls
        for found in (
            map(self._few_rows, files) if cheap else parallel_map(self._few_rows, files, threads=_SMALL_AT_ONCE)
        ):
            held_bytes += sum(batch.nbytes for batch in found or ())
            if found is None or held_bytes > _HELD_BYTES:
                return files, None
            counts.append(sum(batch.num_rows for batch in found))
            batches += found
        return files, (counts, pa.concat_batches(batches) if batches else None)

    def _few_rows(self, add: AddFile) -> list[pa.RecordBatch] | None:
        """The live rows of one file; None if they take too much memory."""
        most_bytes = _HELD_BYTES if self._store.has_cheap_calls else _HELD_BYTES // _SMALL_AT_ONCE
        held_bytes = 0
        found: list[pa.RecordBatch] = []
        for batch in self.live_batches(add):
            held_bytes += batch.nbytes
            found.append(batch)
            if held_bytes > most_bytes:
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


def _together(files: Sequence[AddFile]) -> Iterator[Sequence[AddFile]]:
    """Runs of small files that are read together; a large file is a run by itself."""
    run: list[AddFile] = []
    size_bytes = 0
    for add in files:
        size_bytes += add.size
        if run and (size_bytes > _SMALL_BYTES or len(run) >= _FILES_TOGETHER_MAX):
            yield run
            run, size_bytes = [], add.size
        run.append(add)
    if run:
        yield run
