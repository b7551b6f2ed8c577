"""One table's log as the rest of txlog sees it: heads, commits, files, time travel, checkpoints.

In: a ``TableStore``. Out: immutable values. It remembers the newest head, so that the next append asks for one
name only, and the live files as long as somebody holds them. Thread-safe. How a version is put together is in
``head_loader``, its files in ``file_loader``; what a checkpoint holds is in ``log/checkpoint``.
PROTOCOL.md, "Action Reconciliation".
"""

from __future__ import annotations

import contextlib
import math
import threading
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from txlog import ambient
from txlog.commit_reader import CommitReader
from txlog.commit_times import CommitSummary, CommitTimes
from txlog.errors import CorruptLogError, NotFoundError, StorageError, TableNotFoundError
from txlog.file_loader import FileLoader
from txlog.head_loader import HeadLoader
from txlog.log import state
from txlog.log.checkpoint_due import BY_FILE, BY_REQUEST, checkpoint_is_due
from txlog.log.segment import CheckpointFiles, LogListing, read_listing
from txlog.log.state import TableHead, Totals
from txlog.protocol.commit_file import DEFAULT_LIMITS, Commit, Limits
from txlog.protocol.log_names import commit_name, version_prefix
from txlog.store.base import ObjectMeta, TableStore

if TYPE_CHECKING:
    from txlog.log.predicates import Predicate

__all__ = ["CommitSummary", "DeltaLog"]

_HEAD_AGE_MAX_MS = 60 * 60 * 1000


class DeltaLog:
    """The log of one table. ``limits`` bound what one file of it may cost."""

    def __init__(self, store: TableStore, limits: Limits = DEFAULT_LIMITS) -> None:
        self.store = store
        self.table = store.uri
        self._commits = CommitReader(store, limits)
        self._loader = HeadLoader(store, limits)
        self._files = FileLoader(store, limits)
        self._limits = limits
        self._times = CommitTimes(store, self._commits)
        self._lock = threading.Lock()
        self._head: TableHead | None = None
        self._established_s = -math.inf
        self._tip: ObjectMeta | None = None  # the known head's commit file
        self._live: tuple[int, weakref.ref[pa.Table]] | None = None

    # --- heads -------------------------------------------------------------------------------------------

    def head(self, *, refresh: bool = True) -> TableHead:
        """The newest version, files apart; with ``refresh=False`` the newest one known, loaded only if none is.

        A known head is refreshed by asking for the next commit by name. "Absent" means "never taken" only near
        the head, so a head that is older than min(1 h, a quarter of the log retention) is loaded again in full; and
        one whose own commit is gone, where a look is free: its successors may have been cleaned up with it.
        Raises ``TableNotFoundError``, ``CorruptLogError``, ``StorageError``.
        """
        known = self._head
        if known is None:
            return self.reload()
        if not refresh:
            return known
        if self.head_age_s() * 1000 > min(_HEAD_AGE_MAX_MS, known.properties.log_retention_ms // 4):
            return self.reload()
        asked_s = ambient.monotonic_s()
        newest = self._loader.catch_up(known)
        if not self.still_has(known) and newest is known:
            return self.reload()
        return self._remember(newest, asked_s)

    def reload(self) -> TableHead:
        """Forget what is known and load the newest version. Raises as `head`; ``CorruptLogError`` for a new table."""
        known = self._head
        asked_s = ambient.monotonic_s()
        fresh = self._loader.load()
        if known is not None and (fresh.metadata.id != known.metadata.id or fresh.version < known.version):
            raise CorruptLogError(
                f"the table was replaced while it was open: version {known.version} of table id {known.metadata.id}"
                f" was known, now there is version {fresh.version} of {fresh.metadata.id}. Open it again",
                table=self.table,
                version=fresh.version,
            )
        return self._remember(fresh, asked_s)

    def still_has(self, head: TableHead) -> bool:
        """Whether ``head``'s own commit is there; True where a look is not free.

        Raises ``CorruptLogError`` where it is another file than it was, of another table: one that was dropped and
        made again has commits of the same names.
        """
        if not self.store.log.checks_predecessor:
            return True
        try:
            found = self.store.log.head(commit_name(head.version))
        except NotFoundError:
            return False
        known = self._tip
        if known is not None and known.name == found.name and known != found:
            self._tip = None
            self.reload()
        return True

    def head_age_s(self) -> float:
        """Seconds since the known head was seen to be the newest; infinite where none is known."""
        return ambient.monotonic_s() - self._established_s

    def head_at(self, version: int) -> TableHead:
        """One version, files apart. Raises ``NotFoundError`` where it is not there yet, or can no longer be read."""
        known = self._head
        if known is not None and known.version == version:
            return known
        if version < 0:
            raise NotFoundError(f"version {version} does not exist; versions start at 0", table=self.table)
        return self._loader.load_at(version)

    def exists(self) -> bool:
        """Whether there is a table: a commit or a checkpoint."""
        if self._head is not None:
            return True
        try:
            self.store.log.head(commit_name(0))
        except NotFoundError:
            try:
                return self._list(0).latest_version >= 0
            except TableNotFoundError:
                return False
        return True

    def advance(self, head: TableHead | None, commit: Commit) -> TableHead:
        """The head after ``commit``, remembered: nobody reads it again. None for the commit that creates the table."""
        return self._remember(state.advance(head, commit), ambient.monotonic_s())

    def learn_totals(self, version: int, totals: Totals) -> None:
        """Let the known head, and those that follow it, tell totals that were counted at ``version``."""
        known = self._head
        if known is None or known.totals is not None or known.version < version:
            return
        for commit in self._commits.read_range(version + 1, known.version, files=False):
            net = commit.commit_info.net_files if commit.commit_info else None
            if net is None:
                return
            totals = Totals(totals.num_files + net[0], totals.size_bytes + net[1])
        with self._lock:
            if self._head is known:
                self._head = replace(known, totals=totals)

    def _remember(self, head: TableHead, asked_s: float) -> TableHead:
        with self._lock:
            if self._head is None or head.version >= self._head.version:
                if self._head is None or head.version != self._head.version or self._tip is None:
                    self._tip = self._look_at(head.version)
                self._head = head
                self._established_s = max(self._established_s, asked_s)
        return head

    def _look_at(self, version: int) -> ObjectMeta | None:
        if not self.store.log.checks_predecessor:
            return None
        try:
            return self.store.log.head(commit_name(version))
        except (NotFoundError, StorageError):
            return None

    # --- commits -----------------------------------------------------------------------------------------

    def read_commit(self, version: int, *, files: bool = True) -> Commit:
        """One commit; without ``files`` its file actions are skipped.

        Raises ``NotFoundError``, ``CorruptLogError`` (empty, torn, incomplete), ``StorageError``.
        """
        return self._commits.read(version, files=files)

    def commits_after(self, version: int) -> list[Commit]:
        """Every commit after ``version``, ascending and dense, up to the head.

        Raises ``NotFoundError`` where one of them was cleaned up: load the head again and start over.
        """
        found: list[Commit] = []
        if not self.store.log.lists_itself_completely:
            found = self._commits.following(version, files=True, most=1_000_000)
            if found:
                return found
        last = self._list(version + 1).latest_version
        if last > version:
            found = list(self._commits.read_range(version + 1, last, files=True))
        return found + self._commits.following(version + len(found), files=True, most=1_000_000)

    # --- files -------------------------------------------------------------------------------------------

    def files(self, head: TableHead) -> pa.Table:
        """The live files of ``head``, as ``log.files.FILES_SCHEMA``.

        While a table of an older version is still held by somebody, only the commits since are read.
        Raises ``CorruptLogError``, ``StorageError``; ``NotFoundError`` where that version was cleaned up.
        """
        version, table = self._held_files(head)
        if table is None:
            live = self._files.files(head)
        elif version == head.version:
            return table
        else:
            live = self._files.files_from(table, version, head)
        self._live = (head.version, weakref.ref(live))
        return live

    def matching_files(self, head: TableHead, predicate: Predicate) -> pa.Table:
        """Those live files that may hold a row the predicate keeps, by partition values and statistics.

        Of a checkpoint only the row groups and columns are read that this needs. Raises as `files`.
        """
        from txlog.log.file_pruning import FilePruner, prune_files

        judged_by = (predicate, head.schema, head.partition_columns)
        if self._held_files(head)[1] is None:
            return self._files.files(head, FilePruner(*judged_by))
        live = self.files(head)
        return live.filter(prune_files(live, *judged_by))

    def _held_files(self, head: TableHead) -> tuple[int, pa.Table | None]:
        """The newest list at or before ``head`` that somebody still holds, and its version."""
        version, reference = self._live or (0, None)
        return version, reference() if reference is not None and version <= head.version else None

    def files_and_tombstones(self, head: TableHead) -> tuple[pa.Table, pa.Table]:
        """The live files, and every removed one the log still tells of, as ``log.files.TOMBSTONES_SCHEMA``, by one
        reading of the log. Raises as `files`.
        """
        return self._files.files_and_tombstones(head)

    # --- time --------------------------------------------------------------------------------------------

    def timestamp_ms(self, version: int) -> int:
        """When a version was committed: its in-commit timestamp, else the time of its file.

        Raises ``NotFoundError``, ``CorruptLogError``, ``StorageError``.
        """
        return self._times.of_version(version)

    def version_at(self, timestamp_ms: int) -> int:
        """The newest version committed at or before ``timestamp_ms``.

        Raises ``NotFoundError`` where that lies before the first readable version or after the last one.
        """
        return self._times.version_at(timestamp_ms, self.head())

    def newest_version_until(self, timestamp_ms: int, head: TableHead) -> int | None:
        """The newest version up to ``head`` committed at or before the moment; None where all are younger."""
        return self._times.newest_until(timestamp_ms, head)

    def history(self, limit: int | None = None) -> list[CommitSummary]:
        """The commits that are still in the log, newest first, at most ``limit``. Raises as `head`."""
        return self._times.history(self.head(), limit)

    # --- checkpoints -------------------------------------------------------------------------------------

    def checkpoint_is_due(self, head: TableHead) -> bool:
        """Whether the commits since the last checkpoint cost readers enough to write a new one."""
        checkpoint = head.segment.checkpoint
        return checkpoint_is_due(
            head,
            checkpoint_size_bytes=self._files.checkpoint_bytes(checkpoint) if checkpoint else 0,
            reading=BY_FILE if self.store.log.checks_predecessor else BY_REQUEST,
        )

    def write_checkpoint(self, head: TableHead) -> int:
        """Publish a checkpoint of ``head``, classic or V2, and point ``_last_checkpoint`` at it; returns its version.

        One that exists already is left as it is. Raises ``CorruptLogError``, ``StorageError``, ``NotFoundError``;
        the caller, who has acknowledged the commit, warns.
        """
        from txlog.checkpoint_writer import CheckpointWriter

        self.make_durable(head)
        written, totals = CheckpointWriter(self.store, self._limits).write(head)
        if written is not None:
            self._adopt(written)
        if totals is not None:
            self.learn_totals(head.version, totals)
        return head.version

    def make_durable(self, head: TableHead) -> None:
        """Have the commit of ``head`` on disk before a file that tells of it is: after a power cut that file would tell
        of a version that never was. Raises ``StorageError``.
        """
        with contextlib.suppress(NotFoundError):  # a copied table may hold it as a checkpoint only
            self.store.log.make_durable(commit_name(head.version))

    def on_newest_checkpoint(self, head: TableHead) -> TableHead:
        """``head`` on the checkpoint that ``_last_checkpoint`` names, where another writer wrote a newer one.

        The known head, and those that follow it, start from it too. Raises ``StorageError``.
        """
        hint = self._loader.read_hint()
        if hint is None or hint.files is None or not head.segment.first_commit <= hint.version <= head.version:
            return head
        try:
            for name in hint.files.names:
                self.store.log.head(name)
        except NotFoundError:
            return head  # a hint may be stale, and would then keep everybody from writing the next one
        self._adopt(hint.files)
        return replace(head, segment=head.segment.checkpointed(hint.files))

    def _adopt(self, checkpoint: CheckpointFiles) -> None:
        """Let the known head, and those that follow it, start from the new checkpoint."""
        with self._lock:
            known = self._head
            if known is not None and known.version >= checkpoint.version > known.segment.first_commit - 1:
                self._head = replace(known, segment=known.segment.checkpointed(checkpoint))

    def _list(self, version: int) -> LogListing:
        return read_listing(self.store.log.list_from(version_prefix(version)))
