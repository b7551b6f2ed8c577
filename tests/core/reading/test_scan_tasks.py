"""`snapshot.scan_tasks`: any process reads a part of a version, and the parts are the whole."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from maintained_tables import random_table

import txlog
from tests.other_writers import commit_files
from tests.worker_processes import ids_of_task


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("target_bytes", [1, 1500, 1 << 30])
def test_the_tasks_of_a_version_have_each_of_its_rows_once(seed: int, target_bytes: int, tmp_path: Path) -> None:
    snapshot = txlog.Table.open(random_table(tmp_path / "t", seed)).snapshot()
    for columns, where in ((None, None), (["day", "id"], "id % 2 = 0"), ([], None), (["id"], "id > 1000")):
        expected = snapshot.to_arrow(columns, where)
        tasks = [
            pickle.loads(pickle.dumps(task)) for task in snapshot.scan_tasks(columns, where, target_bytes=target_bytes)
        ]
        assert all(task.schema == expected.schema for task in tasks)
        found = [row for task in tasks for row in task.to_arrow().to_pylist()]
        assert sorted(map(repr, found)) == sorted(map(repr, expected.to_pylist()))
        if target_bytes == 1:
            assert [len(task.paths) for task in tasks] == [1] * len(tasks)
        if target_bytes == 1 << 30:
            assert len(tasks) <= 1


def test_a_large_file_is_spread_by_its_row_groups_and_small_ones_come_together(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path, "id bigint, text string", properties={"delta.enableDeletionVectors": "true"})
    texts = [f"{id * 7919 % 1_000_003:012}" for id in range(300_000)]
    pq.write_table(pa.table({"id": range(300_000), "text": texts}), tmp_path / "large.parquet", row_group_size=25_000)
    commit_files(table, "large.parquet")
    for id in range(8):
        table.append(pa.table({"id": [-id], "text": [""]}))
    table.delete("id % 1000 = 5")
    target = table.size_bytes // 3
    tasks = table.scan_tasks(["id"], target_bytes=target)
    assert max(task.size_bytes for task in tasks) <= target * 4 / 3
    rows = [task.to_arrow()["id"].to_pylist() for task in tasks]
    assert sorted(id for ids in rows for id in ids) == sorted(table.to_arrow()["id"].to_pylist())
    of_large = [len(ids) for task, ids in zip(tasks, rows, strict=True) if "large.parquet" in task.paths]
    assert len(of_large) == 4
    assert min(of_large) >= 70_000, "of twelve row groups, each task has three"
    assert len(tasks) < 4 + 8, "small files share tasks"


def test_a_task_is_read_in_another_process_by_the_tables_storage_options(tmp_path: Path) -> None:
    folder = random_table(tmp_path / "t", 1)
    table = txlog.Table.open(folder, storage_options={"timeout": "77s"})
    for readable in (table, table.snapshot()):
        tasks = readable.scan_tasks(["id"], target_bytes=1)
        assert len(tasks) > 2
        assert b"77s" in pickle.dumps(tasks[0])
        assert "77s" not in repr(tasks[0])
    with ProcessPoolExecutor(1, mp_context=get_context("forkserver")) as executor:
        found = [id for ids in executor.map(ids_of_task, tasks) for id in ids]
    assert sorted(found) == sorted(table.to_arrow()["id"].to_pylist())


def test_engines_take_a_task_as_an_arrow_stream(tmp_path: Path) -> None:
    table = txlog.Table.open(random_table(tmp_path / "t", 0))
    (task,) = table.scan_tasks()
    (total,) = duckdb.sql("select sum(id), count(*) from task").fetchall()
    ids = table.to_arrow()["id"].to_pylist()
    assert total == (sum(ids), len(ids))
    assert pa.table(task).num_rows == pa.table(task).num_rows == len(ids), "it can be read again"


def test_what_does_not_fit_is_refused_when_the_tasks_are_made(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path, "id bigint")
    assert table.scan_tasks() == []
    for given in ({"columns": ["nothing"]}, {"where": "nothing = 1"}, {"target_bytes": 0}):
        with pytest.raises(txlog.InvalidInputError):
            table.scan_tasks(**given)  # type: ignore[arg-type]
