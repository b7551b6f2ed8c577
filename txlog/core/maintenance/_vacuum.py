"""Vacuum: deletes the data files that no retained version needs.

In: an open table and `VacuumOptions`. Out: a `VacuumResult`. A file is deleted if it is older than the retention and
not among the `NeededFiles`. The steps, in order:

1. Plan: find the files that must stay, and list all files (or take them from an inventory or the log); the rest will be
   deleted.
2. Commit VACUUM START, even if nothing is to be deleted, as Spark does: history shows that the vacuum ran. The commit's
   time shows whether this machine's clock is right, and restores look for this commit (`_vacuums_under_way`).
3. Delete in rounds of a thousand files per worker. Before each round, look up what was committed or staged since: a
   file that a restore, a recovery or ``add_files`` brought back stays. Restores check their files again after their
   commit, so one of the two sees the other.
4. Write ``_last_vacuum_info``, and commit VACUUM END.

If a vacuum stops anywhere, the table stays valid and the next vacuum deletes the rest. Two at the same time do no harm.
PROTOCOL.md, "VACUUM Protocol Check".
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

import txlog.core.format.arrow.python_values  # noqa: F401  has pyarrow import pandas
from txlog.core import ambient
from txlog.core.changes.tasks import LISTED, DeleteFiles, Folders, ListFiles, listed, ranges_of, without_hidden
from txlog.core.format.actions import FileId, operation_parameters
from txlog.core.format.arrow.arrays import array_of
from txlog.core.format.column_mapping import physical_names
from txlog.core.format.file_columns import file_ids
from txlog.core.format.properties import TableProperties
from txlog.core.maintenance._former_partitions import former_partition_columns
from txlog.core.maintenance._last_vacuum import read_last_vacuum, write_last_vacuum
from txlog.core.maintenance._named_versions import delete_unnamed
from txlog.core.maintenance._needed_files import NeededFiles
from txlog.core.maintenance._offered_appends import delete_dead_offers
from txlog.core.maintenance._package_folders import disposable_files
from txlog.core.maintenance._staged_parts import delete_dead_parts
from txlog.core.maintenance._vacuum_candidates import in_inventory, removed_by
from txlog.core.maintenance._vacuums_under_way import END, START
from txlog.core.parallel import begin
from txlog.core.progress import OnProgress, progress_of
from txlog.core.reading import KeyFolder
from txlog.core.util import invalid
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.proposal import Isolation, OperationInfo
from txlog.core.versions.decisions.proposal_builder import ProposalBuilder
from txlog.core.wording import advice, argument, setting
from txlog.core.workers import GivenWorkers
from txlog.errors import InvalidInputError, NotFoundError, StorageError, TxlogError
from txlog.result.maintenance import VacuumResult

if TYPE_CHECKING:
    from txlog.core.workers import Workers

Out = TypeVar("Out")

HOUR_MS = 3_600_000

DELETED_AT_ONCE = 1000
_DELETIONS_AT_ONCE = 4
_RANGES_PER_SLOT = 4
_LOOK_UPS = 4
_CLOCK_AHEAD_MAX_MS = HOUR_MS
_RETENTION = "delta.deletedFileRetentionDuration"
_HOURS_MAX = 1e10  # a longer retention keeps no more: no file is a million years old


class VacuumOptions(msgspec.Struct, frozen=True):
    """The arguments of `Table.vacuum`."""

    retention_hours: float | None = None
    dry_run: bool = False
    lite: bool = False
    inventory: Any = None
    force: bool = False


def vacuum(
    open_table: OpenTable,
    options: VacuumOptions,
    on_step: OnProgress | None = None,
    workers: GivenWorkers | None = None,
) -> VacuumResult:
    """Delete what no retained version needs. Raises what `Table.vacuum` raises."""
    if options.lite and options.inventory is not None:
        raise InvalidInputError(
            "a lite vacuum finds the files in the log and needs no inventory: pass lite or inventory, not both",
            table=open_table.uri,
        )
    if not options.dry_run:
        open_table.log.require_maintained_here("a vacuum")
    needed = NeededFiles(open_table)
    state = needed.state
    open_table.check_maintainable(state)
    with TxlogError.located(open_table.uri, state.version):
        retention_ms = _retention_ms(state.properties, options)
    on_step = progress_of(on_step)
    # A local directory is changed by one thread at a time.
    places = open_table.workers(workers, 1 if open_table.store.has_cheap_calls else _DELETIONS_AT_ONCE)
    with open_table.timed("vacuum"):
        return _Vacuum(open_table, needed, options, retention_ms, on_step, places).run()


class _Vacuum:
    def __init__(
        self,
        open_table: OpenTable,
        needed: NeededFiles,
        options: VacuumOptions,
        retention_ms: int,
        on_step: OnProgress,
        workers: Workers,
    ) -> None:
        self._workers = workers
        self._open_table = open_table
        self._needed = needed
        self._log = open_table.log
        self._options = options
        self._retention_ms = retention_ms
        self._on_step = on_step
        # With a retention of 0, files written or removed in this very millisecond count as old too.
        self._now_ms = ambient.now_ms() + (retention_ms == 0)
        self._cutoff_ms = self._now_ms - retention_ms
        needed.keep_removed(now_ms=self._now_ms, retention_ms=retention_ms)
        self._mode: str = "full"
        self._linked: list[str] = []
        """Where symbolic links in the table lead. The log may name files through the links, so they all stay."""
        self._looked_at = 0
        state = needed.state
        columns = physical_names(state.schema, state.partition_columns)
        self._folders = Folders(columns, former=lambda: former_partition_columns(open_table.log, state))

    def run(self) -> VacuumResult:
        expired = self._beside(lambda: self._needed.version_at_cutoff)
        last = self._beside(lambda: read_last_vacuum(self._log.store.log))
        files = self._begin_to_list()
        self._needed.read()
        doomed = self._doomed(itertools.chain(self._source(files, last, expired), self._of_packages()))
        version = None
        if not self._options.dry_run:
            check_clock = self._begin(doomed)
            doomed = self._delete_or_report(doomed)
            noted = self._beside(lambda: self._note_expired(expired(), last, check_clock))
            left = self._delete_left(check_clock)
            version = self._end("COMPLETED", doomed.num_rows)
            for done in (noted, *left):
                done()
        return VacuumResult(
            paths=tuple(doomed["path"].to_pylist()),
            size_bytes=_total(doomed["size_bytes"]),
            retention_hours=self._retention_ms / HOUR_MS,
            mode="lite" if self._mode == "lite" else "full",
            dry_run=self._options.dry_run,
            version=version,
        )

    def _beside(self, work: Callable[[], Out]) -> Callable[[], Out]:
        """``work``, begun now if it is requests; otherwise it is done when its result is asked for, at most once."""
        if not self._open_table.store.has_cheap_calls:
            return begin(work)
        return functools.cache(work)

    def _delete_left(self, check_clock: Callable[[], None]) -> tuple[Callable[[], None], ...]:
        """Begin to delete checkpoints that have no name, appends that nobody committed, and keys of files that are no
        longer live. No age is judged before ``check_clock``."""
        store, now_ms = self._log.store, self._now_ms
        return (
            self._beside(lambda: delete_unnamed(store, now_ms, check_clock)),
            self._beside(self._delete_keys),
            self._beside(lambda: delete_dead_offers(store, now_ms, check_clock)),
            self._beside(lambda: delete_dead_parts(self._open_table, now_ms, check_clock)),
        )

    def _delete_keys(self) -> None:
        """A vacuum by the log lists no folder that the table's properties do not ask for."""
        if self._mode == "full" or self._needed.state.properties.key_index:
            KeyFolder.delete_others(self._log.store.files, self._live_files)

    def _live_files(self) -> list[FileId]:
        return file_ids(self._log.files(self._log.newest_state()))

    def _note_expired(
        self, version: int | None, last: Callable[[], int | None], check_clock: Callable[[], None]
    ) -> None:
        """Record where the next vacuum by the log begins; not after an inventory, which may lack newer files."""
        if version is not None and self._options.inventory is None:
            check_clock()
            write_last_vacuum(self._log.store.log, max(version, last() or 0), self._cutoff_ms - 1)

    # --- which files ----------------------------------------------------------------------------------------------

    def _doomed(self, candidates: Iterator[pa.RecordBatch]) -> pa.Table:
        found = [self._unneeded(files) for files in self._old(candidates)]
        doomed = pa.concat_tables([LISTED.empty_table(), *found])
        if self._options.inventory is not None or self._mode == "lite":  # both may name a file twice
            doomed = _distinct(doomed)
        for path in self._linked:
            doomed = doomed.filter(pc.invert(_is_below(doomed["path"], path)))
        if doomed.num_rows and self._needed.settle(has_change_data=_has_change_data(doomed)):
            doomed = self._unneeded(doomed)
        return doomed

    def _old(self, candidates: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        """The files old enough to delete, in a few large parts: each look-up among all needed files indexes these
        first, so a look-up for each batch would cost the square of the table's files."""
        cutoff_ms, enough = array_of([self._cutoff_ms], pa.int64())[0], len(self._needed.paths) // _LOOK_UPS
        old: list[pa.RecordBatch] = []
        for batch in candidates:
            self._looked_at += batch.num_rows
            self._on_step("looking at files", self._looked_at, self._looked_at)
            old.append(batch.filter(pc.less(batch["modified_ms"], cutoff_ms)))
            if sum(each.num_rows for each in old) >= enough:
                yield pa.Table.from_batches(old)
                old = []
        if old:
            yield pa.Table.from_batches(old)

    def _source(
        self, files: Iterator[pa.RecordBatch], last: Callable[[], int | None], expired: Callable[[], int | None]
    ) -> Iterator[pa.RecordBatch]:
        if self._options.inventory is not None:
            return in_inventory(self._log.uri, self._options.inventory, self._folders)
        if self._options.lite:
            first = last()
            if first is not None and self._has_commits(first + 1, expired()):
                self._mode, version = "lite", expired()
                end = -1 if version is None else version
                return removed_by(self._log.commits_between(first + 1, end), self._log.uri, self._folders)
        return files

    def _of_packages(self) -> Iterator[pa.RecordBatch]:
        """Files in the folders of packages. A vacuum by the log looks into none, and an inventory lists them or not."""
        if self._mode == "full":
            yield from disposable_files(self._open_table, self._needed.keepers, self._cutoff_ms)

    def _begin_to_list(self) -> Iterator[pa.RecordBatch]:
        """Every file of the table; its first part is on its way when this returns, if that is a request."""
        files = self._in_listing()
        if self._options.inventory is not None or self._options.lite or self._workers.crosses:
            return files
        head = self._beside(lambda: list(itertools.islice(files, 1)))
        return itertools.chain.from_iterable(part() for part in (head, lambda: files))

    def _in_listing(self) -> Iterator[pa.RecordBatch]:
        """Workers in other processes list ranges of names, and leave out young files."""
        if not self._workers.crosses:
            yield from listed(self._log.store.files, self._folders, self._linked.append)
            return
        work = ListFiles(self._open_table.task_store(), self._folders.partition_columns, self._cutoff_ms)
        ranges = ranges_of(self._needed.paths.column(), _RANGES_PER_SLOT * self._workers.slots)
        for _, found in self._workers.map(work, ranges):
            self._folders.seen.update(found.folders)
            self._linked += found.links
            self._looked_at += found.num_files - found.files.num_rows
            yield from (without_hidden(batch, self._folders) for batch in found.files.to_batches())

    def _has_commits(self, first: int, last: int | None) -> bool:
        """Whether the log still has these versions; the log cleanup removes the oldest first."""
        if last is None or first > last:
            return True
        try:
            self._log.versions.stat(first)
        except NotFoundError:
            return False
        return True

    def _unneeded(self, files: pa.Table) -> pa.Table:
        return files.filter(pc.invert(self._needed.paths.holds(files["path"]))) if files.num_rows else files

    # --- deletion -------------------------------------------------------------------------------------------------

    def _delete_or_report(self, doomed: pa.Table) -> pa.Table:
        """Delete; if that fails, commit that the vacuum failed. Returns what was deleted."""
        deleted: list[pa.Table] = []
        try:
            for gone in self._delete(doomed):
                deleted.append(gone)
        except TxlogError:
            self._end("FAILED", sum(gone.num_rows for gone in deleted))
            raise
        return pa.concat_tables([LISTED.empty_table(), *deleted])

    def _delete(self, doomed: pa.Table) -> Iterator[pa.Table]:
        workers, work = self._workers, DeleteFiles(self._open_table.task_store())
        round_rows, done = workers.slots * DELETED_AT_ONCE, 0
        if doomed.num_rows:
            self._seal()
        for start in range(0, doomed.num_rows, round_rows):
            revived = self._needed.refresh()
            doubted = doomed.slice(start, round_rows)
            gone = doubted.filter(pc.invert(revived.holds(doubted["path"])))
            parts = [gone.slice(at, DELETED_AT_ONCE) for at in range(0, gone.num_rows, DELETED_AT_ONCE)]
            for number, _ in workers.map(work, [part["path"].to_pylist() for part in parts]):
                yield parts[number]
            done += doubted.num_rows
            self._on_step("deleting files", done, doomed.num_rows)

    def _seal(self) -> None:
        for keeper in self._needed.keepers if self._mode == "full" else ():
            keeper.seal(self._open_table)

    def _begin(self, doomed: pa.Table) -> Callable[[], None]:
        """Commit the beginning. Returns the check of the clock, which is done if a file is to be deleted."""
        properties, asked = self._needed.state.properties, self._options.retention_hours
        parameters = operation_parameters(
            retentionCheckEnabled=not self._options.force,
            specifiedRetentionMillis=None if asked is None else self._retention_ms,
            defaultRetentionMillis=properties.deleted_file_retention_ms,
        )
        metrics = {"numFilesToDelete": doomed.num_rows, "sizeOfDataToDelete": _total(doomed["size_bytes"])}
        version = self._commit(START, parameters, metrics)
        check_clock = self._beside(lambda: self._check_clock(version))
        try:
            if doomed.num_rows:
                check_clock()
        except TxlogError:
            self._end("FAILED", 0)
            raise
        return check_clock

    def _check_clock(self, version: int) -> None:
        """The store's clock dates the files, and this machine's clock computes their age, so the two must agree."""
        if self._options.force:
            return
        ahead_ms = self._now_ms - self._log.versions.stat(version).modified_ms
        if ahead_ms > _CLOCK_AHEAD_MAX_MS:
            raise StorageError(
                f"this machine's clock is {ahead_ms / HOUR_MS:.1f} hours ahead of the store's, so young files would"
                " look old. Nothing was deleted; correct the clock and run it again",
                table=self._log.uri,
            )

    def _end(self, status: str, deleted: int) -> int:
        metrics = {"numDeletedFiles": deleted, "numVacuumedDirectories": len(self._folders)}
        return self._commit(END, operation_parameters(status=status), metrics)

    def _commit(self, operation: str, parameters: dict[str, str], metrics: dict[str, int]) -> int:
        state = self._log.newest_state(refresh=False)
        builder = ProposalBuilder(state, data_change=False)
        info = OperationInfo(operation, parameters, metrics={name: str(value) for name, value in metrics.items()})
        version = self._open_table.commit_change(builder, info, Isolation.SNAPSHOT).version
        assert version is not None
        return version


def _retention_ms(properties: TableProperties, options: VacuumOptions) -> int:
    hours = options.retention_hours
    if hours is None:
        if _RETENTION in properties.unreadable:
            raise InvalidInputError(
                f"table property {_RETENTION} is {properties.unreadable[_RETENTION]!r}, which is not an interval of"
                f" fixed length: set it to one such as 'interval 7 days', or pass {argument('retention_hours')}"
            )
        return properties.deleted_file_retention_ms
    if isinstance(hours, bool) or not isinstance(hours, int | float) or not 0 <= hours < math.inf:
        raise invalid("retention_hours", hours, "a number of hours, 0 or more")
    retention_ms = round(min(hours, _HOURS_MAX) * HOUR_MS)
    if retention_ms < properties.deleted_file_retention_ms and not options.force:
        accept = advice("accept a short retention", f"pass {setting('force', True)}")
        raise InvalidInputError(
            f"{setting('retention_hours', int(hours) if hours == int(hours) else hours)} is shorter than"
            f" the table's {_RETENTION}, which is"
            f" {properties.deleted_file_retention_ms / HOUR_MS:g} hours: readers, time travel, and writers that are"
            f" about to commit may need what it would delete. If none of them does, {accept}; else set the table"
            " property"
        )
    return retention_ms


def _has_change_data(doomed: pa.Table) -> bool:
    return any(pc.starts_with(chunk, "_change_data/").true_count for chunk in doomed["path"].chunks)


def _is_below(paths: Any, folder: str) -> Any:
    """Whether each path is ``folder`` or below it."""
    return pc.or_(pc.equal(paths, array_of([folder], pa.string())[0]), pc.starts_with(paths, f"{folder}/"))


def _distinct(doomed: pa.Table) -> pa.Table:
    if doomed.num_rows < 2:
        return doomed
    grouped = doomed.group_by("path", use_threads=False).aggregate([("size_bytes", "max"), ("modified_ms", "max")])
    return grouped.rename_columns(LISTED.names).cast(LISTED)


def _total(sizes: pa.ChunkedArray) -> int:
    return pc.sum(sizes).as_py() or 0
