"""Row changes against other engines: they read correctly what we delete, update and merge, and we continue from what
they do.

A random history of commands goes through txlog and through Spark's own Delta, on two tables that begin alike; after
each command both hold the same rows, by both readers. Fixed seeds; with vectors and by copies.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from rows import read_by_deltalake

import txlog
from txlog.audit.verify import verify_table

STRUCT = pa.struct([("n", pa.int32())])
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("v", pa.float64()), ("s", STRUCT)])
VECTORS = {"delta.enableDeletionVectors": "true"}
MAPPED = {"delta.columnMapping.mode": "name", **VECTORS}
ReadDelta = Callable[..., DataFrame]


def random_rows(chance: random.Random, count: int) -> pa.Table:
    ids = chance.sample(range(30), count)
    rows = [
        {
            "id": id,
            "day": chance.choice(["a", "b", "it's", None]),
            "v": chance.choice([None, 0.5, -1.5, 100.25]),
            "s": chance.choice([None, {"n": None}, {"n": id}]),
        }
        for id in ids
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def command(chance: random.Random, table: txlog.Table, delta: SparkSession, theirs: Path) -> str:
    """One command, done by both."""
    where = chance.choice(["v > 0", "day = 'a' or day is null", "not (id < 10)", "s.n between 3 and 12", "id % 7 = 1"])
    kind = chance.choice(["delete", "update", "upsert", "merge", "append", "optimize", "purge"])
    target = f"delta.`{theirs}`"
    rows = random_rows(chance, chance.randrange(1, 8))
    staged = theirs.parent / f"rows-{chance.random()}.parquet"
    pq.write_table(rows, staged)
    frame = delta.read.parquet(str(staged))
    frame.createOrReplaceTempView("rows")
    if kind == "optimize":
        table.optimize()
        delta.sql(f"optimize {target}")
    elif kind == "purge":
        table.purge()
        delta.sql(f"reorg table {target} apply (purge)")
    elif kind == "delete":
        table.delete(where)
        delta.sql(f"delete from {target} where {where}")
    elif kind == "update":
        table.update({"v": txlog.expr("v * 2 + id"), "day": txlog.expr("concat(day, 'x')")}, where)
        delta.sql(f"update {target} set v = v * 2 + id, day = concat(day, 'x') where {where}")
    elif kind == "upsert":
        table.upsert(rows, ["id"])
        delta.sql(
            f"merge into {target} t using rows s on t.id = s.id when matched then update set *"
            " when not matched then insert *"
        )
    elif kind == "merge":
        begun = table.merge(rows, "t.id = s.id", source_alias="s", target_alias="t").when_matched_delete("s.v is null")
        begun = begun.when_matched_update({"v": txlog.expr("t.v + s.v")}, "s.v > 0")
        begun = begun.when_not_matched_insert({"id": txlog.expr("s.id"), "v": txlog.expr("1.5")})
        begun.when_not_matched_by_source_update({"day": txlog.expr("'old'")}, "t.v < 0").execute()
        delta.sql(
            f"merge into {target} t using rows s on t.id = s.id when matched and s.v is null then delete"
            " when matched and s.v > 0 then update set v = t.v + s.v"
            " when not matched then insert (id, v) values (s.id, 1.5)"
            " when not matched by source and t.v < 0 then update set day = 'old'"
        )
    else:
        fresh = rows.set_column(0, "id", pa.array([id + 1000 for id in rows["id"].to_pylist()], pa.int64()))
        table.append(fresh)
        frame.selectExpr("id + 1000 as id", "day", "v", "s").write.format("delta").mode("append").save(str(theirs))
    return f"{kind} {where}"


def as_rows(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr((row["id"], row["day"], row["v"], row["s"] and row["s"]["n"])) for row in rows)


@pytest.mark.hunt(part="spark")  # test_spark_rows compares the same commands with those in Spark's tasks, too
@pytest.mark.parametrize("properties", [{}, MAPPED], ids=["copies", "vectors, mapped"])
def test_random_commands_leave_the_rows_that_sparks_own_delta_leaves(
    tmp_path: Path, delta: SparkSession, read_delta: ReadDelta, properties: dict[str, str]
) -> None:
    chance = random.Random(15)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    table = txlog.Table.create(str(ours), SCHEMA, ["day"], properties)
    other = txlog.Table.create(str(theirs), SCHEMA, ["day"], properties)
    first = random_rows(chance, 20)
    table.append(first)
    other.append(first)
    for number in range(8):
        reported = command(chance, table, delta, theirs)
        found = as_rows(table.snapshot().to_arrow().to_pylist())
        expected = as_rows([row.asDict(recursive=True) for row in read_delta(theirs).collect()])
        assert found == expected, f"command {number}: {reported}"
        assert as_rows([row.asDict(recursive=True) for row in read_delta(ours).collect()]) == expected, reported
        assert as_rows(txlog.Table.open(str(theirs)).snapshot().to_arrow().to_pylist()) == expected, reported
    assert verify_table(table._open_table.store).is_sound


def test_spark_deletes_merges_and_optimizes_a_table_that_we_change_in_turns(
    tmp_path: Path, delta: SparkSession, read_delta: ReadDelta
) -> None:
    uri = tmp_path / "t"
    table = txlog.Table.create(str(uri), pa.schema([("id", pa.int64()), ("v", pa.int64())]), (), VECTORS)
    table.append(pa.table({"id": range(100), "v": [0] * 100}))
    table.delete("id in (1, 2, 3)")
    delta.sql(f"delete from delta.`{uri}` where id in (3, 4, 50)")
    table.upsert(pa.table({"id": [4, 5, 200], "v": [1, 1, 1]}), ["id"])
    delta.sql(f"update delta.`{uri}` set v = 7 where id between 5 and 9")
    table.update({"v": txlog.expr("v + 1")}, "v = 7")
    delta.sql(f"optimize delta.`{uri}`")
    table.delete("id >= 90 and id < 200")
    delta.sql(f"reorg table delta.`{uri}` apply (purge)")
    table.upsert(pa.table({"id": [6], "v": [99]}), ["id"])
    expected = {id: 0 for id in range(90) if id not in (1, 2, 3, 50)} | {4: 1, 200: 1}
    expected |= {5: 8, 7: 8, 8: 8, 9: 8, 6: 99}
    found = table.snapshot().to_arrow()
    assert dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True)) == expected
    assert {row.id: row.v for row in read_delta(uri).collect()} == expected
    assert verify_table(table._open_table.store).is_sound
    history = delta.sql(f"describe history delta.`{uri}`").collect()
    assert {row.operation for row in history} >= {"DELETE", "UPDATE", "MERGE", "OPTIMIZE"}


@pytest.mark.hunt(part="spark")
def test_history_describes_a_compaction_and_a_purge_as_sparks_own_do(tmp_path: Path, delta: SparkSession) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for path in (ours, theirs):
        table = txlog.Table.create(str(path), SCHEMA, ["day"], VECTORS)
        for seed in range(3):
            table.append(random_rows(random.Random(seed), 20))
    mine = txlog.Table.open(str(ours))
    mine.optimize()
    mine.delete("id < 5")
    mine.purge()
    delta.sql(f"optimize delta.`{theirs}`")
    delta.sql(f"delete from delta.`{theirs}` where id < 5")
    delta.sql(f"reorg table delta.`{theirs}` apply (purge)")
    found, expected = (
        {
            row.operation: (row.operationParameters, set(row.operationMetrics), row.isolationLevel, row.isBlindAppend)
            for row in delta.sql(f"describe history delta.`{path}`").collect()
            if row.operation in ("OPTIMIZE", "REORG")
        }
        for path in (ours, theirs)
    )
    assert found == expected
    assert set(found) == {"OPTIMIZE", "REORG"}


@pytest.mark.parametrize("properties", [VECTORS, {}], ids=["vectors", "copies"])
def test_deltalake_and_polars_read_what_we_changed_and_deltalake_changes_it_further(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
    table = txlog.Table.create(str(tmp_path), schema, ["day"], properties)
    table.append(pa.table({"id": range(50), "day": ["a", "b"] * 25}))
    table.delete("id < 10 and id != 4")
    table.upsert(pa.table({"id": [4, 20, 77], "day": ["c", "b", "c"]}), ["id"])
    table.update({"day": txlog.expr("'z'")}, "id > 40")
    if not properties:  # deltalake refuses to write where vectors are on
        deltalake.DeltaTable(str(tmp_path)).delete("id = 11")
        table.upsert(pa.table({"id": [12], "day": ["d"]}), ["id"])
    expected = sorted(table.snapshot().to_arrow().to_pylist(), key=repr)
    assert len(expected) == 42 - (not properties)
    by_deltalake = read_by_deltalake(deltalake.DeltaTable(str(tmp_path)), "id", "day").to_pylist()
    by_polars = polars.read_delta(str(tmp_path)).select("id", "day").to_dicts()
    assert sorted(by_deltalake, key=repr) == sorted(by_polars, key=repr) == expected


@pytest.mark.hunt(part="spark")
def test_no_reader_sees_tombstones_and_sparks_compaction_drops_them(delta: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    kept = {
        **VECTORS,
        "txlog.merge-engine": "deduplicate",
        "txlog.sequence.field": "seq",
        "txlog.tombstone-retention": "interval 7 days",
    }
    table = txlog.Table.create(path, "id bigint, seq bigint, name string not null", properties=kept)

    def upsert(kind: str, id: int, seq: int) -> None:
        rows = pa.table({"op": [kind], "id": [id], "seq": [seq], "name": [f"{id}.{seq}"]})
        table.upsert(rows, keys=["id"], row_kind="op")

    for id in range(3):
        upsert("+I", id, 10)
    upsert("-D", 0, 20)
    upsert("-D", 7, 20)
    upsert("+U", 0, 15)
    for _ in range(2):
        found = delta.read.format("delta").load(str(path))
        assert sorted(row["id"] for row in found.collect()) == [1, 2]
        assert (found.count(), found.where("seq >= 20").count()) == (2, 0)
        assert found.selectExpr("max(seq)").collect()[0][0] == 10
        assert sorted(read_by_deltalake(deltalake.DeltaTable(path))["id"].to_pylist()) == [1, 2]
        assert sorted(polars.read_delta(str(path))["id"].to_list()) == [1, 2]
        table.optimize()
    delta.sql(f"delete from delta.`{path}` where id = 2")
    upsert("+U", 7, 15)
    delta.sql(f"optimize delta.`{path}`")
    upsert("+U", 0, 15)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1]
    assert verify_table(table._open_table.store).is_sound


def test_spark_and_polars_read_a_file_of_sparks_of_which_we_pass_on_most_as_it_is(
    tmp_path: Path, delta: SparkSession, read_delta: ReadDelta
) -> None:
    """Its pages have checksums and indexes, and statistics that Spark uses to skip row groups and pages."""
    uri = tmp_path / "t"
    columns = (  # nullable at each depth, as a table that Spark's Delta makes
        "id, if(id % 9 = 0, null, uuid()) s, cast(id as decimal(20, 3)) d, timestamp_seconds(id) t, id / 8D v,"
        " date_add(date'2000-01-01', cast(id % 900 as int)) day, if(id % 7 = 0, null, array(id, null)) a,"
        " if(id % 5 = 0, null, map(cast(id as string), id % 5)) m,"
        " if(id % 11 = 0, null, named_struct('x', id % 7, 'y', if(id % 13 = 0, null, array(id / 4D, null)))) n"
    )
    rows = delta.sql(f"select {columns} from (select nullif(id, -1) id from range(0, 60000, 1, 1))")
    delta.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    rows.write.option("parquet.block.size", str(1 << 20)).parquet(str(uri))
    delta.conf.unset("spark.sql.parquet.outputTimestampType")
    txlog.Table.convert(str(uri))
    table = txlog.Table.open(str(uri))
    (before,) = uri.glob("*.parquet")
    assert pq.read_metadata(before).num_row_groups > 2
    new = "if(id between 30000 and 30099, v * 2 + id, v) v"
    table.update({"v": txlog.expr("v * 2 + id"), "day": txlog.expr("date'1999-12-31'")}, "id between 30000 and 30099")
    table.delete("id = 59999 or id % 20000 = 1")
    (after,) = (uri / path for path in table.snapshot().files()["path"].to_pylist())
    assert pq.read_metadata(after).created_by.startswith("parquet-mr")
    is_left = "id <> 59999 and id % 20000 <> 1"
    expected = delta.sql(f"select id, s, d, t, a, n, {new} from delta.`{uri}` version as of 0 where {is_left}")
    found = read_delta(uri).select(expected.columns)
    assert found.exceptAll(expected).count() == 0
    assert found.count() == 59_996
    assert [row.id for row in read_delta(uri).where("id = 30050 and day = date'1999-12-31'").collect()] == [30050]
    assert read_delta(uri).where("v > 30000").count() == 100  # which row groups and pages of the old values lack
    assert polars.scan_delta(str(uri)).select("id", "s", "n").collect().height == 59_996
    assert verify_table(table._open_table.store).is_sound
