"""Calls on a few threads, for work that waits for a store or releases Python's lock, such as encoding; and their locks.

In: calls, or a function and an iterable of its arguments. Out: their results; a map's results in order. A map computes
only a few results ahead of the caller, which bounds the memory.

This does not use ``ThreadPoolExecutor``: it refuses all calls as soon as the interpreter begins to end, although the
user's exit handlers and threads still commit, and an ending process waits for its threads without a limit. The threads
here work until the interpreter has ended. If no more can be started, the caller's thread does the work.
"""

from __future__ import annotations

import contextvars
import itertools
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from txlog.core import ambient

if TYPE_CHECKING:
    from concurrent.futures import Future

    from typing_extensions import Self

In = TypeVar("In")
Out = TypeVar("Out")

_IDLE_S = 1.0
"""An idle thread ends after this time, so workers that are never closed leave nothing behind."""


def begin(work: Callable[[], Out]) -> Callable[[], Out]:
    """Start ``work`` in parallel with the caller; the returned function waits for its result.

    For requests whose answers are needed later, or never: a caller that fails meanwhile does not wait, and the thread
    ends with the request. What ``work`` raises is raised where the result is asked for. Each call has a copy of the
    caller's context. Without threads the work is done here and now.
    """
    return Threads(1, idle_s=0.0).submit(work).result if ambient.uses_threads() else ambient.beside(work)


def parallel_map(work: Callable[[In], Out], items: Iterable[In], *, threads: int = 2) -> Generator[Out, None, None]:
    """``work`` of each item, in order, on up to ``threads`` threads. A single item uses no thread.

    It takes one item more than there are threads from ``items`` in advance. Once the caller stops, or an item fails, no
    new call begins.

    Each call has a copy of the caller's context, so it uses the caller's time and random numbers.
    """
    drawn = list(itertools.islice(items := iter(items), 2))
    items = itertools.chain(drawn, items)
    if len(drawn) < 2:
        yield from map(work, items)
        return
    with Threads(threads) as workers:
        yield from workers.map(work, items, ahead=threads)


def do_all(work: Callable[[In], object], items: Collection[In], *, threads: int, few: int = 1) -> None:
    """`parallel_map` for what ``work`` does. Up to ``few`` items use no thread: it would cost more than these calls."""
    for _ in map(work, items) if len(items) <= few else parallel_map(work, items, threads=threads):
        pass


class Threads:
    """Up to ``most`` threads that make calls. Use as a context manager, or call `close`. Thread-safe.

    A thread without a call waits ``idle_s`` seconds for the next one. Where the caller's `ambient` has no threads, the
    ambient makes the calls.
    """

    def __init__(self, most: int, name: str = "txlog-work", *, idle_s: float = _IDLE_S) -> None:
        self._most = most
        self._name = name
        self._idle_s = idle_s
        self._lanes = ambient.Lanes(most)
        # Taken itself: a Ctrl-C between a condition's own `__enter__` and the block would leave it locked forever.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(self, work: Callable[..., Out], /, *arguments: Any) -> Future[Out]:
        """Make a call in a copy of the caller's context, as soon as a thread is free. The future gets its result.

        If there is no thread and none can be started, the call is done when this returns.
        """
        call = partial(contextvars.copy_context().run, work, *arguments)
        if not ambient.uses_threads():
            return cast("Future[Out]", _WithoutThread(ambient.without_thread(call, self._lanes)))
        from concurrent.futures import Future

        future: Future[Out] = Future()
        with self._lock:
            self._calls.append((future, call))
            if self._idle >= len(self._calls):
                self._changed.notify()
                return future
            if len(self._threads) >= self._most or self._has_started_one() or self._threads:
                return future
            self._calls.pop()
        _make(future, call)
        return future

    def map(self, work: Callable[[In], Out], items: Iterable[In], *, ahead: int) -> Generator[Out, None, None]:
        """``work`` of each item, in order. Up to ``ahead`` calls are made, or wait for a thread, before the caller asks
        for their results; if the caller stops, those that wait are not made."""
        made: deque[Future[Out]] = deque()
        try:
            for item in items:
                made.append(self.submit(work, item))
                if len(made) > ahead:
                    yield made.popleft().result()
            while made:
                yield made.popleft().result()
        finally:
            for call in made:
                call.cancel()

    def close(self) -> None:
        """Let no new call begin, and wait for running ones."""
        with self._lock:
            self._is_closed = True
            left = list(self._calls)
            self._calls.clear()
            self._changed.notify_all()
            threads = list(self._threads)
        for future, _ in left:
            future.cancel()
        for thread in threads:
            thread.join()

    def _has_started_one(self) -> bool:
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the interpreter is about to end, or the machine cannot run another thread
            return False
        self._threads.add(thread)
        return True

    def _run(self) -> None:
        while (taken := self._next()) is not None:
            _make(*taken)
            del taken

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        with self._lock:
            while not self._calls:
                self._idle += 1
                is_called = not self._is_closed and self._changed.wait(self._idle_s)
                self._idle -= 1
                if not self._calls and not is_called:
                    self._threads.discard(threading.current_thread())
                    return None
            return self._calls.popleft()


class _WithoutThread(Generic[Out]):
    """The part of a `Future` that callers use, of a call that an `ambient` without threads makes."""

    def __init__(self, result: Callable[[], Out]) -> None:
        self.result = result

    def cancel(self) -> bool:
        return False


def can_start_threads() -> bool:
    """Whether threads can be started, which the interpreter refuses shortly before it ends."""
    if not ambient.uses_threads():
        return False
    thread = threading.Thread(target=int, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return False
    thread.join()
    return True


def _make(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
    finally:
        del future, call  # the error refers to this frame


_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def new_lock() -> threading.RLock:
    """A reentrant lock. After a fork, the child's lock is free, unless the forking thread holds it.

    A fork copies locks as they are, but only the forking thread: a lock held by another thread would stay locked in the
    child forever. So every lock that a background thread may hold comes from here.
    """
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _free_all() -> None:
    for lock in list(_locks):
        if not lock._is_owned():
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all)
