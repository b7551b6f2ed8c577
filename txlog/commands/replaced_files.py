"""What an overwrite takes out of a table version: whole files, and the rows of a predicate in files with others.

In: a table version and the region that is replaced: every row, the rows of a predicate, or some partitions. Out: a
`Replaced`, with its actions in the proposal that is being built. The rows of a predicate go as those of a delete go: by
deletion vectors where the table enables them, else by copies of their files without them.
PROTOCOL.md, "Add File and Remove File".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from txlog.commands.partitions import PartitionPredicate, files_in_partitions
from txlog.commands.unseen_files import without_unseen
from txlog.commit.open_table import OpenTable
from txlog.commit.unsent_files import UnsentFiles
from txlog.errors import InvalidInputError, TxlogError
from txlog.expressions.predicates import Predicate
from txlog.log.files import add_files_of, live_rows
from txlog.log.proposal import operation_parameters
from txlog.log.proposal_builder import ProposalBuilder
from txlog.log.state import TableState
from txlog.protocol.actions import AddFile
from txlog.protocol.column_mapping import physical_fields
from txlog.protocol.partition_values import partition_key, partitioning_text
from txlog.result import WriteMetrics
from txlog.writer.committable import PendingFile
from txlog.writer.write_intent import WriteIntent
from txlog.writer.write_job import WriteJob

if TYPE_CHECKING:
    from txlog.commands.row_change.change import RowChange
    from txlog.commands.row_change.change_files import ChangeFiles

__all__ = [
    "Replaced",
    "decided_by_partitions",
    "replace_region",
    "replacement_of_rows",
    "write_parameters",
]


@dataclass(slots=True)
class Replaced:
    """What an overwrite took out, and where the other rows of those files went.

    Attributes:
        removed: The live files that went, those that were copied in part among them.
        copies: New files, with the rows of removed files that lie outside of the region.
        rows_deleted: How many rows of the region went; files that went as a whole, and whose rows the log does not
            count, add nothing.
        rows_copied: How many rows ``copies`` hold.
        vectors: How many files stay with another deletion vector.
        dead_fractions: The part of the rows of each of these that is dead, by path.
    """

    removed: list[AddFile] = field(default_factory=list)
    copies: Sequence[PendingFile] = ()
    rows_deleted: int = 0
    rows_copied: int = 0
    vectors: int = 0
    dead_fractions: Mapping[str, float] = field(default_factory=dict)

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
            vectors=self.vectors,
            dead_fraction=max(self.dead_fractions.values(), default=0.0),
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
            found["numAddedChangeFiles"] = metrics.change_files
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
    change_files: ChangeFiles | None,
) -> Replaced:
    """Take out of the table what an overwrite by ``files`` replaces, and declare what the overwrite depends on.

    ``unsent`` owns what is written for it; ``change_files`` is told what happens to rows, where the table's change data
    feed is on. The caller adds ``files`` after this. Raises as `replacement_of_rows`;
    ``ConflictError`` where others changed what is replaced after the version that ``files`` were made from; and
    ``NotFoundError``, ``CorruptLogError``, ``StorageError`` where a file that has to be read cannot be.
    """
    predicate = job.plan.rows_where
    if predicate is not None:
        change, live = replacement_of_rows(open_table, state, predicate, unsent, change_files)
        live = builder.live(without_unseen(open_table, state, job, live))
        with TxlogError.located(open_table.uri, state.version):
            done = change.apply(state, builder, live)
        change.declare_reads(builder, live)
        return Replaced(
            change.removed, change.new_files, done.rows_deleted, done.rows_copied, done.vectors, change.dead_fractions
        )
    replaced = Replaced()
    live = open_table.log.files(state)
    if job.intent.kind == "overwrite_partitions" and state.partition_columns:
        fields = physical_fields(state.schema, state.partition_columns)
        keys = {partition_key(file.partition_values, fields) for file in files}
        live = builder.live(without_unseen(open_table, state, job, live, keys))
        replaced.remove_whole(*files_in_partitions(live, state, keys))
        builder.read_partitions(keys)
    else:
        replaced.remove_whole(*add_files_of(builder.live(live)))
        builder.read_table()
    builder.remove(*replaced.removed)
    return replaced


def replacement_of_rows(
    open_table: OpenTable,
    state: TableState,
    predicate: Predicate,
    unsent: UnsentFiles,
    change_files: ChangeFiles | None = None,
) -> tuple[RowChange, pa.Table]:
    """The change that takes the rows of ``predicate`` (bound to the table's schema) out, and the files to apply it to.

    These are the live files that may hold such rows.
    """
    from txlog.commands.delete import Condition, DeleteRows
    from txlog.commands.row_change.change import RowChange
    from txlog.commands.row_change.options import RowOptions, uses_vectors
    from txlog.util import ambient

    options = RowOptions(on_conflict="fail")
    condition = Condition(predicate, state, ambient.now())
    change = RowChange(
        open_table,
        state,
        DeleteRows(condition),
        options,
        unsent,
        with_vectors=uses_vectors(state, options),
        change_files=change_files,
    )
    return change, open_table.log.matching_files(state, condition.necessary)


# --- by partition values ----------------------------------------------------------------------------------------------


def decided_by_partitions(open_table: OpenTable, state: TableState, predicate: Predicate, files: pa.Table) -> Replaced:
    """Those of the live ``files`` whose partition satisfies ``predicate`` (bound to the table's schema).

    Raises:
        InvalidInputError: Partition values do not decide the predicate.
    """
    decided = PartitionPredicate.of(predicate, state)
    if decided is None:
        others = sorted(predicate.columns() - {*state.partition_columns})
        raise InvalidInputError(
            f"partition values alone do not decide {predicate}: it names {', '.join(others)}, and the table is"
            f" {partitioning_text(state.partition_columns)}. Name partition columns only, or replace the rows by"
            " table.overwrite(rows, where=...)",
            table=open_table.uri,
            version=state.version,
        )
    found = Replaced()
    with TxlogError.located(open_table.uri, state.version):
        found.remove_whole(*[add for add in add_files_of(files) if decided.holds(add.partition_values)])
    return found
