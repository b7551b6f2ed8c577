"""The table's files that a vacuum must not delete, however old they are, according to the table itself.

In: a table's log at its newest version, its staging, and the moment before which removed files have expired. Out: a
`PathSet`, updated while files are deleted. It holds:

- the live files of the newest version, with their deletion vectors;
- files that were removed after that moment, with their deletion vectors: versions within the retention need them;
- change data of commits after that moment;
- the files of named versions;
- what a package's folder in the table needs, such as the branches in ``_branches`` (`FolderKeeper`);
- files that sinks have staged, or that writers offer each other. Commits may not name them yet, so another engine's
  vacuum does not see them.

PROTOCOL.md, "Add File and Remove File", "Change Data Files".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from txlog.core.format.actions import Action, AddCDCFile, AddFile, RemoveFile
from txlog.core.format.arrow.arrays import array_of
from txlog.core.format.commit_file import Commit
from txlog.core.format.path_set import PathSet
from txlog.core.maintenance._named_versions import NamedVersion, files_of_named, named_versions
from txlog.core.maintenance._offered_appends import offered_paths
from txlog.core.maintenance._package_folders import FolderKeeper, keepers_of
from txlog.core.maintenance._staged_parts import staged_actions
from txlog.core.parallel import begin
from txlog.core.sink import Staging
from txlog.core.util import cached_property
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.segment import LogListing
from txlog.core.versions.decisions.state import TableState
from txlog.core.versions.files import list_log
from txlog.errors import NotFoundError

_CHECKPOINTS_READ_MAX = 100


class NeededFiles:
    """The files to keep. It begins with what the log lacks, then `state`, the newest version; `read` completes it."""

    def __init__(self, open_table: OpenTable) -> None:
        self._open_table = open_table
        self._log = log = open_table.log
        self._staging = Staging(log.store, open_table.retry)
        self._now_ms = self._cutoff_ms = 0
        self.paths = PathSet(log.uri)
        self._since = PathSet(log.uri)
        self._named: set[NamedVersion] = set()
        self.keepers: list[FolderKeeper] = []
        self._kept: set[str] = set()
        self._take_what_the_log_lacks(log.newest_state(refresh=False), self.paths)
        self.state = log.newest_state()

    def keep_removed(self, *, now_ms: int, retention_ms: int) -> None:
        """Files removed more than ``retention_ms`` before ``now_ms`` are no longer needed."""
        self._now_ms = now_ms
        self._cutoff_ms = now_ms - retention_ms

    def read(self) -> None:
        """Add the files of the log, except those that only `settle` finds."""
        self._take_of_packages(self.paths)
        self._take_files(self.state, self.paths)

    def refresh(self) -> PathSet:
        """The files that became needed since the last call: committed or staged. Raises what loading a version
        raises."""
        self._take_what_the_log_lacks(self.state, self._since)
        self._take_of_packages(self._since)
        newest = self._log.newest_state()
        try:
            for commit in self._log.commits_between(self.state.version + 1, newest.version):
                _take(commit, self._since)
        except NotFoundError:  # cleaned up meanwhile
            self._take_files(newest, self._since)
        self.state = newest
        return self._since

    def _take_what_the_log_lacks(self, state: TableState, paths: PathSet) -> None:
        """Before the log is read: work is committed before its staging, or its offer, is removed."""
        store = self._log.store
        staged, versions = begin(self._staging.named_paths), begin(lambda: named_versions(store))
        keepers = begin(lambda: keepers_of(self._open_table))
        parts = begin(lambda: [*staged_actions(store)])
        paths.add(offered_paths(store, state))
        paths.add(staged())
        _take_all(parts(), paths)
        self._take_named(versions(), paths)
        self.keepers = keepers()

    def _take_named(self, versions: Iterable[NamedVersion], paths: PathSet) -> None:
        """Add the files of versions named since the last call."""
        for named in set(versions) - self._named:
            live = files_of_named(self._log.store, named)
            paths.add_logged(live["path"])
            paths.add_vectors(live["deletionVector"])
            self._named.add(named)

    def _take_of_packages(self, paths: PathSet) -> None:
        for keeper in self.keepers:
            for key, listed in keeper.needed(self._open_table, self._cutoff_ms):
                for files in () if key in self._kept else listed():
                    paths.add_logged(files["path"])
                    paths.add_vectors(files["deletionVector"])
                self._kept.add(key)

    def _take_files(self, state: TableState, paths: PathSet) -> None:
        live, tombstones = self._log.files_and_tombstones(state, with_stats=False)
        cutoff_ms = array_of([self._cutoff_ms], pa.int64())[0]
        # `filter` drops a row whose flag is null: a remove without a time has expired, as in every engine.
        for files in (live, tombstones.filter(pc.greater_equal(tombstones["deletionTimestamp"], cutoff_ms))):
            paths.add_logged(files["path"])
            paths.add_vectors(files["deletionVector"])

    # --- the commits of the retention -----------------------------------------------------------------------------

    def settle(self, *, has_change_data: bool) -> bool:
        """Before any file goes, add what only the commits of the retention name: removes that checkpoints lack, and
        change data, if files that would go have some. Returns whether it read them."""
        is_due = has_change_data or self._checkpoint_may_lack_removes(self.state)
        if is_due:
            self._read_window()
        return is_due

    def _read_window(self) -> None:
        current = self.version_at_cutoff
        first = self._first_commit() if current is None else current + 1
        for commit in self._log.commits_between(first, self.state.version):
            _take(commit, self.paths)

    @cached_property
    def version_at_cutoff(self) -> int | None:
        """The newest version committed at or before the cutoff; None if the log starts after it."""
        return self._log.newest_version_until(self._cutoff_ms, self.state, self._listing)

    @cached_property
    def _listing(self) -> LogListing:
        return list_log(self._log.store)

    def _checkpoint_may_lack_removes(self, state: TableState) -> bool:
        """Whether a checkpoint may have dropped a remove that is younger than the cutoff. It may if the table's own
        retention is shorter, or was shorter at some time since the cutoff."""
        asked_ms = self._now_ms - self._cutoff_ms
        if asked_ms <= 0:
            return False
        if asked_ms > state.properties.deleted_file_retention_ms:
            return True
        current = self.version_at_cutoff
        try:
            before = self._log.state_at(self._first_commit() if current is None else current)
        except NotFoundError:
            return True
        if before.properties.deleted_file_retention_ms < asked_ms:
            return True
        return any(retention_ms < asked_ms for retention_ms in self._retentions_since(before.version))

    def _retentions_since(self, version: int) -> Iterator[int]:
        """The table's retention at each checkpoint after ``version``; it may have been shorter for a while.

        If there are very many checkpoints, this reads only some, evenly spread: each read costs time.
        """
        versions = sorted({each.version for each in self._listing.checkpoints if each.version > version})
        for at in versions[:: len(versions) // _CHECKPOINTS_READ_MAX + 1]:
            try:
                yield self._log.state_at(at).properties.deleted_file_retention_ms
            except NotFoundError:  # cleaned up meanwhile
                continue

    def _first_commit(self) -> int:
        return min(self._listing.commits, default=self.state.version)


def _take(commit: Commit, paths: PathSet) -> None:
    _take_all(commit.actions, paths)


def _take_all(actions: Iterable[Action], paths: PathSet) -> None:
    for action in actions:
        if isinstance(action, AddFile | RemoveFile | AddCDCFile):
            paths.add_uri(action.path)
        if isinstance(action, AddFile | RemoveFile):
            paths.add_vector(action.deletion_vector)
