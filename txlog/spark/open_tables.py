"""The tables that this Python process has open: what it knows of a log is worth keeping from batch to batch.

In: the options of a write. Out: an ``OpenTable``. Spark plans and commits each micro-batch in Python workers that it
uses again, so that a stream, like any handle that stays open, need not load the table for every batch. A table that
was dropped and created again in between, which a handle would refuse, is opened anew here.
"""

from __future__ import annotations

import importlib
import threading
from collections import OrderedDict
from typing import Any, NamedTuple

from txlog.commit.open_table import OpenTable
from txlog.errors import InvalidInputError, NotFoundError
from txlog.hooks import CommitHooks
from txlog.protocol.log_names import commit_name
from txlog.spark.options import WriteOptions
from txlog.store.base import ObjectMeta
from txlog.store.open import open_store

__all__ = ["process_table"]

_MOST = 16
"""A process that writes to more tables in turns opens the least used of them again."""


class _Open(NamedTuple):
    """An open table, and the file of a version of it that tells it from another table at the same place."""

    open_table: OpenTable
    version: int
    file: ObjectMeta


_open: OrderedDict[Any, _Open] = OrderedDict()
_lock = threading.Lock()


def process_table(options: WriteOptions) -> OpenTable:
    """The engine for a write's options: one that is open, where its table is still the one that was opened.

    Raises InvalidInputError for a location, storage option or hook that cannot be used, and what loading raises.
    """
    key = (options.path, tuple(sorted(options.storage_options.items())), options.retry, options.hooks)
    with _lock:
        known = _open.pop(key, None)
    if known is None or not _is_current(known):
        hooks = None if options.hooks is None else _load_hooks(options.hooks)
        open_table = OpenTable(open_store(options.path, options.storage_options), options.retry, hooks)
        state = open_table.state_if_exists()
        if state is None:
            return open_table
        try:
            known = _Open(open_table, state.version, open_table.store.log.stat(commit_name(state.version)))
        except NotFoundError:  # a copied table may hold its newest version only as a checkpoint
            return open_table
    with _lock:
        _open[key] = known
        while len(_open) > _MOST:
            _open.popitem(last=False)
    return known.open_table


def _is_current(known: _Open) -> bool:
    try:
        return known.open_table.store.log.stat(commit_name(known.version)) == known.file
    except NotFoundError:  # dropped, or cleaned up since
        return False


def _load_hooks(name: str) -> CommitHooks:
    """What ``module:name`` names in this process: hooks, or a class or function that makes them."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
        hooks = found() if isinstance(found, type) or not hasattr(found, "on_commit") else found
    except Exception as error:
        raise InvalidInputError(f"option hooks = {name!r}: {type(error).__name__}: {error}") from error
    if not isinstance(hooks, CommitHooks):
        raise InvalidInputError(f"option hooks = {name!r}: must be txlog.CommitHooks, is {type(hooks).__name__}")
    return hooks
