"""A part of a change of rows: what one Spark task does to some files of the table, and what it reports.

In: a `RowJob`, some live files, and for a change with a source the rows of it whose keys these files may hold. Out: a
`PartOutcome`: the files as they are to be afterwards, new files, change files where the table's change data feed is on,
and which rows of the source matched. The files' rows stay where they are: positions and numbers of rows travel as
roaring bitmaps. Needs no Spark, and cannot reach the log.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, cast

import pyarrow as pa

from txlog.commands.row_change.change import RowChange
from txlog.commands.row_change.change_files import ChangeFiles
from txlog.commands.row_change.file_rows import FileRows
from txlog.commands.row_change.operation import Touched
from txlog.commands.row_change.options import RowOptions
from txlog.commit.open_table import OpenTable
from txlog.commit.unsent_files import UnsentFiles
from txlog.errors import TxlogError
from txlog.expressions.predicates import Predicate
from txlog.log.files import adds_to_batch
from txlog.log.proposal_builder import ProposalBuilder
from txlog.log.segment import LogSegment
from txlog.log.state import StateBuilder, TableState
from txlog.protocol.actions import AddCDCFile, AddFile, DeletionVectorDescriptor, FileKey, Metadata, Protocol
from txlog.protocol.change_data import CHANGE_TYPE, INSERT
from txlog.protocol.paths import canonical_path
from txlog.protocol.schema import to_arrow, type_to_arrow
from txlog.result import WriteMetrics
from txlog.spark.rows.bitmaps import is_in, pack, unpack
from txlog.spark.rows.part_operation import PartOperation, UpsertInPlace
from txlog.spark.rows.specs import Bound, RowSpec, SourceSpec
from txlog.store.base import LogStore, TableStore
from txlog.store.capabilities import LogCapabilities
from txlog.store.open import open_store
from txlog.writer.committable import ChangeFile
from txlog.writer.input import DataStream
from txlog.writer.task_committer import write_task
from txlog.writer.task_writer import TaskWriter
from txlog.writer.write_plan import TaskIdentity, WritePlan

if TYPE_CHECKING:
    import numpy as np
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
    """In the place of a log: a task that asks for more than the kind of its store has a bug."""

    def __init__(self, capabilities: LogCapabilities) -> None:
        self.capabilities = capabilities

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"a task cannot reach the log, and asked for {name}")


@dataclass(frozen=True, slots=True)
class RowJob:
    """A change of rows as tasks need it: the table's definition at one version, and what is asked for. Pickles.

    ``storage_options`` may hold secrets, so it is left out of the repr by whoever shows a job.
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
        """The table's files; the log is out of reach."""
        opened = open_store(self.uri, self.storage_options)
        return TableStore(opened.uri, cast(LogStore, _NoLog(opened.log.capabilities)), opened.files)

    def state(self) -> TableState:
        """The version's definition. Where its files are is not part of it."""
        builder = StateBuilder()
        builder.apply((self.protocol, self.metadata))
        return builder.build(LogSegment(self.version, None))


@dataclass(frozen=True, slots=True)
class PartSource:
    """Some rows of the source, and the number of each; rows keep their numbers, whatever part they come in."""

    rows: pa.Table
    numbers: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """A live file with rows that match. Bitmaps are serialized.

    ``hits`` are the positions of all rows that match, dead ones too; ``dead_hits`` those of them that are dead;
    ``replaced`` the live ones that go. ``hits`` is None of a file that goes as a whole, unopened. With ``is_removed``
    the file goes; else ``vector`` is what marks its dead rows then, or None where no row of it goes.
    """

    key: FileKey
    num_rows: int
    num_dead: int
    hits: bytes | None
    dead_hits: bytes
    replaced: bytes
    is_removed: bool
    vector: DeletionVectorDescriptor | None


@dataclass(frozen=True, slots=True)
class PartOutcome:
    """What a part of the change does. ``matched`` are the numbers of rows of the source, a serialized bitmap.

    ``change_files`` tell of all of it, those files included that go as a whole.
    """

    files: tuple[FileOutcome, ...]
    new_files: tuple[AddFile, ...]
    change_files: tuple[AddCDCFile, ...]
    metrics: WriteMetrics
    matched: bytes


@dataclass(frozen=True, slots=True)
class NewRows:
    """Files of rows of the source, and the change files that tell of them, if these were asked for."""

    files: tuple[AddFile, ...]
    rows: int
    change_files: tuple[AddCDCFile, ...] = ()


# --- files of the table ---------------------------------------------------------------------------------------------


def change_part(
    job: RowJob, store: TableStore, adds: Sequence[AddFile], source: PartSource | None, elsewhere: bytes = b""
) -> PartOutcome:
    """Change these files. What is written is durable when this returns, and gone if this raises.

    ``elsewhere``, a serialized bitmap, are the numbers of rows of the source that other parts write in place of theirs.

    Raises what the change raises for rows that cannot be changed, ``NotFoundError`` for a file that is gone.
    """
    state = job.state()
    open_table = OpenTable(store, key_cache_size_bytes=0)
    rows = None if source is None else source.rows
    with TxlogError.located(job.uri, job.version), UnsentFiles(store.files) as unsent:
        bound = job.spec.bind(open_table, state, rows)
        operation = _operation(job, bound, source, elsewhere)
        told = ChangeFiles.of(open_table, state, unsent)
        with_vectors = job.with_vectors
        change = RowChange(
            open_table, state, operation, RowOptions(), unsent, with_vectors=with_vectors, change_files=told
        )
        builder = ProposalBuilder(state)
        metrics = change.apply(state, builder, pa.Table.from_batches([adds_to_batch(adds)]))
        change_files = () if told is None else told.write(builder)
        matched = pack(source.numbers[bound.matched(operation.touched)]) if source and bound.matched else b""
        files, new_files = _outcomes(adds, operation.touched, builder)
        unsent.mark_sent()  # from here on they are the driver's
        return PartOutcome(files, new_files, tuple(file.to_cdc() for file in change_files), metrics, matched)


def _operation(job: RowJob, bound: Bound, source: PartSource | None, elsewhere: bytes) -> PartOperation:
    if source is None or not cast(SourceSpec, job.spec).writes_in_place:
        return PartOperation(bound.operation)
    return UpsertInPlace(bound.operation, is_in(source.numbers, unpack(elsewhere)))


def _outcomes(
    adds: Sequence[AddFile], touched: Sequence[Touched], builder: ProposalBuilder
) -> tuple[tuple[FileOutcome, ...], tuple[AddFile, ...]]:
    """What becomes of the files that change, and the new files."""
    added = {canonical_path(add.path): add for add in builder.adds}
    removed = {canonical_path(remove.path) for remove in builder.removes}
    files = []
    for each in touched:
        path = canonical_path(each.add.path)
        after = added.pop(path, None)
        files.append(
            FileOutcome(
                each.add.key,
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
    files += [FileOutcome(add.key, 0, 0, None, b"", b"", is_removed=True, vector=None) for add in whole]
    return tuple(files), tuple(added.values())


def keys_in_files(
    job: RowJob, store: TableStore, adds: Iterable[AddFile], keys: Sequence[KeyColumn], within: Predicate | None
) -> pa.StructArray:
    """The distinct keys of rows of these files, dead ones too, those with a null apart; only keys ``within`` matter.

    Members are called ``k0``, ``k1``, ... and have the types of ``keys``.
    """
    state = job.state()
    names = {key.path[0] for key in keys}
    fields = tuple(field for field in state.schema.fields if field.name in names)
    reader = FileRows(store, state).reader(fields, within)
    called = [f"k{number}" for number in range(len(keys))]
    found: list[pa.Table] = []
    for add in adds:
        for _, batch in reader.batches(add, with_dead_rows=True):
            columns = [key.of(batch).cast(type_to_arrow(key.type)) for key in keys]
            found.append(_distinct(pa.table(columns, names=called)))
    if not found:
        schema = pa.schema([(name, type_to_arrow(key.type)) for name, key in zip(called, keys, strict=True)])
        return pa.array([], pa.struct(list(schema)))
    keyed = _distinct(pa.concat_tables(found)).combine_chunks()
    return pa.StructArray.from_arrays(
        [column.combine_chunks() if column.num_chunks != 1 else column.chunk(0) for column in keyed.columns],
        names=called,
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
    tells_changes: bool = False,
) -> NewRows:
    """Write the rows that these rows of the source add to the table; ``matched`` are the numbers of those that match.

    All parts have the same Arrow types. With ``tells_changes`` change files tell of the rows as well.

    Raises as ``write_task``; what was written is gone then.
    """
    state = job.state()
    spec = cast(SourceSpec, job.spec)
    schema = to_arrow(state.schema)
    open_table = OpenTable(store, key_cache_size_bytes=0)

    def batches() -> Iterator[pa.RecordBatch]:
        for part in parts:
            for batch in spec.new_rows(open_table, state, part.rows, is_in(part.numbers, matched)):
                yield pa.RecordBatch.from_arrays(batch.columns, names=schema.names)

    plan = WritePlan.of(state.metadata, table=job.uri, read_version=job.version, schema=state.schema)
    with TxlogError.located(job.uri, job.version), UnsentFiles(store.files) as unsent:
        first = batches()
        head = next(first, None)
        if head is None:
            return NewRows((), 0)
        stream = DataStream(head.schema, itertools.chain([head], first))
        told: tuple[ChangeFile, ...] = ()
        if not tells_changes:
            committable = write_task(store.files, plan, task, stream)
        else:
            changes = ChangeFiles(open_table, state, unsent)
            with changes.writer(task) as writer:
                stream = DataStream(head.schema, _told_to(writer, stream.batches))
                committable = write_task(store.files, plan, task, stream)
                unsent.own(file.path for file in committable.files)
                told = changes.sealed(task, writer)
        unsent.mark_sent()
        return NewRows(committable.adds(), committable.num_rows, tuple(file.to_cdc() for file in told))


def _told_to(writer: TaskWriter, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, after a writer of change files got them as inserts."""
    for batch in rows:
        kinds = pa.repeat(pa.scalar(INSERT, pa.string()), batch.num_rows)
        writer.write(batch.append_column(CHANGE_TYPE.name, kinds))
        yield batch
