"""What a selective overwrite takes out of a table version: whole files, and files whose other rows are copied.

In: a table version and the region that is replaced: the rows of a predicate, or some partitions. Out: a `Replaced`: the
live files that go. A file of which some rows stay gets a deletion vector where the table's property allows it; else
its other rows are copied to a new file. Files that partition values decide are never opened; of the others the
predicate's columns are read first, and the rest only to be copied.
PROTOCOL.md, "Add File and Remove File", "Deletion Vectors".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from txlog.arrow.arrays import flags_of
from txlog.arrow.maps import partition_texts
from txlog.commit.open_table import OpenTable
from txlog.commit.unsent_files import UnsentFiles
from txlog.errors import InvalidInputError, TxlogError, UnsupportedFeatureError
from txlog.expressions.predicates import Predicate
from txlog.log.files import add_files_of
from txlog.log.proposal import operation_parameters
from txlog.log.proposal_builder import ProposalBuilder
from txlog.log.state import TableState
from txlog.protocol.actions import AddFile, DeletionVectorDescriptor
from txlog.protocol.column_mapping import physical_fields
from txlog.protocol.deletion_vector import vector_path
from txlog.protocol.partition_values import canonical_text, decode, partition_key
from txlog.protocol.schema import Struct, to_arrow
from txlog.protocol.statistics_read import num_records
from txlog.protocol.wide_statistics import wide_statistics
from txlog.read.deletion_vectors import DeletionVectorReader
from txlog.read.scan_plan import ScanPlan, select
from txlog.read.scan_task import ScanTask, TaskReader
from txlog.result import WriteMetrics
from txlog.util import ambient
from txlog.writer.committable import PendingFile
from txlog.writer.input import DataStream
from txlog.writer.row_guard import false_or_unknown
from txlog.writer.task_committer import write_task
from txlog.writer.vector_file import write_vectors
from txlog.writer.write_intent import WriteIntent
from txlog.writer.write_job import WriteJob
from txlog.writer.write_plan import TaskIdentity, WritePlan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "CopyPlan",
    "MarkedFile",
    "Replaced",
    "decided_by_partitions",
    "live_rows",
    "replace_region",
    "replaced_by_predicate",
    "write_parameters",
]


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """How rows that stay are written again, and who deletes those files where no commit is sent."""

    plan: WritePlan
    unsent: UnsentFiles


@dataclass(frozen=True, slots=True)
class MarkedFile:
    """A live file some of whose rows go: ``vector`` marks them, and those that were marked before; ``stats`` fit it."""

    file: AddFile
    vector: DeletionVectorDescriptor
    stats: str


@dataclass(slots=True)
class Replaced:
    """Files that an overwrite takes out, and where their other rows go.

    Attributes:
        looked_into: The files that may hold a row of the region, as the log names them: what the overwrite read.
        removed: The live files that go, those that are copied in part among them.
        marked: The live files that stay with another deletion vector; empty where nothing is written.
        files_marked: How many these are, or would be.
        copies: New files, with the rows of removed files that lie outside of the region.
        rows_deleted: How many rows of the region go; files that went as a whole, and whose rows the log does not count,
            add nothing.
        rows_copied: How many rows ``copies`` hold.
    """

    looked_into: list[str] = field(default_factory=list)
    removed: list[AddFile] = field(default_factory=list)
    marked: list[MarkedFile] = field(default_factory=list)
    copies: list[PendingFile] = field(default_factory=list)
    rows_deleted: int = 0
    rows_copied: int = 0
    files_marked: int = 0

    def remove_whole(self, *files: AddFile) -> None:
        """Files all of whose rows go."""
        self.removed += files
        self.rows_deleted += sum(map(live_rows, files))

    def metrics(self, files: Sequence[PendingFile]) -> WriteMetrics:
        """What a write does that replaces this by new ``files``."""
        written = [*files, *self.copies]
        return WriteMetrics(
            rows=sum([file.num_rows for file in files]),
            files=len(written),
            bytes=sum([file.size_bytes for file in written]),
            files_removed=len(self.removed),
            rows_deleted=self.rows_deleted,
            rows_copied=self.rows_copied,
            vectors=self.files_marked,
        )

    def operation_metrics(self, intent: WriteIntent, metrics: WriteMetrics) -> dict[str, str]:
        """commitInfo's ``operationMetrics`` as Spark writes them for this kind of WRITE."""
        found = {"numFiles": metrics.files, "numOutputBytes": metrics.bytes}
        found["numOutputRows"] = metrics.rows + metrics.rows_copied
        if not intent.is_append:
            found["numRemovedFiles"] = metrics.files_removed
            found["numRemovedBytes"] = sum([file.size for file in self.removed])
        if intent.kind == "overwrite_where":
            found["numCopiedRows"] = metrics.rows_copied
            found["numDeletedRows"] = metrics.rows_deleted
            found["numAddedChangeFiles"] = 0
        return {name: str(value) for name, value in found.items()}


def write_parameters(job: WriteJob) -> dict[str, str]:
    """commitInfo's ``operationParameters`` as Spark writes them for a WRITE."""
    return operation_parameters(
        mode=job.intent.mode,
        partitionBy=list(job.plan.partition_columns),
        predicate=job.intent.where,
        isDynamicPartitionOverwrite=True if job.intent.kind == "overwrite_partitions" else None,
        canOverwriteSchema=True if job.schema_mode == "overwrite" else None,
        canMergeSchema=True if job.schema_mode == "merge" else None,
    )


def replace_region(
    builder: ProposalBuilder,
    open_table: OpenTable,
    state: TableState,
    job: WriteJob,
    files: Sequence[PendingFile],
    unsent: UnsentFiles,
) -> Replaced:
    """Take out of the table what an overwrite by ``files`` replaces, and declare what the overwrite depends on.

    ``unsent`` owns the copies. The caller adds the new files, and the copies, after this. Raises as
    `replaced_by_predicate`.
    """
    predicate = job.plan.rows_where
    if predicate is not None:
        live = builder.live(open_table.log.matching_files(state, predicate))
        copies = CopyPlan(replace(job.plan, rows_where=None), unsent)
        replaced = replaced_by_predicate(open_table, state, predicate, live, copies)
        builder.read_where(predicate, replaced.looked_into)
    elif job.intent.kind == "overwrite_partitions" and state.partition_columns:
        fields = physical_fields(state.schema, state.partition_columns)
        keys = {partition_key(file.partition_values, fields) for file in files}
        live = builder.live(open_table.log.files(state))
        replaced = Replaced()
        replaced.remove_whole(*files_in_partitions(live, state, keys))
        builder.read_partitions(keys)
    else:
        replaced = Replaced()
        replaced.remove_whole(*add_files_of(builder.live(open_table.log.files(state))))
        builder.read_table()
    builder.remove(*replaced.removed)
    for marked in replaced.marked:
        builder.replace_vector(marked.file, marked.vector, stats=marked.stats)
    return replaced


def replaced_by_predicate(
    open_table: OpenTable, state: TableState, predicate: Predicate, files: pa.Table, copies: CopyPlan | None
) -> Replaced:
    """What goes where the rows that satisfy ``predicate`` (bound to the table's schema) are replaced.

    ``files`` are live files, all that may hold such rows among them. ``copies`` says how rows that stay are written
    again; None writes nothing and only counts.

    Raises:
        UnsupportedFeatureError: A file would have to be copied in part, in a table that records row changes or row ids.
        NotFoundError, CorruptLogError, StorageError: A file that has to be read cannot be.
    """
    found = Replaced(files.column("path").to_pylist())
    if _is_decided_by_partitions(state, predicate):
        found.remove_whole(*_whole_matches(open_table.uri, files, state, predicate))
        return found
    columns = sorted(predicate.columns())
    some = TaskReader(open_table.store, select(open_table.uri, state, columns, position_column=_POSITION))
    vectors = _takes_vectors(state)
    marks: list[tuple[AddFile, NDArray[np.uint64]]] = []
    tasks = ScanPlan(select(open_table.uri, state), files).tasks()
    for add, task in zip(add_files_of(files), tasks, strict=True):
        matched, staying = _matched(some, task, predicate)
        if not len(matched):
            continue
        found.rows_deleted += len(matched)
        if staying and vectors and num_records(add.stats) is not None:
            _check_unrecorded(state, add.path, predicate)
            marks.append((add, matched))
            continue
        found.removed.append(add)
        found.rows_copied += staying
        if staying:
            _check_unrecorded(state, add.path, predicate)
            _check_copying(state, add.path, predicate)
            if copies is not None:
                found.copies += _copied(open_table, task, predicate, copies, len(found.copies))
    found.files_marked = len(marks)
    if copies is not None and marks:
        found.marked += _marked(open_table, state, marks, copies)
    return found


_POSITION = "row\0position"


def _matched(reader: TaskReader, task: ScanTask, predicate: Predicate) -> tuple[NDArray[np.uint64], int]:
    """The positions of a file's live rows that satisfy the predicate, ascending, and how many live rows do not."""
    import numpy as np

    staying = 0
    matched = [np.empty(0, np.uint64)]
    for batch in reader.batches(task):
        outside = flags_of(false_or_unknown(predicate, batch))
        staying += int(outside.sum())
        matched.append(batch.column(_POSITION).to_numpy()[~outside].astype(np.uint64))
    return np.concatenate(matched), staying


def _takes_vectors(state: TableState) -> bool:
    features = state.protocol.writer_features or ()
    return state.properties.enable_deletion_vectors and "deletionVectors" in features


def _marked(
    open_table: OpenTable,
    state: TableState,
    marks: Sequence[tuple[AddFile, NDArray[np.uint64]]],
    copies: CopyPlan,
) -> list[MarkedFile]:
    """Write the deletion vectors of all files: what was dead before, and the rows that go now."""
    import numpy as np

    known = DeletionVectorReader(open_table.store, state.version)
    dead = []
    for add, matched in marks:
        rows = num_records(add.stats) or 0
        before = None if add.deletion_vector is None else known.dead_rows(add.deletion_vector, rows)
        dead.append(matched if before is None else np.union1d(before, matched))
    length = copies.plan.random_prefix_length
    descriptors, _ = write_vectors(open_table.store.files, dead, random_prefix_length=length)
    copies.unsent.own(path.path for path in {vector_path(each) for each in descriptors} if path is not None)
    return [
        MarkedFile(
            add,
            vector,
            wide_statistics(
                add.stats,
                num_records=num_records(add.stats) or 0,
                dead_before=add.deletion_vector.cardinality if add.deletion_vector else 0,
            ),
        )
        for (add, _), vector in zip(marks, descriptors, strict=True)
    ]


def _check_unrecorded(state: TableState, path: str, predicate: Predicate) -> None:
    """A version that changes a part of a file's rows must hold the changes, where the table records them."""
    if state.properties.enable_change_data_feed:
        raise UnsupportedFeatureError(
            f"only some rows of {path} satisfy {predicate}, and the table records every changed row"
            " (delta.enableChangeDataFeed), which this release does not do for a part of a file. Replace whole"
            " partitions or files, or unset the property first",
            features=("delta.enableChangeDataFeed",),
        )


def _check_copying(state: TableState, path: str, predicate: Predicate) -> None:
    """What a copy would have to carry along, and this release does not write."""
    if state.properties.enable_row_tracking:
        raise UnsupportedFeatureError(
            f"only some rows of {path} satisfy {predicate}, so the others would have to be copied; but the table"
            " keeps the ids of its rows (delta.enableRowTracking), which this release does not do for copies. Replace"
            " whole partitions or files, or set delta.enableDeletionVectors",
            features=("delta.enableRowTracking",),
        )


def _copied(
    open_table: OpenTable, task: ScanTask, predicate: Predicate, copies: CopyPlan, number: int
) -> Sequence[PendingFile]:
    """The rows of one file that stay, as new files."""

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in task.batches(open_table.store):
            if (staying := batch.filter(false_or_unknown(predicate, batch))).num_rows:
                yield staying

    stream = DataStream(task.selection.arrow_schema(), rows())
    copy = TaskIdentity(f"copy-{ambient.uuid4()}", number)
    written = write_task(open_table.store.files, copies.plan, copy, stream).files
    copies.unsent.own(file.path for file in written)
    return written


def live_rows(add: AddFile) -> int:
    """How many rows of a file are not deleted; 0 where the log does not count them."""
    counted = num_records(add.stats) or 0
    return max(0, counted - (add.deletion_vector.cardinality if add.deletion_vector else 0))


# --- by partition values ----------------------------------------------------------------------------------------------


def decided_by_partitions(open_table: OpenTable, state: TableState, predicate: Predicate, files: pa.Table) -> Replaced:
    """Those of the live ``files`` whose partition satisfies ``predicate`` (bound to the table's schema).

    Raises:
        InvalidInputError: Partition values do not decide the predicate.
    """
    if not _is_decided_by_partitions(state, predicate):
        by = ", ".join(state.partition_columns)
        others = sorted(predicate.columns() - {*state.partition_columns})
        raise InvalidInputError(
            f"partition values alone do not decide {predicate}: it names {', '.join(others)}, and the table is"
            f" partitioned by {by or 'nothing'}. Name partition columns only, or replace the rows by"
            " table.overwrite(rows, where=...)",
            table=open_table.uri,
            version=state.version,
        )
    found = Replaced(files.column("path").to_pylist())
    found.remove_whole(*_whole_matches(open_table.uri, files, state, predicate))
    return found


def _is_decided_by_partitions(state: TableState, predicate: Predicate) -> bool:
    return predicate.columns() <= {*state.partition_columns}


def _whole_matches(uri: str, files: pa.Table, state: TableState, predicate: Predicate) -> list[AddFile]:
    """Those of ``files`` whose partition satisfies the predicate: exact, since it is evaluated on the values."""
    fields = physical_fields(state.schema, state.partition_columns)
    schema = to_arrow(Struct(tuple(fields.values())))
    judged: dict[tuple[str | None, ...], bool] = {}
    found = []
    for add in add_files_of(files):
        key = partition_key(add.partition_values, fields)
        if key not in judged:
            with TxlogError.located(uri, state.version):
                values = [
                    decode(text, each.type, column=each.name) for text, each in zip(key, fields.values(), strict=True)
                ]
                arrays = [pa.array([value], each.type) for value, each in zip(values, schema, strict=True)]
                row = pa.RecordBatch.from_arrays([*arrays, pa.nulls(1)], names=[*schema.names, ""])
                judged[key] = predicate.evaluate(row)[0].as_py() is True
        if judged[key]:
            found.append(add)
    return found


def files_in_partitions(files: pa.Table, state: TableState, keys: Collection[tuple[str | None, ...]]) -> list[AddFile]:
    """Those of the live ``files`` that lie in partitions named by ``keys`` (see `partition_values.partition_key`)."""
    fields = physical_fields(state.schema, state.partition_columns)
    texts: dict[str, dict[str | None, str | None]] = {name: {} for name in fields}
    found = []
    for batch in files.to_batches():
        columns = [partition_texts(batch.column("partitionValues"), name)[0].to_pylist() for name in fields]
        for (name, each), column in zip(fields.items(), columns, strict=True):
            for text in set(column) - texts[name].keys():
                texts[name][text] = canonical_text(text, each.type)
        spelled = [[texts[name][text] for text in column] for name, column in zip(fields, columns, strict=True)]
        mask = [key in keys for key in zip(*spelled, strict=True)]
        found += add_files_of(pa.Table.from_batches([batch.filter(pa.array(mask, pa.bool_()))]))
    return found
