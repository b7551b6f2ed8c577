"""One SparkSession for the whole run, with txlog and, if its jar is available, Spark's own Delta as reference.

Without the jar the tests that need it are skipped, and the end of the run says so in a block that is hard to overlook;
with CI=true they fail.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import java_home
import pytest
from spark_jars import DELTA_PACKAGE, jar_settings, start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DELTA_SPARK = "4.2"
"""The Spark that this Delta is for. There is none for a newer one."""
_SAIL_SPARK = "4.2"
needs_sail = pytest.mark.skipif(
    not importlib.metadata.version("pyspark").startswith(f"{_SAIL_SPARK}."),
    reason=f"NOT TESTED: on Sail, which starts no session for a PySpark other than {_SAIL_SPARK}",
)
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM: code that runs once is not worth optimizing. Much less CPU for short jobs."""
OF_MANY_QUERIES = f"{SHORT_LIVED} -XX:ReservedCodeCacheSize=256m -XX:NewSize=400m"
"""For the JVM of the whole run. Its 48 MB for unoptimized code hold the code of a hundred queries;
then it looks for code to throw away all the time, and compiles it again. In a small heap it collects garbage often.
"""
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""For a session: to make a Java program of each query takes longer than a few rows do without. What users have, Spark
has in the examples, in the demo and in the streams that are killed; `test_spark_expressions` has it too."""
ROOT = Path(__file__).parent.parent

_missing: dict[str, str] = {}


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """local[2] with task retries; a failed start with Delta's jar is followed by one without."""
    _prepare_environment()
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT / "integration" / "spark_workers"), prepend=os.pathsep)
        installed = importlib.metadata.version("pyspark")
        if not installed.startswith(f"{DELTA_SPARK}."):
            _missing["reason"] = f"it is for Spark {DELTA_SPARK}, and {installed} is installed"
        try:
            session = start_session(_builder(folder, with_delta=not _missing))
        except Exception as error:  # Spark's launcher reports an unresolved package only as a dead JVM
            if _missing or os.environ.get("CI") == "true":
                raise
            _missing["reason"] = str(error).splitlines()[0]
            session = _builder(folder, with_delta=False).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def spark(spark_session: SparkSession) -> Iterator[SparkSession]:
    """The session with its settings restored after the test.

    A test with a session of its own leaves that one active, and Spark looks for data sources in the active one.
    """
    spark_session._jvm.SparkSession.setActiveSession(spark_session._jsparkSession)
    before = dict(spark_session.conf.getAll)
    yield spark_session
    for name in spark_session.conf.getAll.keys() - before.keys():
        spark_session.conf.unset(name)
    for name, value in before.items():
        if spark_session.conf.isModifiable(name):
            spark_session.conf.set(name, value)


@pytest.fixture(scope="session")
def delta_session(spark_session: SparkSession) -> SparkSession:
    """The session, for fixtures that need Spark's own Delta in it."""
    if _missing:
        pytest.skip(f"NOT TESTED: against Spark's own Delta, {DELTA_PACKAGE}: {_missing['reason']}")
    return spark_session


@pytest.fixture
def delta(delta_session: SparkSession, spark: SparkSession) -> SparkSession:
    """The session, its settings restored after the test, for tests that need Spark's own Delta in it."""
    return spark


@pytest.fixture
def read_delta(delta: SparkSession) -> Callable[..., DataFrame]:
    """Read a table with Spark's own Delta, the reference reader: ``read_delta(path, versionAsOf=1)``."""

    def read(path: Path | str, **options: Any) -> DataFrame:
        return delta.read.format("delta").options(**options).load(str(path))

    return read


def _builder(folder: Path, *, with_delta: bool) -> SparkSession.Builder:
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": OF_MANY_QUERIES,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.maxResultSize": "8m",
        "spark.sql.shuffle.partitions": "2",
        **INTERPRETED,
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # otherwise VACUUM runs 10,000 tasks
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "America/New_York",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.ui.showConsoleProgress": "false",
    }
    if with_delta:
        settings |= {
            **jar_settings(DELTA_PACKAGE),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
    return SparkSession.builder.master("local[2,3]").appName("txlog").config(map=settings)


def _prepare_environment() -> None:
    """What the JVM and its Python workers inherit; they find txlog in this checkout where it is not installed."""
    os.environ.update(java_home.spark_environment())
    if importlib.util.find_spec("pyspark_txlog") is None:
        places = [str(ROOT), str(ROOT / "txlog" / "spark" / "discovery"), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(place for place in places if place)
