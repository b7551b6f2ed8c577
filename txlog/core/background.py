"""Background work of a handle, which a process finishes before it ends.

In: a piece of work, and a description of it. Out: nothing; the work reports its own errors. One piece runs at a time,
on its own thread, and at most one waits. An ending process waits for all of them together, for at most 300 seconds, or
what the environment variable ``TXLOG_END_WAIT_S`` says. What is not done by then is left to the next writer, who finds
it due; one warning names it. The wait begins before Python's thread pools refuse work.
"""

from __future__ import annotations

import atexit
import contextvars
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from txlog.core import ambient
from txlog.core.parallel import new_lock
from txlog.core.util import logger

END_WAIT = "TXLOG_END_WAIT_S"
"""The environment variable that says how long an ending process waits for background work."""
_END_WAIT_S = 300.0


class _Piece(NamedTuple):
    what: str
    work: Callable[[], Any]


class Background:
    """One kind of work of one handle. Thread-safe, even after a fork: the child starts without its parent's work."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = new_lock()
        self._thread: threading.Thread | None = None
        self._running: _Piece | None = None
        self._waiting: _Piece | None = None
        _all.add(self)

    @property
    def is_busy(self) -> bool:
        """Whether work runs."""
        return self._thread is not None

    def begin(self, what: str, work: Callable[[], Any], *, waits: bool = False) -> bool:
        """Start ``work``, in the caller's context; False if other work runs.

        With ``waits``, it then runs afterwards, in place of work that was already waiting. ``what`` completes the
        sentence "The process ends without ...". While the process ends, and in a process that may be terminated at any
        time, this call returns when the work is done.
        """
        piece = _Piece(what, partial(contextvars.copy_context().run, work))
        _wait_at_end()
        has_begun = self._has_begun(piece, waits=waits)
        if _ending:
            _wait_at_the_end_for([self])
        elif _may_be_terminated():
            wait_for([self])
        return has_begun

    def _has_begun(self, piece: _Piece, *, waits: bool) -> bool:
        with self._lock:
            if self._thread is not None:
                if waits:
                    self._waiting = piece
                return False
            try:
                self._thread = threading.Thread(target=self._run, args=(piece,), name=self.name, daemon=True)
                self._running = piece
                _given_up.discard(self)
                self._thread.start()
                return True
            except RuntimeError:  # the interpreter is ending and no longer starts threads
                self._thread, self._running = None, None
            except BaseException:  # Ctrl-C: the thread may run or not, and finds that it is not wanted
                self._thread, self._running = None, None
                raise
        piece.work()
        return True

    def drain(self, timeout_s: float | None = None) -> bool:
        """Wait until nothing runs or waits; False if it still does after ``timeout_s``."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)
            return not thread.is_alive()
        return True

    def given_up(self) -> list[str]:
        """Stop starting work, and return what has not ended, in words."""
        with self._lock:
            left = [piece.what for piece in (self._running, self._waiting) if piece is not None]
            self._waiting = None
            return left

    def forget(self) -> None:
        """For a forked process: it lacks the parent's thread, and the parent does its work itself."""
        self._thread = self._running = self._waiting = None

    def _run(self, piece: _Piece) -> None:
        with self._lock:
            if self._thread is not threading.current_thread():
                return
        current: _Piece | None = piece
        while current is not None:
            try:
                current.work()
            except BaseException as error:  # the thread continues with what waits
                logger.warning("work in the background failed: %s", error)
            with self._lock:
                current, self._waiting = self._waiting, None
                self._running = current
                if current is None:
                    self._thread = None


_all: weakref.WeakSet[Background] = weakref.WeakSet()
_registered_in: int | None = None
_ending = False
_waited_s = 0.0  # by the main thread, at the end of the process
_given_up: weakref.WeakSet[Background] = weakref.WeakSet()


def _wait_at_end() -> None:
    """Make the end of this process wait before the thread pools of ``concurrent.futures`` refuse work."""
    global _registered_in
    if _registered_in is not None:
        return
    _registered_in = os.getpid()
    import concurrent.futures.thread  # noqa: F401  registered first, so called last

    atexit.register(_drain_all)  # for threads that committed since, and interpreters without the other hook
    try:
        threading._register_atexit(_drain_all)  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError):  # it is missing, or the process is already ending
        global _ending
        _ending = True


def wait_for(backgrounds: Iterable[Background], *, most_s: float | None = None) -> None:
    """Wait for their work; one warning names what did not end in time.

    ``most_s`` is by default how long an ending process waits.
    """
    most_s = _end_wait_s() if most_s is None else most_s
    ends_s = ambient.monotonic_s() + most_s
    left: list[str] = []
    for each in backgrounds:
        if each not in _given_up and not each.drain(max(0.0, ends_s - ambient.monotonic_s())):
            _given_up.add(each)
            left += each.given_up()
    if left:
        logger.warning(
            "The process ends without %s, which did not end within %g s (%s). Every commit is safe, and the next writer"
            " does the rest",
            ", ".join(left),
            _end_wait_s(),
            END_WAIT,
        )


def _drain_all() -> None:
    global _ending
    _ending = True
    _wait_at_the_end_for(list(_all))


def _wait_at_the_end_for(backgrounds: Iterable[Background]) -> None:
    """Like `wait_for`. However often it is called, the main thread waits no longer than that in total."""
    global _waited_s
    if threading.current_thread() is not threading.main_thread():
        wait_for(backgrounds)
        return
    began_s = ambient.monotonic_s()
    wait_for(backgrounds, most_s=max(0.0, _end_wait_s() - _waited_s))
    _waited_s += ambient.monotonic_s() - began_s


def _may_be_terminated() -> bool:
    """Whether this is a daemonic child of ``multiprocessing``, such as a worker of ``Pool``: its parent ends it with
    SIGTERM as soon as it has all results, so that no handler runs."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.current_process().daemon


def _end_wait_s() -> float:
    asked = os.environ.get(END_WAIT, "")
    try:
        return min(max(0.0, float(asked or _END_WAIT_S)), threading.TIMEOUT_MAX)
    except ValueError:
        logger.warning("%s=%s is not a number of seconds; using %g", END_WAIT, asked, _END_WAIT_S)
        return _END_WAIT_S


def _forget_all() -> None:
    global _ending, _waited_s
    _ending, _waited_s = False, 0.0
    _given_up.clear()
    for each in list(_all):
        each.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
