"""The same work on many things by a few threads at once: for what runs outside of Python's lock, such as encoding.

In: a function and what it is called with, as it comes. Out: its results in order, drawn at most a few ahead, so that
what waits does not pile up. Where no thread can be started any more, all is done in turn.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import Protocol, TypeVar

__all__ = ["Apply", "parallel_map"]

In = TypeVar("In")
Out = TypeVar("Out")


class Apply(Protocol):
    """``map``, or `parallel_map`: how pure code is told to do the same work on many things, without knowing threads."""

    def __call__(self, work: Callable[[In], Out], items: Iterable[In], /) -> Iterable[Out]: ...


def parallel_map(work: Callable[[In], Out], items: Iterable[In], *, threads: int = 2) -> Generator[Out, None, None]:
    """``work`` of each item, in order: as many at a time as ``threads``, one more drawn; one alone without a thread.

    ``work`` must not need the caller's context.
    """
    drawn = list(itertools.islice(items := iter(items), 2))
    if len(drawn) < 2:
        yield from map(work, drawn)
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    with ThreadPoolExecutor(threads, thread_name_prefix="txlog-work") as pool:
        ahead: deque[Future[Out]] = deque()
        for item in itertools.chain(drawn, items):
            try:
                ahead.append(pool.submit(work, item))
            except RuntimeError:  # the interpreter is about to end: what a writer left to do then is done without help
                ahead.append(Future())
                ahead[-1].set_result(work(item))
            if len(ahead) > threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
