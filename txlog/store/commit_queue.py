"""A queue for the writers of this machine that commit to one local log. It avoids lost races between them.

In: a log directory. Out: a `Turn`, held while a commit reads the end of the log and puts its own file. Correctness does
not depend on it: a writer that gets no turn in time commits without one, and put-if-absent alone decides. The turn is a
kernel lock on the directory itself (flock(2)), so that no file is left behind and a dead writer blocks no other.

A waiting writer polls with short pauses. A wait in the kernel would be first come, first served, but cannot be bounded:
each wait that is abandoned would leave a thread and a descriptor behind for as long as another process holds the lock.
Polling is made nearly as fair by the length of the pauses, which shrink with the age of a commit: of those that wait,
the oldest looks most often, and so is the most likely to find the turn free. A commit that lost races keeps its age.

A wait ends without a turn if the log directory does not change for some time, since a stopped process may hold the turn
forever. While commits land, the queue moves, and waiting longer costs less than losing races to those in the queue.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from txlog.store import disk
from txlog.util import ambient

__all__ = ["OPEN", "CommitQueue", "LocalCommitQueue", "Turn"]

_WAIT_MAX_S = 2.0  # in which no commit lands
_WAITS_MAX = 5  # while commits land, the whole wait may take this many times as long
_PASSED_BY_S = 10.0  # how long writers of this process skip the queue after a wait that timed out
_PAUSE_MIN_S = 0.000_5  # more often would cost waiting writers the processor that the one in its turn needs
_PAUSE_MAX_S = 0.005
_TURN_S = 0.01  # a first guess of how long a turn takes
_TURN_WEIGHT = 0.2  # of a turn in the average
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW

_passed_by_until_s: dict[str, float] = {}
"""By directory: until when writers of this process skip the queue, after a wait timed out. Removed by a wait that ends
with a turn: until then no further wait takes longer than the one that timed out."""


class Turn:
    """The result of `CommitQueue.take`: a turn, or none. It owns its descriptor from the moment it is opened.

    Ctrl-C can interrupt Python between any two steps, also between a call and the assignment of its result. So the
    descriptor goes from `os.open` into this object, and from here to `os.close`, within one C call each; and a turn
    without references ends by itself.
    """

    def __init__(self) -> None:
        self._descriptors: list[int] = []
        self._process_id = os.getpid()
        self._began_s: float | None = None
        self._on_end: Callable[[float], None] | None = None

    @property
    def keeps_order(self) -> bool:
        """Whether a name in the log reaches the disk only after all names made before it. False if that is unknown."""
        return bool(self._descriptors) and disk.keeps_names_in_order(self._descriptors[0])

    @property
    def changed_ns(self) -> int:
        """When a name in the log directory was made or removed last, as its file system tells. Raises OSError."""
        return os.fstat(self._descriptors[0]).st_mtime_ns

    def time(self, on_end: Callable[[float], None]) -> None:
        """The turn has begun; ``on_end`` is called with the seconds that it took."""
        self._began_s, self._on_end = ambient.monotonic_s(), on_end

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
        if self._on_end is not None and self._began_s is not None:
            self._on_end(ambient.monotonic_s() - self._began_s)
            self._on_end = None
        if self._process_id == os.getpid():  # in a forked child the lock is still the parent's
            _unlock(self._descriptors[0])
        deque(map(os.close, map(self._descriptors.pop, (0,))), maxlen=0)

    def __del__(self) -> None:
        if getattr(self, "_descriptors", None):  # Ctrl-C may come before the first line of `__init__`
            self.end()


class CommitQueue(Protocol):
    """The queue of the writers of one table, on stores that have one."""

    def take(self, since_s: float | None = None) -> Turn:
        """Wait for a turn, for a bounded time. Does not raise if there is none to get.

        Args:
            since_s: When the commit began, before turns that it had and races that it lost, by `ambient.monotonic_s`;
                None means now. The longer ago, the sooner it gets this turn.
        """


class _Open:
    def take(self, since_s: float | None = None) -> Turn:
        return Turn()


OPEN: CommitQueue = _Open()
"""A queue without waiting, for stores whose writers cannot see each other."""


class LocalCommitQueue:
    """`CommitQueue` of the writers of this machine at a log ``directory``, which need not exist yet. Thread-safe."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._turn_s = _TURN_S

    def __reduce__(self) -> tuple[Any, ...]:
        return (LocalCommitQueue, (self._directory,))

    def take(self, since_s: float | None = None) -> Turn:
        turn = Turn()
        try:
            if self._wait(turn, since_s):
                turn.time(self._timed)
            else:
                turn.end()
        except (OSError, ImportError):  # no such directory yet, or no such locks on this file system or platform
            turn.end()
        except BaseException:  # Ctrl-C
            turn.end()
            raise
        return turn

    def _wait(self, turn: Turn, since_s: float | None) -> bool:
        """Wait for the lock as long as the queue moves, and return whether ``turn`` got it."""
        began_s = ambient.monotonic_s()
        passed_by_until_s = _passed_by_until_s.get(self._directory)
        if passed_by_until_s is not None and began_s < passed_by_until_s:
            return False
        since_s = began_s if since_s is None else since_s
        end_s = began_s + _WAIT_MAX_S * (_WAITS_MAX if passed_by_until_s is None else 1)
        turn.open(self._directory)
        changed_ns, changed_s = turn.changed_ns, began_s
        while not turn.lock():
            now_s = ambient.monotonic_s()
            if turn.changed_ns != changed_ns:
                changed_ns, changed_s = turn.changed_ns, now_s
            if now_s >= min(end_s, changed_s + _WAIT_MAX_S):
                _passed_by_until_s[self._directory] = now_s + _PASSED_BY_S
                return False
            pause_s = self._pause_s(now_s - since_s)
            ambient.sleep(ambient.uniform(pause_s / 2, pause_s))
        _passed_by_until_s.pop(self._directory, None)
        return True

    def _pause_s(self, age_s: float) -> float:
        """The longest pause before the next look: a quarter of a turn, or for a commit that is ten turns old a tenth
        of that, within limits."""
        turns = max(1.0, age_s / self._turn_s) if self._turn_s > 0 else 1.0
        return max(_PAUSE_MIN_S, min(_PAUSE_MAX_S, self._turn_s / 4 / turns))

    def _timed(self, seconds: float) -> None:
        self._turn_s += _TURN_WEIGHT * (seconds - self._turn_s)


def _unlock(descriptor: int) -> None:
    import contextlib
    import fcntl

    with contextlib.suppress(OSError):  # closing is not enough if a child was forked meanwhile
        fcntl.flock(descriptor, fcntl.LOCK_UN)
