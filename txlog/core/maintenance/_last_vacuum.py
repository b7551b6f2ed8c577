"""`_last_vacuum_info`: the version up to which removed files are already deleted.

In: a table's log. Out: a version or its time, or None if it is unknown. A vacuum by the log alone (LITE) starts after
it. Spark writes the same file, with a version after a LITE vacuum and without one after a FULL one; txlog writes the
version after both. It is a hint: without it, a vacuum lists the files. It also lists them if a version lost its name
since then: files that only the name kept were removed from the table long before.
"""

from __future__ import annotations

import contextlib
from typing import Any

import orjson

from txlog.core.store import LogStore
from txlog.core.versions.files import DeltaLog
from txlog.errors import NotFoundError

LAST_VACUUM = "_last_vacuum_info"
_VERSION = "latestCommitVersionOutsideOfRetentionWindow"
_LIST_NEXT = "txlog.listNext"  # other engines ignore it, since they have no named versions
_UNTIL = "txlog.until"  # ms since the epoch; the time of a version is the clock of the store


def read_last_vacuum(log: LogStore) -> int | None:
    """The last version whose removed files were deleted; None if unknown. Raises StorageError."""
    found = _noted(log)
    return None if found.get(_LIST_NEXT) is True else _version_in(found)


def vacuumed_until_ms(log: DeltaLog, retention_ms: int) -> int | None:
    """The time until which the files that commits had removed were deleted by the last vacuum, ms since the epoch.

    After a vacuum that noted no version, a time that it surely reached with the table's retention. None if no vacuum
    is known. Files that a named version keeps are there all the same. Raises StorageError.
    """
    noted = _noted(log.store.log)
    version, until_ms = _version_in(noted), noted.get(_UNTIL)
    if type(until_ms) is int:
        return until_ms
    with contextlib.suppress(NotFoundError):
        if version is None:
            return log.store.log.stat(LAST_VACUUM).modified_ms - retention_ms
        return log.timestamp_ms(version)
    return None


def _noted(log: LogStore) -> dict[str, Any]:
    try:
        found = orjson.loads(log.read(LAST_VACUUM))
    except (NotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _version_in(found: dict[str, Any]) -> int | None:
    version = found.get(_VERSION)
    return version if type(version) is int and version >= 0 else None


def write_last_vacuum(log: LogStore, version: int, until_ms: int) -> None:
    """Record that the files removed up to ``version``, and until this time, are deleted. Raises StorageError."""
    log.put(LAST_VACUUM, orjson.dumps({_VERSION: version, _UNTIL: until_ms}) + b"\n")


def list_at_next_vacuum(log: LogStore) -> None:
    """Make the next vacuum list the files, even if the log has all removed files. Raises StorageError."""
    if read_last_vacuum(log) is not None:
        log.put(LAST_VACUUM, orjson.dumps({**_noted(log), _LIST_NEXT: True}) + b"\n")
