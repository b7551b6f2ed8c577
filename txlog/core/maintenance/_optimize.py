"""`optimize` and `purge`: small files become large ones, and dead rows are removed from files.

In: an open table and a selection of its files. Out: commits, each for a group of bins: a conflict, a crash or Ctrl-C
costs one group, and another run goes on with the rest. Workers rewrite one bin at a time; readers and writers continue
meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.format.actions import operation_parameters
from txlog.core.format.arrow.arrays import are_among
from txlog.core.format.arrow.spill import temporary_folder
from txlog.core.format.clustering import CLUSTERED_BY, CLUSTERING_PROVIDER, clustering_columns, cube_tags
from txlog.core.format.column_mapping import physical_fields
from txlog.core.format.properties import path_text
from txlog.core.maintenance._bins import (
    PlannedBin,
    bins_not_yet_clustered,
    bins_of,
    bins_to_cluster,
    bins_to_purge,
    bins_with_files,
    cheapest_first,
    files_of,
    grouped,
)
from txlog.core.maintenance._clustering import OnFile, check_can_cluster, cluster_bins
from txlog.core.maintenance._compaction import Compaction, CompactionOutcome, RewriteDescription
from txlog.core.maintenance._named_versions import files_of_named, named_versions
from txlog.core.maintenance._outdated_files import files_with_dropped_columns, files_with_older_types
from txlog.core.maintenance._tombstone_files import tidy_tombstones, tombstone_upkeep, without_tombstones
from txlog.core.maintenance.rewriting._bin import Bin
from txlog.core.maintenance.rewriting._curve import ClusterColumns
from txlog.core.maintenance.rewriting._rewrite_bin import FileOfBin, RewriteBins, RewrittenBin, rewritten_bins
from txlog.core.predicates import bind_predicate
from txlog.core.predicates.skipping import PartitionPredicate
from txlog.core.progress import OnProgress, progress_of
from txlog.core.util import check_text, logger, whole_number
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.state import TableState
from txlog.core.wording import argument, call
from txlog.core.workers import GivenWorkers
from txlog.core.writing import TARGET_FILE_SIZE_BYTES, UnsentFiles, WritePlan, check_columns, checked_settings
from txlog.errors import ConflictError, InvalidInputError, StorageError, TxlogError
from txlog.result import moment
from txlog.result.maintenance import RewriteResult

if TYPE_CHECKING:
    from txlog.core.predicates import AnyCondition
    from txlog.core.workers import Workers

_GROUP_BYTES = 2 << 30  # for each worker: a group takes about as long, however many there are
GROUP_FILES = 2_500
GROUP_FILES_MAX = 50_000  # a commit lists them all
_CLUSTER_BYTES = 64 << 30
_WHOLE_TABLE = 1 << 62
_BINS_AT_ONCE = 2
_ROUNDS_MAX = 3  # how often it retries files that other writers changed meanwhile


MakeFolder = Callable[[], str]
Rewrite = Callable[[TableState, Sequence[Bin], MakeFolder, OnFile, OnProgress], "list[RewrittenBin]"]
"""Rewrites bins of a version. Gets what makes a folder on this machine, for data that does not fit into memory, and
calls back for each new file, and with the steps before the first one."""


class _Request(msgspec.Struct, frozen=True):
    """What the caller asks for, on any version: how to choose bins, how to rewrite them, and how the history describes
    it."""

    bins_for: Callable[[TableState], list[PlannedBin]]
    rewrite: Rewrite
    description: RewriteDescription
    on_progress: OnProgress | None
    workers: Workers


def optimize(
    open_table: OpenTable,
    where: AnyCondition | None = None,
    *,
    target_file_size_bytes: int | None = None,
    max_bytes: int | None = None,
    zorder_by: str | Sequence[str] | None = None,
    files_min: int = 1,
    parquet: Mapping[str, object] | None = None,
    dry_run: bool = False,
    is_automatic: bool = False,
    leaves_larger: bool = False,
    user_metadata: str | None = None,
    on_progress: OnProgress | None = None,
    workers: GivenWorkers | None = None,
) -> RewriteResult:
    """See ``Table.optimize``. Partitions with fewer than ``files_min`` files to rewrite are left as they are. With
    ``is_automatic``, the history says that auto compaction ran it. ``leaves_larger`` is for `bins_of`.
    """
    _check(user_metadata, on_progress)
    target_file_size_bytes = _at_least_one("target_file_size", target_file_size_bytes)
    max_bytes = _at_least_one("max_bytes", max_bytes)
    settings = checked_settings(parquet)
    places = open_table.workers(workers, _BINS_AT_ONCE)
    select = _selection(open_table, where)
    if not dry_run:
        open_table.log.require_maintained_here("the rewriting of data files")
        tidy_tombstones(open_table)

    def target_of(state: TableState) -> int:
        return target_file_size_bytes or state.properties.target_file_size_bytes or TARGET_FILE_SIZE_BYTES

    newest = open_table.log.newest_state()
    with TxlogError.located(open_table.uri, newest.version):
        of_table = _clustered_by(newest, zorder_by)
        check_columns(settings, newest.schema, newest.partition_columns)
    wanted = zorder_by if of_table is None else of_table

    def columns_of(state: TableState) -> ClusterColumns:
        with TxlogError.located(open_table.uri, state.version):
            return ClusterColumns.of(wanted, state.schema, state.partition_columns)

    def bins_for(state: TableState) -> list[PlannedBin]:
        fields, files = physical_fields(state.schema, state.partition_columns), without_tombstones(state, select(state))
        if wanted is None:
            found = bins_of(files, fields, target_of(state), files_min=files_min, leaves_larger=leaves_larger)
        elif of_table is None:
            found = bins_to_cluster(files, fields, _as_json(columns_of(state).names), _curve_bytes(places))
        else:
            bin_bytes = min(_curve_bytes(places), max_bytes or _WHOLE_TABLE)
            found = bins_not_yet_clustered(files, of_table, target_of(state), bin_bytes, files_min=files_min)
        return cheapest_first(found, max_bytes)

    rewrite = _rewriting(open_table, places, settings)
    if wanted is not None:
        rewrite = _clustering(open_table, places, settings, columns_of, target_of)
    names = [] if wanted is None else columns_of(newest).names
    asked = operation_parameters(predicate=_predicates(where), auto="true" if is_automatic else "false")
    description = _with_clustering(RewriteDescription("OPTIMIZE", asked, user_metadata), names, of_table is not None)
    return _run(open_table, _Request(bins_for, rewrite, description, on_progress, places), dry_run=dry_run)


def _check(user_metadata: str | None, on_progress: OnProgress | None) -> None:
    check_text("user_metadata", user_metadata)
    progress_of(on_progress)


def _at_least_one(name: str, value: int | None) -> int | None:
    return None if value is None else whole_number(name, value, at_least=1)


def _with_clustering(description: RewriteDescription, names: Sequence[str], is_own: bool) -> RewriteDescription:
    """With the columns as parameters, and as tags of the new files; in Spark's form if the table has CLUSTER BY."""
    by = {"clusterBy": names, "zOrderBy": [], "isFull": "false"} if is_own else {"clusterBy": [], "zOrderBy": names}
    description = replace(description, parameters={**description.parameters, **operation_parameters(**by)})
    if is_own:
        tags = cube_tags(ambient.uuid4(), names)
        return replace(description, tags=tags, clustering_provider=CLUSTERING_PROVIDER)
    return replace(description, tags={CLUSTERED_BY: _as_json(names)}) if names else description


def _clustered_by(state: TableState, zorder_by: str | Sequence[str] | None) -> list[str] | None:
    """The clustering columns in the table's own definition; None if it has none."""
    paths = clustering_columns(state.domains, state.schema)
    names = [path_text(path) for path in paths]
    if names and zorder_by is not None:
        raise InvalidInputError(
            f"the table is clustered by {', '.join(names)}, and optimize orders its rows by these: leave"
            f" {argument('zorder_by')} out, or change the table's columns with {call('cluster_by', ['a', 'b'])}"
        )
    return names or None


def _as_json(names: Sequence[str]) -> str:
    return json.dumps(list(names))


def purge(
    open_table: OpenTable,
    where: AnyCondition | None = None,
    *,
    dry_run: bool = False,
    user_metadata: str | None = None,
    on_progress: OnProgress | None = None,
    workers: GivenWorkers | None = None,
) -> RewriteResult:
    """See ``Table.purge``."""
    _check(user_metadata, on_progress)
    places = open_table.workers(workers, _BINS_AT_ONCE)
    select = _selection(open_table, where)
    if not dry_run:
        open_table.log.require_maintained_here("the rewriting of data files")

    def bins_for(state: TableState) -> list[PlannedBin]:
        tombstone_upkeep(open_table, state)  # a purge drops tombstones, as it drops every deleted row
        files = select(state)
        return bins_to_purge(files, files_with_dropped_columns(open_table, state, files, workers))

    parameters = operation_parameters(predicate=_predicates(where), applyPurge="true")

    description = RewriteDescription("REORG", parameters, user_metadata)
    request = _Request(bins_for, _rewriting(open_table, places, {}), description, on_progress, places)
    done = _run(open_table, request, dry_run=dry_run)
    return replace(done, kept_by=_names_that_keep(open_table, done.paths_removed))


def rewrite_older_types(open_table: OpenTable, workers: GivenWorkers | None = None) -> None:
    """Rewrite the files that hold a column in a type that it had before. Raises what `purge` raises."""
    places = open_table.workers(workers, _BINS_AT_ONCE)
    open_table.log.require_maintained_here("the rewriting of data files")

    def older(state: TableState, files: pa.Table) -> list[str]:
        return files_with_older_types(open_table, state, files, workers)

    def bins_for(state: TableState) -> list[PlannedBin]:
        files = without_tombstones(state, open_table.log.files(state))
        found = pa.array(older(state, files), pa.string())
        chosen = files.filter(pc.is_in(files.column("path"), found))
        return bins_to_purge(chosen, found.to_pylist())

    tidy_tombstones(open_table, older)

    description = RewriteDescription("REORG", operation_parameters(predicate=[], applyPurge="false"), None)
    _run(
        open_table,
        _Request(bins_for, _rewriting(open_table, places, {}), description, None, places),
        dry_run=False,
    )


def _names_that_keep(open_table: OpenTable, paths: Sequence[str]) -> tuple[str, ...]:
    wanted = pa.array(paths, pa.string())
    found = []
    for named in named_versions(open_table.store) if paths else ():
        if pc.any(are_among(wanted, files_of_named(open_table.store, named)["path"])).as_py():
            found.append(named.name)
    return tuple(found)


# --- which files ------------------------------------------------------------------------------------------------


def _selection(open_table: OpenTable, where: AnyCondition | None) -> Callable[[TableState], pa.Table]:
    now = ambient.now()

    def select(state: TableState) -> pa.Table:
        if where is None:
            open_table.log.check_zones(state)
            return open_table.log.files(state)
        with TxlogError.located(open_table.uri, state.version):
            predicate = bind_predicate(where, state.schema, zone=state.time_zone, now=now)
            decided = PartitionPredicate.of(predicate, state)
            if decided is None:
                names = ", ".join(state.partition_columns)
                partitioning = f"partitioned by {names}" if names else "not partitioned"
                raise InvalidInputError(
                    f"where selects whole partitions, but partition values alone do not decide {predicate}: the table"
                    f" is {partitioning}. Name partition columns only, or leave where out"
                )
            files = open_table.log.matching_files(state, predicate)  # of a checkpoint, only these partitions are read
            partitions = map(dict, files.column("partitionValues").to_pylist())
            return files.filter(pa.array(map(decided.holds, partitions), pa.bool_()))

    return select


def _predicates(where: Any) -> list[str]:
    return [] if where is None else [str(where)]


# --- the work ---------------------------------------------------------------------------------------------------


def _run(open_table: OpenTable, request: _Request, *, dry_run: bool) -> RewriteResult:
    state = open_table.writable_state()
    bins = request.bins_for(state)
    if dry_run:
        return _planned(bins)
    total = sum(each.size_bytes for each in bins)
    done: list[RewriteResult] = []  # without the actions of the groups, which would be objects for every file
    given_up = 0
    for round_number in range(_ROUNDS_MAX):
        given_up = 0
        for group in _groups(bins, request.workers.slots):
            version, did = _commit_group(open_table, state, group, request, _bytes_read(done), total)
            given_up += did.bins_given_up
            if version is not None:
                done.append(_of_group(version, did))
        if not given_up or round_number + 1 == _ROUNDS_MAX:
            break
        state = open_table.writable_state()
        bins = request.bins_for(state)
        total = _bytes_read(done) + sum(each.size_bytes for each in bins)
    if given_up:
        logger.warning(
            "%s: %d groups of files were left as they are: other writers rewrote or removed some of"
            " their files meanwhile",
            open_table.uri,
            given_up,
        )
    return _result(done, given_up, ambient.now_ms() + state.properties.deleted_file_retention_ms)


def _groups(bins: Sequence[PlannedBin], slots: int) -> list[list[PlannedBin]]:
    slots = max(2, slots)
    return grouped(bins, slots * _GROUP_BYTES, min(slots * GROUP_FILES, GROUP_FILES_MAX))


def _commit_group(
    open_table: OpenTable,
    state: TableState,
    group: Sequence[PlannedBin],
    request: _Request,
    done_bytes: int,
    total: int,
) -> tuple[int | None, CompactionOutcome]:
    """Rewrite some bins and commit them. Returns the version and what was done; None if nothing could be committed."""
    files, on_progress = open_table.store.files, progress_of(request.on_progress)
    with open_table.unsent_files() as unsent, UnsentFiles(files) as orders, ExitStack() as until_committed:

        def on_file(new: FileOfBin, size_bytes: int) -> None:
            nonlocal done_bytes
            unsent.own([new.file.path])
            orders.own([] if new.stored_order is None else [new.stored_order])
            done_bytes += size_bytes
            on_progress("rewriting bytes", done_bytes, total)

        folder = partial(_temporary_folder, until_committed, open_table.uri)
        rewritten = request.rewrite(state, bins_with_files(group), folder, on_file, on_progress)
        prefix_length = WritePlan.of_table(state, open_table.uri, rows="old").random_prefix_length
        plan = Compaction(
            open_table, state.version, rewritten, request.description, unsent, random_prefix_length=prefix_length
        )
        try:
            result = open_table.commit_plan(plan, state, unsent=unsent)
        except ConflictError as error:
            if not plan.has_nothing_left:
                raise
            logger.info("%s: %s", open_table.uri, error)
            return None, CompactionOutcome(bins_given_up=len(group))
        return result.version, plan.done


def _temporary_folder(until: ExitStack, uri: str) -> str:
    try:
        return until.enter_context(temporary_folder())
    except OSError as error:
        raise StorageError(
            f"the rows are sorted in temporary files, and there is no folder for them: {error}. Name one in the"
            " environment variable TMPDIR",
            table=uri,
        ) from error


def _rewriting(open_table: OpenTable, workers: Workers, parquet: Mapping[str, str]) -> Rewrite:
    """Each bin with the rows in the order of its files."""

    def rewrite(
        state: TableState, bins: Sequence[Bin], folder: MakeFolder, on_file: OnFile, on_progress: OnProgress
    ) -> list[RewrittenBin]:
        found: dict[int, RewrittenBin] = {}
        work = RewriteBins(open_table.task_table(state).with_parquet(parquet))
        for number, new in rewritten_bins(workers, work, bins):
            found[number] = new
            for file in new.files:
                on_file(file, bins[number].size_bytes)
        return [found[number] for number in range(len(bins))]

    return rewrite


def _clustering(
    open_table: OpenTable,
    workers: Workers,
    parquet: Mapping[str, str],
    columns_of: Callable[[TableState], ClusterColumns],
    target_of: Callable[[TableState], int],
) -> Rewrite:
    """The rows of each bin along a curve. Raises ``InvalidInputError`` for workers that cannot exchange rows."""
    check_can_cluster(workers, open_table.uri)

    def rewrite(
        state: TableState, bins: Sequence[Bin], folder: MakeFolder, on_file: OnFile, on_progress: OnProgress
    ) -> list[RewrittenBin]:
        table = open_table.task_table(state).with_parquet(parquet)
        return cluster_bins(workers, table, bins, columns_of(state), target_of(state), folder, on_file, on_progress)

    return rewrite


def _curve_bytes(workers: Workers) -> int:
    """The most bytes of files on one curve: on this machine, their rows go through a temporary folder."""
    return _CLUSTER_BYTES if workers.shares_disk else _WHOLE_TABLE


def _bytes_read(done: Sequence[RewriteResult]) -> int:
    return sum(each.bytes_removed for each in done)


# --- results ----------------------------------------------------------------------------------------------------


def _planned(bins: Sequence[PlannedBin]) -> RewriteResult:
    files = files_of(bins, ["path", "deletionVector"])
    return RewriteResult(
        versions=(),
        files_removed=files.num_rows,
        bytes_removed=sum(each.size_bytes for each in bins),
        files_added=len(bins),
        vectors_purged=files.num_rows - files["deletionVector"].null_count,
        paths_removed=tuple(files["path"].to_pylist()),
        dry_run=True,
    )


def _of_group(version: int, done: CompactionOutcome) -> RewriteResult:
    return RewriteResult(
        versions=(version,),
        files_removed=len(done.removed),
        bytes_removed=sum(add.size for add in done.removed),
        files_added=len(done.added),
        bytes_added=sum(add.size for add in done.added),
        rows=done.rows,
        vectors_purged=done.vectors_purged,
        vectors_moved=done.vectors_moved,
        paths_removed=tuple(add.path for add in done.removed),
    )


def _result(groups: Sequence[RewriteResult], given_up: int, kept_until_ms: int) -> RewriteResult:
    """What all groups did together."""
    paths = tuple(path for each in groups for path in each.paths_removed)
    return RewriteResult(
        versions=tuple(version for each in groups for version in each.versions),
        files_removed=len(paths),
        bytes_removed=_bytes_read(groups),
        files_added=sum(each.files_added for each in groups),
        bytes_added=sum(each.bytes_added for each in groups),
        rows=sum(each.rows for each in groups),
        vectors_purged=sum(each.vectors_purged for each in groups),
        vectors_moved=sum(each.vectors_moved for each in groups),
        bins_given_up=given_up,
        paths_removed=paths,
        kept_until=moment(kept_until_ms) if paths else None,
    )
