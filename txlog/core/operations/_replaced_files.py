"""What an overwrite removes from a table version: whole files, and the rows of a predicate in files with other rows.

In: a table version and the region to replace: every row, a predicate's rows, or some partitions. Out: a
`OverwriteEffects`, with its actions in the proposal being built. A predicate's rows are removed as in a delete: by
deletion vectors if the table enables them, otherwise by copying their files without them. PROTOCOL.md, "Add File and
Remove File".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from txlog.core.format.column_mapping import physical_fields
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.partition_values import partition_key, partitioning_text
from txlog.core.operations._write_effects import OverwriteEffects
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import UnsentFiles, WriteJob
from txlog.core.writing.commit_options import CommitOptions
from txlog.core.writing.committable import PendingFile
from txlog.errors import InvalidInputError, TxlogError
from txlog.result import WriteMetrics

if TYPE_CHECKING:
    from txlog.core.changes.plan import ChangeFiles
    from txlog.core.definition import Definition
    from txlog.core.predicates.terms.predicate import Predicate
    from txlog.core.writing.write_intent import RowMode


class RegionReplacement:
    """Removes what an overwrite's new files replace from a version of the table, and again from a newer one.

    ``unsent`` owns what it writes; ``change_files`` collects what happens to rows, if the table's change data feed is
    on.
    """

    def __init__(
        self,
        open_table: OpenTable,
        state: TableState,
        job: WriteJob,
        unsent: UnsentFiles,
        change_files: ChangeFiles | None,
    ) -> None:
        self._open_table = open_table
        self._job = job
        self._held: pa.Table | None = None
        """The last list of files: as long as it is held, a list of a newer version takes only the commits since."""
        predicate = job.plan.rows_where
        self._rows = (
            None
            if predicate is None
            else RowsReplacement(open_table, state, predicate, unsent, job.row_mode, change_files, new_definition(job))
        )

    def remaining_work_s(self, state: TableState) -> float:
        """The estimated seconds that `replace` would take on ``state``."""
        return 0.0 if self._rows is None else self._rows.change.remaining_work_s(state)

    def replace(self, builder: ProposalBuilder, state: TableState, files: Sequence[PendingFile]) -> OverwriteEffects:
        """Remove what ``files`` replace from ``state``, and declare what the overwrite depends on.

        The caller adds ``files`` after this.

        Raises:
            ConflictError: Another commit changed what is replaced, after the version that ``files`` come from.
            NotFoundError: A file that must be read is missing.
            CorruptLogError: A file that must be read is damaged.
            StorageError: The store failed.
        """
        from txlog.core.operations._unseen_changes import without_unseen
        from txlog.core.versions.decisions.partitions import files_in_partitions

        if self._rows is not None:
            return self._replace_rows(self._rows, builder, state)
        open_table, job = self._open_table, self._job
        replaced = OverwriteEffects()
        live = self._held = open_table.log.files(state)
        if job.intent.kind == "overwrite_partitions" and state.partition_columns:
            open_table.log.check_zones(state)
            fields = physical_fields(state.schema, state.partition_columns)
            keys = {partition_key(file.partition_values, fields) for file in files}
            live = builder.live(without_unseen(open_table, state, job, live, keys))
            replaced.remove_whole(*files_in_partitions(live, state, keys))
            builder.read_partitions(keys)
        else:
            live = builder.live(without_unseen(open_table, state, job, live))
            replaced.remove_whole(*add_files_of(live))
            builder.read_table()
        builder.remove(*replaced.removed)
        return replaced

    def _replace_rows(self, rows: RowsReplacement, builder: ProposalBuilder, state: TableState) -> OverwriteEffects:
        from txlog.core.operations._unseen_changes import without_unseen

        change = rows.change
        # Results are kept per live file for the next execution, so an overwrite that may rerun looks at all files.
        live = self._open_table.log.files(state) if self._job.is_reexecuted else rows.candidates(state)
        live = builder.live(without_unseen(self._open_table, state, self._job, live))
        with TxlogError.located(self._open_table.uri, state.version):
            # Of rows that others add later, an overwrite removes none: it is no delete of them.
            change.apply(state, builder, live, "changed")
        done, counts = change.done, change.done.metrics
        return OverwriteEffects(
            [*done.removed], done.added, counts.rows_deleted, counts.rows_copied, counts.vectors, done.dead_fractions
        )


class RowsReplacement:
    """The ``change`` that removes the rows of ``predicate`` from the table.

    It is bound to the schema of the ``definition`` that the same commit sets, or to the table's. ``mode`` is as for a
    delete.
    """

    def __init__(
        self,
        open_table: OpenTable,
        state: TableState,
        predicate: Predicate,
        unsent: UnsentFiles,
        mode: RowMode | None = None,
        change_files: ChangeFiles | None = None,
        definition: Definition | None = None,
    ) -> None:
        from txlog.core.changes.plan import RowOptions, change_locally, uses_vectors
        from txlog.core.changes.tasks.operations import DeleteSpec

        self._open_table, self._definition = open_table, definition
        self._bound_to = state if definition is None else state.defined_as(definition.metadata, definition.protocol)
        self._operation = DeleteSpec(predicate).bind(self._bound_to)
        self._with_vectors = uses_vectors(state, mode)
        self.change, _ = change_locally(
            open_table,
            state,
            self._operation,
            RowOptions(mode, CommitOptions(on_conflict="fail")),
            unsent,
            with_vectors=self._with_vectors,
            definition=definition,
            change_files=change_files,
        )

    def candidates(self, state: TableState) -> pa.Table:
        """The live files of ``state`` that may hold such rows."""
        return self._open_table.log.matching_files(state, self._operation.necessary, self._bound_to)

    def would_do(self, state: TableState, files: pa.Table) -> WriteMetrics:
        """What the change would do to these live files, without writing anything."""
        from txlog.core.changes.plan import RowOptions, would_do

        return would_do(
            self._open_table,
            state,
            self._operation,
            RowOptions(),
            files,
            with_vectors=self._with_vectors,
            definition=self._definition,
        )


def new_definition(job: WriteJob) -> Definition | None:
    """The definition that the write commits for the table that is there."""
    if job.new_metadata is None or job.base_metadata is None:
        return None
    from txlog.core.definition import Definition

    return Definition(job.new_metadata, job.new_protocol, job.new_domains)


# --- by partition values ----------------------------------------------------------------------------------------------


def decided_by_partitions(
    open_table: OpenTable, state: TableState, predicate: Predicate, files: pa.Table
) -> OverwriteEffects:
    """The live ``files`` whose partition satisfies ``predicate`` (bound to the table's schema).

    Raises:
        InvalidInputError: Partition values do not decide the predicate.
    """
    from txlog.core.predicates.skipping import PartitionPredicate

    decided = PartitionPredicate.of(predicate, state)
    if decided is None:
        others = sorted(predicate.columns() - {*state.partition_columns})
        raise InvalidInputError(
            f"partition values alone do not decide {predicate}: it names {', '.join(others)}, and the table is"
            f" {partitioning_text(state.partition_columns)}. Name partition columns only, or replace the rows with"
            " table.overwrite(rows, where=...)",
            table=open_table.uri,
            version=state.version,
        )
    found = OverwriteEffects()
    with TxlogError.located(open_table.uri, state.version):
        found.remove_whole(*[add for add in add_files_of(files) if decided.holds(add.partition_values)])
    return found
