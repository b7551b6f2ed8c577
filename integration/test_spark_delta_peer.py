"""Spark's own Delta works on tables txlog wrote, and txlog on what it leaves behind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from spark_helpers import as_rows, own_rows, save

import txlog
from txlog.core.versions._commit_together import _Together
from txlog.testing.faults import Crashed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[..., "DataFrame"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


def frame_of(spark: SparkSession, first: int, last: int) -> DataFrame:
    return spark.range(first, last).selectExpr("id", "concat('n', id) as name", "id % 3 as p")


@pytest.mark.hunt(part="spark")
def test_every_kind_of_change_by_spark_is_followed_by_a_write_of_ours(
    delta: SparkSession, read_delta: Read, path: Path
) -> None:
    """Append, DELETE, UPDATE, MERGE, OPTIMIZE, ALTER, overwrite: after each both sides read the same, and we append."""
    save(frame_of(delta, 0, 30), path, partitionBy="p")
    frame_of(delta, 1000, 1010).createOrReplaceTempView("changes")
    table = f"delta.`{path}`"
    changes = [
        lambda: frame_of(delta, 30, 40).write.format("delta").mode("append").save(str(path)),
        lambda: delta.sql(f"delete from {table} where id % 5 = 0"),
        lambda: delta.sql(f"update {table} set name = 'changed' where id = 7"),
        lambda: delta.sql(
            f"merge into {table} t using (select id - 1000 as id, name, p from changes) s on t.id = s.id "
            "when matched then update set name = s.name when not matched then insert *"
        ),
        lambda: delta.sql(f"optimize {table}"),
        lambda: delta.sql(f"alter table {table} add columns (extra int)"),
        lambda: delta.sql(f"vacuum {table}"),
        lambda: frame_of(delta, 0, 5).write.format("delta").mode("overwrite").save(str(path)),
    ]
    for number, change in enumerate(changes):
        change()
        save(frame_of(delta, 100 + number * 10, 102 + number * 10), path)
        found = read_delta(path)
        ours = own_rows(path)
        assert sorted(map(repr, ours)) == sorted(repr(row.asDict()) for row in found.collect())
        assert {100 + number * 10, 101 + number * 10} <= {row["id"] for row in ours}


@pytest.mark.hunt(part="spark")
def test_history_shows_our_writes_as_sparks_own(delta: SparkSession, path: Path) -> None:
    save(frame_of(delta, 0, 9), path, partitionBy="p", userMetadata="first")
    save(frame_of(delta, 9, 12), path)
    save(frame_of(delta, 0, 3), path, "overwrite")
    frame_of(delta, 3, 6).write.format("delta").mode("append").save(str(path))
    rows = delta.sql(f"describe history delta.`{path}`").orderBy("version").collect()
    assert [row.operation for row in rows] == ["WRITE"] * 4
    assert [row.operationParameters["mode"] for row in rows] == ["Append", "Append", "Overwrite", "Append"]
    assert [row.isBlindAppend for row in rows] == [False, True, False, True]  # creating is more than adding rows
    assert [row.userMetadata for row in rows] == ["first", None, None, None]
    assert [row.readVersion for row in rows] == [None, 0, 1, 2]
    assert rows[0].operationParameters["partitionBy"] == '["p"]'
    assert [int(row.operationMetrics["numOutputRows"]) for row in rows] == [9, 3, 3, 3]
    assert rows[2].operationMetrics["numFiles"] == str(txlog.Table.open(str(path)).snapshot(2).num_files)
    assert all("txlog" in row.engineInfo for row in rows[:3])
    assert all(row.timestamp is not None for row in rows)


def test_spark_reads_a_long_log_of_ours_through_our_checkpoint(
    delta: SparkSession, read_delta: Read, path: Path
) -> None:
    import pyarrow as pa

    table = txlog.Table.create(str(path), pa.schema([("id", pa.int64())]), properties={"delta.checkpointInterval": "5"})
    for number in range(11):
        table.append(pa.table({"id": [number]}), app_id="loop", checkpoint_id=number)
    save(delta.range(11, 12), path)
    assert list((path / "_delta_log").glob("*.checkpoint.parquet"))
    assert as_rows(read_delta(path)) == as_rows(delta.range(12))
    delta.range(12, 13).write.format("delta").mode("append").save(str(path))
    save(delta.range(13, 14), path)
    assert sorted(row["id"] for row in own_rows(path)) == list(range(14))
    assert txlog.Table.open(str(path)).snapshot().transaction_version("loop") == 10


def test_a_batch_with_a_transaction_version_lands_once_through_delta_and_txlog(delta: SparkSession, path: Path) -> None:
    identity = {"txnAppId": "etl", "txnVersion": "3"}
    delta.range(3).write.format("delta").mode("append").options(**identity).save(str(path))
    save(delta.range(3), path, **identity)
    save(delta.range(3), path, txnAppId="etl", txnVersion="4")
    delta.range(3).write.format("delta").mode("append").options(txnAppId="etl", txnVersion="4").save(str(path))
    assert sorted(row["id"] for row in own_rows(path)) == [0, 0, 1, 1, 2, 2]


@pytest.mark.hunt(part="spark")
def test_spark_streams_from_a_table_of_ours(delta: SparkSession, tmp_path: Path, path: Path) -> None:
    def stream() -> list[str]:
        query = (
            delta.readStream.format("delta")
            .load(str(path))
            .writeStream.format("delta")
            .option("checkpointLocation", str(tmp_path / "c"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "copy"))
        )
        assert query.awaitTermination(120)
        return as_rows(delta.read.format("delta").load(str(tmp_path / "copy")))

    save(delta.range(5), path)
    save(delta.range(5, 8), path)
    assert stream() == as_rows(delta.range(8))
    save(delta.range(8, 10), path)
    assert stream() == as_rows(delta.range(10))


def test_a_table_with_features_of_spark_that_we_do_not_write_is_refused_untouched(
    delta: SparkSession, path: Path
) -> None:
    from spark_helpers import refused

    table = f"delta.`{path}`"
    other = "'delta.feature.coordinatedCommits-preview' = 'supported'"
    delta.sql(f"create table {table} (n bigint) using delta tblproperties ({other})")
    delta.sql(f"insert into {table} (n) values (1)")
    error = refused(lambda: save(delta.sql("select 4L as n"), path))
    assert isinstance(error, txlog.UnsupportedFeatureError)
    assert "coordinatedCommits-preview" in str(error)
    assert delta.read.format("delta").load(str(path)).count() == 1


@pytest.mark.hunt(part="spark")
def test_spark_reads_and_writes_a_table_that_is_prepared_for_a_transaction(
    delta: SparkSession, read_delta: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer of the transaction dies after the decision. Spark deletes, appends and compacts; then ours goes on."""

    def dies(*given: object) -> None:
        raise Crashed

    tables = [txlog.Table.create(str(tmp_path / name), "id bigint") for name in ("a", "b")]
    tables.sort(key=lambda table: table.snapshot().table_id)
    for table in tables:
        table.append(pa.table({"id": [1, 2]}))
    with monkeypatch.context() as patch:
        patch.setattr(_Together, "_landed", dies)
        with contextlib.suppress(Crashed), txlog.transaction(tables) as txn:
            for each in txn:
                each.append(pa.table({"id": [3]}))
    prepared, deciding = (Path(table.uri) for table in tables)
    assert delta.sql(f"describe history delta.`{prepared}`").first()["operation"] == "PREPARE TRANSACTION"
    delta.sql(f"delete from delta.`{prepared}` where id = 1")
    delta.sql(f"insert into delta.`{prepared}` values (4)")
    delta.sql(f"optimize delta.`{prepared}`")
    assert sorted(row["id"] for row in read_delta(prepared).collect()) == [2, 4]
    assert sorted(row["id"] for row in read_delta(deciding).collect()) == [1, 2, 3]
    txlog.Table.open(str(prepared)).append(pa.table({"id": [5]}))
    assert sorted(row["id"] for row in read_delta(prepared).collect()) == [2, 3, 4, 5]
