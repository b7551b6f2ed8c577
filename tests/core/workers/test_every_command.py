"""Every call that takes workers has its tasks run there."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from txlog.table import Table

VECTORS = {"delta.enableDeletionVectors": "true"}


class Counting(ThreadPoolExecutor):
    """Threads that count what they are given."""

    def __init__(self) -> None:
        super().__init__(2)
        self.count = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        return super().submit(fn, *args, **kwargs)


def made(folder: Path) -> Table:
    """A table of two files of a partition, and a folder of Parquet files that no table has."""
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "v": [1.0, 2.0]})
    table = Table.create(folder / "t", rows.schema, properties=VECTORS)
    for _ in range(2):
        table.append(rows)
    (folder / "others").mkdir()
    pq.write_table(rows, folder / "others" / "1.parquet")
    pq.write_table(rows, folder / "t" / "new.parquet")
    return table


def with_a_dead_row(table: Table) -> Table:
    table.delete("id = 1")
    return table


def without_a_file(table: Table, folder: Path) -> Table:
    (folder / "t" / table.files()["path"][0].as_py()).unlink()
    return table


CALLS: dict[str, Callable[[Table, Path, Any], object]] = {
    "add_constraint": lambda table, folder, pool: table.add_constraint("positive", "id > 0", workers=pool),
    "alter_column": lambda table, folder, pool: table.alter_column("id", nullable=False, workers=pool),
    "delete": lambda table, folder, pool: table.delete("id = 1", workers=pool),
    "drop_feature": lambda table, folder, pool: with_a_dead_row(table).drop_feature("deletionVectors", workers=pool),
    "merge": lambda table, folder, pool: (
        table.merge(table.to_arrow().slice(0, 2), ["id"], workers=pool).when_matched_delete().execute()
    ),
    "open": lambda table, folder, pool: Table.open(table.uri, workers=pool).optimize(),
    "optimize": lambda table, folder, pool: table.optimize(workers=pool),
    "purge": lambda table, folder, pool: with_a_dead_row(table).purge(workers=pool),
    "repair": lambda table, folder, pool: without_a_file(table, folder).repair(workers=pool),
    "update": lambda table, folder, pool: table.update({"v": txlog.expr("0.0")}, "id = 1", workers=pool),
    "upsert": lambda table, folder, pool: table.upsert(table.to_arrow().slice(0, 2), ["id"], workers=pool),
    "vacuum": lambda table, folder, pool: table.vacuum(0, force=True, workers=pool),
    "verify": lambda table, folder, pool: table.verify(workers=pool),
}


LOADING = ("add_files", "clone", "convert")
"""Those that the tests of loading call."""


def test_the_calls_below_are_all_that_take_workers() -> None:
    public = [name for name in dir(Table) if not name.startswith("_") and callable(getattr(Table, name))]
    found = {name for name in public if "workers" in inspect.signature(getattr(Table, name)).parameters}
    assert found == {*CALLS, *LOADING}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_runs_its_tasks_on_the_workers_that_it_is_given(tmp_path: Path, name: str) -> None:
    require_tasks(CALLS[name], tmp_path)


def require_tasks(call: Callable[[Table, Path, Any], object], folder: Path) -> None:
    table = made(folder)
    with Counting() as pool:
        call(table, folder, pool)
    assert pool.count > 0
