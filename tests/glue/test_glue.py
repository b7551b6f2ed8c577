"""AWS Glue as a catalog, as moto plays it: its tables are found, created, registered and dropped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from moto import mock_aws

import txlog
from txlog.errors import (
    InvalidInputError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)

ROWS = pa.table({"id": [1, 2]})


@pytest.fixture
def glue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(name, value)
    with mock_aws():
        client = boto3.client("glue", region_name="us-east-1")
        client.create_database(DatabaseInput={"Name": "sales", "LocationUri": f"{tmp_path}/sales"})
        client.create_database(DatabaseInput={"Name": "bare"})
        yield client


@pytest.fixture
def catalog(glue: Any) -> txlog.Catalog:
    return txlog.Catalog("glue://")


def test_a_table_is_created_in_the_databases_folder_and_others_can_find_it(
    catalog: txlog.Catalog, glue: Any, tmp_path: Path
) -> None:
    catalog.write("sales.orders", ROWS)
    assert catalog.location("sales.orders") == f"{tmp_path}/sales/orders"
    assert catalog.table("sales.orders").count() == 2
    entry = glue.get_table(DatabaseName="sales", Name="orders")["Table"]
    assert entry["Parameters"]["spark.sql.sources.provider"] == "delta"
    assert entry["Parameters"]["table_type"] == "DELTA"
    with pytest.raises(TableExistsError):
        catalog.create("sales.orders", ROWS.schema)
    assert txlog.sql("select sum(id) as s from sales.orders", catalog).read_all().to_pylist() == [{"s": 3}]


def test_tables_that_others_registered_are_found_and_other_formats_are_left_out(
    catalog: txlog.Catalog, glue: Any, tmp_path: Path
) -> None:
    txlog.write(tmp_path / "spark", ROWS)
    by_spark = {
        "Name": "by_spark",
        "Parameters": {"spark.sql.sources.provider": "delta"},
        "StorageDescriptor": {
            "Location": "s3://bucket/by_spark-__PLACEHOLDER__",
            "SerdeInfo": {"Parameters": {"path": f"{tmp_path}/spark"}},
        },
    }
    by_athena = {
        "Name": "by_athena",
        "Parameters": {"table_type": "DELTA"},
        "StorageDescriptor": {"Location": f"{tmp_path}/spark"},
    }
    hive = {"Name": "hive", "Parameters": {"classification": "csv"}, "StorageDescriptor": {"Location": "s3://b/c"}}
    for entry in (by_spark, by_athena, hive):
        glue.create_table(DatabaseName="bare", TableInput=entry)
    assert catalog.tables() == ["bare.by_athena", "bare.by_spark"]
    assert catalog.tables("sales") == []
    assert catalog.table("bare.by_spark").count() == catalog.table("bare.by_athena").count() == 2
    with pytest.raises(InvalidInputError, match=r"bare\.hive of Glue is not a Delta table"):
        catalog.table("bare.hive")


def test_a_drop_deletes_the_files_of_a_table_that_txlog_created_and_of_no_other(
    catalog: txlog.Catalog, tmp_path: Path
) -> None:
    catalog.write("sales.own", ROWS)
    txlog.write(tmp_path / "elsewhere", ROWS)
    catalog.register("bare.other", tmp_path / "elsewhere")
    for name in ("sales.own", "bare.other"):
        catalog.drop(name)
        with pytest.raises(TableNotFoundError):
            catalog.drop(name)
    assert not list((tmp_path / "sales").rglob("*.parquet"))
    assert txlog.Table.open(tmp_path / "elsewhere").count() == 2


def test_what_glue_lacks_is_said(catalog: txlog.Catalog, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="the Glue database bare has no LocationUri"):
        catalog.create("bare.orders", ROWS.schema)
    with pytest.raises(TableNotFoundError):
        catalog.create("absent.orders", ROWS.schema)
    with pytest.raises(TableNotFoundError, match="no Delta table to register"):
        catalog.register("bare.orders", tmp_path / "nothing")
    with pytest.raises(UnsupportedFeatureError, match="Glue cannot rename"):
        catalog.rename("sales.a", "sales.b")
    with pytest.raises(InvalidInputError, match="needs no token"):
        txlog.Catalog("glue://", token="x")


def test_a_refusal_of_glue_names_it(glue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = txlog.Catalog("glue://")

    def refuse(**given: Any) -> None:
        raise glue.exceptions.ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "GetTable")

    monkeypatch.setattr(catalog.names._glue, "get_table", refuse)  # type: ignore[attr-defined]
    with pytest.raises(StorageError, match=r"Glue refused get_table: .*AccessDenied"):
        catalog.table("sales.orders")


def test_a_name_that_another_table_has_is_refused_before_a_file_is_written(
    catalog: txlog.Catalog, tmp_path: Path
) -> None:
    txlog.write(tmp_path / "elsewhere", ROWS)
    catalog.register("sales.orders", tmp_path / "elsewhere")
    with pytest.raises(TableExistsError):
        catalog.create("sales.orders", ROWS.schema)
    assert not (tmp_path / "sales" / "orders").exists()


def test_every_page_of_the_catalog_of_another_account_is_read(glue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = txlog.Catalog("glue://210987654321")
    asked = []

    def page(**given: Any) -> dict[str, Any]:
        asked.append(given)
        number = int(given.get("NextToken", 0))
        table = {"Name": f"t{number}", "Parameters": {"table_type": "DELTA"}}
        return {"TableList": [table], "NextToken": str(number + 1) if number < 2 else ""}

    monkeypatch.setattr(catalog.names._glue, "get_tables", page)  # type: ignore[attr-defined]
    assert catalog.tables("sales") == ["sales.t0", "sales.t1", "sales.t2"]
    assert {each["CatalogId"] for each in asked} == {"210987654321"}
