"""A queue for this machine's writers that commit to one log. It avoids lost races between them.

In: a log directory, or the URI of a table on an object store. Out: a `Turn`, held while a commit reads the end of the
log and puts its own file. Correctness does not depend on it: a writer that gets no turn in time commits without one,
and put-if-absent alone decides. The turn is a kernel lock (flock(2)), so a dead writer blocks no other. For a local log
it is on the directory itself, so no file is left behind; for an object store it is on a file in the temporary folder,
where each turn notes the newest version, so the next one need not ask the store for it.

A waiting writer polls with short pauses. A wait in the kernel would be first come, first served, but cannot be bounded:
each abandoned wait would leave a thread and a descriptor behind while another process holds the lock. Pauses make
polling nearly as fair: they shrink with a commit's age, so the oldest waiting commit looks most often, and is the most
likely to find the turn free. A commit that lost races keeps its age.

A wait ends without a turn if no commit lands for some time, since a stopped process may hold the turn
forever. While commits land, the queue moves, and waiting longer costs less than losing races to those in the queue.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from txlog.core import ambient
from txlog.core.store import _local_disk as disk

if TYPE_CHECKING:
    from txlog.core.store._handover_folder import HandOver

WAIT_MAX_S = 2.0  # without any commit landing
_WAITS_MAX = 5  # while commits land, the whole wait may take this many times as long
_PASSED_BY_S = 10.0  # how long writers of this process skip the queue after a wait that timed out
_PAUSE_MIN_S = 0.001  # sixteen writers that look more often take a fifth of the processors from whose turn it is
_PAUSE_MAX_S = 0.005
FAR_WAIT_MAX_S = 10.0  # the same four for stores with round trips, where a turn may also wait for other machines
_FAR_WAITS_MAX = 60
_FAR_PAUSE_MIN_S = 0.01
FAR_PAUSE_MAX_S = 0.5
TURN_S = 0.01  # a first guess of how long a turn takes
_TURN_WEIGHT = 0.2  # of one turn in the average
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
_NOTE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_NOTE_DIGITS = 20  # of each of the two numbers in a note

Meanwhile = Callable[[int], object]
Answered = Callable[[], bool]

_passed_by_until_s: dict[str, float] = {}
"""By path: until when writers of this process skip the queue after a wait timed out. A wait that ends with a turn
removes it: until then, no wait takes longer than the one that timed out."""


class Turn:
    """The result of `CommitQueue.take`: a turn, or none. It owns its descriptor from the moment it is opened.

    Ctrl-C can interrupt Python between any two steps, even between a call and the assignment of its result. So the
    descriptor goes from `os.open` into this object, and from here to `os.close`, within one C call each; and a turn
    without references ends by itself.
    """

    def __init__(self) -> None:
        self._descriptors: list[int] = []
        self._has_note = False
        self._process_id = os.getpid()
        self._began_s: float | None = None
        self._on_end: Callable[[float], None] | None = None

    @property
    def keeps_order(self) -> bool:
        """Whether a name in the log reaches the disk only after all names made before it. False if that is unknown."""
        return bool(self._descriptors) and disk.keeps_names_in_order(self._descriptors[0])

    @property
    def changed_ns(self) -> int:
        """When the queue last moved: a name appeared in the log directory, or a turn made a note. Raises OSError."""
        return os.fstat(self._descriptors[0]).st_mtime_ns

    @property
    def newest_version(self) -> int:
        """The newest version that an earlier turn noted; -1 if none did. Just a hint: the log itself decides."""
        return self._noted(0)

    @property
    def last_wait_s(self) -> float:
        """The noted age of the commit that last got the turn; older commits are next."""
        return max(0, self._noted(1)) / 1000

    def note(self, version: int) -> None:
        """Note the newest version for the next turns, and show waiting writers that the queue moves."""
        self._note(0, version)

    def note_wait(self, seconds: float) -> None:
        """Note the age of the commit that has this turn."""
        self._note(1, int(1000 * seconds))

    def _noted(self, place: int) -> int:
        if not self._descriptors or not self._has_note:
            return -1
        try:
            return int(os.pread(self._descriptors[0], _NOTE_DIGITS, place * _NOTE_DIGITS))
        except (OSError, ValueError):
            return -1

    def _note(self, place: int, number: int) -> None:
        if self._descriptors and self._has_note:
            with contextlib.suppress(OSError):  # the disk is full
                os.pwrite(self._descriptors[0], str(number).zfill(_NOTE_DIGITS).encode(), place * _NOTE_DIGITS)

    def time(self, on_end: Callable[[float], None]) -> None:
        """The turn has begun; ``on_end`` is called with its duration in seconds."""
        self._began_s, self._on_end = ambient.monotonic_s(), on_end

    def open(self, path: str, *, has_note: bool = False) -> None:
        """Raises OSError."""
        self._has_note = has_note
        self._descriptors.extend(map(os.open, (path,), (_NOTE if has_note else _DIRECTORY,), (0o600,)))

    def lock(self) -> bool:
        """Take the lock if it is free, and return whether it was. Raises OSError, ImportError."""
        import fcntl

        try:
            fcntl.flock(self._descriptors[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def end(self) -> None:
        """Release the turn. The caller must always call it in the end; more calls do nothing."""
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
    """The queue of one table's writers, on stores that have one."""

    @property
    def hand_over(self) -> HandOver | None:
        """Where those that wait can leave what they would commit; None if there is no such place."""

    def take(
        self, since_s: float | None = None, meanwhile: Meanwhile | None = None, answered: Answered | None = None
    ) -> Turn:
        """Wait for a turn, for a bounded time. Does not raise if there is none to get.

        Args:
            since_s: When the commit began, before its earlier turns and lost races, by `ambient.monotonic_s`; None
                means now. The longer ago, the sooner it gets this turn.
            meanwhile: Called during the wait, after each look, with the newest version that a turn noted.
            answered: Called after each look that found no free turn: whether the wait can end without one.
        """


class _Open:
    hand_over = None

    def take(
        self, since_s: float | None = None, meanwhile: Meanwhile | None = None, answered: Answered | None = None
    ) -> Turn:
        return Turn()


OPEN: CommitQueue = _Open()
"""A queue without waiting, for stores whose writers cannot see each other."""


class LocalCommitQueue:
    """`CommitQueue` for this machine's writers at a log ``directory``, which need not exist yet. Thread-safe."""

    def __init__(self, directory: str) -> None:
        self._path = directory
        self._turn_s = TURN_S

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._path,))

    @property
    def hand_over(self) -> HandOver | None:
        return None

    def take(
        self, since_s: float | None = None, meanwhile: Meanwhile | None = None, answered: Answered | None = None
    ) -> Turn:
        turn = Turn()
        try:
            if self._wait(turn, since_s, meanwhile, answered):
                turn.time(self._timed)
            else:
                turn.end()
        except (OSError, ImportError):  # no such directory yet, or no such locks on this file system or platform
            turn.end()
        except BaseException:  # Ctrl-C
            turn.end()
            raise
        return turn

    def _wait(self, turn: Turn, since_s: float | None, meanwhile: Meanwhile | None, answered: Answered | None) -> bool:
        """Wait for the lock while the queue moves, and return whether ``turn`` got it."""
        began_s = ambient.monotonic_s()
        passed_by_until_s = _passed_by_until_s.get(self._path)
        if passed_by_until_s is not None and began_s < passed_by_until_s:
            return False
        since_s = began_s if since_s is None else since_s
        wait_max_s, waits_max = self._limits()
        end_s = began_s + wait_max_s * (waits_max if passed_by_until_s is None else 1)
        self._open(turn)
        changed_ns, changed_s = turn.changed_ns, began_s
        while not turn.lock():
            if answered is not None and answered():
                return False
            now_s = ambient.monotonic_s()
            if turn.changed_ns != changed_ns:
                changed_ns, changed_s = turn.changed_ns, now_s
            if now_s >= min(end_s, changed_s + wait_max_s):
                _passed_by_until_s[self._path] = now_s + _PASSED_BY_S
                return False
            pause_s = self._pause_s(now_s - since_s, turn)
            ambient.sleep(ambient.uniform(pause_s / 2, pause_s))
            if meanwhile is not None and (noted := turn.newest_version) >= 0:
                meanwhile(noted)
        _passed_by_until_s.pop(self._path, None)
        turn.note_wait(ambient.monotonic_s() - since_s)
        return True

    def _pause_s(self, age_s: float, turn: Turn) -> float:
        """The longest pause before the next look: half a turn, or a tenth of that for a commit that is ten turns
        old, within limits."""
        turns = max(1.0, age_s / self._turn_s) if self._turn_s > 0 else 1.0
        return max(_PAUSE_MIN_S, min(_PAUSE_MAX_S, self._turn_s / 2 / turns))

    def _timed(self, seconds: float) -> None:
        self._turn_s += _TURN_WEIGHT * (seconds - self._turn_s)

    def _open(self, turn: Turn) -> None:
        turn.open(self._path)

    def _limits(self) -> tuple[float, int]:
        """How long a wait without a landing commit may take, in seconds, and how many times as long in total."""
        return WAIT_MAX_S, _WAITS_MAX


class MachineCommitQueue(LocalCommitQueue):
    """`CommitQueue` for one user's writers on this machine, at a table elsewhere. Thread-safe.

    The turn is on a file named ``name``, in the user's own folder below the temporary folder; two tables with one name
    would only wait for each other. A turn takes some round trips to the store, so writers wait longer. Each turn notes
    how old its commit was: younger ones rest until they are as old, so the oldest come next.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)

    @property
    def hand_over(self) -> HandOver | None:
        """None without a folder for temporary files, as in a container whose root cannot be written."""
        from txlog.core.store._handover_folder import HandOver

        try:
            return HandOver(f"{self._folder()}/{self._path}.offers")
        except OSError:
            return None

    def _folder(self) -> str:
        import tempfile

        return f"{tempfile.gettempdir()}/txlog-{os.getuid()}"

    def _open(self, turn: Turn) -> None:
        folder = self._folder()
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise OSError(f"{folder} is not a folder of this user")
        turn.open(f"{folder}/{self._path}", has_note=True)

    def _pause_s(self, age_s: float, turn: Turn) -> float:
        """The longest pause before the next look: a quarter of the time until this commit is next, within limits."""
        return max(_FAR_PAUSE_MIN_S, min(FAR_PAUSE_MAX_S, (turn.last_wait_s - age_s) / 4))

    def _limits(self) -> tuple[float, int]:
        return FAR_WAIT_MAX_S, _FAR_WAITS_MAX


def _unlock(descriptor: int) -> None:
    import fcntl

    with contextlib.suppress(OSError):  # closing is not enough if a child was forked meanwhile
        fcntl.flock(descriptor, fcntl.LOCK_UN)
