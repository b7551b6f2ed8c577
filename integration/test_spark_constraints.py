"""Constraints through Spark: Spark's own Delta checks the ones that txlog adds, and txlog's source checks Delta's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
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


@pytest.mark.hunt(part="spark")
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


TEXT_TYPES = "v varchar(3), c char(4), s struct<v: varchar(3)>, l array<char(2)>, m map<varchar(2), varchar(3)>"
TEXTS = [
    ("v", "'abc'"),
    ("v", "'ab '"),
    ("v", "'abc '"),
    ("v", "'ééé'"),
    ("v", "'abcd'"),
    ("c", "'ab'"),
    ("c", "''"),
    ("c", "'abcd  '"),
    ("s", "named_struct('v', 'abc')"),
    ("s", "named_struct('v', 'abcd')"),
    ("l", "array('ab', null)"),
    ("l", "array('ab', 'abc')"),
    ("m", "map('ab', 'abc')"),
    ("m", "map('abc', 'abc')"),
    ("m", "map('ab', 'abcd')"),
]


@pytest.mark.hunt(part="spark")
def test_txlog_takes_and_refuses_the_texts_that_sparks_delta_takes_and_refuses(
    delta: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    delta.sql(f"CREATE TABLE delta.`{path}` (id int, {TEXT_TYPES}) USING delta")
    outcomes = []
    for number, (column, value) in enumerate(TEXTS):
        try:
            delta.sql(f"INSERT INTO delta.`{path}`(id, {column}) SELECT {number}, {value}")
            by_spark = True
        except Exception as error:
            assert "DELTA_EXCEED_CHAR_VARCHAR_LIMIT" in str(error)  # noqa: PT017
            by_spark = False
        rows = delta.sql(f"SELECT {100 + number} AS id, {value} AS {column}")
        if by_spark:
            save(rows, path)
        else:
            assert f"column {column}" in str(refused(lambda rows=rows: save(rows, path)))  # type: ignore[misc]
        outcomes.append(by_spark)
    assert {True, False} == set(outcomes)
    found = delta.read.format("delta").load(str(path))
    halves = [found.where(where).drop("id") for where in ("id < 100", "id >= 100")]
    assert as_rows(halves[0]) == as_rows(halves[1])
    with pytest.raises(txlog.InvalidInputError, match=r"column v is varchar\(3\)"):
        txlog.spark.update(delta, str(path), {"v": txlog.expr("'abcd'")}, "id = 0")


@pytest.mark.hunt(part="spark")
def test_sparks_delta_knows_the_text_types_of_txlog(delta: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = txlog.Table.create(path, f"id int, {TEXT_TYPES}")
    table.append(pa.table({"id": pa.array([1], pa.int32()), "c": ["ab"]}))
    assert delta.sql(f"select c from delta.`{path}`").collect()[0].c == "ab  ", "padded when it is read"
    with pytest.raises(Exception, match=r"(?i)exceeds|char/varchar"):
        delta.sql(f"insert into delta.`{path}` (id, v) values (2, 'abcd')")
    table.alter_column("v", type="varchar(4)")
    delta.sql(f"insert into delta.`{path}` (id, v) values (2, 'abcd')")
    delta.sql(f"alter table delta.`{path}` alter column v type varchar(5)")
    table.append(pa.table({"id": pa.array([3], pa.int32()), "v": ["abcde"]}))
    with pytest.raises(Exception, match=r"(?i)exceeds|char/varchar"):
        delta.sql(f"insert into delta.`{path}` (id, v) values (4, 'abcdef')")
    with pytest.raises(txlog.InvalidInputError, match=r"column v is varchar\(5\)"):
        table.append(pa.table({"id": pa.array([4], pa.int32()), "v": ["abcdef"]}))


@pytest.mark.hunt(part="spark")
def test_minus_zero_is_a_separate_partition_as_in_sparks_delta(delta: SparkSession, tmp_path: Path) -> None:
    rows = delta.sql("SELECT 1 AS id, double('-0.0') AS p UNION ALL SELECT 2, double('0.0')")
    save(rows, tmp_path / "ours", partitionBy="p")
    rows.write.format("delta").partitionBy("p").save(str(tmp_path / "theirs"))
    for name in ("ours", "theirs"):
        assert as_rows(delta.read.format("delta").load(str(tmp_path / name))) == as_rows(rows)
        table = txlog.Table.open(tmp_path / name)
        assert sorted((row["id"], str(row["p"])) for row in table.to_arrow().to_pylist()) == [(1, "-0.0"), (2, "0.0")]
        texts = {dict(values)["p"] for values in table.snapshot().files()["partitionValues"].to_pylist()}
        assert texts == {"-0.0", "0.0"}
