"""Rewrites a bin so that rows near each other in several columns share files, in the order of one Hilbert curve.

In: the files of a bin. Out: for each part of the curve a `FileOfBin`, and for each file of the bin a `SourceReport`.

    sample of keys -> curve (`Curve`) -> each row to its part of the curve -> each part sorted, in one file

Tasks of three kinds do it: `SampleKeys` and `RouteRows` read files of the bin, `WriteFile` writes a file of the curve.
Between the last two, workers exchange rows as Arrow bytes (``Workers.shuffle``), so no row is converted. A row's number
is its file's number, shifted, plus its rank among the file's live rows: so no task needs to know how many
rows other files have. Each new file's numbers are kept next to it, so that a row that another writer deletes meanwhile
can be found in the new files.
"""

from __future__ import annotations

import itertools
import pickle
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from txlog.core import ambient
from txlog.core.changes.tasks import FileRows, TaskTable
from txlog.core.format.actions import AddFile, FileId
from txlog.core.format.arrow.arrays import from_numbers
from txlog.core.format.schema import Field, type_to_arrow
from txlog.core.format.statistics_read import num_records
from txlog.core.maintenance.rewriting._curve import ClusterColumns, Curve
from txlog.core.maintenance.rewriting._hilbert import stable_order
from txlog.core.maintenance.rewriting._rewrite_bin import BinRewriter, FileOfBin, small_runs
from txlog.core.parallel import parallel_map
from txlog.core.predicates.terms.predicate import resolve
from txlog.core.writing import UnsentFiles

if TYPE_CHECKING:
    from numpy.typing import NDArray

SOURCES = -1
"""The group in which tasks report the files that they routed; other groups are new files."""

Piece: TypeAlias = tuple[int, int, bytes]
"""A group, the part of the curve, and rows of the part as an Arrow stream."""

_SHIFT = 40
_HELD_BYTES = 64 << 20


def first_of(number: int) -> int:
    """The number of the first live row of a file."""
    return number << _SHIFT


class NumberedFile(NamedTuple):
    """A file with a number that no other file of the same commit has."""

    number: int
    add: AddFile


class SourceReport(NamedTuple):
    """What became of a file: its rows, the positions of the dead ones, and how many were routed."""

    number: int
    num_rows: int
    dead: NDArray[np.uint64]
    num_live: int


class SampledFiles(NamedTuple):
    """Files of a bin of which every ``step``-th row is chosen. The ``measured`` ones show how large rows are."""

    step: int
    adds: Sequence[AddFile]
    measured: Sequence[AddFile]


class KeySample(NamedTuple):
    """One array for each column; and how many bytes the rows of the measured files take in memory."""

    columns: list[pa.Array]
    size_bytes: float
    num_rows: int


class SampleKeys(msgspec.Struct, frozen=True):
    """The work of a task: some rows of the key columns of some files, dead rows included."""

    table: TaskTable
    columns: ClusterColumns

    def __call__(self, files: SampledFiles) -> KeySample:
        """Files of which no row is chosen are not read. Raises what `BinRewriter.rewrite` raises."""
        store = self.table.files
        rows = FileRows(store, self.table, opens_once=True)
        names = dict.fromkeys(path[0] for path in self.columns.paths)
        fields = tuple(member for member in self.table.schema.fields if member.name in names)
        kinds = [type_to_arrow(resolve(path, self.table.schema)[1]) for path in self.columns.paths]
        found: list[list[pa.Array]] = [[pa.array([], kind)] for kind in kinds]
        # Not the first row of every file, which may be unlike the others.
        offsets = {add.file_id: zlib.crc32(add.path.encode()) % files.step for add in files.adds}
        counts = [num_records(add.stats) for add in files.adds]
        read = [
            add for add, count in zip(files.adds, counts, strict=True) if count is None or count > offsets[add.file_id]
        ]
        for of_rows, positions, batch in _positioned(rows, fields, read, offsets):
            taken = from_numbers(np.flatnonzero(positions % files.step == of_rows))
            named = pa.RecordBatch.from_arrays(batch.columns, names=[member.name for member in fields])
            for columns, column in zip(found, self.columns.values(named), strict=True):
                columns.append(column.take(taken))
        apply = map if store.has_cheap_calls else partial(parallel_map, threads=len(files.measured))
        sizes = list(apply(partial(_measured, rows), files.measured))
        columns = [pa.concat_arrays(arrays) for arrays in found]
        return KeySample(columns, sum(size for size, _ in sizes), sum(count for _, count in sizes))


def _positioned(
    rows: FileRows, fields: tuple[Field, ...], adds: Sequence[AddFile], values: Mapping[FileId, int]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], pa.RecordBatch]]:
    """All rows of these files, dead ones included: their file's value and their position in the file. Small files come
    together."""
    reader = rows.reader(fields)
    for run in small_runs(adds, lambda add: add.size):
        alone = [*run] if len(run) == 1 else []
        if not alone:
            with rows.holding(rows.bodies(run)):
                for joined in rows.joined(run, fields):
                    if joined.rows is None:
                        alone += joined.adds
                        continue
                    of_rows = np.repeat([values[add.file_id] for add in joined.adds], joined.counts)
                    yield of_rows, ranks_in_groups(joined.counts), joined.rows
        for add in alone:
            for positions, batch in reader.batches(add, with_dead_rows=True):
                yield np.array([values[add.file_id]]), positions, batch


def ranks_in_groups(counts: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    """For groups of so many rows, one after the other, the place of each row in its group."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)


def _measured(rows: FileRows, add: AddFile) -> tuple[float, int]:
    """The bytes that a file's rows take in memory if all are like the first ones, and their number."""
    for _, batch in rows.live(add):
        count = num_records(add.stats) or batch.num_rows
        return batch.nbytes / batch.num_rows * count, count
    return 0.0, 0


class RoutedFiles(NamedTuple):
    """Files of a bin, with the number of its curve. ``parts_in_file`` parts are one new file: a group, from
    ``first_group``."""

    curve: int
    parts_in_file: int
    first_group: int
    files: Sequence[NumberedFile]


class RouteRows(msgspec.Struct, frozen=True):
    """The work of a task: the live rows of some files as pieces for the parts of their curve. All tasks share the
    curves."""

    table: TaskTable
    curves: tuple[Curve, ...]

    def __call__(self, routed: RoutedFiles) -> Iterator[Piece]:
        """Raises what `BinRewriter.rewrite` raises."""
        rewriter = BinRewriter(self.table.files, self.table, UnsentFiles(self.table.files.files))
        held: dict[int, list[pa.RecordBatch]] = {}
        held_bytes = 0
        reports = []
        for numbers, batch, counted in _numbered_rows(rewriter, routed.files):
            if batch is not None:
                for part, rows in self.curves[routed.curve].pieces(batch, numbers):
                    held.setdefault(part, []).append(rows)
                held_bytes += batch.nbytes
                if held_bytes > _HELD_BYTES:
                    yield from _pieces(routed, held)
                    held, held_bytes = {}, 0
            for (number, add), num_live in counted:
                source = rewriter.source(add, first_of(number), num_live)
                reports.append(SourceReport(number, source.num_rows, source.dead, num_live))
        yield from _pieces(routed, held)
        yield SOURCES, 0, pickle.dumps(reports)


def _numbered_rows(
    rewriter: BinRewriter, files: Sequence[NumberedFile]
) -> Iterator[tuple[NDArray[np.uint64], pa.RecordBatch | None, Sequence[tuple[NumberedFile, int]]]]:
    """The numbers of live rows, the rows, and the files that end with them, each with the number of its live rows.
    Small files come together, since each batch costs time in later steps."""
    for run in small_runs(files, lambda file: file.add.size):
        found = rewriter.read_small([file.add for file in run])
        if found is not None:
            counts, rows = found
            firsts = np.repeat([first_of(file.number) for file in run], counts).astype(np.uint64)
            yield firsts + ranks_in_groups(counts).astype(np.uint64), rows, list(zip(run, counts, strict=True))
            continue
        for file in run:
            num_live = 0
            for batch in rewriter.live_batches(file.add):
                first = first_of(file.number) + num_live
                yield np.arange(first, first + batch.num_rows, dtype=np.uint64), batch, ()
                num_live += batch.num_rows
            yield np.empty(0, np.uint64), None, [(file, num_live)]


def _pieces(routed: RoutedFiles, held: dict[int, list[pa.RecordBatch]]) -> Iterator[Piece]:
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    for part, batches in held.items():
        body = pa.BufferOutputStream()
        with pa.ipc.new_stream(body, batches[0].schema, options=options) as writer:
            for rows in batches:
                writer.write_batch(rows)
        yield routed.first_group + part // routed.parts_in_file, part, body.getvalue().to_pybytes()


class WriteFile(msgspec.Struct, frozen=True):
    """The work of a task: one new file of the curve, from the pieces of its parts, which come in order.

    ``folder`` is where its rows' numbers are kept: a folder of this machine, which the receiver of the result must be
    on too. None: a file in the table's folder, which the receiver deletes; a vacuum deletes those that nobody received.
    """

    table: TaskTable
    folder: str | None

    def __call__(self, group: int, pieces: Iterable[Piece]) -> FileOfBin | list[SourceReport]:
        """The file is durable when it returns, and deleted if it raises; for the group `SOURCES`, its reports."""
        if group == SOURCES:
            return [report for _, _, body in pieces for report in pickle.loads(body)]
        files = self.table.files.files
        with UnsentFiles(files) as unsent:
            rewriter = BinRewriter(self.table.files, self.table, unsent)
            numbers: list[NDArray[np.uint64]] = []
            (file,) = rewriter.write(self._sorted(rewriter.schema, pieces, numbers))
            order = np.concatenate(numbers)
            if self.folder is None:
                new = FileOfBin(file, stored_order=rewriter.store_order(order))
            else:
                path = Path(self.folder, f"order-{ambient.uuid4()}.npy")
                np.save(path, order)
                new = FileOfBin(file, path)
            unsent.mark_sent()  # from here on the receiver owns the files
            return new

    def _sorted(
        self, schema: pa.Schema, pieces: Iterable[Piece], numbers: list[NDArray[np.uint64]]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one part after another, each in the order of the curve."""
        for _, part in itertools.groupby(pieces, key=lambda piece: piece[1]):
            tables = [pa.ipc.open_stream(body).read_all() for _, _, body in part]
            # Where each piece is of a range of files, this order spares the sort by the rows' numbers.
            tables.sort(key=lambda rows: rows.column(rows.num_columns - 2)[0].as_py())
            rows = pa.concat_tables(tables).combine_chunks()
            for batch in rows.to_batches():  # one, unless it cannot hold all the text
                own, distances = (batch.column(batch.num_columns - at).to_numpy() for at in (2, 1))
                is_sorted = bool((own[1:] > own[:-1]).all())
                order = stable_order(distances) if is_sorted else np.lexsort((own, distances))
                batch = batch.take(pa.array(order))
                numbers.append(own[order])
                yield pa.RecordBatch.from_arrays(batch.columns[:-2], schema=schema)
