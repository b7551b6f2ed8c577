"""The data source on the oldest Sparks that txlog allows, and through Spark Connect: `make hunt PART=spark-versions`.

In a separate environment, since the other tests use the newest Spark. A program has either a classic session or a
Connect session, so the file runs twice; ``TXLOG_SPARK=connect`` selects Connect, and Spark starts its server.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import java_home
import pytest
from pyspark.sql import datasource

import txlog
import txlog.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HAS_STREAM_SINK = hasattr(datasource, "DataSourceStreamArrowWriter")
"""Not before pyspark 4.1."""

IS_CONNECT = os.environ.get("TXLOG_SPARK") == "connect"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(java_home.java_home())
    builder = SparkSession.builder.remote("local[2]") if IS_CONNECT else SparkSession.builder.master("local[2]")
    options = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for key, value in options.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    assert ("connect" in type(session).__module__) == IS_CONNECT
    print("Spark", session.version, flush=True)
    txlog.spark.register(session)
    yield session
    session.stop()


def save(frame: DataFrame, path: Path, mode: str = "append", **options: str) -> None:
    frame.write.format("txlog").mode(mode).options(**options).save(str(path))


def ids(path: Path | str) -> list[int]:
    return sorted(txlog.Table.open(path).snapshot().to_arrow()["id"].to_pylist())


def read_ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.collect())


def test_rows_are_appended_overwritten_and_upserted(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows = spark.range(6).selectExpr("id", "id % 2 as part")
    save(rows, path, partitionBy="part", txnAppId="job", txnVersion="1", **{"delta.enableDeletionVectors": "true"})
    save(rows, path, txnAppId="job", txnVersion="1")
    assert txlog.Table.open(path).version == 0
    save(spark.range(10, 11).selectExpr("id", "0L as part"), path, "overwrite", partitionOverwriteMode="dynamic")
    assert ids(path) == [1, 3, 5, 10]
    save(
        spark.range(1, 2).selectExpr("id", "1L as part"),
        path,
        "overwrite",
        replaceWhere="id < 4",
        rowMode="copy-on-write",
    )
    assert ids(path) == [1, 5, 10]
    save(spark.range(5, 8).selectExpr("id", "1L as part"), path, upsertKeys="id")
    assert ids(path) == [1, 5, 6, 7, 10]


def test_spark_read_and_the_data_source_read_the_same_rows_of_a_version(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.range(8), path, **{"delta.enableDeletionVectors": "true"})
    txlog.Table.open(path).delete("id in (2, 3)")
    left = [0, 1, 4, 5, 6, 7]
    assert read_ids(txlog.spark.read(spark, path)) == read_ids(spark.read.format("txlog").load(str(path))) == left
    assert read_ids(txlog.spark.read(spark, path, version=0)) == list(range(8))
    assert read_ids(spark.read.format("txlog").option("versionAsOf", 0).load(str(path)).where("id > 5")) == [6, 7]


def test_rows_are_changed_in_tasks(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.range(6).selectExpr("id", "id as n"), path, **{"delta.enableDeletionVectors": "true"})
    txlog.spark.delete(spark, path, "id = 0")
    txlog.spark.update(spark, path, {"n": txlog.expr("n + 100")}, "id = 1")
    source = spark.range(5, 8).selectExpr("id", "id * 10 as n")
    merge = txlog.spark.merge(spark, path, source, ["id"])
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    rows = txlog.Table.open(path).snapshot().to_arrow().to_pylist()
    assert {row["id"]: row["n"] for row in rows} == {1: 101, 2: 2, 3: 3, 4: 4, 5: 50, 6: 60, 7: 70}


def test_the_settings_and_views_of_the_session_reach_what_the_driver_runs(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.range(3), path)
    spark.range(2, 4).selectExpr("id", "id * 10 as more").createOrReplaceTempView("changes")
    delta = "spark.databricks.delta"
    settings = {
        f"{delta}.write.txnAppId": "job",
        f"{delta}.write.txnVersion": "1",
        f"{delta}.write.txnVersion.autoReset.enabled": "true",
        f"{delta}.schema.autoMerge.enabled": "true",
        f"{delta}.commitInfo.userMetadata": "ticket 7",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        merge = f"merge into delta.`{path}` t using changes s on t.id = s.id when matched then update set *"
        txlog.spark.sql(spark, f"{merge} when not matched then insert *")
        assert spark.conf.get(f"{delta}.write.txnVersion", None) is None
        spark.conf.set(f"{delta}.write.txnVersion", "1")
        txlog.spark.update(spark, path, {"id": txlog.expr("id + 100")})
    finally:
        for name in settings:
            spark.conf.unset(name)
    table = txlog.Table.open(path)
    assert {row["id"]: row["more"] for row in table.to_arrow().to_pylist()} == {0: None, 1: None, 2: 20, 3: 30}
    assert (table.version, table.history(1)[0]["userMetadata"]) == (1, "ticket 7")


def test_error_from_gives_the_txlog_error_type_of_a_refused_write(spark: SparkSession, tmp_path: Path) -> None:
    save(spark.range(3), tmp_path / "t")
    with pytest.raises(Exception, match="mergeSchema") as caught:
        save(spark.range(3).selectExpr("id", "id as more"), tmp_path / "t")
    assert isinstance(txlog.spark.error_from(caught.value), txlog.SchemaMismatchError)


def test_a_stream_from_a_table_into_a_table_has_each_row_once_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, target, counted = tmp_path / "source", tmp_path / "target", tmp_path / "counted"

    def run(writer: Any, checkpoint: str, *path: str) -> None:
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True)
        assert writer.start(*path).awaitTermination(300)

    for first in (0, 4):
        save(spark.range(first, first + 4), source)
        frame = spark.readStream.format("txlog").load(str(source))
        if HAS_STREAM_SINK:
            run(frame.writeStream.format("txlog"), "sink", str(target))
        each = txlog.spark.foreach_batch(str(counted), app_id="each")
        run(frame.writeStream.foreachBatch(each), "function")
    assert ids(counted) == list(range(8))
    assert not HAS_STREAM_SINK or ids(target) == list(range(8))


@pytest.mark.skipif(HAS_STREAM_SINK, reason="pyspark 4.1 and newer have a sink for streams")
def test_a_stream_into_the_format_is_refused_before_spark_4_1_and_names_foreach_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    save(spark.range(3), tmp_path / "source")
    frame = spark.readStream.format("txlog").load(str(tmp_path / "source"))
    writer = frame.writeStream.format("txlog").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match=r"needs pyspark 4\.1.*foreachBatch\(txlog\.spark\.foreach_batch"):
        writer.trigger(availableNow=True).start(str(tmp_path / "target")).awaitTermination(300)
    assert not txlog.Table.exists(tmp_path / "target")


def test_a_stream_with_max_files_per_trigger_is_refused_before_spark_4_2(spark: SparkSession, tmp_path: Path) -> None:
    """Before Spark 4.2 a source is not given the start of a batch."""
    save(spark.range(3), tmp_path / "source")
    frame = spark.readStream.format("txlog").option("maxFilesPerTrigger", 1).load(str(tmp_path / "source"))
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match=r"need pyspark 4\.2"):
        writer.trigger(availableNow=True).start().awaitTermination(300)
