"""`ThreadWorkers`: workers in this process. What they do most releases Python's lock: reading, encoding, waiting for a
store.

In: a function and its arguments. Out: its results, as they end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from txlog.util import ambient
from txlog.util.parallel import Threads

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["ThreadWorkers"]

In = TypeVar("In")
Out = TypeVar("Out")


class ThreadWorkers(msgspec.Struct, frozen=True):
    """Implements ``Workers`` by at most so many threads at once. A single item, or a single thread, uses none.

    Each call has a copy of the caller's context, so that its time and its random numbers are the caller's.
    """

    slots: int = 2

    def map(self, work: Callable[[In], Out], items: Sequence[In]) -> Iterator[tuple[int, Out]]:
        if len(items) < 2 or self.slots < 2 or not ambient.uses_threads():
            yield from enumerate(map(work, items))
            return
        from concurrent.futures import as_completed

        futures: dict[Future[Out], int] = {}
        failed: BaseException | None = None
        with Threads(min(self.slots, len(items)), "txlog-worker") as threads:
            try:
                for number, item in enumerate(items):
                    futures[threads.submit(work, item)] = number
                for future in as_completed([*futures]):
                    failed = future.exception()
                    if failed is not None:
                        break
                    yield futures.pop(future), future.result()
            except GeneratorExit:
                raise
            except BaseException as error:  # this thread was interrupted
                failed = error
        # Threads have ended: of what is left, some results are there, one may be an error, and the rest has not begun.
        for future, number in futures.items():
            if not future.cancelled() and future.exception() is None:
                yield number, future.result()
        if failed is not None:
            raise failed
