"""Debezium's envelopes from a real broker of Kafka, by Spark's source. deltalake reads what the tables hold.

Skipped where the jars cannot be had.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import deltalake
import java_home
import pytest
from kafka_broker import KAFKA, kafka_broker
from spark_fixtures import DELTA_SPARK, SHORT_LIVED
from spark_jars import jar_settings
from test_spark_envelopes import BATCHES, HISTORY, NEWEST
from test_spark_s3 import python_path

pytestmark = pytest.mark.hunt(part="spark")  # two JVMs of its own
SOURCE = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{DELTA_SPARK}.0"


def rows_of(path: Path, *columns: str) -> set[tuple[Any, ...]]:
    rows = deltalake.DeltaTable(str(path)).to_pyarrow_table(columns=list(columns)).to_pylist()
    found = {tuple(row.values()) for row in rows}
    assert len(found) == len(rows)
    return found


def in_topic_order(batch: list[bytes]) -> list[tuple[str | None, str | None]]:
    """Events by the log's position, as Debezium sends those of a table; what deletes is followed by a tombstone."""
    found: list[tuple[str | None, str | None]] = []
    for line in sorted(filter(None, batch), key=lambda line: json.loads(line)["payload"]["source"]["lsn"]):
        payload = json.loads(line)["payload"]
        key = json.dumps({"id": (payload["after"] or payload["before"])["id"]})
        found.append((key, line.decode()))
        found += [(key, None)] if payload["op"] == "d" else []
    return found


def test_a_topic_is_followed_by_the_program_of_the_page_though_broker_and_session_restart(
    tmp_path: Path,
) -> None:
    with kafka_broker(tmp_path) as broker:
        if broker is None:
            pytest.skip(f"NOT TESTED: Spark from a real Kafka: {KAFKA} could not be had")
        settings = {
            **jar_settings(SOURCE),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
        }
        for batch in BATCHES:
            job = subprocess.run(
                [
                    *(sys.executable, str(Path(__file__).parent / "spark_kafka_job.py")),
                    *(broker.address, str(tmp_path / "tables"), json.dumps(settings)),
                ],
                input=f"{json.dumps(in_topic_order(batch))}\n",
                cwd=tmp_path,
                env={**java_home.spark_environment(), **python_path(), "JDK_JAVA_OPTIONS": SHORT_LIVED},
                capture_output=True,
                text=True,
            )
            if "unresolved dependency" in job.stderr and os.environ.get("CI") != "true":
                pytest.skip(f"NOT TESTED: Spark from a real Kafka: {SOURCE} could not be had")
            assert job.stdout.splitlines()[-1:] == ["done"], job.stderr[-5000:]
            broker.stop()
            broker.start()
    assert rows_of(tmp_path / "tables" / "orders", "id", "name", "country") == NEWEST
    columns = "id", "name", "country", "__START_AT", "__END_AT"
    assert rows_of(tmp_path / "tables" / "history", *columns) == HISTORY
