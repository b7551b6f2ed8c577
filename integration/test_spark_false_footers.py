"""Files with footers that lie, and damaged ones, in Spark: the same rows as Spark's own reader finds, or an error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import txlog
import txlog.spark
from tests.doors.test_damaged_chunks import DAMAGED, logged
from tests.loading.test_false_footers import LIES, unlogged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_format_txlog_finds_the_rows_that_a_footer_hides_also_where_sparks_own_reader_misses_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = {}
    for number, (name, lie) in enumerate(LIES.items()):
        table = unlogged(tmp_path / str(number), lie)
        where = lie.where.replace("00:00:00'", "00:00:00Z'")
        own = spark.read.parquet(f"{tmp_path}/{number}/f.parquet").where(where).count()
        native = txlog.spark.read(spark, table.uri).where(where).count()
        source = spark.read.format("txlog").load(table.uri).where(where).count()
        found[name] = own, native, source
    assert {name: counts for name, counts in found.items() if counts[2] != LIES[name].rows} == {}
    assert {name: counts for name, counts in found.items() if counts[1] not in (counts[0], LIES[name].rows)} == {}
    assert found["decimals in bytes by an old parquet-mr"] == (1, 1, 1)


READS: dict[str, Callable[[SparkSession, str], DataFrame]] = {
    "txlog.spark.read": lambda spark, uri: txlog.spark.read(spark, uri),
    "format txlog": lambda spark, uri: spark.read.format("txlog").load(uri),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_damaged_chunk_is_an_error_in_spark_too(
    spark: SparkSession, read: Callable[[SparkSession, str], DataFrame], tmp_path: Path
) -> None:
    seen = {}
    for number, (name, body) in enumerate(DAMAGED.items()):
        table = logged(tmp_path / str(number), body)
        for columns in ("x", "x, n, s"):
            try:
                rows = read(spark, table.uri).selectExpr(*columns.split(", ")).toArrow()
                seen[f"{name}: {columns}"] = rows.to_pylist()
            except Exception as error:
                print(name, columns, type(error).__name__, str(error)[:200])
    assert seen == {}, json.dumps(seen)
