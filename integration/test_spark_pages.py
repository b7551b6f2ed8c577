"""The pages whose blocks of Python use Spark run as shown, from the first block to the last, in one session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pages import pages_that_run, run_page

import txlog.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LONG = {"docs/from-spark-delta.md", "docs/read-stream.md", "docs/spark.md"}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.hunt(part="spark") if page in LONG else ())
        for page in pages_that_run(with_spark=True)
    ],
)
def test_the_blocks_of_a_page_run_from_the_first_to_the_last(
    page: str, delta: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    txlog.spark.register(delta)
    run_page(page, tmp_path, delta)
