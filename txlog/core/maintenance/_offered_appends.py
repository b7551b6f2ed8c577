"""Appends and overwrites that writers offer each other (`core.versions.decisions.intents`), as maintenance sees them:
the files they need, and dead ones.

In: the folder `core.store._base.WAITING` of a table. Out: the data files that a commit may name at any moment, and the
deletion of what crashed writers left there a day ago. Nobody has taken it for the last 23 hours.
"""

from __future__ import annotations

from collections.abc import Callable

from txlog.core.format.paths import resolve_data_path
from txlog.core.format.properties import DAY_MS
from txlog.core.parallel import parallel_map
from txlog.core.store import WAITING, LogStore, TableStore
from txlog.core.util import logger
from txlog.core.versions.decisions.intents import Intent, named_intent
from txlog.core.versions.decisions.state import TableState
from txlog.errors import InvalidInputError, NotFoundError, TxlogError, UnsupportedFeatureError

LEFT_BEHIND_MS = DAY_MS
"""When what a writer left in the folder is deleted: long after others ignore it, whatever this machine's clock says."""
_REQUESTS_AT_ONCE = 16


def offered_paths(store: TableStore, state: TableState) -> set[str]:
    """The files of all appends that are offered: paths relative to the table, decoded.

    What nobody can read, nobody can commit. Raises ``StorageError``, and ``UnsupportedFeatureError`` if a newer txlog
    offers an append.
    """
    folder = store.waiting
    if folder is None or not state.properties.group_commit:  # a change of the property has refused what was offered
        return set()
    names = [meta.name for meta in folder.list_from("") if named_intent(meta.name) is not None]
    with TxlogError.located(store.uri):
        found = parallel_map(lambda name: _paths_in(folder, name, state), names, threads=_REQUESTS_AT_ONCE)
        return set().union(*found)


def delete_dead_offers(store: TableStore, now_ms: int, check_clock: Callable[[], None] = lambda: None) -> None:
    """Delete what has been in the folder for more than a day: marks and intents.

    ``check_clock`` is called before the first one is judged. Raises what it raises, and ``StorageError``.
    """
    folder = store.waiting
    if folder is None:
        return
    for meta in folder.list_from(""):
        check_clock()
        if now_ms - meta.modified_ms > LEFT_BEHIND_MS:
            logger.info("%s: deleting %s/%s, which a writer left behind", store.uri, WAITING, meta.name)
            folder.delete(meta.name)


def _paths_in(folder: LogStore, name: str, state: TableState) -> set[str]:
    try:
        intent = Intent.from_bytes(name, folder.read(name), state)
    except UnsupportedFeatureError:
        raise
    except (NotFoundError, InvalidInputError):
        return set()
    return {resolve_data_path(add.path).path for member in intent.members for add in member.adds}
