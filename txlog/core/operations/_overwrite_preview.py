"""What an overwrite would do, without writing: checks every row, and reads files that statistics do not decide.

In: data, and the options of the overwrite. Out: a ``WriteResult`` with the outcome "dry_run", for the newest version of
the table. Data that the overwrite would refuse is refused here too.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from msgspec.structs import replace

from txlog.core.format.column_mapping import physical_fields
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.partition_values import encode_array
from txlog.core.operations._global_committer import GlobalCommitter
from txlog.core.operations._replaced_files import RowsReplacement, new_definition
from txlog.core.operations._unseen_changes import without_unseen
from txlog.core.operations._write_effects import OverwriteEffects
from txlog.core.operations._write_options import WriteOptions
from txlog.core.operations._write_planning import plan_for_rows
from txlog.core.row_rules import NumbersOfPreview
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.partitions import files_in_partitions
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import DataStream, RowGuard, UnsentFiles, WriteJob, completer_for
from txlog.errors import TxlogError
from txlog.result import WriteMetrics, WriteResult


def preview_overwrite(open_table: OpenTable, stream: DataStream, options: WriteOptions) -> WriteResult:
    """What the overwrite would do, or the answer for a checkpoint that the table has. Raises what it would raise."""
    job, stream = plan_for_rows(open_table, stream, options)
    replayed = GlobalCommitter(open_table).replay_of(job, refresh=False)
    if replayed is not None:
        return replayed
    state = open_table.log.state_at(job.read_version)
    rows, partitions = 0, set[tuple[str | None, ...]]()
    by_partition = job.intent.kind == "overwrite_partitions" and bool(state.partition_columns)
    for batch in _rows_to_write(open_table, job, stream):
        rows += batch.num_rows
        if by_partition:
            partitions |= _partitions_in(batch, state)
    with TxlogError.located(open_table.uri, state.version):
        would = _replaced(open_table, job, state, options, partitions if by_partition else None)
    return WriteResult(state.version, "dry_run", 0, "", replace(would, rows=rows))


def _rows_to_write(open_table: OpenTable, job: WriteJob, stream: DataStream) -> Iterator[pa.RecordBatch]:
    """The rows as they would be written. Raises for a row that cannot be."""
    plan = job.plan
    computed = None if plan.computed is None else plan.computed.numbered_by(NumbersOfPreview())
    completer = completer_for(plan.schema, stream.schema, computed, open_table.uri, job.read_version)
    guard = RowGuard(plan)
    rows = 0
    for batch in stream.batches:
        conformed = completer.conform(batch, rows)
        guard.check(conformed, rows)
        rows += batch.num_rows
        yield conformed


def _partitions_in(batch: pa.RecordBatch, state: TableState) -> set[tuple[str | None, ...]]:
    """The partitions of the rows (see `partition_values.partition_key`)."""
    fields = physical_fields(state.schema, state.partition_columns).values()
    found = (
        pa.Table.from_batches([batch]).select([each.name for each in fields]).group_by([each.name for each in fields])
    )
    values = found.aggregate([])
    texts = [encode_array(values.column(each.name).combine_chunks(), each.type, column=each.name) for each in fields]
    return {*zip(*(each.to_pylist() for each in texts), strict=True)}


def _replaced(
    open_table: OpenTable,
    job: WriteJob,
    state: TableState,
    options: WriteOptions,
    partitions: set[tuple[str | None, ...]] | None,
) -> WriteMetrics:
    predicate = job.plan.rows_where
    if predicate is not None:
        unsent = UnsentFiles(open_table.store.files)
        definition = new_definition(job)
        rows = RowsReplacement(open_table, state, predicate, unsent, options.row_mode, definition=definition)
        return rows.would_do(state, without_unseen(open_table, state, job, rows.candidates(state)))
    replaced = OverwriteEffects()
    live = open_table.log.files(state)
    if partitions is None:
        replaced.remove_whole(*add_files_of(without_unseen(open_table, state, job, live)))
    else:
        live = without_unseen(open_table, state, job, live, partitions)
        replaced.remove_whole(*files_in_partitions(live, state, partitions))
    return replaced.metrics(())
