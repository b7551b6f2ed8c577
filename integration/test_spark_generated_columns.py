"""Generated columns and defaults through Spark: txlog computes what Spark's own Delta computes in the zone of the
session, and each checks what the other writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from spark_helpers import as_rows, refused, save

import txlog
import txlog.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXPRESSIONS = {
    "day": ("date", "CAST(at AS DATE)"),
    "year": ("int", "YEAR(at)"),
    "month": ("int", "MONTH(at)"),
    "hour": ("int", "HOUR(at)"),
    "begin": ("timestamp", "DATE_TRUNC('MONTH', at)"),
    "period": ("string", "DATE_FORMAT(at, 'yyyy-MM')"),
    "head": ("string", 'CONCAT(SUBSTRING(s, 1, 2), "-")'),
    "sum": ("bigint", "id + COALESCE(n, 0)"),
    "half": ("double", "n / 2"),
    "price": ("decimal(12,2)", "CAST(n * 1.5 AS DECIMAL(12,2))"),
    "kind": ("string", "CASE WHEN n > 5 THEN 'big' WHEN n IS NULL THEN NULL ELSE 'small' END"),
    "is_a": ("boolean", "s LIKE 'a%'"),
}
PLAIN = "id bigint, at timestamp, s string, n int"
ROWS = [
    (1, "2026-03-01 00:00:00", "abc", 5),
    (2, "2026-02-28 23:59:59.999999", "ä", 6),
    (3, "1969-12-31 23:59:59", "", None),
    (4, None, None, -7),
    (5, "2024-02-29 12:30:00", "a", 2147483647),
]


def rows_of(spark: SparkSession, *rows: tuple[int, str | None, str | None, int | None]) -> DataFrame:
    frame = spark.createDataFrame([*rows], "id bigint, at string, s string, n int")
    return frame.selectExpr("id", "CAST(at AS TIMESTAMP) AS at", "s", "n").coalesce(1)


ZONE = "Australia/Melbourne"


@pytest.fixture(autouse=True)
def in_zone(delta: SparkSession) -> None:
    """The dates and hours of expressions are those of the session."""
    delta.conf.set("spark.sql.session.timeZone", ZONE)


@pytest.fixture
def paths(delta: SparkSession, tmp_path: Path) -> tuple[Path, Path]:
    """A table of Spark's Delta with generated columns, and one of txlog with the same definition."""
    spark_path, our_path = tmp_path / "spark", tmp_path / "ours"
    generated = ", ".join(f"{name} {kind} GENERATED ALWAYS AS ({sql})" for name, (kind, sql) in EXPRESSIONS.items())
    delta.sql(f"CREATE TABLE delta.`{spark_path}` ({PLAIN}, {generated}) USING delta PARTITIONED BY (day, kind)")
    metadata = next(
        line["metaData"]
        for line in map(json.loads, (spark_path / "_delta_log" / f"{0:020}.json").read_text().splitlines())
        if "metaData" in line
    )
    txlog.Table.create(our_path, metadata["schemaString"], partition_by=["day", "kind"])
    return spark_path, our_path


def all_rows(spark: SparkSession, path: Path) -> list[str]:
    return as_rows(spark.read.format("delta").load(str(path)))


@pytest.mark.hunt(part="spark")
def test_txlog_computes_what_sparks_delta_computes(delta: SparkSession, paths: tuple[Path, Path]) -> None:
    theirs, ours = paths
    rows_of(delta, *ROWS).write.format("delta").mode("append").save(str(theirs))
    save(rows_of(delta, *ROWS), ours)
    assert all_rows(delta, ours) == all_rows(delta, theirs)
    for path in paths:  # each adds to a table of either, from Spark and from Python
        rows_of(delta, (6, "2026-03-02 01:00:00", "xy", 1)).write.format("delta").mode("append").save(str(path))
        arrow = rows_of(delta, (7, "2026-03-03 02:00:00", "ab", 9)).toArrow()
        txlog.Table.open(path, time_zone=ZONE).append(arrow.cast(pa.schema([(f.name, f.type) for f in arrow.schema])))
    assert all_rows(delta, ours) == all_rows(delta, theirs)
    assert txlog.Table.open(ours).to_arrow(where="day = DATE '2026-03-03'")["id"].to_pylist() == [7]
    assert txlog.Table.open(ours).verify().is_sound


@pytest.mark.hunt(part="spark")
def test_row_changes_compute_what_deltas_compute(delta: SparkSession, paths: tuple[Path, Path]) -> None:
    theirs, ours = paths
    for path in paths:
        save(rows_of(delta, *ROWS), path)
        delta.sql(f"UPDATE delta.`{path}` SET n = n - 1 WHERE id IN (1, 2, 3)")
        delta.sql(f"DELETE FROM delta.`{path}` WHERE id = 5")
    assert all_rows(delta, ours) == all_rows(delta, theirs)
    source = [(1, "2026-05-01 05:00:00", "new", 50), (9, "2026-05-02 06:00:00", "more", 1)]
    delta.sql(f"UPDATE delta.`{theirs}` SET n = n + 1, s = 'zz' WHERE id IN (1, 3, 4)")
    txlog.spark.update(delta, str(ours), {"n": txlog.expr("n + 1"), "s": txlog.expr("'zz'")}, "id IN (1, 3, 4)")
    assert all_rows(delta, ours) == all_rows(delta, theirs)
    rows_of(delta, *source).createOrReplaceTempView("source")
    delta.sql(
        f"MERGE INTO delta.`{theirs}` t USING source s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.at = s.at"
        " WHEN NOT MATCHED THEN INSERT (id, at, s, n) VALUES (s.id, s.at, s.s, s.n)"
    )
    merge = txlog.spark.merge(
        delta, str(ours), rows_of(delta, *source), "t.id = s.id", source_alias="s", target_alias="t"
    )
    merge.when_matched_update({"at": txlog.expr("s.at")}).when_not_matched_insert(
        {"id": txlog.expr("s.id"), "at": txlog.expr("s.at"), "s": txlog.expr("s.s"), "n": txlog.expr("s.n")}
    ).execute()
    assert all_rows(delta, ours) == all_rows(delta, theirs)
    delta.sql(
        f"MERGE INTO delta.`{theirs}` t USING (SELECT id + 1 AS id, at, s, n FROM source) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET t.at = s.at, t.s = s.s, t.n = s.n"
        " WHEN NOT MATCHED THEN INSERT (id, at, s, n) VALUES (s.id, s.at, s.s, s.n)"
    )
    txlog.spark.upsert(
        delta, str(ours), rows_of(delta, *source).selectExpr("id + 1 AS id", "at", "s", "n"), keys=["id"]
    )
    assert all_rows(delta, ours) == all_rows(delta, theirs)
    for path in paths:
        save(rows_of(delta, (2, "2026-06-01 00:00:00", "by key", 3)), path, upsertKeys="id")
    assert all_rows(delta, ours) == all_rows(delta, theirs)


@pytest.mark.hunt(part="spark")
def test_both_refuse_the_same_wrong_values(delta: SparkSession, paths: tuple[Path, Path]) -> None:
    theirs, ours = paths
    save(rows_of(delta, *ROWS), ours)
    before = all_rows(delta, ours)
    wrong = rows_of(delta, (8, "2026-03-01 00:00:00", "abc", 5)).selectExpr("*", "DATE '2026-03-02' AS day")
    right = rows_of(delta, (8, "2026-03-01 00:00:00", "abc", 5)).selectExpr("*", "DATE '2026-03-01' AS day")
    with pytest.raises(Exception, match="Generated Column"):
        wrong.write.format("delta").mode("append").save(str(ours))
    error = refused(lambda: save(wrong, ours))
    assert isinstance(error, txlog.InvalidInputError)
    assert "column day is generated as CAST(at AS DATE)" in str(error)
    with pytest.raises(txlog.InvalidInputError, match="column year is generated"):
        txlog.spark.update(delta, str(ours), {"year": 1999})
    with pytest.raises(txlog.InvalidInputError, match="column day is generated"):
        txlog.spark.upsert(delta, str(ours), wrong, keys=["id"])
    assert all_rows(delta, ours) == before
    save(right, ours)
    right.write.format("delta").mode("append").save(str(theirs))


@pytest.mark.hunt(part="spark")
def test_a_stream_computes_generated_columns(delta: SparkSession, paths: tuple[Path, Path], tmp_path: Path) -> None:
    rows_of(delta, *ROWS).write.parquet(str(tmp_path / "source"))
    stream = delta.readStream.schema(PLAIN).parquet(str(tmp_path / "source"))
    for path, source in zip(paths, ("delta", "txlog"), strict=True):
        writer = stream.writeStream.format(source).option("checkpointLocation", str(tmp_path / f"to {source}"))
        writer.trigger(availableNow=True).start(str(path)).awaitTermination()
    assert all_rows(delta, paths[1]) == all_rows(delta, paths[0])
    assert len(all_rows(delta, paths[1])) == len(ROWS)


@pytest.mark.hunt(part="spark")
def test_defaults_equal_spark_deltas(delta: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    delta.sql(
        f"CREATE TABLE delta.`{path}` (id INT, n INT DEFAULT 7, s STRING DEFAULT 'a' || \"b\", d DATE DEFAULT DATE"
        " '2026-01-02', x DECIMAL(5,2) DEFAULT 1.5, at TIMESTAMP DEFAULT current_timestamp(), y DOUBLE DEFAULT NULL)"
        " USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    delta.sql(f"INSERT INTO delta.`{path}` (id) VALUES (1)")
    save(delta.createDataFrame([(2,)], "id int"), path)
    txlog.Table.open(path).append(pa.table({"id": pa.array([3], pa.int32())}))
    delta.sql(f"INSERT INTO delta.`{path}` (id, n) VALUES (4, NULL)")
    txlog.Table.open(path).append(pa.table({"id": pa.array([5], pa.int32()), "n": pa.array([None], pa.int32())}))
    found = delta.read.format("delta").load(str(path))
    plain = {row.id: row for row in found.selectExpr("id", "n", "s", "d", "x", "y").collect()}
    assert {tuple(plain[id])[1:] for id in (1, 2, 3)} == {tuple(plain[1])[1:]}
    assert tuple(plain[4])[1:] == tuple(plain[5])[1:]
    assert plain[4].n is None
    times = [row.at for row in found.orderBy("id").collect()]
    assert times == sorted(times)
    assert None not in times
