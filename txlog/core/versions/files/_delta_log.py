"""One table's log as the rest of txlog sees it: states, commits, files, time travel, checkpoints.

In: a ``TableStore``. Out: immutable values. It remembers the newest state, so the next append requests only one name,
and the live files while a caller holds them. Thread-safe. ``_state_loader`` loads a version, ``_file_loader`` its
files; ``core/versions/decisions/checkpoint/`` decides what a checkpoint holds. PROTOCOL.md, "Action Reconciliation".
"""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.format.commit_file import DEFAULT_LIMITS, Commit, LogLimits
from txlog.core.format.features import CATALOG_MANAGED
from txlog.core.format.paths import canonical_path
from txlog.core.parallel import begin, new_lock, parallel_map
from txlog.core.store import ObjectMeta, TableStore
from txlog.core.util import UTC, cached_property
from txlog.core.versions.decisions.retention import (
    BY_FILE,
    BY_REQUEST,
    ReadingCost,
    checkpoint_is_due,
    checkpoint_is_overdue,
    trusted_s,
)
from txlog.core.versions.decisions.segment import CheckpointFiles, LogListing, LogSegment
from txlog.core.versions.decisions.state import StateBuilder, TableState, Totals, advance, commit_mark
from txlog.core.versions.files._commits import CommitReader, unsynced_versions
from txlog.core.versions.files._listing import list_log, read_hint
from txlog.core.versions.files._state_loader import StateLoader
from txlog.errors import (
    CorruptLogError,
    NotFoundError,
    StorageError,
    TableNotFoundError,
    TxlogError,
    UnsupportedFeatureError,
)

if TYPE_CHECKING:
    from txlog.core.predicates.terms.predicate import Predicate
    from txlog.core.versions.files._file_loader import FileLoader
    from txlog.core.versions.files._times import CommitSummary, CommitTimes

_BUILT_ON_MAX_S = 3600.0
"""A state confirmed longer ago is loaded in full, not advanced by commits: its successors may have been cleaned up."""
FRESH_MAX_S = 60.0
"""On stores where reading the log takes a request, a state confirmed this recently is used without one."""
_LONG_TAIL_COMMITS = 10
"""Reading this many commits costs more than reading the hint, which may name a newer checkpoint."""
_ACTIONS_KEPT = 1_000
"""A commit with at most this many actions is kept, so the next file list need not read it again."""
_COMMITS_KEPT = 8
"""So many of them, one after the other."""
MANY_FILES = 100_000
"""Parsing the statistics of this many listed files takes longer than reading typed statistics from a checkpoint."""
SHORT_BYTES = 1 << 20
"""A list of files of at most this size is kept for the next read of the same version."""
_LARGE_COMMIT_BYTES = 1 << 20
"""Two commits of the same size that is larger than this are taken for the same one, rather than read."""
_FAR_COMMITS = 64
"""Reading this many commits costs more than a listing, which shows checkpoints that the hint does not name."""


class DeltaLog:
    """The log of one table. ``limits`` bound what one of its files may cost. ``time_zone`` is that of times without one
    for who works on it."""

    def __init__(self, store: TableStore, limits: LogLimits = DEFAULT_LIMITS, time_zone: str = UTC) -> None:
        self.store = store
        self.time_zone = time_zone
        self.uri = store.uri
        self.versions = store.versions
        self.commits = CommitReader(store, limits)
        self._loader = StateLoader(store, limits, time_zone)
        self.limits = limits
        self._lock = new_lock()
        self.known_state: TableState | None = None
        """The newest known version, without a look at the store; None if none is known."""
        self.confirmed_at: ambient.Instant | None = None  # when the known state was seen to be the newest
        self._seen_same: tuple[TableState, ambient.Instant] | None = None  # a version that was seen to be this table's
        self._tip: ObjectMeta | None = None  # the known state's commit file, where a look takes no request
        self._live: tuple[int, ambient.Instant, weakref.ref[pa.Table]] | None = None
        self._short: tuple[TableState, pa.Table] | None = None
        self._offered: tuple[int, ambient.Instant, Callable[[], pa.Table | None]] | None = None
        self._ahead: Callable[[], pa.Table] | None = None  # a list of files that is on its way, and holds them
        self._last: tuple[Commit, ...] = ()  # the last ones that advanced a state, if they are small

    @cached_property
    def _files(self) -> FileLoader:
        """Loaded when needed: an append needs no list of files."""
        from txlog.core.versions.files._file_loader import FileLoader

        itself = weakref.ref(self)

        def found(checkpoint: CheckpointFiles) -> None:
            log = itself()
            if log is not None:
                log._adopt(checkpoint)

        return FileLoader(
            self.store, self.limits, self.commits, found
        )  # which does not hold this log: both are freed at once

    @cached_property
    def _times(self) -> CommitTimes:
        from txlog.core.versions.files._times import CommitTimes

        return CommitTimes(self.store, self.commits)

    # --- states ------------------------------------------------------------------------------------------

    def newest_state(self, *, refresh: bool = True) -> TableState:
        """The newest version, without its files; with ``refresh=False``, the newest known one, loaded only if there is
        none.

        A known state is refreshed by requesting the next commit by name. "Absent" means "never taken" only near the
        newest version. So a state that was confirmed longer ago than min(1 h, a quarter of the log retention) is
        reloaded in full. So is a state whose own commit is missing, since its successors may be missing too, or is
        another one, since the table may have been replaced. Where that check costs a request, it is made if there are
        newer commits, or nobody looked for a minute. Raises ``TableNotFoundError``, ``CorruptLogError``,
        ``StorageError``.
        """
        known = self.known_state
        if known is None:
            return self.reload()
        if not refresh:
            return known
        age_s = self.state_age_s()
        if age_s > trusted_s(known.properties, _BUILT_ON_MAX_S):
            return self.reload()
        asked = ambient.instant()
        is_same = None if self._is_fresh(known, age_s) else self._look_whether_same()

        def on_found() -> None:
            nonlocal is_same
            is_same = is_same or self._look_whether_same()  # while the next ones are requested

        try:
            newest = self._loader.catch_up(known, on_found)
        except NotFoundError:  # cleaned up while it was read
            return self.reload()
        if is_same is not None:
            if not is_same():
                return self.reload()
            self._seen_same = known, asked
        if self.versions.capabilities.has_cheap_calls:
            has_same = self._has_same_file(known)
            if has_same is False or (has_same is None and newest is known):
                return self.reload()
        self._remember(newest, asked)
        if newest is not known and self._tip is None and self.versions.capabilities.has_cheap_calls:
            return self.reload()  # its own commit was cleaned up while the next ones were requested
        return newest

    def newest_with_files(self) -> tuple[TableState, pa.Table]:
        """The newest version and its live files. Of a log that is not known yet, each commit is read once for both.

        Raises what `newest_state` and `files` raise.
        """
        if self.known_state is not None:
            state = self.newest_state()
            return state, self.files(state)
        state = self.reload(keeps_commits=True)
        return state, self._listed(state, is_just_loaded=True)

    def reload(self, *, keeps_commits: bool = False) -> TableState:
        """Forget the known state and load the newest version; ``keeps_commits`` for who reads its files next.

        Raises what `newest_state` raises, and ``CorruptLogError`` if the location now holds a different table.
        """
        asked = ambient.instant()
        is_again = self.known_state is not None
        fresh = self._loaded(keeps_commits=keeps_commits)
        if is_again and fresh.mark is None and not self.versions.capabilities.has_cheap_calls:
            fresh = self.marked(fresh)
        with self._lock:
            self._tip = None  # the same commit may be another file now: the folder may be put back from a copy
            self._seen_same = fresh, asked
        return self._remember(fresh, asked)

    def _loaded(self, *, keeps_commits: bool = False) -> TableState:
        known = self.known_state  # before the load: meanwhile other threads may get to know newer versions
        fresh, bodies = self._loader.load(keeps=keeps_commits)
        if bodies is not None:
            self.commits.keep(bodies)
        if known is not None and (fresh.metadata.id != known.metadata.id or fresh.version < known.version):
            raise CorruptLogError(
                f"the table was replaced while it was open: version {known.version} of table id {known.metadata.id}"
                f" was known, now there is version {fresh.version} of {fresh.metadata.id}. Open it again",
                table=self.uri,
                version=fresh.version,
            )
        return fresh

    def marked(self, state: TableState) -> TableState:
        """The state of a checkpoint with what its commit is told by, so that it need not be loaded again to be known
        again."""
        try:
            return replace(state, mark=commit_mark(self.commits.read(state.version, files=False)))
        except NotFoundError:
            return state

    def _look_whether_same(self) -> Callable[[], bool]:
        """Begin to look, where that takes a request, whether the commit that was looked at last is still there, and no
        other one: a table that was replaced has another one, or none. An own commit of since then shows nothing, as it
        may be in the new table. False too if that commit was never read here."""
        capabilities, seen = self.versions.capabilities, self._seen_same
        if capabilities.has_cheap_calls or capabilities.remembers_versions:
            return lambda: True  # `still_has` looks, or the owner knows the table by its id
        if seen is None or seen[0].mark is None:
            return lambda: False
        return begin(partial(self.has_commit_of, seen[0]))

    def has_commit_of(self, state: TableState) -> bool:
        """Ask the store whether the commit of ``state`` is still there, and no other one, by its mark. A commit that
        cannot be read is none: if the table needs it, loading says what is wrong with it."""
        if state.mark is None:
            return False
        try:
            if state.mark[0] > _LARGE_COMMIT_BYTES:
                return self.versions.stat(state.version).size == state.mark[0]
            return commit_mark(self.commits.read(state.version, files=False)) == state.mark
        except (NotFoundError, CorruptLogError):
            return False

    def still_has(self, state: TableState) -> bool:
        """Whether the commit of ``state`` still exists. If a check takes a request: True without one for a minute.

        Raises ``CorruptLogError`` if the file belongs to another table, which was recreated at the same location.
        """
        if not self.versions.capabilities.has_cheap_calls:
            if self.state_is_fresh() or self._look_whether_same()():
                return True
            self._loaded()
            return False
        has_same = self._has_same_file(state)
        if has_same is False:
            self.reload()
        return has_same is not None

    def _has_same_file(self, state: TableState) -> bool | None:
        """Whether the commit of ``state`` is the file that is known, where a look takes no request; None if it is gone.

        False too if there was none, as of a version that only a checkpoint has, and now there is one.
        """
        try:
            found = self.versions.stat(state.version)
        except NotFoundError:
            return None
        known = self._tip
        if known is None:
            return state.mark is not None
        return known.name != found.name or known == found

    def state_age_s(self) -> float:
        """Seconds since the known state was seen to be the newest; infinite if no state is known."""
        return math.inf if self.confirmed_at is None else ambient.age_s(self.confirmed_at)

    def state_is_fresh(self) -> bool:
        """Whether the known state was confirmed within the last minute, or less if the log's retention is short.

        Where a look takes a request, own commits and looks that find nothing newer do not confirm that the table is
        still the same one: that is looked at once a minute, too.
        """
        known = self.known_state
        return known is not None and self._is_fresh(known, self.state_age_s())

    def _is_fresh(self, known: TableState, age_s: float) -> bool:
        if not self.versions.capabilities.has_cheap_calls and self._seen_same is not None:
            age_s = max(age_s, ambient.age_s(self._seen_same[1]))
        return age_s <= trusted_s(known.properties, FRESH_MAX_S)

    def state_at(self, version: int) -> TableState:
        """One version, without its files. Raises ``NotFoundError`` if it does not exist, or can no longer be read."""
        known = self.known_state
        if known is not None and known.version == version:
            return known
        if version < 0:
            raise NotFoundError(f"version {version} does not exist; versions start at 0", table=self.uri)
        found, bodies = self._loader.load_at(version)
        if bodies is not None:
            self.commits.keep(bodies)
        return found

    def exists(self) -> bool:
        """Whether there is a table: a commit or a checkpoint."""
        if self.known_state is not None:
            return True
        try:
            self.versions.stat(0)
        except NotFoundError:
            try:
                return list_log(self.store).latest_version >= 0
            except TableNotFoundError:
                return False
        return True

    def advance(self, state: TableState | None, commit: Commit, asked: ambient.Instant) -> TableState:
        """The state after ``commit``; it is remembered, so no commit is read twice. ``state`` is None for a new table.

        ``asked`` is before the request that found or put the commit: afterwards the process may have been suspended for
        longer than any retention.
        """
        is_kept = not commit.files_skipped and len(commit.actions) <= _ACTIONS_KEPT
        before = self._last if self._last and self._last[-1].version + 1 == commit.version else ()
        self._last = (*before[1 - _COMMITS_KEPT :], commit) if is_kept else ()
        return self._remember(advance(state, commit, self.time_zone), asked)

    def _kept(self, first: int, last: int) -> Sequence[Commit]:
        """These commits, if all of them are kept."""
        found = [commit for commit in self._last if first <= commit.version <= last]
        return found if len(found) == last - first + 1 else ()

    def learn_totals(self, version: int, totals: Totals) -> None:
        """Add totals counted at ``version`` to the known state and its successors."""
        known = self.known_state
        if known is None or known.totals is not None or known.version < version:
            return
        for commit in self.commits.read_range(version + 1, known.version, files=False):
            net = commit.commit_info.net_files if commit.commit_info else None
            if net is None:
                return
            totals = Totals(totals.num_files + net[0], totals.size_bytes + net[1])
        with self._lock:
            if self.known_state is known:
                self.known_state = replace(known, totals=totals)

    def _remember(self, state: TableState, asked: ambient.Instant) -> TableState:
        with self._lock:
            if self.known_state is None or state.version >= self.known_state.version:
                if self.known_state is None or state.version != self.known_state.version or self._tip is None:
                    self._tip = self._look_at(state.version)
                self.known_state = state
                self._seen_same = self._seen_same or (state, asked)
                self.confirmed_at = asked if self.confirmed_at is None else max(self.confirmed_at, asked)
        return state

    def _look_at(self, version: int) -> ObjectMeta | None:
        if not self.versions.capabilities.has_cheap_calls:
            return None
        try:
            return self.versions.stat(version)
        except (NotFoundError, StorageError):
            return None

    # --- commits -----------------------------------------------------------------------------------------

    def read_commit(self, version: int, *, files: bool = True) -> Commit:
        """One commit; without ``files`` its file actions are skipped.

        Raises ``NotFoundError``, ``CorruptLogError`` (empty, torn, incomplete), ``StorageError``.
        """
        return self.commits.read(version, files=files)

    def commits_after(self, version: int) -> list[Commit]:
        """Every commit after ``version``, ascending and dense, up to the newest version.

        Raises ``NotFoundError`` if one of them was cleaned up: load the newest state again and start over.
        """
        found: list[Commit] = []
        if not self.versions.capabilities.lists_completely:
            found = self.commits.following(version, files=True, most=1_000_000)
            if found:
                return found
        last = list_log(self.store, version + 1).latest_version
        if last > version:
            found = list(self.commits.read_range(version + 1, last, files=True))
        return found + self.commits.following(version + len(found), files=True, most=1_000_000)

    def commits_between(self, first: int, last: int, *, files: bool = True) -> Iterator[Commit]:
        """Every commit of ``[first, last]``, ascending; without ``files`` their file actions may be skipped. Raises
        what `read_commit` raises."""
        kept = self._kept(first, last)
        return iter(kept) if kept else self.commits.read_range(first, last, files=files)

    def commits_since(self, before: TableState, asked: ambient.Instant, state: TableState) -> list[Commit] | None:
        """The commits after ``before`` up to ``state``, for who listed the files of ``before`` when they were ``asked``
        for; None if that is too long ago to build on, as for `files`, or if they are cleaned up."""
        if before.version > state.version or ambient.age_s(asked) > trusted_s(state.properties, _BUILT_ON_MAX_S):
            return None
        try:
            return [*self.commits_between(before.version + 1, state.version)]
        except NotFoundError:
            return None

    def is_stray(self, version: int) -> bool:
        """See `CommitReader.is_stray`."""
        return self.commits.is_stray(version, self.known_state)

    # --- files -------------------------------------------------------------------------------------------

    def files(self, state: TableState) -> pa.Table:
        """The live files of ``state``, as ``core.versions.decisions.files.FILES_SCHEMA``.

        While a caller still holds the table of an older version, only the commits since are read. A short list is kept
        until the next one: reading it again may take a commit that removed many files.
        Raises ``CorruptLogError``, ``StorageError``; ``NotFoundError`` if that version was cleaned up.
        """
        if (ahead := self._ahead) is not None:
            with contextlib.suppress(TxlogError):  # it is listed again, and fails again if it must
                ahead()
        return self._listed(state)

    @contextlib.contextmanager
    def files_ahead(self) -> Iterator[None]:
        """Meanwhile, keep the live files of the version known at the beginning, listed in parallel with the caller's
        next request, such as a look for a newer version. Does nothing if that is no use or takes no request."""
        known = self.known_state
        is_cheap = self.versions.capabilities.has_cheap_calls
        if known is None or is_cheap or not self.state_is_fresh() or self._held_files(known)[1] is not None:
            yield
            return
        self._ahead = ahead = begin(partial(self._listed, known))
        try:
            yield
        finally:
            if self._ahead is ahead:
                self._ahead = None

    def _listed(self, state: TableState, *, is_just_loaded: bool = False) -> pa.Table:
        if (short := self._short) is not None and short[0] is state:
            return short[1]
        version, table = self._held_files(state)
        if table is not None and version == state.version:
            return table
        asked = ambient.instant()
        with TxlogError.located(self.uri, state.version):
            if table is None:
                live = self._files.files(state if is_just_loaded else self._on_short_tail(state))
            else:
                live = self._files.files_from(table, version, state, self._kept(version + 1, state.version))
        self._live = (state.version, asked, weakref.ref(live))
        self._short = (state, live) if live.nbytes <= SHORT_BYTES else None
        return live

    def hold_files(self, state: TableState, files: pa.Table) -> None:
        """Keep the live files of a version, if they are few, for who asks for them next: its writer has them."""
        if files.nbytes <= SHORT_BYTES:
            self._live = (state.version, ambient.instant(), weakref.ref(files))
            self._short = (state, files)

    def offer_files(self, state: TableState, asked: ambient.Instant, files: Callable[[], pa.Table | None]) -> None:
        """Take what makes the table of the live files of a version, or still has it, in case somebody asks for it or
        for a later one. ``asked``: when somebody looked for them."""
        self._offered = state.version, asked, files

    def matching_files(self, state: TableState, predicate: Predicate, named: TableState | None = None) -> pa.Table:
        """The live files that may hold a row that matches the predicate, by partition values and statistics.

        It names columns of ``state``, or of the later version ``named``, which may have more. Raises what `files`
        raises.
        """
        from txlog.core.predicates.skipping import FilePruner, Pruner, prune_files

        self.check_zones(state, predicate.columns())
        judged_by = (predicate, (named or state).schema, (named or state).partition_columns)
        pruner, held = FilePruner(Pruner(*judged_by)), self._held_files(state)[1]
        has_many = held is not None and pruner.needs_statistics and held.num_rows >= MANY_FILES
        if held is None or (has_many and state.segment.checkpoint is not None):
            try:
                with TxlogError.located(self.uri, state.version):
                    return self._files.files(self._on_short_tail(state), pruner)
            except (CorruptLogError, NotFoundError):
                if held is None:
                    raise
        live = self.files(state)
        return live.filter(prune_files(live, *judged_by, parallel_map))

    def check_zones(self, state: TableState, columns: Collection[str] | None = None) -> None:
        """Refuse times without a zone as partition values of these columns, or of all, if the handle's zone is another
        than UTC.

        Raises ``UnsupportedFeatureError``, and what `files` raises.
        """
        if state.time_zone == UTC or not state.partition_columns:
            return
        from txlog.core.format.partition_zones import check_partition_zones, timestamp_partitions

        fields = timestamp_partitions(state, columns)
        if fields:
            files = self.files(state)
            with TxlogError.located(self.uri, state.version):
                check_partition_zones(files, fields, state.time_zone)

    def file_batches(self, state: TableState) -> Callable[[bool], Iterator[pa.RecordBatch]]:
        """A reader of the live files of ``state``, some at a time, with or without statistics, always in the same
        order.

        Raises what `files` raises, even if `files` would replace a damaged checkpoint by another one.
        """
        settled = self._on_short_tail(state)

        def read(with_stats: bool) -> Iterator[pa.RecordBatch]:
            with TxlogError.located(self.uri, state.version):
                yield from self._files.batches(settled, with_stats=with_stats)

        return read

    def _held_files(self, state: TableState) -> tuple[int, pa.Table | None]:
        """The version and the newest file list at or before ``state`` that a caller still holds.

        A list that was read too long ago is no base for newer ones: the commits since may have been cleaned up, and
        another writer's delayed put may have taken one of their versions.
        """
        offered, table = self._offered, None
        if offered is not None and offered[0] <= state.version and (self._live is None or self._live[0] < offered[0]):
            self._offered = None
            table = offered[2]()  # held until the caller has it
            if table is not None:
                self._live = (*offered[:2], weakref.ref(table))
        version, asked, reference = self._live or (0, None, None)
        if reference is None or asked is None or version > state.version:
            return version, None
        is_recent = ambient.age_s(asked) <= trusted_s(state.properties, _BUILT_ON_MAX_S)
        return version, reference() if is_recent or version == state.version else None

    def files_and_tombstones(self, state: TableState, *, with_stats: bool = True) -> tuple[pa.Table, pa.Table]:
        """The live files, and every removed file that the log still names, as
        ``core.versions.decisions.files.TOMBSTONES_SCHEMA``, in one pass over the log. Without ``with_stats`` the
        statistics are null, and cost nothing. Raises what `files` raises.
        """
        with TxlogError.located(self.uri, state.version):
            return self._files.files_and_tombstones(self._on_short_tail(state), with_stats=with_stats)

    def named_files(self, state: TableState, paths: Iterable[str]) -> tuple[pa.Table, pa.Table]:
        """The live files and the tombstones under these paths; it reads only the paths of all other files.

        The statistics of files that a checkpoint holds are null. Raises what `files` raises, and ``CorruptLogError``
        for an invalid path.
        """
        with TxlogError.located(self.uri, state.version):
            return self._files.named_files(self._on_short_tail(state), {canonical_path(path) for path in paths})

    def _on_short_tail(self, state: TableState) -> TableState:
        """``state`` based on the newest checkpoint up to it, if it has enough commits for a search to pay off.

        A handle that stays open follows the log commit by commit, while other writers write the checkpoints.
        """
        if state.version - state.segment.first_commit < _LONG_TAIL_COMMITS:
            return state
        known = self.known_state
        newer = known.segment.checkpoint if known is not None else None
        if newer is not None and state.segment.first_commit <= newer.version <= state.version:
            state = replace(state, segment=state.segment.checkpointed(newer))
        if state.version - state.segment.first_commit < _LONG_TAIL_COMMITS:
            return state
        return self.on_newest_checkpoint(state)

    # --- time --------------------------------------------------------------------------------------------

    def timestamp_ms(self, version: int) -> int:
        """When a version was committed: its in-commit timestamp if the table keeps these, or its file's time.

        Raises ``NotFoundError``, ``CorruptLogError``, ``StorageError``.
        """
        return self._times.of_version(version, self.newest_state(refresh=False))

    def timestamps_ms(self, commits: Sequence[Commit], seen: dict[int, int] | None = None) -> dict[int, int]:
        """When each of some consecutive commits was committed, by version; see `timestamp_ms`. ``seen`` is kept by a
        caller that asks again and again."""
        return self._times.of_commits(commits, self.newest_state(refresh=False), seen) if commits else {}

    def version_at(self, timestamp_ms: int) -> int:
        """The newest version committed at or before ``timestamp_ms``. For a time in the future, the newest of all.

        Raises ``NotFoundError`` if that is before the first readable version.
        """
        return self._times.version_at(timestamp_ms, self.newest_state())

    def first_version_from(self, timestamp_ms: int, state: TableState) -> int:
        """The first version up to ``state`` committed at or after the moment; the one after it if there is none.

        Raises ``NotFoundError`` if the log has no times.
        """
        return self._times.first_from(timestamp_ms, state)

    def newest_version_until(
        self, timestamp_ms: int, state: TableState, listing: LogListing | None = None
    ) -> int | None:
        """The newest version up to ``state`` committed at or before the moment; None if all are newer.

        ``listing`` is of the whole log, if the caller has one of ``state`` or later.
        """
        return self._times.newest_until(timestamp_ms, state, listing)

    def history(self, limit: int | None = None, state: TableState | None = None) -> list[CommitSummary]:
        """The commits up to ``state`` (the newest version) that are still in the log, newest first, at most ``limit``.

        Raises what `newest_state` raises.
        """
        return self._times.history(state or self.newest_state(), limit)

    def commits_oldest_first(self, state: TableState, limit: int | None = None) -> tuple[int, Iterator[CommitSummary]]:
        """How many commits `history` has, and the same commits one after another, oldest first: few are in memory."""
        return self._times.oldest_first(state, limit)

    # --- maintenance -------------------------------------------------------------------------------------

    def require_maintained_here(self, what: str) -> None:
        """Raise UnsupportedFeatureError for ``what`` the owner of the versions keeps to itself."""
        if self.versions.capabilities.maintains:
            raise UnsupportedFeatureError(
                f"{what} is left to the catalog that manages the table: by default it forbids clients to clean up the"
                " log, and to delete and rewrite data files. If yours allows it, open the table with the storage option"
                " catalog_allows_maintenance=true",
                table=self.uri,
                features=(CATALOG_MANAGED,),
            )

    # --- checkpoints -------------------------------------------------------------------------------------

    def checkpoint_is_due(self, state: TableState, *, is_first: bool = False) -> bool:
        """Whether the commits since the last checkpoint cost readers enough to write a new one.

        ``is_first`` states that ``state`` follows the first commit of its writer.
        """
        return checkpoint_is_due(
            state,
            checkpoint_size_bytes=self._checkpoint_size_bytes(state),
            reading=self._reading_cost,
            is_first=is_first,
        )

    def checkpoint_is_overdue(self, state: TableState) -> bool:
        """Whether so many commits have gathered that each writer must have ended before it could write the
        checkpoint."""
        size_bytes = self._checkpoint_size_bytes(state)
        return checkpoint_is_overdue(state, checkpoint_size_bytes=size_bytes, reading=self._reading_cost)

    @property
    def _reading_cost(self) -> ReadingCost:
        return BY_FILE if self.versions.capabilities.has_cheap_calls else BY_REQUEST

    def _checkpoint_size_bytes(self, state: TableState) -> int:
        checkpoint = state.segment.checkpoint
        if checkpoint is None or checkpoint.size_bytes is not None:
            return checkpoint.size_bytes or 0 if checkpoint else 0
        return self._files.checkpoint_bytes(checkpoint)

    def write_checkpoint(self, state: TableState) -> int:
        """Publish a checkpoint of ``state``, classic or V2, and point ``_last_checkpoint`` at it; returns its version.

        An existing one stays as it is. Raises ``CorruptLogError``, ``StorageError``, ``NotFoundError``; the caller,
        which has acknowledged the commit, only warns.
        """
        from txlog.core.versions.files._checkpoint_writer import CheckpointWriter

        self.make_durable(state)
        written, totals = CheckpointWriter(self.store, self.limits).write(state)
        if written is not None:
            self._adopt(written)
        if totals is not None:
            self.learn_totals(state.version, totals)
        return state.version

    def begin(self, commit: Commit, files: pa.Table) -> TableState:
        """Publish the checkpoint of the first version of a log, which has its ``files``, while ``commit`` has none.

        Returns the version, which is remembered. Raises ``CorruptLogError``, ``StorageError``.
        """
        from txlog.core.versions.files._checkpoint_writer import CheckpointWriter

        asked = ambient.instant()
        state = self.defined_by(commit)
        written, totals = CheckpointWriter(self.store, self.limits).write(state, files)
        if written is None:  # others have finished what was begun
            return self.reload()
        return self._remember(replace(state, segment=LogSegment(commit.version, written), totals=totals), asked)

    def defined_by(self, commit: Commit) -> TableState:
        """A version whose commit has all of its definition, without files. Raises ``CorruptLogError``."""
        builder = StateBuilder()
        builder.apply_commit(commit)
        return builder.build(LogSegment(commit.version, None), self.time_zone, table=self.uri)

    def make_durable(self, state: TableState) -> None:
        """Publish and sync the commit of ``state`` and those below it, before a file of the log refers to it.

        Otherwise, after a power cut, that file could refer to a lost version, or to one after a gap.
        Raises ``StorageError``, ``CorruptLogError``.
        """
        self.versions.publish(state.version)
        unsynced = unsynced_versions(self.commits, state.version, state.newest_foreign, -1, keeps_order=False)
        for version in reversed(unsynced):
            with contextlib.suppress(NotFoundError):  # a copied table may have only a checkpoint of this version
                self.versions.make_durable(version)

    def on_newest_checkpoint(self, state: TableState) -> TableState:
        """``state`` based on the newest checkpoint up to it, which another writer may have written since.

        The hint ``_last_checkpoint`` names it. If the hint cannot be true or is far behind, a listing finds it. The
        known state and its successors then start from this checkpoint too. Raises ``StorageError``.
        """
        known = state.segment.checkpoint
        hint = read_hint(self.store.log, self.uri)
        is_far = state.version - state.segment.first_commit >= _FAR_COMMITS
        if hint is not None and known is not None and hint.version == known.version and not is_far:
            return state
        newest = hint.files if hint is not None and hint.version <= state.version else None
        if newest is None or newest.version < state.segment.first_commit or not self._has(newest):
            newest = self._files.newest_checkpoint(state)
        if newest is None or newest.version < state.segment.first_commit:
            return state
        self._adopt(newest)
        return replace(state, segment=state.segment.checkpointed(newest))

    def _has(self, checkpoint: CheckpointFiles) -> bool:
        try:
            for name in checkpoint.names:
                self.store.log.stat(name)
        except NotFoundError:
            return False  # a stale hint must not keep every writer from writing the next checkpoint
        return True

    def _adopt(self, checkpoint: CheckpointFiles) -> None:
        """Let the known state and its successors start from the new checkpoint."""
        with self._lock:
            known = self.known_state
            if known is not None and known.version >= checkpoint.version > known.segment.first_commit - 1:
                self.known_state = replace(known, segment=known.segment.checkpointed(checkpoint))
