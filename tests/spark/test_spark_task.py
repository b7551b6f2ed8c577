"""What a Spark task does with its rows, without Spark: the same write and seal as on one machine."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import txlog
from txlog.core.operations import WriteOptions, plan_write
from txlog.core.store import open_store
from txlog.core.versions import OpenTable
from txlog.errors import StorageError
from txlog.spark import task as spark_task
from txlog.spark.options import parse_write_options

ROWS = pa.table({"id": [1, 2, 3]})
CONTEXT: Any = SimpleNamespace(partitionId=lambda: 3, taskAttemptId=lambda: 7, cpus=lambda: 1)


def files_below(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir() if not each.name.startswith("_"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    txlog.Table.create(tmp_path / "t", ROWS.schema)
    return tmp_path / "t"


def write_rows(path: Path, batches: list[pa.RecordBatch]) -> Any:
    job = plan_write(OpenTable(open_store(path)), ROWS.schema, WriteOptions())
    return spark_task.write_in_task(parse_write_options({"path": str(path)}), job, CONTEXT, iter(batches))


def test_a_task_seals_the_files_it_wrote(path: Path) -> None:
    committable = write_rows(path, ROWS.to_batches() * 2)
    assert (committable.task_id, committable.attempt, committable.num_rows) == (3, 7, 6)
    assert files_below(path) == [file.path for file in committable.files]
    assert write_rows(path, []).is_empty


def test_a_task_whose_files_cannot_be_sealed_leaves_none_behind(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_failing(*arguments: Any) -> Any:
        store = open_store(*arguments)

        def fail(paths: list[str]) -> None:
            raise StorageError("the disk is gone")

        monkeypatch.setattr(store.files, "make_durable", fail)
        return store

    monkeypatch.setattr(spark_task, "open_place", open_failing)
    with pytest.raises(StorageError, match="the disk is gone"):
        write_rows(path, ROWS.to_batches())
    assert files_below(path) == []
