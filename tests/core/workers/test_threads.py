"""Workers run tasks: every result comes once with the place of its task, and an error comes with its class."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import txlog
from txlog.core import ambient
from txlog.core.changes.tasks import TaskTable
from txlog.core.workers._threads import ThreadWorkers


@pytest.mark.parametrize("slots", [1, 3])
def test_every_result_comes_once_with_the_place_of_its_item(slots: int) -> None:
    items = [5, 3, 8, 3, 1]
    assert sorted(ThreadWorkers(slots).map(lambda item: item * 2, items)) == [
        (at, 2 * item) for at, item in enumerate(items)
    ]
    assert list(ThreadWorkers(slots).map(str, [])) == []


def test_results_come_as_they_end_and_not_in_the_order_of_the_items() -> None:
    second_is_done = threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert second_is_done.wait(60)
        return item

    found = ThreadWorkers(2).map(work, [0, 1])
    assert next(found) == (1, 1)
    second_is_done.set()
    assert list(found) == [(0, 0)]


@pytest.mark.parametrize("slots", [1, 2])
def test_the_error_of_a_task_is_raised_and_tasks_that_have_not_begun_are_not_run(slots: int) -> None:
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        raise txlog.NotFoundError("a file is gone", path=f"{item}.parquet")

    with pytest.raises(txlog.NotFoundError, match="a file is gone"):
        list(ThreadWorkers(slots).map(work, range(100)))
    assert len(begun) < 100


def test_the_results_of_tasks_that_had_begun_come_before_the_error_of_another_one() -> None:
    has_begun, has_failed = threading.Event(), threading.Event()

    def work(item: int) -> int:
        if item == 0:
            assert has_begun.wait(60)
            has_failed.set()
            raise txlog.StorageError("the store failed")
        has_begun.set()
        assert has_failed.wait(60)
        return item

    found = ThreadWorkers(2).map(work, [0, 1])
    assert next(found) == (1, 1)
    with pytest.raises(txlog.StorageError, match="the store failed"):
        next(found)


def test_tasks_have_the_time_and_the_random_numbers_of_the_caller() -> None:
    class Standing(ambient.Ambient):
        def now_ms(self) -> int:
            return 7

    with ambient.use(Standing()):
        assert sorted(ThreadWorkers(2).map(lambda _: ambient.now_ms(), [1, 2])) == [(0, 7), (1, 7)]


def test_a_task_table_opens_data_files_and_has_no_way_to_the_log(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path, pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    state = table._open_table.log.newest_state()
    here = TaskTable.of(table._open_table.store, state, {"aws_secret_access_key": "secret"})
    assert (here.version, here.schema, here.partition_columns) == (1, state.schema, ())
    assert "secret" not in repr(here)
    elsewhere = pickle.loads(pickle.dumps(TaskTable.of(table._open_table.store, state)))
    path = table.snapshot().files().column("path")[0].as_py()
    for each in (TaskTable.of(table._open_table.store, state), elsewhere):
        assert each.files.files.stat(path).size
        assert not hasattr(each.files, "log")
