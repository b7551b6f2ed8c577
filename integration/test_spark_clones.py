"""Clones and conversions by txlog and by Spark's Delta: each reads and changes what the other made."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import txlog
from txlog.audit.verify import verify_table
from txlog.spark import delete as delete_by_tasks
from txlog.spark import upsert as upsert_by_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[..., "DataFrame"]
PROPERTIES = {
    "delta.enableDeletionVectors": "true",
    "delta.enableRowTracking": "true",
    "delta.columnMapping.mode": "name",
}
LEFT = [0, 1, 2, 4, 5, 6, 7, 8, 9]


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "p": ["a b%" if n % 2 else "ü" for n in ids]})


def ids(table: txlog.Table) -> list[int]:
    return sorted(table.to_arrow(["id"])["id"].to_pylist())


def ids_of(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def first_commit(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "_delta_log/00000000000000000000.json").read_text().splitlines()]


@pytest.fixture
def source(tmp_path: Path) -> txlog.Table:
    table = txlog.Table.create(tmp_path / "the source", "id bigint, p string", ["p"], PROPERTIES)
    table.append(rows_of(*range(10)))
    table.delete("id = 3")
    return table


@pytest.mark.parametrize(
    "shallow", [pytest.param(True, id="shallow"), pytest.param(False, id="deep", marks=pytest.mark.hunt(part="spark"))]
)
def test_spark_reads_and_changes_our_clone(
    delta: SparkSession, read_delta: Read, source: txlog.Table, tmp_path: Path, shallow: bool
) -> None:
    place = tmp_path / "our clone"
    source.clone(place, shallow=shallow)
    assert ids_of(read_delta(place)) == LEFT
    delta.sql(f"delete from delta.`{place}` where id in (4, 5)")
    delta.sql(f"update delta.`{place}` set id = 100 where id = 6")
    clone = txlog.Table.open(place)
    assert ids(clone) == [0, 1, 2, 7, 8, 9, 100]
    clone.delete("id = 7")
    delta.sql(f"optimize delta.`{place}`")
    assert ids_of(read_delta(place)) == ids(clone) == [0, 1, 2, 8, 9, 100]
    assert ids(source) == LEFT
    assert not verify_table(clone._open_table.store).findings


@pytest.mark.hunt(part="spark")
def test_sparks_vacuum_keeps_every_file_of_a_table_that_a_clone_of_it_replaced(
    delta: SparkSession, read_delta: Read, source: txlog.Table, tmp_path: Path
) -> None:
    source.clone(tmp_path / "clone", shallow=True)
    clone = txlog.Table.open(tmp_path / "clone")
    clone.append(rows_of(99))
    clone.clone(source.uri, mode="replace", shallow=True)
    delta.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    delta.sql(f"vacuum delta.`{source.uri}` retain 0 hours")
    assert ids_of(read_delta(source.uri)) == ids(txlog.Table.open(source.uri)) == ids(clone) == [*LEFT, 99]


@pytest.mark.hunt(part="spark")
def test_we_read_and_change_sparks_shallow_clone(
    delta: SparkSession, read_delta: Read, source: txlog.Table, tmp_path: Path
) -> None:
    theirs, ours = tmp_path / "their clone", tmp_path / "our clone"
    delta.sql(f"create table delta.`{theirs}` shallow clone delta.`{source.uri}`")
    source.clone(ours, shallow=True)
    clone = txlog.Table.open(theirs)
    assert ids(clone) == LEFT
    for table in (clone, txlog.Table.open(ours)):
        table.delete("id = 4")
        table.upsert(rows_of(5, 50), ["id"])
        table.purge()
        table.vacuum(0, force=True)
    assert ids_of(read_delta(theirs)) == ids_of(read_delta(ours)) == sorted({*LEFT, 50} - {4})
    assert not verify_table(clone._open_table.store).findings
    assert ids(source) == LEFT


@pytest.mark.hunt(part="spark")
def test_the_first_commit_is_as_spark_writes_it(delta: SparkSession, source: txlog.Table, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "their clone", tmp_path / "our clone"
    delta.sql(f"create table delta.`{theirs}` shallow clone delta.`{source.uri}`")
    source.clone(ours, shallow=True)
    found = [first_commit(path) for path in (theirs, ours)]
    metrics = [commit[0]["commitInfo"]["operationMetrics"] for commit in found]
    assert metrics[0] == metrics[1]
    operations = [commit[0]["commitInfo"]["operation"] for commit in found]
    assert operations == ["CLONE", "CLONE"]
    adds = [
        sorted(
            (add["path"].replace("%C3%BC", "ü"), add["baseRowId"] is None, add["size"])
            for line in commit
            if (add := line.get("add"))
        )
        for commit in found
    ]
    assert adds[0] == adds[1]
    metadata = [next(line["metaData"] for line in commit if "metaData" in line) for commit in found]
    own = ("delta.rowTracking.materializedRowIdColumnName", "delta.rowTracking.materializedRowCommitVersionColumnName")
    for each in metadata:
        for key in own:
            assert each["configuration"].pop(key) != source.snapshot().properties[key]
        each.pop("id")
    assert metadata[0] == metadata[1]


@pytest.mark.hunt(part="spark")
def test_sparks_tasks_read_and_change_a_shallow_clone(spark: SparkSession, source: txlog.Table, tmp_path: Path) -> None:
    place = tmp_path / "clone"
    source.clone(place, shallow=True)
    assert ids_of(spark.read.format("txlog").load(str(place))) == LEFT
    delete_by_tasks(spark, str(place), "id = 4")
    upsert_by_tasks(spark, str(place), spark.createDataFrame([(5, "a b%"), (50, "ü")], "id bigint, p string"), ["id"])
    assert ids(txlog.Table.open(place)) == sorted({*LEFT, 50} - {4})
    assert ids(source) == LEFT


@pytest.mark.hunt(part="spark")
def test_both_convert_the_same_folder_to_the_same_table(delta: SparkSession, read_delta: Read, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    frame = delta.range(8).selectExpr("id", "cast(id as string) note", "id % 2 as n", "concat('a b ', id % 2) as p")
    for place in (ours, theirs):
        frame.write.partitionBy("n", "p").parquet(str(place))
    delta.sql(f"convert to delta parquet.`{theirs}` partitioned by (n bigint, p string)")
    txlog.Table.convert(ours, "n bigint, p string")
    expected = sorted(map(repr, frame.collect()))
    columns = ["id", "note", "n", "p"]
    assert sorted(map(repr, read_delta(ours).select(columns).collect())) == expected
    rows = [txlog.Table.open(place).to_arrow(columns).sort_by("id").to_pylist() for place in (ours, theirs)]
    assert rows[0] == rows[1]
    commits = [first_commit(place) for place in (ours, theirs)]
    schemas = [next(line["metaData"]["schemaString"] for line in commit if "metaData" in line) for commit in commits]
    assert json.loads(schemas[0]) == json.loads(schemas[1])
    infos = [commit[0]["commitInfo"] for commit in commits]
    assert infos[0]["operation"] == infos[1]["operation"]
    parameters = [{key: str(value).lower() for key, value in info["operationParameters"].items()} for info in infos]
    assert parameters[0] == parameters[1]
    assert infos[0]["operationMetrics"] == infos[1]["operationMetrics"]
    delta.sql(f"delete from delta.`{ours}` where id = 3")
    txlog.Table.open(theirs).delete("id = 3")
    assert ids(txlog.Table.open(ours)) == ids_of(read_delta(theirs)) == [0, 1, 2, 4, 5, 6, 7]


@pytest.mark.hunt(part="spark")
def test_spark_reads_and_changes_a_converted_iceberg_table(
    delta: SparkSession, read_delta: Read, tmp_path: Path
) -> None:
    for way in ("read", "write"):  # Spark's Delta refuses tables mapped by id without
        delta.conf.set(f"spark.sql.parquet.fieldId.{way}.enabled", "true")
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/house")
    catalog.create_namespace("n")
    inner = pa.struct([("k", pa.int64()), ("t", pa.string())])
    schema = pa.schema(
        [("id", pa.int64()), ("a", pa.string()), ("s", inner), ("l", pa.list_(inner)), ("z", pa.int64())]
    )
    iceberg = catalog.create_table("n.t", schema=schema)
    first = [{"id": n, "a": f"a{n}", "s": {"k": n, "t": "x"}, "l": [{"k": n, "t": None}], "z": n} for n in range(4)]
    iceberg.append(pa.Table.from_pylist(first, schema))
    with iceberg.update_schema() as update:
        update.rename_column("a", "b")
        update.delete_column("z")
    last = {"id": 4, "b": "b4", "s": None, "l": None}
    iceberg.append(pa.Table.from_pylist([last], schema.remove(4).set(1, pa.field("b", pa.string()))))
    expected = sorted(iceberg.scan().to_arrow().to_pylist(), key=repr)
    catalog.destroy_tables()
    place = Path(iceberg.location().removeprefix("file://"))
    txlog.Table.convert(place, properties={"delta.enableDeletionVectors": "true"})
    assert sorted((row.asDict(recursive=True) for row in read_delta(place).collect()), key=repr) == expected
    delta.sql(f"delete from delta.`{place}` where id = 2")
    delta.sql(f"insert into delta.`{place}` select 9, 'b9', null, null")
    table = txlog.Table.open(place)
    table.update({"b": txlog.expr("'new'")}, "id = 1")
    table.append(pa.table({"id": [10], "b": ["b10"]}))
    found = sorted((row.id, row.b) for row in read_delta(place).collect())
    assert found == [(0, "a0"), (1, "new"), (3, "a3"), (4, "b4"), (9, "b9"), (10, "b10")]
    assert verify_table(table._open_table.store).is_sound
