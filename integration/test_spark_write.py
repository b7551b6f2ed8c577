"""What a Spark write does to a table: modes, options, session settings, identity of a batch, refusals."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from spark_helpers import as_rows, commit_info, commits, own_rows, refused, save

import txlog
import txlog.spark
from txlog.errors import InvalidInputError, SchemaMismatchError, UnsupportedFeatureError
from txlog.spark import error_from

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from servers import S3Location

Read = Callable[..., "DataFrame"]
DYNAMIC = "spark.sql.sources.partitionOverwriteMode"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


def ids(path: Path) -> list[int]:
    return sorted(row["id"] for row in own_rows(path))


# --- modes ------------------------------------------------------------------------------------------------------


def test_a_first_write_creates_the_table_in_one_commit(spark: SparkSession, path: Path) -> None:
    save(
        spark.range(10).selectExpr("id", "id % 2 as p"),
        path,
        partitionBy="P",
        **{"delta.appendOnly": "true", "delta.checkpointInterval": "7"},
    )
    (lines,) = commits(path)
    assert [next(iter(line)) for line in lines[:1]] == ["commitInfo"]
    metadata = next(line["metaData"] for line in lines if "metaData" in line)
    assert metadata["partitionColumns"] == ["p"]
    assert metadata["configuration"] == {"delta.appendOnly": "true", "delta.checkpointInterval": "7"}
    assert ids(path) == list(range(10))
    snapshot = txlog.Table.open(str(path)).snapshot()
    assert (snapshot.version, snapshot.schema.field("id").nullable) == (0, True)


def test_append_adds_and_overwrite_replaces(spark: SparkSession, read_delta: Read, path: Path) -> None:
    save(spark.range(5), path)
    save(spark.range(5, 8), path)
    assert ids(path) == list(range(8))
    save(spark.range(100, 103), path, "overwrite")
    assert ids(path) == [100, 101, 102]
    assert as_rows(read_delta(path)) == as_rows(spark.range(100, 103))
    assert as_rows(read_delta(path, versionAsOf=1)) == as_rows(spark.range(8))


def test_a_frame_without_rows_creates_a_table_and_empties_one(
    spark: SparkSession, read_delta: Read, path: Path
) -> None:
    save(spark.range(0), path)
    assert read_delta(path).schema.simpleString() == "struct<id:bigint>"
    save(spark.range(3), path)
    save(spark.createDataFrame([], "id long"), path)
    assert ids(path) == [0, 1, 2]
    save(spark.range(0), path, "overwrite")
    assert read_delta(path).count() == 0


def test_modes_that_spark_does_not_offer_to_python_sources_change_nothing(spark: SparkSession, path: Path) -> None:
    save(spark.range(1), path)
    for mode in ("errorifexists", "ignore"):
        with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            save(spark.range(1), path, mode)
    assert len(commits(path)) == 1


def test_more_rows_are_written_than_the_driver_takes_of_results(spark: SparkSession, path: Path) -> None:
    """The tasks' messages name files; rows never pass the driver."""
    assert spark.sparkContext.getConf().get("spark.driver.maxResultSize") == "8m"
    frame = spark.range(400_000).selectExpr("id", "uuid() as a").repartition(4)
    save(frame, path)
    snapshot = txlog.Table.open(str(path)).snapshot()
    assert snapshot.num_files == 4
    assert snapshot.size_bytes > 8_000_000


# --- schema -----------------------------------------------------------------------------------------------------


def test_a_schema_that_does_not_fit_is_refused_before_any_task_runs(spark: SparkSession, path: Path) -> None:
    save(spark.sql("select 1 as id, 'x' as name"), path)
    ran = spark.sparkContext.accumulator(0)

    def count(batches: object) -> object:
        ran.add(1)
        return batches

    frame = spark.sql("select 'one' as id, 2 as extra").mapInArrow(count, "id string, extra int")  # type: ignore[arg-type]
    error = refused(lambda: save(frame, path))
    assert isinstance(error, SchemaMismatchError)
    assert error.version == 0
    assert "id" in error.message
    assert "extra" in error.message
    assert "mergeSchema" in error.message
    assert ran.value == 0
    assert len(commits(path)) == 1


def test_columns_match_by_name_in_any_order_and_case(spark: SparkSession, path: Path) -> None:
    save(spark.sql("select 1L as id, 'x' as Name, 1.5d as amount"), path)
    save(spark.sql("select 'y' as NAME, 2 as ID"), path)
    assert sorted(own_rows(path), key=lambda row: row["id"]) == [
        {"id": 1, "Name": "x", "amount": 1.5},
        {"id": 2, "Name": "y", "amount": None},
    ]


def test_merge_schema_adds_columns_also_inside_structs(spark: SparkSession, read_delta: Read, path: Path) -> None:
    save(spark.sql("select 1 as id, named_struct('a', 1) as s"), path)
    wider = spark.sql("select 2 as id, named_struct('a', 2, 'b', 'x') as s, date'2026-01-01' as day")
    assert isinstance(refused(lambda: save(wider, path)), SchemaMismatchError)
    save(wider, path, mergeSchema="true")
    assert as_rows(read_delta(path)) == as_rows(
        spark.sql(
            "select 1 as id, named_struct('a', 1, 'b', null) as s, null as day union all "
            "select 2, named_struct('a', 2, 'b', 'x'), date'2026-01-01'"
        )
    )


def test_merge_schema_with_overwrite_keeps_the_old_columns(spark: SparkSession, path: Path) -> None:
    save(spark.sql("select 1 as id, 'x' as name"), path)
    save(spark.sql("select 2 as id, 3 as number"), path, "overwrite", mergeSchema="true")
    assert own_rows(path) == [{"id": 2, "name": None, "number": 3}]


def test_timestamps_are_the_same_moment_whatever_the_sessions_zone(
    spark: SparkSession, read_delta: Read, path: Path
) -> None:
    for zone in ("Asia/Tokyo", "UTC"):
        spark.conf.set("spark.sql.session.timeZone", zone)
        save(spark.sql("select timestamp'2026-07-01 12:00:00Z' as t"), path)
    assert {row["t"].isoformat() for row in own_rows(path)} == {"2026-07-01T12:00:00+00:00"}
    assert read_delta(path).where("t = timestamp'2026-07-01 12:00:00Z'").count() == 2


def test_a_null_in_a_not_null_column_fails_the_task_and_names_the_column(spark: SparkSession, path: Path) -> None:
    import pyarrow as pa

    txlog.Table.create(str(path), pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int32())]))
    error = refused(lambda: save(spark.sql("select 1L as id, 1 as n union all select null, 7"), path))
    assert isinstance(error, InvalidInputError)
    assert "id" in error.message
    assert own_rows(path) == []
    save(spark.sql("select cast(if(1 > 0, 5, null) as bigint) as id"), path)  # nullable by its flag, not in its rows
    assert ids(path) == [5]


def test_a_number_out_of_the_columns_range_fails_the_task_with_the_value(spark: SparkSession, path: Path) -> None:
    save(spark.sql("select 1 as n"), path)
    error = refused(lambda: save(spark.sql("select 4294967296L as n"), path))
    assert isinstance(error, InvalidInputError)
    assert "4294967296" in error.message
    assert own_rows(path) == [{"n": 1}]


# --- options ----------------------------------------------------------------------------------------------------


def test_an_unknown_option_is_refused_with_the_nearest_known_one(spark: SparkSession, path: Path) -> None:
    error = refused(lambda: save(spark.range(1), path, mergeSchemas="true"))
    assert isinstance(error, InvalidInputError)
    assert "did you mean 'mergeSchema'" in error.message
    assert not path.exists()


def test_partitioning_is_the_tables_and_a_write_that_names_another_is_refused(spark: SparkSession, path: Path) -> None:
    frame = spark.range(4).selectExpr("id", "id % 2 as p")
    save(frame, path, partitionBy="p")
    save(frame, path)
    save(frame, path, partitionBy="P")
    assert isinstance(refused(lambda: save(frame, path, partitionBy="id")), InvalidInputError)
    assert isinstance(refused(lambda: save(frame, path.parent / "u", partitionBy="nope")), InvalidInputError)
    assert len(commits(path)) == 3


def test_properties_of_a_table_that_exists_are_not_changed_by_a_write(spark: SparkSession, path: Path) -> None:
    save(spark.range(1), path, **{"delta.checkpointInterval": "5"})
    save(spark.range(1), path, **{"delta.checkpointInterval": "5"})
    error = refused(lambda: save(spark.range(1), path, **{"delta.checkpointInterval": "6"}))
    assert "set_properties" in error.message


def test_files_are_as_small_and_compressed_as_asked(spark: SparkSession, path: Path) -> None:
    import pyarrow.parquet as pq

    save(spark.range(100).coalesce(1), path, maxRecordsPerFile="30", compression="gzip")
    files = sorted(path.glob("*.parquet"))
    assert [pq.read_metadata(file).num_rows for file in files].count(30) == 3
    assert {pq.read_metadata(file).row_group(0).column(0).compression for file in files} == {"GZIP"}
    spark.conf.set("spark.sql.files.maxRecordsPerFile", "50")
    save(spark.range(100).coalesce(1), path)
    assert txlog.Table.open(str(path)).snapshot().num_files == 6


def test_user_metadata_of_the_option_and_of_the_session_reach_the_commit(spark: SparkSession, path: Path) -> None:
    save(spark.range(1), path, userMetadata="mine")
    assert commit_info(path)["userMetadata"] == "mine"
    spark.conf.set("spark.databricks.delta.commitInfo.userMetadata", "the session's")
    save(spark.range(1), path)
    assert commit_info(path)["userMetadata"] == "the session's"


def test_storage_options_take_driver_and_tasks_to_an_object_store(
    spark: SparkSession, s3_location: S3Location, capfd: pytest.CaptureFixture[str]
) -> None:
    options = {f"storage.{key}": value for key, value in s3_location.storage_options.items()}
    for number in range(2):
        frame = spark.range(number * 10, number * 10 + 10).selectExpr("id", "id % 2 as p").repartition(2)
        frame.write.format("txlog").mode("append").options(partitionBy="p", **options).save(s3_location.uri)
    table = txlog.Table.open(s3_location.uri, storage_options=s3_location.storage_options)
    assert sorted(table.snapshot().to_arrow()["id"].to_pylist()) == list(range(20))

    writer = spark.range(1).write.format("txlog").mode("append").options(**options)
    error = refused(lambda: writer.option("storage.regoin", "x").save(s3_location.uri))
    assert "region" in error.message
    assert s3_location.storage_options["secret_access_key"] not in str(error) + "".join(capfd.readouterr())


# --- session settings -------------------------------------------------------------------------------------------


def test_an_overwrite_in_a_session_set_to_dynamic_partitions_replaces_only_its_own(
    spark: SparkSession, path: Path
) -> None:
    frame = spark.range(4).selectExpr("id", "id % 2 as p")
    save(frame, path, partitionBy="p")
    spark.conf.set(DYNAMIC, "dynamic")
    save(frame.where("id = 0"), path, "overwrite")
    assert ids(path) == [0, 1, 3]
    save(frame.where("p = 1"), path, "overwrite", partitionOverwriteMode="static")
    assert ids(path) == [1, 3]
    before = list(path.glob("**/*.parquet"))
    error = refused(lambda: save(frame, path, "overwrite", overwriteSchema="true"))
    assert isinstance(error, InvalidInputError)
    assert list(path.glob("**/*.parquet")) == before


def test_defaults_for_new_tables_are_not_ignored(spark: SparkSession, path: Path) -> None:
    spark.conf.set("spark.databricks.delta.properties.defaults.appendOnly", "true")
    assert isinstance(refused(lambda: save(spark.range(1), path)), UnsupportedFeatureError)
    assert not txlog.Table.exists(str(path))


# --- a batch with an identity -----------------------------------------------------------------------------------


def test_a_batch_named_by_an_application_and_a_version_lands_once(spark: SparkSession, path: Path) -> None:
    for _ in range(2):
        save(spark.range(3), path, txnAppId="etl", txnVersion="4")
    assert ids(path) == [0, 1, 2]
    assert txlog.Table.open(str(path)).snapshot().transaction_version("etl") == 4
    assert len(list(path.glob("*.parquet"))) == len([line for line in commits(path)[0] if "add" in line])
    save(spark.range(3, 5), path, txnAppId="etl", txnVersion="5")
    assert ids(path) == [0, 1, 2, 3, 4]


def test_a_batch_named_by_the_session_lands_once(spark: SparkSession, path: Path) -> None:
    spark.conf.set("spark.databricks.delta.write.txnAppId", "etl")
    spark.conf.set("spark.databricks.delta.write.txnVersion", "1")
    for _ in range(2):
        save(spark.range(3), path)
    assert ids(path) == [0, 1, 2]
    spark.conf.set("spark.databricks.delta.write.txnVersion.autoReset.enabled", "true")
    assert isinstance(refused(lambda: save(spark.range(3), path)), UnsupportedFeatureError)


def test_a_batch_older_than_the_last_is_refused_where_nothing_proves_it(spark: SparkSession, path: Path) -> None:
    save(spark.range(3), path, txnAppId="etl", txnVersion="4")
    assert isinstance(refused(lambda: save(spark.range(3), path, txnAppId="etl", txnVersion="3")), InvalidInputError)
    assert ids(path) == [0, 1, 2]


# --- streams by foreachBatch, and no path ------------------------------------------------------------------------


def test_a_stream_writes_each_batch_once_by_foreach_batch(spark: SparkSession, tmp_path: Path, path: Path) -> None:
    """Each batch is written twice, as after a lost answer."""
    spark.range(10).write.parquet(str(tmp_path / "source"))

    def write(batch: DataFrame, number: int) -> None:
        for _ in range(2):
            save(batch, path, txnAppId="query", txnVersion=str(number))

    stream = spark.readStream.schema("id long").parquet(str(tmp_path / "source"))
    query = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "c"))
    assert query.trigger(availableNow=True).start().awaitTermination(120)
    assert ids(path) == list(range(10))
    assert txlog.Table.open(str(path)).snapshot().transaction_version("query") == 0


def test_a_write_without_a_path_is_refused(spark: SparkSession) -> None:
    error = refused(lambda: spark.range(1).write.format("txlog").mode("append").save())
    assert "no path" in error.message


def test_registering_finds_the_source_too(spark: SparkSession, path: Path) -> None:
    txlog.spark.register(spark)
    save(spark.range(2), path)
    assert ids(path) == [0, 1]


def test_a_broken_txlog_does_not_break_the_other_sources_of_a_session(tmp_path: Path) -> None:
    (tmp_path / "txlog").mkdir()
    (tmp_path / "txlog" / "__init__.py").write_text("raise RuntimeError('half an installation')\n")
    discovery = Path(__file__).parent.parent / "txlog" / "spark" / "discovery"
    script = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(discovery)!r}]; import pyspark_txlog as found; " + (
        "print(hasattr(found, 'DefaultSource'))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False"]
    assert "half an installation" in run.stderr


def test_an_error_of_spark_itself_is_no_error_of_txlog(spark: SparkSession, path: Path) -> None:
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO") as caught:
        save(spark.sql("select 1 / 0 as x"), path)
    assert error_from(caught.value) is None
