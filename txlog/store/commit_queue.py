"""One writer of this machine at a time at the end of a local log: a courtesy that spares them lost races.

In: a log directory. Out: a `Turn`, held while a commit looks at the log and puts its own. Nothing rests on it: a writer
that gets none in time goes ahead without, and put-if-absent alone decides. It is a lock of the kernel's on the
directory itself (flock(2)), so that no file is left behind and a writer that dies holds nothing up.

A writer that waits asks again after short pauses. A wait in the kernel would be fairer, but has no bound: each one that
ends in time would leave a thread and a descriptor behind for as long as somebody else holds the lock.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Any, Protocol

from txlog.store import disk
from txlog.util import ambient

__all__ = ["OPEN", "CommitQueue", "LocalCommitQueue", "Turn"]

_WAIT_MAX_S = 2.0  # a stopped process may hold a turn for ever
_PASSED_BY_S = 10.0  # how long no writer of this process asks again after a wait that ended without a turn
_PAUSE_MIN_S = 0.000_25
_PAUSE_MAX_S = 0.002  # as long as a fast disk takes for a commit, so that a free turn is soon found
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW

_passed_by_until_s: dict[str, float] = {}
"""By directory: until when its turns are not asked for, since one was not to be had."""


class Turn:
    """What `CommitQueue.take` gave: a turn, or none. It owns its descriptor from the moment that is opened.

    Ctrl-C can come between any two steps of Python, also between a call and the keeping of its result. So the
    descriptor goes from `os.open` to this object, and from here to `os.close`, inside one call of C each; and a turn
    that nobody holds any more ends by itself.
    """

    def __init__(self) -> None:
        self._descriptors: list[int] = []
        self._process_id = os.getpid()

    @property
    def keeps_order(self) -> bool:
        """Whether no name in the log is on disk without those made before it; False also where that is not known."""
        return bool(self._descriptors) and disk.keeps_names_in_order(self._descriptors[0])

    def open(self, directory: str) -> None:
        """Raises OSError."""
        self._descriptors.extend(map(os.open, (directory,), (_DIRECTORY,)))

    def lock(self) -> bool:
        """Whether the lock was free; if so it is held from now on. Raises OSError, ImportError."""
        import fcntl

        try:
            fcntl.flock(self._descriptors[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def end(self) -> None:
        """Let the next one pass. To be called in the end, whatever happened; again it does nothing."""
        if not self._descriptors:
            return
        if self._process_id == os.getpid():  # in a forked child the lock is still the parent's
            _unlock(self._descriptors[0])
        deque(map(os.close, map(self._descriptors.pop, (0,))), maxlen=0)

    def __del__(self) -> None:
        if getattr(self, "_descriptors", None):  # Ctrl-C may come before the first line of `__init__`
            self.end()


class CommitQueue(Protocol):
    """Where writers of one table queue, if they do."""

    def take(self) -> Turn:
        """Wait for a turn, a bounded time. Never raises for a turn that cannot be had."""


class _Open:
    def take(self) -> Turn:
        return Turn()


OPEN: CommitQueue = _Open()
"""Nobody waits: stores whose writers do not know of each other."""


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
        """Whether ``turn`` has the lock within `_WAIT_MAX_S`."""
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
