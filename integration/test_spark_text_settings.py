"""Settings of a session by which Spark reads an SQL text in another way: txlog refuses the text at each of its doors.

Spark alone shows that a setting changes what a text means. Nothing is changed where a text is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from spark_helpers import as_rows, save

import txlog
import txlog.spark
from txlog.errors import UnsupportedFeatureError
from txlog.spark import error_from
from txlog.spark.text_settings import TEXT_SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = r"""
select * from values
  (1, 'a\\b', 'it''s', timestamp_ntz'2024-03-10 02:50:00', '10/03/24'),
  (2, 'ab', 's', timestamp_ntz'2024-03-10 02:20:00', '2024-03-1x')
as t(id, s, u, tn, day)
"""
CHANGED = {
    "spark.sql.parser.escapedStringLiterals": ("true", r"s = 'a\\b'"),
    "spark.sql.ansi.doubleQuotedIdentifiers": ("true", 'u = "s"'),
    "spark.sql.legacy.consecutiveStringLiterals.enabled": ("true", "u = 'it''s'"),
    "spark.sql.timestampType": ("TIMESTAMP_NTZ", "tn < TIMESTAMP '2024-03-10 03:30:00'"),
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": ("true", "1E16 + 1 = 1E16"),
    "spark.sql.legacy.timeParserPolicy": ("LEGACY", "try_to_timestamp(day, 'yyyy-MM-dd') is null"),
    "spark.sql.decimalOperations.allowPrecisionLoss": (
        "false",
        "cast(1.05 as decimal(38, 18)) * cast(1.0000001 as decimal(38, 18)) = 1.05",
    ),
}
"""By setting: another value than its default, and a condition for which Spark then finds other rows, or none."""


def deleted(spark: SparkSession, path: str, condition: str) -> None:
    txlog.spark.delete(spark, path, condition)


def replaced(spark: SparkSession, path: str, condition: str) -> None:
    none = spark.sql(f"select * from ({ROWS}) where false")
    save(none, Path(path), "overwrite", replaceWhere=condition)


def merged(spark: SparkSession, path: str, condition: str) -> None:
    merge = txlog.spark.merge(spark, path, spark.sql("select 1 as k"), "target.id = source.k")
    merge.when_matched_delete(condition).execute()


def streamed(spark: SparkSession, path: str, condition: str) -> None:
    stream = spark.readStream.format("txlog").option("where", condition).load(path).writeStream.format("noop")
    stream.option("checkpointLocation", f"{path}-checkpoint").trigger(availableNow=True).start().awaitTermination()


DOORS: dict[str, Callable[[SparkSession, str, str], Any]] = {
    "delete": deleted,
    "DELETE": lambda spark, path, condition: txlog.spark.sql(spark, f"DELETE FROM delta.`{path}` WHERE {condition}"),
    "update": lambda spark, path, condition: txlog.spark.update(spark, path, {"u": txlog.lit("x")}, condition),
    "a value": lambda spark, path, condition: txlog.spark.update(
        spark, path, {"u": txlog.expr(f"CASE WHEN {condition} THEN 'x' END")}
    ),
    "merge": merged,
    "read": lambda spark, path, condition: txlog.spark.read(spark, path, where=condition),
    "add_constraint": lambda spark, path, condition: txlog.spark.add_constraint(spark, path, "c", condition),
    "INSERT REPLACE WHERE": lambda spark, path, condition: txlog.spark.sql(
        spark, f"INSERT INTO delta.`{path}` REPLACE WHERE {condition} SELECT * FROM delta.`{path}` WHERE false"
    ),
    "replaceWhere": replaced,
    "the option where": lambda spark, path, condition: (
        spark.read.format("txlog").option("where", condition).load(path).collect()
    ),
    "the option where of a stream": streamed,
}
SEEN_BY_TASKS = ("replaceWhere", "the option where")
RAW, *OTHERS = CHANGED


def refusals(setting: str, doors: Iterable[str], spark: SparkSession, path: str) -> None:
    """Each door refuses the condition that the setting changes, and takes one that it does not change."""
    value, condition = CHANGED[setting]
    rows = spark.sql(ROWS)
    rows.createOrReplaceTempView("texts")
    save(rows, Path(path))

    def found() -> list[str] | str:
        try:
            return as_rows(spark.sql(f"select id from texts where {condition}"))
        except Exception as error:
            return type(error).__name__

    plain = found()
    spark.conf.set(setting, value)
    assert found() != plain, "Spark itself reads it in another way"
    for door in doors:
        with pytest.raises(Exception, match=setting) as caught:
            DOORS[door](spark, path, condition)
        assert isinstance(error_from(caught.value), UnsupportedFeatureError), door
    assert txlog.Table.open(path).version == 0
    txlog.spark.delete(spark, path, "id = 1")
    assert [row["id"] for row in txlog.Table.open(path).to_arrow().to_pylist()] == [2]


def test_a_text_that_a_setting_of_the_session_changes_is_refused_in_tasks_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    refusals(RAW, ("delete", *SEEN_BY_TASKS), spark, str(tmp_path / "t"))


@pytest.mark.hunt(part="spark")
def test_a_text_that_a_setting_of_the_session_changes_is_refused_at_every_door(
    spark: SparkSession, tmp_path: Path
) -> None:
    refusals(RAW, DOORS.keys() - {"delete", *SEEN_BY_TASKS}, spark, str(tmp_path / "t"))


@pytest.mark.parametrize("setting", OTHERS)
def test_each_setting_that_changes_a_text_is_known(setting: str, spark: SparkSession, tmp_path: Path) -> None:
    refusals(setting, ("delete", "DELETE"), spark, str(tmp_path / "t"))


def test_each_setting_is_tried() -> None:
    assert set(CHANGED) == set(TEXT_SETTINGS)
