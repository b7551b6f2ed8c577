"""`ThreadWorkers`: workers in this process. Most of their work releases Python's lock: reading, encoding, waiting for a
store.

In: a function and its arguments. Out: its results, as they end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from txlog.util import ambient
from txlog.util.parallel import Threads, parallel_map

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["ThreadWorkers"]

In = TypeVar("In")
Out = TypeVar("Out")


class ThreadWorkers(msgspec.Struct, frozen=True):
    """Implements ``Workers`` with at most this many threads. A single item, or a single thread, uses none.

    Each call has a copy of the caller's context, so it uses the caller's time and random numbers.
    """

    slots: int = 2

    def map(self, work: Callable[[In], Out], items: Sequence[In]) -> Iterator[tuple[int, Out]]:
        if len(items) < 2 or self.slots < 2:
            yield from enumerate(map(work, items))
            return
        if not ambient.uses_threads():
            yield from enumerate(parallel_map(work, items, threads=self.slots))
            return
        from concurrent.futures import FIRST_COMPLETED, wait

        left = iter(enumerate(items))
        running: dict[Future[Out], int] = {}
        failed: BaseException | None = None
        with Threads(self.slots, "txlog-worker") as threads:
            try:
                while True:
                    # A few more than there are threads, so none waits for this one; all would take too much memory.
                    for number, item in itertools.islice(left, 2 * self.slots - len(running)):
                        running[threads.submit(work, item)] = number
                    if not running:
                        break
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        if (error := future.exception()) is not None:
                            raise error
                        yield running.pop(future), future.result()
            except GeneratorExit:
                raise
            except BaseException as error:  # a task's error, or this thread was interrupted
                failed = error
        # The threads have ended: the remaining calls have results, failed, or never began.
        for future, number in running.items():
            if not future.cancelled() and future.exception() is None:
                yield number, future.result()
        if failed is not None:
            raise failed
