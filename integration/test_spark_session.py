"""What a session means for a write: the program's threads, tables of its catalog, its settings, how it shows errors."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from spark_helpers import own_rows, save

import txlog
import txlog.spark
from txlog.spark import error_from, foreach_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


def ids(path: Path) -> list[int]:
    return sorted(row["id"] for row in own_rows(path))


# --- threads ----------------------------------------------------------------------------------------------------


def test_jobs_of_a_thread_pool_write_when_each_thread_registers_the_source(spark: SparkSession, path: Path) -> None:
    """``initializer=txlog.spark.register`` is all: no argument."""
    with ThreadPoolExecutor(3, initializer=txlog.spark.register) as pool:
        list(pool.map(lambda at: save(spark.range(at, at + 1), path), range(6)))
    assert ids(path) == list(range(6))


def test_the_error_in_a_thread_without_a_session_says_what_to_call(spark: SparkSession, path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        failed = pool.submit(save, spark.range(1), path).exception()
    assert failed is not None
    error = error_from(failed)
    assert isinstance(error, txlog.InvalidInputError)
    assert "ThreadPoolExecutor(8, initializer=txlog.spark.register)" in error.message
    assert "After an interrupted call (Ctrl-C)" in error.message
    assert not path.exists()


def test_threads_of_a_foreach_batch_function_write_without_registering_the_source(
    spark: SparkSession, path: Path, tmp_path: Path
) -> None:
    places = [tmp_path / "a", tmp_path / "b"]

    def each(batch: DataFrame, to: txlog.spark.MicroBatch) -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda place: to.write(batch, place), places))

    spark.range(4).write.parquet(str(tmp_path / "in"))
    source = spark.readStream.schema("id long").parquet(str(tmp_path / "in"))
    query = source.writeStream.foreachBatch(foreach_batch(each)).option("checkpointLocation", str(tmp_path / "c"))
    assert query.trigger(availableNow=True).start().awaitTermination(120)
    assert [ids(place) for place in places] == [[0, 1, 2, 3]] * 2


# --- tables of the catalog --------------------------------------------------------------------------------------

CATALOG_JOB = """
import json, sys
from pyspark.sql import SparkSession
from txlog.spark import error_from
root = sys.argv[1]
spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    .config("spark.sql.warehouse.dir", root + "/warehouse").getOrCreate())
spark.sparkContext.setLogLevel("OFF")
rows = spark.range(7, 8)
writes = {
    "INSERT INTO": lambda t, p: spark.sql(f"INSERT INTO {t} VALUES (7)"),
    "insertInto": lambda t, p: rows.write.insertInto(t),
    "insertInto with a path": lambda t, p: rows.write.option("path", p).insertInto(t),
    "writeTo": lambda t, p: rows.writeTo(t).append(),
    "saveAsTable": lambda t, p: rows.write.format("txlog").mode("append").saveAsTable(t),
    "select": lambda t, p: spark.sql(f"CREATE TABLE made USING txlog LOCATION '{p}' AS SELECT 1L AS id"),
    "INSERT INTO WITH": lambda t, p: spark.sql(f"INSERT INTO {t} WITH (path='{p}') SELECT 7L"),
    "INSERT OVERWRITE WITH": lambda t, p: spark.sql(f"INSERT OVERWRITE {t} WITH (path='{p}') SELECT 7L"),
    "writeTo with a path": lambda t, p: rows.writeTo(t).option("path", p).append(),
    "saveAsTable with a path": lambda t, p: rows.write.format("txlog").option("path", p).mode("append").saveAsTable(t),
}
reads = {
    "table with a path": lambda t, p: spark.read.option("path", p).table(t).count(),
    "SELECT WITH": lambda t, p: spark.sql(f"SELECT * FROM {t} WITH (path='{p}')").count(),
    "table": lambda t, p: spark.table(t).count(),
}
found, read = {}, {}
for name, place in (("by_location", "LOCATION '{}'"), ("by_option", "OPTIONS (path '{}')")):
    spark.sql(f"CREATE TABLE {name} (id BIGINT) USING txlog {place.format(root + '/' + name)}")
    for way, write in writes.items():
        try:
            write(name, root + "/" + name)
            found[f"{name} {way}"] = None
        except Exception as exc:
            error = error_from(exc)
            found[f"{name} {way}"] = error.message if error else "NOT OURS " + str(exc)
    for way, count in reads.items():
        try:
            read[f"{name} {way}"] = count(name, root + "/" + name)
        except Exception as exc:
            read[f"{name} {way}"] = error_from(exc).message
found["made"] = str(spark.catalog.tableExists("made"))
print("found " + json.dumps([found, read]))
"""


@pytest.mark.hunt(part="spark")
def test_a_catalog_table_is_written_and_read_if_the_command_names_its_path(spark: SparkSession, tmp_path: Path) -> None:
    """In a session without Delta's catalog, which takes no Python sources at all."""
    command = [sys.executable, "-c", CATALOG_JOB, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    reported, read = json.loads(
        next(line for line in done.stdout.splitlines() if line.startswith("found ")).removeprefix("found ")
    )
    assert reported.pop("made") == "False"
    assert {way: message for way, message in reported.items() if way.endswith(("WITH", "with a path")) and message} == {
        f"{name} insertInto with a path": reported["by_location INSERT INTO"] for name in ("by_location", "by_option")
    }
    refusals = {message for message in reported.values() if message}
    assert len(refusals) == 1
    assert "neither LOCATION nor OPTIONS" in refusals.pop()
    for name in ("by_location", "by_option"):
        assert (read[f"{name} table with a path"], read[f"{name} SELECT WITH"]) == (3, 3)
        assert "A name in Spark's catalog does not say where the table is" in read[f"{name} table"]
        assert (ids(tmp_path / name), txlog.Table.open(tmp_path / name).version) == ([7, 7, 7], 3)


def test_the_error_for_a_txlog_table_in_deltas_catalog_says_that_it_is_not_accepted(
    spark: SparkSession, read_delta: Any, path: Path
) -> None:
    spark.sql(f"CREATE TABLE orders (id BIGINT) USING txlog LOCATION '{path}'")
    try:
        with pytest.raises(Exception, match="not a valid Spark SQL Data Source") as caught:
            spark.sql("INSERT INTO orders VALUES (7)")
    finally:
        spark.sql("DROP TABLE orders")
    error = error_from(caught.value)
    assert error is not None
    assert "does not accept tables USING txlog" in error.message


# --- errors, credentials ----------------------------------------------------------------------------------------


def test_spark_shows_our_message_before_the_traceback(spark: SparkSession, path: Path) -> None:
    """Of an error on the driver, and of one in a task."""
    txlog.Table.create(path, "id bigint not null")
    for rows in (spark.range(1).selectExpr("id as other"), spark.sql("select cast(null as bigint) as id")):
        with pytest.raises(Exception, match="txlog-error") as caught:
            save(rows, path)
        error, shown = error_from(caught.value), str(caught.value)
        assert error is not None
        assert shown.index(f"txlog.errors.{error.kind}: {error}") < shown.index("Traceback (most recent call last)")


def test_storage_options_takes_the_credentials_of_hadoops_settings(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.conf.set("fs.s3a.access.key", "of this session")
    spark.conf.set("spark.hadoop.fs.s3a.endpoint", "http://localhost:1")
    assert txlog.spark.storage_options(spark) == {
        "storage.access_key_id": "of this session",
        "storage.endpoint": "http://localhost:1",
        "storage.allow_http": "true",
    }
    save(spark.range(1), tmp_path / "t", **txlog.spark.storage_options(spark))
