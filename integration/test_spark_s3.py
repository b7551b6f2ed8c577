"""Tables in a bucket through Spark and Hadoop's own S3 client, whose settings are all that the session is given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import java_home
import pyspark
import pytest
from servers import S3Location
from spark_fixtures import SHORT_LIVED
from spark_jars import jar_settings
from spark_s3_job import FEW, PARTITIONS

pytestmark = pytest.mark.hunt(part="spark")  # a JVM of its own
JARS = Path(pyspark.__file__).parent / "jars"
AMAZON_VERSION = "2.35.4"
AMAZON_PARTS = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
AMAZON_BUNDLE = "software.amazon.awssdk:bundle"
"""All of Amazon's services in one jar of 690 MB, which hadoop-aws asks for. The parts that S3A uses take 19 MB."""


def packages() -> list[str]:
    hadoop = next(JARS.glob("hadoop-client-api-*.jar")).stem.rpartition("-")[2]
    parts = [f"software.amazon.awssdk:{each}:{AMAZON_VERSION}" for each in AMAZON_PARTS]
    return [f"org.apache.hadoop:hadoop-aws:{hadoop}", *parts]


@pytest.fixture(scope="module")
def tried(s3_server: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `spark_s3_job` found, by what it tried."""
    location: S3Location = s3_server.new_location()
    stored = location.storage_options
    settings = {
        **jar_settings(",".join(packages())),
        "spark.jars.excludes": AMAZON_BUNDLE,
        "spark.hadoop.fs.s3a.access.key": stored["access_key_id"],
        "spark.hadoop.fs.s3a.secret.key": stored["secret_access_key"],
        "spark.hadoop.fs.s3a.endpoint": stored["endpoint_url"],
        "spark.hadoop.fs.s3a.endpoint.region": stored["region"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }
    uri = location.uri.replace("a table", "t")
    run = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "spark_s3_job.py"), uri, *map(json.dumps, (stored, settings))],
        cwd=tmp_path_factory.mktemp("s3"),
        env={**java_home.spark_environment(), **python_path(), "JDK_JAVA_OPTIONS": SHORT_LIVED, **no_credentials()},
        capture_output=True,
        text=True,
    )
    if "unresolved dependency" in run.stderr and os.environ.get("CI") != "true":
        pytest.skip(f"NOT TESTED: Spark on S3 through Hadoop: {packages()[0]} could not be had")
    assert run.returncode == 0, run.stderr[-5000:]
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    return {line["tried"]: line["found"] for line in lines}


def python_path() -> dict[str, str]:
    root = Path(__file__).parent.parent
    places = [str(root), str(root / "txlog" / "spark" / "discovery"), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, places))}


def no_credentials() -> dict[str, str]:
    """The environment and the machine hold none, and are not asked for long."""
    return {"AWS_EC2_METADATA_DISABLED": "true", "AWS_METADATA_ENDPOINT": "http://127.0.0.1:1"}


ALL = [[at, at % PARTITIONS] for at in range(4 * PARTITIONS)]
LIVE = [[number, day] for number, day in ALL if number >= PARTITIONS or day % 3]
LIVE_OF_FEW = [[at, at % FEW] for at in range(4 * FEW) if at >= FEW or at % FEW % 3]


def test_spark_reads_a_table_in_a_bucket_with_its_own_reader(tried: dict[str, Any]) -> None:
    """By both schemes: vectors, mapped columns, and partition values that are joined by file."""
    assert tried["read"] == [[True, LIVE]] * 2
    assert tried["read_of_one_partition"] == [True, [row for row in LIVE if row[1] == 7]]
    assert tried["read_of_an_older_version"] == ALL


def test_python_workers_read_paths_that_spark_misreads_with_the_sessions_credentials(
    tried: dict[str, Any],
) -> None:
    assert tried["read_of_a_path_with_a_space"] == [False, LIVE_OF_FEW]


def test_the_data_source_reads_with_the_options_of_the_session_and_says_what_it_lacks_without(
    tried: dict[str, Any],
) -> None:
    assert tried["source"] == LIVE_OF_FEW
    kind, message = tried["source_without_options"]
    assert kind == "StorageError"
    assert "txlog.spark.storage_options(spark)" in message


def test_batches_streams_and_functions_write_with_the_credentials_of_hadoops_settings(tried: dict[str, Any]) -> None:
    assert tried["write"] == LIVE_OF_FEW
    assert tried["stream"] == [LIVE_OF_FEW, LIVE_OF_FEW]


def test_rows_in_a_bucket_are_changed_by_sparks_tasks(tried: dict[str, Any]) -> None:
    assert tried["changes"] == sorted([row[0] + 1000 * (row[1] == 4), row[1]] for row in LIVE_OF_FEW if row[1] != 3)


def test_settings_that_only_hadoop_has_are_found_and_a_buckets_stay_with_it(tried: dict[str, Any]) -> None:
    of_bucket, of_session = tried["settings_of_hadoop_alone"]
    assert (of_bucket, of_session) == ("of that bucket", "txlog-test-access")
