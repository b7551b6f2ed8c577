"""A parallel map with a few threads, for work that releases Python's lock, such as encoding.

In: a function and an iterable of its arguments. Out: its results in order. Only a few results are computed ahead of
the caller, which bounds the memory. If no thread can be started, because the interpreter is shutting down, the caller's
thread does the work.
"""

from __future__ import annotations

import contextvars
import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import Protocol, TypeVar

from txlog.util import ambient

__all__ = ["Apply", "parallel_map"]

In = TypeVar("In")
Out = TypeVar("Out")


class Apply(Protocol):
    """``map`` or `parallel_map`. Pure code takes one as an argument, so that it need not know about threads."""

    def __call__(self, work: Callable[[In], Out], items: Iterable[In], /) -> Iterable[Out]: ...


def parallel_map(work: Callable[[In], Out], items: Iterable[In], *, threads: int = 2) -> Generator[Out, None, None]:
    """``work`` of each item, in order, on up to ``threads`` threads. A single item uses no thread.

    One item more than there are threads is taken from ``items`` in advance.

    Each call has a copy of the caller's context, so that its time and its random numbers are the caller's.
    """
    drawn = list(itertools.islice(items := iter(items), 2))
    if len(drawn) < 2 or not ambient.uses_threads():
        yield from map(work, itertools.chain(drawn, items))
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    with ThreadPoolExecutor(threads, thread_name_prefix="txlog-work") as pool:
        ahead: deque[Future[Out]] = deque()
        for item in itertools.chain(drawn, items):
            try:
                ahead.append(pool.submit(contextvars.copy_context().run, work, item))
            except RuntimeError:  # the interpreter is shutting down: finish the work on this thread
                ahead.append(Future())
                ahead[-1].set_result(work(item))
            if len(ahead) > threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
