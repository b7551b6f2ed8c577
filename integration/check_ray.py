"""Ray's own datasets, written to a table and read from it by Ray's tasks: `make hunt PART=integrations`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
import ray

import txlog
from txlog.integrations.ray import RayExecutor, TxlogDatasink, read, write

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=150 << 20, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    return txlog.Table.create(tmp_path / "t", SCHEMA)


def rows_of(*ids: int, name: str = "a") -> ray.data.Dataset:
    return ray.data.from_arrow(pa.table({"id": list(ids), "name": [name] * len(ids)}, SCHEMA))


def ids_of(table: txlog.Table) -> list[int]:
    return sorted(deltalake.DeltaTable(table.uri).to_pyarrow_table()["id"].to_pylist())


def test_the_tasks_of_a_dataset_are_one_version(table: txlog.Table) -> None:
    result = write(rows_of(*range(100)).repartition(3), table)
    assert (result.version, result.metrics.rows, result.metrics.files) == (1, 100, 3)
    assert ids_of(table) == [*range(100)]
    sink = TxlogDatasink(table, mode="overwrite")
    for _ in range(2):  # a sink may be used again
        rows_of(7).write_datasink(sink)
    assert sink.result is not None
    assert (sink.result.version, ids_of(table)) == (3, [7])
    assert write(rows_of(1).filter(lambda row: False), table).metrics.rows == 0


def test_a_run_that_is_repeated_adds_nothing_and_computes_nothing(table: txlog.Table) -> None:
    def fail(row: dict[str, object]) -> dict[str, object]:
        raise AssertionError("it was computed")

    assert write(rows_of(1, 2), table, app_id="daily", key="a").outcome == "committed"
    assert write(rows_of(1, 2).map(fail), table, app_id="daily", key="a").outcome == "already_committed"
    assert ids_of(table) == [1, 2]


def test_a_task_that_runs_twice_adds_nothing(table: txlog.Table, tmp_path: Path) -> None:
    def dies_once(row: dict[str, object]) -> dict[str, object]:
        if row["id"] == 5 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os._exit(1)
        return row

    write(rows_of(*range(10)).repartition(2).map(dies_once), table)
    assert (tmp_path / "died").exists()
    assert ids_of(table) == [*range(10)]


def test_rows_with_equal_keys_are_replaced(table: txlog.Table) -> None:
    write(rows_of(1, 2, 3), table)
    result = write(rows_of(3, 4, name="b").repartition(2), table, mode="upsert", keys="id", app_id="cdc", key="1")
    assert (result.metrics.rows_inserted, result.metrics.rows_updated) == (1, 1)
    assert ids_of(table) == [1, 2, 3, 4]


def test_a_read_leaves_out_deleted_rows(table: txlog.Table) -> None:
    table.set_properties({"delta.enableDeletionVectors": "true"})
    for start in (0, 10):
        table.append(pa.table({"id": range(start, start + 10), "name": ["a"] * 10}, SCHEMA))
    table.delete("id IN (3, 4)")
    assert sorted(row["id"] for row in read(table).take_all()) == [0, 1, 2, *range(5, 20)]
    assert sorted(row["id"] for row in read(table, ["id"], "id > 2").take_all()) == [*range(5, 20)]
    assert read(table.snapshot(1)).count() == 0
    assert read(table).schema().base_schema.equals(SCHEMA)


def test_its_workers_do_the_work_of_commands(table: txlog.Table) -> None:
    for start in range(4):
        table.append(pa.table({"id": [start], "name": ["a"]}, SCHEMA))
    assert txlog.Table.open(table.uri, workers=RayExecutor()).optimize().files_added == 1
    table.update({"name": txlog.expr("'b'")}, "id = 1")
    assert table.verify(workers=RayExecutor()).findings == ()


def test_an_error_of_a_task_has_the_cause(table: txlog.Table) -> None:
    table.add_constraint("small", "id < 10")
    with pytest.raises(Exception, match="small"):
        write(rows_of(100), table)
    assert ids_of(table) == []
