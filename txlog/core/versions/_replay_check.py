"""The commits that a log still has, read only as far as the check for a replay needs them.

In: a log and its newest version. Out: all commits, newest first; or the one of an application's last checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator

from txlog.core.format.actions import SetTransaction
from txlog.core.format.commit_file import Commit
from txlog.core.format.properties import DAY_MS
from txlog.core.versions.files import DeltaLog
from txlog.errors import NotFoundError

_NEWEST = 4
"""A replay usually follows soon: this many newest commits are read before the others are searched."""
_AROUND = 16
"""This many commits on either side of a time are read: the clocks of writers differ, and a commit may wait."""


class RetainedCommits:
    """The commits up to a version that the log still has, read one by one from the newest, on demand."""

    def __init__(self, log: DeltaLog, version: int) -> None:
        self._log = log
        self._version = version

    def __iter__(self) -> Iterator[Commit]:
        return iter([*reversed(self)][::-1])

    def __reversed__(self) -> Iterator[Commit]:
        for version in range(self._version, -1, -1):
            try:
                yield self._log.read_commit(version, files=False)
            except NotFoundError:
                return


def commit_of_last(log: DeltaLog, version: int, last: SetTransaction) -> Commit | None:
    """The commit up to ``version`` that holds ``last``, an application's last transaction; None if it was cleaned up.

    An application may have been idle for thousands of versions. Its transaction records when it was written, so a
    binary search finds the commits around that time. If the writers' clocks disagree too much, all are read.
    Raises ``CorruptLogError``, ``StorageError``.
    """
    return _Search(log, version, last).run()


class _Search:
    def __init__(self, log: DeltaLog, version: int, last: SetTransaction) -> None:
        self._log = log
        self._newest = version
        self._last = last
        self._read: dict[int, Commit | None] = {}

    def run(self) -> Commit | None:
        candidates = list(range(self._newest, max(self._newest - _NEWEST, -1), -1))
        found = self._first_of(candidates)
        written_ms = self._last.last_updated
        near = None if found is not None or written_ms is None else self._first_since(written_ms)
        if near is None or written_ms is None:
            return found or self._newest_with_version()
        around = [version for step in range(_AROUND) for version in (near + step, near - 1 - step)]
        found = self._first_of([version for version in around if 0 <= version <= self._newest])
        if found is not None or self._was_cleaned_up(near, written_ms):
            return found
        return self._newest_with_version()

    def _first_of(self, versions: list[int]) -> Commit | None:
        commits = (self._commit(version) for version in versions)
        return next((commit for commit in commits if commit is not None and self._last in commit.actions), None)

    def _first_since(self, moment_ms: int) -> int | None:
        """The first version committed at or after the time, by the writers' clocks; None if one records no time."""
        low, high = 0, self._newest + 1
        while low < high:
            middle = (low + high) // 2
            commit = self._commit(middle)
            if commit is None:  # cleaned up, and all before it
                low = middle + 1
                continue
            time_ms = _time_ms(commit)
            if time_ms is None:
                return None
            if time_ms >= moment_ms:
                high = middle
            else:
                low = middle + 1
        return low

    def _was_cleaned_up(self, near: int, written_ms: int) -> bool:
        """Whether the log begins at ``near``, too long after the time to be a clock difference."""
        if near == 0 or near > self._newest or self._commit(near - 1) is not None:
            return False
        first = self._commit(near)
        time_ms = _time_ms(first) if first is not None else None
        return time_ms is not None and time_ms > written_ms + DAY_MS

    def _newest_with_version(self) -> Commit | None:
        for version in range(self._newest, -1, -1):
            commit = self._commit(version)
            if commit is None:
                return None
            if any(
                type(action) is SetTransaction
                and (action.app_id, action.version) == (self._last.app_id, self._last.version)
                for action in commit.actions
            ):
                return commit
        return None

    def _commit(self, version: int) -> Commit | None:
        if version not in self._read:
            try:
                self._read[version] = self._log.read_commit(version, files=False)
            except NotFoundError:
                self._read[version] = None
        return self._read[version]


def _time_ms(commit: Commit) -> int | None:
    if commit.in_commit_timestamp_ms is not None:
        return commit.in_commit_timestamp_ms
    return commit.commit_info.timestamp if commit.commit_info else None
