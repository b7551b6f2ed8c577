"""Writes what replaces files with removed rows: vectors or copies, and files with images and source rows.

In: the touched files of one version. Out: the ``add`` actions that replace them; everything they name is durable. Files
of an earlier execution are reused only if they hold exactly what this one needs. The others stay, since a commit of
ours may be on its way; vacuum removes them. Before the first put, all of them belong to `UnsentFiles`, which deletes
them if nothing is sent.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.changes.tasks._file_rows import FileRows, RowsAt
from txlog.core.changes.tasks._operation import Images, MatchedFile, MatchedRows, RowOperation
from txlog.core.changes.tasks._small_files import HELD_FILE_BYTES, HeldFile
from txlog.core.format.actions import AddFile, DeletionVectorDescriptor, FileId, LiveKey
from txlog.core.format.arrow.arrays import from_flags, from_numbers
from txlog.core.format.bitmaps import bitmap_of, numbers_of
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.schema import Field
from txlog.core.parallel import Threads, begin, parallel_map
from txlog.core.store import TableFiles
from txlog.core.util import Apply
from txlog.core.writing import (
    DataStream,
    TaskCommitter,
    TaskIdentity,
    TaskWriter,
    UnsentFiles,
    WritePlan,
)
from txlog.core.writing.committable import PendingFile

if TYPE_CHECKING:
    from concurrent.futures import Future

    from numpy.typing import NDArray
    from pyroaring import BitMap64

    from txlog.core.changes.tasks._spliced_copies import SplicedCopies

_ONE_FILE_BYTES = 1 << 62
_NO_ID = (1 << 63) - 1
ALONE_BYTES = 4 << 20  # up to this size, one thread reads the files: a second one costs more than it saves
_HELD_BYTES = 16 << 20
_SMALL_AT_ONCE = 16
_REQUESTS_AT_ONCE = 32
JOINED_BYTES = 1 << 20
FEW_ROWS = 1 << 14
_COPIES_AT_ONCE = 3  # two encode while one waits for the disk


class Changed(msgspec.Struct, frozen=True):
    """The replacements for the touched files that lose rows. Sizes in bytes."""

    marked: list[tuple[AddFile, DeletionVectorDescriptor, str]]
    """Files with their new vectors and matching statistics."""
    removed: list[AddFile]
    new_files: list[PendingFile]
    vector_bytes: int = 0
    rows_copied: int = 0
    dead_fractions: Mapping[FileId, float] = msgspec.field(default_factory=dict)
    """The fraction of dead rows in each marked file, by path."""


class _Images(msgspec.Struct, frozen=True):
    """New versions of rows, by the replaced rows' positions in each file."""

    basis: dict[FileId, NDArray[np.uint64]]
    files: tuple[PendingFile, ...]


class _SourceFiles(msgspec.Struct, frozen=True):
    """Which source rows were written, with which ids, after how many decisions of the operation."""

    is_written: NDArray[np.bool_]
    ids: NDArray[np.int64] | None
    num_decisions: int
    files: tuple[PendingFile, ...]

    def is_for(self, other: _SourceFiles) -> bool:
        """Whether the files of ``other`` hold the same rows."""
        is_same = self.num_decisions == other.num_decisions and _are_equal(self.ids, other.ids)
        return is_same and np.array_equal(self.is_written, other.is_written)


class _Copies(msgspec.Struct, frozen=True):
    """Files with the copy of a file, or of several small ones, without the ``replaced`` rows of each."""

    replaced: dict[LiveKey, NDArray[np.uint64]]
    files: tuple[PendingFile, ...]

    def is_for(self, wanted: Mapping[LiveKey, NDArray[np.uint64]]) -> bool:
        """Whether just these rows are to be replaced in each of its files."""
        return all(key in wanted and np.array_equal(wanted[key], rows) for key, rows in self.replaced.items())


class _JoinedCopies(msgspec.Struct, frozen=True):
    """Files with the copies of small files and with source rows, and what they were written for."""

    replaced: dict[LiveKey, NDArray[np.uint64]]
    source: _SourceFiles


class _Written(msgspec.Struct):
    """What earlier executions wrote, and what for."""

    vectors: dict[LiveKey, tuple[BitMap64, DeletionVectorDescriptor]] = msgspec.field(default_factory=dict)
    copies: list[_Copies] = msgspec.field(default_factory=list)
    images: list[_Images] = msgspec.field(default_factory=list)
    source: _SourceFiles | None = None
    joined: _JoinedCopies | None = None
    tombstones: tuple[pa.RecordBatch, list[AddFile]] | None = None
    seconds: float = 0.0


class _RowsInMemory(msgspec.Struct, frozen=True):
    """A file whose rows are in memory, in a batch of more; and positions of rows in the file."""

    file: MatchedFile
    positions: NDArray[np.uint64]
    at: HeldFile

    @property
    def places(self) -> NDArray[np.int64]:
        """Where the rows are in the batch."""
        return self.positions.astype(np.int64) + self.at.first

    def mark_left(self, is_left: NDArray[np.bool_]) -> None:
        """Mark its rows that are neither dead nor at the positions."""
        here = is_left[self.at.first : self.at.first + self.at.count]
        here[:] = True
        here[numbers_of(self.file.dead).astype(np.int64)] = False
        here[self.positions.astype(np.int64)] = False


class FileRewriter:
    """Replaces files of one table for one operation. One thread."""

    def __init__(
        self,
        store: TableFiles,
        table: DefinedTable,
        operation: RowOperation,
        rows: FileRows,
        unsent: UnsentFiles,
        *,
        with_vectors: bool,
        parquet: Mapping[str, str] | None = None,
    ) -> None:
        self._store, self._files = store, store.files
        self._are_requests = not store.has_cheap_calls
        self._unsent = unsent
        self._operation = operation
        self._rows = rows
        self._with_vectors = with_vectors
        # Not where a file costs a request: a file of source rows alone need not be opened when they are replaced.
        self._may_join_source = not with_vectors and not self._are_requests
        self._parquet = parquet
        self._schema = rows.schema
        self._uri = store.uri
        self.bind(table)
        self._job_id = ambient.uuid4()
        self._task_ids = itertools.count()
        self._written = _Written()
        self._dictionary: tuple[str, ...] | None = None
        self._source_on_its_way: Future[tuple[PendingFile, ...]] | None = None

    @property
    def source_files(self) -> tuple[NDArray[np.bool_], tuple[PendingFile, ...]] | None:
        """The source rows that were written last, and their files, in order; None before the first write."""
        found = self._written.source
        return None if found is None else (found.is_written, found.files)

    @property
    def vectors(self) -> dict[LiveKey, tuple[BitMap64, DeletionVectorDescriptor]]:
        """The vectors that were written last, by file and replaced vector."""
        return self._written.vectors

    def bind(self, table: DefinedTable) -> None:
        """From now on, write with this version's properties. Its schema must be the same."""
        plan = WritePlan.of_table(table, self._uri, rows="completed", parquet=self._parquet)
        self._plan = plan if self._rows.ids is None else self._rows.ids.plan(plan)
        self._spliced = None if self._with_vectors or self._parquet else self._splicing(table)

    def _splicing(self, table: DefinedTable) -> SplicedCopies:
        """Not used where somebody says how new files are encoded: all of them are encoded so."""
        from txlog.core.changes.tasks._spliced_copies import SplicedCopies

        return SplicedCopies(self._store, table, self._operation, self._rows, self._plan)

    @property
    def repeated_work_s(self) -> float:
        """The estimated time to rewrite images and copies, which a lost race may require."""
        return self._written.seconds

    def begin_source(self, num_rows: int) -> None:
        """Start writing all source rows during the lookup, unless they are already written.

        Does nothing for a table that tracks rows: there, rows that replace others keep their ids. Few rows wait, since
        they may go into the files of copies. `join_source` or `change` must follow, even after an exception.
        """
        is_begun = self._written.source is not None or self._source_on_its_way is not None
        if is_begun or self._rows.ids is not None or (self._may_join_source and num_rows <= FEW_ROWS):
            return
        worker = Threads(1, "txlog-source", idle_s=0.0)
        self._source_on_its_way = worker.submit(self._source, np.ones(num_rows, dtype=bool), None)

    def _begin_many(self, touched: Sequence[MatchedFile], is_written: NDArray[np.bool_]) -> None:
        """Start writing many source rows beside the copies, which wait for each other at their end."""
        left = self._operation.beside_files(is_written)
        if self._source_on_its_way is None and np.count_nonzero(left) > FEW_ROWS:
            ids = self._source_ids(touched, len(left))
            worker = Threads(1, "txlog-source", idle_s=0.0)
            self._source_on_its_way = worker.submit(self._source, left, ids)

    def join_source(self) -> None:
        """Wait until the source rows are written. Raises that write's error, if there is one."""
        on_its_way, self._source_on_its_way = self._source_on_its_way, None
        if on_its_way is not None:
            on_its_way.result()

    def change(self, touched: Sequence[MatchedFile], is_written: NDArray[np.bool_] | None) -> Changed:
        """The files that replace ``touched``, and the files with the source rows."""
        touched = [each for each in touched if len(each.replaced)]
        started_s = ambient.monotonic_s()
        if self._with_vectors:
            marked = partial(self._marked, touched)
            on_its_way = begin(marked) if self._are_requests else marked
            images = self._images(touched) if self._operation.makes_images else []
            changed = on_its_way()
            new = [file for each in images for file in each.files]
        else:
            small = () if is_written is None else self._joins_source(touched, is_written)
            if is_written is not None and not small:
                self._begin_many(touched, is_written)
            changed = self._copied(touched, {each.add.live_key for each in small})
            new = []
            if small and is_written is not None:
                new += self._copied_with_source(small, is_written, self._source_ids(touched, len(is_written)))
                is_written = None
        self._written.seconds = ambient.monotonic_s() - started_s
        self.join_source()
        new += self._operation.source_files or ()
        if is_written is not None:
            left = self._operation.beside_files(is_written)
            new += self._source(left, self._source_ids(touched, len(left)) if left.any() else None)
        return replace(changed, new_files=[*changed.new_files, *new])

    # --- vectors --------------------------------------------------------------------------------------------

    def _marked(self, touched: Sequence[MatchedFile]) -> Changed:
        """The same files with vectors that also mark the removed rows; files without a remaining row are left out."""
        from txlog.core.format.deletion_vector import vector_files
        from txlog.core.format.wide_statistics import wide_statistics
        from txlog.core.writing import write_vectors

        left: list[tuple[LiveKey, MatchedFile, BitMap64]] = []
        removed: list[AddFile] = []
        known: dict[LiveKey, tuple[BitMap64, DeletionVectorDescriptor]] = {}
        new: list[tuple[LiveKey, BitMap64]] = []
        for each in touched:
            key, dead = each.add.live_key, each.dead | bitmap_of(each.replaced)
            if len(dead) >= each.num_rows:
                removed.append(each.add)
                continue
            left.append((key, each, dead))
            found = self._written.vectors.get(key)
            if found is not None and found[0] == dead:
                known[key] = found
            else:
                new.append((key, dead))
        descriptors, vector_bytes = write_vectors(
            self._files, [dead for _, dead in new], random_prefix_length=self._plan.random_prefix_length
        )
        self._unsent.own(vector_files(descriptors))
        known |= {key: (dead, descriptor) for (key, dead), descriptor in zip(new, descriptors, strict=True)}
        self._written.vectors = known
        marked = [
            (
                each.add,
                known[key][1],
                wide_statistics(each.add.stats, num_records=each.num_rows, dead_before=len(each.dead)),
            )
            for key, each, _ in left
        ]
        fractions = {each.add.file_id: len(dead) / each.num_rows for _, each, dead in left}
        return Changed(marked, removed, [], vector_bytes, dead_fractions=fractions)

    # --- tombstones -----------------------------------------------------------------------------------------

    def tombstones(self, rows: pa.RecordBatch) -> list[AddFile]:
        """Files of these rows, all of which are dead from the start."""
        found = self._written.tombstones
        if found is None or not found[0].equals(rows):
            from txlog.core.changes.tasks._tombstone_files import tombstone_adds

            ids = self._rows.ids
            batch = rows if ids is None else ids.changed(rows, pa.nulls(rows.num_rows, pa.int64()))
            adds = tombstone_adds(self._files, self._write([batch], self._plan.without_rules()), self._unsent)
            found = self._written.tombstones = rows, adds
        return found[1]

    # --- images ---------------------------------------------------------------------------------------------

    def _images(self, touched: Sequence[MatchedFile]) -> list[_Images]:
        """New versions of the removed rows. Reuses earlier images if all their rows are still removed."""
        going = {each.add.file_id: each.replaced for each in touched}
        kept = [
            images
            for images in self._written.images
            if all(
                file in going and np.isin(positions, going[file], assume_unique=True).all()
                for file, positions in images.basis.items()
            )
        ]
        for images in kept:
            for file, positions in images.basis.items():
                going[file] = np.setdiff1d(going[file], positions, assume_unique=True)
        missing = [(each, going[each.add.file_id]) for each in touched if len(going[each.add.file_id])]
        if missing:
            batches = self._images_of_all(missing, self._apply_to(touched))
            basis = {each.add.file_id: positions for each, positions in missing}
            kept.append(_Images(basis, self._write(batches)))
        self._written.images = kept
        return kept

    def _images_of_all(
        self, items: Sequence[tuple[MatchedFile, NDArray[np.uint64]]], apply: Apply
    ) -> Iterator[pa.RecordBatch]:
        """The new versions of some rows of each file."""
        if not self._operation.image_fields and self._rows.ids is None:  # they are made from the source alone
            for few in _few_at_once(items):
                yield from self._images_at(None, few)
            return
        held, others = self._in_memory(items, self._operation.image_fields)
        for joined, some in held:
            yield from self._images_together(joined, some)
        yield from itertools.chain.from_iterable(apply(self._images_or_stream, others))

    def _in_memory(
        self, items: Iterable[tuple[MatchedFile, NDArray[np.uint64]]], fields: Sequence[Field]
    ) -> tuple[Sequence[tuple[pa.RecordBatch, list[_RowsInMemory]]], list[tuple[MatchedFile, NDArray[np.uint64]]]]:
        """The files whose rows are in memory with these columns, by the batch that they are in; and the others."""
        names = {field.name for field in fields}
        held: dict[int, tuple[pa.RecordBatch, list[_RowsInMemory]]] = {}
        others: list[tuple[MatchedFile, NDArray[np.uint64]]] = []
        for each, positions in items:
            found = self._rows.held(each.add, names)
            if found is None:
                others.append((each, positions))
            else:
                held.setdefault(id(found.joined), (found.joined, []))[1].append(_RowsInMemory(each, positions, found))
        return [*held.values()], others

    def _images_together(self, joined: pa.RecordBatch, held: Sequence[_RowsInMemory]) -> Iterator[pa.RecordBatch]:
        """The new versions of some rows of files that were read together."""
        names = [field.name for field in self._operation.image_fields]
        at = from_numbers(np.concatenate([each.places for each in held]))
        rows = joined.select(names).take(at) if names else None
        yield from self._images_at(rows, [(each.file, each.positions) for each in held])

    def _images_at(
        self, rows: pa.RecordBatch | None, items: Sequence[tuple[MatchedFile, NDArray[np.uint64]]]
    ) -> Iterator[pa.RecordBatch]:
        """The new versions of ``rows``, which are at these positions of these files."""
        hits = [
            each.hits
            if len(positions) == len(each.hits.positions)
            else each.hits.at(np.searchsorted(each.hits.positions, positions))
            for each, positions in items
        ]
        for batch, _ in self._operation.images(rows, MatchedRows.of_files(hits)):
            yield batch

    def _images_or_stream(self, item: tuple[MatchedFile, NDArray[np.uint64]]) -> Iterable[pa.RecordBatch]:
        """The new versions of some rows of one file: computed immediately if they are few, otherwise while they are
        consumed."""
        each, positions = item
        images = self._images_of(each, positions)
        return list(images) if each.add.size * len(positions) <= _HELD_BYTES * each.num_rows else images

    def _images_of(
        self, each: MatchedFile, positions: NDArray[np.uint64], found: Iterable[RowsAt] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The new versions of the rows at ``positions``, which are among the hits of the file. ``found`` are these
        rows, if they were read."""
        hits = each.hits.at(np.searchsorted(each.hits.positions, positions))
        ids = None if self._rows.ids is None else self._rows.ids_at(each.add, positions)
        fields = self._operation.image_fields
        kept = () if hits.values is None else hits.values.schema.names
        unread = tuple(field for field in fields if field.name not in kept)
        if not unread:
            yield from self._with_ids(self._operation.images(hits.values, hits), ids)
            return
        for here, rows in self._rows.at(each.add, positions, unread) if found is None else found:
            at = np.searchsorted(positions, here)
            some = hits.at(at)
            if some.values is not None:
                names = [field.name for field in fields]
                columns = [(some.values if name in kept else rows).column(name) for name in names]
                rows = pa.RecordBatch.from_arrays(columns, names=names)
            images = self._operation.images(rows, some)
            yield from self._with_ids(images, None if ids is None else ids.take(pa.array(at)))

    def _with_ids(self, images: Iterable[Images], ids: pa.Array | None) -> Iterator[pa.RecordBatch]:
        """``ids`` are those of all candidate rows."""
        columns = self._rows.ids
        for batch, places in images:
            yield batch if columns is None or ids is None else columns.changed(batch, ids.take(pa.array(places)))

    # --- copies ---------------------------------------------------------------------------------------------

    def _copied(self, touched: Sequence[MatchedFile], joined: Collection[LiveKey]) -> Changed:
        """A copy of each file: without dead and removed rows, with the new versions of the latter. The ``joined`` ones
        are copied with the source rows."""
        wanted = {each.add.live_key: each.replaced for each in touched if each.add.live_key not in joined}
        copies = [each for each in self._written.copies if each.is_for(wanted)]
        unknown = wanted.keys() - {key for each in copies for key in each.replaced}
        pending = self._pending_of([each for each in touched if each.add.live_key in unknown])
        task = TaskIdentity(self._job_id, next(self._task_ids))
        TaskCommitter(self._files, self._plan).seal(task, [file for _, files in pending for file in files])
        for group, files in pending:
            copies.append(_Copies({each.add.live_key: each.replaced for each in group}, files))
        self._written.copies = copies
        new = [file for each in copies for file in each.files]
        copied = sum(each.num_rows - len(each.dead) - len(each.replaced) for each in touched)
        return Changed([], [each.add for each in touched], new, rows_copied=copied)

    def _groups(self, missing: Sequence[MatchedFile]) -> list[list[MatchedFile]]:
        """The files to copy together: small ones of a partition, and of more partitions as long as they are small
        together. A lost race repeats only the groups that it is about."""
        small = [each for each in missing if self._may_join(each)]
        columns = self._plan.physical_partition_columns
        if columns:
            small.sort(key=lambda each: [each.add.partition_values.get(name) or "" for name in columns])
        groups = [[each] for each in missing if not self._may_join(each)]
        room_bytes = 0
        for each in small:
            room_bytes -= each.add.size
            if room_bytes < 0:
                groups.append([])
                room_bytes = ALONE_BYTES - each.add.size
            groups[-1].append(each)
        return groups

    def _may_join(self, each: MatchedFile) -> bool:
        """Where a file costs a request, only if no other one waits for it."""
        is_small = each.add.size <= JOINED_BYTES
        return is_small and not (self._are_requests and self._rows.held(each.add, self._schema.names) is None)

    def _pending_of(self, missing: Sequence[MatchedFile]) -> list[tuple[list[MatchedFile], tuple[PendingFile, ...]]]:
        """Groups of files with their pending copies. Small files mostly wait for the disk or the store, so they wait
        together."""
        waiting: list[list[MatchedFile]] = []
        others: list[list[MatchedFile]] = []
        for group in self._groups(missing):
            is_single = len(group) == 1 and group[0].add.size <= JOINED_BYTES
            (waiting if self._are_requests and is_single else others).append(group)
        at_once = _SMALL_AT_ONCE if _are_small(missing) else _COPIES_AT_ONCE
        pending = [
            *parallel_map(self._copy, waiting, threads=_REQUESTS_AT_ONCE),
            *parallel_map(self._copy, others, threads=at_once),
        ]
        return list(zip([*waiting, *others], pending, strict=True))

    def _copy(self, group: Sequence[MatchedFile]) -> tuple[PendingFile, ...]:
        """The pending copies of one file or of several small ones, whose names are not durable yet; () if no row is
        left."""
        if not self._operation.makes_images:
            group = [each for each in group if len(each.dead) + len(each.replaced) < each.num_rows]
        if not group:
            return ()
        if len(group) > 1:
            return self._pending(self._left_of_all(group), self._plan)[1]
        if self._spliced is not None:
            spliced = self._spliced.copy(group[0], lambda: TaskIdentity(self._job_id, next(self._task_ids)))
            if spliced is not None:
                self._unsent.own([spliced.path])
                return (spliced,)
        return self._pending(self._left_of_all(group), replace(self._plan, target_file_size_bytes=_ONE_FILE_BYTES))[1]

    def _left_of_all(self, group: Sequence[MatchedFile]) -> Iterator[pa.RecordBatch]:
        """The rows of the copies of these files."""
        held, others = self._in_memory([(each, each.replaced) for each in group], self._rows.fields)
        for joined, some in held:
            yield from self._left_together(joined, some)
        alone = [each for each, _ in others]
        small = [each for each in alone if each.add.size <= HELD_FILE_BYTES] if self._rows.ids is None else []
        if len(small) > 1:
            alone = [each for each in alone if each.add.size > HELD_FILE_BYTES]
            left = iter(small)
            for found in self._rows.joined_again([each.add for each in small]):
                files = list(itertools.islice(left, len(found.adds)))
                if found.rows is None:
                    alone += files
                else:
                    yield from self._left_together(found.rows, _in_batch(found.rows, files, found.counts))
        for each in alone:
            yield from self._left(each)

    def _left_together(self, joined: pa.RecordBatch, some: Sequence[_RowsInMemory]) -> Iterator[pa.RecordBatch]:
        """The rows of the copies of files whose rows are in a batch."""
        is_left = np.zeros(joined.num_rows, dtype=bool)
        for each in some:
            each.mark_left(is_left)
        if is_left.any():
            yield joined.select(self._schema.names).filter(from_flags(is_left))
        if self._operation.makes_images:
            yield from self._images_together(joined, some)

    def _left(self, each: MatchedFile) -> Iterator[pa.RecordBatch]:
        """The rows of a copy. A small file is read once."""
        removed: list[RowsAt] | None = [] if each.add.size <= JOINED_BYTES else None
        for _, batch in self._rows.live(each.add, each.replaced, removed):
            yield batch
        if self._operation.makes_images:
            yield from self._images_of(each, each.replaced, removed)

    def _joins_source(self, touched: Sequence[MatchedFile], is_written: NDArray[np.bool_]) -> Sequence[MatchedFile]:
        """The small files whose copies share new files with few source rows, so that changes of a row each do not leave
        more and more files. No file if an earlier execution wrote the source rows alone."""
        is_new = self._written.source is None and self._operation.source_files is None
        if not is_new or not self._may_join_source:
            return ()
        if not 0 < np.count_nonzero(is_written) <= FEW_ROWS:
            return ()
        small = [each for each in touched if each.add.size <= JOINED_BYTES]
        return small if _are_small(small) else ()

    def _copied_with_source(
        self, small: Sequence[MatchedFile], is_written: NDArray[np.bool_], ids: NDArray[np.int64] | None
    ) -> tuple[PendingFile, ...]:
        """Files with the rows of these copies and with the source rows: one for each partition."""
        replaced = {each.add.live_key: each.replaced for each in small}
        wanted = _SourceFiles(is_written, ids, self._operation.num_decisions, ())
        found = self._written.joined
        if found is None or not found.source.is_for(wanted) or not _have_equal_values(found.replaced, replaced):
            files = self._write(itertools.chain(self._left_of_all(small), self._source_rows(is_written, ids)))
            found = self._written.joined = _JoinedCopies(replaced, replace(wanted, files=files))
        return found.source.files

    # --- rows of the source ---------------------------------------------------------------------------------

    def _source(self, is_written: NDArray[np.bool_], ids: NDArray[np.int64] | None) -> tuple[PendingFile, ...]:
        """Files of these source rows; the last execution's files if rows and ids are the same."""
        found = self._written.source
        wanted = _SourceFiles(is_written, ids, self._operation.num_decisions, ())
        if found is None or not found.is_for(wanted):
            files = self._write(self._source_rows(is_written, ids)) if is_written.any() else ()
            found = self._written.source = replace(wanted, files=files)
        return found.files

    def _source_rows(self, is_written: NDArray[np.bool_], ids: NDArray[np.int64] | None) -> Iterator[pa.RecordBatch]:
        batches = self._operation.source_batches(is_written)
        if self._rows.ids is None:
            yield from batches
            return
        taken = None if ids is None else ids[is_written]
        first = 0
        for batch in batches:
            here = pa.nulls(batch.num_rows, pa.int64())
            if taken is not None:
                part = taken[first : first + batch.num_rows]
                here = pa.array(part, pa.int64(), mask=part == _NO_ID)
                first += batch.num_rows
            yield self._rows.ids.changed(batch, here)

    def _source_ids(self, touched: Sequence[MatchedFile], num_rows: int) -> NDArray[np.int64] | None:
        """For each source row, the id of the row it replaces (the lowest of several); None if it replaces none."""
        if self._rows.ids is None or self._operation.makes_images or not self._operation.replaces_rows:
            return None
        found = np.full(num_rows, _NO_ID, dtype=np.int64)
        for each in touched:
            assert each.hits.source_rows is not None
            at = np.searchsorted(each.hits.positions, each.replaced)
            ids = self._rows.ids_at(each.add, each.replaced).fill_null(_NO_ID).to_numpy(zero_copy_only=False)
            np.minimum.at(found, each.hits.source_rows[at], ids)
        return found

    def _write(self, batches: Iterable[pa.RecordBatch], plan: WritePlan | None = None) -> tuple[PendingFile, ...]:
        """Durable files of these rows, by the rules of every write: partitions, NOT NULL, statistics, footers read."""
        plan = plan or self._plan
        task, files = self._pending(batches, plan)
        return TaskCommitter(self._files, plan).seal(task, files).files

    def _pending(
        self, batches: Iterable[pa.RecordBatch], plan: WritePlan
    ) -> tuple[TaskIdentity, tuple[PendingFile, ...]]:
        """Files of these rows that `TaskCommitter` has not sealed yet, and the task that wrote them.

        The rows get their names here and their types from the writer, which takes a null struct with required fields;
        Arrow's casts refuse it.
        """
        task = TaskIdentity(self._job_id, next(self._task_ids))
        named = (pa.RecordBatch.from_arrays(batch.columns, names=self._schema.names) for batch in batches)
        # Decided once: a look at every file's rows takes a tenth of the time to write them.
        with TaskWriter(self._files, plan, task, dictionary=self._dictionary) as writer:
            writer.write(DataStream(self._schema, named))
            files = writer.close()
            self._dictionary = writer.dictionary
        self._unsent.own(file.path for file in files)
        return task, files

    def _apply_to(self, touched: Sequence[MatchedFile]) -> Apply:
        """How to read these files: on two threads, unless they are small. Small files that take requests are worked on
        in turns, so that none waits for the answers of the others."""
        is_small = _are_small(touched)
        if self._are_requests and (is_small or all(each.add.size <= JOINED_BYTES for each in touched)):
            return partial(parallel_map, threads=_REQUESTS_AT_ONCE)
        return map if is_small else parallel_map


def _few_at_once(
    items: Sequence[tuple[MatchedFile, NDArray[np.uint64]]],
) -> Iterator[list[tuple[MatchedFile, NDArray[np.uint64]]]]:
    """Positions in files: those of a file with many alone, others together as long as they are few."""
    some: list[tuple[MatchedFile, NDArray[np.uint64]]] = []
    room_rows = FEW_ROWS
    for each in items:
        room_rows -= len(each[1])
        if some and room_rows < 0:
            yield some
            some, room_rows = [], FEW_ROWS - len(each[1])
        some.append(each)
    if some:
        yield some


def _in_batch(rows: pa.RecordBatch, files: Sequence[MatchedFile], counts: NDArray[np.int64]) -> list[_RowsInMemory]:
    """Files whose rows are in a batch, one file after the other, with their replaced rows."""
    firsts = (np.cumsum(counts) - counts).tolist()
    return [
        _RowsInMemory(each, each.replaced, HeldFile(rows, first, count))
        for each, first, count in zip(files, firsts, counts.tolist(), strict=True)
    ]


def _are_small(touched: Sequence[MatchedFile]) -> bool:
    return sum(each.add.size for each in touched) <= ALONE_BYTES


def _have_equal_values(left: Mapping[LiveKey, NDArray[Any]], right: Mapping[LiveKey, NDArray[Any]]) -> bool:
    return left.keys() == right.keys() and all(np.array_equal(left[key], right[key]) for key in left)


def _are_equal(left: NDArray[np.int64] | None, right: NDArray[np.int64] | None) -> bool:
    return left is right if left is None or right is None else np.array_equal(left, right)
