"""What a handle has read of the log, version after version: what it must know before it commits an append of others.

In: commits, as they are read or made. Out: up to which version back it has read all, and these commits without their
files. PROTOCOL.md, "Delta Log Entries".
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from txlog.core.format.actions import Action, AddCDCFile, AddFile, RemoveFile
from txlog.core.format.commit_file import Commit
from txlog.core.format.properties import DAY_MS
from txlog.core.parallel import new_lock
from txlog.core.versions.decisions.fences import fenced_off
from txlog.core.versions.decisions.gathering import KnownLog
from txlog.core.versions.decisions.joined_appends import txn_ids
from txlog.core.versions.files import DeltaLog
from txlog.errors import NotFoundError

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
        self._run = range(0)  # the versions known to follow each other

    def note(self, commit: Commit) -> None:
        """Remember a commit that is in the log for good."""
        kept = replace(commit, actions=_kept(commit), files_skipped=True)
        with self._lock:
            self._commits[commit.version] = kept
            if commit.version == self._run.stop:
                self._run = range(self._run.start, commit.version + 1)
            for txn_id in (*txn_ids(commit), *fenced_off(commit)):
                self._settled[txn_id] = commit.version
            if len(self._commits) > 2 * _KEPT:
                self._forget(max(self._commits) - _KEPT)

    def known(self, newest: int, bases: Iterable[int] = ()) -> KnownLog:
        """What the handle knows at version ``newest``. For intents with these base versions, it reads a few more."""
        after = self._after(newest)
        wanted = [base for base in bases if newest - _READ_BACK_MAX <= base < after]
        if wanted and self._keeps_all():
            after = self._read_back(min(wanted), after)
        return KnownLog(after, newest, self._settled)

    def since(self, known: KnownLog) -> list[Commit]:
        """The commits that ``known`` is about, ascending; without those that were forgotten meanwhile."""
        with self._lock:
            after = self._after(known.newest)
            return [self._commits[version] for version in range(max(after, known.after) + 1, known.newest + 1)]

    def _after(self, newest: int) -> int:
        with self._lock:
            if newest not in self._run or self._run.start - 1 in self._commits:
                first = last = newest
                while first in self._commits:
                    first -= 1
                while last in self._commits:
                    last += 1
                self._run = range(first + 1, last)
            return self._run.start - 1 if newest in self._run else newest

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
        self._run = range(max(self._run.start, below), self._run.stop)


def _kept(commit: Commit) -> tuple[Action, ...]:
    """Its actions without files; but if it did more than append, with a file of each of its partitions: an overwrite
    of one of them that has waited since is then left to its writer (`replaced_partitions.is_overtaken`)."""
    others = tuple(each for each in commit.actions if not isinstance(each, AddFile | RemoveFile | AddCDCFile))
    if commit.commit_info is not None and commit.commit_info.is_blind_append:
        return others
    files: dict[object, Action] = {}
    for each in commit.actions:
        if isinstance(each, AddFile | RemoveFile):
            values = None if each.partition_values is None else frozenset(each.partition_values.items())
            files.setdefault((each.data_change, values), replace(each, stats=None))
    return (*others, *files.values())
