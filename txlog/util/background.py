"""Work in the background of a handle, which a process finishes before it ends.

In: a piece of work. Out: nothing; the work reports its own errors. One piece runs at a time, on a thread of its own,
and at most one waits. A process that ends waits for all of them together, up to ``END_WAIT_S``; what is not done by
then is left to the next writer, who finds it due. The wait begins before Python's thread pools refuse work.
"""

from __future__ import annotations

import atexit
import contextvars
import os
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from txlog.util import ambient
from txlog.util.locks import new_lock
from txlog.util.logs import logger

__all__ = ["END_WAIT_S", "Background"]

END_WAIT_S = 300.0
"""How long the end of a process waits for work in the background."""

Work = Callable[[], Any]


class Background:
    """The work of one kind of one handle. Thread-safe, also after a fork: the child starts without its parent's."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = new_lock()
        self._thread: threading.Thread | None = None
        self._waiting: Work | None = None
        _all.add(self)

    @property
    def is_busy(self) -> bool:
        """Whether work runs."""
        return self._thread is not None

    def begin(self, work: Work, *, waits: bool = False) -> bool:
        """Start ``work``, in the caller's context; False if other work runs.

        With ``waits`` it then runs afterwards, in place of work that has waited already.
        While the process ends, this call returns when the work is done.
        """
        in_context = contextvars.copy_context().run
        _wait_at_end()
        with self._lock:
            if self._thread is not None:
                if waits:
                    self._waiting = partial(in_context, work)
                return False
            self._thread = thread = threading.Thread(
                target=self._run, args=(partial(in_context, work),), name=self.name, daemon=True
            )
            try:
                thread.start()
                has_begun = True
            except RuntimeError:  # the interpreter is so far gone that it starts no thread
                self._thread, has_begun = None, False
        if not has_begun:
            in_context(work)
        elif _ending:
            thread.join(END_WAIT_S)
        return True

    def drain(self, timeout_s: float | None = None) -> bool:
        """Wait until nothing runs or waits; False if it still does after ``timeout_s``."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)
            return not thread.is_alive()
        return True

    def forget(self) -> None:
        """In a forked process: the parent's thread is not here, and the parent does its work itself."""
        self._thread = self._waiting = None

    def _run(self, work: Work) -> None:
        current: Work | None = work
        while current is not None:
            try:
                current()
            except BaseException as error:  # the thread goes on with what waits
                logger.warning("work in the background failed: %s", error)
            with self._lock:
                current, self._waiting = self._waiting, None
                if current is None:
                    self._thread = None


_all: weakref.WeakSet[Background] = weakref.WeakSet()
_registered_in: int | None = None
_ending = False


def _wait_at_end() -> None:
    """Have the end of this process wait, before the thread pools of ``concurrent.futures`` begin to refuse work."""
    global _registered_in
    if _registered_in is not None:
        return
    _registered_in = os.getpid()
    import concurrent.futures.thread  # noqa: F401  registered first, so called last

    atexit.register(_drain_all)  # for threads that have committed since, and interpreters without the other
    try:
        threading._register_atexit(_drain_all)  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError):  # not there, or the process is ending already
        global _ending
        _ending = True


def _drain_all() -> None:
    global _ending
    _ending = True
    ends_s = ambient.monotonic_s() + END_WAIT_S
    for each in list(_all):
        if not each.drain(max(0.0, ends_s - ambient.monotonic_s())):
            logger.warning(
                "%s has not ended within %g s and is given up, since the process ends. Every commit is safe; the next"
                " writer does the work",
                each.name,
                END_WAIT_S,
            )


def _forget_all() -> None:
    global _ending
    _ending = False
    for each in list(_all):
        each.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
