"""Ends a table's column mapping: every file is written again with the names of its columns, in one version.

In: an open table. Out: a version with the same rows, in which a column's name is its name in files, and the features
that need the mapping can be dropped. After a lost race only files that the winners added or marked are written.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.definition import Definition, define
from txlog.core.format.actions import AddFile, LiveKey, Metadata, operation_parameters
from txlog.core.format.clustering import replaced_clustering
from txlog.core.format.column_mapping import MAPPING_PREFIX, MAX_COLUMN_ID_KEY, MODE_KEY, mapping_mode, without_metadata
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.schema import schema_to_json
from txlog.core.format.schema_merge import check_schema
from txlog.core.maintenance._bins import bins_to_purge, bins_with_files
from txlog.core.maintenance._tombstone_files import tombstone_upkeep, tombstones_of, without_tombstones
from txlog.core.maintenance.rewriting._bin import Bin
from txlog.core.maintenance.rewriting._rewrite_bin import RewriteBins, RewrittenBin, rewritten_bins
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.proposal import Isolation, OperationInfo, Proposal
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.versions.decisions.state import TableState
from txlog.core.workers import Workers
from txlog.core.writing import UnsentFiles
from txlog.errors import InvalidInputError
from txlog.result import WriteMetrics

_BYTES_PER_S = 50e6


def unmap_columns(open_table: OpenTable, workers: Workers) -> None:
    """Commit the version, unless the table does not map its columns.

    Raises ``InvalidInputError`` for a name of a column that only mapping allows.
    """
    state = open_table.writable_state()
    if mapping_mode(state.metadata.configuration) == "none":
        return
    with open_table.unsent_files() as unsent:
        open_table.commit_plan(_Unmapping(open_table, workers, unsent), state, unsent=unsent)


def unmapped(state: TableState) -> Definition:
    """The definition without the mapping. Raises ``InvalidInputError`` for a name that only mapping allows."""
    schema = without_metadata(state.schema, MAPPING_PREFIX)
    try:
        check_schema(schema, any_name=False)
    except InvalidInputError as error:
        error.template = f"column mapping cannot be dropped: {error.template}: rename those columns first"
        raise
    configuration: Mapping[str, str] = {
        key: value for key, value in state.metadata.configuration.items() if key not in (MODE_KEY, MAX_COLUMN_ID_KEY)
    }
    metadata = replace(state.metadata, schema_string=schema_to_json(schema), configuration=configuration)
    clustering = replaced_clustering(state.domains, state.schema, schema)
    return Definition(metadata, None, () if clustering is None else (clustering,))


class _Unmapping:
    """The `Plan` of the version."""

    def __init__(self, open_table: OpenTable, workers: Workers, unsent: UnsentFiles) -> None:
        self._open_table = open_table
        self._workers = workers
        self._unsent = unsent
        self._txn_id = ambient.uuid4()
        self._written: dict[LiveKey, RewrittenBin] = {}
        self._tombstones: dict[LiveKey, list[AddFile]] = {}
        self._written_for: Metadata | None = None
        self.metrics = WriteMetrics()

    def execute(self, state: TableState) -> Proposal:
        definition = unmapped(state)
        if self._written_for != definition.metadata:
            self._written, self._tombstones, self._written_for = {}, {}, definition.metadata
        live = self._open_table.log.files(state)
        files, tombstones = without_tombstones(state, live), add_files_of(tombstones_of(state, live))
        bins = bins_with_files(bins_to_purge(files, files.column("path").to_pylist()))
        self._write(state, definition, [add for each in bins for add in each.files], tombstones)
        builder = ProposalBuilder(state, data_change=False)
        define(builder, definition)
        builder.remove(*tombstones)
        builder.add(*(new for add in tombstones for new in self._tombstones[add.live_key]))
        new = []
        for each in bins:
            builder.remove(*each.files)
            for add in each.files:
                new += [new.file for new in self._written[add.live_key].files]
        builder.add(*(file.to_add(data_change=False) for file in new))
        builder.read_table()
        rows = sum(file.num_rows for file in new)
        self.metrics = WriteMetrics(
            files=len(new), bytes=sum(file.size_bytes for file in new), files_removed=len(bins), rows_copied=rows
        )
        return builder.build(
            OperationInfo(
                "REMOVE COLUMN MAPPING",
                operation_parameters(),
                metrics={
                    "numRewrittenFiles": str(len(bins)),
                    "numOutputBytes": str(self.metrics.bytes),
                    "numCopiedRows": str(rows),
                },
            ),
            txn_id=self._txn_id,
            now_ms=ambient.now_ms(),
            isolation=Isolation.SERIALIZABLE,
            is_reexecutable=True,
        )

    def _write(self, state: TableState, definition: Definition, adds: list[AddFile], tombstones: list[AddFile]) -> None:
        """Write the files that no earlier execution wrote."""
        upkeep = tombstone_upkeep(self._open_table, state)
        new_state = state.defined_as(definition.metadata, None)
        left = [Bin((add,)) for add in adds if add.live_key not in self._written]
        work = RewriteBins(self._open_table.task_table(state), self._open_table.task_table(new_state))
        for number, rewritten in rewritten_bins(self._workers, work, left):
            self._unsent.own(new.file.path for new in rewritten.files)
            self._written[left[number].files[0].live_key] = rewritten
        for add in tombstones:
            assert upkeep is not None  # or no file would be one
            if add.live_key not in self._tombstones:
                new = upkeep.written_again(self._open_table, state, [add], self._unsent, new_state)
                self._tombstones[add.live_key] = new

    def remaining_work_s(self, state: TableState) -> float:
        files = self._open_table.log.files(state)
        known = pa.array([path for (path, *_), _ in (*self._written, *self._tombstones)], pa.string())
        left = files.filter(pc.invert(pc.is_in(files.column("path"), known)))
        return (pc.sum(left.column("size")).as_py() or 0) / _BYTES_PER_S
