"""One write's data files, which may be deleted only if nothing was ever sent to the log.

In: the paths that a write created, and a call from the commit run before its first put. Out: when the write ends, for
whatever reason, files that no commit can name are deleted, and all others stay. The error's class does not matter:
after a put the commit may be in the log, and later code, such as a log handler, may raise any error.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

from txlog.errors import TxlogError
from txlog.store.base import FileStore
from txlog.util.logs import logger

__all__ = ["UnsentFiles"]


class UnsentFiles:
    """Owns the data files of one write until its commit sends something. A context manager around both."""

    def __init__(self, files: FileStore) -> None:
        self._files = files
        self._paths: list[str] = []
        self._is_sent = False

    def own(self, paths: Iterable[str]) -> None:
        """Take responsibility for written files that no commit names."""
        self._paths += paths

    def mark_sent(self) -> None:
        """Called by the commit run before each put: from now on a commit may name the files."""
        self._is_sent = True

    def discard(self) -> None:
        """Delete the files, unless something was sent. Never raises: a file that stays is an orphan for vacuum."""
        if self._is_sent:
            return
        paths, self._paths = self._paths, []
        for path in paths:
            try:
                self._files.delete(path)
            except TxlogError as error:
                logger.debug("%s stays behind as an orphan: %s", path, error)

    def __enter__(self) -> UnsentFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()
