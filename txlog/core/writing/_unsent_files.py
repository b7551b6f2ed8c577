"""One write's data files, which may be deleted only if nothing was ever sent to the log.

In: the paths that a write created, and a call from the commit run before its first put. Out: when the write ends, for
whatever reason, files that no commit can name are deleted, and all others stay. The error's class does not matter:
after a put the commit may be in the log, and later code, such as a log handler, may raise any error. Only a put that
the store itself refused takes back what was sent.

A vacuum deletes files that no commit names once they are older than the table's retention. A writer that was suspended
that long must not commit them, so it looks for files that are hours old before it sends anything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from types import TracebackType

from txlog.core import ambient
from txlog.core.store import FileStore
from txlog.core.util import logger
from txlog.errors import NotFoundError, TxlogError

_LOOKED_FOR_AFTER_S = 6 * 3600.0
_REQUESTS_AT_ONCE = 16
_NAMED_MAX = 5


class UnsentFiles:
    """Owns the data files of one write until its commit sends something. A context manager around both.

    ``known_version`` is a version of the table that was known before the first of them was written.
    """

    def __init__(self, files: FileStore, known_version: int = -1) -> None:
        self.known_version = known_version
        self.also: Sequence[UnsentFiles] = ()
        """The files of other tables that the same commit decides about."""
        self._files = files
        self._paths: list[str] = []
        self._is_sent = self._is_over = False
        self._since: ambient.Instant | None = None
        self._seen: ambient.Instant | None = None  # when all were there

    def own(self, paths: Iterable[str]) -> None:
        """Take responsibility for written files that no commit names.

        After `discard` they are deleted at once: a caller that was interrupted may leave a thread that still writes.
        """
        if self._since is None:
            self._since = self._seen = ambient.instant()
        self._paths += paths
        if self._is_over:
            self.discard()

    def require_kept(self, retention_ms: int) -> None:
        """Look for the files if nobody has for six hours, or for a quarter of ``delta.deletedFileRetentionDuration``.

        Raises ``NotFoundError`` naming the missing ones, ``StorageError``.
        """
        if self._since is None or self._seen is None:
            return
        if ambient.age_s(self._seen) < min(_LOOKED_FOR_AFTER_S, retention_ms / 4000):
            return
        from txlog.core.parallel import parallel_map

        looked = ambient.instant()
        there = [*parallel_map(self._is_there, self._paths, threads=_REQUESTS_AT_ONCE)]
        missing = [path for path, is_there in zip(self._paths, there, strict=True) if not is_there]
        if missing:
            named = ", ".join(missing[:_NAMED_MAX]) + (", ..." if len(missing) > _NAMED_MAX else "")
            age_s = ambient.age_s(self._since)
            raise NotFoundError(
                f"{len(missing)} of {len(there)} data files that this write made {age_s / 3600:.1f} hours ago are"
                f" missing: {named}. A vacuum deletes files that no commit names once they are older than its"
                " retention. Nothing was committed: write the rows again"
            )
        self._seen = looked

    def _is_there(self, path: str) -> bool:
        try:
            self._files.stat(path)
            return True
        except NotFoundError:
            return False

    def mark_sent(self) -> None:
        """Called by the commit run before each put: from now on a commit may name the files."""
        self._is_sent = True
        for each in self.also:
            each.mark_sent()

    def take_back(self) -> None:
        """Called by the commit run after a put that was refused, if no commit that names the files can ever land."""
        self._is_sent = False
        for each in self.also:
            each.take_back()

    def discard(self) -> None:
        """Delete the files, unless something was sent. Never raises: a warning names what stays, for a vacuum."""
        self._is_over = True
        if self._is_sent:
            return
        paths, self._paths = self._paths, []
        failures = delete_written(self._files, paths)
        if failures:
            logger.warning(
                "%d data files of a write that was not committed stay until a vacuum: %s (%s)",
                len(failures),
                ", ".join([*failures][:_NAMED_MAX]) + (", ..." if len(failures) > _NAMED_MAX else ""),
                next(iter(failures.values())),
            )

    def __enter__(self) -> UnsentFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()


def delete_written(files: FileStore, paths: Sequence[str]) -> dict[str, str]:
    """Delete files that no commit names, many with few requests. Returns what went wrong with each one that stays."""
    if len(paths) > 1:
        with contextlib.suppress(TxlogError):
            files.delete_many(paths)
            return {}
    failures = {}
    for path in paths:
        try:
            files.delete(path)
        except TxlogError as error:
            failures[path] = error.message
    return failures
