"""Shared by the unit tests: a clock that moves only when told, and a log store whose answers a test can script.

What a test measures it records as a property named ``measured``; the summary of the run shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pyarrow as pa
import pytest

from txlog import ambient
from txlog.engine import Engine
from txlog.store.base import ObjectMeta, PutOutcome, TableStore
from txlog.store.retry import RetryPolicy
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore

# A slow machine is no failure, so no example has a deadline.
hypothesis.settings.register_profile("txlog", deadline=None)
hypothesis.settings.load_profile("txlog")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "measured":
                terminalreporter.write_line(value)


class ScriptedClock(ambient.Ambient):
    """Sleeping takes no time but moves the clock; jitter is the longest it can be."""

    def __init__(self) -> None:
        self.elapsed_s = 0.0
        self.slept_s: list[float] = []

    def now_ms(self) -> int:
        return 1_700_000_000_000 + int(self.elapsed_s * 1000)

    def monotonic_s(self) -> float:
        return 1000.0 + self.elapsed_s

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.elapsed_s += max(seconds, 0.001)

    def uniform(self, low: float, high: float) -> float:
        return high


Step = Callable[..., Any]


class ScriptedLogStore:
    """A `LogStore` over memory that records every call. ``script[operation]`` holds steps for its next calls.

    A step is called with the real operation and its arguments and answers in its place; None passes through.
    """

    lists_itself_completely = True
    checks_predecessor = True

    def __init__(self) -> None:
        self.inner = MemoryLogStore()
        self.calls: list[tuple[str, str]] = []
        self.script: dict[str, list[Step | None]] = {}

    def _call(self, operation: str, name: str, *arguments: Any) -> Any:
        self.calls.append((operation, name))
        real = getattr(self.inner, operation)
        steps = self.script.get(operation, [])
        step = steps.pop(0) if steps else None
        return real(name, *arguments) if step is None else step(real, name, *arguments)

    def list_from(self, start: str) -> list[ObjectMeta]:
        found: list[ObjectMeta] = self._call("list_from", start)
        return found

    def read(self, name: str) -> bytes:
        body: bytes = self._call("read", name)
        return body

    def head(self, name: str) -> ObjectMeta:
        found: ObjectMeta = self._call("head", name)
        return found

    def put_if_absent(self, name: str, body: bytes | memoryview) -> PutOutcome:
        outcome: PutOutcome = self._call("put_if_absent", name, body)
        return outcome

    def put(self, name: str, body: bytes | memoryview) -> None:
        self._call("put", name, body)

    def delete(self, name: str) -> None:
        self._call("delete", name)

    def remove_stale_temporaries(self, *, dry_run: bool = False) -> list[ObjectMeta]:
        return self.inner.remove_stale_temporaries(dry_run=dry_run)

    def make_durable(self, name: str) -> None:
        self._call("make_durable", name)

    def round_trip_s(self) -> float:
        return 0.001

    def names(self, operation: str) -> list[str]:
        """The names this operation was called with, in order."""
        return [name for called, name in self.calls if called == operation]


@pytest.fixture
def clock() -> Iterator[ScriptedClock]:
    with ambient.use(ScriptedClock()) as scripted:
        yield scripted


@pytest.fixture
def scripted_log() -> ScriptedLogStore:
    return ScriptedLogStore()


@pytest.fixture
def files() -> MemoryFileStore:
    return MemoryFileStore()


@pytest.fixture
def open_engine(scripted_log: ScriptedLogStore, files: MemoryFileStore) -> Callable[..., Engine]:
    """Another handle on the one table of this test: ``open_engine(total_timeout=5)``."""

    def opened(**retry: Any) -> Engine:
        return Engine(TableStore("memory://table", scripted_log, files), RetryPolicy(**retry))

    return opened


@pytest.fixture
def rows() -> pa.Table:
    return pa.table({"id": pa.array([1, 2, 3], pa.int64()), "day": ["a", "b", "a"]})
