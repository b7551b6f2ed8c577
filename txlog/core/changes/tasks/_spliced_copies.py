"""Copies of data files for row changes, in which only what changes is decoded: all else is passed on as encoded bytes.

In: a file with rows to remove, or with new versions of rows. Out: its pending copy; None if the file, the table or the
change is one that `SplicedCopies` leaves to the usual copy, which decodes every row. A row group without such rows is
passed on; of one whose rows only change, so are the columns that do not; of one that only loses near rows, so are the
pages without such a row. Statistics come from the new footer, as far as the old file's writer is trusted; floats, whose
bounds are in no footer, are read, or have not changed.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from txlog.core.changes.tasks._file_rows import KEPT_BYTES, FileRows
from txlog.core.changes.tasks._near_rows import are_near, flat_column
from txlog.core.changes.tasks._operation import MatchedFile, RowOperation
from txlog.core.format.arrow.arrays import from_flags, from_numbers
from txlog.core.format.arrow.footer_statistics import FooterStatistics
from txlog.core.format.arrow.old_calendar import old_calendar
from txlog.core.format.arrow.parquet_footer import check_footer, dictionary_leaves, read_footer
from txlog.core.format.arrow.parquet_pages import FlatColumn, without_rows
from txlog.core.format.arrow.parquet_rows import check_chunks, row_count
from txlog.core.format.arrow.parquet_splice import MAGIC, PageDamaged, Piece, Splice, footer_of, set_bounds, state_of
from txlog.core.format.arrow.used_dictionary import dictionary_bounds, with_used_entries
from txlog.core.format.bitmaps import numbers_of
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.partition_values import encode_array
from txlog.core.format.paths import partition_directory
from txlog.core.format.schema import Field, Struct, type_to_arrow
from txlog.core.format.statistics import FileStatistics, leaf_count, with_bounds
from txlog.core.format.statistics_read import num_records
from txlog.core.parallel import Threads
from txlog.core.reading import partition_scalar, path_in_store
from txlog.core.store import TableFiles
from txlog.core.util import cached_property
from txlog.core.writing import (
    ENCODERS,
    DictionaryChoice,
    FileFormat,
    ParquetSettings,
    TaskIdentity,
    WritePlan,
    conformer_for,
    encoded,
    layout_of,
)
from txlog.core.writing.committable import FileTail, PendingFile
from txlog.errors import CorruptLogError, NotFoundError, StorageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

SMALL_BYTES = 1 << 20
"""Up to this size, decoding a whole file takes no longer."""

_READ_BYTES = 8 << 20
PART_BYTES = 2 << 20
_WHOLE_NUMBERS = {
    (f"INT{bits}", f"Int(bitWidth={bits}, isSigned=true)"): "None" for bits in (32, 64)
}  # LogicalTypes.md, "Signed Integers": the annotation is optional


class SplicedCopies:
    """Copies files of one table for one operation. Thread-safe.

    It takes files that hold just the table's columns, as this release would write them. It leaves to others: rules for
    rows, row ids, column mapping, generated columns and partition columns that change; files of the old calendar,
    encrypted ones, and those with a footer or a row count in doubt; row groups that are too large to encode in memory.
    """

    def __init__(
        self, store: TableFiles, table: DefinedTable, operation: RowOperation, rows: FileRows, plan: WritePlan
    ) -> None:
        self.store = store
        self.operation = operation
        self.rows = rows
        self.plan = plan
        self.working = threading.Semaphore(ENCODERS)
        """Who holds it has the decoded rows of a row group. Another copy waits for the disk meanwhile."""
        self.keeps_replaced = table.properties.enable_change_data_feed
        self.encoders = Threads(ENCODERS, "txlog-encoder")
        """Encode parts of row groups for all copies: memory that a thread used for one part is at hand for the next."""
        self.fields = table.schema.fields
        """All columns of the table."""

    def copy(self, each: MatchedFile, new_task: Callable[[], TaskIdentity]) -> PendingFile | None:
        """The pending copy of one file, whose name is not durable yet; None if the file has to be decoded.

        Raises StorageError, CorruptLogError, InvalidInputError.
        """
        if each.add.size <= SMALL_BYTES or not self._takes_changes or not self._takes_partition(each):
            return None
        try:
            source = self.store.files.open(path_in_store(self.store.uri, each.add.path))
        except (NotFoundError, StorageError, CorruptLogError):  # who decodes the file says what is wrong
            return None
        with source:
            old = self._opened(source, each)
            if old is None:
                return None
            change = _Change.of(each, self.operation)
            groups = _Groups.of(old, change)
            copy = _Copy(self, each, old, change, groups)
            if not self._has_room(old, groups) or not copy.can_encode or not copy.has_statistics:
                return None
            try:
                return copy.write(new_task())
            except _Unfit:
                return None

    @cached_property
    def file_format(self) -> FileFormat:
        """How the table's files are written."""
        return layout_of(self.store.files, self.plan, TaskIdentity(self.plan.table_id, 0)).file_format

    @cached_property
    def takes_pages(self) -> bool:
        """Whether pages may stay as they are: no setting of the table is about what is in them."""
        settings = self.plan.parquet
        of_pages = replace(settings, row_group_bytes=None, row_group_rows=None)
        return of_pages == ParquetSettings(settings.codec)

    @cached_property
    def leaf_columns(self) -> list[str]:
        """The column that each leaf is of."""
        columns = zip(self.file_format.columns, self.file_format.schema.types, strict=True)
        return [name for name, kind in columns for _ in range(leaf_count(kind))]

    @cached_property
    def _takes_changes(self) -> bool:
        if self.rows.ids is not None or self.plan.has_rules or self.file_format.is_mapped:
            return False
        changed = {field.name for field in self.operation.changed_fields}
        takes = {*self.file_format.columns}.difference(self.plan.partition_columns)
        return not self.operation.makes_images or (bool(changed) and changed <= takes)

    def _takes_partition(self, each: MatchedFile) -> bool:
        """Whether the partition values are written as those of a new file would be."""
        fields, values = self.plan.physical_partition_fields, each.add.partition_values
        if values.keys() != fields.keys():
            return False
        try:
            return all(_text_of(field, values) == values[name] for name, field in fields.items())
        except CorruptLogError:  # who decodes the file names it
            return False

    def _opened(self, source: Any, each: MatchedFile) -> _Old | None:
        try:
            tail = read_footer(source)
            metadata = pq.ParquetFile(pa.BufferReader(tail)).metadata
            believed = FooterStatistics(metadata, check_footer(tail, metadata))
            check_chunks(metadata)
        except (pa.ArrowException, OSError):
            return None
        rows, counted = row_count(metadata), num_records(each.add.stats)
        if rows != each.num_rows or counted not in (None, rows) or old_calendar(metadata.metadata) is not None:
            return None
        leaves = _leaves(metadata.schema)
        if list(map(_LeafFormat.bare, leaves)) != list(map(_LeafFormat.bare, self._leaves)) or not self._has_the_codec(
            metadata
        ):
            return None
        splice = Splice.of(tail, source.size())
        if splice is None:
            return None
        other = {at for at, (theirs, ours) in enumerate(zip(leaves, self._leaves, strict=True)) if theirs != ours}
        return _Old(source, metadata, believed, splice, frozenset(other))

    @cached_property
    def _leaves(self) -> list[_LeafFormat]:
        body = encoded(self.file_format.schema.empty_table(), self.file_format, ())
        return _leaves(pq.ParquetFile(pa.BufferReader(body)).schema)

    def _has_the_codec(self, metadata: Any) -> bool:
        """Whether the file is compressed as the table's settings say, if they say anything."""
        if self.plan.parquet == ParquetSettings():
            return True
        codec = self.plan.parquet.codec
        wanted = "UNCOMPRESSED" if codec == "none" else codec.upper()
        groups = map(metadata.row_group, range(metadata.num_row_groups))
        return all(group.column(leaf).compression == wanted for group in groups for leaf in range(group.num_columns))

    def dictionary(self, group: Any, rows: pa.Table) -> tuple[str, ...]:
        """The leaves to encode with a dictionary, of ``rows`` that replace columns of a row group."""
        saving, doubtful = dictionary_leaves(group)
        here = {*rows.column_names}
        paths = {self._leaves[leaf].path: self.leaf_columns[leaf] for leaf in doubtful}
        return self._dictionaries.of(
            rows,
            [self._leaves[leaf].path for leaf in saving],
            {path: column for path, column in paths.items() if column in here},
        )

    @cached_property
    def _dictionaries(self) -> DictionaryChoice:
        return DictionaryChoice(self.file_format.options)

    def _has_room(self, old: _Old, groups: _Groups) -> bool:
        """Whether a row is left, and each new row group fits into memory and into what the table's settings allow."""
        if len(groups.gone) == len(old.ends):
            return False
        settings = self.plan.parquet
        most_bytes = min(self.plan.memory_budget_bytes // 3, settings.row_group_bytes or self.plan.memory_budget_bytes)
        new = [old.metadata.row_group(group) for group in (*groups.whole, *groups.columns)]
        return all(
            each.total_byte_size <= most_bytes and each.num_rows <= (settings.row_group_rows or each.num_rows)
            for each in new
        )


class _Unfit(Exception):
    """A page or a footer turns out to be one that the new file cannot take over."""


class _Old:
    """An open file to copy: its footer, what is true of it, and the first row and the end of each row group.

    ``nested_otherwise`` are the leaves that are REQUIRED in the file, or inside something that is, and not in the
    table: they can be passed on, and not encoded anew.
    """

    def __init__(
        self, source: Any, metadata: Any, believed: FooterStatistics, splice: Splice, nested_otherwise: frozenset[int]
    ) -> None:
        self.nested_otherwise = nested_otherwise
        self.source = source
        self.metadata = metadata
        self.believed = believed
        self.splice = splice
        sizes = np.array([metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)], np.int64)
        self.ends = np.cumsum(sizes)
        self.starts = self.ends - sizes

    def counts(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many of these positions, which ascend, each row group has."""
        found: NDArray[np.int64] = np.searchsorted(positions, self.ends) - np.searchsorted(positions, self.starts)
        return found


class _Change(msgspec.Struct, frozen=True):
    """The positions of the rows that a copy leaves out, and of those that get new values; both ascend."""

    removed: NDArray[np.int64]
    updated: NDArray[np.int64]

    @classmethod
    def of(cls, each: MatchedFile, operation: RowOperation) -> _Change:
        replaced = each.replaced.astype(np.int64)
        comes_back = np.zeros(len(replaced), dtype=bool)
        if operation.makes_images:
            comes_back = operation.updated([each])[0][0]
        removed, dead = replaced[~comes_back], numbers_of(each.dead).astype(np.int64)
        if len(dead) or not (removed[1:] > removed[:-1]).all():  # NumPy hashes each position, which takes long
            removed = np.union1d(dead, removed)
        return cls(removed, replaced[comes_back])


class _Groups(msgspec.Struct, frozen=True):
    """What becomes of the row groups: left out, all columns encoded anew, only those that change, or passed on."""

    gone: tuple[int, ...]
    whole: tuple[int, ...]
    columns: tuple[int, ...]
    passed_on: tuple[int, ...]

    @classmethod
    def of(cls, old: _Old, change: _Change) -> _Groups:
        removed, updated = old.counts(change.removed), old.counts(change.updated)
        is_gone = removed == old.ends - old.starts
        kinds = (is_gone, ~is_gone & (removed > 0), ~is_gone & (removed == 0) & (updated > 0))
        found = (*kinds, ~np.logical_or.reduce(kinds))
        return cls(*(tuple(np.flatnonzero(kind).tolist()) for kind in found))


class _Copy:
    """One copy that is being made."""

    def __init__(self, copies: SplicedCopies, each: MatchedFile, old: _Old, change: _Change, groups: _Groups) -> None:
        self._copies = copies
        self._format = copies.file_format
        self._each = each
        self._old = old
        self._change = change
        self._groups = groups
        self._changed = copies.operation.changed_fields if len(change.updated) else ()
        self._hits = replace(each.hits, values=None)  # rows are read with what `changes` needs
        policy = self._format.statistics
        changed = {field.name for field in self._changed}
        of_old = policy.floats + policy.nested if not len(change.removed) else ()
        kept = {path for path in of_old if path[0] not in changed}
        """The columns whose values are just those of the old file, and whose statistics no footer has."""
        self._leaves = tuple(leaf for leaf in self._format.leaves if leaf.path not in kept)
        others = replace(policy, leaves=tuple(leaf for leaf in policy.leaves if leaf[0] not in kept))
        self._statistics = FileStatistics(others, self._leaves)
        self._statistics.keep(kept, each.add.stats)
        self._observing = threading.Lock()
        self._reading = threading.Lock()
        self._body: pa.Buffer  # of the part that is moved
        self._replaced: dict[str, list[pa.Array]] = {}
        self._keeps_replaced = (
            copies.keeps_replaced and each.add.size * len(each.replaced) <= KEPT_BYTES // 4 * each.num_rows
        )

    @property
    def can_encode(self) -> bool:
        """Whether the old file holds what is encoded anew in just the table's form."""
        columns = self._stored if self._groups.whole else self._changed if self._groups.columns else ()
        return self._old.nested_otherwise.isdisjoint(self._leaves_of(columns))

    @property
    def _stored(self) -> list[Field]:
        by_name = {field.name: field for field in self._copies.fields}
        return [by_name[name] for name in self._format.columns]

    # --- statistics -----------------------------------------------------------------------------------------

    @property
    def has_statistics(self) -> bool:
        """Whether the footer says the bounds of all passed-on values that have bounds in the log."""
        bounded = with_bounds(self._each.add.stats)
        floats = self._format.statistics.floats
        return all(
            (found := self._old.believed.of(row_group, leaf.index)) is not None
            and (found.has_min_max or (found.has_null_count and found.null_count == row_group.num_rows))
            for leaf in self._leaves
            if leaf.path in bounded and leaf.path not in floats
            for row_group in map(self._old.metadata.row_group, self._groups_without(leaf.path[0]))
        )

    def _groups_without(self, column: str) -> tuple[int, ...]:
        """The row groups of which this column is passed on."""
        if any(field.name == column for field in self._changed):
            return self._groups.passed_on
        return tuple(sorted((*self._groups.passed_on, *self._groups.columns)))

    def _look_at_floats(self) -> None:
        """Read the floats that are passed on and whose bounds may differ from the old file's."""
        columns = {path[0] for path in self._statistics.floats}
        by_groups: dict[tuple[int, ...], list[Field]] = {}
        for field in self._copies.fields:
            if field.name in columns and (groups := self._groups_without(field.name)):
                by_groups.setdefault(groups, []).append(field)
        for groups, fields in by_groups.items():
            for _, batch in self._rows(groups, fields):
                self._statistics.observe(batch)

    # --- rows -----------------------------------------------------------------------------------------------

    def _rows(
        self, groups: tuple[int, ...], fields: Iterable[Field], *, keeps_dictionaries: bool = False
    ) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch]]:
        reader = self._copies.rows.reader(tuple(fields), keeps_dictionaries=keeps_dictionaries)
        return reader.batches(self._each.add, with_dead_rows=True, row_groups=groups)

    def _encoded(self, groups: tuple[int, ...], written: Sequence[Field]) -> Iterator[_EncodedColumns]:
        """These columns of each of the row groups, with their new values."""
        if not groups:
            return
        names = {field.name for field in written}
        if self._changed:
            names |= {field.name for field in self._copies.operation.fields_for_changes}
        read = [field for field in self._copies.fields if field.name in names]
        rows_read = self._rows(groups, read, keeps_dictionaries=True)
        pieces = _by_group(rows_read, [(each, int(self._old.ends[each])) for each in groups])
        by_group = itertools.groupby(pieces, key=lambda piece: piece[0])
        for _ in groups:
            with self._copies.working:
                group, batches = next(by_group)
                # One after the other, so that an old batch is gone when the next one is read.
                rows = pa.Table.from_batches([self._new(positions, batch, written) for _, positions, batch in batches])
                rows = _without_large_dictionaries(rows.unify_dictionaries())
                part = self._part(group, rows, written)
                del rows
            yield part

    def _part(self, group: int, rows: pa.Table, written: Sequence[Field]) -> _EncodedColumns:
        with self._observing:
            self._statistics.observe(rows)
        dictionary = self._copies.dictionary(self._old.metadata.row_group(group), rows)
        body = encoded(rows, self._format, dictionary)
        footer, leaves = footer_of(_tail_of(body)), self._leaves_of(written)
        if footer is None:
            raise _Unfit
        for at, leaf in enumerate(leaves):
            column = rows.column(self._copies.leaf_columns[leaf])
            if pa.types.is_dictionary(column.type):
                set_bounds(footer, at, *dictionary_bounds(column))
        return _EncodedColumns(body, footer, leaves)

    def _columns_at_once(self, group: int) -> Iterator[tuple[Field, ...]]:
        """The columns of a row group in parts that fill a processor's caches, so that each step finds the last one's
        values there."""
        chunks = self._old.metadata.row_group(group)
        part: list[Field] = []
        part_bytes = 0
        for field in self._stored:
            part.append(field)
            part_bytes += sum(chunks.column(leaf).total_uncompressed_size for leaf in self._leaves_of([field]))
            if part_bytes >= PART_BYTES:
                yield tuple(part)
                part, part_bytes = [], 0
        if part:
            yield tuple(part)

    def _left(self, item: tuple[int, tuple[Field, ...]]) -> Sequence[_EncodedColumns]:
        """Some columns of a row group that only loses rows, in order."""
        group, fields = item
        with self._copies.working:
            by_pages = self._left_by_pages(group, fields)
            parts: list[_EncodedColumns] = []
            for is_made, run in itertools.groupby(fields, key=lambda field: field.name in by_pages):
                some = tuple(run)
                parts += [by_pages[field.name] for field in some] if is_made else [self._left_decoded(group, some)]
            return parts

    def _left_by_pages(self, group: int, fields: Sequence[Field]) -> dict[str, _EncodedColumns]:
        """Those of the columns of which pages without a removed row are passed on."""
        first, end = int(self._old.starts[group]), int(self._old.ends[group])
        removed = _within(self._change.removed, first, end) - first
        if self._keeps_replaced or not self._copies.takes_pages or not are_near(removed, end - first):
            return {}
        stays = np.ones(end - first, dtype=bool)
        stays[removed] = False
        chunks = self._old.metadata.row_group(group)
        saving, _ = dictionary_leaves(chunks)
        found: dict[str, _EncodedColumns] = {}
        flat = [*self._flat(chunks, fields)]
        bodies = self._bodies([self._old.splice.chunk(group, leaf)[1:] for _, leaf, _ in flat])
        for (field, leaf, column), body in zip(flat, bodies, strict=True):
            metadata, start, length = self._old.splice.chunk(group, leaf)
            try:
                chunk = without_rows(
                    body,
                    metadata,
                    column,
                    stays,
                    keeps_dictionary=leaf in saving,
                    wants_floats=(field.name,) in self._statistics.floats,
                )
            except PageDamaged:
                raise self._damaged(start, length) from None
            if chunk is None:
                continue
            with self._observing:
                for values in chunk.floats:
                    self._statistics.observe(pa.RecordBatch.from_arrays([values], names=[field.name]))
            found[field.name] = _EncodedColumns(pa.py_buffer(chunk.body), chunk.footer, [leaf])
        return found

    def _flat(self, chunks: Any, fields: Sequence[Field]) -> Iterator[tuple[Field, int, FlatColumn]]:
        """Those of the columns whose pages hold rows, with their leaf."""
        for field in fields:
            leaf, *others = self._leaves_of([field])
            if others or pa.types.is_nested(self._format.schema.field(field.name).type):
                continue
            column = flat_column(self._old.metadata, self._old.believed, chunks, leaf)
            if column is not None and (field.nullable or not column.is_nullable):  # NULL there is told when decoded
                yield field, leaf, column

    def _left_decoded(self, group: int, fields: tuple[Field, ...]) -> _EncodedColumns:
        batches = self._copies.rows.reader(fields, by_row_group=True).batches(
            self._each.add, with_dead_rows=True, row_groups=(group,)
        )
        left: list[pa.RecordBatch] = []
        replaced: list[tuple[str, pa.Array]] = []
        for positions, batch in batches:
            left.append(self._without_removed(positions, batch, fields))
            if self._keeps_replaced:
                replaced += self._replaced_of(positions, batch)
        rows = pa.Table.from_batches(left)
        if len(left) > 1:
            rows = rows.unify_dictionaries()
        return self._part(group, rows, fields)._replace(replaced=replaced)

    def _replaced_of(self, positions: NDArray[np.int64], rows: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
        """The columns of the rows that are replaced, as they were, of consecutive ones."""
        first, end = int(positions[0]), int(positions[-1]) + 1
        at = from_numbers(_within(self._each.replaced.astype(np.int64), first, end) - first)
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            values = column.take(at)
            yield name, _plain(values)

    def _keep_replaced(self) -> None:
        """Let the change data feed have the replaced rows without reading the file again."""
        add, num_rows = self._each.add, len(self._each.replaced)
        columns = {name: pa.concat_arrays(parts) for name, parts in self._replaced.items()}
        for field in self._copies.fields:
            if field.name in self._copies.plan.partition_columns:
                columns[field.name] = pa.repeat(partition_scalar(field, add.partition_values), num_rows)
        names = [field.name for field in self._copies.fields]
        if columns.keys() == {*names} and all(len(column) == num_rows for column in columns.values()):
            rows = pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)
            self._copies.rows.keep(add, self._each.replaced, rows)

    def _without_removed(
        self, positions: NDArray[np.int64], rows: pa.RecordBatch, fields: Sequence[Field]
    ) -> pa.RecordBatch:
        """The rows that stay, of consecutive ones. Text that is a dictionary remains one."""
        first, end = int(positions[0]), int(positions[-1]) + 1
        stays = np.ones(rows.num_rows, dtype=bool)
        stays[_within(self._change.removed, first, end) - first] = False
        return self._fitted(rows.columns, fields, first, stays)

    def _conformed(self, column: pa.Array, field: Field, first_row: int) -> pa.Array:
        rows = pa.RecordBatch.from_arrays([column], names=[field.name])
        conformer = conformer_for(Struct((field,)), rows.schema, self._copies.plan.table)
        return conformer.conform(rows, first_row).column(0)

    def _new(self, positions: NDArray[np.int64], rows: pa.RecordBatch, written: Sequence[Field]) -> pa.RecordBatch:
        """What becomes of some consecutive rows."""
        first, end = int(positions[0]), int(positions[-1]) + 1
        new = self._new_values(_within(self._change.updated, first, end), first, rows)
        removed = _within(self._change.removed, first, end)
        stays = None
        if len(removed):
            stays = np.ones(rows.num_rows, dtype=bool)
            stays[removed - first] = False
        return self._fitted([new.get(field.name, rows.column(field.name)) for field in written], written, first, stays)

    def _fitted(
        self, columns: Iterable[pa.Array], fields: Sequence[Field], first_row: int, stays: NDArray[np.bool_] | None
    ) -> pa.RecordBatch:
        """Columns in the types of the file, and of these rows those that stay. Text that is a dictionary remains
        one."""
        fitted = []
        for field, column in zip(fields, columns, strict=True):
            keeps = pa.types.is_dictionary(column.type) and (field.nullable or not column.null_count)
            column = column if keeps else self._conformed(column, field, first_row)
            column = column if stays is None else column.filter(from_flags(stays))
            fitted.append(with_used_entries(column) if keeps else column)
        schema = [self._format.schema.field(field.name) for field in fields]
        named = [field.with_type(column.type) for field, column in zip(schema, fitted, strict=True)]
        return pa.RecordBatch.from_arrays(fitted, schema=pa.schema(named))

    def _new_values(self, updated: NDArray[np.int64], first: int, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        """The columns that change, with new values at the ``updated`` positions."""
        if not len(updated):
            return {}
        operation = self._copies.operation
        read = rows.select([field.name for field in operation.fields_for_changes]).take(from_numbers(updated - first))
        old = pa.RecordBatch.from_arrays([_plain(column) for column in read.columns], names=read.schema.names)
        hits = self._hits.at(np.searchsorted(self._hits.positions, updated.astype(np.uint64)))
        images = list(operation.changes(old, hits))
        places = updated[np.concatenate([at for _, at in images])] - first
        assert len(places) == len(updated), "each row that comes back has one new version"
        taken = np.arange(rows.num_rows)
        taken[places] = rows.num_rows + np.arange(len(places))
        return {
            field.name: pa.concat_arrays(
                _alike([rows.column(field.name), *(_as(batch.column(field.name), field) for batch, _ in images)])
            ).take(from_numbers(taken))
            for field in self._changed
        }

    # --- the file -------------------------------------------------------------------------------------------

    def write(self, task: TaskIdentity) -> PendingFile:
        """Raises `_Unfit`, and what `SplicedCopies.copy` raises; then nothing is left of the file."""
        copies, values = self._copies, self._each.add.partition_values
        path = layout_of(copies.store.files, copies.plan, task).names.path(partition_directory(values), 0, 0)
        output = copies.store.files.create(path)
        try:
            tail = self._write_into(output.sink)
            with copies.working:
                self._look_at_floats()
            if self._replaced:
                self._keep_replaced()
            meta = output.publish()
        except BaseException as error:
            output.abort()
            if isinstance(error, OSError):
                raise StorageError(
                    f"could not write {path}: {error}. No commit names it; fix the cause and run it again", path=path
                ) from error
            raise
        metadata = pq.ParquetFile(pa.BufferReader(MAGIC + tail)).metadata
        stats = self._statistics.finish(metadata, FooterStatistics(metadata, check_footer(tail, metadata)))
        return PendingFile(
            path=path,
            size_bytes=meta.size,
            num_rows=self._old.splice.num_rows,
            modified_ms=meta.modified_ms,
            partition_values=dict(values),
            stats=stats,
            _tail=FileTail(meta.size - len(tail), zlib.crc32(tail)),
        )

    def _write_into(self, sink: Any) -> bytes:
        """Write the whole file. Returns its end, from the footer on."""
        splice, groups = self._old.splice, self._groups
        sink.write(MAGIC)
        with contextlib.ExitStack() as ended:
            made = self._parts_by_group(ended)
            for group in sorted((*groups.whole, *groups.columns, *groups.passed_on)):
                if group not in made:
                    self._move(splice.pass_on(group), sink)
                    continue
                parts = map(self._taken, itertools.chain.from_iterable(itertools.islice(*made[group])))
                self._move(splice.replace(group, parts), sink)
        tail = splice.finish()
        sink.write(tail)
        return tail

    def _taken(self, part: _EncodedColumns) -> tuple[Mapping[int, Any], Sequence[int]]:
        self._body = part.body
        for name, values in part.replaced:
            self._replaced.setdefault(name, []).append(values)
        return part.footer, part.leaves

    def _parts_by_group(
        self, ended: contextlib.ExitStack
    ) -> dict[int, tuple[Iterator[Sequence[_EncodedColumns]], int]]:
        """For each row group that is encoded anew, who makes its next parts, and how often."""
        groups = self._groups
        if self._changed or (self._format.options is not None and self._format.options.bloom_filters):
            whole = zip(self._encoded(groups.whole, self._stored), strict=True)  # each part alone
            columns = zip(self._encoded(groups.columns, self._changed), strict=True)
            return {**dict.fromkeys(groups.whole, (whole, 1)), **dict.fromkeys(groups.columns, (columns, 1))}
        items = [(group, [*self._columns_at_once(group)]) for group in groups.whole]
        wanted = [(group, fields) for group, each in items for fields in each]
        parts = self._copies.encoders.map(self._left, wanted, ahead=ENCODERS)
        ended.callback(parts.close)
        return {group: (parts, len(each)) for group, each in items}

    def _leaves_of(self, fields: Sequence[Field]) -> list[int]:
        """The places of these columns' leaves among all of the file."""
        names = {field.name for field in fields}
        return [leaf for leaf, name in enumerate(self._copies.leaf_columns) if name in names]

    def _move(self, pieces: Iterable[Piece], sink: Any) -> None:
        for is_old, run in itertools.groupby(pieces, key=lambda piece: piece.is_old):
            if is_old:
                self._pass_on(run, sink)
                continue
            for piece in run:
                sink.write(self._body.slice(piece.start, piece.length))

    def _pass_on(self, pieces: Iterable[Piece], sink: Any) -> None:
        """Copy bytes of the old file. What lies together is read together."""
        waiting: list[Piece] = []
        for piece in pieces:
            end = waiting[-1].start + waiting[-1].length if waiting else piece.start
            if waiting and (piece.start != end or end - waiting[0].start >= _READ_BYTES):
                sink.write(self._read(waiting))
                waiting = []
            waiting.append(piece)
        sink.write(self._read(waiting))

    def _read(self, pieces: Sequence[Piece]) -> bytes:
        """Consecutive bytes of the old file, with a look at the pages in them."""
        first = pieces[0].start
        body = self._bytes(first, pieces[-1].start + pieces[-1].length - first)
        for piece in pieces:
            pages = memoryview(body)[piece.start - first : piece.start - first + piece.length]
            state = "whole" if piece.num_values is None else state_of(pages, piece.num_values)
            if state == "damaged":
                raise self._damaged(piece.start, piece.length)
            if state == "unclear" or len(pages) != piece.length:
                raise _Unfit
        return body

    def _bodies(self, spans: Sequence[tuple[int, int]]) -> Sequence[memoryview]:
        """These parts of the old file, which are mostly next to each other, by one request for each row of them."""
        found: list[memoryview] = []
        at = 0
        while at < len(spans):
            stop = at + 1
            while stop < len(spans) and spans[stop][0] == sum(spans[stop - 1]):
                stop += 1
            first = spans[at][0]
            body = memoryview(self._bytes(first, sum(spans[stop - 1]) - first))
            found += [body[start - first : start - first + length] for start, length in spans[at:stop]]
            at = stop
        return found

    def _bytes(self, start: int, length: int) -> bytes:
        with self._reading:
            self._old.source.seek(start)
            body: bytes = self._old.source.read(length)
        return body

    def _damaged(self, start: int, length: int) -> CorruptLogError:
        return CorruptLogError(
            f"a data file is damaged: the checksum of a page does not match, between byte {start} and byte"
            f" {start + length}. Restore the file from a copy, or take it out of the table with"
            " txn.remove(path) in a table.transaction(), and write its rows again",
            table=self._copies.store.uri,
            version=self._copies.plan.read_version,
            path=self._each.add.path,
        )


class _EncodedColumns(NamedTuple):
    """Columns of a row group, as a Parquet file of their own, with its footer and the leaves that they are; and the
    values of the rows that are replaced, if they are kept."""

    body: pa.Buffer
    footer: Mapping[int, Any]
    leaves: Sequence[int]
    replaced: Sequence[tuple[str, pa.Array]] = ()


class _LeafFormat(NamedTuple):
    """What the values of a leaf column are and how they are stored."""

    path: str
    physical_type: str
    logical_type: str
    length: int
    repetition_levels: int
    definition_levels: int

    def bare(self) -> _LeafFormat:
        """The same for passing it on: readers take the levels from the file."""
        return self._replace(definition_levels=0)


def _leaves(schema: Any) -> list[_LeafFormat]:
    return [
        _LeafFormat(
            each.path.replace(".list.item", ".list.element"),  # both are in use
            each.physical_type,
            _WHOLE_NUMBERS.get((each.physical_type, text := str(each.logical_type)), text),
            each.length,
            each.max_repetition_level,
            each.max_definition_level,
        )
        for each in map(schema.column, range(len(schema)))
    ]


def _text_of(field: Field, partition_values: Mapping[str, str | None]) -> str | None:
    """A partition value as txlog writes it."""
    value = pa.array([partition_scalar(field, partition_values)], type_to_arrow(field.type))
    found: str | None = encode_array(value, field.type)[0].as_py()
    return found


def _by_group(
    rows: Iterable[tuple[NDArray[np.int64], pa.RecordBatch]], groups: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, NDArray[np.int64], pa.RecordBatch]]:
    """The batches with the row group that each is of. ``rows`` are all rows of the ``groups``, which are given with
    their ends.
    """
    left = iter(groups)
    group, end = next(left)
    for positions, batch in rows:
        start = 0
        while start < len(positions):
            stop = int(np.searchsorted(positions, end))
            yield group, positions[start:stop], batch.slice(start, stop - start)
            start = stop
            if positions[stop - 1] + 1 == end:
                group, end = next(left, (-1, -1))


def _within(positions: NDArray[np.int64], first: int, end: int) -> NDArray[np.int64]:
    """Those of the positions, which ascend, that are in this range."""
    return positions[slice(*np.searchsorted(positions, (first, end)))]


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _alike(parts: Sequence[pa.Array]) -> list[pa.Array]:
    """All in the form of the first: text in a dictionary, if that one is."""
    kind = parts[0].type
    return [parts[0], *(each.dictionary_encode() if pa.types.is_dictionary(kind) else each for each in parts[1:])]


def _without_large_dictionaries(rows: pa.Table) -> pa.Table:
    """The same rows, with text that hardly repeats as it is: new values may all be different."""
    for at, column in enumerate(rows.columns):
        if pa.types.is_dictionary(column.type) and 2 * len(column.chunk(0).dictionary) > rows.num_rows:
            kind = column.type.value_type
            rows = rows.set_column(at, rows.schema.field(at).with_type(kind), column.cast(kind))
    return rows


def _as(values: pa.Array, field: Field) -> pa.Array:
    """New values in the column's type: an expression may leave out what its type says of NULL inside it."""
    one = Struct((field,))
    given = pa.RecordBatch.from_arrays([values], names=[field.name])
    return conformer_for(one, given.schema).conform(given).column(0)


def _tail_of(body: pa.Buffer) -> bytes:
    end = memoryview(body)
    return bytes(end[-8 - int.from_bytes(end[-8:-4], "little") :])
