"""A line of the writers of all machines that wait to commit to one table on an object store.

In: the folder ``_txlog/waiting`` of a table. Out: a `PlaceInQueue` for each commit. Without it the writer that won the
last race has the newest state, puts again at once, and wins again; the others starve.

How it works. A commit that lost two races leaves a mark, a small object named by its ``txnId``, and looks at the marks
of others. Those that were there before it go first: it reads version after version until their commits have landed,
then puts its own. A handle that commits back to back looks for marks during its put, which takes no time, at most every
half second; if there are some, its next commits join the line at once. So do the next commits of a handle that had to
wait, and a commit that lost a race to a version that carries the appends of several writers. A mark is deleted when its
commit has ended.

Correctness does not depend on any of this: put-if-absent alone decides. A mark is a hint that a crashed writer leaves
behind, that a slow store shows late, or that other engines do not know. So a commit waits only while the line moves:
if none of those ahead has landed for some seconds, it deletes the first one's mark and goes on without it.
"""

from __future__ import annotations

import contextvars
import math
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from txlog.core import ambient
from txlog.core.parallel import parallel_map
from txlog.core.store import LogStore, ObjectMeta
from txlog.errors import TxlogError

T = TypeVar("T")

_LOST_RACES_MIN = 2  # a race or two are lost anyway, and a mark takes a round trip
_CROWDED_S = 2.0  # how long a handle joins the line at once after it last saw others in it
_CROWDED_ROUND_TRIPS = 40  # the same on a slow store; the next two are shares of it
_BACK_TO_BACK = 1 / 2  # between two commits of a handle
_LOOK_EVERY = 1 / 4
STALL_S = 2.0  # in which nobody ahead lands: the first of them has crashed
_NEXT_STALL_S = 0.5  # for those that follow a crashed one
_ROUND_TRIPS_STALLED = 4  # the same in round trips, for each place in the line
_OLD_MS = 60_000  # a mark that is older than another one by so much was left by a crash
_PASSED_BY_MAX = 1000
_OUT_OF_ORDER_S = 60.0  # how long a handle does without a line whose folder could not be written
_MARK = b"{}"


class WaitingLine:
    """What one handle knows of the line. Thread-safe: what it keeps are hints, replaced as wholes."""

    def __init__(self, marks: LogStore, round_trip_s: Callable[[], float]) -> None:
        self.marks = marks
        self.round_trip_s = round_trip_s
        self.crowded_until_s = -math.inf
        self.out_of_order_until_s = -math.inf
        self._left_s = -math.inf
        self._looked_s = -math.inf
        self._passed_by: frozenset[str] = frozenset()

    def place(self, txn_id: str, counts: Callable[[str], bool] = lambda name: True) -> PlaceInQueue:
        """The place of one commit, which is not in the line yet. Names that do not count wait for nothing any more."""
        return PlaceInQueue(self, txn_id, counts)

    def is_crowded(self) -> bool:
        """Whether this handle has seen other writers wait a moment ago."""
        return ambient.monotonic_s() < self.crowded_until_s

    def saw(self, others: Iterable[str]) -> None:
        """Remember that others wait, if there are any."""
        if any(True for _ in others):
            self.saw_others()

    def saw_others(self) -> None:
        """Remember that others wait: one of them was seen, or a version with the appends of several."""
        self.crowded_until_s = ambient.monotonic_s() + self.memory_s()

    def pass_by(self, names: Iterable[str]) -> None:
        """Wait for these no more: they did not land in time. Their intents stay, for those who may commit them."""
        passed_by = self._passed_by if len(self._passed_by) < _PASSED_BY_MAX else frozenset()
        self._passed_by = passed_by.union(names)

    def still_waits_for(self, name: str) -> bool:
        """Whether this handle has not passed it by."""
        return name not in self._passed_by

    def memory_s(self) -> float:
        """How long what a handle saw of others counts. A version takes round trips, so more on a slow store."""
        return max(_CROWDED_S, _CROWDED_ROUND_TRIPS * self.round_trip_s())

    def look_is_due(self) -> bool:
        """Whether this handle commits back to back and has not looked for marks recently. If so, it looks now."""
        now_s, memory_s = ambient.monotonic_s(), self.memory_s()
        if now_s - self._left_s > _BACK_TO_BACK * memory_s or now_s - self._looked_s < _LOOK_EVERY * memory_s:
            return False
        self._looked_s = now_s
        return True

    def committed(self) -> None:
        """A commit of this handle has ended."""
        self._left_s = ambient.monotonic_s()

    def without_errors(self, request: Callable[[], object]) -> bool:
        """Make a request, and return whether it worked. If not, the handle does without a line for some time."""
        try:
            request()
        except TxlogError:
            self.is_out_of_order()
            return False
        return True

    def is_out_of_order(self) -> None:
        """The folder cannot be used: the handle does without it for some time."""
        self.out_of_order_until_s = ambient.monotonic_s() + _OUT_OF_ORDER_S

    def delete(self, *names: str) -> None:
        """Delete marks, or intents of appends whose fate is settled."""
        for name in names:
            self.without_errors(partial(self.marks.delete, name))

    def delete_mark(self, name: str) -> None:
        """The same for what another writer left. Its intent stays for those who may commit it."""
        if txn_id_of(name) == name:
            self.delete(name)

    def beside(self, request: Callable[[], object]) -> None:
        """Make a request on a thread of its own, for which a process that ends waits."""
        if not ambient.uses_threads():
            ambient.without_thread(partial(self.without_errors, request), ambient.Lanes(1))
            return
        run = contextvars.copy_context().run
        try:
            threading.Thread(target=run, args=(self.without_errors, request), name="txlog-line").start()
        except RuntimeError:  # the interpreter is about to end
            self.without_errors(request)


class PlaceInQueue:
    """The place of one commit in the line: outside, behind others, or first."""

    def __init__(self, line: WaitingLine, txn_id: str, counts: Callable[[str], bool]) -> None:
        self._line = line
        self._txn_id = txn_id
        self._counts = counts
        self._ahead: list[str] = []  # the names of those that go first, in order: marks and intents
        self._is_in_line = False
        self._moved_s = 0.0  # when the line moved last
        self._listed_s = 0.0
        self._stall_s = STALL_S

    def is_needed(self, lost_races: int) -> bool:
        """Whether this commit has to wait in line: it has lost races, or its handle knows of others that wait."""
        line = self._line
        if ambient.monotonic_s() < line.out_of_order_until_s:
            return False
        return self._is_in_line or lost_races >= _LOST_RACES_MIN or line.is_crowded()

    def join(self) -> None:
        """Leave a mark and look at other writers' marks, at the same time. Further calls do nothing."""
        if self._is_in_line:
            return
        self._is_in_line = True
        name, found = self._txn_id, []

        def leave_mark() -> None:
            self._line.marks.put(name, _MARK)

        def look() -> None:
            found.extend(self._line.marks.list_from(""))

        if all(list(parallel_map(self._line.without_errors, (leave_mark, look)))):
            self._ahead = self._others_before(found)
            self._line.saw(self._ahead)
        self._moved_s = self._listed_s = ambient.monotonic_s()

    def wait(self, follow: Callable[[], T | None], require_time: Callable[[], None]) -> T | None:
        """Let those go first that have waited for longer.

        ``follow`` reads what has landed meanwhile, and calls `landed`; the wait ends early with what it returns, if
        that is not None. ``require_time`` raises if the commit must wait no longer.
        """
        self.join()
        while self.is_behind():
            require_time()
            self.pause()
            ended = follow()
            if ended is not None:
                return ended
        return None

    def is_behind(self) -> bool:
        """Whether others go first."""
        return bool(self._ahead)

    def landed(self, txn_id: str) -> None:
        """A commit, or an append in it, has landed: whoever made it waits no longer."""
        before, self._ahead = len(self._ahead), [name for name in self._ahead if txn_id_of(name) != txn_id]
        if len(self._ahead) < before:
            self._moved()

    def pause(self) -> None:
        """Wait until those ahead may have landed: the first in line looks most often. Pass by one that has crashed."""
        round_trip_s = self._line.round_trip_s()
        ambient.sleep(ambient.uniform(0.0, round_trip_s * len(self._ahead) / 2))
        now_s = ambient.monotonic_s()
        if now_s - self._listed_s >= _LOOK_EVERY * self._line.memory_s():
            self._look_again()
        if (
            self._ahead
            and now_s - self._moved_s > self._stall_s + _ROUND_TRIPS_STALLED * len(self._ahead) * round_trip_s
        ):
            crashed = self._ahead.pop(0)
            self._line.delete_mark(crashed)
            self._line.pass_by((crashed,))
            self._moved()
            self._stall_s = _NEXT_STALL_S

    def look_beside(self) -> None:
        """Look for marks during the put that follows, if this handle commits back to back."""
        if not self._is_in_line and self._line.look_is_due():
            self._line.beside(lambda: self._line.saw(self._others(self._line.marks.list_from(""))))

    def leave(self) -> None:
        """The commit has ended: delete its mark, without a wait for it."""
        self._line.committed()
        if self._is_in_line:
            self._is_in_line = False
            self._line.beside(lambda: self._line.delete(self._txn_id))

    def _look_again(self) -> None:
        """Stop waiting for those whose marks are gone: they have given up, or were passed by."""
        found = list[ObjectMeta]()
        if self._line.without_errors(lambda: found.extend(self._line.marks.list_from(""))):
            names = {mark.name for mark in found}
            before, self._ahead = len(self._ahead), [name for name in self._ahead if name in names]
            if len(self._ahead) < before:
                self._moved()
            self._line.saw(self._others(found))
        self._listed_s = ambient.monotonic_s()

    def _others_before(self, found: Iterable[ObjectMeta]) -> list[str]:
        """Those that have waited for longer, in order, without those that crashed long ago. A mark of its own that the
        list lacks was put after all others in it."""
        order = sorted(found, key=lambda mark: (mark.modified_ms, mark.name))
        order = [mark for mark in order if mark.name == self._txn_id or self._waits_for(mark.name)]
        newest_ms = order[-1].modified_ms if order else 0
        names = [mark.name for mark in order]
        end = names.index(self._txn_id) if self._txn_id in names else len(names)
        for old in (mark for mark in order if newest_ms - mark.modified_ms > _OLD_MS):
            self._line.delete_mark(old.name)
        return [mark.name for mark in order[:end] if newest_ms - mark.modified_ms <= _OLD_MS]

    def _others(self, found: Iterable[ObjectMeta]) -> list[str]:
        return [mark.name for mark in found if mark.name != self._txn_id and self._counts(mark.name)]

    def _waits_for(self, name: str) -> bool:
        return self._counts(name) and self._line.still_waits_for(name)

    def _moved(self) -> None:
        self._moved_s = ambient.monotonic_s()
        self._line.saw(self._ahead)


def txn_id_of(name: str) -> str:
    """The commit that a name in the folder stands for."""
    from txlog.core.versions.decisions.intents import transaction_named  # not imported for an append

    return transaction_named(name)
