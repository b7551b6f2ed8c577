"""Turns row tracking on for a table that has rows: every file gets row ids before the table promises them. And takes
them away again, for a table that is to do without the feature.

In: an open table. Out: versions that add files again with row ids, and no rows (``dataChange`` is false), as Spark's
backfill does. First the protocol says that every writer numbers its new files; then the files that are there get
ids, some in each commit; the caller sets the property last. PROTOCOL.md, "Row Tracking".
"""

from __future__ import annotations

import logging
from functools import partial

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.changes.tasks import FileRows
from txlog.core.definition._checked_definition import DefinitionChange, commit_definition_change
from txlog.core.definition._table_definition import with_properties
from txlog.core.format.actions import AddFile, operation_parameters
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.statistics_read import num_records
from txlog.core.util import logger
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.proposal import Isolation, OperationInfo, Proposal
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.versions.decisions.row_tracking import SUSPENDED, is_suspended, tracks_rows
from txlog.core.versions.decisions.state import TableState
from txlog.errors import InvalidInputError
from txlog.result import WriteMetrics

FILES = 10_000
"""Files that get ids in one commit."""

_FEATURE = {"delta.feature.rowTracking": "supported"}


def turns_row_tracking_on(state: TableState, properties: dict[str, str]) -> bool:
    """Whether these properties promise row ids, which the table does not yet."""
    return properties.get("delta.enableRowTracking") == "true" and not state.properties.enable_row_tracking


def give_row_ids(open_table: OpenTable, user_metadata: str | None = None) -> None:
    """Let every file of the table have row ids, in commits of their own. It can be run again after an interruption.

    Raises ``InvalidInputError`` if the table suspends row tracking, and what `commit_definition_change` and
    ``commit_plan`` raise.
    """
    state = open_table.writable_state()
    if is_suspended(state.metadata.configuration):
        raise InvalidInputError(
            f"the table suspends row tracking ({SUSPENDED} = true): unset that property first",
            table=open_table.uri,
            version=state.version,
        )
    if not tracks_rows(state.protocol, state.metadata.configuration):
        commit_definition_change(open_table, state, _with_feature, user_metadata)
    number = 0
    while True:
        state = open_table.writable_state()
        left = _without_ids(open_table, state).num_rows
        if not left:
            return
        logger.log(logging.INFO, "%s: %d files have no row ids yet", open_table.uri, left)
        open_table.commit_plan(_Backfill(open_table, number, user_metadata), state)
        number += 1


def take_row_ids(open_table: OpenTable) -> None:
    """Let no file of the table have row ids, and new ones get none, so that it can do without the feature.

    Raises what `commit_definition_change` and ``commit_plan`` raise.
    """
    commit_definition_change(open_table, open_table.writable_state(), _suspended)
    number = 0
    while True:
        state = open_table.writable_state()
        if not _with_ids(open_table, state).num_rows:
            return
        open_table.commit_plan(_Backfill(open_table, number, None, takes=True), state)
        number += 1


def _suspended(state: TableState) -> DefinitionChange:
    parameters = operation_parameters(properties={SUSPENDED: "true"})
    return DefinitionChange(with_properties(state, {SUSPENDED: "true"}), "SET TBLPROPERTIES", parameters)


def _with_ids(open_table: OpenTable, state: TableState) -> pa.Table:
    files = open_table.log.files(state)
    return files.filter(pc.or_(files["baseRowId"].is_valid(), files["defaultRowCommitVersion"].is_valid()))


def _with_feature(state: TableState) -> DefinitionChange:
    definition = with_properties(state, _FEATURE)
    if definition is None or definition.protocol is None:
        return DefinitionChange(None, "UPGRADE PROTOCOL", {})
    protocol = definition.protocol
    features = {"readerFeatures": protocol.reader_features, "writerFeatures": protocol.writer_features}
    new = {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        **{key: sorted(names) for key, names in features.items() if names is not None},
    }
    kept = replace(definition, metadata=state.metadata)
    return DefinitionChange(kept, "UPGRADE PROTOCOL", operation_parameters(newProtocol=new))


def _without_ids(open_table: OpenTable, state: TableState) -> pa.Table:
    files = open_table.log.files(state)
    return files.filter(files["baseRowId"].is_null())


class _Backfill:
    """The `Plan` of one commit: the live files that have no ids, up to a limit, as they are when it lands; or, if it
    ``takes`` ids, the files that have some."""

    def __init__(self, open_table: OpenTable, number: int, user_metadata: str | None, *, takes: bool = False) -> None:
        self._takes = takes
        self._open_table = open_table
        self._number = number
        self._user_metadata = user_metadata
        self._txn_id = ambient.uuid4()
        self.metrics = WriteMetrics()

    def execute(self, state: TableState) -> Proposal:
        """Raises what reading the footer of a file raises, if the log does not know its rows."""
        builder = ProposalBuilder(state, data_change=False)
        files = (_with_ids if self._takes else _without_ids)(self._open_table, state).slice(0, FILES)
        rows = FileRows(self._open_table.store, state)
        change = partial(replace, base_row_id=None, default_row_commit_version=None)
        adds = [change(add) if self._takes else _counted(add, rows) for add in add_files_of(files)]
        builder.add(*adds, are_new=False)
        builder.read_table()
        return builder.build(
            OperationInfo(
                "ROW TRACKING UNBACKFILL" if self._takes else "ROW TRACKING BACKFILL",
                operation_parameters(batchId=self._number),
                user_metadata=self._user_metadata,
            ),
            txn_id=self._txn_id,
            now_ms=ambient.now_ms(),
            isolation=Isolation.SERIALIZABLE,
            is_reexecutable=True,
        )

    def remaining_work_s(self, state: TableState) -> float:
        return 0.0


def _counted(add: AddFile, rows: FileRows) -> AddFile:
    """The file with its number of rows, which ids need, from its footer if the log lacks it."""
    if num_records(add.stats) is not None:
        return add
    try:
        known = orjson.loads(add.stats or "{}")
    except ValueError:
        known = {}
    return replace(add, stats=orjson.dumps({**known, "numRecords": rows.count(add)}).decode())
