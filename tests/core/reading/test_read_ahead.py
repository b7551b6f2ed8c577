"""Several files are read at once where a file costs requests: the same rows in the same order, and never too many."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from txlog.core import ambient
from txlog.core.format.schema import from_arrow
from txlog.core.reading._read_ahead import BYTES_AT_ONCE, TASKS_AT_ONCE, read_ahead
from txlog.core.reading._scan_plan import ScanPlan
from txlog.core.reading._scan_task import ScanTask, Selection, TaskReader
from txlog.core.store import TableStore
from txlog.core.store._base import LOCAL_DISK, OBJECT_STORE
from txlog.errors import NotFoundError
from txlog.testing.memory_store import MemoryFileStore, MemoryLogStore

SCHEMA = from_arrow(pa.schema([("n", pa.int64())]))
SELECTION = Selection("memory://t", 1, SCHEMA.fields, None, SCHEMA)
WAIT_S = 20


@dataclass
class Files:
    """Data files that count how many of them are open. ``on_open`` is called with each path, outside the lock."""

    inner: MemoryFileStore = field(default_factory=MemoryFileStore)
    on_open: Callable[[str], object] = lambda path: None
    opened: list[str] = field(default_factory=list)
    num_open: int = 0
    most_open: int = 0
    lock: Any = field(default_factory=threading.Lock)

    def open(self, path: str) -> Any:
        body = self.inner.read(path)
        with self.lock:
            self.opened.append(path)
            self.num_open += 1
            self.most_open = max(self.most_open, self.num_open)
        self.on_open(path)
        return pa.PythonFile(_Source(body, self), mode="r")


class _Source(io.BytesIO):
    def __init__(self, body: bytes, files: Files) -> None:
        super().__init__(body)
        self.files = files

    def close(self) -> None:
        if not self.closed:
            with self.files.lock:
                self.files.num_open -= 1
        super().close()


def written(*sizes: int, group_rows: int = 3) -> tuple[Files, list[ScanTask]]:
    """A file for each size; ``n`` counts through all files."""
    files, tasks, start = Files(), [], 0
    for number, size in enumerate(sizes):
        body = io.BytesIO()
        pq.write_table(pa.table({"n": range(start, start + size)}), body, row_group_size=group_rows)
        files.inner.publish(f"{number}.parquet", body.getvalue())
        tasks.append(ScanTask(f"{number}.parquet", f"{number}.parquet", body.tell(), SELECTION))
        start += size
    return files, tasks


def store_of(files: Files, capabilities: Any = OBJECT_STORE) -> TableStore:
    log = MemoryLogStore()
    log.capabilities = capabilities
    return TableStore("memory://t", log, files)  # type: ignore[arg-type]


def reader_of(files: Files) -> TaskReader:
    return TaskReader(store_of(files), SELECTION)


def numbers(batches: Any) -> list[int]:
    return [number for batch in batches for number in batch.column("n").to_pylist()]


def plan_of(tasks: list[ScanTask]) -> ScanPlan:
    rows = [{"path": t.path, "size": t.size_bytes, "partitionValues": {}, "deletionVector": None} for t in tasks]
    types = [("path", pa.string()), ("size", pa.int64()), ("partitionValues", pa.map_(pa.string(), pa.string()))]
    return ScanPlan(SELECTION, pa.Table.from_pylist(rows, pa.schema([*types, ("deletionVector", pa.null())])))


@given(sizes=st.lists(st.integers(0, 9), max_size=12))
def test_rows_come_in_the_order_of_the_files(sizes: list[int]) -> None:
    files, tasks = written(*sizes)
    assert numbers(read_ahead(reader_of(files), tasks)) == [*range(sum(sizes))]
    assert files.num_open == 0
    assert files.most_open <= TASKS_AT_ONCE


def test_after_the_first_file_several_are_read_at_the_same_time() -> None:
    """Each later file is opened only once three others are being opened too."""
    files, tasks = written(*[2] * (1 + 2 * TASKS_AT_ONCE))
    together = threading.Barrier(TASKS_AT_ONCE)
    files.on_open = lambda path: path == "0.parquet" or together.wait(WAIT_S)
    assert numbers(read_ahead(reader_of(files), tasks)) == [*range(2 * len(tasks))]
    assert files.most_open == TASKS_AT_ONCE


def test_a_caller_who_wants_all_rows_has_the_first_file_opened_with_the_others() -> None:
    files, tasks = written(*[2] * (2 * TASKS_AT_ONCE))
    together = threading.Barrier(TASKS_AT_ONCE)
    files.on_open = lambda path: together.wait(WAIT_S)
    assert numbers(read_ahead(reader_of(files), tasks, wants_all=True)) == [*range(2 * len(tasks))]


class WithoutThreads(ambient.Ambient):
    uses_threads = False


def test_where_there_are_no_threads_the_caller_reads_all_files() -> None:
    files, tasks = written(*[2] * 6)
    readers: set[int] = set()
    files.on_open = lambda path: readers.add(threading.get_ident())
    with ambient.use(WithoutThreads()):
        assert numbers(read_ahead(reader_of(files), tasks)) == [*range(12)]
    assert readers == {threading.get_ident()}
    assert files.most_open <= TASKS_AT_ONCE


def test_large_files_are_read_alone() -> None:
    files, tasks = written(*[5] * 6)
    large = [replace(task, size_bytes=BYTES_AT_ONCE // 2 + 1) for task in tasks]
    assert numbers(read_ahead(reader_of(files), large)) == [*range(30)]
    assert files.most_open == 1


def test_a_caller_who_stops_after_the_first_batch_opens_one_file() -> None:
    files, tasks = written(*[5] * 6)
    batches = read_ahead(reader_of(files), tasks)
    assert numbers([next(batches)]) == [0, 1, 2, 3, 4]
    batches.close()
    assert (files.opened, files.num_open) == (["0.parquet"], 0)


def test_a_caller_who_stops_later_leaves_no_file_open_and_no_thread_behind() -> None:
    files, tasks = written(*[5] * (3 * TASKS_AT_ONCE))
    batches = read_ahead(reader_of(files), tasks)
    assert numbers([next(batches), next(batches)]) == [*range(10)]
    batches.close()
    assert files.num_open == 0
    assert len(files.opened) < len(tasks)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("txlog-read")]


def test_a_missing_file_is_reported_after_the_rows_of_earlier_files() -> None:
    files, tasks = written(*[2] * 6)
    files.inner.delete("3.parquet")
    batches = read_ahead(reader_of(files), tasks)
    assert numbers(next(batches) for _ in range(3)) == [*range(6)]
    with pytest.raises(NotFoundError, match=r"3\.parquet, which is missing"):
        next(batches)
    assert files.num_open == 0


def test_a_caller_who_stops_before_a_missing_file_sees_no_error() -> None:
    files, tasks = written(*[2] * 6)
    files.inner.delete("3.parquet")
    batches = read_ahead(reader_of(files), tasks)
    assert numbers([next(batches), next(batches)]) == [*range(4)]
    batches.close()


@pytest.mark.parametrize(("capabilities", "most_open"), [(LOCAL_DISK, 1), (OBJECT_STORE, TASKS_AT_ONCE)])
def test_a_scan_reads_ahead_only_where_a_file_costs_requests(capabilities: Any, most_open: int) -> None:
    files, tasks = written(*[2] * (1 + TASKS_AT_ONCE))
    if most_open > 1:
        together = threading.Barrier(TASKS_AT_ONCE)
        files.on_open = lambda path: path == "0.parquet" or together.wait(WAIT_S)
    found = plan_of(tasks).to_arrow(store_of(files, capabilities))
    assert found.column("n").to_pylist() == [*range(2 * len(tasks))]
    assert files.most_open == most_open
