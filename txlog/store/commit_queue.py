"""One writer of this machine at a time at the end of a local log: a courtesy that spares them lost races.

In: a log directory. Out: a ``Turn``, held while a commit looks at the log and puts its own. Nothing rests on it: who
gets none in time goes ahead without, and put-if-absent alone decides. It is a lock of the kernel's on the directory
itself (flock(2)), so that no file is left behind and a writer that dies holds nothing up.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Protocol

from txlog.store import disk
from txlog.util import ambient

__all__ = ["OPEN", "CommitQueue", "LocalTurnstile", "Turn"]

_WAIT_MAX_S = 2.0  # a stopped process may hold a turn for ever
_PASSED_BY_S = 10.0  # so long nobody asks again, after one wait in vain


class Turn:
    """What `CommitQueue.take` gave; ``descriptor`` is None where that is no turn."""

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = descriptor

    @property
    def keeps_order(self) -> bool:
        """Whether no name in the log is on disk without those made before it; False also where that is not known."""
        return self._descriptor is not None and disk.keeps_names_in_order(self._descriptor)

    def end(self) -> None:
        """Let the next one pass. To be called in the end, whatever happened, and as often as one likes."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            _unlock(descriptor)


class CommitQueue(Protocol):
    """Where writers of one table queue, if they do."""

    def take(self) -> Turn:
        """Wait for one's turn, a bounded time. Never raises for a turn that cannot be had."""


class _Open:
    def take(self) -> Turn:
        return Turn()


OPEN: CommitQueue = _Open()
"""Nobody waits: stores whose writers do not know of each other."""


class LocalTurnstile:
    """`CommitQueue` of the writers of this machine at a log ``directory``, which need not exist yet. Thread-safe."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._passed_by_until_s = 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        return (LocalTurnstile, (self._directory,))

    def take(self) -> Turn:
        started_s = ambient.monotonic_s()
        if started_s < self._passed_by_until_s:
            return Turn()
        try:
            descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return Turn()  # the first commit makes the directory
        try:
            if _lock(descriptor, wait=False):
                return Turn(descriptor)
        except (OSError, ImportError):  # a file system, or a platform, without such locks
            os.close(descriptor)
            return Turn()
        if _Place(descriptor).comes_up(_WAIT_MAX_S):
            return Turn(descriptor)
        self._passed_by_until_s = ambient.monotonic_s() + _PASSED_BY_S
        return Turn()


class _Place:
    """A place in the kernel's queue, which is fair and costs nothing to wait in. A thread stands there, since flock(2)
    knows no bound; where nobody waits for it any more, it lets the next one pass.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._answered = threading.Event()
        self._is_up = self._is_left = False

    def comes_up(self, within_s: float) -> bool:
        """Whether the descriptor has its lock within that time; else it is left alone, and closed."""
        try:
            threading.Thread(target=self._stand, name="txlog-commit_queue", daemon=True).start()
            return self._answered.wait(within_s) or not self._leave()
        except BaseException:  # Ctrl-C
            if not self._leave():
                _unlock(self._descriptor)
            raise

    def _leave(self) -> bool:
        """Whether that was in time: before one's turn came up."""
        with self._lock:
            self._is_left = not self._is_up
            return self._is_left

    def _stand(self) -> None:
        try:
            _lock(self._descriptor, wait=True)
        except OSError:  # who waits will go ahead without
            os.close(self._descriptor)
            return
        with self._lock:
            self._is_up = not self._is_left
            if self._is_left:
                _unlock(self._descriptor)
        self._answered.set()


def _lock(descriptor: int, *, wait: bool) -> bool:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unlock(descriptor: int) -> None:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing is not enough where a child was forked meanwhile
    finally:
        os.close(descriptor)
