"""A lock that a forked process never inherits locked.

In: a ``with`` block. Out: mutual exclusion of threads. A fork copies locks as they are, but only the forking thread: a
lock held by another thread would stay locked in the child forever. So every lock that a background thread may hold
comes from here, and is free in the child.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

__all__ = ["new_lock"]

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def new_lock() -> threading.RLock:
    """A reentrant lock. After a fork, the child's lock is free, unless the forking thread holds it."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _free_all() -> None:
    for lock in list(_locks):
        if not lock._is_owned():
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all)
