"""A part of a row change: what one Spark task does with some files of the table, and what it reports.

In: a `RowJob`, some live files, and for a change with a source the source rows whose keys these files may hold. Out: a
`PartOutcome`: what becomes of the files, new files, change files if the table's change data feed is on, and the numbers
of the source rows that matched. A report has no rows of the files, only their positions as roaring bitmaps. This module
needs no Spark and cannot reach the log.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn, cast

import msgspec
import numpy as np
import pyarrow as pa

from txlog.commands.row_change.change import RowChange
from txlog.commands.row_change.change_files import ChangeFiles
from txlog.commands.row_change.file_rows import FileRows
from txlog.commands.row_change.operation import Touched
from txlog.commands.row_change.options import RowOptions
from txlog.commit.open_table import OpenTable
from txlog.errors import TxlogError
from txlog.expressions.predicates import Predicate
from txlog.log.proposal_builder import ProposalBuilder
from txlog.log.segment import LogSegment
from txlog.log.state import StateBuilder, TableState
from txlog.protocol.actions import AddCDCFile, AddFile, DeletionVectorDescriptor, LiveKey, Metadata, Protocol
from txlog.protocol.bitmaps import is_in, pack, unpack
from txlog.protocol.change_data import CHANGE_TYPE, INSERT
from txlog.protocol.file_columns import adds_to_batch
from txlog.protocol.paths import canonical_path
from txlog.protocol.schema import to_arrow, type_to_arrow
from txlog.result import WriteMetrics
from txlog.spark.rows.part_operation import PartOperation, UpsertInPlace
from txlog.spark.rows.specs import Bound, RowSpec, SourceSpec
from txlog.store.base import LogStore
from txlog.store.capabilities import LogCapabilities
from txlog.store.open import open_store
from txlog.store.table_store import TableStore
from txlog.writer.committable import ChangeFile
from txlog.writer.input import DataStream
from txlog.writer.task_committer import write_task
from txlog.writer.task_writer import TaskWriter
from txlog.writer.unsent_files import UnsentFiles
from txlog.writer.write_plan import TaskIdentity, WritePlan

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyroaring import BitMap64

    from txlog.writer.keys import KeyColumn

__all__ = [
    "FileOutcome",
    "NewRows",
    "PartOutcome",
    "PartSource",
    "RowJob",
    "change_part",
    "keys_in_files",
    "write_new_rows",
]


class _NoLog:
    """Takes the place of a log in tasks. A task that uses more than the store's capabilities has a bug."""

    def __init__(self, capabilities: LogCapabilities) -> None:
        self.capabilities = capabilities

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"a task cannot reach the log, but used its attribute {name}")


class RowJob(msgspec.Struct, frozen=True):
    """A row change in the form that tasks need: the table's definition at one version, and the spec. Can be pickled.

    ``storage_options`` may hold secrets, so the repr leaves it out.
    """

    uri: str
    storage_options: dict[str, str]
    version: int
    protocol: Protocol
    metadata: Metadata
    spec: RowSpec
    with_vectors: bool

    def __repr__(self) -> str:
        return f"RowJob({self.uri}, v{self.version}, {self.spec.what})"

    def store(self) -> TableStore:
        """Open the table's files, without access to its log."""
        opened = open_store(self.uri, self.storage_options)
        return TableStore(opened.uri, cast(LogStore, _NoLog(opened.log.capabilities)), opened.files)

    def state(self) -> TableState:
        """The version's definition, without a list of its files."""
        builder = StateBuilder()
        builder.apply((self.protocol, self.metadata))
        return builder.build(LogSegment(self.version, None))


class PartSource(msgspec.Struct, frozen=True):
    """Some rows of the source with their numbers. A row has the same number in every part."""

    rows: pa.Table
    numbers: NDArray[np.int64]


class FileOutcome(msgspec.Struct, frozen=True):
    """The effect of a change on a live file with matching rows. Bitmaps are serialized and hold positions in the file.

    Attributes:
        key: Identifies the file, with its deletion vector.
        num_rows: The rows of the file, dead ones included.
        num_dead: The dead rows before the change.
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

    ``matched`` holds the numbers of the source rows that match, as a serialized bitmap. ``change_files``, if any,
    record every change of the part, also the rows of files that are removed as a whole.
    """

    files: tuple[FileOutcome, ...]
    new_files: tuple[AddFile, ...]
    change_files: tuple[AddCDCFile, ...]
    metrics: WriteMetrics
    matched: bytes


class NewRows(msgspec.Struct, frozen=True):
    """Files of rows that the source adds, and the change files that record these rows, if they were requested."""

    files: tuple[AddFile, ...]
    rows: int
    change_files: tuple[AddCDCFile, ...] = ()


# --- files of the table ---------------------------------------------------------------------------------------------


def change_part(
    job: RowJob, store: TableStore, adds: Sequence[AddFile], source: PartSource | None, elsewhere: bytes = b""
) -> PartOutcome:
    """Change some files. What was written is durable when this returns, and is deleted if this raises.

    Args:
        job: The change.
        store: The table's files.
        adds: The files to change.
        source: The source rows whose keys the files may hold; None for a change without a source.
        elsewhere: The numbers, as a serialized bitmap, of source rows that other parts write in place of their rows.

    Returns:
        What the tasks of this part report to the driver.

    Raises:
        NotFoundError: A file is gone.
        TxlogError: Whatever the operation raises for a row that cannot be changed.
    """
    state = job.state()
    open_table = OpenTable(store, key_cache_size_bytes=0)
    rows = None if source is None else source.rows
    with TxlogError.located(job.uri, job.version), UnsentFiles(store.files) as unsent:
        bound = job.spec.bind(open_table, state, rows)
        operation = _operation(job, bound, source, elsewhere)
        recorder = ChangeFiles.of(open_table, state, unsent)
        with_vectors = job.with_vectors
        change = RowChange(
            open_table, state, operation, RowOptions(), unsent, with_vectors=with_vectors, change_files=recorder
        )
        builder = ProposalBuilder(state)
        metrics = change.apply(state, builder, pa.Table.from_batches([adds_to_batch(adds)]))
        change_files = () if recorder is None else recorder.write(builder)
        matched = pack(source.numbers[bound.matched(operation.touched)]) if source and bound.matched else b""
        files, new_files = _outcomes(adds, operation.touched, builder)
        unsent.mark_sent()  # from here on the driver owns the files
        return PartOutcome(files, new_files, tuple(file.to_cdc() for file in change_files), metrics, matched)


def _operation(job: RowJob, bound: Bound, source: PartSource | None, elsewhere: bytes) -> PartOperation:
    if source is None or not cast(SourceSpec, job.spec).writes_in_place:
        return PartOperation(bound.operation)
    return UpsertInPlace(bound.operation, is_in(source.numbers, unpack(elsewhere)))


def _outcomes(
    adds: Sequence[AddFile], touched: Sequence[Touched], builder: ProposalBuilder
) -> tuple[tuple[FileOutcome, ...], tuple[AddFile, ...]]:
    """The outcome of each file that changes, and the new files."""
    added = {canonical_path(add.path): add for add in builder.adds}
    removed = {canonical_path(remove.path) for remove in builder.removes}
    files = []
    for each in touched:
        path = canonical_path(each.add.path)
        after = added.pop(path, None)
        files.append(
            FileOutcome(
                each.add.live_key,
                each.num_rows,
                len(each.dead),
                pack(each.hits.positions),
                pack(each.hits.positions[~each.live]),
                pack(each.replaced),
                path in removed and after is None,
                None if after is None else after.deletion_vector,
            )
        )
    seen = {canonical_path(each.add.path) for each in touched}
    whole = [add for add in adds if canonical_path(add.path) in removed - seen]
    files += [FileOutcome(add.live_key, 0, 0, None, b"", b"", is_removed=True, vector=None) for add in whole]
    return tuple(files), tuple(added.values())


def keys_in_files(
    job: RowJob, store: TableStore, adds: Iterable[AddFile], keys: Sequence[KeyColumn], within: Predicate | None
) -> pa.StructArray:
    """The distinct keys in some files, those of dead rows included, without keys that contain a null.

    Args:
        job: The change.
        store: The table's files.
        adds: The files.
        keys: The key columns.
        within: A condition that holds for every relevant row; other rows may be skipped.

    Returns:
        A struct array with members ``k0``, ``k1``, ... of the types of ``keys``.
    """
    state = job.state()
    names = {key.path[0] for key in keys}
    fields = tuple(field for field in state.schema.fields if field.name in names)
    reader = FileRows(store, state).reader(fields, within)
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
    store: TableStore,
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
        matched: The numbers of the source rows that match a row of the table.
        with_change_files: Whether to write change files that record the rows as inserts.

    Returns:
        The files, which are durable.

    Raises:
        TxlogError: Whatever ``write_task`` raises; what was written is deleted then.
    """
    state = job.state()
    spec = cast(SourceSpec, job.spec)
    schema = to_arrow(state.schema)
    open_table = OpenTable(store, key_cache_size_bytes=0)

    def batches() -> Iterator[pa.RecordBatch]:
        for part in parts:
            for batch in spec.new_rows(open_table, state, part.rows, is_in(part.numbers, matched)):
                yield pa.RecordBatch.from_arrays(batch.columns, names=schema.names)

    plan = WritePlan.of(state.metadata, table=job.uri, read_version=job.version, schema=state.schema, rows="completed")
    with TxlogError.located(job.uri, job.version), UnsentFiles(store.files) as unsent:
        first = batches()
        head = next(first, None)
        if head is None:
            return NewRows((), 0)
        stream = DataStream(head.schema, itertools.chain([head], first))
        change_files: tuple[ChangeFile, ...] = ()
        if not with_change_files:
            committable = write_task(store.files, plan, task, stream)
        else:
            changes = ChangeFiles(open_table, state, unsent)
            with changes.writer(task) as writer:
                stream = DataStream(head.schema, _recording_inserts(writer, stream.batches))
                committable = write_task(store.files, plan, task, stream)
                unsent.own(file.path for file in committable.files)
                change_files = changes.sealed(task, writer)
        unsent.mark_sent()
        return NewRows(committable.adds(), committable.num_rows, tuple(file.to_cdc() for file in change_files))


def _recording_inserts(writer: TaskWriter, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows after passing them to a writer of change files as inserts."""
    for batch in rows:
        kinds = pa.repeat(pa.scalar(INSERT, pa.string()), batch.num_rows)
        writer.write(batch.append_column(CHANGE_TYPE.name, kinds))
        yield batch
