"""`ThreadWorkers`: workers in this process. Most of their work releases Python's lock: reading, encoding, waiting for a
store.

In: a function and its arguments. Out: its results, as they end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from txlog.core import ambient
from txlog.core.parallel import Threads, parallel_map
from txlog.core.workers._as_completed import as_they_end

In = TypeVar("In")
Out = TypeVar("Out")


class ThreadWorkers(msgspec.Struct, frozen=True):
    """Implements ``Workers`` with at most this many threads. A single item, or a single thread, uses none.

    Each call has a copy of the caller's context, so it uses the caller's time and random numbers.
    """

    slots: int = 2

    @property
    def crosses(self) -> bool:
        return False

    @property
    def shares_disk(self) -> bool:
        return True

    def map(self, work: Callable[[In], Out], items: Sequence[In]) -> Iterator[tuple[int, Out]]:
        if len(items) < 2 or self.slots < 2:
            yield from enumerate(map(work, items))
            return
        if not ambient.uses_threads():
            yield from enumerate(parallel_map(work, items, threads=self.slots))
            return
        with Threads(self.slots, "txlog-worker") as threads:
            # A few more than there are threads, so none waits for this one; all would take too much memory.
            ahead = 2 * self.slots
            yield from as_they_end(lambda item: threads.submit(work, item), items, ahead, lambda _: threads.close())
