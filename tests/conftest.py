"""Shared by the unit tests: a clock that moves only on request, and a log store in memory whose answers can be
scripted.

What a test measures it records as a property named ``measured``; the summary of the run shows it.
``TXLOG_EXAMPLES`` is how many examples Hypothesis draws for most tests. They are the same ones each time, so that no
change fails for what was wrong before it; `make hunt PART=properties` draws many others.
"""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import pyarrow as pa
import pytest
import typer.testing
from clean_environment import clean, in_the_way

import txlog
from tests.writes import write_batch
from txlog.core import ambient
from txlog.core.operations import WriteOptions
from txlog.core.store import RetryPolicy, TableStore
from txlog.core.store import _commit_queue as commit_queue
from txlog.core.versions import OpenTable
from txlog.testing.faults import FaultyLogStore
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore

IN_MEMORY = Path("/dev/shm")

clean(os.environ)  # before any module of tests reads it or starts a process

# A slow machine is no failure, so no example has a deadline.
hypothesis.settings.register_profile(
    "txlog",
    deadline=None,
    derandomize=os.environ.get("TXLOG_FUZZ_SEED") != "random",
    max_examples=int(os.environ.get("TXLOG_EXAMPLES", "10")),
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.load_profile("txlog")


def pytest_configure() -> None:
    """Nothing of these tests is to outlive them, so their files need no disk, and no wait for one, where memory is."""
    if problem := in_the_way():
        raise pytest.UsageError(problem)
    if IN_MEMORY.is_dir() and os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free > 1 << 30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))
        os.environ.setdefault("TMPDIR", str(IN_MEMORY))  # of what makes temporary files without pytest
        tempfile.tempdir = None  # pytest has asked where they go


def pytest_collection_finish() -> None:
    """What the collection made stays to the end: no later round of the garbage collector need look at it."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """So that the end of the interpreter finds all that there is to tidy up."""
    gc.unfreeze()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "measured":
                terminalreporter.write_line(value)


class ScriptedClock(ambient.Ambient):
    """Sleeping takes no time but moves the clock; jitter is the longest it can be."""

    def __init__(self) -> None:
        self.elapsed_s = 0.0
        self._suspended_s = 0.0
        self.slept_s: list[float] = []

    def now_ms(self) -> int:
        return 1_700_000_000_000 + int(self.elapsed_s * 1000)

    def monotonic_s(self) -> float:
        return 1000.0 + self.elapsed_s - self._suspended_s

    def suspended_s(self) -> float:
        return self._suspended_s

    def suspend(self, seconds: float) -> None:
        """The machine sleeps: wall time passes, and its monotonic clock stops."""
        self.elapsed_s += seconds
        self._suspended_s += seconds

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.elapsed_s += max(seconds, 0.001)

    def uniform(self, low: float, high: float) -> float:
        return high


@pytest.fixture(autouse=True, scope="session")
def _command_line_is_built_once() -> Iterator[None]:
    """Typer's runner rebuilds the commands for each call, which takes longer than most calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", functools.cache(typer.testing._get_command))
        yield


@pytest.fixture(autouse=True, scope="session")
def _turns_are_short() -> Iterator[None]:
    """A rival that commits while the writer under test holds the turn would wait for it forever."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit_queue, "WAIT_MAX_S", 0.1)
        yield


@pytest.fixture(autouse=True, scope="session")
def _catalogs_are_asked_again_at_once() -> Iterator[None]:
    """A test whose catalog answers nothing would wait for minutes of real time."""
    with pytest.MonkeyPatch.context() as patch:
        if importlib.util.find_spec("txlog.unity") is None:  # the core alone
            yield
            return
        patch.setattr("txlog.unity.client.PATIENCE", RetryPolicy(total_timeout=0.2))
        patch.setattr("txlog.unity.client.WAIT_MAX_S", 0.001)
        yield


@pytest.fixture
def clock() -> Iterator[ScriptedClock]:
    with ambient.use(ScriptedClock()) as scripted:
        yield scripted


@pytest.fixture
def scripted_log() -> FaultyLogStore:
    """Over memory; ``scripted_log.script["read"] = [None, step]`` answers the next calls."""
    log = FaultyLogStore(MemoryLogStore())
    log.round_trip_s = lambda: 0.001  # type: ignore[method-assign]  # what waits are scaled to
    return log


@pytest.fixture
def files() -> MemoryFileStore:
    return MemoryFileStore()


@pytest.fixture
def open_handle(scripted_log: FaultyLogStore, files: MemoryFileStore) -> Callable[..., OpenTable]:
    """Another handle on the one table of this test: ``open_handle(total_timeout=5)``."""

    def opened(**retry: Any) -> OpenTable:
        return OpenTable(TableStore("memory://table", scripted_log, files), RetryPolicy(**retry))

    return opened


@pytest.fixture
def table(scripted_log: FaultyLogStore, open_handle: Callable[..., OpenTable], clock: ScriptedClock) -> OpenTable:
    """A handle on that table, with versions 0 and 1 of a row each and the store's probe behind it."""
    open_table: OpenTable = open_handle(total_timeout=60)
    for _ in range(2):
        write_batch(open_table, pa.table({"id": pa.array([1], pa.int64())}), WriteOptions(create=True))
    scripted_log.calls.clear()
    return open_table


@pytest.fixture
def make_table(tmp_path: Path) -> Callable[..., txlog.Table]:
    """Creates a table in this test's folder: ``make_table(rows)`` has them in version 0.

    ``make_table(schema=...)`` is empty; with both, ``rows`` are appended as version 1.
    """

    def create(
        rows: Any = None,
        schema: Any = None,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        name: str = "t",
    ) -> txlog.Table:
        path = tmp_path / name
        if schema is None:
            txlog.write(path, rows, partition_by=partition_by, properties=properties)
            return txlog.Table.open(path)
        table = txlog.Table.create(path, schema, partition_by, properties)
        if rows is not None:
            table.append(rows)
        return table

    return create


@pytest.fixture
def rows() -> pa.Table:
    return pa.table({"id": pa.array([1, 2, 3], pa.int64()), "day": ["a", "b", "a"]})
