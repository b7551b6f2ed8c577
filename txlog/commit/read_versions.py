"""What a handle has read of the log, version after version: what it must know before it commits an append of others.

In: commits, as they are read or made. Out: up to which version back it has read all, and these commits without their
files. PROTOCOL.md, "Delta Log Entries".
"""

from __future__ import annotations

from msgspec.structs import replace

from txlog.errors import NotFoundError
from txlog.log.fences import fenced_off
from txlog.log.gathering import Known
from txlog.log.joined import txn_ids
from txlog.log_files.delta_log import DeltaLog
from txlog.protocol.actions import AddCDCFile, AddFile, RemoveFile
from txlog.protocol.commit_file import Commit
from txlog.protocol.properties import DAY_MS
from txlog.util.locks import new_lock

__all__ = ["ReadVersions"]

_KEPT = 1000
_READ_BACK_MAX = 32
"""How many versions are read for the intents of those that lost their races before this handle was opened."""


class ReadVersions:
    """The last versions that a handle has read, without a gap. Thread-safe."""

    def __init__(self, log: DeltaLog) -> None:
        self._log = log
        self._lock = new_lock()
        self._commits: dict[int, Commit] = {}
        self._settled: dict[str, int] = {}

    def note(self, commit: Commit) -> None:
        """Remember a commit that is in the log for good."""
        actions = tuple(each for each in commit.actions if not isinstance(each, AddFile | RemoveFile | AddCDCFile))
        with self._lock:
            self._commits[commit.version] = replace(commit, actions=actions, files_skipped=True)
            for txn_id in (*txn_ids(commit), *fenced_off(commit)):
                self._settled[txn_id] = commit.version
            if len(self._commits) > 2 * _KEPT:
                self._forget(max(self._commits) - _KEPT)

    def known(self, newest: int, wanted: int | None = None) -> Known:
        """What the handle knows at version ``newest``.

        If there are intents on ``wanted``, an older version than it knows, it reads the versions since, if these are
        few.
        """
        after = self._after(newest)
        if wanted is not None and newest - _READ_BACK_MAX <= wanted < after and self._keeps_all():
            after = self._read_back(wanted, after)
        return Known(after, newest, self._settled)

    def since(self, known: Known) -> list[Commit]:
        """The commits that ``known`` is about, ascending."""
        with self._lock:
            return [self._commits[version] for version in range(known.after + 1, known.newest + 1)]

    def _after(self, newest: int) -> int:
        with self._lock:
            version = newest
            while version in self._commits:
                version -= 1
            return version

    def _keeps_all(self) -> bool:
        """Whether no version that an intent can be about has been cleaned up: a later put would have taken its name."""
        state = self._log.known_state
        return state is not None and state.properties.log_retention_ms >= DAY_MS

    def _read_back(self, wanted: int, after: int) -> int:
        try:
            for commit in self._log.commits.read_range(wanted + 1, after, files=False):
                self.note(commit)
        except NotFoundError:
            return after
        return wanted

    def _forget(self, below: int) -> None:
        self._commits = {version: commit for version, commit in self._commits.items() if version >= below}
        self._settled = {txn_id: version for txn_id, version in self._settled.items() if version >= below}
