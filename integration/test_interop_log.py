"""What lies next to our commits, read by others: checksum files, compacted and cleaned-up logs, in-commit timestamps.

Spark's Delta and deltalake read the rows; Spark also continues from our checksum file, and we from Spark's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from rows import as_rows, in_schema

import txlog
from txlog.core.versions.upkeep._version_checksum import write_checksum
from txlog.result import in_milliseconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[..., "DataFrame"]

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
NEVER = {"delta.checkpointInterval": "1000"}
DAY_S = 86_400


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": [str(i % 2) for i in ids]})


def log_of(path: Path) -> Path:
    return path / "_delta_log"


def everybody_reads(path: Path, read_delta: Read) -> list[str]:
    """The rows that we read, after Spark and deltalake were seen to read the same."""
    ours = txlog.Table.open(path).snapshot().to_arrow()
    assert as_rows(in_schema(read_delta(path).toArrow(), ours.schema)) == as_rows(ours)
    theirs = pa.table(deltalake.DeltaTable(str(path)).to_pyarrow_table())
    assert as_rows(in_schema(theirs, ours.schema)) == as_rows(ours)
    return as_rows(ours)


def checksum(path: Path, version: int) -> dict[str, Any]:
    reported: dict[str, Any] = json.loads((log_of(path) / f"{version:020}.crc").read_text())
    return reported


def counted(path: Path) -> tuple[int, int]:
    files = deltalake.DeltaTable(str(path)).get_add_actions().to_struct_array().to_pylist()
    return len(files), sum(file["size_bytes"] for file in files)


def test_spark_continues_from_our_checksum_file_and_we_from_its(tmp_path: Path, read_delta: Read) -> None:
    path = tmp_path / "t"
    table = txlog.Table.create(path, SCHEMA, partition_by=("p",), properties=NEVER)
    for number in range(4):
        table.append(rows(number, number + 10), app_id="loader", checkpoint_id=number)
    table.overwrite(rows(7, 8, 9))
    assert write_checksum(table._open_table.log, table._open_table.log.newest_state())
    assert len(everybody_reads(path, read_delta)) == 3
    spark = read_delta(path).sparkSession
    spark.createDataFrame([(100, "0")], "id bigint, p string").write.format("delta").mode("append").save(str(path))
    reported = checksum(path, 6)
    assert (reported["numFiles"], reported["tableSizeBytes"]) == counted(path)
    assert [(txn["appId"], txn["version"]) for txn in reported["setTransactions"]] == [("loader", 3)]
    reopened = txlog.Table.open(path)
    totals = reopened._open_table.log.newest_state().totals
    assert totals is not None, "our own commit since would not show what Spark's changed: this is Spark's count"
    assert (totals.num_files, totals.size_bytes) == counted(path)
    assert reopened.snapshot().transaction_version("loader") == 3
    assert len(everybody_reads(path, read_delta)) == 4


def test_spark_finds_our_checksum_file_right_after_an_application_expired(tmp_path: Path, read_delta: Read) -> None:
    """It counts the applications that are live as it looks, and refuses a file that lists others."""
    path = tmp_path / "t"
    properties = {**NEVER, "delta.setTransactionRetentionDuration": "interval 1 millisecond"}
    table = txlog.Table.create(path, SCHEMA, properties=properties)
    table.append(rows(1), app_id="loader", checkpoint_id=1)
    assert write_checksum(table._open_table.log, table._open_table.log.newest_state())
    spark: Any = read_delta(path).sparkSession
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, str(path))
    snapshot = log.unsafeVolatileSnapshot()
    assert (snapshot.version(), snapshot.checksumOpt().isDefined(), snapshot.setTransactions().size()) == (1, True, 0)
    assert snapshot.validateChecksum(getattr(snapshot, "validateChecksum$default$1")())


def test_spark_reads_the_compacted_file_in_place_of_the_commits(tmp_path: Path, read_delta: Read) -> None:
    path = tmp_path / "t"
    table = txlog.Table.create(path, SCHEMA, partition_by=("p",), properties=NEVER)
    for number in range(3):
        table.append(rows(number, number + 10), app_id="loader", checkpoint_id=number)
    table.overwrite(rows(7, 8))
    table.append(rows(9))
    done = table.compact_log()
    assert done is not None
    assert (done.first_version, done.last_version) == (0, 5)
    table.append(rows(20))
    expected = everybody_reads(path, read_delta)
    assert len(expected) == 4
    for version in range(1, 5):  # a reader of these would miss what they did
        (log_of(path) / f"{version:020}.json").write_text('{"commitInfo":{"operation":"WRITE"}}\n')
    spark = read_delta(path).sparkSession
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    found = read_delta(path).toArrow()
    assert as_rows(in_schema(found, table.snapshot().to_arrow().schema)) == expected


def test_spark_and_deltalake_read_a_table_whose_log_was_cleaned_up(tmp_path: Path, read_delta: Read) -> None:
    path = tmp_path / "t"
    table = txlog.Table.create(path, SCHEMA, partition_by=("p",), properties=NEVER)
    for number in range(5):
        table.append(rows(number, number + 10))
    table.create_checkpoint()
    assert write_checksum(table._open_table.log, table._open_table.log.newest_state())
    for file in log_of(path).iterdir():
        old_s = file.stat().st_mtime - 40 * DAY_S
        os.utime(file, (old_s, old_s))
    table.append(rows(50))
    table.append(rows(51))
    done = txlog.Table.open(path).clean_up_log()
    assert done.first_version == 5
    assert sorted(log_of(path).glob("0*.json"))[0].name == f"{5:020}.json"
    assert len(everybody_reads(path, read_delta)) == 12
    assert read_delta(path, versionAsOf=6).count() == 11
    first = deltalake.DeltaTable(str(path), version=5).to_pyarrow_table().num_rows
    assert first == txlog.Table.open(path).snapshot(5).to_arrow().num_rows == 10
    spark = read_delta(path).sparkSession
    spark.createDataFrame([(100, "0")], "id bigint, p string").write.format("delta").mode("append").save(str(path))
    assert len(everybody_reads(path, read_delta)) == 13


@pytest.mark.hunt(part="spark")
def test_spark_shows_the_times_of_our_commits(tmp_path: Path, delta: SparkSession, read_delta: Read) -> None:
    path = tmp_path / "t"
    properties = {**NEVER, "delta.enableInCommitTimestamps": "true"}
    table = txlog.Table.create(path, SCHEMA, properties=properties)
    for number in range(3):
        table.append(rows(number))
    for file in log_of(path).iterdir():  # what a copy or a backup does to the times of files
        os.utime(file, (1_700_000_000, 1_700_000_000))
    ours = {entry["version"]: in_milliseconds(entry["timestamp"]) for entry in table.history()}
    history = delta.sql(f"describe history delta.`{path}`").selectExpr("version", "unix_millis(timestamp) as at")
    assert {row["version"]: row["at"] for row in history.collect()} == ours
    assert len(everybody_reads(path, read_delta)) == 3
    delta.createDataFrame([(100, "0")], "id bigint, p string").write.format("delta").mode("append").save(str(path))
    table.append(rows(4))
    times = [in_milliseconds(entry["timestamp"]) for entry in reversed(table.history())]
    assert times == sorted(set(times)), "each is later than the one before, whichever engine committed"
    infos = [
        json.loads(file.read_text().splitlines()[0])["commitInfo"] for file in sorted(log_of(path).glob("0*.json"))
    ]
    assert [info["inCommitTimestamp"] for info in infos] == times
    assert len(everybody_reads(path, read_delta)) == 5
