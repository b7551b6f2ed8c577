"""Spark's own Delta reads our checkpoints, and we read Spark's; both continue the log in turns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rows import as_rows, in_schema

import txlog
from txlog.core.format.stats_struct import statistics_as_struct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[..., "DataFrame"]

_AT = datetime(2024, 2, 29, 23, 59, 59, 123456, timezone.utc)
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("p", pa.string())])


def rows(*ids: int) -> pa.Table:
    days = pa.array(list(ids), pa.int32()).cast(pa.date32())
    return pa.table({"id": pa.array(ids, pa.int64()), "day": days, "p": [str(i % 3) for i in ids]})


def v2_checkpoints(path: Path) -> list[Path]:
    return sorted((path / "_delta_log").glob("*.checkpoint.*-*.*"))


def start_from_the_newest_checkpoint(path: Path) -> None:
    """Take the commits below it away, as a log cleanup does."""
    version = max(int(found.name[:20]) for found in (path / "_delta_log").glob("0*.checkpoint.*"))
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
    properties = {"delta.checkpointPolicy": "v2"}
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


EVERY_STATISTIC = {
    "b": ("BYTE", pa.int8(), [1, 5, None]),
    "i": ("INT", pa.int32(), [-7, 2**31 - 1, 0]),
    "l": ("BIGINT", pa.int64(), [-(2**63), 0, 2**63 - 1]),
    "f": ("FLOAT", pa.float32(), [0.5, -1.5, 2.0**100]),
    "d": ("DOUBLE", pa.float64(), [0.1, -0.0, 1e308]),
    "x": ("DECIMAL(30,5)", pa.decimal128(30, 5), [Decimal("-1234567890123456789012345.12345"), Decimal(0), None]),
    "s": ("STRING", pa.string(), ["", "a'" * 30, "é\U0001f600"]),
    "day": ("DATE", pa.date32(), [date(1582, 10, 15), date(2024, 2, 29), None]),
    "t": ("TIMESTAMP", pa.timestamp("us", "UTC"), [_AT, _AT.replace(year=1904), None]),
    "n": ("TIMESTAMP_NTZ", pa.timestamp("us"), [_AT.replace(tzinfo=None)] * 3),
}


def typed_and_text(checkpoint: Path) -> tuple[pa.StructArray, pa.StringArray]:
    """``add.stats_parsed`` and ``add.stats`` of a classic checkpoint."""
    adds = pq.ParquetFile(checkpoint).read(["add"]).column("add").combine_chunks()
    adds = adds.filter(adds.is_valid())
    return adds.field("stats_parsed"), adds.field("stats")


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize(
    "properties", [{"delta.checkpoint.writeStatsAsJson": "false"}, {"delta.checkpointPolicy": "v2"}], ids=str
)
def test_spark_finds_every_row_by_the_typed_statistics_of_our_checkpoint(
    properties: dict[str, str], tmp_path: Path, read_delta: Read
) -> None:
    path = tmp_path / "t"
    schema = pa.schema([(name, kind) for name, (_, kind, _) in EVERY_STATISTIC.items()])
    table = txlog.Table.create(path, schema, properties=properties)
    for row in range(3):
        values = {name: pa.array([column[row]], kind) for name, (_, kind, column) in EVERY_STATISTIC.items()}
        table.append(pa.table(values, schema))
    table.create_checkpoint()
    table.append(pa.Table.from_pylist([{}], schema))  # so that the checkpoint is not of the newest version
    start_from_the_newest_checkpoint(path)
    spark = read_delta(path)
    assert spark.count() == 4
    for name, (_, _, column) in EVERY_STATISTIC.items():
        for row in range(3):
            # A datetime without a zone would be taken for one of the session's.
            value = f"TIMESTAMP_NTZ'{column[row]}'" if name == "n" else column[row]
            equal = f"n = {value}" if name == "n" else spark[name] == value
            wanted = spark.where(spark[name].isNull() if value is None else equal)
            assert wanted.count() >= 1, (name, value)
    assert spark.where("i > 2147483646").count() == 1


@pytest.mark.hunt(part="spark")
def test_statistics_that_spark_typed_are_in_our_next_checkpoint_as_their_text_has_them(
    tmp_path: Path, delta: SparkSession, read_delta: Read
) -> None:
    path = tmp_path / "t"
    columns = ", ".join(f"{name} {kind}" for name, (kind, _, _) in EVERY_STATISTIC.items())
    delta.sql(
        f"CREATE TABLE delta.`{path}` ({columns}) USING delta TBLPROPERTIES ('delta.checkpointInterval' = '2',"
        " 'delta.checkpoint.writeStatsAsStruct' = 'true')"
    )
    schema = pa.schema([(name, kind) for name, (_, kind, _) in EVERY_STATISTIC.items()])
    for row in range(3):
        values = [column[row] for _, _, column in EVERY_STATISTIC.values()]
        delta.createDataFrame([values], read_delta(path).schema).write.format("delta").mode("append").save(str(path))
    assert sorted(path.glob("_delta_log/*.checkpoint.parquet")), "Spark wrote no checkpoint"
    table = txlog.Table.open(path)
    table.append(pa.Table.from_pylist([{}], schema))
    version = table.create_checkpoint()
    typed, texts = typed_and_text(path / "_delta_log" / f"{version:020d}.checkpoint.parquet")
    assert len(typed) == 4
    assert typed.to_pylist() == statistics_as_struct(texts, typed.type).to_pylist()
    assert len(same_rows(path, read_delta)) == 4


@pytest.mark.hunt(part="spark")
def test_v2_checkpoints_written_in_turns_with_spark_hold_all_that_both_wrote(
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
