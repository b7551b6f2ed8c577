"""`SnapshotDataset`: one version of a table as a ``pyarrow.dataset.Dataset``, so engines push work down to it.

In: a selection of all columns, the live files and the table's store. Out: scanners. duckdb, polars and others pass the
columns and the filter that they need. Files that the log's statistics exclude are not opened. Arrow itself reads the
files whose content needs no translation; scan tasks read the others, with deleted rows, mapped columns, or an older
schema, and many small files, which cost Arrow several times as much to open.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from msgspec.structs import replace

from txlog.core.format.arrow.arrays import from_flags
from txlog.core.format.arrow.footer_statistics import FooterStatistics
from txlog.core.format.arrow.old_calendar import old_calendar
from txlog.core.format.arrow.parquet_footer import check_opened
from txlog.core.format.arrow.parquet_rows import check_chunks, row_count
from txlog.core.format.column_mapping import physical_name
from txlog.core.format.schema import fold_name
from txlog.core.parallel import parallel_map
from txlog.core.reading._arrow_files import file_system
from txlog.core.reading._guarantees import Guarantees
from txlog.core.reading._row_count import count_rows
from txlog.core.reading._rows_as_file import rows_as_file
from txlog.core.reading._scan_plan import ScanPlan, batches_of
from txlog.core.reading._scan_shares import in_shares
from txlog.core.reading._scan_task import BATCH_ROWS, ScanTask, Selection, TaskReader
from txlog.core.reading._small_files import SMALL_FILE_BYTES
from txlog.core.store import TableFiles
from txlog.errors import InvalidInputError, TxlogError

Columns: TypeAlias = "Sequence[str] | Mapping[str, pc.Expression] | None"

_FOOTERS_AT_ONCE = 8
_FRAGMENT_BYTES = 64 << 20
_FRAGMENTS_MAX = 256  # for each file
_SMALL_FILES_MIN = 8  # fewer of them cost little, and leave a scan of large files to Arrow alone
_FEW_ROWS = 8_192
_COLUMN_BY_NUMBER = "FieldPath("
_GUARDED = "this operation of Arrow's reads data files without the table's log; pass it dataset.to_table() instead"


class _ScannedFiles(msgspec.Struct, frozen=True):
    """The files of a scan: fragments for Arrow, and tasks for txlog, with what the log knows about their rows."""

    fragments: list[ds.ParquetFileFragment]
    tasks: list[ScanTask]
    guarantees: list[pc.Expression]


class SnapshotDataset(ds.UnionDataset):  # type: ignore[misc]
    """A version of a table for engines that read Arrow datasets: ``duckdb.sql("select ... from dataset")``,
    ``polars.scan_pyarrow_dataset(dataset)``, ``dataset.to_table(columns=[...], filter=...)``.

    Made by `Snapshot.to_dataset`. Filters are ``pyarrow.compute`` expressions. Pickles without secrets.
    """

    def __init__(
        self, store: TableFiles, selection: Selection, files: pa.Table, filter: pc.Expression | None = None
    ) -> None:
        # Arrow's own code skips the methods below if it takes the dataset as a C++ object, as its joins do. It then
        # finds a single file, which raises.
        format_ = ds.ParquetFileFormat()
        schema = selection.arrow_schema()
        guard = format_.make_fragment("guard", file_system(_Guard()))  # type: ignore[arg-type]
        super().__init__(schema, [ds.FileSystemDataset([guard], schema, format_, guard.filesystem)])
        self._store = store
        self._selection = selection
        self._files = files
        self._filter = filter
        self._format = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"))
        self._file_system = file_system(store.files)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._filter is None:
            return SnapshotDataset, (self._store, self._selection, self._files)
        return SnapshotDataset, (self._store, self._selection, self._files, self._filter)

    # --- scans ----------------------------------------------------------------------------------------------------

    def scanner(
        self,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        batch_size: int = BATCH_ROWS,
        use_threads: bool = True,
        memory_pool: pa.MemoryPool | None = None,
        **options: Any,
    ) -> ds.Scanner:
        """A scan that can run once.

        Args:
            columns: Names, or expressions by name; None means all columns.
            filter: The condition on rows.
            batch_size: The maximum number of rows in a batch.
            use_threads: Whether Arrow may use several threads.
            memory_pool: The memory pool for Arrow's allocations.
            options: Arrow's other scan options, for the files that Arrow reads.

        Raises:
            InvalidInputError: A column does not exist.
        """
        filter = self._also(filter)
        needed = self._needed(columns, filter)
        files = self._matching(needed, filter, is_scan=True)
        how = {"batch_size": batch_size, "use_threads": use_threads, "memory_pool": memory_pool}
        trusts_arrow = not self._may_meet_nan(filter)
        if not files.tasks and trusts_arrow:
            scanner = self._of_arrow(files.fragments).scanner(columns=columns, filter=filter, **how, **options)
            reader = pa.RecordBatchReader.from_batches(scanner.projected_schema, _batches_of(scanner))
            return ds.Scanner.from_batches(reader, **how)
        options.pop("fragment_scan_options", None)
        schema = pa.schema([self.schema.field(name) for name in needed])
        batches = self._batches(files, needed, filter if trusts_arrow else None, schema)
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        return ds.Scanner.from_batches(reader, columns=columns, filter=filter, **how)

    def to_batches(self, columns: Columns = None, filter: pc.Expression | None = None, **how: Any) -> Iterator[Any]:
        """The rows in batches; arguments as for `scanner`."""
        batches: Iterator[Any] = self.scanner(columns, filter, **how).to_batches()
        return batches

    def to_table(self, columns: Columns = None, filter: pc.Expression | None = None, **how: Any) -> pa.Table:
        """The rows as one table; arguments as for `scanner`."""
        return self.scanner(columns, filter, **how).to_table()

    def head(self, num_rows: int, columns: Columns = None, filter: pc.Expression | None = None, **how: Any) -> pa.Table:
        """The first rows; arguments as for `scanner`."""
        return self.scanner(columns, filter, **how).head(num_rows)

    def take(self, indices: Any, columns: Columns = None, filter: pc.Expression | None = None, **how: Any) -> pa.Table:
        """The rows with these numbers; arguments as for `scanner`."""
        return self.scanner(columns, filter, **how).take(indices)

    def count_rows(self, filter: pc.Expression | None = None, **how: Any) -> int:
        """The number of rows; without a filter it comes from the log."""
        if self._also(filter) is None:
            return count_rows(self._store, self._selection, self._files)
        return int(self.scanner([], filter, **how).count_rows())

    def filter(self, expression: pc.Expression) -> SnapshotDataset:
        """The same dataset with this filter, in addition to earlier filters."""
        return SnapshotDataset(self._store, self._selection, self._files, self._also(expression))

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[ds.ParquetFileFragment]:
        """The files that may have matching rows, as Parquet fragments; their guarantees are what the log knows about
        them.

        A file that Arrow alone would misread, since some of its rows are deleted or its columns have other names or
        types than the table's, is read by txlog when Arrow opens its fragment, which then holds the live rows of all
        columns in memory, as Parquet. A large file has several such fragments.
        """
        filter = self._also(filter)
        files = self._matching(self.schema.names, filter, self.schema.names)
        yield from files.fragments
        for file, guarantee in zip(files.tasks, files.guarantees, strict=True):
            for task in in_shares(file, _FRAGMENT_BYTES, _FRAGMENTS_MAX):
                system = rows_as_file(self._store, task)
                yield self._format.make_fragment(task.path, system, partition_expression=guarantee)

    # --- what Arrow does in memory --------------------------------------------------------------------------------

    def join(self, right_dataset: Any, *given: Any, **named: Any) -> ds.InMemoryDataset:
        """Arrow's join, of all rows in memory."""
        return ds.InMemoryDataset(self.to_table()).join(_in_memory(right_dataset), *given, **named)

    def join_asof(self, right_dataset: Any, *given: Any, **named: Any) -> ds.InMemoryDataset:
        """Arrow's as-of join, of all rows in memory."""
        return ds.InMemoryDataset(self.to_table()).join_asof(_in_memory(right_dataset), *given, **named)

    def sort_by(self, sorting: Any, **named: Any) -> ds.InMemoryDataset:
        """Arrow's sort, of all rows in memory."""
        return ds.InMemoryDataset(self.to_table()).sort_by(sorting, **named)

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Not supported: the log defines the schema. ``to_table().cast(schema)`` returns rows with another schema."""
        raise InvalidInputError("a table's schema comes from its log: use to_table().cast(schema)")

    # --- files ----------------------------------------------------------------------------------------------------

    def _also(self, filter: pc.Expression | None) -> pc.Expression | None:
        if self._filter is None or filter is None:
            return self._filter if filter is None else filter
        return self._filter & filter

    def _needed(self, columns: Columns, filter: pc.Expression | None) -> list[str]:
        """The columns that a scan reads, in the table's order. Expressions show their columns only as text, so a column
        is read even if its name merely occurs in one."""
        names: list[str] = self.schema.names
        if columns is None:
            return names
        asked = [] if isinstance(columns, Mapping) else [*columns]
        text = " ".join(map(_text, (*(columns.values() if isinstance(columns, Mapping) else ()), filter)))
        if _COLUMN_BY_NUMBER in text:
            return names
        unknown = [name for name in asked if name not in names]
        if unknown:
            raise InvalidInputError(
                f"there is no column {unknown[0]!r}; the table has {', '.join(names)}",
                table=self._selection.uri,
                version=self._selection.version,
            )
        return [name for name in names if name in asked or name in text]

    def _matching(
        self,
        needed: Sequence[str],
        filter: pc.Expression | None,
        skipped_by: Collection[str] = (),
        *,
        is_scan: bool = False,
    ) -> _ScannedFiles:
        """The files whose guarantees do not contradict the filter, by their reader (Arrow or txlog).

        Arrow skips row groups by the columns of the filter, and later by those in ``skipped_by``.
        """
        selection = replace(self._selection, fields=self._fields(needed))
        filtered = self._filtered(filter)
        found = _ScannedFiles([], [], [])
        with TxlogError.located(selection.uri, selection.version):
            files = self._files
            if is_scan and filter is None:  # then nothing has to be known of files that Arrow does not read
                is_small = files["size"].to_numpy() <= SMALL_FILE_BYTES
                if is_small.sum() >= _SMALL_FILES_MIN:
                    found.tasks.extend(ScanPlan(selection, files.filter(from_flags(is_small))).tasks())
                    files = files.filter(from_flags(~is_small))
            guarantees = Guarantees(selection.schema, selection.partition_columns, filtered).of(files)
            tasks = ScanPlan(selection, files).tasks()
            made = [self._fragment(task, known) for task, known in zip(tasks, guarantees, strict=True)]
        by_path = {fragment.path: task for fragment, task in made}
        kept = [*self._of_arrow([fragment for fragment, _ in made]).get_fragments(filter=filter)]
        small = {each.path for each in kept if by_path[each.path].size_bytes <= SMALL_FILE_BYTES}
        by_task = small if is_scan and len(small) >= _SMALL_FILES_MIN else set()
        judged = [(each, by_path[each.path]) for each in kept if each.path not in by_task]
        are_plain = self._are_plain(judged, needed, skipped_by or filtered)
        for fragment in kept:
            if fragment.path not in by_task and next(are_plain):
                found.fragments.append(fragment)
            else:
                found.tasks.append(by_path[fragment.path])
                found.guarantees.append(fragment.partition_expression)
        return found

    def _filtered(self, filter: pc.Expression | None) -> list[str]:
        """The columns that a filter may read."""
        text = "" if filter is None else _text(filter)
        return [name for name in self.schema.names if name in text or _COLUMN_BY_NUMBER in text]

    def _may_meet_nan(self, filter: pc.Expression | None) -> bool:
        """Whether a filter reads a column that can hold NaN, which the bounds in a Parquet footer leave out.

        Arrow trusts these bounds, and would lose or miscount rows with NaN. Its row filters are exact.
        """
        return any(map(may_hold_nan, self._stored(self._filtered(filter))))

    def _stored(self, names: Sequence[str]) -> list[pa.DataType]:
        """The types of these columns, as far as files hold them."""
        constant = self._selection.schema.own_names(self._selection.partition_columns)
        return [self.schema.field(name).type for name in names if name not in constant]

    def _fields(self, names: Sequence[str]) -> tuple[Any, ...]:
        return tuple(each for each in self._selection.fields if each.name in names)

    def _fragment(self, task: ScanTask, known: pc.Expression | None) -> tuple[ds.ParquetFileFragment, ScanTask]:
        guarantee = {} if known is None else {"partition_expression": known}
        return self._format.make_fragment(task.path, self._file_system, **guarantee), task

    def _are_plain(
        self,
        files: Iterable[tuple[ds.ParquetFileFragment, ScanTask]],
        needed: Sequence[str],
        skipped_by: Collection[str],
    ) -> Iterator[bool]:
        """For each file, whether Arrow alone reads it correctly, and skips row groups correctly by some columns."""
        selection = self._selection
        if any(physical_name(each) != each.name for each in self._fields(needed)):
            return (False for _ in files)
        constant = selection.schema.own_names(selection.partition_columns)
        wanted = {
            fold_name(each.name): None if each.name in constant else self.schema.field(each.name)
            for each in self._fields(needed)
        }
        is_plain = selection.column_mapping_mode != "id"

        def judge(file: tuple[ds.ParquetFileFragment, ScanTask]) -> bool:
            fragment, task = file
            if not is_plain or task.deletion_vector is not None:
                return False
            return _is_honest(fragment, task.num_records, skipped_by) and _holds_as_is(fragment, wanted)

        return parallel_map(judge, files, threads=_FOOTERS_AT_ONCE)

    def _of_arrow(self, fragments: Sequence[ds.ParquetFileFragment]) -> ds.FileSystemDataset:
        return ds.FileSystemDataset(fragments, self.schema, self._format, self._file_system)

    def _batches(
        self, files: _ScannedFiles, needed: Sequence[str], filter: pc.Expression | None, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        if files.fragments:
            yield from self._of_arrow(files.fragments).to_batches(columns=[*needed], filter=filter)
        if not files.tasks:
            return
        reader = TaskReader(self._store, files.tasks[0].selection)
        for batch in _joined(batches_of(self._store, reader, files.tasks)):
            yield batch if needed else _rows_only(batch.num_rows)


def _batches_of(scanner: ds.Scanner) -> Iterator[pa.RecordBatch]:
    """The batches of Arrow's scan, for a scanner that engines get.

    Arrow's ``to_reader``, which duckdb calls, starts a scan while it holds Python's interpreter lock, and waits for the
    scan's mutex. An Arrow thread that holds the mutex may be about to open the next file, and needs the lock for it,
    since Python opens these files: both then wait forever. ``to_batches`` starts a scan without the lock.
    """
    yield from scanner.to_batches()


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, with small batches joined: an engine spends as long on a batch of a few rows as reading their file
    took. Each is joined from an eighth as many as came before it, since Arrow asks for ten batches ahead: who wants
    only some rows has few files read in vain."""
    waiting: list[pa.RecordBatch] = []
    rows = passed = 0
    for batch in batches:
        is_small = batch.num_rows < _FEW_ROWS
        if is_small:
            waiting.append(batch)
            rows += batch.num_rows
        if waiting and (not is_small or rows >= _FEW_ROWS or len(waiting) >= passed // 8):
            yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
            passed += len(waiting)
            waiting, rows = [], 0
        if not is_small:
            yield batch
    if waiting:
        yield pa.concat_batches(waiting)


def _is_honest(fragment: ds.ParquetFileFragment, num_records: int | None, skipped_by: Collection[str]) -> bool:
    """Whether a file has the rows that its footer and the log say, and Arrow is right about some columns' bounds."""
    try:
        metadata = fragment.metadata
        orders = check_opened(metadata)
        check_chunks(metadata)
    except (pa.ArrowException, OSError, TxlogError):
        return False  # the scan task raises, with all details of the file
    if num_records not in (None, row_count(metadata)):
        return False
    return FooterStatistics(metadata, orders).arrow_agrees(skipped_by)


def _holds_as_is(fragment: ds.ParquetFileFragment, wanted: Mapping[str, pa.Field | None]) -> bool:
    """Whether a file has each wanted column under its own name and with the table's type, or lacks it.

    ``wanted`` is by folded name, None for a partition column, which the file must not have.
    """
    try:
        columns = fragment.physical_schema
    except (pa.ArrowException, OSError, TxlogError):
        return False  # the scan task raises, with all details of the file
    if old_calendar(columns.metadata) is not None:
        return False  # its dates and times mean others than Arrow reads
    found = [column for column in columns if fold_name(column.name) in wanted]
    if len({fold_name(column.name) for column in found}) < len(found):
        return False
    for column in found:
        expected = wanted[fold_name(column.name)]
        if expected is None or column.name != expected.name or not _same_type(column.type, expected.type):
            return False
    return True


def _same_type(file: pa.DataType, table: pa.DataType) -> bool:
    """Whether two types are equal, except for which fields may be null."""
    if pa.types.is_nested(file) or pa.types.is_nested(table):
        if file.id != table.id or file.num_fields != table.num_fields:
            return False
        members = zip(_members(file), _members(table), strict=True)
        is_struct = pa.types.is_struct(file)
        return all((not is_struct or a.name == b.name) and _same_type(a.type, b.type) for a, b in members)
    return bool(file.equals(table))


def _members(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.field(at) for at in range(kind.num_fields)]


def may_hold_nan(kind: pa.DataType) -> bool:
    """Whether values of the type are floats, or have floats in them."""
    if pa.types.is_nested(kind):
        return any(may_hold_nan(member.type) for member in _members(kind))
    return bool(pa.types.is_floating(kind))


def _text(expression: pc.Expression | None) -> str:
    """Text with the name of every column that an expression reads, or a note that it reads one by number."""
    try:
        return str(expression)
    except UnicodeDecodeError:  # Arrow cuts a long list of values anywhere, even inside a character
        pass
    try:
        return pickle.dumps(expression).decode(errors="replace")
    except pa.ArrowNotImplementedError:  # a column by its number
        return _COLUMN_BY_NUMBER


def _rows_only(rows: int) -> pa.RecordBatch:
    """A batch without columns, with this many rows."""
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))


def _in_memory(other: Any) -> Any:
    return ds.InMemoryDataset(other.to_table()) if isinstance(other, SnapshotDataset) else other


class _Guard:
    """A dataset's files that only Arrow's own code sees: it refuses all."""

    def open(self, path: str) -> NoReturn:
        raise InvalidInputError(_GUARDED)

    stat = open
