"""`txlog.spark.delete`, `update`, `upsert` and `merge`: Spark's tasks give the same rows as one process and Spark's own
Delta, without rows on the driver, and alongside other writers.

Random commands with fixed seeds; small sources, also treated as if they were large, so Spark joins them.
"""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType
from rows import assert_sound

import txlog
import txlog.spark
import txlog.spark.rows.source as spark_source
import txlog.spark.spark_workers as spark_workers
from txlog.spark.spark_workers import SparkWorkers

STRUCT = pa.struct([("n", pa.int32()), ("at", pa.timestamp("us", "UTC"))])
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("v", pa.float64()), ("s", STRUCT)])
DDL = "id long, day string, v double, s struct<n: int, at: timestamp>"
VECTORS = {"delta.enableDeletionVectors": "true"}
MAPPED = {"delta.columnMapping.mode": "name", **VECTORS}
KEPT = {"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"}
ReadDelta = Callable[..., DataFrame]


@pytest.fixture(params=["small", "large"])
def source_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether sources are handed to every task, or joined in Spark as if they were too large for that."""
    if request.param == "large":
        monkeypatch.setattr(spark_source, "SMALL_BYTES", -1)
    return str(request.param)


def random_rows(chance: random.Random, count: int) -> pa.Table:
    rows = [
        {
            "id": id,
            "day": chance.choice(["a", "b", "it's", None]),
            "v": chance.choice([None, 0.5, -1.5, 100.25]),
            "s": chance.choice([None, {"n": None, "at": None}, {"n": id, "at": 1_700_000_000_000_000 + id}]),
        }
        for id in chance.sample(range(30), count)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def command(chance: random.Random, spark: SparkSession, uri: str, twin: txlog.Table, delta: str) -> str:
    """One command, done by Spark's tasks, by one process, and by Spark's Delta."""
    where = chance.choice(["v > 0", "day = 'a' or day is null", "not (id < 10)", "s.n between 3 and 12", "id % 7 = 1"])
    kind = chance.choice(["delete", "update", "upsert", "merge"])
    rows = random_rows(chance, chance.randrange(1, 8))
    frame = spark.createDataFrame(rows)
    frame.createOrReplaceTempView("rows")
    if kind == "delete":
        ours, other = txlog.spark.delete(spark, uri, where), twin.delete(where)
        spark.sql(f"delete from {delta} where {where}")
    elif kind == "update":
        values = {"v": txlog.col("v") * 2 + txlog.col("id"), "day": txlog.expr("concat(day, 'x')")}
        ours, other = txlog.spark.update(spark, uri, values, where), twin.update(values, where)
        spark.sql(f"update {delta} set v = v * 2 + id, day = concat(day, 'x') where {where}")
    elif kind == "upsert":
        ours, other = txlog.spark.upsert(spark, uri, frame, ["id"]), twin.upsert(rows, ["id"])
        spark.sql(
            f"merge into {delta} t using rows s on t.id = s.id when matched then update set *"
            " when not matched then insert *"
        )
    else:
        ours, other = (
            begun.when_matched_delete("s.v is null")
            .when_matched_update({"v": txlog.expr("t.v + s.v")}, "s.v > 0")
            .when_not_matched_insert({"id": txlog.expr("s.id"), "v": txlog.expr("1.5")})
            .when_not_matched_by_source_update({"day": txlog.expr("'old'")}, "t.v < 0")
            .execute()
            for begun in (
                txlog.spark.merge(spark, uri, frame, "t.id = s.id", source_alias="s", target_alias="t"),
                twin.merge(rows, "t.id = s.id", source_alias="s", target_alias="t"),
            )
        )
        spark.sql(
            f"merge into {delta} t using rows s on t.id = s.id when matched and s.v is null then delete"
            " when matched and s.v > 0 then update set v = t.v + s.v"
            " when not matched then insert (id, v) values (s.id, 1.5)"
            " when not matched by source and t.v < 0 then update set day = 'old'"
        )
    said = f"{kind} {where}"
    for name in ("rows_inserted", "rows_updated", "rows_deleted"):
        assert getattr(ours.metrics, name) == getattr(other.metrics, name), said
    return said


def as_rows(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr((row["id"], row["day"], row["v"], row["s"] and row["s"]["n"])) for row in rows)


def own_rows(uri: str | Path) -> list[str]:
    return as_rows(txlog.Table.open(str(uri)).snapshot().to_arrow().to_pylist())


def feed_of(changes: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What happened to which row. Versions without a change, which engines count differently, leave no trace."""
    return sorted((row["_change_type"], as_rows([row])[0]) for row in changes)


def row_ids(read_delta: ReadDelta, uri: str) -> dict[int, int]:
    """The id of each row by its key, as Spark's Delta reads it."""
    found = read_delta(uri).select("id", "_metadata.row_id").collect()
    assert len({row.row_id for row in found}) == len(found)
    return {row.id: row.row_id for row in found}


@pytest.mark.parametrize(
    "source_size", [pytest.param("small", marks=pytest.mark.hunt(part="spark")), "large"], indirect=True
)
def test_a_preview_counts_in_sparks_tasks_what_the_change_then_does_and_writes_nothing(
    spark: SparkSession, tmp_path: Path, source_size: str
) -> None:
    rows = random_rows(random.Random(5), 24)
    uri = str(tmp_path / "t")
    txlog.write(uri, rows.slice(0, 18), partition_by="day")
    source = spark.createDataFrame(rows.slice(12))
    changes: dict[str, Callable[..., txlog.WriteResult]] = {
        "upsert": lambda **how: txlog.spark.upsert(spark, uri, source, ["id"], **how),
        "merge": lambda **how: (
            txlog.spark.merge(spark, uri, source, "target.id = source.id + 1", **how)
            .when_matched_delete("source.v is null")
            .when_matched_update({"v": txlog.expr("target.v + 1")})
            .when_not_matched_insert_all("source.v > 0")
            .execute()
        ),
        "update": lambda **how: txlog.spark.update(spark, uri, {"v": 1.0}, "id % 3 = 0", **how),
        "delete": lambda **how: txlog.spark.delete(spark, uri, "id % 2 = 0", **how),
    }
    counts = ("rows_inserted", "rows_updated", "rows_deleted", "rows_copied", "files_removed", "vectors")
    for name, change in changes.items():
        files = sorted((tmp_path / "t").rglob("*.parquet"))
        would = change(dry_run=True)
        assert would.outcome == "dry_run", name
        assert sorted((tmp_path / "t").rglob("*.parquet")) == files, name
        done = change()
        expected = {each: getattr(done.metrics, each) for each in counts}
        assert {each: getattr(would.metrics, each) for each in counts} == expected, name
        assert sum(expected.values()), name


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize(
    "properties",
    [
        pytest.param(VECTORS, id="vectors"),
        pytest.param({**MAPPED, **KEPT}, id="mapped kept"),
        pytest.param(KEPT, id="copies kept"),
    ],
)
def test_random_commands_leave_the_rows_that_one_process_and_sparks_own_delta_leave(
    tmp_path: Path, delta: SparkSession, read_delta: ReadDelta, properties: dict[str, str], monkeypatch: Any
) -> None:
    chance = random.Random(len(properties))
    tables = [txlog.Table.create(str(tmp_path / n), SCHEMA, ["day"], properties) for n in ("ours", "twin", "delta")]
    first = random_rows(chance, 20)
    for table in tables:
        table.append(first.slice(0, 10))
        table.append(first.slice(10))
    uri, twin, theirs = tables[0].uri, tables[1], tmp_path / "delta"
    for number in range(3):
        monkeypatch.setattr(spark_source, "SMALL_BYTES", chance.choice([-1, 4 << 20]))
        before = row_ids(read_delta, uri) if KEPT.items() <= properties.items() else {}
        said = command(chance, delta, uri, twin, f"delta.`{theirs}`")
        assert own_rows(uri) == own_rows(twin.uri) == own_rows(theirs), f"command {number}: {said}"
        if before:
            after = row_ids(read_delta, uri)
            kept = before.keys() & after.keys()
            assert {key: after[key] for key in kept} == {key: before[key] for key in kept}, said
    assert as_rows([row.asDict(recursive=True) for row in read_delta(uri).collect()]) == own_rows(uri)
    assert_sound(uri)
    ours, other = ([e for e in each.history() if e["operation"] != "CREATE TABLE"] for each in tables[:2])
    assert [(e["operation"], e.get("operationParameters")) for e in ours] == [
        (e["operation"], e.get("operationParameters")) for e in other
    ]
    if KEPT.items() <= properties.items():
        reported = [
            read_delta(each.uri, readChangeFeed="true", startingVersion=1).toArrow().to_pylist() for each in tables
        ]
        assert feed_of(reported[0]) == feed_of(reported[1]) == feed_of(reported[2])
        names = ["_commit_version", "_change_type", "id"]
        own = tables[0].changes(1).read_all().select(names).to_pylist()
        assert sorted(map(str, own)) == sorted(str({name: row[name] for name in names}) for row in reported[0])


@pytest.mark.hunt(part="spark")
def test_decimals_of_different_scales_join_as_in_sparks_delta(
    tmp_path: Path, delta: SparkSession, source_size: str
) -> None:
    """A value that the table's column cannot hold equals no row, and is not rounded to one."""
    tables = [txlog.Table.create(str(tmp_path / name), "d decimal(10,2), v int") for name in ("ours", "twin", "delta")]
    values = [Decimal("1.50"), Decimal("2.00"), None]
    for table in tables:
        table.append(pa.table({"d": pa.array(values, pa.decimal128(10, 2)), "v": pa.array([0] * 3, pa.int32())}))
    given = [Decimal("1.5"), Decimal("1.5001"), Decimal("2.004"), Decimal("123456789012.5"), None]
    rows = pa.table({"k": pa.array(given, pa.decimal128(20, 4)), "w": pa.array(range(1, 6), pa.int32())})
    frame = delta.createDataFrame(rows)
    frame.createOrReplaceTempView("rows")
    for begun in (
        txlog.spark.merge(delta, tables[0].uri, frame, "target.d = source.k"),
        tables[1].merge(rows, "target.d = source.k"),
    ):
        begun.when_matched_update({"v": txlog.expr("source.w")}).when_not_matched_insert(
            {"v": txlog.expr("-source.w")}
        ).execute()
    delta.sql(
        f"merge into delta.`{tables[2].uri}` t using rows s on t.d = s.k when matched then update set v = s.w"
        " when not matched then insert (v) values (-s.w)"
    )
    found = [
        sorted(map(repr, txlog.Table.open(table.uri).snapshot().to_arrow(["d", "v"]).to_pylist())) for table in tables
    ]
    assert found[0] == found[1] == found[2]
    assert repr({"d": Decimal("1.50"), "v": 1}) in found[0]


def test_an_empty_partition_value_is_refused_as_a_key(table: txlog.Table, spark: SparkSession) -> None:
    """Delta stores it as null."""
    rows = spark.createDataFrame([(1, "", 7)], "id long, day string, v int")
    with pytest.raises(txlog.InvalidInputError, match=r"key \(id, day\) of 1 rows"):
        txlog.spark.upsert(spark, table.uri, rows, ["id", "day"])
    assert table.version == 1


@pytest.mark.hunt(part="spark")
def test_a_table_and_a_source_of_a_million_rows_are_changed_without_their_rows_on_the_driver(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What tasks may return in all is 8 MB (spark.driver.maxResultSize); 300,000 rows of the source have 20 MB."""
    assert spark.conf.get("spark.driver.maxResultSize") == "8m"
    uri = str(tmp_path)
    table = txlog.Table.create(uri, "id bigint, v string", (), VECTORS)
    for first in range(0, 1_200_000, 300_000):
        ids = range(first, first + 300_000)
        table.append(pa.table({"id": ids, "v": ["x" * 40] * 300_000}))
    rows = spark.range(0, 600_000, 2, 2).selectExpr("id * 5 as id", "concat(repeat('y', 60), id) as v")
    result = txlog.spark.upsert(spark, uri, rows, ["id"])
    assert (result.metrics.rows_updated, result.metrics.rows_inserted) == (120_000, 180_000)
    result = txlog.spark.update(spark, uri, {"v": txlog.expr("'z'")}, "id % 3 = 1")
    changed = sum(id % 3 == 1 for id in range(1_200_000)) + sum(id % 3 == 1 for id in range(1_200_000, 3_000_000, 10))
    assert result.metrics.rows_updated == changed
    result = txlog.spark.delete(spark, uri, "id % 2 = 0")
    assert result.metrics.rows_deleted == 600_000 + 180_000
    found = txlog.Table.open(uri).snapshot().to_arrow()
    assert found.num_rows == 600_000
    assert set(found["v"].to_pylist()) == {"z", "x" * 40}


@pytest.mark.parametrize(
    "source_size", [pytest.param("small", marks=pytest.mark.hunt(part="spark")), "large"], indirect=True
)
def test_writers_of_the_same_keys_all_succeed_and_leave_the_serial_replay_of_the_log(
    tmp_path: Path, spark: SparkSession, source_size: str
) -> None:
    uri = str(tmp_path)
    table = txlog.Table.create(uri, "id bigint, v bigint", (), VECTORS)
    table.append(pa.table({"id": range(200), "v": [-1] * 200}))
    given: dict[str, dict[int, int]] = {}
    done = threading.Event()

    def upsert(worker: int) -> None:
        for number in range(2):
            rows = dict.fromkeys(range(worker * 3, 300, worker + 2), worker * 10 + number)
            given[f"{worker}.{number}"] = rows
            frame = spark.createDataFrame(list(rows.items()), "id long, v long")
            txlog.spark.upsert(spark, uri, frame, ["id"], user_metadata=f"{worker}.{number}")

    def append() -> None:
        own = txlog.Table.open(uri)
        for number in range(1000):
            if done.is_set():
                return
            given[f"append {number}"] = {1000 + number: number}
            own.append(pa.table({"id": [1000 + number], "v": [number]}), user_metadata=f"append {number}")
            done.wait(0.2)

    with ThreadPoolExecutor(3, initializer=txlog.spark.register, initargs=(spark,)) as pool:
        appending = pool.submit(append)
        try:
            list(pool.map(upsert, range(2)))
        finally:
            done.set()
        appending.result()
    expected = dict.fromkeys(range(200), -1)
    landed = [commit["userMetadata"] for commit in reversed(table.history()) if commit.get("userMetadata")]
    for said in landed:
        expected |= given[said]
    assert len(landed) == len(set(landed)) == len(given)
    found = table.snapshot().to_arrow()
    assert found.num_rows == len(expected)
    assert dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True)) == expected
    assert_sound(uri)


@pytest.mark.hunt(part="spark")
def test_a_merge_of_sparks_own_delta_loses_to_a_change_that_landed_while_it_ran(
    tmp_path: Path, delta: SparkSession, read_delta: ReadDelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where ours matched nothing: an upsert that only inserts is no blind append."""
    uri = str(tmp_path)
    table = txlog.Table.create(uri, "id bigint, v bigint", (), VECTORS)
    table.append(pa.table({"id": range(10), "v": [0] * 10}))
    frame = delta.createDataFrame([(50, 1)], "id long, v long")
    frame.createOrReplaceTempView("rows")
    began, landed = tmp_path / "began", tmp_path / "landed"

    def wait(id: int) -> int:
        began.touch()
        for _ in range(600):
            if landed.exists():
                break
            time.sleep(0.05)
        return id

    delta.udf.register("wait_for_the_other", wait, "long")
    with ThreadPoolExecutor(1) as pool:
        merging = pool.submit(
            lambda: delta.sql(
                f"merge into delta.`{uri}` t using (select wait_for_the_other(id) as id, v from rows) s on t.id = s.id"
                " when matched then update set * when not matched then insert *"
            ).collect()
        )
        while not began.exists() and not merging.done():
            time.sleep(0.05)
        result = table.upsert(pa.table({"id": [50], "v": [2]}), ["id"])
        landed.touch()
        with pytest.raises(Exception, match=r"DELTA_CONCURRENT_APPEND|ConcurrentAppend"):
            merging.result(120)
    reported = table.history(1)[0]
    assert (reported["isBlindAppend"], reported["readVersion"]) == (False, result.version - 1)
    assert [row.v for row in read_delta(uri).where("id = 50").collect()] == [2]


# --- arguments and errors -------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    created = txlog.Table.create(str(tmp_path / "t"), "id bigint not null, day string, v int", ["day"])
    created.append(pa.table({"id": range(6), "day": ["a", "b"] * 3, "v": pa.array([1] * 6, pa.int32())}))
    return created


@pytest.mark.hunt(part="spark")
def test_errors_of_tasks_are_txlogs_own(
    table: txlog.Table, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = table.uri
    good = spark.createDataFrame([(1, "a", 7)], "id long, day string, v int")
    with pytest.raises(
        txlog.InvalidInputError, match=r"several rows of the source have the same key \(1 such key\), for example id=1"
    ):
        txlog.spark.upsert(spark, uri, good.union(good), ["id"])
    with pytest.raises(txlog.InvalidInputError, match=r"key \(day\) of 1 rows"):
        txlog.spark.upsert(spark, uri, spark.createDataFrame([(1, None, 7)], good.schema), ["day"])
    with pytest.raises(txlog.SchemaMismatchError, match="the source lacks v"):
        txlog.spark.upsert(spark, uri, good.drop("v"), ["id"])
    with pytest.raises(txlog.SchemaMismatchError, match="day"):
        txlog.spark.upsert(spark, uri, good.selectExpr("id", "1.5 as day", "v"), ["id"])
    with pytest.raises(txlog.InvalidInputError, match="column v has 3000000000"):
        txlog.spark.upsert(spark, uri, good.selectExpr("id", "day", "3000000000 as v"), ["id"])
    with pytest.raises(txlog.InvalidInputError, match="id"):
        txlog.spark.update(spark, uri, {"id": None}, "v = 1")
    monkeypatch.setattr(spark_source, "SMALL_BYTES", -1)
    merge = txlog.spark.merge(spark, uri, good.union(good), ["id"]).when_matched_update_all()
    with pytest.raises(txlog.InvalidInputError, match="two source rows match the same row of the table, by id=1"):
        merge.when_not_matched_insert_all().execute()
    with pytest.raises(txlog.InvalidInputError, match="there is no column"):
        txlog.spark.delete(spark, uri, "nothing = 1")
    assert table.version == 1
    named = {path.name for path in Path(uri).rglob("*.parquet")}
    assert named == {Path(path).name for path in table.snapshot().files()["path"].to_pylist()}


def test_the_last_of_several_rows_counts_and_a_replay_changes_nothing(
    table: txlog.Table, spark: SparkSession, source_size: str
) -> None:
    rows = spark.createDataFrame([(1, "c", 5), (1, "d", 9), (1, "e", 2), (70, "e", 2)], "id long, day string, v int")
    once = {"app_id": "job", "checkpoint_id": 3, "user_metadata": "nightly"}
    how = {"on_duplicate": "last", "sequence_by": "V"}
    result = txlog.spark.upsert(spark, table.uri, rows, ["id"], **how, **once)
    assert (result.metrics.rows_inserted, result.metrics.rows_updated) == (1, 1)
    assert [(r["day"], r["v"]) for r in table.snapshot().to_arrow(where="id = 1").to_pylist()] == [("d", 9)]
    reported = table.history(1)[0]
    assert (reported["operation"], reported["userMetadata"], reported["operationMetrics"]["numSourceRows"]) == (
        "MERGE",
        "nightly",
        "4",
    )
    again = txlog.spark.upsert(spark, table.uri, rows, ["id"], **how, **once)
    assert (again.outcome, table.version) == ("already_committed", result.version)
    with pytest.raises(txlog.InvalidInputError, match="needs sequence_by"):
        txlog.spark.upsert(spark, table.uri, rows, ["id"], on_duplicate="last")


@pytest.mark.hunt(part="spark")
def test_a_source_with_some_columns_keeps_and_inserts_the_others(
    tmp_path: Path, spark: SparkSession, read_delta: ReadDelta, source_size: str
) -> None:
    columns = "id bigint, day string DEFAULT 'some day', v int, note string"
    table = txlog.Table.create(str(tmp_path / "t"), columns, properties={"delta.enableChangeDataFeed": "true"})
    table.append(pa.table({"id": [1, 2], "day": ["a", "b"], "v": [1, 2], "note": ["x", "y"]}))
    rows = spark.createDataFrame([(10, 1), (30, 3)], "V int, ID bigint")
    with pytest.raises(txlog.SchemaMismatchError, match="lacks day, note"):
        txlog.spark.upsert(spark, table.uri, rows, ["id"])
    result = txlog.spark.upsert(spark, table.uri, rows, ["id"], missing_columns="default")
    assert (result.metrics.rows_inserted, result.metrics.rows_updated) == (1, 1)
    expected = [(1, "a", 10, "x"), (2, "b", 2, "y"), (3, "some day", 30, None)]
    assert sorted(map(tuple, read_delta(table.uri).collect())) == expected
    only_keys = spark.createDataFrame([(1,), (4,)], "id bigint")
    txlog.spark.upsert(spark, table.uri, only_keys, ["id"], missing_columns="default")
    assert sorted(map(tuple, read_delta(table.uri).collect())) == [*expected, (4, "some day", None, None)]


def test_the_source_is_computed_once(table: txlog.Table, spark: SparkSession, source_size: str) -> None:
    rows = spark.range(100, 103).selectExpr("id + cast(rand() * 1000000 as long) * 1000 as id", "'a' as day", "1 as v")
    seen = spark.sparkContext.accumulator(0)

    def count(batches: Any) -> Any:
        for batch in batches:
            seen.add(batch.num_rows)
            yield batch

    txlog.spark.upsert(spark, table.uri, rows.mapInArrow(count, rows.schema), ["id"], when_matched="ignore")
    assert seen.value == 3
    assert table.snapshot().num_files == 4
    assert table.snapshot().to_arrow(columns=[]).num_rows == 9


def test_after_a_lost_race_to_an_append_spark_is_not_asked_again(
    table: txlog.Table, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[int] = []
    run = SparkWorkers.map

    def losing(self: SparkWorkers, work: Any, items: Any) -> Any:
        jobs.append(len(items))
        yield from run(self, work, items)
        table.append(pa.table({"id": [1], "day": ["b"], "v": pa.array([5], pa.int32())}))

    monkeypatch.setattr(SparkWorkers, "map", losing)
    result = txlog.spark.delete(spark, table.uri, "id = 1")
    assert (len(jobs), result.metrics.reexecutions, result.metrics.rows_deleted) == (1, 1, 2)
    assert 1 not in table.snapshot().to_arrow()["id"].to_pylist()


def test_a_source_that_reads_the_table_itself_needs_the_version_that_it_read(
    table: txlog.Table, delta: SparkSession
) -> None:
    sources = {
        "txlog": txlog.spark.read(delta, table.uri, version=1),
        "delta": delta.read.format("delta").load(table.uri),
    }
    for source in sources.values():
        more = source.selectExpr("id", "day", "v + 1 as v")
        with pytest.raises(txlog.InvalidInputError, match=r"version=1\), and pass it as read_version"):
            txlog.spark.upsert(delta, table.uri, more, ["id"])
        with pytest.raises(txlog.InvalidInputError, match="reads the table itself"):
            txlog.spark.merge(delta, table.uri, more, ["id"]).when_matched_update_all().execute()
    assert table.version == 1
    txlog.spark.upsert(delta, table.uri, more, ["id"], read_version=1)
    assert table.to_arrow()["v"].to_pylist() == [2] * 6
    other = txlog.Table.create(f"{table.uri}-2", table.schema)
    txlog.spark.upsert(delta, other.uri, more, ["id"])
    assert other.count() == 6


def test_a_source_that_python_workers_read_from_the_table_needs_the_version_that_it_read(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Spark names no files of it: a path that Spark would misread, a condition that it lacks, columns by their ids."""
    for name, where, mode in (("a b", None, "none"), ("t", "id + v = 2", "none"), ("u", None, "id")):
        rows = pa.table({"id": [1], "v": [1]})
        txlog.write(tmp_path / name, rows, properties={"delta.columnMapping.mode": mode})
        more = txlog.spark.read(spark, tmp_path / name, where=where).selectExpr("id", "v + 1 as v")
        with pytest.raises(txlog.InvalidInputError, match="reads the table itself"):
            txlog.spark.upsert(spark, tmp_path / name, more.union(more.where("id > 1")), ["id"])
    shutil.copytree(tmp_path / "u", tmp_path / "v")
    txlog.spark.upsert(spark, tmp_path / "v", more, ["id"])
    txlog.spark.upsert(spark, tmp_path / "u", more, ["id"], read_version=0)
    for name in ("u", "v"):
        assert txlog.Table.open(tmp_path / name).to_arrow()["v"].to_pylist() == [2]


def test_columns_of_a_source_may_have_any_name(tmp_path: Path, spark: SparkSession) -> None:
    names = ["a.b", "c`d", "number", "__txlog_number", "Größe x"]
    rows = [[1, 5, *names], [1, 7, *reversed(names)], [2, 3, *names]]
    frame = spark.createDataFrame(rows, StructType([StructField(each, LongType()) for each in ("k.`1", "s`.2")] + [
        StructField(each, StringType()) for each in names
    ]))  # fmt: skip
    expected = [dict(zip(frame.columns, row, strict=True)) for row in rows[1:]]
    schema = pa.schema([("k.`1", pa.int64()), ("s`.2", pa.int64()), *((each, pa.string()) for each in names)])
    table = txlog.Table.create(tmp_path / "t", schema, properties=MAPPED)
    result = txlog.spark.upsert(spark, table.uri, frame, ["k.`1"], on_duplicate="last", sequence_by="s`.2")
    assert (result.metrics.rows_inserted, table.to_arrow().sort_by("k.`1").to_pylist()) == (2, expected)
    merge = txlog.spark.merge(spark, table.uri, frame.where("`s``.2` = 3"), "target.`k.``1` = source.`k.``1`")
    assert merge.when_matched_update({"a.b": txlog.expr("source.`c``d`")}).execute().metrics.rows_updated == 1
    assert table.to_arrow(where="`s``.2` = 3")["a.b"].to_pylist() == ["c`d"]


def test_keys_beyond_what_python_holds_are_keys(tmp_path: Path, spark: SparkSession) -> None:
    table = txlog.Table.create(tmp_path / "t", "k date, b binary, v bigint")
    late = "select date'+12000-01-01' as k, X'ff' as b, 5L as v"
    for _ in range(2):
        result = txlog.spark.upsert(spark, table.uri, spark.sql(late), ["k", "b"])
    assert (result.metrics.rows_updated, table.count("k > date'9999-12-31'")) == (1, 1)
    with pytest.raises(txlog.InvalidInputError, match=r"1 such key\), for example k=\+12000-01-01, b=FF"):
        txlog.spark.upsert(spark, table.uri, spark.sql(f"{late} union all {late}"), ["k", "b"])


def test_the_error_for_a_wrong_call_says_what_to_write(table: txlog.Table, spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, "a", 7)], "id long, day string, v int")
    with pytest.raises(txlog.InvalidInputError, match="it is called 'where' here"):
        txlog.spark.delete(spark, table.uri, predicate="id = 1")
    with pytest.raises(txlog.InvalidInputError, match="must be a Spark DataFrame"):
        txlog.spark.upsert(spark, table.uri, pa.table({"id": [1]}), ["id"])
    with pytest.raises(txlog.InvalidInputError, match=r"Invalid first argument .*: expected the SparkSession"):
        txlog.spark.upsert(table.uri, rows, ["id"], "v")
    with pytest.raises(txlog.InvalidInputError, match="a merge without a clause"):
        txlog.spark.merge(spark, table.uri, rows, ["id"]).execute()
    with pytest.raises(txlog.TableNotFoundError):
        txlog.spark.delete(spark, table.uri + "-other", "id = 1")


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize("closure_bytes", [1 << 20, 0], ids=["few items", "many items"])
def test_workers_of_a_session_return_every_result_with_its_place_and_raise_the_error_of_a_task(
    spark: SparkSession, closure_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_workers, "CLOSURE_BYTES", closure_bytes)

    def work(item: int) -> int:
        if item < 0:
            raise txlog.NotFoundError("a file is gone", path=f"{item}.parquet")
        return 2 * item

    workers = SparkWorkers(spark)
    assert sorted(workers.map(work, [5, 3, 8])) == [(0, 10), (1, 6), (2, 16)]
    assert sorted(workers.map(len, [b"x" * size for size in range(50)])) == [(size, size) for size in range(50)]
    assert list(workers.map(work, [])) == []
    with pytest.raises(txlog.NotFoundError, match="a file is gone") as raised:
        list(workers.map(work, [1, -1]))
    assert raised.value.path == "-1.parquet"
