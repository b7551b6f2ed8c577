"""A session's catalog: tables that Spark's Delta entered are found by name, and ours are found by Spark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import txlog
import txlog.spark
from txlog.errors import InvalidInputError, NotFoundError, TableExistsError, TableNotFoundError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture
def schema(delta: SparkSession, tmp_path: Path) -> Iterator[str]:
    delta.sql(f"create database names location '{tmp_path / 'names'}'")
    yield "names"
    delta.sql("drop database names cascade")


def test_a_table_that_spark_entered_is_found_written_and_read_by_name(
    delta: SparkSession, schema: str, tmp_path: Path
) -> None:
    delta.sql(f"create table names.theirs (id bigint) using delta location '{tmp_path / 'elsewhere'}'")
    delta.sql("create table names.other (id bigint) using parquet")
    catalog = txlog.spark.catalog(delta)
    assert catalog.tables(schema) == ["names.theirs"]
    catalog.table("names.theirs").append(ROWS)
    assert delta.sql("select count(*) from names.theirs").first()[0] == 2
    assert txlog.spark.sql(delta, "select sum(id) from names.theirs where id > 1", catalog).first()[0] == 2
    txlog.spark.sql(delta, "update spark_catalog.names.theirs set id = 7 where id = 1", catalog)
    assert sorted(row.id for row in delta.table("names.theirs").collect()) == [2, 7]
    with pytest.raises(InvalidInputError, match=r"names\.other of Spark's catalog is not a Delta table"):
        catalog.table("names.other")
    with pytest.raises(TableNotFoundError):
        catalog.table("names.absent")


def test_a_table_that_txlog_creates_is_one_of_sparks(delta: SparkSession, schema: str, tmp_path: Path) -> None:
    catalog = txlog.spark.catalog(delta)
    catalog.write("names.ours", ROWS)
    assert [row.id for row in delta.table("names.ours").orderBy("id").collect()] == [1, 2]
    with pytest.raises(TableExistsError):
        catalog.create("names.ours", ROWS.schema)
    catalog.rename("names.ours", "names.renamed")
    assert catalog.tables(schema) == ["names.renamed"]
    txlog.write(tmp_path / "elsewhere", ROWS)
    catalog.register("names.registered", tmp_path / "elsewhere")
    assert delta.table("names.registered").count() == 2
    for name in ("names.renamed", "names.registered"):
        catalog.drop(name)
    assert catalog.tables(schema) == []
    assert txlog.Table.open(tmp_path / "elsewhere").count() == 2


def test_a_table_of_spark_whose_path_has_a_percent_sign_is_found(
    delta: SparkSession, schema: str, tmp_path: Path
) -> None:
    delta.sql(f"create table names.theirs (id bigint) using delta location '{tmp_path / 'a b%41'}'")
    catalog = txlog.spark.catalog(delta)
    catalog.table("names.theirs").append(ROWS)
    assert delta.table("names.theirs").count() == 2
    catalog.register("names.again", tmp_path / "a b%41")
    assert catalog.table("names.again").count() == 2
    catalog.drop("names.again")
    assert txlog.spark.sql(delta, "select sum(id) from names.theirs", catalog).first()[0] == 3
    delta.sql(f"create database percent location '{tmp_path / 'in%41'}'")
    catalog.write("percent.ours", ROWS)
    assert delta.table("percent.ours").count() == catalog.table("percent.ours").count() == 2
    delta.sql("drop database percent cascade")


def test_a_table_of_spark_without_a_folder_is_listed_and_dropped(
    delta: SparkSession, schema: str, tmp_path: Path
) -> None:
    catalog = txlog.spark.catalog(delta)
    for name in ("one", "two"):
        delta.sql(f"create table names.{name} (id bigint) using delta location '{tmp_path / name}'")
        shutil.rmtree(tmp_path / name)
    catalog.write("names.whole", ROWS)
    assert catalog.tables(schema) == ["names.one", "names.two", "names.whole"]
    with pytest.raises(NotFoundError, match="the folder of the table is gone"):
        catalog.table("names.one")
    txlog.spark.sql(delta, "drop table if exists names.one; drop table if exists names.absent", catalog)
    with pytest.raises(NotFoundError, match="drop the table, or restore its folder"):
        catalog.rename("names.two", "names.three")
    with pytest.raises(TableExistsError):
        catalog.create("names.two", ROWS.schema)
    catalog.drop("names.two")
    assert catalog.tables(schema) == ["names.whole"]
    for call in (catalog.drop, lambda name: catalog.rename(name, "names.new")):
        with pytest.raises(TableNotFoundError):
            call("names.absent")
