"""The settings of data files: Spark's Delta obeys the same table properties, and reads what txlog writes with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import txlog
from txlog.errors import TxlogError

SETTINGS = {
    "parquet.block.row.count.limit": "500",
    "parquet.page.size": "2048",
    "parquet.enable.dictionary": "true",
    "parquet.enable.dictionary#x": "false",
    "parquet.bloom.filter.enabled#id": "true",
    "parquet.compression": "zstd",
}
ROWS = pa.table({"id": range(2_000), "x": [number / 7 for number in range(2_000)], "s": ["same"] * 2_000})


def columns_of(file: Path) -> dict[str, Any]:
    group = pq.read_metadata(file).row_group(0)
    return {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}


def newest_file(table: txlog.Table) -> Path:
    return max(Path(table.uri).glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)


@pytest.mark.hunt(part="spark")
def test_spark_delta_obeys_the_same_properties_except_the_codec(delta: SparkSession, tmp_path: Path) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), ROWS.schema, properties=SETTINGS)
    table.append(ROWS)
    ours = newest_file(table)
    delta.createDataFrame(ROWS).coalesce(1).write.format("delta").mode("append").save(table.uri)
    theirs = newest_file(table)
    for file in (ours, theirs):
        columns = columns_of(file)
        assert pq.read_metadata(file).num_row_groups == 4
        assert any("DICTIONARY" in each for each in columns["s"].encodings)
        assert not any("DICTIONARY" in each for each in columns["x"].encodings)
        assert columns["id"].bloom_filter_offset is not None
        assert columns["s"].bloom_filter_offset is None
    assert [columns_of(file)["id"].compression for file in (ours, theirs)] == ["ZSTD", "SNAPPY"]


def test_spark_reads_every_encoding_that_txlog_writes(delta: SparkSession, tmp_path: Path) -> None:
    encodings = {
        "packed": ("id", "DELTA_BINARY_PACKED"),
        "number": ("id", "PLAIN"),
        "prefixed": ("s", "DELTA_BYTE_ARRAY"),
        "lengths": ("s", "DELTA_LENGTH_BYTE_ARRAY"),
        "double": ("x", "PLAIN"),
    }
    rows = pa.table({name: ROWS[source] for name, (source, _) in encodings.items()})
    table = txlog.Table.create(str(tmp_path / "t"), rows.schema)
    table.append(rows, parquet={f"txlog.parquet.encoding#{name}": kind for name, (_, kind) in encodings.items()})
    columns = columns_of(newest_file(table))
    assert all(kind in columns[name].encodings for name, (_, kind) in encodings.items())
    assert delta.read.format("delta").load(table.uri).toArrow().sort_by("packed").equals(rows)


def test_the_tasks_of_a_spark_write_obey_properties_and_options(spark: SparkSession, tmp_path: Path) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), ROWS.schema, properties=SETTINGS)
    rows = spark.createDataFrame(ROWS).coalesce(1)
    rows.write.format("txlog").mode("append").save(table.uri)
    assert columns_of(newest_file(table))["id"].bloom_filter_offset is not None
    options = {
        "compression": "gzip",
        "parquet.bloom.filter.enabled#ID": "false",
        "parquet.block.row.count.limit": "900",
    }
    rows.write.format("txlog").mode("append").options(**options).save(table.uri)
    newest = newest_file(table)
    assert columns_of(newest)["id"].compression == "GZIP"
    assert columns_of(newest)["id"].bloom_filter_offset is None
    assert pq.read_metadata(newest).num_row_groups == 3
    with pytest.raises(Exception, match=r"parquet\.page\.size") as refused:
        rows.write.format("txlog").mode("append").option("parquet.page.size", "big").save(table.uri)
    assert not isinstance(refused.value, TxlogError)
