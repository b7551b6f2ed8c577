"""The rows of single data files, with their positions: for row changes to look up and to copy.

In: an ``add`` of the log, and the wanted columns or condition. Out: batches of the table's columns, with the position
of each row in its file. A position counts dead rows too, so it is the same whatever the deletion vector marks.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from txlog.core.changes.tasks._opened_once import REQUESTS_AT_ONCE, FilesOpenedOnce
from txlog.core.changes.tasks._row_ids import RowIds
from txlog.core.changes.tasks._small_files import HeldFile, JoinedFiles, SmallFiles
from txlog.core.format.actions import AddFile, DeletionVectorDescriptor, FileId
from txlog.core.format.arrow.arrays import from_flags, from_numbers
from txlog.core.format.arrow.parquet_rows import row_count
from txlog.core.format.arrow.text import PART_BYTES, cut_by_text
from txlog.core.format.bitmaps import are_among
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.schema import Field, to_arrow
from txlog.core.format.statistics_read import num_records
from txlog.core.predicates.terms.predicate import Predicate
from txlog.core.reading import BATCH_ROWS, ScanTask, Selection, TaskReader, path_in_store, read_footer
from txlog.core.store import TableFiles

if TYPE_CHECKING:
    from numpy.typing import NDArray

RowsAt: TypeAlias = "tuple[NDArray[np.uint64], pa.RecordBatch]"
"""Rows of a file, and the position of each."""

_Integer = TypeVar("_Integer", bound="np.integer[Any]")

_WHOLE_ROWS = 1 << 16  # batch size for many columns: fewer cost time for each batch, more leave the CPU caches
_GROUP_ROWS = 1 << 20
LOOKED_INTO_ROWS = (
    1 << 15
)  # of few columns: what is computed of each batch stays in the CPU caches, and takes no memory

KEPT_BYTES = 64 << 20
"""The most bytes of rows that are kept for later."""


class FileReader:
    """Reads the same columns of many files. Thread-safe.

    ``are_whole_rows``: most columns are read. ``by_row_group``: few are, and batches are whole row groups unless these
    are large. Strings may in both cases be dictionary-encoded, as with ``keeps_dictionaries``; `plain_parts` decodes
    them.
    """

    def __init__(
        self,
        store: TableFiles,
        selection: Selection,
        *,
        are_whole_rows: bool = False,
        by_row_group: bool = False,
        keeps_dictionaries: bool = False,
        filters_rows: bool = True,
        uses_threads: bool = True,
    ) -> None:
        at_most = _WHOLE_ROWS if are_whole_rows else BATCH_ROWS if keeps_dictionaries else LOOKED_INTO_ROWS
        self._reader = TaskReader(
            store,
            selection,
            batch_rows=_GROUP_ROWS if by_row_group else at_most,
            keeps_dictionaries=are_whole_rows or by_row_group or keeps_dictionaries,
            filters_rows=filters_rows,
            uses_threads=uses_threads,
        )
        self._selection = selection

    def batches(
        self,
        add: AddFile,
        *,
        with_dead_rows: bool,
        row_groups: tuple[int, ...] | None = None,
        at: NDArray[np.int64] | None = None,
    ) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch]]:
        """The positions of rows, ascending, and the rows; only the rows ``at`` these positions, unless None.

        Raises ``NotFoundError``, ``CorruptLogError``, ``StorageError``.
        """
        vector = None if with_dead_rows else add.deletion_vector
        return self._reader.numbered_batches(self._task(add, vector, row_groups), at)

    def whole(self, adds: Iterable[AddFile], bytes_max: int) -> tuple[pa.RecordBatch | None, list[int]]:
        """`TaskReader.whole` of these files. Raises what `batches` raises."""
        return self._reader.whole(map(self._task, adds), bytes_max)

    def _task(
        self,
        add: AddFile,
        vector: DeletionVectorDescriptor | None = None,
        row_groups: tuple[int, ...] | None = None,
    ) -> ScanTask:
        path = path_in_store(self._selection.uri, add.path)
        values, rows = add.partition_values, num_records(add.stats)
        return ScanTask(path, add.path, add.size, self._selection, values, vector, row_groups, num_records=rows)


class FileRows:
    """The data files of one table, as one version defines it. Thread-safe.

    ``held`` are the columns with which small files stay in memory once they were `joined`. With ``opens_once``, small
    files that each take a request are kept as they are stored.
    """

    def __init__(
        self, store: TableFiles, table: DefinedTable, held: tuple[Field, ...] = (), *, opens_once: bool = False
    ) -> None:
        self._opened = FilesOpenedOnce(store) if opens_once and not store.has_cheap_calls else None
        self._store = self._opened or store
        self._table = table
        self._readers: dict[tuple[tuple[str, ...], int, tuple[bool, ...]], FileReader] = {}
        self._kept: dict[FileId, tuple[NDArray[np.uint64], pa.RecordBatch]] = {}
        self._kept_bytes = 0
        self._keeping = threading.Lock()
        self._small = SmallFiles(held)
        self.expects_changes = True
        """Whether many of the small files that are `joined` next will be needed again."""
        self.one_thread_a_file = False
        """Whether whoever looks into a file also decodes it: others do the same on all processors."""
        self.ids = RowIds.of(table)
        """The columns in which files keep row ids; None if the table does not promise stable row ids."""
        self.fields = table.schema.fields if self.ids is None else (*table.schema.fields, *self.ids.fields)
        """The table's columns, and those of row ids that `live` has too."""

    def reader(
        self,
        fields: tuple[Field, ...],
        predicate: Predicate | None = None,
        *,
        are_whole_rows: bool = False,
        by_row_group: bool = False,
        keeps_dictionaries: bool = False,
        filters_rows: bool = True,
    ) -> FileReader:
        """Reads these columns of the rows for which ``predicate`` is true; without ``filters_rows``, of row groups that
        may have such a row. Equal arguments return the same reader.
        """
        names = tuple(field.name for field in fields)
        uses_threads = are_whole_rows or not (by_row_group or keeps_dictionaries or self.one_thread_a_file)
        forms = are_whole_rows, by_row_group, keeps_dictionaries, filters_rows, uses_threads
        key = names, id(predicate), forms  # the reader keeps the predicate alive
        found = self._readers.get(key)
        if found is None:
            selection = self._selection(fields, predicate)
            found = FileReader(
                self._store,
                selection,
                are_whole_rows=are_whole_rows,
                by_row_group=by_row_group,
                keeps_dictionaries=keeps_dictionaries,
                filters_rows=filters_rows,
                uses_threads=uses_threads,
            )
            self._readers[key] = found
        return found

    def _selection(self, fields: tuple[Field, ...], predicate: Predicate | None) -> Selection:
        table = self._table
        position = "position"
        while table.schema.find(position) is not None:
            position = f"_{position}"
        return Selection(
            self._store.uri,
            table.version,
            fields,
            predicate,
            table.schema,
            table.partition_columns,
            table.properties.column_mapping_mode,
            position_column=position,
        )

    def bodies(self, adds: Sequence[AddFile], at_once: int = REQUESTS_AT_ONCE) -> Mapping[str, pa.Buffer]:
        """Fetch these small files with ``at_once`` requests at a time; none where a file takes no request."""
        if self._opened is None:
            return {}
        return self._opened.bodies([path_in_store(self._store.uri, add.path) for add in adds], at_once)

    def holding(self, bodies: Mapping[str, pa.Buffer]) -> contextlib.AbstractContextManager[object]:
        """These files take no request meanwhile."""
        return contextlib.nullcontext() if self._opened is None else self._opened.holding(bodies)

    def keep_body(self, add: AddFile) -> None:
        """If this file is among those that take no request now, keep it for later, unless its rows are in memory."""
        if self._opened is not None and self.held(add, ()) is None:
            self._opened.keep(path_in_store(self._store.uri, add.path))

    def joined(self, adds: Sequence[AddFile], fields: tuple[Field, ...]) -> Iterator[JoinedFiles]:
        """At least these columns of all rows of small files, dead ones included. Not for several threads."""
        return self._small.joined(adds, fields, self.reader, holds=self.expects_changes)

    def joined_again(self, adds: Sequence[AddFile]) -> Iterator[JoinedFiles]:
        """All columns of all rows of small files, dead ones included, which do not stay in memory."""
        return self._small.joined(adds, self.fields, self.reader, holds=False)

    def held(self, add: AddFile, names: Iterable[str]) -> HeldFile | None:
        """All rows of a small file that was `joined`, with at least these columns; None if they are not in memory."""
        found = self._small.held.get(add.file_id)
        return found if found is not None and {*names} <= {*found.joined.schema.names} else None

    def live(
        self, add: AddFile, without: NDArray[np.uint64] | None = None, removed: list[RowsAt] | None = None
    ) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch]]:
        """All columns of the rows that are neither dead nor at the positions ``without``, which ascend. If the table
        tracks rows, also their ids and commit versions, as a new file stores them. ``removed`` gets the live rows at
        these positions, with the same columns, as `at` returns them.
        """
        everything = self.reader(self.fields, are_whole_rows=True)
        for positions, batch in everything.batches(add, with_dead_rows=False):
            if without is not None:
                goes = are_among(positions.view(np.uint64), without)
                if goes.any():
                    if removed is not None:
                        removed += plain_parts(positions[goes].view(np.uint64), batch.filter(from_flags(goes)))
                    positions, batch = positions[~goes], batch.filter(from_flags(~goes))
            for here, rows in plain_parts(positions, batch):
                yield here, rows if self.ids is None else self.ids.taken_over(add, here, rows)

    @property
    def schema(self) -> pa.Schema:
        """The columns of `live`."""
        schema = to_arrow(self._table.schema)
        return schema if self.ids is None else self.ids.schema(schema)

    def ids_at(self, add: AddFile, positions: NDArray[np.uint64]) -> pa.Array:
        """The ids of the rows at ``positions``, which ascend, of a table that tracks rows."""
        assert self.ids is not None
        found = [
            self.ids.ids(add, here.astype("int64"), batch.column(0))
            for here, batch in self.at(add, positions, self.ids.fields[:1])
        ]
        return pa.concat_arrays(found) if found else pa.array([], pa.int64())

    def at(self, add: AddFile, positions: NDArray[np.uint64], fields: tuple[Field, ...]) -> Iterator[RowsAt]:
        """These columns of the rows at ``positions``, which ascend; row groups without one of them are not read."""
        kept = self._kept.get(add.file_id)
        names = [field.name for field in fields]
        if kept is not None and {*names} <= {*kept[1].schema.names} and np.array_equal(kept[0], positions):
            yield positions, kept[1].select(names)
            return
        held = self.held(add, names)
        if held is not None:
            yield positions, held.rows.select(names).take(from_numbers(positions.astype(np.int64)))
            return
        sizes = self.row_group_sizes(add)
        ends = np.cumsum(sizes)
        row_groups = tuple(np.unique(np.searchsorted(ends, positions, side="right")).tolist())
        reader = self.reader(fields, are_whole_rows=True)
        wanted = positions.astype(np.int64)
        for numbers, batch in reader.batches(add, with_dead_rows=True, row_groups=row_groups, at=wanted):
            yield from plain_parts(numbers.view(np.uint64), batch)

    def keep(self, add: AddFile, positions: NDArray[np.uint64], rows: pa.RecordBatch) -> None:
        """Let `at` return these rows of a file without reading it again, if there is room in memory."""
        with self._keeping:
            before = self._kept.pop(add.file_id, None)
            self._kept_bytes -= 0 if before is None else before[1].nbytes
            if self._kept_bytes + rows.nbytes <= KEPT_BYTES:
                self._kept[add.file_id] = positions, rows
                self._kept_bytes += rows.nbytes

    def row_group_sizes(self, add: AddFile) -> list[int]:
        """How many rows each row group has, by the file's footer. Raises what `FileReader.batches` raises."""
        metadata = self._footer(add)
        return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]

    def arrow_schema(self, add: AddFile) -> pa.Schema:
        """The columns of a file, from its footer. Raises what `FileReader.batches` raises."""
        return self._footer(add).schema.to_arrow_schema()

    def count(self, add: AddFile) -> int:
        """The number of all rows of a file, dead ones included."""
        held = self._small.held.get(add.file_id)
        return row_count(self._footer(add)) if held is None else held.count

    def _footer(self, add: AddFile) -> Any:
        path = path_in_store(self._store.uri, add.path)
        return read_footer(self._store, path, add.path, version=self._table.version)


def plain_parts(
    positions: NDArray[_Integer], batch: pa.RecordBatch, part_bytes: int = PART_BYTES
) -> Iterator[tuple[NDArray[_Integer], pa.RecordBatch]]:
    """The same rows with dictionary-encoded columns decoded. A dictionary holds a long string only once for many rows,
    so the decoded rows come in parts: each has at most ``part_bytes`` of text in a column, or a single row.
    """
    start = 0
    for part in cut_by_text(batch, part_bytes):
        columns = [each.dictionary_decode() if pa.types.is_dictionary(each.type) else each for each in part.columns]
        if part.num_rows:
            here = positions[start : start + part.num_rows]
            yield here, pa.RecordBatch.from_arrays(columns, names=part.schema.names)
        start += part.num_rows
