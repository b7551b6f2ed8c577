"""`_last_vacuum_info`: the version up to which removed files are already deleted.

In: a table's log. Out: a version, or None if it is unknown. A vacuum by the log alone (LITE) starts after it. Spark
writes the same file, with a version after a LITE vacuum and without one after a FULL one; txlog writes the version
after both. It is a hint: without it, a vacuum lists the files. It also lists them if a version lost its name since
then: files that only the name kept were removed from the table long before.
"""

from __future__ import annotations

import orjson

from txlog.core.store import LogStore
from txlog.errors import NotFoundError

__all__ = ["LAST_VACUUM", "list_at_next_vacuum", "read_last_vacuum", "write_last_vacuum"]

LAST_VACUUM = "_last_vacuum_info"
_VERSION = "latestCommitVersionOutsideOfRetentionWindow"
_LIST_NEXT = "txlog.listNext"  # other engines ignore it, since they have no named versions


def read_last_vacuum(log: LogStore) -> int | None:
    """The last version whose removed files were deleted; None if unknown. Raises StorageError."""
    try:
        found = orjson.loads(log.read(LAST_VACUUM))
    except (NotFoundError, ValueError):
        return None
    if not isinstance(found, dict) or found.get(_LIST_NEXT) is True:
        return None
    version = found.get(_VERSION)
    return version if type(version) is int and version >= 0 else None


def write_last_vacuum(log: LogStore, version: int) -> None:
    """Record that the files removed up to ``version`` are deleted. Raises StorageError."""
    log.put(LAST_VACUUM, orjson.dumps({_VERSION: version}) + b"\n")


def list_at_next_vacuum(log: LogStore) -> None:
    """Make the next vacuum list the files, even if the log has all removed files. Raises StorageError."""
    version = read_last_vacuum(log)
    if version is not None:
        log.put(LAST_VACUUM, orjson.dumps({_VERSION: version, _LIST_NEXT: True}) + b"\n")
