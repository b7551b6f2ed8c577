"""Branches that Spark's Delta reads, changes and vacuums, and that Spark's tasks write by their names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import txlog
from txlog.spark import delete as delete_by_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[..., "DataFrame"]
PROPERTIES = {
    "delta.enableDeletionVectors": "true",
    "delta.enableRowTracking": "true",
    "delta.columnMapping.mode": "name",
}


def rows_of(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "p": ["a b%" if n % 2 else "ü" for n in ids]})


def ids(table: txlog.Table) -> list[int]:
    return sorted(txlog.Table.open(table.uri).to_arrow(["id"])["id"].to_pylist())


def row_ids(frame: DataFrame) -> dict[int, int]:
    return {row[0]: row[1] for row in frame.selectExpr("id", "_metadata.row_id").collect()}


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize("most", [300, 0], ids=["its files are actions", "a checkpoint has its files"])
def test_spark_reads_changes_and_vacuums_a_branch_and_reads_what_is_published(
    most: int, delta: SparkSession, read_delta: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("txlog.branch.creation.AS_ACTIONS_MAX", most)
    table = txlog.Table.create(tmp_path / "the table", "id bigint, p string", ["p"], PROPERTIES)
    table.append(rows_of(*range(10)))
    table.delete("id = 3")
    branch = table.branch("b")
    frame = delta.createDataFrame([(10, "ü"), (11, "a b%")], "id bigint, p string")
    frame.write.format("txlog").mode("append").save(f"{table.uri}@b")
    delete_by_tasks(delta, f"{table.uri}@b", "id = 10")
    assert row_ids(read_delta(branch.uri)).keys() == {0, 1, 2, 4, 5, 6, 7, 8, 9, 11}
    delta.sql(f"delete from delta.`{branch.uri}` where id in (4, 5)")
    delta.sql(f"update delta.`{branch.uri}` set id = 106 where id = 6")
    table.append(rows_of(20))

    delta.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    delta.sql(f"vacuum delta.`{branch.uri}`")
    delta.sql(f"vacuum delta.`{table.uri}` retain 0 hours")
    assert ids(branch) == [0, 1, 2, 7, 8, 9, 11, 106]
    before = row_ids(read_delta(branch.uri))
    branch.publish()
    delta.sql(f"vacuum delta.`{branch.uri}`")
    delta.sql(f"vacuum delta.`{table.uri}` retain 0 hours")
    found = row_ids(read_delta(table.uri))
    assert sorted(found) == ids(table) == [0, 1, 2, 7, 8, 9, 11, 20, 106]
    assert {key: found[key] for key in before} == before
    assert len({*found.values()}) == len(found)
    assert table.verify().is_sound


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize("how", ["lite", "full"])
def test_a_forced_vacuum_of_a_branch_by_spark_keeps_the_files_of_the_table(
    how: str, delta: SparkSession, tmp_path: Path
) -> None:
    table = txlog.Table.create(tmp_path / "the table", "id bigint, p string", ["p"])
    table.append(rows_of(*range(10)))
    branch = table.branch("b")
    delta.sql(f"delete from delta.`{branch.uri}` where id in (5, 6)")
    delta.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    delta.sql(f"vacuum delta.`{branch.uri}` {how} retain 0 hours")
    assert ids(table) == [*range(10)]
    assert ids(branch) == [0, 1, 2, 3, 4, 7, 8, 9]


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize("is_rebased", [False, True], ids=["published", "rebased"])
def test_spark_reads_a_branch_whose_table_spark_defined_anew(
    is_rebased: bool, delta: SparkSession, read_delta: Read, tmp_path: Path
) -> None:
    properties = {"delta.enableDeletionVectors": "true", "delta.enableTypeWidening": "true"}
    table = txlog.Table.create(tmp_path / "the table", "id int, p string, gone int", properties=properties)
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "p": ["x"] * 3, "gone": pa.array([7] * 3, pa.int32())})
    table.append(rows)
    branch = table.branch("b")
    branch.append(pa.table({"id": pa.array([4], pa.int32()), "p": ["y"], "gone": pa.array([8], pa.int32())}))
    branch.delete("id = 1")
    at = f"delta.`{table.uri}`"
    delta.sql(f"alter table {at} set tblproperties ('delta.columnMapping.mode' = 'name')")
    delta.sql(f"alter table {at} rename column p to q")
    delta.sql(f"alter table {at} drop column gone")
    delta.sql(f"alter table {at} alter column id type bigint")
    delta.sql(f"alter table {at} set tblproperties ('delta.enableRowTracking' = 'true')")
    delta.sql(f"alter table {at} set tblproperties ('delta.enableChangeDataFeed' = 'true')")
    delta.sql(f"insert into {at} values (1099511627776, 'z')")
    wanted = [(2, "x"), (3, "x"), (4, "y"), (2**40, "z")]
    if is_rebased:
        branch.rebase()
        assert sorted(map(tuple, read_delta(branch.uri).collect())) == wanted
        found = row_ids(read_delta(branch.uri))
        assert len({*found.values()}) == 4
    version = branch.publish().version
    assert sorted(map(tuple, read_delta(table.uri).collect())) == wanted
    published = row_ids(read_delta(table.uri))
    assert len({*published.values()}) == 4
    assert not is_rebased or published == found
    changes = read_delta(table.uri, readChangeFeed="true", startingVersion=version, endingVersion=version)
    assert sorted((row["id"], row["_change_type"]) for row in changes.collect()) == [(1, "delete"), (4, "insert")]
    assert table.verify().is_sound
    assert branch.verify().is_sound
