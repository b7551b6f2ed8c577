"""Upkeep of tombstones: joins files of deleted keys, and drops them once the table no longer keeps them.

In: an open table. Out: a commit that changes nothing for readers, or none. Tombstone files are small, but every commit
with a delete adds one, and they would slow down the lookups of upserts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from txlog.commit.open_table import OpenTable
from txlog.errors import ConflictError
from txlog.log.proposal_builder import ProposalBuilder
from txlog.log.state import TableState
from txlog.protocol.actions import AddFile, operation_parameters
from txlog.protocol.file_columns import add_files_of
from txlog.protocol.schema import to_arrow
from txlog.tasks.file_rows import FileRows
from txlog.tasks.tombstones import expired_before_ms, is_tombstones, retention_ms, tombstone_adds
from txlog.util import ambient
from txlog.util.logs import logger
from txlog.writer.input import DataStream
from txlog.writer.task_committer import write_task
from txlog.writer.unsent_files import UnsentFiles
from txlog.writer.write_plan import TaskIdentity, WritePlan

__all__ = ["tidy_tombstones", "without_tombstones"]

_LARGE_BYTES = 16 << 20  # files of this size are not joined further


def without_tombstones(state: TableState, files: pa.Table) -> pa.Table:
    """The live files that a compaction may rewrite: all, if the table keeps no tombstones."""
    tags = files.column("tags")
    if retention_ms(state.metadata.configuration) is None or tags.null_count == len(tags):
        return files
    tagged = files.filter(tags.is_valid())
    kept = {add.path for add in add_files_of(tagged) if is_tombstones(add)}
    return files.filter(pa.array([path not in kept for path in files.column("path").to_pylist()])) if kept else files


def tidy_tombstones(open_table: OpenTable) -> None:
    """Join each partition's tombstone files, and drop those past the retention.

    If another writer removed one of them meanwhile, all stay as they are. Raises what `OpenTable.commit` raises.
    """
    state = open_table.log.newest_state()
    if retention_ms(state.metadata.configuration) is None:
        return
    files = open_table.log.files(state)
    found = [add for add in add_files_of(files.filter(files.column("tags").is_valid())) if is_tombstones(add)]
    before_ms = expired_before_ms(state, ambient.now_ms())
    expired = [add for add in found if add.modification_time < before_ms]
    partitions: dict[tuple[tuple[str, str | None], ...], list[AddFile]] = {}
    for add in found:
        if add.modification_time >= before_ms and add.size < _LARGE_BYTES:
            partitions.setdefault(tuple(sorted(add.partition_values.items())), []).append(add)
    groups = [adds for adds in partitions.values() if len(adds) > 1]
    if expired or groups:
        _commit(open_table, state, expired, groups)


def _commit(
    open_table: OpenTable, state: TableState, expired: Sequence[AddFile], groups: Sequence[Sequence[AddFile]]
) -> None:
    open_table.check_writable(state)
    builder = ProposalBuilder(state, data_change=False)
    with UnsentFiles(open_table.store.files) as unsent:
        builder.remove(*expired)
        for adds in groups:
            builder.remove(*adds)
            builder.add(*_joined(open_table, state, adds, unsent))
        proposal = builder.build(
            txn_id=ambient.uuid4(),
            now_ms=ambient.now_ms(),
            isolation=open_table.isolation(state),
            operation="OPTIMIZE",
            parameters=operation_parameters(predicate=[], zOrderBy=[], clusterBy=[], auto="false", tombstones="true"),
        )
        try:
            open_table.commit(proposal, state, unsent=unsent)
        except ConflictError as error:
            logger.info("%s: tombstones stay as they are: %s", open_table.uri, error)


def _joined(open_table: OpenTable, state: TableState, adds: Sequence[AddFile], unsent: UnsentFiles) -> list[AddFile]:
    """One file with all their rows, as old as the youngest."""
    reader = FileRows(open_table.store, state).reader(state.schema.fields)
    schema = to_arrow(state.schema)

    def batches() -> Iterator[pa.RecordBatch]:
        for add in adds:
            for _, batch in reader.batches(add, with_dead_rows=True):
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    plan = WritePlan.of(
        state.metadata, table=open_table.uri, read_version=state.version, schema=state.schema, rows="old"
    )
    task = TaskIdentity(ambient.uuid4(), 0)
    written = write_task(open_table.store.files, plan, task, DataStream(schema, batches())).files
    unsent.own(file.path for file in written)
    youngest_ms = max(add.modification_time for add in adds)
    return tombstone_adds(open_table.store.files, written, unsent, modified_ms=youngest_ms)
