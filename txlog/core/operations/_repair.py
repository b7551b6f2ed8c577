"""Takes files that are gone out of a table, so that the others can be read again; or says what would be lost.

First it mends what the owner of the versions and the log's folder differ about (`VersionLog.mend`).

In: an open table. Out: a `RepairResult`, and one version that removes the live files that the store lacks, or whose
deletion vectors it lacks. A file counts as gone if neither a list of the table's folder nor a look at the file itself
finds it; if the store fails or refuses either, nothing is changed. PROTOCOL.md, "Add File and Remove File".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from txlog.core.changes.tasks import ChangeFileWriter, IsGone
from txlog.core.format.actions import AddFile, operation_parameters
from txlog.core.format.column_mapping import physical_names
from txlog.core.format.deletion_vector import vector_path
from txlog.core.format.file_columns import add_files_of
from txlog.core.format.paths import DataPath, is_location, resolve_data_path, stored_path
from txlog.core.format.statistics_read import num_records
from txlog.core.util import logger
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.proposal import Isolation, OperationInfo
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.versions.decisions.state import TableState
from txlog.core.wording import setting
from txlog.core.workers import GivenWorkers, Workers
from txlog.errors import ConflictError, InvalidInputError, TxlogError
from txlog.result import sum_if_known
from txlog.result.maintenance import LostPartition, RepairResult

_ATTEMPTS_MAX = 10
_LOOKS_AT_ONCE = 16
_LISTED_FOLDERS = ("_delta_log", "_txlog", "_iceberg")
"""Folders without data files."""


def repair(
    open_table: OpenTable,
    *,
    remove: bool = False,
    allow_empty: bool = False,
    user_metadata: str | None = None,
    workers: GivenWorkers | None = None,
) -> RepairResult:
    """Find the files that are gone, and with ``remove`` commit their removal. Raises what `Table.repair` raises."""
    with TxlogError.located(open_table.uri):
        mended = open_table.store.versions.mend(give_up=remove)
    running = open_table.workers(workers, 1 if open_table.store.has_cheap_calls else _LOOKS_AT_ONCE)
    for attempt in range(_ATTEMPTS_MAX):
        state = open_table.log.newest_state()
        open_table.check_maintainable(state)
        with TxlogError.located(open_table.uri, state.version):
            lost, result = _lost(open_table, state, running)
        result = replace(result, offered=mended.accepted, given_up=mended.given_up)
        if not remove or not lost:
            return result
        if len(lost) == result.files_checked and not allow_empty:
            raise InvalidInputError(
                f"all {len(lost):,} files of the table, or their deletion vectors, are missing, so its folder, or that"
                " of a shallow clone's source, may have been moved, or not be mounted here. If they really are gone,"
                f" pass {setting('allow_empty', True)}",
                table=open_table.uri,
                version=state.version,
            )
        try:
            return _removed(open_table, state, lost, result, user_metadata)
        except ConflictError as error:
            if attempt + 1 == _ATTEMPTS_MAX:
                raise
            logger.info("%s: the repair looks again, since another commit came first: %s", open_table.uri, error)
    raise AssertionError


def _lost(open_table: OpenTable, state: TableState, workers: Workers) -> tuple[list[AddFile], RepairResult]:
    """The live files that cannot be read, and what is lost with them."""
    live = add_files_of(open_table.log.files(state))
    uri = open_table.uri
    files = [stored_path(uri, resolve_data_path(add.path)) for add in live]
    vectors = [None if (found := _vector(add)) is None else stored_path(uri, found) for add in live]
    gone = _gone(open_table, workers, {*files, *(path for path in vectors if path is not None)})
    without_vector = [
        add for add, path, vector in zip(live, files, vectors, strict=True) if path not in gone and vector in gone
    ]
    lost = [add for add, path, vector in zip(live, files, vectors, strict=True) if path in gone or vector in gone]
    rows = [_rows(add) for add in lost]
    return lost, RepairResult(
        version=None,
        files=tuple(add.path for add in lost),
        files_checked=len(live),
        rows=sum_if_known(rows),
        size_bytes=sum(add.size for add in lost),
        partitions=tuple(_partitions(state, lost)),
        without_vector=tuple(add.path for add in without_vector),
    )


def _vector(add: AddFile) -> DataPath | None:
    return None if add.deletion_vector is None else vector_path(add.deletion_vector)


def _gone(open_table: OpenTable, workers: Workers, paths: Iterable[str]) -> set[str]:
    """The paths that neither a list nor a look at each finds: a list alone may lack a file. Raises StorageError."""
    store = open_table.store
    left = {*paths}
    if any(not is_location(path) for path in left):
        for page in store.files.list(skip=lambda folder: folder in _LISTED_FOLDERS):
            left.difference_update(each.name for each in page)
    suspects = sorted(left)
    looked = workers.map(IsGone(open_table.task_store()), suspects)
    return {suspects[number] for number, is_gone in looked if is_gone}


def _rows(add: AddFile) -> int | None:
    """The live rows of a file; None if the log does not say."""
    rows = num_records(add.stats)
    dead = 0 if add.deletion_vector is None else add.deletion_vector.cardinality
    return None if rows is None else max(0, rows - dead)


def _partitions(state: TableState, lost: Sequence[AddFile]) -> Iterator[LostPartition]:
    names = state.partition_columns
    keys = physical_names(state.schema, names)
    grouped: dict[tuple[str | None, ...], list[AddFile]] = {}
    for add in lost:
        grouped.setdefault(tuple(add.partition_values.get(key) for key in keys), []).append(add)
    for values, adds in grouped.items():
        named: Mapping[str, str | None] = dict(zip(names, values, strict=True))
        yield LostPartition(named, len(adds), sum_if_known([_rows(add) for add in adds]), sum(add.size for add in adds))


def _removed(
    open_table: OpenTable, state: TableState, lost: Sequence[AddFile], result: RepairResult, user_metadata: str | None
) -> RepairResult:
    with open_table.unsent_files() as unsent:
        builder = ProposalBuilder(state)
        builder.remove(*lost)
        if state.properties.enable_change_data_feed:
            # Readers of the feed would look for the removed files. What was in them, nobody knows.
            builder.change_data(ChangeFileWriter(open_table.store, state, unsent).empty_file().to_cdc())
        metrics = {
            "numRemovedFiles": str(len(lost)),
            "removedFilesSize": str(result.size_bytes),
            "numMissingDeletionVectors": str(len(result.without_vector)),
        }
        info = OperationInfo("FSCK", operation_parameters(dryRun=False), metrics, user_metadata)
        done = open_table.commit_change(builder, info, Isolation.SERIALIZABLE, unsent=unsent)
    assert done.version is not None
    return result.at(done.version)
