"""A parallel map with a few threads, for work that releases Python's lock, such as encoding.

In: a function and an iterable of its arguments. Out: its results in order. Only a few results are computed ahead of
the caller, which bounds the memory. If no thread can be started, because the interpreter is shutting down, the caller's
thread does the work.
"""

from __future__ import annotations

import contextvars
import itertools
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Protocol, TypeVar

from txlog.util import ambient

__all__ = ["Apply", "begin", "parallel_map"]

In = TypeVar("In")
Out = TypeVar("Out")


class Apply(Protocol):
    """``map`` or `parallel_map`. Pure code takes one as an argument, so that it need not know about threads."""

    def __call__(self, work: Callable[[In], Out], items: Iterable[In], /) -> Iterable[Out]: ...


def begin(work: Callable[[], Out]) -> Callable[[], Out]:
    """Start ``work`` beside what the caller does next; the function that is returned waits for its result.

    For requests whose answers are needed later. What ``work`` raises is raised where the result is asked for. Each call
    has a copy of the caller's context. Without threads the work is done here and now.
    """
    if not ambient.uses_threads():
        return ambient.without_thread(work)
    done = partial(_settled, partial(contextvars.copy_context().run, work))
    results: list[Callable[[], Out]] = []
    thread = threading.Thread(target=lambda: results.append(done()), name="txlog-beside", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the interpreter is shutting down
        return done()

    def result() -> Out:
        thread.join()
        return results[0]()

    return result


def _settled(work: Callable[[], Out]) -> Callable[[], Out]:
    """A function that returns what ``work`` returned, or raises what it raised."""
    try:
        found = work()
    except BaseException as error:
        raised = error

        def fail() -> Out:
            raise raised

        return fail
    return lambda: found


def parallel_map(work: Callable[[In], Out], items: Iterable[In], *, threads: int = 2) -> Generator[Out, None, None]:
    """``work`` of each item, in order, on up to ``threads`` threads. A single item uses no thread.

    One item more than there are threads is taken from ``items`` in advance.

    Each call has a copy of the caller's context, so that its time and its random numbers are the caller's.
    """
    drawn = list(itertools.islice(items := iter(items), 2))
    items = itertools.chain(drawn, items)
    if len(drawn) < 2:
        yield from map(work, items)
        return
    if not ambient.uses_threads():
        while begun := [ambient.without_thread(partial(work, item)) for item in itertools.islice(items, threads)]:
            for result in begun:
                yield result()
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    with ThreadPoolExecutor(threads, thread_name_prefix="txlog-work") as pool:
        ahead: deque[Future[Out]] = deque()
        for item in items:
            try:
                ahead.append(pool.submit(contextvars.copy_context().run, work, item))
            except RuntimeError:  # the interpreter is shutting down: finish the work on this thread
                ahead.append(Future())
                ahead[-1].set_result(work(item))
            if len(ahead) > threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
