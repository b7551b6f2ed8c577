"""The Spark session of the benchmarks: txlog's data source and Spark's own Delta in one JVM."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from java_home import spark_environment
from spark_jars import DELTA_PACKAGE, jar_settings

from benchmarks.measure import ROOT, Bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.driver.memory": "3g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",  # Delta's default of 50 is for clusters and slower here
}


@contextmanager
def session(bench: Bench) -> Iterator[SparkSession]:
    """A local session on two cores, for the length of the block."""
    spark = start(bench.scratch)
    try:
        yield spark
    finally:
        spark.stop()


def start(scratch: Path) -> SparkSession:
    """A local session on two cores; its Python workers find the benchmarks and their txlog. Its warehouse is in
    ``scratch``."""
    os.environ.update(spark_environment())
    folders = ("", "integration", "txlog/spark/discovery")
    places = [*(str(ROOT / each) for each in folders), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # otherwise every new worker would compile this checkout again
    from pyspark.sql import SparkSession

    settings = {**SETTINGS, **jar_settings(DELTA_PACKAGE), "spark.sql.warehouse.dir": str(scratch / "warehouse")}
    spark = SparkSession.builder.master("local[2]").appName("txlog benchmarks").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark
