"""Tables exported as Iceberg, read by Spark with Iceberg's own runtime, in its own environment:
`make hunt PART=iceberg-spark`.

Iceberg's runtime exists for Spark 4.1; the other tests use a newer Spark. If its jar is not available, the checks are
skipped with a message; with CI=true they fail.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import java_home
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from iceberg_tables import TABLES, begun, exported, json_of_variants, metadata_file, snapshots, with_variants
from rows import as_rows, in_schema
from spark_jars import jar_settings, start_session

import txlog
from txlog.errors import IcebergExportError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
FORMATS = pytest.mark.parametrize("format_version", ["v2", "v3"])

TableOf = Callable[[str, str], txlog.Table]


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of tables, each ``tables.<its name>._iceberg`` in Spark's catalog."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="module")
def spark(warehouse: Path) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(java_home.java_home())
    options = {
        **jar_settings(RUNTIME),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.tables": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.tables.type": "hadoop",
        "spark.sql.catalog.tables.warehouse": str(warehouse),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in options.items():
        builder = builder.config(key, value)
    try:
        session = start_session(builder)
    except Exception as error:  # Spark's launcher reports an unresolved package only as a dead JVM
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"NOT TESTED: reading with Spark and {RUNTIME}: {str(error).splitlines()[0]}")
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def table_of(tmp_path_factory: pytest.TempPathFactory) -> TableOf:
    @cache
    def made(name: str, format_version: str) -> txlog.Table:
        return exported(tmp_path_factory.mktemp("iceberg") / "table", name, format_version)

    return made


def read(spark: SparkSession, table: txlog.Table, **options: Any) -> DataFrame:
    return spark.read.format("iceberg").options(**options).load(f"{table.uri}/_iceberg")


@FORMATS
@pytest.mark.parametrize("name", TABLES)
def test_spark_reads_every_exported_version_like_txlog(
    name: str, format_version: str, spark: SparkSession, table_of: TableOf
) -> None:
    table = table_of(name, format_version)
    for each in snapshots(table):
        expected = table.snapshot(version=each.version).to_arrow()
        found = read(spark, table, versionAsOf=each.id).toArrow()
        assert as_rows(in_schema(found, expected.schema)) == as_rows(expected), f"v{each.version}"


@pytest.mark.parametrize("is_shredded", [False, True])
def test_spark_reads_variants_of_every_exported_version(is_shredded: bool, spark: SparkSession, tmp_path: Path) -> None:
    table = with_variants(tmp_path / "t", is_shredded=is_shredded)
    for each in snapshots(table):
        frame = read(spark, table, versionAsOf=each.id)
        assert dict(frame.dtypes)["v"] == "variant"
        rows = frame.selectExpr("id", "to_json(v)", "to_json(s.w)").orderBy("id").collect()
        found = [(id, *(json.loads(text or "null") for text in parts)) for id, *parts in rows]
        assert found == json_of_variants(table.snapshot(version=each.version).to_arrow()), f"v{each.version}"
    expected = table.to_arrow(["id"], where="v:a::int >= 7")["id"].to_pylist()
    assert [row.id for row in frame.where("try_variant_get(v, '$.a', 'int') >= 7").select("id").collect()] == expected


@pytest.mark.parametrize("is_shredded", [False, True])
def test_a_table_with_variants_of_icebergs_own_writer_is_converted(
    is_shredded: bool, spark: SparkSession, warehouse: Path
) -> None:
    name = f"variants_{is_shredded}".lower()
    properties = f"'format-version' = '3', 'write.parquet.shred-variants' = '{str(is_shredded).lower()}'"
    spark.sql(
        f"create table tables.db.{name} (id bigint, v variant, s struct<w: variant>) using iceberg"
        f" tblproperties ({properties})"
    )
    texts = ['{"a":1,"b":["x",2.5]}', '{"a":2}', '{"a":"odd"}', "null", "[1]"]
    rows = ", ".join(f"({at}, parse_json('{text}'), struct(parse_json('{text}')))" for at, text in enumerate(texts))
    spark.sql(f"insert into tables.db.{name} values {rows}, (5, null, null)")
    spark.sql(f"delete from tables.db.{name} where id = 1")
    folder = warehouse / "db" / name
    txlog.Table.convert(folder, properties={"delta.enableVariantShredding": "true"} if is_shredded else {})
    found = spark.table(f"tables.db.{name}").selectExpr("id", "to_json(v)", "to_json(s.w)").orderBy("id").collect()
    expected = [(id, *(json.loads(text or "null") for text in parts)) for id, *parts in found]
    assert json_of_variants(txlog.Table.open(folder).to_arrow()) == expected
    assert len(expected) == 5


@FORMATS
def test_spark_reads_the_same_iceberg_rows_at_a_timestamp_as_a_snapshot_of_the_table(
    format_version: str, spark: SparkSession, table_of: TableOf
) -> None:
    table = table_of("columns that come and go", format_version)
    for entry in json.loads(metadata_file(table).read_bytes())["snapshot-log"]:
        moment = dt.datetime.fromtimestamp(entry["timestamp-ms"] / 1000, dt.timezone.utc)
        found = read(spark, table, timestampAsOf=moment.strftime("%Y-%m-%d %H:%M:%S.%f")).toArrow()
        assert as_rows(found) == as_rows(table.snapshot(timestamp=moment).to_arrow())


FILTERS = (
    "byte = 127",
    "long = 9223372036854775807",
    "integer < 0",
    "string = 'changed'",
    "date < date'1900-01-01'",
    "timestamp = timestamp'9999-12-31 23:59:59.999999'",
    "timestamp_ntz > timestamp_ntz'2000-01-01 00:00:00'",
    "decimal_of_128_bits < 0",
    "boolean is null",
    "double < 0",
    "struct.a = 2",
)


@FORMATS
@pytest.mark.parametrize("name", ["every type", "partitions of every type"])
def test_filters_find_the_same_rows_with_bounds_and_partitions(
    name: str, format_version: str, spark: SparkSession, table_of: TableOf
) -> None:
    table = table_of(name, format_version)
    for each in list(snapshots(table))[::3]:
        expected = spark.createDataFrame(table.snapshot(version=each.version).to_arrow())
        found = read(spark, table, versionAsOf=each.id)
        for condition in FILTERS:
            if condition.split(".")[0].split()[0] in expected.columns:
                assert found.where(condition).count() == expected.where(condition).count(), (each.version, condition)


@FORMATS
def test_min_and_max_of_a_column_come_from_its_values_and_not_from_its_bounds(
    format_version: str, spark: SparkSession, tmp_path: Path
) -> None:
    moments = [dt.datetime(2026, 1, 1, 0, 0, 0, micros, dt.timezone.utc) for micros in (1, 500, 1999)]
    rows = pa.table({"at": pa.array(moments, pa.timestamp("us", "UTC")), "n": [1, 2, 3], "f": [0.1, -0.0, 3.3]})
    table = begun(tmp_path / "t", rows, properties={"txlog.iceberg": format_version})
    table.export_iceberg()
    found = read(spark, table).selectExpr("min(at)", "max(at)", "min(n)", "max(n)", "max(f)", "count(at)").toArrow()
    bounds = pc.min_max(rows["at"]).as_py()
    assert list(found.to_pylist()[0].values()) == [bounds["min"], bounds["max"], 1, 3, 3.3, 3]


@FORMATS
def test_appends_are_read_between_two_snapshots(format_version: str, spark: SparkSession, tmp_path: Path) -> None:
    table = begun(tmp_path / "t", pa.table({"a": [1]}), properties={"txlog.iceberg": format_version})
    table.append(pa.table({"a": [2]}))
    table.append(pa.table({"a": [3]}))
    table.export_iceberg()
    first, _, last = [each.id for each in snapshots(table)]
    options = {"start-snapshot-id": first, "end-snapshot-id": last}
    assert sorted(row.a for row in read(spark, table, **options).collect()) == [2, 3]


def test_a_changelog_view_has_what_was_deleted_and_inserted(spark: SparkSession, warehouse: Path) -> None:
    table = begun(warehouse / "changed", pa.table({"a": list(range(10))}), properties={"txlog.iceberg": "v2"})
    table.append(pa.table({"a": [10, 11]}))
    table.delete("a < 3", row_mode="copy-on-write")
    table.export_iceberg()
    first, _, last = [each.id for each in snapshots(table)]
    spark.sql(
        "call tables.system.create_changelog_view(table => 'tables.changed._iceberg', changelog_view => 'changes',"
        f" options => map('start-snapshot-id', '{first}', 'end-snapshot-id', '{last}'), net_changes => true)"
    )
    found = sorted((row["_change_type"], row.a) for row in spark.sql("select * from changes").collect())
    assert found == [("DELETE", 0), ("DELETE", 1), ("DELETE", 2), ("INSERT", 10), ("INSERT", 11)]


def test_iceberg_v3_row_ids_equal_the_delta_row_ids(spark: SparkSession, table_of: TableOf) -> None:
    table = table_of("tracked rows", "v3")
    rows = read(spark, table).selectExpr("_row_id", "id", "v").collect()
    assert len({row["_row_id"] for row in rows}) == len(rows) == table.to_arrow().num_rows
    assert sorted((row["_row_id"], row.id) for row in rows) == sorted(
        (number, number % 20) for number in range(40) if number % 20 != 3
    )


def test_iceberg_maintenance_deletes_no_file_of_the_table(spark: SparkSession, warehouse: Path) -> None:
    table = begun(warehouse / "kept", pa.table({"a": [1]}), properties={"txlog.iceberg": "v2"})
    table.overwrite(pa.table({"a": [2]}))
    table.export_iceberg()
    for call in (
        "expire_snapshots(table => 'tables.kept._iceberg', older_than => timestamp'2100-01-01 00:00:00')",
        "remove_orphan_files(table => 'tables.kept._iceberg')",
    ):
        with pytest.raises(Exception, match=r"GC is disabled"):
            spark.sql(f"call tables.system.{call}").collect()
    assert table.snapshot(version=0).to_arrow().to_pylist() == [{"a": 1}]


def test_an_export_refuses_metadata_that_an_iceberg_writer_changed_and_a_rebuild_repairs_it(
    spark: SparkSession, warehouse: Path
) -> None:
    table = begun(warehouse / "written", pa.table({"a": [1]}), properties={"txlog.iceberg": "v2"})
    table.export_iceberg()
    spark.sql("insert into tables.written._iceberg values (99)")
    table.append(pa.table({"a": [2]}))
    with pytest.raises(IcebergExportError, match="--rebuild"):
        table.export_iceberg()
    table.export_iceberg(rebuild=True)
    assert sorted(row.a for row in read(spark, table).collect()) == [1, 2]
