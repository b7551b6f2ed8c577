"""What a service counts, and the room that it has for rows.

In: what happens to batches. Out: numbers by name and table, as Prometheus and OpenTelemetry take them; and a bound on
the bytes that wait.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol

import msgspec

from txlog.extend import Point
from txlog.extend.catalogs import ambient
from txlog.result import counted
from txlog.serve.batches import BusyError


class Tick(msgspec.Struct, frozen=True):
    """One commit of a table's waiting batches. ``seconds`` is from its first file to its commit."""

    table: str
    version: int | None
    batches: int
    rows: int
    size_bytes: int
    seconds: float

    def __str__(self) -> str:
        took = f"{1000 * self.seconds:.0f} ms"
        batches = "1 batch" if self.batches == 1 else f"{self.batches:,} batches"
        return f"{self.table} v{self.version}: {counted(self.rows, 'row')} of {batches}, {took}"


DESCRIBED = {
    "batches": "Batches by what became of them",
    "rows": "Rows that landed",
    "commits": "Versions that the service made",
    "commit_seconds": "Time that the service's commits took",
    "failed_commits": "Commits that failed: their batches were refused, or are tried again",
    "waiting_bytes": "Bytes of rows that wait",
    "waiting_batches": "Batches that wait",
}
"""The name of each number, and what it is. Those that wait go up and down; all others only grow."""


class Number(msgspec.Struct, frozen=True):
    """A number of a service, under its name in `DESCRIBED`."""

    name: str
    labels: Mapping[str, str]
    value: float

    @property
    def goes_down(self) -> bool:
        """Whether it is about what waits now; all others only grow."""
        return self.name.startswith("waiting")


class ObservesNumbers(Protocol):
    """What a package offers in the group ``txlog.metrics``."""

    def __call__(self, described: Mapping[str, str], numbers: Callable[[], Iterable[Number]]) -> None:
        """Have the numbers exported, from now on to the end of the process.

        Args:
            described: The name of each number, and what it is.
            numbers: Returns all numbers as they are now. Thread-safe.
        """


METRICS: Final[Point[ObservesNumbers]] = Point("txlog.metrics", "what exports metrics to")


class Counts:
    """Numbers of one service, by name, table and outcome. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: Counter[tuple[str, str, str]] = Counter()

    def add(self, name: str, table: str, amount: float = 1, outcome: str = "") -> None:
        """Count something. ``table`` is one that exists, so that no client makes new numbers."""
        with self._lock:
            self._numbers[name, table, outcome] += amount  # type: ignore[assignment]

    def ticked(self, tick: Tick) -> None:
        """Count a commit."""
        self.add("commits", tick.table)
        self.add("rows", tick.table, tick.rows)
        self.add("commit_seconds", tick.table, tick.seconds)

    def numbers(self) -> Iterator[Number]:
        """Each number that was counted."""
        with self._lock:
            found = sorted(self._numbers.items())
        for (name, table, outcome), value in found:
            yield Number(name, {"table": table, **({"outcome": outcome} if outcome else {})}, value)


def to_text(numbers: Iterable[Number]) -> str:
    """Numbers in the text format of Prometheus."""
    lines: dict[str, list[str]] = {}
    for each in numbers:
        full = f"txlog_serve_{each.name}" if each.goes_down else f"txlog_serve_{each.name}_total"
        kind = "gauge" if each.goes_down else "counter"
        said = lines.setdefault(full, [f"# HELP {full} {DESCRIBED[each.name]}", f"# TYPE {full} {kind}"])
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in each.labels.items())
        said.append(f"{full}{{{shown}}} {each.value:.15g}")
    return "\n".join([*itertools.chain.from_iterable(lines.values()), ""])


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


class Room:
    """The bytes that rows may take while they wait. Thread-safe.

    Args:
        most_bytes: The bound. A single batch that is larger is still taken if nothing else waits.
        wait_s: How long a client waits for room before it is told to come back.
    """

    def __init__(self, most_bytes: int, wait_s: float) -> None:
        self._most_bytes = most_bytes
        self._wait_s = wait_s
        self._freed = threading.Condition()
        self.used_bytes = 0

    def take(self, size_bytes: int, *, waits: bool | float = True) -> None:
        """Take room, once there is some.

        Args:
            size_bytes: How much.
            waits: Whether to wait for it, or for how many seconds.

        Raises:
            BusyError: There was none in time.
        """
        until_s = ambient.monotonic_s() + (self._wait_s if waits is True else waits)
        with self._freed:
            while self.used_bytes and self.used_bytes + size_bytes > self._most_bytes:
                left_s = until_s - ambient.monotonic_s()
                if left_s <= 0:
                    raise BusyError(
                        f"rows of {self.used_bytes:,} bytes wait for their tables, and there is room for"
                        f" {self._most_bytes:,}: send the batch again in a moment"
                    )
                self._freed.wait(left_s)
            self.used_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        """What `take` took is free."""
        with self._freed:
            self.used_bytes -= size_bytes
            self._freed.notify_all()
