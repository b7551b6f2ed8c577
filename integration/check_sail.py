"""The data source and txlog's functions for Spark on Sail, an engine without a JVM that runs PySpark programs.

`test_sail` runs this file in a process of its own: a program has either a session of Spark or one of Spark Connect.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest

import txlog
import txlog.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TYPES = """select 1 as i, 2L as b, 1.5bd as dec, date'2026-01-01' as d, timestamp'2026-01-01 00:00:00' as ts,
    timestamp_ntz'2026-01-01 00:00:00' as tn, true as t, 'x' as s, cast('ab' as binary) as bin, array(1, null) as a,
    map('k', 1) as m, struct(1 as x, 'y' as y) as st, cast(1 as tinyint) as ti, cast(1.5 as float) as f"""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ |= {"RUST_LOG": "off", "SAIL_EXECUTION__CHECKPOINT__PATH": str(tmp_path_factory.mktemp("kept"))}
    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{server.listening_address[1]}").getOrCreate()
    yield session
    session.stop()
    server.stop()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def save(frame: DataFrame, path: str, mode: str = "append", **options: str) -> None:
    frame.write.format("txlog").mode(mode).options(**options).save(path)


def ids(path: str) -> list[int]:
    """What another engine's reader finds."""
    rows = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path)).execute("select id from t")
    return sorted(pa.table(rows)["id"].to_pylist())


def numbered(spark: SparkSession, *bounds: int) -> DataFrame:
    return spark.range(*bounds).selectExpr("id", "id % 2 as part")


def typed_error(caught: pytest.ExceptionInfo[BaseException]) -> txlog.TxlogError:
    error = txlog.spark.error_from(caught.value)
    assert error is not None
    return error


def test_tasks_append_in_one_commit_that_every_reader_sees(spark: SparkSession, path: str) -> None:
    save(numbered(spark, 100).repartition(4), path)
    table = txlog.Table.open(path)
    assert (table.version, table.num_files) == (0, 4)
    assert ids(path) == [*range(100)]
    assert spark.read.format("delta").load(path).count() == 100


def test_a_retried_write_adds_nothing(spark: SparkSession, path: str) -> None:
    for _ in range(2):
        save(numbered(spark, 3), path, txnAppId="job", txnVersion="1")
    assert ids(path) == [0, 1, 2]


def test_a_commit_that_runs_twice_adds_nothing(spark: SparkSession, path: str) -> None:
    """Sail commits in a task, which a cluster may run again: what it pickled, with the same messages."""
    from txlog.spark.source import TxlogDataSource

    rows = numbered(spark, 3).toArrow()
    for expected in ([0, 1, 2], [0, 0, 1, 1, 2, 2]):  # the first one creates the table
        written = pickle.dumps(TxlogDataSource({"path": path}).writer(rows.schema, False))
        runs = [pickle.loads(written).write(iter(rows.slice(at, 1).to_batches())) for at in (0, 1, 1, 2)]
        for _ in range(2):
            pickle.loads(written).commit([runs[0], runs[2], runs[3]])  # of the second task, one of two runs
        assert ids(path) == expected


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_an_overwrite_replaces_all_rows_or_some_partitions(spark: SparkSession, path: str, mode: str) -> None:
    save(numbered(spark, 4), path, partitionBy="part")
    save(numbered(spark, 10, 11), path, "overwrite", partitionOverwriteMode=mode)
    assert ids(path) == ([10] if mode == "static" else [1, 3, 10])


def test_an_overwrite_of_partitions_must_say_which(spark: SparkSession, path: str) -> None:
    save(numbered(spark, 4), path, partitionBy="part")
    with pytest.raises(Exception, match="txlog") as caught:
        save(numbered(spark, 1), path, "overwrite")
    assert "partitionOverwriteMode" in str(typed_error(caught))
    assert ids(path) == [0, 1, 2, 3]


def test_an_overwrite_replaces_the_rows_of_a_condition(spark: SparkSession, path: str) -> None:
    save(numbered(spark, 6), path)
    save(numbered(spark, 4, 5), path, "overwrite", replaceWhere="id >= 3")
    assert ids(path) == [0, 1, 2, 4]


def test_all_types_are_written_and_read_both_ways(spark: SparkSession, path: str) -> None:
    expected = spark.sql(TYPES).toArrow().to_pylist()
    save(spark.sql(TYPES), path)
    assert spark.read.format("txlog").load(path).toArrow().to_pylist() == expected
    assert txlog.spark.read(spark, path).toArrow().to_pylist() == expected


@pytest.mark.parametrize("partition_by", [None, "part"])
def test_both_reads_leave_deleted_rows_out(spark: SparkSession, path: str, partition_by: str | None) -> None:
    by = {} if partition_by is None else {"partitionBy": partition_by}
    save(numbered(spark, 10), path, **{"delta.enableDeletionVectors": "true"}, **by)
    txlog.Table.open(path).delete("id = 3")
    save(numbered(spark, 10, 20), path)
    kept = [each for each in range(20) if each != 3]
    assert sorted(txlog.spark.read(spark, path).toArrow()["id"].to_pylist()) == kept
    assert sorted(spark.read.format("txlog").load(path).toArrow()["id"].to_pylist()) == kept
    assert txlog.spark.read(spark, path, where="id > 2", columns=["id"]).where("id < 12").count() == 8
    assert spark.read.format("txlog").option("where", "id > 2").load(path).where("id < 12").count() == 8


def test_rows_are_deleted_updated_upserted_and_merged(spark: SparkSession, path: str) -> None:
    save(numbered(spark, 10).repartition(3), path, **{"delta.enableDeletionVectors": "true"})
    assert txlog.spark.delete(spark, path, "id >= 8").metrics.rows_deleted == 2
    assert txlog.spark.update(spark, path, {"part": txlog.expr("7")}, "id = 0").metrics.rows_updated == 1
    result = txlog.spark.upsert(spark, path, numbered(spark, 6, 10).repartition(2), "id")
    assert (result.metrics.rows_inserted, result.metrics.rows_updated) == (2, 2)
    new = numbered(spark, 9, 12)
    merged = txlog.spark.merge(spark, path, new, "target.id = source.id").when_matched_delete()
    assert merged.when_not_matched_insert_all().execute().metrics.rows_inserted == 2
    assert ids(path) == [*range(9), 10, 11]
    assert txlog.Table.open(path).verify().findings == ()


def test_the_last_row_of_a_key_is_upserted(spark: SparkSession, path: str) -> None:
    save(numbered(spark, 2), path)
    rows = spark.sql("select * from values (1L, 5L), (1L, 9L), (1L, 7L) as t(id, part)").repartition(3)
    txlog.spark.upsert(spark, path, rows, "id", on_duplicate="last", sequence_by="part")
    assert txlog.Table.open(path).to_arrow(where="id = 1")["part"].to_pylist() == [9]
    save(rows.limit(1), path, upsertKeys="id")
    assert ids(path) == [0, 1]


def test_maintenance_runs_on_its_tasks(spark: SparkSession, path: str) -> None:
    for start in range(3):
        save(numbered(spark, start, 10 * start + 1), path)
    expected = ids(path)
    assert txlog.spark.optimize(spark, path, zorder_by=["id"]).versions == (3,)
    txlog.spark.vacuum(spark, path)
    assert txlog.spark.verify(spark, path).findings == ()
    assert ids(path) == expected


def test_a_table_that_sql_names_is_read_and_written(spark: SparkSession, path: str) -> None:
    save(numbered(spark, 2), path)
    spark.sql(f"create table named using txlog location '{path}'").collect()
    spark.sql("insert into named values (7, 1)").collect()
    assert spark.sql("select sum(id) as n from named").toArrow().to_pylist() == [{"n": 8}]


def test_errors_keep_their_type(spark: SparkSession, path: str) -> None:
    save(numbered(spark, 2), path)
    with pytest.raises(Exception, match="mergeSchema") as planned:
        save(numbered(spark, 2).selectExpr("*", "1 as x"), path)
    assert isinstance(typed_error(planned), txlog.SchemaMismatchError)
    txlog.Table.open(path).add_constraint("small", "id < 10")
    with pytest.raises(Exception, match="small") as written:
        save(numbered(spark, 20), path)
    assert isinstance(typed_error(written), txlog.InvalidInputError)
    with pytest.raises(txlog.InvalidInputError, match="several rows of the source have the same key"):
        txlog.spark.upsert(spark, path, numbered(spark, 2).union(numbered(spark, 2)), "id")
    assert ids(path) == [0, 1]


@pytest.mark.parametrize("way", ["sink", "source"])
def test_a_stream_is_refused_before_it_begins(spark: SparkSession, path: str, way: str, tmp_path: Path) -> None:
    """Sail streams from and to its own sources only. When this fails, Sail has learned it: then test it."""
    rate: Any = spark.readStream.format("rate").load()
    if way == "sink":
        query = rate.writeStream.format("txlog").option("checkpointLocation", str(tmp_path / "c"))
    else:
        save(numbered(spark, 2), path)
        query = spark.readStream.format("txlog").load(path).writeStream.format("console")
    with pytest.raises(Exception, match=r"streaming"):
        query.start(path)


def test_times_are_read_in_the_zone_of_the_session_or_the_option_must_name_one(spark: SparkSession, path: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    hours = spark.range(24).selectExpr("id", "timestamp_seconds(1704067200 + id * 3600) as ts")
    save(hours, path)
    where = "ts < '2024-01-01 01:00:00'"  # no row of UTC's day in New York, one in UTC
    new = spark.range(1).selectExpr("5L as id", "timestamp_seconds(1704067200 + 5 * 3600) as ts")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        found = sorted(row.id for row in spark.read.format("txlog").load(path).where(where).collect())
        with pytest.raises(Exception, match="timeZone") as caught:
            save(new, path, "overwrite", replaceWhere=where)
        assert isinstance(typed_error(caught), txlog.InvalidInputError)
        with pytest.raises(Exception, match="timeZone"):
            spark.read.format("txlog").option("where", where).load(path).collect()
        read = spark.read.format("txlog").option("where", where).option("timeZone", "America/New_York")
        assert sorted(row.id for row in read.load(path).collect()) == found
        assert sorted(row.id for row in txlog.spark.read(spark, path, where=where).collect()) == found
        txlog.spark.delete(spark, path, where)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert ids(path) == sorted({*range(24)} - {*found}) != [*range(24)]


def test_sql_runs_its_queries_in_sail_where_the_caller_says_so(tmp_path: Path) -> None:
    catalog = txlog.Catalog(tmp_path)
    feed = "tblproperties ('delta.enableChangeDataFeed' = 'true')"
    txlog.sql(f"create table s.t (id bigint, x double, ts timestamp) {feed}", catalog)
    rows = "(1, 2.5, '2026-01-01 10:00:00'), (2, 3, null), (3, -0.0, '2026-07-01 23:30:00')"
    txlog.sql(f"insert into s.t values {rows}", catalog)
    txlog.sql("delete from s.t where id = 2", catalog)  # Sail's reader leaves out deleted rows

    def run(text: str, **parameters: object) -> list[dict[str, Any]]:
        found = txlog.sql(text, catalog, parameters, engine="sail", time_zone="Europe/Berlin")
        return list(found.read_all().to_pylist())

    text = "select id, acosh(id) > 1 as f, hour(ts) as h from s.t where id in (:ids) order by id"
    with pytest.raises(txlog.InvalidInputError, match=r"acosh\(\) is not supported.*engine=.sail. runs it"):
        txlog.sql(text, catalog, {"ids": [1, 3]})
    assert run(text, ids=[1, 3]) == [{"id": 1, "f": False, "h": 11}, {"id": 3, "f": True, "h": 1}]
    assert run("select count(*) as n from s.t version as of 1") == [{"n": 3}]
    assert run("select sum(id) as n from table_changes('s.t', 1, 1)") == [{"n": 6}]
    txlog.sql("insert into s.t select factorial(4), 1, null from s.t limit 1", catalog, engine="sail")
    assert ids(f"{tmp_path}/s/t") == [1, 3, 24]
    with pytest.raises(txlog.InvalidInputError, match="Sail cannot run the query at line 1, column 1"):
        run("select nope from s.t")
    session = txlog.SqlSession(catalog, engine="sail")
    session.sql("create temporary view v as select factorial(3) as n")
    assert session.sql("select n from v").read_all().to_pylist() == [{"n": 6}]
