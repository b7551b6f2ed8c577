"""`_last_vacuum_info`: up to which version the files that commits removed are deleted already.

In: a table's log. Out: a version, or None where nobody knows. A vacuum by the log alone (LITE) starts after it. Spark
writes the same file, with a version after a LITE vacuum and without one after a FULL one; txlog writes the version
after both. It is a hint: without it, a vacuum lists the files.
"""

from __future__ import annotations

import orjson

from txlog.errors import NotFoundError
from txlog.store.base import LogStore

__all__ = ["LAST_VACUUM", "read_last_vacuum", "write_last_vacuum"]

LAST_VACUUM = "_last_vacuum_info"
_VERSION = "latestCommitVersionOutsideOfRetentionWindow"


def read_last_vacuum(log: LogStore) -> int | None:
    """The last version whose removed files were deleted; None where that is unknown. Raises StorageError."""
    try:
        found = orjson.loads(log.read(LAST_VACUUM))
    except (NotFoundError, ValueError):
        return None
    version = found.get(_VERSION) if isinstance(found, dict) else None
    return version if type(version) is int and version >= 0 else None


def write_last_vacuum(log: LogStore, version: int) -> None:
    """Record that the files removed up to ``version`` are deleted. Raises StorageError."""
    log.put(LAST_VACUUM, orjson.dumps({_VERSION: version}) + b"\n")
