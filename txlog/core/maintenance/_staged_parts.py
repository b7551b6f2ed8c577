"""What transactions over several tables have staged in a table's folder: needed by a vacuum, or left behind.

In: the staging folder of a table. Out: the actions of all staged parts; and the deletion of parts that no prepared
version names any more, as a writer leaves them that dies before the table is prepared, or after it has its part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from txlog.core.format.actions import Action
from txlog.core.maintenance._offered_appends import LEFT_BEHIND_MS
from txlog.core.store import STAGING, TableStore
from txlog.core.util import logger
from txlog.core.versions import OpenTable
from txlog.core.versions.decisions.prepared import StagedPart, is_part
from txlog.errors import NotFoundError, TxlogError


def staged_actions(store: TableStore) -> Iterator[Action]:
    """The actions of all staged parts. Raises ``StorageError``, and ``InvalidInputError`` for a part that is damaged:
    nobody knows which files it names."""
    folder = store.staging
    if folder is None:
        return
    looks = 1 if folder.capabilities.lists_completely else 2  # a changing folder may hide a name
    for name in {meta.name for _ in range(looks) for meta in folder.list_from("prepared.") if is_part(meta.name)}:
        try:
            body = folder.read(name)
        except NotFoundError:  # committed or rolled back meanwhile
            continue
        with TxlogError.located(store.uri):
            yield from StagedPart.from_bytes(body).actions


def delete_dead_parts(open_table: OpenTable, now_ms: int, check_clock: Callable[[], None] = lambda: None) -> None:
    """Delete the parts that are a day old, unless the table is prepared. ``check_clock`` is as for
    `delete_dead_offers`. Raises what it raises, and ``StorageError``."""
    folder = open_table.store.staging
    if folder is None:
        return
    for meta in folder.list_from("prepared."):
        if not is_part(meta.name):
            return
        check_clock()
        if now_ms - meta.modified_ms > LEFT_BEHIND_MS and not open_table.log.newest_state().is_prepared:
            logger.info("%s: deleting %s/%s, which a writer left behind", open_table.uri, STAGING, meta.name)
            folder.delete(meta.name)
