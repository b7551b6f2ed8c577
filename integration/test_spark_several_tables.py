"""Transactions over several tables from a PySpark program, whose session has another time zone and settings of its own.

Spark's own filter in that session is the oracle of what a condition means.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import txlog
import txlog.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SINCE = "at >= '2026-01-02 00:00:00'"


@pytest.mark.hunt(part="spark")
def test_a_transaction_reads_conditions_in_the_zone_that_its_tables_are_opened_with(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    session.conf.set("spark.databricks.delta.write.txnAppId", "job")  # these are for Spark's own writes
    session.conf.set("spark.databricks.delta.write.txnVersion", "7")
    moments = pa.array([f"2026-01-01T{hour}:00:00Z" for hour in ("14", "15", "23")]).cast(pa.timestamp("us", "UTC"))
    uris = [str(tmp_path / name) for name in ("a", "b")]
    for uri in uris:
        txlog.Table.create(uri, "at timestamp").append(pa.table({"at": moments}))
    since = [session.read.format("txlog").load(uri).where(SINCE) for uri in uris]
    assert [each.count() for each in since] == [2, 2]

    zone = session.conf.get("spark.sql.session.timeZone")
    tables = [txlog.Table.open(uri, time_zone=zone) for uri in uris]
    assert [each.to_arrow(where=SINCE).num_rows for each in txlog.read_together(tables)] == [2, 2]
    with txlog.transaction(tables) as txn:
        assert [txn[table].read(SINCE).num_rows for table in tables] == [2, 2]
        txn[tables[0]].append(session.sql("select timestamp'2026-01-02 00:00:00' as at").toArrow())
        txn[tables[1]].delete(SINCE)
    read = [session.read.format("txlog").load(uri) for uri in uris]
    assert [each.where(SINCE).count() for each in read] == [3, 0]
    assert read[1].count() == 1
    assert [table.snapshot().transaction_version("job") for table in tables] == [None, None]

    with pytest.raises(txlog.errors.UnsupportedFeatureError, match=r"txlog\.spark\.sql has no transactions"):
        txlog.spark.sql(session, f"BEGIN; DELETE FROM delta.`{uris[0]}`; DELETE FROM delta.`{uris[1]}`; COMMIT")
