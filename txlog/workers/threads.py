"""`Threads`: workers in this process. What they do most releases Python's lock: reading, encoding, waiting for a store.

In: a function and its arguments. Out: its results, as they end.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from txlog.util import ambient

__all__ = ["Threads"]

In = TypeVar("In")
Out = TypeVar("Out")


class Threads(msgspec.Struct, frozen=True):
    """Implements ``Workers`` by at most so many threads at once. A single item, or a single thread, uses none.

    Each call has a copy of the caller's context, so that its time and its random numbers are the caller's.
    """

    slots: int = 2

    def map(self, work: Callable[[In], Out], items: Sequence[In]) -> Iterator[tuple[int, Out]]:
        if len(items) < 2 or self.slots < 2 or not ambient.uses_threads():
            yield from enumerate(map(work, items))
            return
        from concurrent.futures import Future, ThreadPoolExecutor, as_completed

        with ThreadPoolExecutor(min(self.slots, len(items)), thread_name_prefix="txlog-worker") as pool:
            futures: dict[Future[Out], int] = {}
            try:
                for number, item in enumerate(items):
                    futures[pool.submit(contextvars.copy_context().run, work, item)] = number
                for future in as_completed(futures):
                    yield futures.pop(future), future.result()
            finally:
                for future in futures:
                    future.cancel()
