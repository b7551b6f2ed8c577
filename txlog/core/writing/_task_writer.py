"""One task's writer: batches in, pending data files out, within a memory budget.

    batch -> conform -> (gather, route by partition) -> lanes -> encoder threads -> files -> PendingFiles

Rows wait in lanes, one per partition, until they make a large row group or the budget needs space; then the largest
lanes are written first. Rows that wait, are being routed or are held by the encoders never exceed
``plan.memory_budget_bytes`` by more than one input batch. In addition, Arrow needs working memory for the row groups
being encoded (about their own size), and small files need their encoded bytes; up to 32 of them are on their way to an
object store at a time. Object stores gather 8 MiB parts: if the parts of all open files reach another
``memory_budget_bytes``, the least recently used files are finished. At most 4 parts of a file are sent but not yet
acknowledged. Data that fits into one small write starts no thread.

Rows are routed by array operations, never one by one. Two values belong to one partition exactly if their text in
``add.partitionValues`` is equal.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from txlog.core.format.column_mapping import file_schema, is_mapped
from txlog.core.format.paths import partition_directory
from txlog.core.format.properties import BRANCH, TableProperties
from txlog.core.format.schema import Decimal, Field, Primitive, Struct, type_name
from txlog.core.format.statistics import StatisticsPolicy
from txlog.core.store import FileStore
from txlog.core.util import logger
from txlog.core.writing._conform import Completer, Conformer, completer_for, fitting_stream, idle_as_null
from txlog.core.writing._data_file import (
    SAMPLE_ROWS_MIN,
    FileFormat,
    PackageColumn,
    ParquetSettings,
    WriterOptions,
    dictionary_columns,
)
from txlog.core.writing._input import open_data
from txlog.core.writing._partition_writer import (
    ENCODERS,
    THREADS,
    UPLOADS,
    EncoderPool,
    FileLayout,
    PartitionWriter,
    held_bytes,
)
from txlog.core.writing._unsent_files import delete_written
from txlog.core.writing._write_plan import FileNames, TaskIdentity, WritePlan, without_void
from txlog.core.writing.committable import PendingFile
from txlog.errors import InvalidInputError, SchemaMismatchError, TxlogError

if TYPE_CHECKING:
    from txlog.core.writing._row_guard import RowGuard

MIB = 1 << 20

ROUTE_ROWS = 262_144
"""Rows sorted by partition at a time: few enough for the caches, enough to make copying a partition cheap."""
ROUTE_ROWS_A_PARTITION = 256
"""With many partitions, rows are gathered until each has about this many, if the budget allows it."""
ROW_GROUP_ROWS = 1 << 20
INLINE_BYTES = 4 * MIB
INLINE_LANES = 3
"""Up to this size, a task writes on the caller's thread: threads would cost more than they save."""


class TaskWriter:
    """Writes the rows of one attempt of one task. Called by one thread; a context manager that aborts on errors.

    Nothing is readable in the table before a commit names the files that `close` returns. A killed task leaves
    in-progress files (hidden) and full files (pending); both are orphans, which a vacuum removes.

    ``encoders`` is how many row groups are encoded at a time. Without partitions it is also the number of files written
    in turns, so a task with one core writes one file, not two of half the size. ``dictionary`` are the columns to
    encode with a dictionary, by their Parquet paths, if that is already decided.
    """

    def __init__(
        self,
        files: FileStore,
        plan: WritePlan,
        task: TaskIdentity,
        *,
        encoders: int = ENCODERS,
        dictionary: tuple[str, ...] | None = None,
    ) -> None:
        self._plan = plan
        self._encoders = encoders
        self._conformer: Conformer | Completer | None = None
        self._guard = _guard(plan)
        self._router = Router(plan.schema, plan.partition_columns) if plan.partition_columns else None
        self._partition_names = plan.physical_partition_columns
        self._layout = layout_of(files, plan, task)
        self._data_columns = list(self._layout.file_format.columns)
        self._lanes: dict[PartitionKey | int, PartitionWriter] = {}
        self._flat_turn = 0
        self._open: dict[PartitionWriter, None] = {}
        self._pool: EncoderPool | None = None
        self.dictionary = dictionary
        """The columns encoded with a dictionary; None before there are enough rows to decide."""
        self._unrouted: list[pa.RecordBatch] = []
        self._unrouted_rows = self._unrouted_bytes = self._waiting_bytes = 0
        self._result: tuple[PendingFile, ...] | None = None
        self._is_aborted = False
        self.num_rows = 0
        self.peak_pending_bytes = 0
        """The maximum bytes of rows held at a time."""

        self._unit_bytes = max(plan.memory_budget_bytes // 8, 1)
        largest_bytes = plan.parquet.row_group_bytes or max(plan.target_file_size_bytes, MIB)
        self._row_group_bytes = min(plan.memory_budget_bytes // 3, max(largest_bytes, MIB))

    @property
    def pending_bytes(self) -> int:
        """Bytes of rows held now: gathered, waiting in lanes, and held by the encoders."""
        return self._unrouted_bytes + self._waiting_bytes + (self._pool.held_bytes if self._pool else 0)

    def write(self, data: Any) -> None:
        """Take a record batch, or anything `open_data` takes, of any size.

        Raises SchemaMismatchError, InvalidInputError, StorageError; the task is aborted then.
        """
        self._check_open()
        try:
            stream = open_data(data)
            try:
                if len(stream.schema):
                    self._conform_to(stream.schema)
            except SchemaMismatchError:
                stream = fitting_stream(self._plan.schema, stream)
                self._conform_to(stream.schema)
            for batch in stream.batches:
                self._take(batch)
        except BaseException:
            self.abort()
            raise

    def write_empty_file(self) -> None:
        """Add a file without rows, in the null partition. It records that there are no rows beyond those in other
        files.

        Raises StorageError; the task is aborted then.
        """
        self._check_open()
        try:
            lane = (
                self._flat_lane() if self._router is None else self._lane((None,) * len(self._plan.partition_columns))
            )
            lane.write_empty_file()
        except BaseException:
            self.abort()
            raise

    def close(self) -> tuple[PendingFile, ...]:
        """Write all waiting rows and publish every file. Returns the same result when called again, () if there were no
        rows.

        Raises StorageError; the task is aborted then.
        """
        if self._result is not None:
            return self._result
        self._check_open()
        try:
            self._route()
            self._finish_lanes()
        except BaseException:
            self.abort()
            raise
        lanes = sorted(self._lanes.values(), key=lambda lane: lane.ordinal)
        self._result = tuple(file for lane in lanes for file in lane.finished)
        return self._result

    def abort(self) -> None:
        """Remove everything this task wrote. Never raises. Do not call it after a committer got the files."""
        self._is_aborted = True
        self._result = None
        if self._pool is not None:
            self._pool.stop()
        finished = [path for lane in self._lanes.values() for path in lane.abort()]
        for path, why in delete_written(self._layout.files, finished).items():
            logger.debug("%s could not be deleted; vacuum removes it: %s", path, why)
        self._unrouted = []
        self._unrouted_bytes = self._waiting_bytes = 0

    def __enter__(self) -> TaskWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        elif self._result is None:
            self.abort()

    # --- rows into lanes -------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._is_aborted or self._result is not None:
            state = "aborted" if self._is_aborted else "closed"
            raise InvalidInputError(f"this task's writer is {state}: start another attempt", table=self._plan.table)

    def _conform_to(self, data_schema: pa.Schema) -> Conformer | Completer:
        if self._conformer is None or not self._conformer.accepts(data_schema):
            plan = self._plan
            self._conformer = completer_for(plan.schema, data_schema, plan.computed, plan.table, plan.read_version)
        return self._conformer

    def _take(self, batch: pa.RecordBatch) -> None:
        try:
            conformer = self._conform_to(batch.schema)
        except SchemaMismatchError:
            batch = idle_as_null(self._plan.schema, batch)
            conformer = self._conform_to(batch.schema)
        size_bytes = held_bytes(batch)
        step = min(ROUTE_ROWS, max(1, batch.num_rows * self._unit_bytes // max(size_bytes, 1)))
        for start in range(0, batch.num_rows, step):
            piece = batch if step >= batch.num_rows else batch.slice(start, step)
            rows = conformer.conform(piece, self.num_rows)
            if self._guard is not None:
                self._guard.check(rows, self.num_rows)
            self._gather(rows, size_bytes if rows is batch else held_bytes(rows))

    def _gather(self, rows: pa.RecordBatch, size_bytes: int) -> None:
        self._make_room(size_bytes)
        self.num_rows += rows.num_rows
        if self._router is None:
            if rows.num_columns != len(self._data_columns):
                rows = rows.select(self._data_columns)
            self._add(self._flat_lane(), rows, size_bytes)
        else:
            if self._plan.stores_partition_columns:
                from txlog.core.row_rules import with_stored_partition_values

                rows = with_stored_partition_values(rows, self._plan.partition_columns)
            self._unrouted.append(rows)
            self._unrouted_rows += rows.num_rows
            self._unrouted_bytes += size_bytes
            enough_rows = max(ROUTE_ROWS // 2, ROUTE_ROWS_A_PARTITION * len(self._lanes))
            if self._unrouted_rows >= enough_rows or self._unrouted_bytes >= self._unit_bytes:
                self._route()
        self.peak_pending_bytes = max(self.peak_pending_bytes, self.pending_bytes)

    def _route(self) -> None:
        """Move the gathered rows into the lanes of their partitions."""
        if self._router is None or not self._unrouted:
            return
        self._make_room(self._unrouted_bytes)
        row_bytes = self._unrouted_bytes / self._unrouted_rows
        with TxlogError.located(self._plan.table):
            for key, rows in self._router.route(self._gathered(), self._data_columns):
                self._add(self._lane(key), rows, int(rows.num_rows * row_bytes))
        self.peak_pending_bytes = max(self.peak_pending_bytes, self.pending_bytes)
        self._unrouted_rows = self._unrouted_bytes = 0

    def _gathered(self) -> pa.RecordBatch:
        batches, self._unrouted = self._unrouted, []
        return batches[0] if len(batches) == 1 else pa.concat_batches(batches)

    def _add(self, lane: PartitionWriter, rows: pa.RecordBatch, size_bytes: int) -> None:
        lane.add(rows, size_bytes)
        self._waiting_bytes += size_bytes
        if lane.waiting_bytes >= self._row_group_bytes or lane.waiting_rows >= ROW_GROUP_ROWS:
            self._flush(lane)
            self._flat_turn += 1

    def _lane(self, key: PartitionKey) -> PartitionWriter:
        lane = self._lanes.get(key)
        if lane is None:
            values = dict(zip(self._partition_names, key, strict=True))
            lane = self._lanes[key] = PartitionWriter(
                self._layout, len(self._lanes), partition_directory(values), values
            )
        return lane

    def _flat_lane(self) -> PartitionWriter:
        """Without partitions, as many lanes as encoders take turns, row group by row group."""
        turn = self._flat_turn % self._encoders
        lane = self._lanes.get(turn)
        if lane is None:
            lane = self._lanes[turn] = PartitionWriter(self._layout, len(self._lanes), "", {})
        return lane

    # --- lanes into files ------------------------------------------------------------------------

    def _make_room(self, wanted_bytes: int) -> None:
        """Make ``wanted_bytes`` fit into the budget: flush the largest lanes, then wait for the encoders."""
        budget = self._plan.memory_budget_bytes
        if self.pending_bytes + wanted_bytes <= budget:
            return
        excess = self._unrouted_bytes + self._waiting_bytes + wanted_bytes - (budget - budget // 12)
        for lane in sorted(self._lanes.values(), key=lambda lane: lane.waiting_bytes, reverse=True):
            if excess <= 0 or not lane.waiting_bytes:
                break
            excess -= lane.waiting_bytes
            self._flush(lane)
        if self._pool is not None:
            self._pool.wait_below(max(0, budget - wanted_bytes - self._unrouted_bytes - self._waiting_bytes))

    def _flush(self, lane: PartitionWriter) -> None:
        """Pass the waiting rows of ``lane`` to the encoders."""
        pool = self._started_pool()
        self._mark_open(lane, pool)
        size_bytes = lane.waiting_bytes
        table = lane.take()
        self._waiting_bytes -= size_bytes
        job = functools.partial(lane.write, table, self._dictionary_for(table), pool.encoding)
        pool.submit(lane.queue, job, size_bytes)

    def _mark_open(self, lane: PartitionWriter, pool: EncoderPool) -> None:
        """``lane`` is about to open a file. At the limits, finish the least recently used files first."""
        is_new = lane not in self._open
        self._open.pop(lane, None)
        is_one_too_many = is_new and len(self._open) >= _files_at_once(self._plan.max_open_files)
        if is_one_too_many or self._gathers_too_much():
            oldest = list(itertools.islice(self._open, max(1, len(self._open) // 8)))
            for victim in oldest:
                del self._open[victim]
                pool.submit(victim.queue, victim.finish)
            pool.wait_for(victim.queue for victim in oldest)
        self._open[lane] = None

    def _gathers_too_much(self) -> bool:
        """Whether the open files' unfinished parts, besides the rows, exceed the budget."""
        part_bytes, budget = self._layout.files.part_bytes, self._plan.memory_budget_bytes
        if len(self._open) * part_bytes <= budget:
            return False
        return sum(lane.file_bytes % part_bytes for lane in self._open) > budget

    def _finish_lanes(self) -> None:
        self._join_flat_remainder()
        waiting = [lane for lane in self._lanes.values() if lane.waiting_rows and lane not in self._open]
        takes_requests = self._layout.files.part_bytes > 0
        inline_lanes = 1 if takes_requests else INLINE_LANES
        if self._pool is None and self._waiting_bytes <= INLINE_BYTES and len(waiting) <= inline_lanes:
            for lane in waiting:
                self._last_write(lane, contextlib.nullcontext())()
            return
        are_uploads = takes_requests and all(lane.waiting_bytes <= INLINE_BYTES for lane in waiting)
        pool = self._started_pool(UPLOADS if are_uploads else THREADS)
        for lane in (*self._open, *waiting):
            pool.submit(lane.queue, self._last_write(lane, pool.encoding), lane.waiting_bytes)
        pool.wait_for(lane.queue for lane in self._lanes.values())
        pool.stop()

    def _last_write(
        self, lane: PartitionWriter, encoding: contextlib.AbstractContextManager[object]
    ) -> functools.partial[None]:
        size_bytes = lane.waiting_bytes
        table = lane.take()
        self._waiting_bytes -= size_bytes
        return functools.partial(lane.write, table, self._dictionary_for(table), encoding, is_last=True)

    def _join_flat_remainder(self) -> None:
        """Rows too few for a separate file go to the end of another lane's file."""
        if self._router is not None or not self._open:
            return
        lane = self._flat_lane()
        if lane not in self._open and lane.waiting_bytes < self._row_group_bytes // 4:
            size_bytes = lane.waiting_bytes
            other = next(iter(self._open))
            for batch in lane.take().to_batches():
                other.add(batch, 0)
            other.waiting_bytes += size_bytes

    def _started_pool(self, threads: int = THREADS) -> EncoderPool:
        if self._pool is None:
            self._pool = EncoderPool(self._encoders, threads)
        return self._pool

    def _dictionary_for(self, table: pa.Table) -> tuple[str, ...]:
        """The columns to encode with a dictionary, decided once per task on the first table that is large enough."""
        options = self._layout.file_format.options
        if table.num_rows < SAMPLE_ROWS_MIN:
            return _settled_dictionary((), options)
        if self.dictionary is None:
            self.dictionary = _settled_dictionary(dictionary_columns(table), options)
        return self.dictionary


def _settled_dictionary(sampled: tuple[str, ...], options: WriterOptions | None) -> tuple[str, ...]:
    """The columns with a dictionary: those that the settings name, and for all others what the sample says."""
    if options is None:
        return sampled
    chosen = dict.fromkeys(sampled, True) | options.dictionary
    return tuple(path for path, has_dictionary in chosen.items() if has_dictionary)


class DictionaryChoice:
    """Which leaves of several files get a dictionary: those that the settings name, those that save space so far, and
    of the ones in doubt, what a sample of the first rows says. Thread-safe."""

    def __init__(self, options: WriterOptions | None) -> None:
        self._options = options
        self._sampled: dict[str, bool] = {}

    def of(self, rows: pa.Table, saving: Iterable[str], doubtful: Mapping[str, str]) -> tuple[str, ...]:
        """The Parquet paths of the leaves to encode with a dictionary. ``doubtful`` has the column of each leaf."""
        columns = {column for leaf, column in doubtful.items() if leaf not in self._sampled}
        if columns and rows.num_rows >= SAMPLE_ROWS_MIN:
            sampled = dictionary_columns(rows.select(sorted(columns)))
            self._sampled.update({leaf: leaf in sampled for leaf, column in doubtful.items() if column in columns})
        chosen = (*saving, *(leaf for leaf in doubtful if self._sampled.get(leaf)))
        return _settled_dictionary(chosen, self._options)


def _guard(plan: WritePlan) -> RowGuard | None:
    if not plan.has_rules:
        return None
    from txlog.core.writing._row_guard import RowGuard

    return RowGuard(plan)


def layout_of(files: FileStore, plan: WritePlan, task: TaskIdentity) -> FileLayout:
    """How the files of a task are written, and their names."""
    # No file depends on which branch it is of: branches of a table share what is known of its format.
    configuration = tuple(sorted(item for item in plan.configuration.items() if item[0] != BRANCH))
    with TxlogError.located(plan.table):
        file_format = _file_format(
            plan.schema,
            plan.partition_columns,
            plan.hidden_columns,
            configuration,
            plan.parquet,
            stores_partition_columns=plan.stores_partition_columns,
        )
    return FileLayout(
        files=files,
        file_format=file_format,
        target_file_size_bytes=plan.target_file_size_bytes,
        max_records_per_file=plan.max_records_per_file,
        names=FileNames.of(task, plan),
    )


@functools.lru_cache(maxsize=64)
def _file_format(
    schema: Struct,
    partition_columns: tuple[str, ...],
    hidden_columns: tuple[str, ...],
    configuration: tuple[tuple[str, str], ...],
    parquet: ParquetSettings,
    *,
    stores_partition_columns: bool,
) -> FileFormat:
    stored = without_void(schema.without(partition_columns))
    if not stored.fields:
        raise InvalidInputError("the table has only partition columns: add a column to store")
    if stores_partition_columns:
        stored = Struct((*stored.fields, *(field for field in schema.fields if field.name in partition_columns)))
    properties = TableProperties.of(dict(configuration))
    statistics = StatisticsPolicy.of(schema, properties, (*partition_columns, *hidden_columns))
    written = file_schema(stored)
    options = None
    if parquet != ParquetSettings(parquet.codec):
        from txlog.core.writing._parquet_settings import writer_options

        options = writer_options(parquet, stored)
    leaves = statistics.leaves_in(written)
    by_package = tuple(_of_packages(stored.fields))
    is_relabelled = is_mapped(stored) or any(field != schema.find(field.name) for field in stored.fields)
    return FileFormat(
        written,
        parquet,
        statistics,
        leaves,
        stored.names,
        is_relabelled,
        options,
        by_package,
        dict(configuration) if by_package else {},
    )


def _of_packages(
    fields: Iterable[Field], places: tuple[int, ...] = (), names: tuple[str, ...] = ()
) -> Iterator[PackageColumn]:
    """The columns, and the fields of structs, of a type that a package brings."""
    for at, field in enumerate(fields):
        here, named = (*places, at), (*names, field.name)
        if isinstance(field.type, Struct):
            yield from _of_packages(field.type.fields, here, named)
        elif isinstance(field.type, Primitive) and field.type.facts.by_package:
            yield PackageColumn(here, named, field.type.name)


def _files_at_once(wanted: int) -> int:
    """``wanted`` open files, or fewer if the process may not have that many (a local file takes two handles)."""
    try:
        import resource
    except ImportError:
        return wanted
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if allowed == resource.RLIM_INFINITY else max(1, min(wanted, allowed // 4))


# --- routing rows to partitions ------------------------------------------------------------------------------------


PartitionKey: TypeAlias = tuple[str | None, ...]
"""The partition's values as text, in the order of the table's partition columns."""

Codes: TypeAlias = Any
"""A numpy array of small integers, one per row."""


class Router:
    """Splits batches by partition. Knows the table's partition columns, but holds no rows."""

    def __init__(self, schema: Struct, partition_columns: Sequence[str]) -> None:
        self._columns: list[Field] = []
        for name in partition_columns:
            found = schema.find(name)
            if found is None:
                raise InvalidInputError(f"partition column {name} is not a column of the table")
            if not isinstance(found.type, (Primitive, Decimal)):
                raise InvalidInputError(f"{name} is a {type_name(found.type)}: a table cannot be partitioned by it")
            self._columns.append(found)

    def route(self, batch: pa.RecordBatch, data_columns: list[str]) -> Iterator[tuple[PartitionKey, pa.RecordBatch]]:
        """One (partition, rows) pair for each partition in ``batch``; rows keep their order and own their memory.

        One take sorts all rows, which are then copied partition by partition. A take per partition would cost several
        times as much if there are many, and slices without copies would keep all rows in memory. The batch itself is
        released before the copies are made. Raises InvalidInputError for a value that has no text.
        """
        codes, keys = self._codes(batch)
        rows = batch.select(data_columns)
        del batch
        counts = np.bincount(codes, minlength=len(keys))
        present = np.flatnonzero(counts).tolist()
        if len(present) == 1:
            yield self._checked(keys[present[0]]), rows
            return
        from txlog.core.format.arrow.arrays import from_numbers

        rows = rows.take(from_numbers(np.argsort(codes, kind="stable")))
        nothing = rows.slice(0, 0)
        ends, counts = np.cumsum(counts).tolist(), counts.tolist()
        for code in present:
            start = ends[code] - counts[code]
            yield self._checked(keys[code]), pa.concat_batches([rows.slice(start, counts[code]), nothing])

    def _codes(self, batch: pa.RecordBatch) -> tuple[Codes, list[PartitionKey]]:
        """A code for each row, and the partition of each code."""
        first, *others = self._columns
        codes, texts = _column_codes(batch.column(first.name), first)
        keys: list[PartitionKey] = [(text,) for text in texts]
        for field in others:
            more, texts = _column_codes(batch.column(field.name), field)
            codes = codes.astype(np.int64) * len(texts) + more
            used, codes = _renumbered(codes, len(keys) * len(texts))
            keys = [(*keys[code // len(texts)], texts[code % len(texts)]) for code in used]
        # up to 16 bits, this is a radix sort, which is several times faster
        width = np.uint8 if len(keys) <= 1 << 8 else np.uint16 if len(keys) <= 1 << 16 else np.int64
        return codes.astype(width, copy=False), keys

    def _checked(self, key: PartitionKey) -> PartitionKey:
        for field, text in zip(self._columns, key, strict=True):
            if text is None and not field.nullable:
                raise InvalidInputError(
                    f"partition column {field.name} is NOT NULL, but has an empty value, which Delta stores as null"
                )
        return key


def _column_codes(values: pa.Array, field: Field) -> tuple[Codes, list[str | None]]:
    """A code for each row of one column, and the text of each code. The last code means null."""
    by_value = values.dictionary_encode()
    from txlog.core.format.arrow.arrays import numbers_or
    from txlog.core.format.partition_values import encode_array

    # Different values can share a text: "" and null.
    by_text = encode_array(by_value.dictionary, field.type, column=field.name).dictionary_encode()
    null_code = len(by_text.dictionary)
    code_of_value = np.append(numbers_or(by_text.indices, null_code), null_code).astype(np.int32)
    return code_of_value[numbers_or(by_value.indices, -1)], [*by_text.dictionary.to_pylist(), None]


def _renumbered(codes: Codes, bound: int) -> tuple[list[int], Codes]:
    """The codes in use, ascending, and each row's place among them."""
    if bound <= 1 << 20:
        used = np.flatnonzero(np.bincount(codes, minlength=bound))
        place = np.zeros(bound, dtype=np.int64)
        place[used] = np.arange(len(used))
        return used.tolist(), place[codes]
    used, places = np.unique(codes, return_inverse=True)
    return used.tolist(), places.reshape(-1)
