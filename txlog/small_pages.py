"""Memory for what is read and written by hundreds of megabytes: from the C library, in pages of the usual size.

Arrow's own allocator on Linux, mimalloc, asks for huge pages. In virtual machines that hand free memory back to their
host (free page reporting goes by huge pages), each of them is fetched anew and cleared: of a file list of 400 MB
that took most of the time. In: work on many files. Out: nothing; Arrow's buffers remember where they came from.
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
    """Meanwhile Arrow takes memory from the C library, in all threads; not where ARROW_DEFAULT_MEMORY_POOL is set.

    May be entered again, and by several threads: the last one out puts back what was there.
    """
    global _users, _displaced
    with _lock:
        _users += 1
        if _users == 1 and _may_displace(pa.default_memory_pool()):
            _displaced = pa.default_memory_pool()
            pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users and _displaced is not None:
                pa.set_memory_pool(_displaced)
                _displaced = None


def _may_displace(pool: pa.MemoryPool) -> bool:
    is_chosen = "ARROW_DEFAULT_MEMORY_POOL" in os.environ
    return sys.platform == "linux" and pool.backend_name == "mimalloc" and not is_chosen
