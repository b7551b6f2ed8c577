"""Selective overwrites through Spark: the same input gives the same rows and history as Spark's own Delta."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from spark_helpers import commit_info, commits, own_rows, refused, save

import txlog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DYNAMIC = "spark.sql.sources.partitionOverwriteMode"
START = [(1, "mon"), (2, "mon"), (3, "tue"), (4, None)]

CASES: dict[str, tuple[dict[str, str], list[tuple[Any, Any]]]] = {
    "partition": ({"replaceWhere": "day = 'mon'"}, [(9, "mon")]),
    "null partition": ({"replaceWhere": "day IS NULL"}, [(9, None)]),
    "part of a file": ({"replaceWhere": "id = 1"}, [(1, "wed")]),
    "both": ({"replaceWhere": "id <= 2 AND day = 'mon'"}, [(0, "mon")]),
    "no match": ({"replaceWhere": "id = 100"}, [(100, "mon")]),
    "dynamic": ({"partitionOverwriteMode": "dynamic"}, [(9, "mon"), (8, "wed"), (7, None)]),
    "static": ({"partitionOverwriteMode": "static"}, [(9, "mon")]),
    "schema": ({"overwriteSchema": "true"}, [(9, "mon")]),
    "schema and partitioning": ({"overwriteSchema": "true", "partitionBy": "id"}, [(9, "mon")]),
}
SAME_METRICS = (
    "numFiles",
    "numOutputRows",
    "numRemovedFiles",
    "numCopiedRows",
    "numDeletedRows",
    "numAddedChangeFiles",
)
SAME_PARAMETERS = ("mode", "predicate", "isDynamicPartitionOverwrite", "canOverwriteSchema")


def rows_of(spark: SparkSession, rows: list[tuple[Any, Any]]) -> DataFrame:
    return spark.createDataFrame(rows, "id int, day string").coalesce(1)


def saved_by_delta(frame: DataFrame, path: Path, mode: str, **options: str) -> None:
    writer = frame.write.format("delta").mode(mode)
    if "partitionBy" in options:
        writer = writer.partitionBy(options.pop("partitionBy"))
    writer.options(**options).save(str(path))


@pytest.fixture
def pair(delta: SparkSession, tmp_path: Path) -> tuple[Path, Path]:
    """The same table, ours and Delta's."""
    save(rows_of(delta, START), tmp_path / "ours", partitionBy="day")
    saved_by_delta(rows_of(delta, START), tmp_path / "theirs", "append", partitionBy="day")
    return tmp_path / "ours", tmp_path / "theirs"


def described(path: Path) -> tuple[dict[str, str], dict[str, str], list[str] | None]:
    info = commit_info(path)
    metadata = next((line["metaData"] for line in commits(path)[-1] if "metaData" in line), None)
    return (
        {name: str(info["operationParameters"].get(name)).lower() for name in SAME_PARAMETERS},
        {name: info["operationMetrics"].get(name) for name in SAME_METRICS},
        None if metadata is None else metadata["partitionColumns"],
    )


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=() if case == "dynamic" else pytest.mark.hunt(part="spark")) for case in CASES],
)
def test_an_overwrite_leaves_the_rows_and_history_that_delta_leaves(
    delta: SparkSession, read_delta: Callable[..., DataFrame], pair: tuple[Path, Path], case: str
) -> None:
    (options, rows), (ours, theirs) = CASES[case], pair
    save(rows_of(delta, rows), ours, "overwrite", **options)
    saved_by_delta(rows_of(delta, rows), theirs, "overwrite", **options)
    found = [sorted(map(repr, read_delta(path).select("id", "day").collect())) for path in pair]
    assert found[0] == found[1]
    assert described(ours) == described(theirs)
    assert commit_info(ours)["operation"] == commit_info(theirs)["operation"] == "WRITE"


@pytest.mark.hunt(part="spark")
def test_the_session_may_make_overwrites_dynamic(
    delta: SparkSession, read_delta: Callable[..., DataFrame], pair: tuple[Path, Path]
) -> None:
    delta.conf.set(DYNAMIC, "dynamic")
    save(rows_of(delta, [(9, "mon")]), pair[0], "overwrite")
    saved_by_delta(rows_of(delta, [(9, "mon")]), pair[1], "overwrite")
    found = [sorted(map(repr, read_delta(path).select("id", "day").collect())) for path in pair]
    assert found[0] == found[1]
    assert len(found[0]) == 3
    assert described(pair[0]) == described(pair[1])
    save(rows_of(delta, [(7, "tue")]), pair[0], "overwrite", partitionOverwriteMode="static")
    assert own_rows(pair[0]) == [{"id": 7, "day": "tue"}]


@pytest.mark.hunt(part="spark")
def test_rows_are_marked_as_deleted_where_the_table_has_deletion_vectors(
    delta: SparkSession, read_delta: Callable[..., DataFrame], tmp_path: Path
) -> None:
    path = tmp_path / "t"
    save(rows_of(delta, START), path, **{"delta.enableDeletionVectors": "true"})
    save(rows_of(delta, [(1, "new")]), path, "overwrite", replaceWhere="id = 1")
    kinds = [next(iter(line)) for line in commits(path)[-1]]
    assert sorted(kinds) == ["add", "add", "commitInfo", "remove"]
    assert sorted(row["id"] for row in own_rows(path)) == [1, 2, 3, 4]
    read = {row["id"]: row["day"] for row in read_delta(path).collect()}
    assert read == {1: "new", 2: "mon", 3: "tue", 4: None}
    delta.sql(f"DELETE FROM delta.`{path}` WHERE id = 2")
    save(rows_of(delta, [(3, "again")]), path, "overwrite", replaceWhere="id >= 2 AND id < 4")
    assert {row["id"]: row["day"] for row in own_rows(path)} == {1: "new", 3: "again", 4: None}
    assert sorted(row["id"] for row in read_delta(path).collect()) == [1, 3, 4]
    vectors = len(list(path.glob("*.bin")))
    save(rows_of(delta, [(4, "copied")]), path, "overwrite", replaceWhere="id = 4", rowMode="copy-on-write")
    assert len(list(path.glob("*.bin"))) == vectors
    assert {row["id"]: row["day"] for row in own_rows(path)} == {1: "new", 3: "again", 4: "copied"}


def test_a_row_outside_of_the_predicate_is_refused_in_its_task(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(rows_of(spark, START), path, partitionBy="day")
    error = refused(
        lambda: save(rows_of(spark, [(9, "mon"), (5, "sun")]), path, "overwrite", replaceWhere="day = 'mon'")
    )
    assert isinstance(error, txlog.InvalidInputError)
    assert "day = 'sun'" in error.message
    assert len(own_rows(path)) == 4


@pytest.mark.parametrize("options", [{"replaceWhere": "id = 1"}, {"onConflict": "rerun"}])
def test_an_append_from_spark_refuses_options_of_overwrites(
    spark: SparkSession, tmp_path: Path, options: dict[str, str]
) -> None:
    error = refused(lambda: save(rows_of(spark, START), tmp_path / "t", **options))
    assert isinstance(error, txlog.InvalidInputError)
    assert "mode('overwrite')" in error.message
