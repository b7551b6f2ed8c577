"""A scan task: what to read from one data file, as plain data that can run in any process.

In: a `ScanTask` (made by ``_scan_plan``) and a table's store. Out: Arrow batches in the selection's schema, a bounded
piece of the file at a time. It skips row groups that cannot match, leaves out deleted rows, and uses the table's column
names and types. Partition values come from the log, never from directory names. On request, each row carries its file
and position. PROTOCOL.md, "Partition Value Serialization", "Deletion Vectors", "Column Mapping".
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from txlog.core.format.actions import DeletionVectorDescriptor
from txlog.core.format.arrow.arrays import array_of, flags_of, from_flags, from_numbers, without_views
from txlog.core.format.arrow.parquet_join import FileShape, JoinedParquet
from txlog.core.format.arrow.parquet_rows import counted_batches, few_rows, row_count, rows_by_group
from txlog.core.format.column_mapping import physical_name
from txlog.core.format.partition_values import decode
from txlog.core.format.schema import BINARY, STRING, Field, Struct, fold_name, to_arrow, type_to_arrow
from txlog.core.predicates.terms.predicate import Predicate
from txlog.core.reading._deletion_vectors import DeletionVectorReader
from txlog.core.reading._footers import why_missing
from txlog.core.reading._parquet_columns import ParquetColumns
from txlog.core.reading._small_files import FILES_AT_ONCE, in_runs
from txlog.core.store import TableFiles
from txlog.errors import CorruptLogError, NotFoundError, StorageError, TxlogError, UnsupportedFeatureError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from txlog.core.predicates.skipping import RowGroupPruner

BATCH_ROWS = 131_072

_REFUSED_MAX = 4
"""After so many files in a row that are joined to no other, it is not tried again: it takes as long as reading them."""

TOGETHER_BYTES = 16 << 20
"""What small files that are read together may take in memory."""

SMALL_BYTES = 1 << 20  # columns of a smaller file are decoded before other threads have started

_REPAIR = (
    "Restore it from a copy, or remove it from the table with txn.remove(path) in a table.transaction(), and write its"
    " rows again; `txlog verify` lists all files that are missing or have another size"
)

_GONE = (
    "If only an old version has it, read a newer version; table.tag(name), or a longer"
    " delta.deletedFileRetentionDuration, keeps versions readable. If the newest version has it: restore it from a"
    " copy, or take all missing files out of the table with table.repair(remove=True), and write their rows again"
)

# Equal values take almost no space in a file, so only a bound far beyond real files reveals a false row count.
_ROWS_MIN = 1_000_000_000
_ROWS_PER_BYTE = 1_000

COLUMN_BYTES = 256
"""What Arrow needs for a column of a file beside its values, until files are joined."""

_VALUE_BYTES = 8
"""What a value takes in memory: some columns are not in the file, or the same for all its rows."""

_FAULTS = TxlogError, pa.ArrowException, OSError, ValueError, MemoryError
"""What a file of several can raise, before it is read alone, which names it."""

_FILE_TYPE = pa.dictionary(pa.int32(), pa.string())


class Selection(msgspec.Struct, frozen=True):
    """Which columns and rows to read from every file of one table version. All tasks of a scan share it.

    Attributes:
        uri: The table, for errors.
        version: The table version, for errors.
        fields: The requested columns, in this order, with the table's names and types.
        predicate: Which rows to return, bound to the table's schema; None means all.
        schema: All columns of the table.
        partition_columns: The names of the table's partition columns.
        column_mapping_mode: The table's ``delta.columnMapping.mode``.
        file_column: The name of an extra column: the path of the row's file, as ``add.path`` writes it.
        position_column: The name of an extra column: the row's physical number in its file, from 0, deleted rows
            included (int64).
    """

    uri: str
    version: int
    fields: tuple[Field, ...]
    predicate: Predicate | None
    schema: Struct
    partition_columns: tuple[str, ...] = ()
    column_mapping_mode: str = "none"
    file_column: str | None = None
    position_column: str | None = None

    def arrow_schema(self) -> pa.Schema:
        """The schema of every batch: the requested columns, then the file column, then the position column."""
        schema = to_arrow(Struct(self.fields))
        if self.file_column is not None:
            schema = schema.append(pa.field(self.file_column, _FILE_TYPE, nullable=False))
        if self.position_column is not None:
            schema = schema.append(pa.field(self.position_column, pa.int64(), nullable=False))
        return schema

    def needed(self) -> list[Field]:
        """The requested columns, then those that only the predicate needs."""
        names = {each.name for each in self.fields}
        extra = sorted(self.predicate.columns() - names) if self.predicate is not None else []
        return [*self.fields, *(each for each in self.schema.fields if each.name in extra)]


class ScanTask(msgspec.Struct, frozen=True):
    """What to read from one data file. Plain data: it pickles to any worker, without credentials.

    Attributes:
        path: The file, relative to the table's root, decoded; or the location of another table's file.
        log_path: The same file as ``add.path`` names it.
        size_bytes: The size of the file, or of its share, according to the log.
        selection: The columns and rows to return.
        partition_values: ``add.partitionValues``.
        deletion_vector: Which rows of the file are deleted; None if none are.
        row_groups: The numbers of the row groups to read, ascending; None means every one that may match.
        share: (number, of): with the file's rows divided into ``of`` equal shares, read only the row groups whose
            middle row is in share ``number``, so several tasks read one file, each row group once; None means the whole
            file.
        num_records: How many rows the file has according to the log, dead ones included; None if the log does not say.
    """

    path: str
    log_path: str
    size_bytes: int
    selection: Selection
    partition_values: Mapping[str, str | None] = msgspec.field(default_factory=dict)
    deletion_vector: DeletionVectorDescriptor | None = None
    row_groups: tuple[int, ...] | None = None
    share: tuple[int, int] | None = None
    num_records: int | None = None

    def batches(self, store: TableFiles) -> Iterator[pa.RecordBatch]:
        """The live rows of the selection, as ``selection.arrow_schema()``, in file order.

        Raises:
            NotFoundError: The file is missing.
            CorruptLogError: It is not a readable Parquet file, or its deletion vector is missing or damaged.
            UnsupportedFeatureError: It has a value that this release cannot read.
            StorageError: The store failed, or memory ran out.
        """
        return TaskReader(store, self.selection).batches(self)


class _StoredRows(msgspec.Struct, frozen=True, eq=False):
    """All rows of one small file, or of several with equal columns, dead ones included, as the files store them;
    ``counts`` are the rows of each."""

    tasks: Sequence[ScanTask]
    counts: Sequence[int]
    columns: ParquetColumns
    batches: Sequence[pa.RecordBatch]
    size_bytes: int


class TaskReader:
    """Reads tasks of one selection; computes what they share once. Thread-safe.

    A batch has at most ``batch_rows`` rows. With ``keeps_dictionaries``, string columns stay dictionary-encoded if a
    large file holds them so, which takes a fraction of the time and memory. Without ``filters_rows``, the predicate
    only leaves out row groups. Without ``uses_threads``, the caller's thread decodes all columns.
    """

    def __init__(
        self,
        store: TableFiles,
        selection: Selection,
        *,
        batch_rows: int = BATCH_ROWS,
        keeps_dictionaries: bool = False,
        filters_rows: bool = True,
        uses_threads: bool = True,
    ) -> None:
        self._store = store
        self._selection = selection
        self._schema = selection.arrow_schema()
        self._needed = selection.needed()
        self._vectors = DeletionVectorReader(store, selection.version)
        partition_columns = selection.schema.own_names(selection.partition_columns)
        self._constants = [each for each in self._needed if each.name in partition_columns]
        self._pruner = None if selection.predicate is None else _row_group_pruner(selection, selection.predicate)
        self._batch_rows = batch_rows
        self._uses_threads = uses_threads
        self._filter = selection.predicate if filters_rows else None
        is_encoded = keeps_dictionaries and selection.predicate is None
        texts = [each for each in self._needed if is_encoded and each.type in (STRING, BINARY)]
        self._texts = frozenset(map(physical_name, texts))
        self._shape: FileShape | None = None
        self._refused = 0  # files in a row that were joined to no other
        self._columns: tuple[pa.Schema, ParquetColumns] | None = None  # of the previous file: most files are alike

    def batches(self, task: ScanTask) -> Generator[pa.RecordBatch, None, None]:
        """The rows of one task; see `ScanTask.batches`."""
        for positions, batch in self._matching(task, is_numbered=self._selection.position_column is not None):
            columns = batch.columns if positions is None else [*batch.columns, from_numbers(positions)]
            # Only a selection without columns keeps the number of rows.
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema) if columns else batch

    def numbered_batches(
        self, task: ScanTask, at: NDArray[np.int64] | None = None
    ) -> Generator[tuple[NDArray[np.int64], pa.RecordBatch], None, None]:
        """The requested columns of one task's rows, and each row's position; see `ScanTask.batches`.

        ``at`` are the positions of the wanted rows, ascending; None means all.
        """
        for positions, batch in self._matching(task, at, is_numbered=True):
            assert positions is not None
            yield positions, batch

    def whole(self, tasks: Iterable[ScanTask], bytes_max: int) -> tuple[pa.RecordBatch | None, list[int]]:
        """All rows of small files, dead ones included, one file after the other, and how many each has: of as many
        files as fit, the first of those that do not included. None for a first file that takes more memory alone.

        Raises what `ScanTask.batches` raises.
        """
        found: list[_StoredRows] = []
        left_bytes = bytes_max
        for task in tasks:
            stored = self._stored(task, bytes_max)
            if stored is None:
                break
            found.append(stored)
            left_bytes -= stored.size_bytes + COLUMN_BYTES * sum(batch.num_columns for batch in stored.batches)
            if left_bytes < 0:
                break
        return self._joined(found) if found else None, [each.counts[0] for each in found]

    def in_order(self, tasks: Iterable[ScanTask], *, wants_all: bool) -> Generator[pa.RecordBatch, None, None]:
        """The rows of tasks, one file after the other; small files that follow each other are decoded together.

        Unless the caller ``wants_all``, it begins with few files at once. Raises what `ScanTask.batches` raises.
        """
        if self._texts or self._selection.file_column is not None or self._selection.position_column is not None:
            for task in tasks:
                yield from self.batches(task)
            return
        for run in in_runs(tasks, FILES_AT_ONCE if wants_all else 1, self._batch_rows):
            yield from self.batches(run[0]) if len(run) == 1 else self._together(run)

    def _together(self, tasks: Sequence[ScanTask]) -> Iterator[pa.RecordBatch]:
        """The rows of several small files, in order: those with equal columns are converted and filtered at once."""
        found: list[_StoredRows] = []
        left_bytes = TOGETHER_BYTES
        for stored in self._stored_of(tasks):
            is_alone = isinstance(stored, ScanTask)
            if is_alone or stored.size_bytes > left_bytes:  # small files may decode to many bytes
                yield from self._live(found)
                found, left_bytes = [], TOGETHER_BYTES
            if isinstance(stored, ScanTask):
                yield from self.batches(stored)  # it names the file, or reads a large one in pieces
            else:
                found.append(stored)
                left_bytes -= stored.size_bytes
        yield from self._live(found)

    def _stored_of(self, tasks: Sequence[ScanTask]) -> Iterator[_StoredRows | ScanTask]:
        """The rows of files, which Arrow decodes together where it can; or the task of a file to be read alone."""
        joined = None if self._shape is None else JoinedParquet(self._shape, TOGETHER_BYTES)
        added: list[tuple[ScanTask, bytes]] = []
        for task in tasks:
            try:
                with self._store.files.open(task.path) as source:
                    body = source.read()
                if joined is not None and joined.add(body) is not None:
                    added.append((task, body))
                    continue
                begun = self._begun(body)
            except _FAULTS:
                yield from self._decoded(joined, added)
                joined, added = None, []
                yield task
                continue
            yield from self._decoded(joined, added)
            joined, added = begun, [(task, body)]
        yield from self._decoded(joined, added)

    def _begun(self, body: bytes) -> JoinedParquet | None:
        """The beginning of a file for this one and others like it, if they can be joined."""
        if self._refused >= _REFUSED_MAX:
            return None
        self._refused += 1
        with pq.ParquetFile(pa.BufferReader(body)) as parquet:
            names = self._columns_of(parquet.schema_arrow).names
        self._shape = FileShape.of(body, names) if names else None
        joined = None if self._shape is None else JoinedParquet(self._shape, TOGETHER_BYTES)
        return None if joined is None or joined.add(body) is None else joined

    def _decoded(
        self, joined: JoinedParquet | None, added: Sequence[tuple[ScanTask, bytes]]
    ) -> Iterator[_StoredRows | ScanTask]:
        found: _StoredRows | None = None
        if joined is not None and len(added) > 1:  # alone, Arrow looks at all of a file's footer
            self._refused = 0
            with contextlib.suppress(*_FAULTS):
                found = self._stored_in(joined, [task for task, _ in added])
        if found is not None:
            yield found
            return
        for task, body in added:
            with contextlib.suppress(*_FAULTS):
                found = self._stored(task, TOGETHER_BYTES, body)
            yield task if found is None else found
            found = None

    def _stored_in(self, joined: JoinedParquet, tasks: Sequence[ScanTask]) -> _StoredRows | None:
        with pq.ParquetFile(joined.finish(), coerce_int96_timestamp_unit="us") as parquet:
            columns = self._columns_of(parquet.schema_arrow)
            rows = parquet.read(columns.names, use_threads=False)
        if rows.num_rows != sum(joined.counts) or joined.counts != [task.num_records for task in tasks]:
            return None
        return _StoredRows(tasks, joined.counts, columns, rows.to_batches(), rows.get_total_buffer_size())

    def _live(self, stored: Sequence[_StoredRows]) -> Iterator[pa.RecordBatch]:
        """The live rows of several files that the predicate keeps."""
        try:
            batches = [*self._live_of_alike(stored)]
        except _FAULTS:
            for task in itertools.chain.from_iterable(each.tasks for each in stored):
                yield from self.batches(task)  # it names the file
            return
        yield from batches

    def _live_of_alike(self, stored: Sequence[_StoredRows]) -> Iterator[pa.RecordBatch]:
        names = [each.name for each in self._selection.fields]
        for _, some in itertools.groupby(stored, key=lambda each: id(each.columns)):
            batch = self._of_alike([*some], self._needed, is_live=True)
            if self._filter is not None:
                batch = batch.filter(self._kept(self._filter, batch))
            if batch.num_rows:
                columns = batch.select(names).columns
                yield pa.RecordBatch.from_arrays(columns, schema=self._schema) if columns else batch.select([])

    def _stored(self, task: ScanTask, bytes_max: int, body: bytes | None = None) -> _StoredRows | None:
        """The rows of one file, whose bytes the caller may have; None if they take more memory."""
        batches: Sequence[pa.RecordBatch] = ()
        size_bytes = 0
        with (
            self._explained(task),
            self._store.files.open(task.path) if body is None else pa.BufferReader(body) as source,
            pq.ParquetFile(source, coerce_int96_timestamp_unit="us") as parquet,
        ):
            rows = _check_rows(parquet.metadata, source.size(), task.num_records)
            if rows * _VALUE_BYTES * len(self._needed) > bytes_max:
                return None
            columns = self._columns_of(parquet.schema_arrow)
            few = few_rows(parquet, columns.names, rows) if columns.names else None
            if few is not None:
                batches, size_bytes = few.to_batches(), few.get_total_buffer_size()  # nbytes takes as long as decoding
            elif columns.names:
                batches = []
                for _, batch in counted_batches(parquet, columns.names, self._batch_rows, use_threads=False):
                    size_bytes += batch.nbytes
                    if size_bytes > bytes_max:
                        return None
                    batches.append(batch)
        return _StoredRows((task,), (rows,), columns, batches, size_bytes) if size_bytes <= bytes_max else None

    def _joined(self, stored: Sequence[_StoredRows]) -> pa.RecordBatch:
        """The requested columns of the rows of several files."""
        try:
            fields = self._selection.fields
            parts = [
                self._of_alike([*some], fields)
                for _, some in itertools.groupby(stored, key=lambda each: id(each.columns))
            ]
            return parts[0] if len(parts) == 1 else pa.concat_batches(parts)
        except _FAULTS:
            for each in stored:
                with self._explained(each.tasks[0]):  # it names the file
                    self._of_alike([each], fields)
            raise

    def _of_alike(
        self, stored: Sequence[_StoredRows], fields: Sequence[Field], *, is_live: bool = False
    ) -> pa.RecordBatch:
        """These columns of files with equal columns, which are converted together; with ``is_live``, without dead
        rows."""
        columns = stored[0].columns
        tasks = [task for each in stored for task in each.tasks]
        counts = [count for each in stored for count in each.counts]
        if not any(counts):  # files without a row group give no batch
            nothing = [pa.nulls(0, type_to_arrow(each.type)) for each in fields]
            return pa.RecordBatch.from_arrays(nothing, names=[each.name for each in fields])
        batches = [batch for each in stored for batch in each.batches]
        rows = (
            pa.concat_batches(batches) if batches else pa.RecordBatch.from_arrays([pa.nulls(sum(counts))], names=[""])
        )
        plain = without_views(rows.schema)
        if plain != rows.schema:
            rows = rows.cast(plain)
        if is_live and (chosen := self._chosen_of(tasks, counts)) is not None:
            rows = _of(rows, chosen)
            starts = np.cumsum([0, *counts])
            counts = np.diff(np.searchsorted(chosen, starts)).tolist()
        constants = {each.name for each in self._constants}
        arrays = [
            _repeated(each, [task.partition_values for task in tasks], counts)
            if each.name in constants
            else columns.array(rows, each)
            for each in fields
        ]
        return pa.RecordBatch.from_arrays(arrays, names=[each.name for each in fields]) if fields else rows

    def _chosen_of(self, tasks: Sequence[ScanTask], counts: Sequence[int]) -> NDArray[np.int64] | None:
        """The numbers of the live rows among those of several files; None if all are."""
        dead, start = [], 0
        for task, count in zip(tasks, counts, strict=True):
            if task.deletion_vector is not None:
                dead.append(self._vectors.dead_rows(task.deletion_vector, count) + np.uint64(start))
            start += count
        return _chosen(start, np.concatenate(dead), 0, None) if dead else None

    def _matching(
        self, task: ScanTask, at: NDArray[np.int64] | None = None, *, is_numbered: bool
    ) -> Iterator[tuple[NDArray[np.int64] | None, pa.RecordBatch]]:
        """The live rows that the predicate keeps: the requested columns, then the file column."""
        predicate = self._filter
        wanted = [*range(len(self._selection.fields))]
        if self._selection.file_column is not None:
            wanted.append(len(self._needed))
        for rows, batch in self._opened(task, at):
            kept = None
            if predicate is not None:
                kept = self._kept(predicate, batch)
                batch = batch.filter(kept)
            if batch.num_rows:
                positions = rows.positions(None if kept is None else flags_of(kept)) if is_numbered else None
                yield positions, batch if len(wanted) == batch.num_columns else batch.select(wanted)

    def _kept(self, predicate: Predicate, batch: pa.RecordBatch) -> pa.BooleanArray:
        from txlog.core.predicates import evaluate

        with TxlogError.located(self._selection.uri, self._selection.version):
            return evaluate(predicate, batch)

    def _opened(self, task: ScanTask, at: NDArray[np.int64] | None) -> Iterator[tuple[_ChosenRows, pa.RecordBatch]]:
        """The live rows of the row groups that may match, as the columns that the selection needs."""
        from txlog.core.format.arrow.parquet_footer import check_footer, indexed_columns, read_footer

        with self._explained(task), self._store.files.open(task.path) as source:
            looks_ahead = self._pruner is not None or (self._texts and task.size_bytes > SMALL_BYTES)
            footer = read_footer(source) if looks_ahead else None
            metadata = None if footer is None else pq.ParquetFile(pa.BufferReader(footer)).metadata
            texts = []
            if self._texts and footer is not None and task.size_bytes > SMALL_BYTES:
                check_footer(footer, metadata)
                texts = indexed_columns(metadata, self._texts)
            options: dict[str, Any] = {"coerce_int96_timestamp_unit": "us", "read_dictionary": texts or None}
            with pq.ParquetFile(source, metadata=metadata, **options) as parquet:
                _check_rows(parquet.metadata, source.size(), task.num_records)
                yield from self._read(task, parquet, footer, at)

    @contextlib.contextmanager
    def _explained(self, task: ScanTask) -> Iterator[None]:
        """Raises what `ScanTask.batches` says for what goes wrong with one file."""
        where: dict[str, Any] = {"table": self._selection.uri, "version": self._selection.version, "path": task.path}
        try:
            yield
        except MemoryError as error:
            message = f"not enough memory for the rows of a data file ({error}): read fewer columns, or use to_batches"
            raise StorageError(message, **where) from error
        except (FileNotFoundError, NotFoundError) as error:
            raise NotFoundError(
                f"the log names {task.path}, which is missing: {why_missing(task.path)}. {_GONE}", **where
            ) from error
        except CorruptLogError as error:
            if error.table is None:
                raise CorruptLogError(error.message, repair=_REPAIR, **where) from error
            raise
        except UnsupportedFeatureError as error:
            raise UnsupportedFeatureError(f"{task.path}: {error.message}", features=error.features, **where) from error
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise StorageError(f"a data file could not be read: {error}", **where) from error
            # For a damaged header or page Arrow raises an OSError without a number; its text may not be UTF-8.
            why = " ".join(str(error).split()).rstrip(".")
            if "crypt" in why:
                raise UnsupportedFeatureError(
                    f"{task.path} is encrypted, and txlog reads no encrypted files: read the table with an engine that"
                    f" has the keys ({why})",
                    **where,
                ) from error
            raise CorruptLogError(f"a data file cannot be read: {why}", repair=_REPAIR, **where) from error

    def _read(
        self, task: ScanTask, parquet: Any, footer: bytes | None, at: NDArray[np.int64] | None
    ) -> Iterator[tuple[_ChosenRows, pa.RecordBatch]]:
        selection = self._selection
        constants = {each.name: partition_scalar(each, task.partition_values) for each in self._constants}
        columns = self._columns_of(parquet.schema_arrow)
        vector = task.deletion_vector
        dead = None if vector is None else self._vectors.dead_rows(vector, row_count(parquet.metadata))
        names = [each.name for each in self._needed]
        if selection.file_column is not None:
            names.append(selection.file_column)
        groups = self._row_groups(task, parquet, None if columns.has_old_calendar else footer)
        uses_threads = self._uses_threads and task.size_bytes > SMALL_BYTES
        raw = _raw_batches(parquet, columns.names, groups, self._batch_rows, uses_threads=uses_threads)
        for first_row, batch in raw:
            rows = _ChosenRows(first_row, batch.num_rows, _chosen(batch.num_rows, dead, first_row, at))
            if rows.chosen is not None:  # before columns are converted: few rows may be wanted
                batch = _of(batch, rows.chosen)
            arrays = [
                pa.repeat(constants[each.name], batch.num_rows)
                if each.name in constants
                else columns.array(batch, each, keeps_dictionary=bool(self._texts))
                for each in self._needed
            ]
            if selection.file_column is not None:
                indices = pa.repeat(array_of([0], pa.int32())[0], batch.num_rows)
                arrays.append(pa.DictionaryArray.from_arrays(indices, array_of([task.log_path], pa.string())))
            yield rows, pa.RecordBatch.from_arrays(arrays, names=names) if names else batch.select([])

    def _columns_of(self, schema: pa.Schema) -> ParquetColumns:
        found = self._columns
        if found is None or not schema.equals(found[0], check_metadata=True):
            constants = {each.name for each in self._constants}
            stored = [each for each in self._needed if each.name not in constants]
            found = self._columns = (
                schema,
                ParquetColumns(schema, stored, self._selection.column_mapping_mode, self._selection.schema.fields),
            )
        return found[1]

    def _row_groups(self, task: ScanTask, parquet: Any, footer: bytes | None) -> list[int] | None:
        kept = [] if task.row_groups is None else [set(task.row_groups)]
        if task.share is not None:
            kept.append(_groups_in(parquet.metadata, *task.share))
        if self._pruner is not None and footer is not None:
            kept.append(set(self._pruner.matching(parquet.metadata, footer, task.partition_values)))
        return sorted(set.intersection(*kept)) if kept else None


def _row_group_pruner(selection: Selection, predicate: Predicate) -> RowGroupPruner | None:
    """Selects the row groups that may hold a row that the predicate keeps; None if the names cannot be trusted.

    If a table finds columns by id, a file may have them under any names, even each other's.
    """
    if selection.column_mapping_mode == "id":
        return None
    from txlog.core.predicates.skipping import RowGroupPruner

    return RowGroupPruner(predicate, selection.schema, selection.partition_columns)


def _check_rows(metadata: Any, size_bytes: int, num_records: int | None) -> int:
    """The number of rows. Raises if the footer claims an impossible one and no column is read that would disprove it,
    or another one than the log."""
    rows_max = _ROWS_MIN + _ROWS_PER_BYTE * size_bytes
    for rows in (metadata.num_rows, row_count(metadata)):
        if not 0 <= rows <= rows_max:
            raise CorruptLogError(
                f"a data file of {size_bytes} bytes claims {rows} rows, more than the limit of {rows_max}"
            )
    if num_records is not None and num_records != rows:
        raise CorruptLogError(f"a data file has {rows} rows, and its statistics in the log say {num_records}")
    return rows


def partition_scalar(column: Field, partition_values: Mapping[str, str | None]) -> pa.Scalar:
    """A partition column's value for all rows of a file, from ``add.partitionValues``. Raises CorruptLogError."""
    return array_of([_partition_value(column, partition_values)], type_to_arrow(column.type))[0]


def _repeated(column: Field, of_files: Sequence[Mapping[str, str | None]], counts: Sequence[int]) -> pa.Array:
    """A partition column of the rows of several files."""
    values = array_of([_partition_value(column, each) for each in of_files], type_to_arrow(column.type))
    return values.take(from_numbers(np.repeat(np.arange(len(counts)), counts)))


def _partition_value(column: Field, partition_values: Mapping[str, str | None]) -> Any:
    name = physical_name(column)
    if name not in partition_values:
        name = next((key for key in partition_values if fold_name(key) == fold_name(name)), name)
    return decode(partition_values.get(name), column.type)


# --- rows -----------------------------------------------------------------------------------------------------------


def _raw_batches(
    parquet: Any, names: list[str], groups: list[int] | None, batch_rows: int, *, uses_threads: bool
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches of these columns, each with the position of its first row in the file; ``groups`` None means all."""
    plain, has_views = None, False
    if not names:
        yield from _uncolumned(parquet.metadata, groups, batch_rows)
        return
    for row, batch in counted_batches(parquet, names, batch_rows, groups, use_threads=uses_threads):
        if plain is None:
            plain = without_views(batch.schema)
            has_views = plain != batch.schema
        yield row, batch.cast(plain) if has_views else batch


def _uncolumned(metadata: Any, groups: list[int] | None, batch_rows: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """For when no column of the file is needed (only partition columns, or columns added later), just its row count."""
    first = 0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        for start in range(0, rows, batch_rows) if groups is None or group in groups else ():
            yield first + start, pa.RecordBatch.from_arrays([pa.nulls(min(batch_rows, rows - start))], names=[""])
        first += rows


def _groups_in(metadata: Any, number: int, shares: int) -> set[int]:
    """The row groups whose middle row is in one of several equal shares of the rows."""
    sizes = rows_by_group(metadata)
    total, first, found = max(sum(sizes), 1), 0, set()
    for group, rows in enumerate(sizes):
        if min((2 * first + rows) * shares // (2 * total), shares - 1) == number:
            found.add(group)
        first += rows
    return found


class _ChosenRows(msgspec.Struct, frozen=True):
    """The ``chosen`` rows of a batch that begins at ``first`` of its file, ascending from 0; None means all."""

    first: int
    count: int
    chosen: NDArray[np.int64] | None

    def positions(self, kept: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        """The position in the file of each of these rows, or of the ``kept`` ones."""
        found = self.chosen if kept is None else np.flatnonzero(kept)
        if found is None:
            return np.arange(self.first, self.first + self.count)
        if kept is not None and self.chosen is not None:
            found = self.chosen[found]
        return self.first + found


def _of(batch: pa.RecordBatch, chosen: NDArray[np.int64]) -> pa.RecordBatch:
    """These rows of a batch. If they are most of it, Arrow copies the runs between the others, in half the time."""
    if 2 * len(chosen) < batch.num_rows:
        return batch.take(from_numbers(chosen))
    is_chosen = np.zeros(batch.num_rows, dtype=bool)
    is_chosen[chosen] = True
    mask = from_flags(is_chosen)  # Arrow would take a filter of a whole batch as the numbers of its rows
    return pa.RecordBatch.from_arrays([column.filter(mask) for column in batch.columns], schema=batch.schema)


def _chosen(
    rows: int, dead: NDArray[np.uint64] | None, first_row: int, at: NDArray[np.int64] | None
) -> NDArray[np.int64] | None:
    """Which rows of a batch that begins at ``first_row`` of its file are live and at one of these positions; None if
    all are."""
    chosen = None
    if at is not None:
        start, end = np.searchsorted(at, np.array([first_row, first_row + rows]))
        chosen = at[start:end] - first_row
    if dead is None:
        return chosen
    start, end = np.searchsorted(dead, np.array([first_row, first_row + rows], dtype=np.uint64))
    if start == end:
        return chosen
    live = np.ones(rows, dtype=bool)
    live[dead[start:end] - np.uint64(first_row)] = False
    return np.flatnonzero(live) if chosen is None else chosen[live[chosen]]
