"""Constraints through Spark: Spark's own Delta checks those that txlog adds, and txlog's source those of Delta."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from spark_helpers import as_rows, refused, save

import txlog
import txlog.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def rows_of(spark: SparkSession, *rows: tuple[int, str]) -> DataFrame:
    return spark.createDataFrame([*rows], "id int, day string").coalesce(1)


@pytest.fixture
def path(delta: SparkSession, tmp_path: Path) -> Path:
    rows_of(delta, (1, "mon"), (2, "tue")).write.format("delta").save(str(tmp_path / "t"))
    return tmp_path / "t"


def test_txlog_checks_the_constraints_of_sparks_delta(delta: SparkSession, path: Path) -> None:
    """Double quotes are those of a string, as in Spark."""
    delta.sql(f"""ALTER TABLE delta.`{path}` ADD CONSTRAINT known CHECK (day IN ("mon", "tue") AND id % 10 <> 0)""")
    save(rows_of(delta, (3, "mon")), path)
    for row in ((4, "sun"), (10, "mon"), (5, None)):
        error = refused(lambda row=row: save(rows_of(delta, (6, "mon"), row), path))  # type: ignore[misc]
        assert isinstance(error, txlog.InvalidInputError)
        assert "constraint known" in str(error)
    with pytest.raises(txlog.InvalidInputError, match="constraint known"):
        txlog.spark.upsert(delta, str(path), rows_of(delta, (1, "sun")), keys=["id"])
    txlog.spark.upsert(delta, str(path), rows_of(delta, (1, "tue")), keys=["id"])
    assert as_rows(delta.read.format("delta").load(str(path))) == as_rows(
        rows_of(delta, (1, "tue"), (2, "tue"), (3, "mon"))
    )


def test_sparks_delta_checks_the_constraints_of_txlog(delta: SparkSession, path: Path) -> None:
    txlog.Table.open(path).add_constraint("Early", "id < 100 AND day <> 'sun'")
    rows_of(delta, (3, "mon")).write.format("delta").mode("append").save(str(path))
    for row in ((100, "mon"), (4, "sun"), (4, None)):
        with pytest.raises(Exception, match=r"CHECK constraint early"):
            rows_of(delta, row).write.format("delta").mode("append").save(str(path))
    delta.sql(f"ALTER TABLE delta.`{path}` DROP CONSTRAINT early")
    txlog.Table.open(path).append(rows_of(delta, (100, "sun")).toPandas().astype({"id": "int32"}))
    assert txlog.Table.open(path).snapshot().count() == 4
