"""Vacuum and restore compared with Spark's Delta: on copies of one table both do the same, and read what the other
did."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import txlog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNCHECKED = "spark.databricks.delta.retentionDurationCheck.enabled"


@pytest.fixture(scope="module")
def source(delta_session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of Spark's with vectors, change data, row ids, removed files, an orphan and a changed definition."""
    path = tmp_path_factory.mktemp("maintenance") / "source"
    run = delta_session.sql
    run(
        f"create table delta.`{path}` (id bigint, day string) using delta partitioned by (day) tblproperties"
        "('delta.enableChangeDataFeed'='true','delta.enableRowTracking'='true','delta.enableDeletionVectors'='true')"
    )
    run(f"insert into delta.`{path}` select /*+ coalesce(1) */ id, 'a' from range(0, 20)")
    run(f"insert into delta.`{path}` select /*+ coalesce(1) */ id, 'b' from range(20, 30)")
    run(f"delete from delta.`{path}` where id = 4")
    run(f"delete from delta.`{path}` where day = 'b'")
    run(f"alter table delta.`{path}` set tblproperties('team'='me')")
    (path / "day=a" / "orphan.parquet").write_bytes(b"x")
    return path


def copy_of(source: Path, to: Path) -> Path:
    shutil.copytree(source, to)
    return to


def files_of(root: Path) -> set[str]:
    found = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    return {name for name in found if "_delta_log" not in name and not name.endswith(".crc")}


def actions_of(root: Path) -> dict[str, list[dict[str, Any]]]:
    """The newest commit by kind of action, without what differs from run to run."""
    newest = max((root / "_delta_log").glob("*[0-9].json"))
    found: dict[str, list[dict[str, Any]]] = {}
    for line in newest.read_text().splitlines():
        ((kind, action),) = json.loads(line).items()
        for name in ("deletionTimestamp", "stats", "extendedFileMetadata", "modificationTime"):
            action.pop(name, None)
        for vector in [action.get("deletionVector")]:
            if vector:
                vector.pop("maxRowIndex", None)
        for name in ("readerFeatures", "writerFeatures"):
            if name in action:
                action[name] = sorted(action[name])
        found.setdefault(kind, []).append(action)
    return {kind: sorted(actions, key=str) for kind, actions in found.items()}


def ids(spark: SparkSession, path: Path) -> list[int]:
    return sorted(row["id"] for row in spark.read.format("delta").load(str(path)).collect())


@pytest.mark.hunt(part="spark")
def test_a_restore_leaves_the_same_files_and_definition_as_sparks(
    delta: SparkSession, source: Path, tmp_path: Path
) -> None:
    version = 2  # all of it differs: files with and without vectors, properties
    ours, theirs = copy_of(source, tmp_path / "ours"), copy_of(source, tmp_path / "theirs")
    delta.sql(f"restore table delta.`{theirs}` to version as of {version}").collect()
    table = txlog.Table.open(ours)
    done = table.restore(version)
    mine, other = actions_of(ours), actions_of(theirs)
    reported, asked = mine.pop("commitInfo")[0], other.pop("commitInfo")[0]
    other.pop("protocol")  # Spark writes it again even where it stays as it is
    changed = {each["partitionValues"]["day"] for each in mine.pop("cdc")}
    assert changed == {"a", "b"}  # Spark writes none, and deltalake's feed reads files with vectors wrong without
    assert mine == other
    assert reported["operationMetrics"] == asked["operationMetrics"]
    for name in ("operation", "isolationLevel", "isBlindAppend"):
        assert reported[name] == asked[name]
    assert ids(delta, ours) == ids(delta, theirs) == sorted(table.snapshot().to_arrow()["id"].to_pylist())
    assert done.files == table.snapshot().num_files
    delta.sql(f"insert into delta.`{ours}` values (99, 'c')")
    assert 99 in ids(delta, ours)
    table.append(pa.table({"id": [100], "day": ["c"]}))
    assert 100 in ids(delta, ours)


@pytest.mark.hunt(part="spark")
def test_a_vacuum_deletes_the_same_files_as_sparks(delta: SparkSession, source: Path, tmp_path: Path) -> None:
    ours, theirs = copy_of(source, tmp_path / "ours"), copy_of(source, tmp_path / "theirs")
    time.sleep(0.01)  # so that everything is older than now
    delta.conf.set(UNCHECKED, "false")
    before = files_of(source)
    delta.sql(f"vacuum delta.`{theirs}` retain 0 hours")
    done = txlog.Table.open(ours).vacuum(0, force=True)
    assert files_of(ours) == files_of(theirs) == before - set(done.paths)
    assert "day=a/orphan.parquet" in done.paths
    history = delta.sql(f"describe history delta.`{ours}` limit 2").collect()
    expected = delta.sql(f"describe history delta.`{theirs}` limit 2").collect()
    for mine, other in zip(history, expected, strict=True):
        assert (mine["operation"], mine["operationMetrics"]) == (other["operation"], other["operationMetrics"])
        assert mine["operationParameters"] == other["operationParameters"]
        assert (mine["isolationLevel"], mine["isBlindAppend"]) == (other["isolationLevel"], other["isBlindAppend"])
    assert ids(delta, ours) == ids(delta, theirs)


@pytest.mark.hunt(part="spark")
def test_a_lite_vacuum_by_spark_continues_after_a_vacuum_by_txlog(
    delta: SparkSession, source: Path, tmp_path: Path
) -> None:
    path = copy_of(source, tmp_path / "t")
    delta.conf.set(UNCHECKED, "false")
    table = txlog.Table.open(path)
    assert table.vacuum(0, force=True).mode == "full"
    live = files_of(path)
    table.overwrite(pa.table({"id": [1], "day": ["z"]}))
    delta.sql(f"vacuum delta.`{path}` lite retain 0 hours")
    left = files_of(path)
    assert left.isdisjoint(name for name in live if name.startswith("day=a/"))
    table.overwrite(pa.table({"id": [2], "day": ["z"]}))
    done = table.vacuum(0, lite=True, force=True)
    assert (done.mode, set(done.paths) <= left) == ("lite", True)
    assert done.paths
    assert ids(delta, path) == [2]


@pytest.mark.hunt(part="spark")
def test_a_restore_names_the_same_missing_file_as_sparks(delta: SparkSession, source: Path, tmp_path: Path) -> None:
    path = copy_of(source, tmp_path / "t")
    gone = next(name for name in files_of(path) if name.startswith("day=b/"))
    os.unlink(path / gone)
    with pytest.raises(Exception, match="Not all files from version 2") as theirs:
        delta.sql(f"restore table delta.`{path}` to version as of 2").collect()
    with pytest.raises(txlog.NotFoundError) as ours:
        txlog.Table.open(path).restore(2)
    assert gone in str(theirs.value)
    assert gone in str(ours.value)


@pytest.mark.hunt(part="spark")
def test_spark_and_txlog_cluster_one_table_in_turns(delta: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "clustered"
    delta.sql(f"create table delta.`{path}` (id bigint, s struct<`x.y`: int>) using delta cluster by (id, s.`x.y`)")
    insert = f"insert into delta.`{path}` select id, named_struct('x.y', int(id % 7)) from range({{}}, {{}})"
    delta.sql(insert.format(0, 100))
    delta.sql(f"optimize delta.`{path}`")
    (theirs,) = actions_of(path)["add"]
    table = txlog.Table.open(path)
    assert table.optimize().versions == (), "what Spark clustered is clustered"
    table.append(pa.table({"id": range(100, 150), "s": [{"x.y": 1}] * 50}))
    assert table.optimize().files_removed == 2
    (ours,) = actions_of(path)["add"]
    assert ours["clusteringProvider"] == theirs["clusteringProvider"]
    assert ours["tags"].keys() == theirs["tags"].keys()
    assert ours["tags"]["ZCUBE_ZORDER_BY"] == theirs["tags"]["ZCUBE_ZORDER_BY"]
    assert ids(delta, path) == list(range(150))
    delta.sql(insert.format(150, 200))
    delta.sql(f"optimize delta.`{path}`")
    (again,) = actions_of(path)["add"]
    assert again["clusteringProvider"] == "liquid", "Spark clusters our file with its own"
    assert sorted(table.to_arrow()["id"].to_pylist()) == ids(delta, path) == list(range(200))


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize("mapping", ["none", "name"])
def test_spark_clusters_tables_that_we_define(delta: SparkSession, tmp_path: Path, mapping: str) -> None:
    path = tmp_path / "clustered"
    columns = "id bigint, s struct<`x.y`: int, name: string>, day date"
    properties = {"delta.columnMapping.mode": mapping}
    table = txlog.Table.create(path, columns, properties=properties, cluster_by=["id", "s.`x.y`"])
    members = "named_struct('x.y', int(id % 7), 'name', 'a')"
    insert = f"insert into delta.`{path}` select id, {members}, null from range({{}}, {{}})"
    delta.sql(insert.format(0, 100))
    table.append(pa.table({"id": range(100, 150), "s": [{"x.y": 1}] * 50}))
    (detail,) = delta.sql(f"describe detail delta.`{path}`").collect()
    assert [name.replace("`", "") for name in detail["clusteringColumns"]] == ["id", "s.x.y"]
    delta.sql(f"optimize delta.`{path}`")
    (theirs,) = actions_of(path)["add"]
    assert theirs["clusteringProvider"] == "liquid"
    assert table.optimize().versions == (), "what Spark clustered by our definition is clustered"
    table.cluster_by(["day"])
    (detail,) = delta.sql(f"describe detail delta.`{path}`").collect()
    assert detail["clusteringColumns"] == ["day"]
    delta.sql(insert.format(150, 200))
    assert table.optimize().files_removed >= 2
    delta.sql(f"alter table delta.`{path}` cluster by none")
    assert table.snapshot().clustering_columns == ()
    assert sorted(table.to_arrow()["id"].to_pylist()) == ids(delta, path) == list(range(200))
