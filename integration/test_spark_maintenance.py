"""`txlog.spark.optimize` and the other calls that maintain: what Spark's tasks do is what one process does."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from maintained_tables import COMMANDS, left_by, random_table
from pyspark.sql import SparkSession
from rows import assert_sound
from servers import S3Location

import txlog
import txlog.spark
from txlog.core.maintenance._compaction import Compaction
from txlog.spark.spark_workers import SparkWorkers

DOORS: dict[str, Callable[[SparkSession, Path], Any]] = {
    "optimize": lambda spark, uri: txlog.spark.optimize(spark, uri),
    "cluster": lambda spark, uri: txlog.spark.optimize(spark, uri, zorder_by=["id"], target_file_size=400),
    "purge": lambda spark, uri: txlog.spark.purge(spark, uri),
    "vacuum": lambda spark, uri: txlog.spark.vacuum(spark, uri, 0, force=True),
    "verify": lambda spark, uri: txlog.spark.verify(spark, uri, ["id"]),
    "constraint": lambda spark, uri: txlog.spark.add_constraint(spark, uri, "small", "id < 1000"),
    **{
        name: lambda spark, uri, name=name: COMMANDS[name](txlog.Table.open(uri, workers=txlog.spark.workers(spark)))
        for name in ("upsert", "merge")
    },
}


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.hunt(part="spark"))])
def test_every_command_does_on_spark_what_it_does_in_one_process(
    seed: int, tmp_path: Path, delta: SparkSession
) -> None:
    base = random_table(tmp_path / "base", seed)
    rows = sorted(txlog.Table.open(base).to_arrow()["id"].to_pylist())
    for name, door in DOORS.items():
        alone, spread = (Path(shutil.copytree(base, tmp_path / name / kind)) for kind in ("alone", "spread"))
        expected = left_by(alone, COMMANDS[name](txlog.Table.open(alone)))
        assert left_by(spread, door(delta, spread)) == expected, name
        assert_sound(str(spread))
        if name in ("optimize", "cluster", "constraint"):
            theirs = delta.read.format("delta").load(str(spread)).select("id").collect()
            assert sorted(row[0] for row in theirs) == rows, name


def test_existing_files_are_added_by_spark_as_in_one_process(tmp_path: Path, spark: SparkSession) -> None:
    base = random_table(tmp_path / "base", 0)
    alone, spread = (Path(shutil.copytree(base, tmp_path / kind)) for kind in ("alone", "spread"))
    expected = left_by(alone, txlog.Table.open(alone).add_files("day=a"))
    result = txlog.spark.add_files(spark, spread, "day=a")
    assert (left_by(spread, result), result.metrics.files) == (expected, 2)


IN_A_BUCKET: dict[str, Callable[..., Any]] = {
    "add_files": lambda door, *at, **options: door(*at, ["p=1/f.parquet"], **options).metrics.rows == 1,
    "purge": lambda door, *at, **options: door(*at, **options).files_removed == 1,
    "optimize": lambda door, *at, **options: door(*at, **options).files_removed == 3,
    "add_constraint": lambda door, *at, **options: door(*at, "small", "id < 9", **options).version > 0,
    "verify": lambda door, *at, **options: door(*at, ["id"], footers=True, **options).findings == (),
    "vacuum": lambda door, *at, **options: len(door(*at, 0, force=True, **options).paths) > 0,
}


def test_maintenance_of_a_table_in_a_bucket_takes_storage_options_in_the_driver_and_in_tasks(
    s3_location: S3Location, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else knows the bucket's keys: the session has none, or others."""
    uri, options = s3_location.uri, s3_location.storage_options
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(key, "wrong")
    properties = {"delta.enableDeletionVectors": "true"}
    table = txlog.Table.create(uri, "id bigint, p int", ["p"], properties, storage_options=options)
    for id in (1, 2):
        table.append(pa.table({"id": [id, id + 2], "p": pa.array([1, 1], pa.int32())}))
    table.delete("id = 3")
    body = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array([5], pa.int64())}), body)
    table._open_table.store.files.write("p=1/f.parquet", body.getvalue())
    for name, is_done in IN_A_BUCKET.items():
        assert is_done(getattr(txlog.spark, name), spark, uri, storage_options=options), name
    found = txlog.Table.open(uri, storage_options=options)
    assert sorted(found.to_arrow()["id"].to_pylist()) == [1, 2, 4, 5]


def test_a_handle_opened_with_a_sessions_workers_uses_them(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = txlog.spark.workers(spark)
    assert (workers.slots, workers.crosses) == (2, True)
    jobs: list[int] = []
    run = type(workers).map

    def counted(self: Any, work: Any, items: Any) -> Any:
        jobs.append(len(items))
        return run(self, work, items)

    monkeypatch.setattr(type(workers), "map", counted)
    table = txlog.Table.open(random_table(tmp_path / "t", 0), workers=workers)
    rows = table.to_arrow()["id"].to_pylist()
    assert table.delete("id % 2 = 1").metrics.rows_deleted == sum(id % 2 for id in rows)
    assert table.maintain(small_files_min=2, vacuum_every_hours=None).compaction is not None
    assert len(jobs) >= 2
    assert all(jobs)
    assert sorted(table.to_arrow()["id"].to_pylist()) == sorted(id for id in rows if id % 2 == 0)
    with pytest.raises(txlog.InvalidInputError, match="violate the constraint small"):
        table.add_constraint("small", "id < 5")


@pytest.mark.hunt(part="spark")
def test_spark_clusters_a_table_on_one_curve_while_rows_are_deleted(
    tmp_path: Path, delta: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that others delete meanwhile are found in the new files by their numbers; a filter skips as many files as
    after a clustering in one process."""
    chance = np.random.default_rng(1)
    base = txlog.Table.create(
        tmp_path / "base", "id bigint, x int, y double", properties={"delta.enableDeletionVectors": "true"}
    )
    for seed in range(4):
        x, y = chance.integers(0, 1000, 10_000), chance.random(10_000)
        base.append(pa.table({"id": np.arange(10_000) + seed * 10_000, "x": pa.array(x, pa.int32()), "y": y}))
    base.delete("id % 50 = 1")
    target = base.size_bytes // 16
    execute = Compaction.execute
    found = {}
    for kind in ("alone", "spread"):
        folder = Path(shutil.copytree(tmp_path / "base", tmp_path / kind))
        table = txlog.Table.open(folder, workers=txlog.spark.workers(delta) if kind == "spread" else None)
        left = iter(["id % 50 = 2", "x < 3"])

        def beside_a_delete(self: Compaction, state: Any, folder: Path = folder, left: Any = left) -> Any:
            where = next(left, None)
            if where is not None:
                txlog.Table.open(folder).delete(where)
            return execute(self, state)

        monkeypatch.setattr(Compaction, "execute", beside_a_delete)
        result = table.optimize(zorder_by=["x", "y"], target_file_size=target)
        assert result.vectors_moved > 1
        assert not list(folder.rglob("*.npy"))
        assert_sound(str(folder))
        boxes = ["x between 100 and 199", "y between 0.5 and 0.6", "x < 300 and y < 0.3"]
        touched = [table.files(box).num_rows for box in boxes]
        found[kind] = (sorted(table.to_arrow()["id"].to_pylist()), result.files_added, touched)
    assert found["alone"] == found["spread"]
    ids, files, touched = found["spread"]
    assert max(touched) <= files / 2
    theirs = delta.read.format("delta").load(str(tmp_path / "spread")).select("id").collect()
    assert sorted(row[0] for row in theirs) == ids


class Dying(SparkWorkers, frozen=True):
    """The first task of all that ends takes its Python worker with it, after its work and before its report."""

    flag: str

    def map(self, work: Any, items: Any) -> Any:
        flag = self.flag

        def dying(item: Any) -> Any:
            result = work(item)
            try:
                os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return result
            os._exit(9)

        return super().map(dying, items)


def test_spark_runs_the_task_of_a_killed_worker_again_and_its_first_files_are_orphans(
    tmp_path: Path, spark: SparkSession
) -> None:
    folder = random_table(tmp_path / "t", 1)
    table = txlog.Table.open(folder, workers=Dying(spark, str(tmp_path / "flag")))
    rows = sorted(table.to_arrow()["id"].to_pylist())
    table.vacuum(0, force=True)
    (tmp_path / "flag").unlink(missing_ok=True)
    result = table.optimize()
    assert (tmp_path / "flag").exists(), "a worker was killed"
    assert sorted(table.to_arrow()["id"].to_pylist()) == rows
    assert_sound(str(folder))
    unnamed = table.vacuum(0, dry_run=True, force=True).paths
    removed = set(result.paths_removed)
    assert len([path for path in unnamed if path.endswith(".parquet") and path not in removed]) == 1


def test_a_call_without_a_session_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(txlog.InvalidInputError, match="the SparkSession that does the work"):
        txlog.spark.optimize(tmp_path, tmp_path)  # type: ignore[arg-type]
