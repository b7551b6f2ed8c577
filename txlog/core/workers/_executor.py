"""`ExecutorWorkers`: any ``concurrent.futures.Executor`` as workers: threads, processes, Dask's executor.

In: an executor, which the caller made and shuts down. Out: the results of tasks, as they end.
"""

from __future__ import annotations

import contextvars
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent import futures
from concurrent.futures import BrokenExecutor, Executor, Future, wait
from typing import Any, TypeVar

import msgspec

from txlog.core.wording import argument
from txlog.core.workers._as_completed import as_they_end
from txlog.errors import InvalidInputError, StorageError

In = TypeVar("In")
Out = TypeVar("Out")


class ExecutorWorkers(msgspec.Struct, frozen=True):
    """Implements ``Workers``. If it ``crosses`` to other processes, tasks run with their own time and random numbers.

    ``most`` is the executor's own number of workers; None if it does not say: then it gets all tasks at once.
    """

    executor: Executor
    most: int | None
    crosses: bool
    shares_disk: bool

    @classmethod
    def of(cls, executor: Any) -> ExecutorWorkers:
        most = getattr(executor, "_max_workers", None)
        crosses = not isinstance(executor, futures.ThreadPoolExecutor)
        shares_disk = isinstance(executor, (futures.ThreadPoolExecutor, futures.ProcessPoolExecutor))
        return cls(executor, most if isinstance(most, int) and most > 0 else None, crosses, shares_disk)

    @property
    def slots(self) -> int:
        return self.most or os.cpu_count() or 1

    def map(self, work: Callable[[In], Out], items: Sequence[In]) -> Iterator[tuple[int, Out]]:
        def submit(item: In) -> Future[Out]:
            if self.crosses:
                return self._submitted(work, item)
            return self._submitted(contextvars.copy_context().run, work, item)

        ahead = len(items) if self.most is None else 2 * self.most
        try:
            yield from as_they_end(submit, items, ahead, _stop)
        except BrokenExecutor as error:
            raise StorageError(
                f"a process of the executor ended before its task did ({error}): perhaps the machine ran out of memory."
                " What is committed stays. Make a new executor, with fewer workers if memory was short, and run the"
                " command again"
            ) from error

    def _submitted(self, *call: Any) -> Future[Any]:
        try:
            return self.executor.submit(*call)
        except BrokenExecutor:
            raise
        except RuntimeError as error:
            message = f"{argument('workers')}: the executor accepts no tasks ({error}): pass one that is open"
            raise InvalidInputError(message) from error


def _stop(running: Collection[Future[Any]]) -> None:
    """Cancel tasks that have not begun, and wait for the others."""
    wait([future for future in running if not future.cancel()])
