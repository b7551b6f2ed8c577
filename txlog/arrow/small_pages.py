"""Memory for what is read and written by hundreds of megabytes: in pages of the usual size, which serve again.

Arrow's own allocator on Linux, mimalloc, asks for huge pages. In virtual machines that hand free memory back to their
host (free page reporting goes by huge pages), each of them is fetched anew and cleared: of a file list of 400 MB
that took most of the time. jemalloc does not ask for them; the C library, where pyarrow lacks jemalloc, does not
either, but fetches the pages of each large buffer anew. In: work on many files. Out: nothing; Arrow's buffers remember
where they came from.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

__all__ = ["small_pages"]

_lock = threading.Lock()
_users = 0
_displaced: Any = None


@contextlib.contextmanager
def small_pages() -> Iterator[None]:
    """Meanwhile Arrow takes memory in small pages, in all threads; not where ARROW_DEFAULT_MEMORY_POOL is set.

    May be entered again, and by several threads: the last one out puts back what was there.
    """
    global _users, _displaced
    with _lock:
        _users += 1
        if _users == 1 and _may_displace(pa.default_memory_pool()):
            _displaced = pa.default_memory_pool()
            pa.set_memory_pool(_pool_of_small_pages())
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users and _displaced is not None:
                pa.set_memory_pool(_displaced)
                _displaced = None


def _pool_of_small_pages() -> pa.MemoryPool:
    return pa.jemalloc_memory_pool() if "jemalloc" in pa.supported_memory_backends() else pa.system_memory_pool()


def _may_displace(pool: pa.MemoryPool) -> bool:
    is_chosen = "ARROW_DEFAULT_MEMORY_POOL" in os.environ
    return sys.platform == "linux" and pool.backend_name == "mimalloc" and not is_chosen
