"""The file ``_last_checkpoint``: reads it, replaces it after a checkpoint, deletes it with the checkpoint it names.

In: the log store of a table. Out: a ``LastCheckpoint``. The file is only a hint: if it is absent or invalid, the result
is None. PROTOCOL.md, "Last Checkpoint File".
"""

from __future__ import annotations

from txlog.errors import NotFoundError
from txlog.log.checkpoint.hint import LastCheckpoint, parse_last_checkpoint
from txlog.protocol.log_names import LAST_CHECKPOINT
from txlog.store.base import LogStore
from txlog.util.logs import logger

__all__ = ["drop_hint_below", "publish_hint", "read_hint"]


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
    """Write the hint for the checkpoint of ``version``, unless it names a checkpoint at least as new."""
    current = read_hint(log, table)
    if current is None or current.version < version:
        log.put(LAST_CHECKPOINT, body)


def drop_hint_below(log: LogStore, table: str, first_version: int) -> None:
    """Delete the hint if it names a checkpoint below ``first_version``."""
    hint = read_hint(log, table)
    if hint is not None and hint.version < first_version:
        log.delete(LAST_CHECKPOINT)
