"""Upkeep of tombstones: joins files of deleted keys, and drops them once the table no longer keeps them.

In: an open table. Out: a commit that changes nothing for readers, or none. Tombstone files are small, but every commit
with a delete adds one, and they would slow down the lookups of upserts. A rewrite of the live rows would lose all of
theirs, so what rewrites other files leaves these out, and has them written here: this module is the `TombstoneUpkeep`
of ``_tombstone_files``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from txlog.changelog.tombstone_tasks import expired_before_ms
from txlog.core import ambient
from txlog.core.changes.tasks import FileRows, tombstone_adds
from txlog.core.format.actions import AddFile, operation_parameters
from txlog.core.format.defined_table import DefinedTable
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.schema import to_arrow
from txlog.core.maintenance import FindFiles, tombstones_of
from txlog.core.util import logger
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.proposal import OperationInfo
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.versions.decisions.state import TableState
from txlog.core.writing import DataStream, TaskIdentity, UnsentFiles, WritePlan, write_task
from txlog.errors import ConflictError

_LARGE_BYTES = 16 << 20  # files of this size are not joined further


def tidy(open_table: OpenTable, state: TableState, outdated: FindFiles | None) -> None:
    """Join each partition's tombstone files, and drop those past the retention. Those that ``outdated`` finds are
    written again in any case.

    If another writer removed one of them meanwhile, all stay as they are. Raises what `OpenTable.commit` raises.
    """
    files = tombstones_of(state, open_table.log.files(state))
    found = add_files_of(files)
    before_ms = expired_before_ms(state, ambient.now_ms())
    expired = [add for add in found if add.modification_time < before_ms]
    again = set() if outdated is None else set(outdated(state, files))
    partitions: dict[tuple[tuple[str, str | None], ...], list[AddFile]] = {}
    for add in found:
        if add.modification_time >= before_ms and (add.size < _LARGE_BYTES or add.path in again):
            partitions.setdefault(tuple(sorted(add.partition_values.items())), []).append(add)
    groups = [adds for adds in partitions.values() if len(adds) > 1 or adds[0].path in again]
    if expired or groups:
        _commit(open_table, state, expired, groups)


def _commit(
    open_table: OpenTable, state: TableState, expired: Sequence[AddFile], groups: Sequence[Sequence[AddFile]]
) -> None:
    open_table.check_writable(state)
    builder = ProposalBuilder(state, data_change=False)
    with open_table.unsent_files() as unsent:
        builder.remove(*expired)
        for adds in groups:
            builder.remove(*adds)
            builder.add(*written_again(open_table, state, adds, unsent))
        parameters = operation_parameters(predicate=[], zOrderBy=[], clusterBy=[], auto="false", tombstones="true")
        try:
            open_table.commit_change(builder, OperationInfo("OPTIMIZE", parameters), unsent=unsent)
        except ConflictError as error:
            logger.info("%s: tombstones stay as they are: %s", open_table.uri, error)


def written_again(
    open_table: OpenTable,
    state: TableState,
    adds: Sequence[AddFile],
    unsent: UnsentFiles,
    written_as: DefinedTable | None = None,
) -> list[AddFile]:
    """One file with all the rows of these tombstone files of ``state``, as old as the youngest.

    ``written_as`` is the definition of the new file, if it is another one with the same columns.
    """
    reader = FileRows(open_table.store, state).reader(state.schema.fields)
    schema = to_arrow(state.schema)

    def batches() -> Iterator[pa.RecordBatch]:
        for add in adds:
            for _, batch in reader.batches(add, with_dead_rows=True):
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    new = written_as or state
    plan = WritePlan.of_table(new, open_table.uri, rows="old")
    task = TaskIdentity(ambient.uuid4(), 0)
    written = write_task(open_table.store.files, plan, task, DataStream(schema, batches())).files
    unsent.own(file.path for file in written)
    youngest_ms = max(add.modification_time for add in adds)
    return tombstone_adds(open_table.store.files, written, unsent, modified_ms=youngest_ms)
