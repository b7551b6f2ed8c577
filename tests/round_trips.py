"""Counts the round trips that follow one another: of requests that are sent at the same time, only the longest counts.

Nothing is timed. A store counts its requests; where the code would use threads, `RoundTrips` runs each piece of work
from the same count, and a caller that waits for a result continues from the larger one.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.store import TableStore

__all__ = ["RoundTrips"]

Out = TypeVar("Out")

_REQUESTS = frozenset(
    ("delete", "delete_many", "list", "list_from", "open", "put", "put_if_absent", "read", "read_from", "stat", "write")
)


class RoundTrips(ambient.Ambient):
    """The time of a process that waits for nothing but its stores. ``count`` is the length of the longest chain of
    requests that follow one another, and ``requests`` are all of them, each with the round trip that it was part of."""

    uses_threads = False

    def __init__(self) -> None:
        self.count = 0
        self.thread = threading.get_ident()
        self.requests: list[tuple[int, str, str]] = []

    def without_thread(self, work: Callable[[], Out], lanes: ambient.Lanes) -> Callable[[], Out]:
        """The work begins as soon as a lane is free; a caller that asks for its result continues when it has ended."""
        if threading.get_ident() != self.thread:
            return super().without_thread(work, lanes)
        asked_at, lane = self.count, lanes.free_at.index(min(lanes.free_at))
        self.count = max(asked_at, lanes.free_at[lane])
        result = super().without_thread(work, lanes)
        ended_at = lanes.free_at[lane] = self.count
        self.count = asked_at

        def wait() -> Out:
            self.count = max(self.count, ended_at)
            return result()

        return wait

    def asks(self, name: str, what: str = "") -> None:
        """A request begins, and is answered before the thread goes on. What follows a commit is not counted."""
        if threading.get_ident() == self.thread:
            self.count += 1
            self.requests.append((self.count, name, what))

    def requests_of(self, name: str) -> int:
        """How many of them are of this kind."""
        return sum(name == each for _, each, _ in self.requests)

    def watched(self, store: TableStore) -> TableStore:
        """The same store, whose requests are counted."""
        named = ("log", "files", "staging", "named_versions", "iceberg", "waiting")
        found = {name: getattr(store, name) for name in named}
        return replace(store, **{name: _Counted(each, self) for name, each in found.items() if each is not None})

    @contextlib.contextmanager
    def of(self) -> Iterator[RoundTrips]:
        """Count what is asked inside, from zero."""
        self.count = 0
        self.thread = threading.get_ident()
        self.requests.clear()
        with ambient.use(self):
            yield self


class _Counted:
    def __init__(self, inner: Any, trips: RoundTrips) -> None:
        self._inner, self._trips = inner, trips

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in _REQUESTS:
            return found

        def request(*given: Any, **named: Any) -> Any:
            self._trips.asks(name, str(given[0]) if given else "")
            return found(*given, **named)

        return request
