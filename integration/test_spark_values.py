"""Spark's answers, of which tests/statements/test_values.py has a record, as Spark gives them now."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession
from spark_values import COMPILED, spark_answer, with_rows
from values_compared import Answer, read_recorded

from txlog.core.predicates._functions import ALIASES as FUNCTION_ALIASES
from txlog.core.predicates._functions import FUNCTIONS
from txlog.core.predicates._lambdas import LAMBDA_FUNCTIONS
from txlog.statements.aggregates import AGGREGATES, ALIASES, RANKS, WINDOW_VALUES
from txlog.statements.query_binder import GENERATORS

DRAWN = 60


def others(spark: SparkSession, given: list[Answer]) -> list[str]:
    spark = with_rows(spark)
    found = [(expected, spark_answer(spark, expected.kind, expected.text)) for expected in given]
    return [
        f"{one.text}: {one} was recorded, and Spark says {other}"[:500]
        for one, other in found
        if (one.type, one.names, one.values, one.raises) != (other.type, other.names, other.values, other.raises)
    ]


def test_spark_answers_as_it_was_recorded(spark: SparkSession) -> None:
    """If not, a release of Spark has another value: run integration/spark_values.py."""
    plain = [each for each in read_recorded() if not each.raises and not each.is_refused]
    assert not others(spark, random.Random(58).sample(plain, DRAWN))


def test_spark_has_every_function(spark: SparkSession) -> None:
    ours = {
        *FUNCTIONS,
        *FUNCTION_ALIASES,
        *LAMBDA_FUNCTIONS,
        *AGGREGATES,
        *ALIASES,
        *RANKS,
        *WINDOW_VALUES,
        *GENERATORS,
    }
    assert not ours - {row[0] for row in spark.sql("SHOW ALL FUNCTIONS").collect()}


@pytest.mark.hunt(part="sql")
def test_spark_answers_every_text_as_it_was_recorded(spark: SparkSession) -> None:
    for name, value in COMPILED.items():
        spark.conf.set(name, value)
    assert not others(spark, read_recorded())
