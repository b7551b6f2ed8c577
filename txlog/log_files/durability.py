"""Finds commits that a power cut could still undo: the log's newest ones, if their writers do not sync.

In: a reader of commits and the version to build on. Out: versions to make durable before the next commit, or a
checkpoint of that version, is. A hole below a durable commit would make the table unreadable; deltalake and Spark let
the kernel decide when their commits reach the disk.
"""

from __future__ import annotations

from txlog.errors import NotFoundError
from txlog.log_files.commits import CommitReader
from txlog.util import ambient

__all__ = ["unsynced_versions"]

_WRITTEN_BACK_MS = 120_000  # by then a kernel has written unsynced pages to disk by itself


def unsynced_versions(
    commits: CommitReader, version: int, newest_foreign: int, durable_version: int, *, keeps_order: bool
) -> list[int]:
    """Versions up to ``version``, newest first, that may not be on disk.

    ``newest_foreign`` is the newest version, up to ``version`` or above it, that another engine may have committed.
    This handle has made ``durable_version`` and everything below it durable (-1 if none): then ``version`` is not
    trusted even if txlog wrote it, since the table may be a copy. Everything below a txlog commit is on disk, since its
    writer synced it first. The commit itself is on disk too, if the disk ``keeps_order`` of names: our own sync covers
    it. Below another engine's commit, a txlog commit may not be on disk: its writer may have stopped before the sync,
    and the other engine committed on top without one.
    """
    is_settled_by_ours = durable_version >= 0 and newest_foreign < version and keeps_order
    if durable_version >= version or is_settled_by_ours:
        return []
    found = [version]
    if newest_foreign < version - 1 or not commits.versions.capabilities.needs_sync:
        return found
    for below in range(version - 1, durable_version, -1):
        try:
            if _was_written_back(commits, below):
                break
            found.append(below)
            if not commits.read(below, files=False).is_foreign:
                break
        except NotFoundError:
            break
    return found


def _was_written_back(commits: CommitReader, version: int) -> bool:
    """Whether the commit is so old that the kernel has written it to disk by itself. Raises ``NotFoundError``."""
    age_ms = ambient.now_ms() - commits.versions.stat(version).modified_ms
    age_ms -= int(1000 * ambient.suspended_s())  # nothing is written back while suspended
    return age_ms >= _WRITTEN_BACK_MS
