"""Spark's own Delta vacuums a table whose sink has staged: the staging stays, and what the vacuum deleted is
noticed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import txlog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNCHECKED = "spark.databricks.delta.retentionDurationCheck.enabled"
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])


def sealed(sink: txlog.Sink, checkpoint_id: int) -> None:
    with sink.task(checkpoint_id) as task:
        task.write(pa.table({"id": [checkpoint_id], "day": ["mon"]}, schema=SCHEMA))
    sink.stage(task.committable)
    sink.prepare(checkpoint_id, [0])


def staged(table: txlog.Table) -> list[str]:
    return sorted(path.name for path in Path(table.uri, "_txlog", "staging").iterdir())


@pytest.mark.hunt(part="spark")
def test_a_vacuum_by_spark_keeps_staged_work_and_a_sink_notices_deleted_data_files(
    delta: SparkSession, tmp_path: Path
) -> None:
    table = txlog.Table.create(tmp_path / "t", SCHEMA, partition_by=["day"])
    sink = txlog.Sink(table, "app")
    sealed(sink, 1)
    for path in Path(table.uri, "_txlog").rglob("*"):
        os.utime(path, (0, 0))
    names = staged(table)
    delta.sql(f"vacuum delta.`{table.uri}`")
    assert staged(table) == names
    assert sink.recover().results[1].outcome == "committed"

    sealed(sink, 2)
    before = delta.conf.get(UNCHECKED)
    delta.conf.set(UNCHECKED, "false")
    try:
        delta.sql(f"vacuum delta.`{table.uri}` retain 0 hours")
    finally:
        delta.conf.set(UNCHECKED, before)
    with pytest.raises(txlog.NotFoundError, match=r"sink\.discard\(2\)"):
        sink.recover()
    assert sink.discard(2)
    sealed(sink, 2)
    assert sink.commit(2).outcome == "committed"
    read = delta.read.format("delta").load(table.uri)
    assert sorted(row["id"] for row in read.collect()) == [1, 2]
