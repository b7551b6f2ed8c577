"""A part of a row change: what one task does with some of the table's files, and what it reports.

In: a `RowJob`, some live files, and, if the change has a source, the source rows whose keys these files may hold. Out:
a `PartOutcome`: what happens to the files, new files, change files if the table's change data feed is on, and the
numbers of the matching source rows. A report contains no rows, only their positions as roaring bitmaps.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

import msgspec
import numpy as np
import pyarrow as pa

from txlog.core.changes.tasks._change_files import ChangeFileWriter
from txlog.core.changes.tasks._file_rows import FileRows
from txlog.core.changes.tasks._operation import MatchedFile, RowOperation
from txlog.core.changes.tasks._rewrite import Changed
from txlog.core.changes.tasks._row_work import RowsDone, RowWork
from txlog.core.changes.tasks._specs import RowSpec, SourceSpec
from txlog.core.changes.tasks._task_table import TaskTable
from txlog.core.format.actions import AddCDCFile, AddFile, DeletionVectorDescriptor, LiveKey
from txlog.core.format.bitmaps import is_in, pack, unpack
from txlog.core.format.change_data import CHANGE_TYPE, DELETE, INSERT
from txlog.core.format.changed_rows import ChangedRows
from txlog.core.format.file_columns import adds_to_batch
from txlog.core.format.schema import to_arrow, type_to_arrow
from txlog.core.predicates.terms.predicate import Predicate
from txlog.core.store import TableFiles
from txlog.core.writing import DataStream, TaskIdentity, TaskWriter, UnsentFiles, WritePlan, write_task
from txlog.core.writing.committable import ChangeFile, Committable
from txlog.errors import TxlogError
from txlog.result import WriteMetrics

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyroaring import BitMap64

    from txlog.core.row_rules import KeyColumn

_UNCHANGED = Changed([], [], [])


class RowJob(msgspec.Struct, frozen=True):
    """A row change as tasks need it: the table at one version, and the spec. Can be pickled.

    With ``dry_run``, tasks count what they would do, and write nothing.
    """

    table: TaskTable
    spec: RowSpec
    with_vectors: bool
    dry_run: bool = False


class PartSource(msgspec.Struct, frozen=True):
    """Some source rows with their numbers. A row has the same number in every part."""

    rows: pa.Table
    numbers: NDArray[np.int64]


class SourceFile(msgspec.Struct, frozen=True):
    """The rows of a source in a file of Arrow batches on this machine, from which tasks of other processes read them
    without copies. They are numbered in order."""

    path: str

    @classmethod
    def written(cls, rows: pa.Table, path: str) -> SourceFile:
        """Raises ``OSError``."""
        with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, rows.schema) as writer:
            writer.write_table(rows)
        return cls(path)

    def opened(self) -> PartSource:
        """Its rows. Raises ``OSError``."""
        rows = pa.ipc.open_stream(pa.memory_map(self.path)).read_all()
        return PartSource(rows, np.arange(rows.num_rows))


class FileOutcome(msgspec.Struct, frozen=True):
    """What a change does to a live file with matching rows. Bitmaps are serialized and hold positions in the file.

    Attributes:
        key: Identifies the file, with its deletion vector.
        num_rows: The number of rows in the file, dead ones included.
        num_dead: The number of dead rows before the change.
        hits: All matching rows, dead ones included; None if the whole file is removed without being opened.
        dead_hits: The matching rows that are dead.
        replaced: The live rows that the change deletes or replaces.
        is_removed: Whether the file is removed.
        vector: If the file stays, its new deletion vector; None if it loses no row.
    """

    key: LiveKey
    num_rows: int
    num_dead: int
    hits: bytes | None
    dead_hits: bytes
    replaced: bytes
    is_removed: bool
    vector: DeletionVectorDescriptor | None


class PartOutcome(msgspec.Struct, frozen=True):
    """What a part of the change does.

    ``matched`` holds the numbers of the matching source rows, as a serialized bitmap. ``change_files``, if any, record
    every change of the part, including the rows of files removed as a whole.
    """

    files: tuple[FileOutcome, ...]
    new_files: tuple[AddFile, ...]
    change_files: tuple[AddCDCFile, ...]
    metrics: WriteMetrics
    matched: bytes


class NewRows(msgspec.Struct, frozen=True):
    """Files of rows that the source adds, and the change files that record these rows, if requested."""

    files: tuple[AddFile, ...]
    rows: int
    change_files: tuple[AddCDCFile, ...] = ()


# --- files of the table ---------------------------------------------------------------------------------------------


def change_part(
    job: RowJob, store: TableFiles, adds: Sequence[AddFile], source: PartSource | None, elsewhere: bytes = b""
) -> PartOutcome:
    """Change some files. What it writes is durable when it returns, and deleted if it raises.

    Args:
        job: The change.
        store: The table's files.
        adds: The files to change.
        source: The source rows whose keys the files may hold; None for a change without a source.
        elsewhere: The numbers of source rows that other parts write in place of their rows, as a serialized bitmap.

    Returns:
        What the tasks of this part report to the driver.

    Raises:
        NotFoundError: A file is missing.
        TxlogError: What the operation raises for a row that cannot be changed.
    """
    table = job.table
    with TxlogError.located(table.uri, table.version), UnsentFiles(store.files) as unsent:
        if source is None:
            operation = job.spec.bind(table, None)
        else:
            operation = job.spec.bind(table, source.rows, is_in(source.numbers, unpack(elsewhere)))
        work = RowWork(store, table, operation, unsent, with_vectors=job.with_vectors, adds_source_rows=False)
        to_read, whole = _chosen(operation, adds)
        work.look_into(to_read)
        touched = work.touched([add for add in to_read if work.matches(add.live_key)], table.version)
        if job.dry_run:
            metrics = work.would_do(touched, whole)
            return PartOutcome(_outcomes(touched, whole), (), (), metrics, _matched(operation, touched, source))
        done = work.write(touched)
        change_files = _recorded(table, store, unsent, done, whole)
        matched = _matched(operation, done.touched, source)
        new_files = tuple(file.to_add() for file in done.changed.new_files)
        unsent.mark_sent()  # from here on the driver owns the files
        return PartOutcome(
            _outcomes(done.touched, whole, done.changed), new_files, change_files, done.metrics(whole), matched
        )


class ChangePart(msgspec.Struct, frozen=True):
    """`change_part` as the work of a task, which opens the table's files itself. Can be pickled."""

    job: RowJob
    source: PartSource | SourceFile | None
    elsewhere: bytes

    def __call__(self, adds: Sequence[AddFile]) -> PartOutcome:
        source = self.source.opened() if isinstance(self.source, SourceFile) else self.source
        return change_part(self.job, self.job.table.files, adds, source, self.elsewhere)


def _chosen(operation: RowOperation, adds: Sequence[AddFile]) -> tuple[list[AddFile], list[AddFile]]:
    """The files that may hold a matching row: the ones to look into, and the ones to remove as a whole."""
    is_candidate = operation.candidates(pa.Table.from_batches([adds_to_batch(adds)]))
    to_read: list[AddFile] = []
    whole: list[AddFile] = []
    for at in np.flatnonzero(is_candidate).tolist():
        (whole if operation.matches_whole_file(adds[at]) else to_read).append(adds[at])
    return to_read, whole


def _recorded(
    table: TaskTable, store: TableFiles, unsent: UnsentFiles, done: RowsDone, whole: Sequence[AddFile]
) -> tuple[AddCDCFile, ...]:
    """The change files for what was done, and for the rows of files removed as a ``whole``."""
    if not table.properties.enable_change_data_feed:
        return ()
    changes = ChangeFileWriter(store, table, unsent)
    changes.collected.append(done.row_changes())
    gone = [ChangedRows(add.path, add.partition_values, add.size, DELETE, add.deletion_vector) for add in whole]
    return tuple(file.to_cdc() for file in changes.write(gone))


def _matched(operation: RowOperation, touched: Sequence[MatchedFile], source: PartSource | None) -> bytes:
    """The numbers of the matching source rows."""
    return b"" if source is None else pack(source.numbers[operation.matched(touched)])


def _outcomes(
    touched: Sequence[MatchedFile], whole: Sequence[AddFile], changed: Changed = _UNCHANGED
) -> tuple[FileOutcome, ...]:
    """The outcome of each file that changes."""
    vectors = {add.live_key: vector for add, vector, _ in changed.marked}
    removed = {add.live_key for add in changed.removed}
    files = [
        FileOutcome(
            each.add.live_key,
            each.num_rows,
            len(each.dead),
            pack(each.hits.positions),
            pack(each.hits.positions[~each.live]),
            pack(each.replaced),
            each.add.live_key in removed,
            vectors.get(each.add.live_key),
        )
        for each in touched
    ]
    files += [FileOutcome(add.live_key, 0, 0, None, b"", b"", is_removed=True, vector=None) for add in whole]
    return tuple(files)


def keys_in_files(
    job: RowJob, store: TableFiles, adds: Iterable[AddFile], keys: Sequence[KeyColumn], within: Predicate | None
) -> pa.StructArray:
    """The distinct keys in some files, dead rows included, without keys that contain a null.

    Args:
        job: The change.
        store: The table's files.
        adds: The files.
        keys: The key columns.
        within: A condition that holds for every relevant row; other rows may be skipped.

    Returns:
        A struct array with the fields ``k0``, ``k1``, ... in the types of ``keys``.
    """
    names = {key.path[0] for key in keys}
    fields = tuple(field for field in job.table.schema.fields if field.name in names)
    reader = FileRows(store, job.table).reader(fields, within)
    key_names = [f"k{number}" for number in range(len(keys))]
    found: list[pa.Table] = []
    for add in adds:
        for _, batch in reader.batches(add, with_dead_rows=True):
            columns = [key.of(batch).cast(type_to_arrow(key.type)) for key in keys]
            found.append(_distinct(pa.table(columns, names=key_names)))
    if not found:
        schema = pa.schema([(name, type_to_arrow(key.type)) for name, key in zip(key_names, keys, strict=True)])
        return pa.array([], pa.struct(list(schema)))
    keyed = _distinct(pa.concat_tables(found)).combine_chunks()
    return pa.StructArray.from_arrays(
        [column.combine_chunks() if column.num_chunks != 1 else column.chunk(0) for column in keyed.columns],
        names=key_names,
    )


def _distinct(keyed: pa.Table) -> pa.Table:
    return keyed.drop_null().group_by(keyed.column_names).aggregate([])


# --- rows of the source ---------------------------------------------------------------------------------------------


def write_new_rows(
    job: RowJob,
    store: TableFiles,
    task: TaskIdentity,
    parts: Iterable[PartSource],
    matched: BitMap64,
    *,
    with_change_files: bool = False,
) -> NewRows:
    """Write the rows that some source rows add to the table.

    Args:
        job: The change.
        store: The table's files.
        task: Identifies this task in the names of its files.
        parts: The source rows; all parts have the same Arrow types.
        matched: The numbers of the source rows that match a table row.
        with_change_files: Whether to write change files that record the rows as inserts.

    Returns:
        The files, which are durable.

    Raises:
        TxlogError: What ``write_task`` raises; written files are deleted then.
    """
    table = job.table
    plan = WritePlan.of_table(table, table.uri, rows="completed")
    with TxlogError.located(table.uri, table.version), UnsentFiles(store.files) as unsent:
        first = _added(job, parts, matched)
        if job.dry_run:
            return NewRows((), sum(batch.num_rows for batch in first))
        head = next(first, None)
        if head is None:
            return NewRows((), 0)
        stream = DataStream(head.schema, itertools.chain([head], first))
        if with_change_files:
            committable, change_files = _written_with_change_files(store, table, plan, task, stream, unsent)
        else:
            committable, change_files = write_task(store.files, plan, task, stream), ()
        unsent.mark_sent()
        return NewRows(committable.adds(), committable.num_rows, tuple(file.to_cdc() for file in change_files))


def _written_with_change_files(
    store: TableFiles, table: TaskTable, plan: WritePlan, task: TaskIdentity, rows: DataStream, unsent: UnsentFiles
) -> tuple[Committable, tuple[ChangeFile, ...]]:
    changes = ChangeFileWriter(store, table, unsent)
    with changes.writer(task) as writer:
        rows = DataStream(rows.schema, _recording_inserts(writer, rows.batches))
        committable = write_task(store.files, plan, task, rows)
        unsent.own(file.path for file in committable.files)
        return committable, changes.sealed(task, writer)


def _added(job: RowJob, parts: Iterable[PartSource], matched: BitMap64) -> Iterator[pa.RecordBatch]:
    """The rows that the source rows add, under the table's names."""
    spec, names = cast(SourceSpec, job.spec), to_arrow(job.table.schema).names
    for part in parts:
        for batch in spec.new_rows(job.table, part.rows, is_in(part.numbers, matched)):
            yield pa.RecordBatch.from_arrays(batch.columns, names=names)


def _recording_inserts(writer: TaskWriter, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows after passing them to a writer of change files as inserts."""
    for batch in rows:
        kinds = pa.repeat(pa.scalar(INSERT, pa.string()), batch.num_rows)
        writer.write(DataStream.of(batch.append_column(CHANGE_TYPE.name, kinds)))
        yield batch
