"""Spark on tables whose commits a catalog decides: writes, reads, streams and row changes by name, and tokens that stay
out of plans.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from spark_helpers import refused

import txlog
import txlog.spark
from txlog.testing.unity_server import UnityServer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "uc://main.s.t"
TOKEN = "secret-token-0815"


@pytest.fixture
def options(tmp_path: Path) -> Iterator[dict[str, str]]:
    """What a job says about the catalog. Spark's Python workers read the token from the file."""
    with UnityServer(tmp_path / "server") as server:
        server.switches.rights = {TOKEN: {"READ", "READ_WRITE", "CREATE"}}
        (tmp_path / "token").write_text(TOKEN)
        file = str(tmp_path / "token")
        own = {"catalog": server.uri, "catalog_token_file": file}
        txlog.Table.create(NAME, "id bigint, v bigint", storage_options=own)
        yield {"catalog": server.uri, "storage.catalog_token_file": file}


def own(options: dict[str, str]) -> dict[str, str]:
    return {key.removeprefix("storage."): value for key, value in options.items()}


def rows(options: dict[str, str]) -> list[tuple[int, int]]:
    found = txlog.Table.open(NAME, storage_options=own(options)).to_arrow()
    return sorted(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))


def numbers(spark: SparkSession, *bounds: int) -> DataFrame:
    return spark.range(*bounds).selectExpr("id", "id * 10 as v")


def test_a_job_writes_and_reads_a_managed_table_by_its_name(spark: SparkSession, options: dict[str, str]) -> None:
    for first in (0, 50):
        frame = numbers(spark, first, first + 50).repartition(3)
        frame.write.format("txlog").options(**options).mode("append").save(NAME)
    assert rows(options) == [(each, each * 10) for each in range(100)]
    read = spark.read.format("txlog").options(**options).load(NAME)
    assert read.where("id >= 90").count() == 10
    older = spark.read.format("txlog").options(**options).option("versionAsOf", 1).load(NAME)
    assert older.count() == 50
    assert txlog.spark.read(spark, NAME, storage_options=own(options)).count() == 100
    plan: Any = read._jdf
    assert TOKEN not in plan.queryExecution().toString()


@pytest.mark.hunt(part="spark")
def test_a_stream_goes_from_one_managed_table_into_another(
    spark: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    numbers(spark, 20).write.format("txlog").options(**options).mode("append").save(NAME)
    txlog.Table.create("uc://main.s.copy", "id bigint, v bigint", storage_options=own(options))
    events = spark.readStream.format("txlog").options(**options).load(NAME)
    for _ in range(2):  # a restart repeats nothing
        writer = events.writeStream.format("txlog").options(**options)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        query.start("uc://main.s.copy").awaitTermination()
    copy = txlog.Table.open("uc://main.s.copy", storage_options=own(options)).to_arrow()
    assert sorted(copy["id"].to_pylist()) == list(range(20))


def test_row_changes_run_on_sparks_tasks(spark: SparkSession, options: dict[str, str]) -> None:
    numbers(spark, 10).write.format("txlog").options(**options).mode("append").save(NAME)
    given: Any = {"storage_options": own(options)}
    txlog.spark.delete(spark, NAME, "id < 5", **given)
    txlog.spark.upsert(spark, NAME, numbers(spark, 8, 12).selectExpr("id", "v + 1 as v"), ["id"], **given)
    assert rows(options) == [(5, 50), (6, 60), (7, 70), (8, 81), (9, 91), (10, 101), (11, 111)]


def test_sql_queries_and_changes_managed_tables(spark: SparkSession, options: dict[str, str]) -> None:
    file = own(options)["catalog_token_file"]
    catalog = txlog.Catalog(options["catalog"], storage_options={"catalog_token_file": file})

    def run(text: str) -> Any:
        return txlog.spark.sql(spark, text, catalog)

    run("insert into main.s.t values (1, 10), (2, 20), (3, 30)")
    run("update main.s.t set v = v + 1 where id = 2")
    run("delete from main.s.t where id = 1")
    merged = "when matched then update set v = s.v when not matched then insert *"
    run(f"merge into main.s.t t using (select 3 as id, 31 as v union all select 4, 40) s on t.id = s.id {merged}")
    assert [tuple(row) for row in run("select * from main.s.t order by id").collect()] == [(2, 21), (3, 31), (4, 40)]
    assert run("select count(*) as n from main.s.t version as of 1").collect()[0].n == 3
    plan: Any = run("select * from main.s.t")._jdf
    assert TOKEN not in plan.queryExecution().toString()

    run("create table main.s.made as select id, v from main.s.t where id > 2")
    run("create or replace table main.s.made as select id, v, 'x' as note from main.s.t")
    run("create table main.s.copy clone main.s.made")
    assert catalog.table("main.s.copy").to_arrow().sort_by("id").to_pydict() == {
        "id": [2, 3, 4],
        "v": [21, 31, 40],
        "note": ["x"] * 3,
    }
    assert [entry["version"] for entry in catalog.table("main.s.made").history()] == [1, 0]
    assert [row.tableName for row in run("show tables in main.s").collect()] == ["copy", "made", "t"]


def test_the_first_write_makes_a_managed_table_and_a_stream_needs_one(
    spark: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    for _ in range(2):
        numbers(spark, 5).write.format("txlog").options(**options).mode("append").save("uc://main.s.new")
    made = txlog.Table.open("uc://main.s.new", storage_options=own(options))
    assert (made.version, made.count()) == (1, 10)
    assert made.verify().is_sound
    writer = spark.readStream.format("txlog").options(**options).load("uc://main.s.new").writeStream.format("txlog")
    writer = writer.options(**options).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start("uc://main.s.missing")
    with pytest.raises(Exception, match="has no such table"):
        query.awaitTermination()


def test_a_token_in_an_option_is_refused_since_the_plan_would_show_it(
    spark: SparkSession, options: dict[str, str]
) -> None:
    given = {"catalog": options["catalog"], "storage.catalog_token": TOKEN}
    writer = numbers(spark, 3).write.format("txlog").options(**given).mode("append")
    assert "catalog_token_file" in refused(lambda: writer.save(NAME)).message
