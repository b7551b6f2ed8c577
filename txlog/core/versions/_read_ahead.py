"""Commits of other writers that a commit reads while it waits for its turn, so that its turn is short.

In: the newest version that another writer of this machine knows. Out: the commits up to it, in order. Nothing is
decided here.
"""

from __future__ import annotations

from txlog.core.format.commit_file import Commit
from txlog.core.versions.files import DeltaLog
from txlog.errors import NotFoundError, StorageError

_AT_LEAST = 4
"""This many commits are read at once, unless the turn has come."""


class ReadAhead:
    """The commits that one waiting commit has read. Used on one thread."""

    def __init__(self, log: DeltaLog) -> None:
        self._log = log
        self.commits: list[Commit] = []

    def read(self, first: int, newest: int, least: int = _AT_LEAST) -> bool:
        """Read the commits of ``[first, newest]`` that are not read yet, if there are at least ``least`` of them.

        Older ones are forgotten. Returns False if one is absent or cannot be read.
        """
        self.commits = [commit for commit in self.commits if commit.version >= first]
        next_version = first + len(self.commits)
        try:
            if newest + 1 - next_version >= least:
                self.commits.extend(self._log.commits_between(next_version, newest))
        except (NotFoundError, StorageError):
            return False
        return True
