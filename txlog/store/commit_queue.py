"""A queue for the writers of this machine that commit to one local log. It avoids lost races between them.

In: a log directory. Out: a `Turn`, held while a commit reads the end of the log and puts its own file. Correctness does
not depend on it: a writer that gets no turn in time commits without one, and put-if-absent alone decides. The turn is a
kernel lock on the directory itself (flock(2)), so that no file is left behind and a dead writer blocks nobody.

A waiting writer polls with short pauses. A wait in the kernel would be fairer, but cannot be bounded: each wait that is
abandoned would leave a thread and a descriptor behind for as long as another process holds the lock.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Any, Protocol

from txlog.store import disk
from txlog.util import ambient

__all__ = ["OPEN", "CommitQueue", "LocalCommitQueue", "Turn"]

_WAIT_MAX_S = 2.0  # a stopped process may hold a turn for ever
_PASSED_BY_S = 10.0  # how long writers of this process skip the queue after a wait that timed out
_PAUSE_MIN_S = 0.000_25
_PAUSE_MAX_S = 0.002  # as long as a commit takes on a fast disk, so that a free turn is found soon
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW

_passed_by_until_s: dict[str, float] = {}
"""By directory: until when writers of this process skip the queue, after a wait timed out."""


class Turn:
    """The result of `CommitQueue.take`: a turn, or none. It owns its descriptor from the moment it is opened.

    Ctrl-C can interrupt Python between any two steps, also between a call and the assignment of its result. So the
    descriptor goes from `os.open` into this object, and from here to `os.close`, within one C call each; and a turn
    without references ends by itself.
    """

    def __init__(self) -> None:
        self._descriptors: list[int] = []
        self._process_id = os.getpid()

    @property
    def keeps_order(self) -> bool:
        """Whether a name in the log reaches the disk only after all names made before it. False if that is unknown."""
        return bool(self._descriptors) and disk.keeps_names_in_order(self._descriptors[0])

    def open(self, directory: str) -> None:
        """Raises OSError."""
        self._descriptors.extend(map(os.open, (directory,), (_DIRECTORY,)))

    def lock(self) -> bool:
        """Take the lock if it is free, and return whether it was. Raises OSError, ImportError."""
        import fcntl

        try:
            fcntl.flock(self._descriptors[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def end(self) -> None:
        """Release the turn. The caller must always call it in the end; further calls do nothing."""
        if not self._descriptors:
            return
        if self._process_id == os.getpid():  # in a forked child the lock is still the parent's
            _unlock(self._descriptors[0])
        deque(map(os.close, map(self._descriptors.pop, (0,))), maxlen=0)

    def __del__(self) -> None:
        if getattr(self, "_descriptors", None):  # Ctrl-C may come before the first line of `__init__`
            self.end()


class CommitQueue(Protocol):
    """The queue of the writers of one table, on stores that have one."""

    def take(self) -> Turn:
        """Wait for a turn, for a bounded time. Does not raise if there is none to get."""


class _Open:
    def take(self) -> Turn:
        return Turn()


OPEN: CommitQueue = _Open()
"""A queue without waiting, for stores whose writers cannot see each other."""


class LocalCommitQueue:
    """`CommitQueue` of the writers of this machine at a log ``directory``, which need not exist yet. Thread-safe."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def __reduce__(self) -> tuple[Any, ...]:
        return (LocalCommitQueue, (self._directory,))

    def take(self) -> Turn:
        turn = Turn()
        try:
            if not self._wait(turn):
                turn.end()
        except (OSError, ImportError):  # no such directory yet, or no such locks on this file system or platform
            turn.end()
        except BaseException:  # Ctrl-C
            turn.end()
            raise
        return turn

    def _wait(self, turn: Turn) -> bool:
        """Wait up to `_WAIT_MAX_S` for the lock, and return whether ``turn`` got it."""
        began_s = ambient.monotonic_s()
        if began_s < _passed_by_until_s.get(self._directory, began_s):
            return False
        turn.open(self._directory)
        pause_s = _PAUSE_MIN_S
        while not turn.lock():
            if ambient.monotonic_s() - began_s >= _WAIT_MAX_S:
                _passed_by_until_s[self._directory] = ambient.monotonic_s() + _PASSED_BY_S
                return False
            ambient.sleep(ambient.uniform(pause_s / 2, pause_s))
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)
        _passed_by_until_s.pop(self._directory, None)
        return True


def _unlock(descriptor: int) -> None:
    import contextlib
    import fcntl

    with contextlib.suppress(OSError):  # closing is not enough where a child was forked meanwhile
        fcntl.flock(descriptor, fcntl.LOCK_UN)
