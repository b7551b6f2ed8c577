"""Makes Arrow allocate memory in normal pages instead of huge pages, for work on hundreds of megabytes.

Arrow's default allocator on Linux, mimalloc, requests huge pages. A virtual machine that returns free memory to its
host (free page reporting works by huge pages) must fetch and clear each of them again: listing a million files took
1,570 ms of CPU, and takes 910 ms in normal pages. jemalloc requests no huge pages. If pyarrow lacks jemalloc, this uses
the C library, which requests none either but fetches the pages of each large buffer again. In: a ``with`` block around
work on many files. Out: nothing; Arrow's buffers remember their allocator.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from txlog.core.parallel import new_lock

_lock = new_lock()
_users = 0
_displaced: Any = None


@contextlib.contextmanager
def small_pages() -> Iterator[None]:
    """Use normal pages in all threads during the ``with`` block, unless ARROW_DEFAULT_MEMORY_POOL is set.

    The block may be nested and entered by several threads. The last exit restores the previous allocator.
    """
    global _users, _displaced
    with _lock:
        _users += 1
        pool = _pool_instead_of(pa.default_memory_pool()) if _users == 1 else None
        if pool is not None:
            _displaced = pa.default_memory_pool()
            pa.set_memory_pool(pool)
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users and _displaced is not None:
                pa.set_memory_pool(_displaced)
                _displaced = None


def _pool_instead_of(pool: pa.MemoryPool) -> pa.MemoryPool | None:
    """A pool of small pages; None if ``pool`` stays."""
    is_chosen = "ARROW_DEFAULT_MEMORY_POOL" in os.environ
    if is_chosen or sys.platform != "linux" or pool.backend_name != "mimalloc":
        return None
    return pa.jemalloc_memory_pool() if "jemalloc" in pa.supported_memory_backends() else pa.system_memory_pool()
