"""Where to begin reading a log: the list of its folder, and the file ``_last_checkpoint``.

In: a table's stores. Out: a ``LogListing``, made from one list of the folder and what the version owner adds; a
``LastCheckpoint``. Both are only hints: a name that a list lacks may exist, and the file may be absent, invalid or old.
PROTOCOL.md, "File Types", "Last Checkpoint File".
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from txlog.core.format.log_names import LAST_CHECKPOINT, version_prefix
from txlog.core.store import LogStore, ObjectMeta, TableStore
from txlog.core.util import logger
from txlog.core.versions.decisions.checkpoint.hint import LastCheckpoint, parse_last_checkpoint
from txlog.core.versions.decisions.segment import LogListing, read_listing
from txlog.errors import NotFoundError, StorageError


def list_log(store: TableStore, first: int = 0, files: Sequence[ObjectMeta] | None = None) -> LogListing:
    """The log from version ``first`` on. ``files`` is a list of the folder from there, if the caller has one.

    Raises ``StorageError``.
    """
    listing = read_listing(store.log.list_from(version_prefix(first)) if files is None else files)
    versions = store.versions.tail(first - 1, listing.commits)
    if versions is listing.commits:
        return listing
    if store.versions.capabilities.remembers_versions:
        listing = listing.up_to(max(versions, default=first - 1))
    return replace(listing, commits=versions)


# --- the file `_last_checkpoint` -----------------------------------------------------------------------------------


def read_hint(log: LogStore, table: str) -> LastCheckpoint | None:
    """The hint; None if it is absent or, with a warning that names ``table``, invalid. Raises ``StorageError``."""
    try:
        body = log.read(LAST_CHECKPOINT)
    except NotFoundError:
        return None
    hint = parse_last_checkpoint(body)
    if hint is None:
        logger.warning("%s: %s cannot be read and is ignored", table, LAST_CHECKPOINT)
    return hint


def publish_hint(log: LogStore, table: str, version: int, body: bytes) -> None:
    """Write the hint for the checkpoint of ``version``, unless it names a checkpoint at least as new.

    A failure only warns: the checkpoint is written, and a listing finds it.
    """
    try:
        current = read_hint(log, table)
        if current is None or current.version < version:
            log.put(LAST_CHECKPOINT, body)
    except StorageError as error:
        logger.warning("%s: the checkpoint of v%d is written, but not %s: %s", table, version, LAST_CHECKPOINT, error)


def drop_hint_below(log: LogStore, table: str, first_version: int) -> None:
    """Delete the hint if it names a checkpoint below ``first_version``."""
    hint = read_hint(log, table)
    if hint is not None and hint.version < first_version:
        log.delete(LAST_CHECKPOINT)
