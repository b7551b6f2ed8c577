"""The tables that this Python process keeps open between micro-batches.

In: the options of a write. Out: an ``OpenTable``. Spark plans and commits each micro-batch in Python workers that it
reuses, so a stream need not load the table for every batch.
"""

from __future__ import annotations

import importlib
from collections import OrderedDict
from typing import Any

from txlog.core.catalogs import place_at
from txlog.core.parallel import new_lock
from txlog.core.util import invalid
from txlog.core.versions import KEPT_MAX, CachedTable, OpenTable
from txlog.errors import InvalidInputError
from txlog.hooks import CommitHooks
from txlog.spark.options import SparkWriteOptions
from txlog.spark.settings import zone_of_machine

_open: OrderedDict[Any, CachedTable] = OrderedDict()
_lock = new_lock()


def process_table(options: SparkWriteOptions) -> OpenTable:
    """Open the table of a write, or reuse the open one if the table at its location is still the same. Either way its
    newest version is known afterwards.

    Args:
        options: The options of the write.

    Returns:
        The open table; it need not exist yet.

    Raises:
        InvalidInputError: The location, a storage option or the hooks cannot be used.
        TxlogError: What loading the table raises.
    """
    zone = options.time_zone or zone_of_machine()
    key = (options.path, tuple(sorted(options.storage_options.items())), options.retry, options.hooks, zone)
    with _lock:
        known = _open.pop(key, None)
    if known is None or not known.is_current_and_refreshed():
        hooks = None if options.hooks is None else _load_hooks(options.hooks)
        place = place_at(options.path, options.storage_options)
        open_table = OpenTable(
            place.store(),
            options.retry,
            hooks,
            storage_options=place.storage_options,
            credential_provider=place.credential_provider,
            time_zone=zone,
        )
        state = open_table.state_if_exists()
        if state is None:
            return open_table
        known = CachedTable.of(open_table, state)
    with _lock:
        _open[key] = known
        while len(_open) > KEPT_MAX:
            _open.popitem(last=False)
    return known.open_table


def _load_hooks(name: str) -> CommitHooks:
    """Import the hooks ``module:name``: an object, or a class or function that returns one."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
        hooks = found() if isinstance(found, type) or not hasattr(found, "on_commit") else found
    except Exception as error:
        raise InvalidInputError(f"option hooks = {name!r}: {type(error).__name__}: {error}") from error
    if not isinstance(hooks, CommitHooks):
        raise invalid("option hooks", name, f"txlog.CommitHooks, not {type(hooks).__name__}")
    return hooks
