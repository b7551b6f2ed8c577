"""Loads the files of one version from the store: the checkpoint's, changed by the commits after it.

In: a ``TableState``. Out: its live files and tombstones as Arrow tables; with a predicate, only the files that may
match, reading only what is needed to decide that. If the checkpoint or a later commit is damaged or was cleaned up, the
newest other checkpoint in the log replaces it. PROTOCOL.md, "Action Reconciliation".
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import pyarrow as pa

from txlog.core.format.commit_file import Commit, LogLimits
from txlog.core.parallel import begin
from txlog.core.store import TableStore
from txlog.core.util import logger
from txlog.core.versions.decisions.files import (
    NamedFiles,
    Newest,
    coalesced,
    fold_commits,
    reconcile,
    reconcile_tombstones,
    with_added,
)
from txlog.core.versions.decisions.segment import CheckpointFiles, LogListing, LogSegment, choose_segment
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files._checkpoint_reader import CheckpointReader, Opened
from txlog.core.versions.files._commits import CommitReader
from txlog.core.versions.files._listing import list_log
from txlog.core.versions.files._small_pages import small_pages
from txlog.core.versions.files._state_loader import as_corrupt
from txlog.errors import CorruptLogError, NotFoundError

if TYPE_CHECKING:
    from txlog.core.predicates.skipping import FilePruner

STREAMED_ROWS = 10_000
"""Batch size for a caller that reads all files once: more would cost memory and save no time."""

MaybeOpened: TypeAlias = "Opened | None"
T = TypeVar("T")


class FileLoader:
    """Loads the files of versions of one table. Thread-safe.

    ``found`` is called with a checkpoint that replaced another one, so later reads use it. ``commits`` reads commits.
    """

    def __init__(
        self,
        store: TableStore,
        limits: LogLimits,
        commits: CommitReader | None = None,
        found: Callable[[CheckpointFiles], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._table = store.uri
        self._commits = commits or CommitReader(store, limits)
        self._checkpoints = CheckpointReader(store, limits)
        self._found = found
        self._looked_up: tuple[tuple[str, ...], int] = ((), 0)

    def files(self, state: TableState, pruner: FilePruner | None = None) -> pa.Table:
        """The live files of ``state``; with ``pruner``, only those that may match.

        Raises ``CorruptLogError``, ``StorageError``, ``NotFoundError`` (cleaned up).
        """

        def read(checkpoint: CheckpointFiles | None, newest: Newest, opened: MaybeOpened) -> pa.Table:
            adds = self._checkpoints.adds(checkpoint, pruner, newest=newest, opened=opened) if checkpoint else ()
            return with_added(adds, newest, pruner.mask if pruner else None)

        return self._read(state, read)

    def batches(self, state: TableState, *, with_stats: bool = True) -> Iterator[pa.RecordBatch]:
        """The live files of ``state``, some at a time and always in the same order, so few are in memory.

        Raises what `files` raises, even if another checkpoint could replace a damaged one: `files` finds that one.
        """
        newest = self._fold_tail(state.segment)
        checkpoint = state.segment.checkpoint
        with small_pages():
            if checkpoint is not None:
                yield from self._checkpoints.adds(
                    checkpoint, newest=newest, statistics=with_stats, batch_rows=STREAMED_ROWS
                )
            yield from with_added((), newest).to_batches()

    def files_and_tombstones(
        self, state: TableState, statistics: pa.StructType | None = None, *, with_stats: bool = True
    ) -> tuple[pa.Table, pa.Table]:
        """The live files of ``state`` and all tombstones still in the log. Raises what `files` raises.

        With ``statistics``, the files also have typed statistics of this type, in the last column. Without
        ``with_stats``, a checkpoint's statistics are not read, and are null.
        """

        def read(checkpoint: CheckpointFiles | None, newest: Newest, opened: MaybeOpened) -> tuple[pa.Table, pa.Table]:
            if checkpoint is None:
                return with_added((), newest, None, statistics), reconcile_tombstones((), newest)
            removes = self._checkpoints.removes(checkpoint, newest, opened=opened)
            adds = self._checkpoints.adds(
                checkpoint, newest=newest, statistics=with_stats, typed=statistics, opened=opened
            )
            live = with_added(adds, newest, None, statistics)
            return live, reconcile_tombstones(removes, newest)

        return self._read(state, read)

    def named_files(self, state: TableState, paths: Collection[str]) -> tuple[pa.Table, pa.Table]:
        """The live files and the tombstones under these paths, which are canonical. Raises what `files` raises.

        It reads only the paths of the checkpoint's other files, some at a time, and none of its statistics.
        """
        named = NamedFiles(paths)

        def read(checkpoint: CheckpointFiles | None, newest: Newest, opened: MaybeOpened) -> tuple[pa.Table, pa.Table]:
            newest = named.among(newest)
            if checkpoint is None:
                return with_added((), newest), reconcile_tombstones((), newest)
            removes = self._checkpoints.removes(checkpoint, newest, named, opened=opened)
            adds = self._checkpoints.adds(checkpoint, named, newest=newest, statistics=False, opened=opened)
            live = with_added(adds, newest)
            return live, reconcile_tombstones(removes, newest)

        return self._read(state, read)

    def files_from(self, known: pa.Table, version: int, state: TableState, since: Sequence[Commit] = ()) -> pa.Table:
        """The live files of ``state``, given an older ``version``'s: reads only the commits since.

        If these are given, none is read. If one was cleaned up, everything is reloaded. Raises what `files` raises.
        """
        try:
            read = since or self._commits.read_range(version + 1, state.version, files=True)
            newest = fold_commits(read)
        except NotFoundError:
            return self.files(state)
        return coalesced(reconcile(known.to_batches(), newest))

    def newest_checkpoint(self, state: TableState) -> CheckpointFiles | None:
        """The newest checkpoint up to ``state`` in the log, written by any engine. Raises ``StorageError``."""
        known = state.segment.checkpoint
        listing = list_log(self._store, known.version if known else 0)
        return next((found for found in listing.checkpoints if found.version <= state.version), known)

    def checkpoint_bytes(self, checkpoint: CheckpointFiles) -> int:
        """The total size of a checkpoint's files. If neither listing nor hint has it, it is looked up once.

        Raises ``CorruptLogError``, ``StorageError``, ``NotFoundError``.
        """
        if checkpoint.size_bytes is not None:
            return checkpoint.size_bytes
        if self._looked_up[0] != checkpoint.names:
            self._looked_up = checkpoint.names, self._checkpoints.size_bytes(checkpoint)
        return self._looked_up[1]

    def newest_after(self, state: TableState, checkpoint: CheckpointFiles) -> Newest:
        """The newest file actions of the commits from ``checkpoint`` to ``state``. Raises what `files` raises."""
        return self._fold_tail(LogSegment(state.version, checkpoint))

    def _read(self, state: TableState, read: Callable[[CheckpointFiles | None, Newest, MaybeOpened], T]) -> T:
        """Call ``read`` with the checkpoint and the file actions after it. If that fails, try another checkpoint."""
        segment = state.segment
        replacement: _Replacement | None = None
        while True:
            try:
                opened = self._begin_to_open(segment.checkpoint)
                newest = self._fold_tail(segment)
                try:
                    with small_pages() if segment.checkpoint else contextlib.nullcontext():
                        found = read(segment.checkpoint, newest, opened())
                except (CorruptLogError, NotFoundError) as error:
                    replacement = replacement or _Replacement(state)
                    replacement.exclude(segment.checkpoint, error)
                    raise
            except (CorruptLogError, NotFoundError) as error:
                replacement, listing = replacement or _Replacement(state), list_log(self._store)
                failed, segment = segment, replacement.choose(listing, segment, error)
                if isinstance(error, CorruptLogError) or segment.first_commit <= failed.first_commit:
                    logger.warning("%s: falling back to an older checkpoint or the commits: %s", self._table, error)
                continue  # a cleaned-up log starts at a newer checkpoint: no warning needed
            if segment is not state.segment and segment.checkpoint is not None:
                self._found(segment.checkpoint)
            return found

    def _begin_to_open(self, checkpoint: CheckpointFiles | None) -> Callable[[], MaybeOpened]:
        """Open the checkpoint while the commits after it are read, if both are requests."""
        if checkpoint is None or self._store.versions.capabilities.has_cheap_calls:
            return lambda: None
        return begin(partial(self._checkpoints.opened, checkpoint))

    def _fold_tail(self, segment: LogSegment) -> Newest:
        return fold_commits(self._commits.read_plan(segment, files=True))


class _Replacement:
    """Chooses another segment of ``state`` after one failed. Each segment is tried at most once."""

    def __init__(self, state: TableState) -> None:
        self._state = state
        self._excluded: frozenset[tuple[str, ...]] = frozenset()
        self._first: tuple[CheckpointFiles, CorruptLogError | NotFoundError] | None = None

    def exclude(self, checkpoint: CheckpointFiles | None, error: CorruptLogError | NotFoundError) -> None:
        """Never again choose ``checkpoint``, which cannot be read."""
        if checkpoint is not None:
            self._excluded |= {checkpoint.names}
            self._first = self._first or (checkpoint, error)

    def choose(self, listing: LogListing, failed: LogSegment, error: CorruptLogError | NotFoundError) -> LogSegment:
        """The best untried segment in ``listing``. Raises the reason if there is none."""
        segment = choose_segment(listing, target=self._state.version, excluded=self._excluded)
        if segment is None or (segment.checkpoint is None and 0 not in listing.commits):
            raise self._failure(listing, error) from error
        checkpoint_failed = failed.checkpoint is not None and failed.checkpoint.names in self._excluded
        if not checkpoint_failed and segment.first_commit <= failed.first_commit:
            raise self._failure(listing, error) from error  # the same commits would fail again
        return segment

    def _failure(self, listing: LogListing, error: CorruptLogError | NotFoundError) -> CorruptLogError | NotFoundError:
        checkpoint, cause = self._first or (None, error)
        was_cleaned_up = any(later.version > self._state.version for later in listing.checkpoints)
        if isinstance(cause, CorruptLogError) or not (checkpoint is None or was_cleaned_up):
            return as_corrupt(cause, checkpoint) if checkpoint else cause
        version = self._state.version
        return NotFoundError(
            f"the files of version {version} are no longer in the log: {cause.message}. Load a newer version",
            table=cause.table,
            version=version,
            path=cause.path,
        )
