"""Table features that txlog turns on and drops, beside what Spark's Delta does: both engines go on with the tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import txlog
from txlog.audit.verify import verify_table
from txlog.core.format.features import features_of
from txlog.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def made(spark: SparkSession, path: Path, **properties: str) -> Table:
    listed = ", ".join(f"'{key.replace('__', '.')}' = '{value}'" for key, value in properties.items())
    with_properties = f"tblproperties ({listed})" if listed else ""
    spark.sql(f"create table delta.`{path}` (k int, v string) using delta {with_properties}")
    for first in (0, 10):
        spark.sql(f"insert into delta.`{path}` select int(id), 'spark' from range({first}, {first + 5})")
    Table.open(path).append(rows(20, 21))
    return Table.open(path)


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32()), "v": pa.array(["txlog"] * len(keys))})


def features(path: Path) -> set[str]:
    reads, writes = features_of(Table.open(path)._open_table.log.newest_state().protocol)
    return {*reads, *writes}


def both_go_on(spark: SparkSession, path: Path) -> None:
    """Both write and read, and find the same rows."""
    spark.sql(f"insert into delta.`{path}` values (100, 'spark')")
    spark.sql(f"update delta.`{path}` set v = 'both' where k = 21")
    table = Table.open(path)
    table.append(rows(101))
    table.delete("k = 20")
    theirs = sorted((row.k, row.v) for row in spark.read.format("delta").load(str(path)).collect())
    assert theirs == sorted((row["k"], row["v"]) for row in table.to_arrow().to_pylist())
    assert verify_table(table._open_table.store).is_sound


def operations(path: Path) -> list[tuple[str, Any]]:
    found = []
    for name in sorted((path / "_delta_log").glob("*.json")):
        for line in name.read_text().splitlines():
            info = json.loads(line).get("commitInfo")
            if info is not None:
                found.append((info["operation"], info["operationParameters"]))
    return found


@pytest.mark.hunt(part="spark")
def test_row_tracking_is_turned_on_as_by_sparks_delta(delta: SparkSession, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    made(delta, ours).set_properties({"delta.enableRowTracking": "true"})
    made(delta, theirs)
    delta.sql(f"alter table delta.`{theirs}` set tblproperties ('delta.enableRowTracking' = 'true')")
    assert features(ours) == features(theirs)
    for path in (ours, theirs):
        both_go_on(delta, path)
        read = delta.sql(f"select _metadata.row_id id from delta.`{path}`").collect()
        ids = [row.id for row in read]
        assert None not in ids
        assert len(set(ids)) == len(ids) == 13
    backfills = [each for each in operations(ours) if each[0] == "ROW TRACKING BACKFILL"]
    assert backfills == [each for each in operations(theirs) if each[0] == "ROW TRACKING BACKFILL"]


@pytest.mark.hunt(part="spark")
@pytest.mark.parametrize(
    ("name", "properties"),
    [
        ("deletionVectors", {"delta__enableDeletionVectors": "true"}),
        ("rowTracking", {"delta__enableRowTracking": "true"}),
        ("columnMapping", {"delta__columnMapping__mode": "name"}),
        ("inCommitTimestamp", {"delta__enableInCommitTimestamps": "true"}),
        ("v2Checkpoint", {"delta__checkpointPolicy": "v2"}),
        ("vacuumProtocolCheck", {"delta__feature__vacuumProtocolCheck": "supported"}),
        ("typeWidening", {"delta__enableTypeWidening": "true"}),
        ("checkConstraints", {"delta__feature__checkConstraints": "supported"}),
    ],
)
def test_a_feature_that_txlog_drops_is_gone_for_sparks_delta(
    delta: SparkSession, tmp_path: Path, name: str, properties: dict[str, str]
) -> None:
    path = tmp_path / "t"
    table = made(delta, path, **properties)
    delta.sql(f"delete from delta.`{path}` where k = 1")
    if name == "typeWidening":
        delta.sql(f"alter table delta.`{path}` alter column k type bigint")
    assert name in features(path)
    Table.open(path).drop_feature(name)
    assert name not in features(path)
    detail = delta.sql(f"describe detail delta.`{path}`").collect()[0]
    assert name not in detail.tableFeatures
    if name == "typeWidening":
        assert delta.read.format("delta").load(str(path)).count() == 11
    else:
        both_go_on(delta, path)
    del table


@pytest.mark.hunt(part="spark")
def test_a_table_whose_feature_spark_dropped_is_written_by_txlog(delta: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    made(delta, path, delta__enableDeletionVectors="true")
    delta.sql(f"delete from delta.`{path}` where k = 1")
    delta.sql(f"alter table delta.`{path}` drop feature deletionVectors")
    assert "checkpointProtection" in features(path)
    both_go_on(delta, path)
    with pytest.raises(txlog.InvalidInputError, match="checkpointProtection cannot be dropped"):
        Table.open(path).drop_feature("checkpointProtection")


@pytest.mark.hunt(part="spark")
def test_the_history_of_a_dropped_feature_reads_as_sparks(delta: SparkSession, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for path in (ours, theirs):
        made(delta, path, delta__enableDeletionVectors="true")
    Table.open(ours).drop_feature("deletionVectors")
    delta.sql(f"alter table delta.`{theirs}` drop feature deletionVectors")
    assert features(ours) == features(theirs)
    for path in (ours, theirs):
        (parameters,) = (each for operation, each in operations(path) if operation == "DROP FEATURE")
        said = {key: str(value).lower() for key, value in parameters.items()}
        assert said == {"featureName": "deletionvectors", "truncateHistory": "false"}
