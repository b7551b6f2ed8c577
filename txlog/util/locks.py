"""A lock that a forked process never inherits locked.

In: a ``with`` block. Out: mutual exclusion of threads. A fork copies a lock as it is, but only the thread that forked:
a lock that another thread held would stay locked in the child for ever. So every lock that a background thread may
hold comes from here, and is free in the child.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

__all__ = ["new_lock"]

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def new_lock() -> threading.RLock:
    """A reentrant lock. After a fork, the child has a free one, unless the thread that forked holds it."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _free_all() -> None:
    for lock in list(_locks):
        if not lock._is_owned():
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all)
