"""`RowWork`: what an operation does to the rows of data files. It looks into each file once, and writes what changes.

In: a `RowOperation` and live files. Out: `RowsDone` for one version of the table. Between versions it keeps only what
cannot change: which rows of an immutable file match, what a vector with a given id marks, and files written for exactly
the same rows.

Theory of operation. T(f), the rows of file f that match, is looked up once. On a version with dead rows D(f), the rows
T(f) - D(f) are removed: by a vector that marks both D(f) and these rows, by a copy without them, or, if no row is left,
with the whole file. New versions of rows (images) and source rows go to new files.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from txlog.core import ambient
from txlog.core.changes.tasks._file_rows import FileRows
from txlog.core.changes.tasks._operation import KnownFiles, MatchedFile, MatchedRows, RowOperation
from txlog.core.changes.tasks._rewrite import Changed, FileRewriter
from txlog.core.format.actions import AddFile, FileId, LiveKey
from txlog.core.format.bitmaps import are_absent, bitmap_of, unpack
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.file_columns import live_rows
from txlog.core.format.schema import Field
from txlog.core.format.statistics_read import num_records
from txlog.core.format.tombstones import is_tombstones
from txlog.core.parallel import parallel_map
from txlog.core.progress import OnDone
from txlog.core.reading import DeletionVectorReader
from txlog.core.store import TableFiles
from txlog.core.writing import UnsentFiles
from txlog.errors import TxlogError
from txlog.result import WriteMetrics

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyroaring import BitMap64

    from txlog.core.changes.tasks._change_files import ChangesOfFiles

_LOOK_UPS_AT_ONCE = 2
_REQUESTS_AT_ONCE = 16
SMALL_BYTES = 1 << 20
TRIED = 64  # how many small files tell whether most files match
_WORTH_HOLDING = 4  # of so many files, one has to match, or all columns of the files are read in vain
_TOGETHER = 1 << 10  # how many small files are looked into together
FETCHED_BYTES = 16 << 20  # and how large they are where each takes a request
_BYTES_PER_S = 200e6  # first guess of the lookup speed
_FILE_S = 0.002  # additional time for each touched file: its vector is read and written
_VECTOR_S = 0.0005  # time to read a vector that replaced a known one


class _Rate(msgspec.Struct):
    """How fast files were looked into so far."""

    size_bytes: float = _BYTES_PER_S
    seconds: float = 1.0

    def seconds_for(self, size_bytes: float) -> float:
        return size_bytes * self.seconds / self.size_bytes


class RowsDone(msgspec.Struct, frozen=True):
    """What was done to the rows of files that a change looked into, on one version.

    Attributes:
        operation: The operation.
        rows: Reads the files.
        touched: The files with live rows that match.
        is_written: Which source rows are written; None if there is no source, or other tasks write its rows.
        changed: The replacements of the files.
        counts: The numbers of inserted, updated and deleted rows.
        tombstones: Files of deleted keys; None if the operation leaves none.
    """

    operation: RowOperation
    rows: FileRows
    touched: Sequence[MatchedFile]
    is_written: NDArray[np.bool_] | None
    changed: Changed
    counts: tuple[int, int, int]
    tombstones: Sequence[AddFile] | None = None

    def row_changes(self) -> ChangesOfFiles:
        """The same for the change data feed."""
        from txlog.core.changes.tasks._change_files import ChangesOfFiles

        going = [each for each in self.touched if len(each.replaced)]
        marked = [(add, vector) for add, vector, _ in self.changed.marked]
        return ChangesOfFiles(self.operation, self.rows, going, self.is_written, marked, self.changed.new_files)

    def metrics(self, whole: Sequence[AddFile] = ()) -> WriteMetrics:
        """The numbers, including files removed as a ``whole`` without a look into them."""
        changed, (inserted, updated, deleted) = self.changed, self.counts
        return WriteMetrics(
            rows=inserted + updated,
            files=len(changed.new_files),
            bytes=sum(file.size_bytes for file in changed.new_files) + changed.vector_bytes,
            files_removed=len(whole) + len(changed.removed),
            rows_inserted=inserted,
            rows_updated=updated,
            rows_deleted=deleted + sum(map(live_rows, whole)),
            rows_copied=changed.rows_copied,
            vectors=len(changed.marked),
            dead_fraction=max(changed.dead_fractions.values(), default=0.0),
        )


_NONE_DEAD = unpack(b"")
_counted = functools.lru_cache(maxsize=256)(num_records)
"""Small changes in a row ask again and again about the same files."""


class _KnownFiles(msgspec.Struct):
    """What is known about immutable files and vectors."""

    hits: dict[FileId, MatchedRows] = msgspec.field(default_factory=dict)
    dead: dict[LiveKey, BitMap64] = msgspec.field(default_factory=dict)
    num_rows: dict[FileId, int] = msgspec.field(default_factory=dict)


def _held_fields(table: DefinedTable, operation: RowOperation, *, with_vectors: bool) -> tuple[Field, ...]:
    """The columns that are needed again after the look-up: of copies and changes all, with vectors what new versions of
    rows are made from."""
    if table.properties.enable_row_tracking:  # copies read the ids too
        return ()
    if with_vectors and not table.properties.enable_change_data_feed:
        return operation.image_fields if operation.makes_images else ()
    return table.schema.fields


def _together(adds: Sequence[AddFile], bytes_max: int | None = None) -> Iterator[Sequence[AddFile]]:
    """Small files in groups: a few first, which tell whether most match."""
    some: list[AddFile] = []
    most, room_bytes = TRIED, bytes_max or 0
    for add in adds:
        if some and (len(some) >= most or (bytes_max is not None and add.size > room_bytes)):
            yield some
            some, most, room_bytes = [], _TOGETHER, bytes_max or 0
        some.append(add)
        room_bytes -= add.size
    if some:
        yield some


class RowWork:
    """Does what an operation means to data files. One thread.

    Args:
        store: The table's files.
        table: The definition that the operation is bound to.
        operation: The operation.
        unsent: Owns what is written.
        with_vectors: Whether deletion vectors remove rows, or their files are rewritten.
        adds_source_rows: Whether to write the source rows too; False if other tasks do that.
        parquet: Settings for the new files, by the names of table properties, which win over the table's.
        vectors: Returns the dead rows of files that the table's handle knows.
    """

    def __init__(
        self,
        store: TableFiles,
        table: DefinedTable,
        operation: RowOperation,
        unsent: UnsentFiles,
        *,
        with_vectors: bool,
        adds_source_rows: bool = True,
        parquet: Mapping[str, str] | None = None,
        vectors: Callable[[], Mapping[LiveKey, BitMap64]] = dict,
    ) -> None:
        self._store = store
        self._operation = operation
        self._with_vectors = with_vectors
        self._adds_source_rows = adds_source_rows
        self._known_vectors = vectors
        held = _held_fields(table, operation, with_vectors=with_vectors)
        self.rows = FileRows(store, table, held, opens_once=True)
        self.rewriter = FileRewriter(
            store, table, operation, self.rows, unsent, with_vectors=with_vectors, parquet=parquet
        )
        self._seen = _KnownFiles()
        self._rate = _Rate()

    # --- which rows -----------------------------------------------------------------------------------------

    def knows(self, key: LiveKey) -> bool:
        """Whether this file was looked into."""
        return key[0] in self._seen.hits

    def matches(self, key: LiveKey) -> bool:
        """Whether a row of this file matches; the file was looked into."""
        return len(self._seen.hits[key[0]].positions) > 0

    def recall(self, known: KnownFiles, files: Sequence[FileId], *, are_all_live: bool) -> dict[FileId, MatchedRows]:
        """The files that earlier changes of the handle looked into: `KnownFiles.recall`."""
        found = self._operation.hits_at(known.recall(files, are_all_live=are_all_live))
        self._seen.hits.update(found)
        return found

    def look_into(self, adds: Sequence[AddFile], on_progress: OnDone | None = None) -> None:
        """Find the rows of these files that match. ``on_progress`` is called with the files done and all files."""
        if not adds:
            return
        started_s = ambient.monotonic_s()
        known = self._operation.known
        kept = {} if known is None else self._operation.hits_at(known.find_kept(adds))
        self._seen.hits.update(kept)
        all_adds, adds = adds, [add for add in adds if add.file_id not in kept]
        largest_first = sorted(adds, key=lambda add: -add.size)
        large = bisect.bisect_left(largest_first, -SMALL_BYTES, key=lambda add: -add.size)
        self.rows.one_thread_a_file = large > 1 and (os.cpu_count() or 1) <= _LOOK_UPS_AT_ONCE
        looked_up = itertools.chain(
            parallel_map(self._looked_up, largest_first[:large], threads=_LOOK_UPS_AT_ONCE),
            self._small_looked_up(largest_first[large:]),
        )
        for done, (add, hits) in enumerate(looked_up, start=1 + len(kept)):
            self._seen.hits[add.file_id] = hits
            if on_progress is not None:
                on_progress(done, len(all_adds))
        if known is not None:
            known.keep()
        self._rate.size_bytes += sum(add.size for add in adds)
        self._rate.seconds += ambient.monotonic_s() - started_s

    def _looked_up(self, add: AddFile) -> tuple[AddFile, MatchedRows]:
        return add, self._operation.look_up(self.rows, add)

    def _small_looked_up(self, adds: Sequence[AddFile]) -> Iterator[tuple[AddFile, MatchedRows]]:
        """Small files cost mostly Python time, and threads would hinder each other: only requests overlap."""
        for some in self._fetched(adds):
            matching = 0
            for add, hits in zip(some, self._operation.look_up_all(self.rows, some), strict=True):
                if len(hits.positions):
                    matching += 1
                    self.rows.keep_body(add)
                yield add, hits
            self.rows.expects_changes = matching * _WORTH_HOLDING >= len(some)

    def _fetched(self, adds: Sequence[AddFile]) -> Iterator[Sequence[AddFile]]:
        """The small files to look into together. If each takes a request, they are in memory then, and the next ones
        are read meanwhile."""
        if self._store.has_cheap_calls:
            yield from _together(adds)
            return
        groups = list(_together(adds, FETCHED_BYTES))
        for some, bodies in zip(groups, parallel_map(self.rows.bodies, groups, threads=1), strict=True):
            with self.rows.holding(bodies):
                yield some

    def touched(self, adds: Sequence[AddFile], version: int) -> list[MatchedFile]:
        """Which of these files, all looked into, have matching live rows, as the operation decides."""
        vectors = DeletionVectorReader(self._store, version)
        touched = partial(self._touched, vectors=vectors)
        cheap = self._store.has_cheap_calls
        found = list(map(touched, adds) if cheap else parallel_map(touched, adds, threads=_REQUESTS_AT_ONCE))
        tombstones = [each for each in found if is_tombstones(each.add)]
        with TxlogError.located(self._store.uri, version):
            return self._operation.decided([each for each in found if each.live.any()], tombstones)

    def _touched(self, add: AddFile, vectors: DeletionVectorReader) -> MatchedFile:
        hits, num_rows = self._seen.hits[add.file_id], self._count(add)
        dead = self._dead_rows(add, num_rows, vectors)
        live = are_absent(hits.positions, dead)
        replaced = hits.positions[live if hits.is_replaced is None else live & hits.is_replaced]
        is_doubtful = len(hits.positions) > 0 and hits.positions[-1] >= num_rows
        if is_doubtful or len(dead) + len(replaced) >= num_rows:
            # The file itself decides whether a row is left: too low a count would lose the other rows.
            num_rows = self._seen.num_rows[add.file_id] = self.rows.count(add)
        return MatchedFile(add, num_rows, dead, hits, live, replaced)

    def _dead_rows(self, add: AddFile, num_rows: int, vectors: DeletionVectorReader) -> BitMap64:
        if add.deletion_vector is None:
            return _NONE_DEAD
        key = add.live_key
        found = self._seen.dead.get(key)
        if found is None:
            found = self._known_vectors().get(key)
            if found is None:
                found = bitmap_of(vectors.dead_rows(add.deletion_vector, num_rows))
            self._seen.dead[key] = found
        return found

    def _count(self, add: AddFile) -> int:
        """The number of all rows of a file: from the log or, if the log lacks it, from the file's footer."""
        found = self._seen.num_rows.get(add.file_id)
        if found is None:
            counted = _counted(add.stats)
            found = self._seen.num_rows[add.file_id] = self.rows.count(add) if counted is None else counted
        return found

    def forget(self, live: set[LiveKey]) -> None:
        """Forget vectors that are no longer live, so a file that comes back (RESTORE) is looked into again."""
        seen = self._seen
        seen.dead = {key: dead for key, dead in seen.dead.items() if key in live}
        files = {file for file, _ in live}
        seen.hits = {file: hits for file, hits in seen.hits.items() if file in files}

    # --- what is written ------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def writing_source(self) -> Iterator[None]:
        """Write the source rows meanwhile, if all of them are written whatever they match."""
        if self._adds_source_rows and self._operation.writes_every_source_row:
            self.rewriter.begin_source(self._operation.num_source_rows)
        try:
            yield
        finally:
            self.rewriter.join_source()

    def write(self, touched: Sequence[MatchedFile]) -> RowsDone:
        """Replace these files, and write the source rows that are due."""
        is_written, counts = self._counted(touched)
        changed = self.rewriter.change(touched, is_written)
        rows = self._operation.tombstones() if is_written is not None else None
        tombstones = None if rows is None else self.rewriter.tombstones(rows)
        return RowsDone(self._operation, self.rows, touched, is_written, changed, counts, tombstones)

    def would_do(self, touched: Sequence[MatchedFile], whole: Sequence[AddFile]) -> WriteMetrics:
        """What `write` and the removal of files as a ``whole`` would do, without writing anything."""
        _, (inserted, updated, deleted) = self._counted(touched)
        changed = [each for each in touched if len(each.replaced)]
        left = [each.num_rows - len(each.dead) - len(each.replaced) for each in changed]
        marked = sum(rows > 0 for rows in left) if self._with_vectors else 0
        return WriteMetrics(
            rows=inserted + updated,
            files_removed=len(whole) + len(changed) - marked,
            rows_inserted=inserted,
            rows_updated=updated,
            rows_deleted=deleted + sum(map(live_rows, whole)),
            rows_copied=0 if self._with_vectors else sum(left),
            vectors=marked,
        )

    def _counted(self, touched: Sequence[MatchedFile]) -> tuple[NDArray[np.bool_] | None, tuple[int, int, int]]:
        """Which source rows are written here, and the numbers of inserted, updated and deleted rows."""
        is_written = self._operation.inserted(touched) if self._operation.has_source else None
        counts = self._operation.counts(touched, is_written)
        return (is_written, counts) if self._adds_source_rows else (None, (0, *counts[1:]))

    # --- what it costs, and what later changes may use ------------------------------------------------------

    def cost_s(self, live: Sequence[LiveKey], new: Sequence[AddFile]) -> float:
        """The estimated seconds to look into the ``new`` files, and to write everything again."""
        changed = sum(self._has_unread_vector(key) for key in live)
        to_read_s = self._rate.seconds_for(sum(add.size for add in new))
        return to_read_s + _FILE_S * len(new) + _VECTOR_S * changed + self.rewriter.repeated_work_s

    def _has_unread_vector(self, key: LiveKey) -> bool:
        """Whether a file got a new vector after it was looked into, and has rows that match."""
        hits = None if key[1] is None or key in self._seen.dead else self._seen.hits.get(key[0])
        return hits is not None and len(hits.positions) > 0

    def live_vectors(self, live: set[LiveKey]) -> dict[LiveKey, BitMap64]:
        """The known dead rows of files once the last `write` is committed. ``live`` was known before."""
        written = self.rewriter.vectors
        found = {**self._known_vectors(), **self._seen.dead}
        vectors = {key: found[key] for key in found.keys() & live if key not in written}
        return vectors | {(key[0], descriptor.unique_id): dead for key, (dead, descriptor) in written.items()}

    def keep_written(self) -> None:
        """Let later changes know the files with the source rows, once they are committed."""
        if self.rewriter.source_files is not None:
            is_written, files = self.rewriter.source_files
            self._operation.keep_written(files, is_written)
