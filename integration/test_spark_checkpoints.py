"""V2 checkpoints of ours read by Spark's own Delta, and Spark's by us, written on in turns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from rows import as_rows, in_schema

import txlog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[..., "DataFrame"]

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("p", pa.string())])


def rows(*ids: int) -> pa.Table:
    days = pa.array(list(ids), pa.int32()).cast(pa.date32())
    return pa.table({"id": pa.array(ids, pa.int64()), "day": days, "p": [str(i % 3) for i in ids]})


def v2_checkpoints(path: Path) -> list[Path]:
    return sorted((path / "_delta_log").glob("*.checkpoint.*-*.*"))


def start_from_the_newest_checkpoint(path: Path) -> None:
    """Take the commits below it away, as a log cleanup does."""
    version = int(v2_checkpoints(path)[-1].name[:20])
    for commit in (path / "_delta_log").glob("*.json"):
        if len(commit.name) == 25 and int(commit.name[:20]) < version:
            commit.unlink()
            commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)


def same_rows(path: Path, read_delta: Read) -> list[str]:
    ours = txlog.Table.open(path).snapshot().to_arrow()
    assert as_rows(in_schema(read_delta(path).toArrow(), ours.schema)) == as_rows(ours)
    return as_rows(ours)


def test_spark_reads_filters_and_appends_to_a_table_from_our_v2_checkpoint(
    tmp_path: Path, delta: SparkSession, read_delta: Read
) -> None:
    path = tmp_path / "t"
    properties = {"delta.checkpointPolicy": "v2", "delta.checkpoint.writeStatsAsStruct": "true"}
    table = txlog.Table.create(path, SCHEMA, partition_by=("p",), properties=properties)
    for start in range(0, 12, 2):
        table.append(rows(start, start + 1))
    table.create_checkpoint()
    table.append(rows(100))
    table.create_checkpoint()
    assert len(v2_checkpoints(path)) == 2
    start_from_the_newest_checkpoint(path)
    assert len(same_rows(path, read_delta)) == 13
    assert read_delta(path).where("p = '1' and id > 50").count() == 1
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (200, DATE '2024-01-01', '2')")
    assert len(same_rows(path, read_delta)) == 14


def test_v2_checkpoints_written_in_turns_with_spark_tell_all_that_both_wrote(
    tmp_path: Path, delta: SparkSession, read_delta: Read
) -> None:
    path = tmp_path / "t"
    delta.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, day DATE, p STRING) USING delta PARTITIONED BY (p)"
        " TBLPROPERTIES ('delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2')"
    )
    for turn in range(3):
        delta.sql(f"INSERT INTO delta.`{path}` VALUES ({turn}, DATE '2024-01-01', '0'), ({turn}, NULL, '1')")
        table = txlog.Table.open(path)
        table.append(rows(10 + turn, 20 + turn))
        table.create_checkpoint()
        delta.sql(f"DELETE FROM delta.`{path}` WHERE id = {turn} AND p = '0'")
    assert len(v2_checkpoints(path)) >= 3
    start_from_the_newest_checkpoint(path)
    assert len(same_rows(path, read_delta)) == 9
