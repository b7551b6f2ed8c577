"""The change data feed against other engines: what Spark and deltalake read of a version is what we read of it.

Tables that others wrote, golden ones among them, and tables that we wrote.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import golden as golden_tables
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from rows import as_rows, in_schema

import txlog

FEED = {"delta.enableChangeDataFeed": "true"}
ReadDelta = Callable[..., DataFrame]

GOLDEN = [name for name in golden_tables.NAMES if name.startswith("cdf-")]
NOT_FOR_DELTALAKE = {
    "cdf-column-mapping-id-mode": "column mapping",
    "cdf-column-mapping-name-mode": "column mapping",
    "cdf-table-simple": "names with a percent sign",
    "cdf-table-update-ops": "names with a percent sign",
    "cdf-table-backtick-column-names": "names with a percent sign",
    "cdf-table-data-change": "names with a percent sign",
    "cdf-table-delete-conditional-all-rows": "names with a percent sign",
    "cdf-table-delete-conditional-two-rows": "names with a percent sign",
    "cdf-table-delete-unconditional": "names with a percent sign",
}
NOT_FOR_SPARK = {"cdf-table-with-dv": "its inline vectors are padded as Spark does not read them"}


def by_deltalake(path: str, first: int, last: int, schema: pa.Schema) -> pa.Table:
    """deltalake takes the time of a commit from its ``commitInfo``, Spark and we from the file or the in-commit one."""
    found = pa.table(deltalake.DeltaTable(path).load_cdf(first, last).read_all())
    return in_schema(found, without_time(schema))


def by_spark(read_delta: ReadDelta, path: str, first: int, last: int, schema: pa.Schema) -> pa.Table:
    found = read_delta(path, readChangeFeed="true", startingVersion=first, endingVersion=last).toArrow()
    return in_schema(found, schema)


def without_time(schema: pa.Schema) -> pa.Schema:
    return schema.remove(schema.get_field_index("_commit_timestamp"))


def first_with_feed(table: txlog.Table) -> int:
    """The first version from which the feed was on without a gap."""
    versions = range(table.version + 1)
    off = [v for v in versions if table.snapshot(v).properties.get("delta.enableChangeDataFeed") != "true"]
    return max(off, default=-1) + 1


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    folder = tmp_path_factory.mktemp("golden")

    def unpacked(name: str) -> str:
        root = golden_tables.unpack(name, folder)
        root = root / "delta" if (root / "delta").exists() else root
        # Spark reads no version that is older than it keeps removed files.
        started_s = time.time() - 3600
        for number, commit in enumerate(sorted((root / "_delta_log").glob("*.json"))):
            os.utime(commit, (started_s + number, started_s + number))
        return str(root)

    return unpacked


@golden_tables.needed
@pytest.mark.parametrize("name", [name for name in GOLDEN if name not in NOT_FOR_DELTALAKE])
def test_the_feed_of_golden_tables_is_what_deltalake_reads(golden: Callable[[str], str], name: str) -> None:
    table = txlog.Table.open(golden(name))
    for first in range(first_with_feed(table), table.version + 1):
        for last in range(first, table.version + 1):
            ours = table.changes(first, last).read_all()
            theirs = by_deltalake(table.uri, first, last, ours.schema)
            assert as_rows(ours.drop_columns(["_commit_timestamp"])) == as_rows(theirs), (first, last)


@pytest.mark.hunt(part="spark")
@golden_tables.needed
@pytest.mark.parametrize("name", [name for name in GOLDEN if name not in NOT_FOR_SPARK])
def test_the_feed_of_golden_tables_is_what_spark_reads(
    golden: Callable[[str], str], name: str, read_delta: ReadDelta
) -> None:
    table = txlog.Table.open(golden(name))
    first = first_with_feed(table)
    ours = table.changes(first).read_all()
    assert as_rows(ours) == as_rows(by_spark(read_delta, table.uri, first, table.version, ours.schema))


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize(("mapping", "vectors"), [("name", "true")])
def test_the_feed_of_a_table_that_spark_changed_is_what_spark_reads(
    delta: SparkSession, read_delta: ReadDelta, tmp_path: Path, vectors: str, mapping: str
) -> None:
    path = tmp_path / "t"
    target = f"delta.`{path}`"
    delta.sql(
        f"create table {target} (id bigint, day string, s struct<n: int>) using delta partitioned by (day)"
        f" tblproperties ('delta.enableChangeDataFeed'='true', 'delta.enableDeletionVectors'='{vectors}',"
        f" 'delta.columnMapping.mode'='{mapping}')"
    )
    delta.sql(
        f"insert into {target} select id, concat('d', id % 3), named_struct('n', int(id)) from range(0, 30, 1, 2)"
    )
    delta.sql(f"delete from {target} where id % 5 = 1")
    delta.sql(f"delete from {target} where id % 5 = 2 or day = 'd1'")
    delta.sql(f"update {target} set day = 'moved', s = named_struct('n', -1) where id % 4 = 0")
    delta.sql(
        f"merge into {target} t using (select id, 'new' as day, named_struct('n', 7) as s from range(20, 40)) s"
        " on t.id = s.id"
        " when matched and s.id % 2 = 0 then update set * when matched then delete when not matched then insert *"
    )
    delta.sql(f"optimize {target}")
    delta.sql(f"restore table {target} to version as of 2")
    delta.sql(f"alter table {target} add columns (note string)")
    delta.sql(f"insert into {target} values (99, 'd0', named_struct('n', 1), 'new')")
    table = txlog.Table.open(path)
    for first in (0, 2, 4, 7):
        ours = table.changes(first).read_all()
        assert as_rows(ours) == as_rows(by_spark(read_delta, str(path), first, table.version, ours.schema))


def test_the_feed_of_our_appends_and_overwrites_is_the_same_in_all_engines(
    read_delta: ReadDelta, tmp_path: Path
) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), "id bigint, day string", ["day"], FEED)
    table.append(pa.table({"id": [1, 2, 3], "day": ["a", "b", None]}))
    table.overwrite_partitions(pa.table({"id": [4], "day": ["a"]}))
    table.overwrite(pa.table({"id": [5], "day": ["c"]}))
    assert_told_alike(table, read_delta)


def _overwrite(table: txlog.Table) -> None:
    table.overwrite(pa.table({"id": [100], "day": ["a"]}))


def _overwrite_partitions(table: txlog.Table) -> None:
    table.overwrite_partitions(pa.table({"id": [100], "day": ["a"]}))


def _overwrite_in_a_transaction(table: txlog.Table) -> None:
    with table.transaction() as transaction:
        transaction.overwrite(pa.table({"id": [100], "day": ["a"]}))


def _overwrite_partitions_in_a_transaction(table: txlog.Table) -> None:
    with table.transaction() as transaction:
        transaction.overwrite_partitions(pa.table({"id": [100], "day": ["a"]}))


def _remove_partitions(table: txlog.Table) -> None:
    with table.transaction() as transaction:
        transaction.remove_partitions("day = 'a'")


def _remove_files(table: txlog.Table) -> None:
    with table.transaction() as transaction:
        transaction.remove(table.snapshot().files("day = 'a'")["path"])


def _restore_before_the_vectors(table: txlog.Table) -> None:
    table.restore(1)


def _restore_nothing(table: txlog.Table) -> None:
    table.restore(0)


def _restore_files_with_vectors(table: txlog.Table) -> None:
    table.overwrite(pa.table({"id": [100], "day": ["a"]}))
    table.restore(table.version - 1)


def _overwrite_the_columns_too(table: txlog.Table) -> None:
    rows = pa.table({"id": [100], "day": ["a"], "more": [1]})
    table.overwrite(rows, schema_mode="overwrite")


REMOVALS = [
    _overwrite,
    _overwrite_partitions,
    _overwrite_in_a_transaction,
    _overwrite_partitions_in_a_transaction,
    _remove_partitions,
    _remove_files,
    _restore_before_the_vectors,
    _restore_nothing,
    _restore_files_with_vectors,
    _overwrite_the_columns_too,
]


def with_vectors(path: Path) -> txlog.Table:
    """A table whose files, in two partitions, have deletion vectors."""
    properties = {**FEED, "delta.enableDeletionVectors": "true"}
    table = txlog.Table.create(str(path), "id bigint, day string", ["day"], properties)
    table.append(pa.table({"id": list(range(10)), "day": ["a", "b"] * 5}))
    table.delete("id < 4", row_mode="merge-on-read")
    return table


@pytest.mark.parametrize("remove", REMOVALS, ids=lambda each: each.__name__.strip("_"))
def test_deltalake_reads_the_feed_of_files_added_or_removed_with_vectors(
    tmp_path: Path, remove: Callable[[txlog.Table], None]
) -> None:
    table = with_vectors(tmp_path / "t")
    remove(table)
    for first in range(3, table.version + 1):
        ours = table.changes(first).read_all()
        theirs = by_deltalake(table.uri, first, table.version, ours.schema)
        assert as_rows(ours.drop_columns(["_commit_timestamp"])) == as_rows(theirs), first


@pytest.mark.hunt(part="spark")
def test_a_restore_to_before_an_optimize_lists_the_rows_that_sparks_restore_lists(
    delta: SparkSession, read_delta: ReadDelta, tmp_path: Path
) -> None:
    """Rows that are in both versions come as deleted and inserted, since they are in other files."""
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    table = txlog.Table.create(ours, "id bigint", (), FEED)
    for ids in ([1, 2], [3]):
        table.append(pa.table({"id": ids}))
    table.optimize()
    table.append(pa.table({"id": [4]}))
    shutil.copytree(ours, theirs)
    delta.sql(f"restore table delta.`{theirs}` to version as of 2").collect()
    table.restore(2)
    found = table.changes(5).read_all()
    schema = found.schema
    assert as_rows(found.drop_columns(["_commit_timestamp"])) == as_rows(
        by_spark(read_delta, theirs, 5, 5, schema).drop_columns(["_commit_timestamp"])
    )
    changed = sorted(zip(found["_change_type"].to_pylist(), found["id"].to_pylist(), strict=True))
    assert changed == [("delete", id) for id in (1, 2, 3, 4)] + [("insert", id) for id in (1, 2, 3)]


@pytest.mark.parametrize("remove", [_overwrite, _restore_files_with_vectors], ids=lambda each: each.__name__.strip("_"))
def test_spark_reads_the_feed_of_files_added_or_removed_with_vectors(
    read_delta: ReadDelta, tmp_path: Path, remove: Callable[[txlog.Table], None]
) -> None:
    table = with_vectors(tmp_path / "t")
    remove(table)
    assert_told_alike(table, read_delta)


def assert_told_alike(table: txlog.Table, read_delta: ReadDelta, first: int = 0, **more: Any) -> None:
    ours = table.changes(first, **more).read_all()
    assert ours.num_rows
    assert as_rows(ours) == as_rows(by_spark(read_delta, table.uri, first, table.version, ours.schema))
    theirs = by_deltalake(table.uri, first, table.version, ours.schema)
    assert as_rows(ours.drop_columns(["_commit_timestamp"])) == as_rows(theirs)


SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("v", pa.float64())])
VECTORS = {**FEED, "delta.enableDeletionVectors": "true"}

MERGED = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("t", pa.string())])
ENGINES = {
    "partial-update": {"txlog.partial-update.remove-record-on-delete": "true"},
    "aggregation": {"txlog.fields.n.aggregate-function": "sum", "txlog.aggregation.remove-record-on-delete": "true"},
    "first-row": {"txlog.ignore-delete": "true"},
}


@pytest.mark.parametrize("engine", ENGINES)
def test_the_feed_of_merged_changelogs_is_the_same_in_all_engines(
    read_delta: ReadDelta, tmp_path: Path, engine: str
) -> None:
    named = {"txlog.merge-engine": engine, "txlog.changelog-producer": "lookup", **ENGINES[engine]}
    table = txlog.Table.create(str(tmp_path / "t"), MERGED, properties={**VECTORS, **named})
    sink = txlog.Sink(table, "app", mode="upsert", keys=["k"], row_kind="op")
    chance = random.Random(engine)
    for number in range(6):
        rows = [
            {
                "k": chance.randrange(8),
                "n": chance.randrange(9),
                "t": chance.choice(["a", None]),
                "op": chance.choice(kinds),
            }
            for kinds in [("+I", "+U", "-D")] * 5
        ]
        changelog = pa.Table.from_pylist(rows, pa.schema([*MERGED, ("op", pa.string())]))
        if number % 2:
            table.upsert(changelog, ["k"], row_kind="op")
            continue
        with sink.task(number) as task:
            task.write(changelog)
        sink.commit(number, [task.committable])
    table.optimize()
    reported = set(table.changes(0).read_all()["_change_type"].to_pylist())
    in_place = {"update_preimage", "update_postimage"}
    assert reported == ({"insert"} if engine == "first-row" else {"insert", "delete", *in_place})
    assert_told_alike(table, read_delta)


def test_the_rows_of_a_changelog_that_change_nothing_are_read_by_all_engines(
    read_delta: ReadDelta, tmp_path: Path
) -> None:
    """A version may have change files and no other file."""
    named = {"txlog.merge-engine": "deduplicate", "txlog.sequence.field": "n", "txlog.changelog-producer": "input"}
    table = txlog.Table.create(str(tmp_path / "t"), MERGED, properties={**VECTORS, **named})
    for kind, n in (("+I", 5), ("+U", 3), ("-D", 4)):
        row = {"k": 1, "n": n, "t": "a", "op": kind}
        table.upsert(pa.Table.from_pylist([row], pa.schema([*MERGED, ("op", pa.string())])), ["k"], row_kind="op")
    assert table.changes(0).read_all()["n"].to_pylist() == [5, 3, 4]
    assert_told_alike(table, read_delta)


def both(delta: SparkSession, theirs: Path, table: txlog.Table, number: int) -> None:
    """One change by us and the same one by Spark."""
    target = f"delta.`{theirs}`"
    rows = pa.table({"id": [number, number + 1, number + 40], "day": ["a", None, "x"], "v": [0.5, None, 1.0]}, SCHEMA)
    staged = theirs.parent / f"rows-{number}.parquet"
    pq.write_table(rows, staged)
    delta.read.parquet(str(staged)).createOrReplaceTempView("rows")
    match number % 5:
        case 0:
            table.delete(f"id % 7 = {number % 7}")
            delta.sql(f"delete from {target} where id % 7 = {number % 7}")
        case 1:
            table.update({"v": txlog.expr("v + id"), "day": txlog.expr("concat(day, 'y')")}, f"id % 4 = {number % 4}")
            delta.sql(f"update {target} set v = v + id, day = concat(day, 'y') where id % 4 = {number % 4}")
        case 2:
            table.upsert(rows, ["id"])
            delta.sql(
                f"merge into {target} t using rows s on t.id = s.id when matched then update set *"
                " when not matched then insert *"
            )
        case 3:
            merge = table.merge(rows, "target.id = source.id").when_matched_delete("source.v is null")
            merge.when_matched_update({"v": txlog.expr("source.v")}).when_not_matched_insert_all(
                "source.id > 40"
            ).execute()
            delta.sql(
                f"merge into {target} t using rows s on t.id = s.id when matched and s.v is null then delete"
                " when matched then update set v = s.v when not matched and s.id > 40 then insert *"
            )
        case _:
            new = rows.slice(0, 1)
            table.overwrite(new, f"id = {number}")
            frame = delta.read.parquet(str(staged)).where(f"id = {number}")
            frame.write.format("delta").mode("overwrite").option("replaceWhere", f"id = {number}").save(str(theirs))


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize("properties", [{**VECTORS, "delta.columnMapping.mode": "name"}])
def test_spark_and_deltalake_read_our_changes_as_spark_reads_its_own(
    delta: SparkSession, read_delta: ReadDelta, tmp_path: Path, properties: dict[str, str]
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    table = txlog.Table.create(str(ours), SCHEMA, ["day"], properties)
    txlog.Table.create(str(theirs), SCHEMA, ["day"], properties)
    first = pa.table({"id": range(30), "day": ["a", "b", None] * 10, "v": [float(id) for id in range(30)]}, SCHEMA)
    for path in (ours, theirs):
        txlog.write(str(path), first)
    for number in (1, 2, 3, 4, 5, 7, 10, 11, 13):
        both(delta, theirs, table, number)
    reported = table.changes(0).read_all()
    assert as_rows(reported) == as_rows(by_spark(read_delta, table.uri, 0, table.version, reported.schema))
    of_spark = by_spark(read_delta, str(theirs), 0, table.version, reported.schema)
    timeless = reported.drop_columns(["_commit_timestamp"])
    assert as_rows(timeless) == as_rows(of_spark.drop_columns(["_commit_timestamp"]))
    if "delta.columnMapping.mode" not in properties:
        assert as_rows(timeless) == as_rows(by_deltalake(table.uri, 0, table.version, reported.schema))
    assert as_rows(txlog.Table.open(theirs).changes(0).read_all().drop_columns(["_commit_timestamp"])) == as_rows(
        timeless
    )
