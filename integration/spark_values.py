"""Spark's answers to the texts of query_texts.py: ``python integration/spark_values.py`` writes them to the file that
tests/statements/test_values.py reads."""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from pyspark.sql import SparkSession
from query_texts import ROWS, query, table, texts
from values_compared import RECORDED, Answer, answer_of

COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""For a session: queries become Java programs, as users have Spark, and as it was when the answers were recorded."""
_NOT_A_QUERY = r"AnalysisException|ParseException"


def with_rows(spark: SparkSession) -> SparkSession:
    """A session of its own in UTC and in ANSI mode, with the rows as its view ``t``, which makes programs of queries
    or interprets them as the given one does: Spark's values of few texts differ between the two."""
    given, spark = spark, spark.newSession()
    for name in COMPILED:
        spark.conf.set(name, given.conf.get(name))
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    rows = spark.createDataFrame(table()).coalesce(1)
    rows.withColumn("tn", rows["tn"].cast("timestamp_ntz")).cache().createOrReplaceTempView("t")
    return spark


def spark_answer(spark: SparkSession, kind: str, text: str) -> Answer:
    try:
        return answer_of(kind, text, spark.sql(query(kind, text)).toArrow())
    except Exception as error:
        why = re.sub(r"\s+", " ", str(error))[:200]
        if re.search(_NOT_A_QUERY, type(error).__name__) or kind == "query":
            return Answer(
                kind, text, is_refused=bool(re.search(_NOT_A_QUERY, type(error).__name__)), why=why, raises=("0",)
            )
        return _by_row(spark, kind, text, why)


def _by_row(spark: SparkSession, kind: str, text: str, why: str) -> Answer:
    """The answer for those rows for which Spark does not raise."""
    if kind == "window":
        return Answer(kind, text, why=why, raises=("0",))
    every = range(ROWS if kind == "row" else ROWS // 6)
    try:
        failing = _failing_rows(spark, text) if kind == "row" else _failing_groups(spark, text, every)
    except Exception:  # an expression without columns, which fails before there are rows
        failing = set(every)
    ids = [number for number in every if number not in failing]
    raises = tuple(map(str, sorted(failing)))
    if not ids:
        return Answer(kind, text, why=why, raises=raises)
    try:
        answer = answer_of(kind, text, spark.sql(query(kind, text, ids)).toArrow(), raises)
    except ValueError:  # PySpark has no Arrow type for map<void,void>
        return Answer(kind, text, why="raises for every row", raises=tuple(map(str, every)))
    return msgspec.structs.replace(answer, why=why)


def _failing_rows(spark: SparkSession, text: str) -> set[int]:
    """The rows for which Spark's expression raises, computed by its interpreter row by row."""
    plan = spark.sql(query("row", text))._jdf.queryExecution().executedPlan()
    project = next(node for node in _nodes(plan) if node.nodeName() == "Project")
    given = project.child().executeCollect()
    package = spark._jvm.org.apache.spark.sql.catalyst.expressions  # type: ignore[union-attr]
    projection = package.InterpretedMutableProjection(project.projectList(), project.child().output())
    projection.initialize(0)
    found = set()
    for at in range(len(given)):
        try:
            projection.apply(given[at])
        except Exception:
            found.add(at)
    return found


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for at in range(children.size()):
        yield from _nodes(children.apply(at))


def _failing_groups(spark: SparkSession, text: str, ids: Sequence[int]) -> set[int]:
    try:
        spark.sql(query("group", text, ids)).toArrow()
    except Exception:
        if len(ids) == 1:
            return set(ids)
        middle = len(ids) // 2
        return _failing_groups(spark, text, ids[:middle]) | _failing_groups(spark, text, ids[middle:])
    return set()


def record(spark: SparkSession, given: Iterable[tuple[str, str]]) -> list[Answer]:
    return [spark_answer(spark, kind, text) for kind, text in given]


def _session() -> Any:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    options = {"timeZone": "UTC", "ansi.enabled": "true", "shuffle.partitions": "1", "adaptive.enabled": "false"}
    for name, value in options.items():
        builder = builder.config(f"spark.sql.{name}", value)
    spark = builder.config("spark.driver.memory", "2g").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


if __name__ == "__main__":
    answers = record(with_rows(_session()), texts())
    with open(RECORDED, "wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
        file.write(b"".join(msgspec.json.encode(answer) + b"\n" for answer in answers))
    sys.stdout.write(f"{len(answers)} answers, {RECORDED.stat().st_size} bytes\n")
