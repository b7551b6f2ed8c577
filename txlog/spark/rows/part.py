"""A part of a change of rows: what one Spark task does to some files of the table, and what it reports.

In: a `RowJob`, some live files, and for a change with a source the rows of it whose keys these files may hold. Out: a
`PartOutcome`: the files as they are to be afterwards, new files, and which rows of the source matched. The files' rows
stay where they are: positions and numbers of rows travel as roaring bitmaps. Needs no Spark, and cannot reach the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, cast

import pyarrow as pa

from txlog.commands.row_change.change import RowChange
from txlog.commands.row_change.file_rows import FileRows
from txlog.commands.row_change.operation import Hits, RowOperation, Touched
from txlog.commands.row_change.options import RowOptions
from txlog.commit.open_table import OpenTable
from txlog.commit.unsent_files import UnsentFiles
from txlog.errors import TxlogError
from txlog.expressions.predicates import Predicate
from txlog.log.files import adds_to_batch
from txlog.log.proposal_builder import ProposalBuilder
from txlog.log.segment import LogSegment
from txlog.log.state import StateBuilder, TableState
from txlog.protocol.actions import AddFile, DeletionVectorDescriptor, FileKey, Metadata, Protocol
from txlog.protocol.paths import canonical_path
from txlog.protocol.schema import Field, to_arrow, type_to_arrow
from txlog.result import WriteMetrics
from txlog.spark.rows.bitmaps import is_in, pack
from txlog.spark.rows.specs import RowSpec, SourceSpec
from txlog.store.base import LogStore, TableStore
from txlog.store.open import open_store
from txlog.writer.input import DataStream
from txlog.writer.task_committer import write_task
from txlog.writer.write_plan import TaskIdentity, WritePlan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pyroaring import BitMap64

    from txlog.commands.upsert.keys import KeyColumn

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
    """In the place of a log: a task that asks for anything of it has a bug."""

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
        return TableStore(opened.uri, cast(LogStore, _NoLog()), opened.files)

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
    """What a part of the change does. ``matched`` are the numbers of rows of the source, a serialized bitmap."""

    files: tuple[FileOutcome, ...]
    new_files: tuple[AddFile, ...]
    metrics: WriteMetrics
    matched: bytes


@dataclass(frozen=True, slots=True)
class NewRows:
    """Files of rows of the source."""

    files: tuple[AddFile, ...]
    rows: int


# --- files of the table ---------------------------------------------------------------------------------------------


def change_part(job: RowJob, store: TableStore, adds: Sequence[AddFile], source: PartSource | None) -> PartOutcome:
    """Change these files. What is written is durable when this returns, and gone if this raises.

    Raises what the change raises for rows that cannot be changed, ``NotFoundError`` for a file that is gone.
    """
    state = job.state()
    open_table = OpenTable(store, key_cache_size_bytes=0)
    rows = None if source is None else source.rows
    with TxlogError.located(job.uri, job.version), UnsentFiles(store.files) as unsent:
        bound = job.spec.bind(open_table, state, rows)
        operation = _PartOperation(bound.operation)
        change = RowChange(open_table, state, operation, RowOptions(), unsent, with_vectors=job.with_vectors)
        builder = ProposalBuilder(state)
        metrics = change.apply(state, builder, pa.Table.from_batches([adds_to_batch(adds)]))
        matched = pack(source.numbers[bound.matched(operation.touched)]) if source and bound.matched else b""
        outcome = _outcome(adds, operation.touched, builder, metrics, matched)
        unsent.mark_sent()  # from here on they are the driver's
        return outcome


class _PartOperation:
    """An operation on a part of the table, which adds no rows of the source: the driver decides which are added."""

    num_source_rows = 0
    writes_every_source_row = False

    def __init__(self, inner: RowOperation) -> None:
        self._inner = inner
        self._is_written: NDArray[np.bool_] | None = None
        self.touched: Sequence[Touched] = ()
        self.name: str = inner.name
        self.makes_images: bool = inner.makes_images
        self.replaces_rows: bool = inner.replaces_rows
        self.image_fields: tuple[Field, ...] = inner.image_fields

    def declare_reads(self, builder: ProposalBuilder, files: Sequence[str]) -> None:
        self._inner.declare_reads(builder, files)

    def parameters(self) -> dict[str, str]:
        return self._inner.parameters()

    def metrics(self, done: WriteMetrics) -> dict[str, str]:
        return self._inner.metrics(done)

    def candidates(self, files: pa.Table) -> NDArray[np.bool_]:
        return self._inner.candidates(files)

    def matches_whole_file(self, add: AddFile) -> bool:
        return self._inner.matches_whole_file(add)

    def look_up(self, rows: FileRows, add: AddFile) -> Hits:
        return self._inner.look_up(rows, add)

    def images(self, rows: pa.RecordBatch | None, hits: Hits) -> pa.RecordBatch:
        return self._inner.images(rows, hits)

    def updated(self, touched: Sequence[Touched]) -> tuple[Sequence[NDArray[np.bool_]], NDArray[np.bool_]]:
        return self._inner.updated(touched)

    def inserted(self, touched: Sequence[Touched]) -> NDArray[np.bool_] | None:
        self.touched = touched
        self._is_written = self._inner.inserted(touched)
        return None

    def source_batches(self, is_written: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        return iter(())

    def counts(self, touched: Sequence[Touched], is_written: NDArray[np.bool_] | None) -> tuple[int, int, int]:
        _, updated, deleted = self._inner.counts(touched, self._is_written)
        return 0, updated, deleted


def _outcome(
    adds: Sequence[AddFile],
    touched: Sequence[Touched],
    builder: ProposalBuilder,
    metrics: WriteMetrics,
    matched: bytes,
) -> PartOutcome:
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
    return PartOutcome(tuple(files), tuple(added.values()), metrics, matched)


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
    job: RowJob, store: TableStore, task: TaskIdentity, parts: Iterable[PartSource], matched: BitMap64
) -> NewRows:
    """Write the rows that these rows of the source add to the table; ``matched`` are the numbers of those that match.

    All parts have the same Arrow types.

    Raises as ``write_task``; what was written is gone then.
    """
    state = job.state()
    spec = cast(SourceSpec, job.spec)
    plan = WritePlan.of(state.metadata, table=job.uri, read_version=job.version, schema=state.schema)
    schema = to_arrow(state.schema)
    open_table = OpenTable(store, key_cache_size_bytes=0)

    def batches() -> Iterator[pa.RecordBatch]:
        for part in parts:
            for batch in spec.new_rows(open_table, state, part.rows, is_in(part.numbers, matched)):
                yield pa.RecordBatch.from_arrays(batch.columns, names=schema.names)

    with TxlogError.located(job.uri, job.version):
        first = batches()
        head = next(first, None)
        if head is None:
            return NewRows((), 0)
        stream = DataStream(head.schema, _chained(head, first))
        committable = write_task(store.files, plan, task, stream)
    return NewRows(committable.adds(), committable.num_rows)


def _chained(head: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield head
    yield from rest
