"""Session settings of Spark's Delta at every door of txlog: each is obeyed as Delta obeys it, or refused by its name.

Each door of a setting runs on two tables of the same rows: by Spark's Delta, and by txlog. What is compared is what
anybody can see of them: columns, rows, properties, transactions, the note of the last commit, and the session itself.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from spark_helpers import refused, save

import txlog
import txlog.spark
from txlog.spark import error_from
from txlog.spark.settings import HONORED, REFUSED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA = "spark.databricks.delta."
SETTINGS = {
    "transaction": {f"{DELTA}write.txnAppId": "job", f"{DELTA}write.txnVersion": "7"},
    "one transaction": {
        f"{DELTA}write.txnAppId": "job",
        f"{DELTA}write.txnVersion": "7",
        f"{DELTA}write.txnVersion.autoReset.enabled": "true",
    },
    "half a transaction": {f"{DELTA}write.txnAppId": "job"},
    "note": {f"{DELTA}commitInfo.userMetadata": "ticket 7"},
    "new columns": {f"{DELTA}schema.autoMerge.enabled": "true"},
    "defaults": {
        f"{DELTA}properties.defaults.appendOnly": "true",
        f"{DELTA}properties.defaults.logRetentionDuration": "interval 7 days",
        f"{DELTA}properties.defaults.feature.domainMetadata": "supported",
    },
    "dynamic": {"spark.sql.sources.partitionOverwriteMode": "dynamic"},
    "no vectors": {f"{DELTA}{what}.deletionVectors.persistent": "false" for what in ("delete", "update", "merge")},
    "spread": {f"{DELTA}optimizeWrite.enabled": "true"},
    "compacted": {f"{DELTA}autoCompact.enabled": "true"},
    "strict": {"spark.sql.storeAssignmentPolicy": "STRICT"},
    "any row": {f"{DELTA}replaceWhere.constraintCheck.enabled": "false"},
    "partitions only": {f"{DELTA}replaceWhere.dataColumns.enabled": "false"},
    "never dynamic": {
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        f"{DELTA}dynamicPartitionOverwrite.enabled": "false",
    },
    "lenient drop": {f"{DELTA}constraints.assumesDropIfExists.enabled": "true"},
    "short retention": {f"{DELTA}retentionDurationCheck.enabled": "false"},
    "lite": {f"{DELTA}vacuum.lite.enabled": "true"},
    "unlogged": {f"{DELTA}vacuum.logging.enabled": "false"},
    "small files": {f"{DELTA}optimize.maxFileSize": "400"},
    "smaller files": {f"{DELTA}optimize.minFileSize": "400"},
    "dead rows": {f"{DELTA}optimize.maxDeletedRowsRatio": "0.9"},
    "fewer features": {f"{DELTA}restore.protocolDowngradeAllowed": "true"},
    "replaced features": {f"{DELTA}replace.protocolDowngradeAllowed": "true"},
    "no replacing clone": {f"{DELTA}clone.replaceEnabled": "false"},
    "any partition": {f"{DELTA}convert.partitionValues.ignoreCastFailure": "true"},
    "few records": {"spark.sql.files.maxRecordsPerFile": "1"},
}
NOT_COMPARED = {"spark.sql.streaming.checkpointLocation", "spark.sql.session.timeZone"}
"""Where streams without a location of their own keep theirs, and the time zone: `test_spark_stream` and
`test_spark_zones` have them."""

WIDER = "(select 1L as id, 'a' as k, 'x' as v, 5 as extra union all select 9L, 'b', 'y', 6)"
ROWS = "(select 1L as id, 'a' as k, 'x' as v union all select 9L, 'b', 'y')"
MERGE = "merge into {t} t using {rows} s on t.id = s.id when matched then update set * when not matched then insert *"
DOORS = {
    "insert": "insert into {t} by name select * from {rows}",
    "overwrite": "insert overwrite {t} select 9L as id, 'a' as k, 'z' as v",
    "overwrite of a partition": "insert overwrite {t} partition (k = 'a') select 9L as id, 'z' as v where false",
    "replace where": "insert into {t} replace where id = 1 select 5L as id, 'c' as k, 'z' as v",
    "update": "update {t} set id = id + 100 where k = 'a'",
    "delete": "delete from {t} where id = 1",
    "merge": MERGE,
    "create": "create table {new} (id bigint) using delta",
    "create otherwise": "create table {new} (id bigint) using delta tblproperties ('delta.appendOnly' = 'false')",
    "create as": "create table {new} using delta as select 1L as id",
    "create partitions as": "create table {new} using delta partitioned by (k) as select 1L as id, 'a' as k",
    "replace as": "create or replace table {t} using delta partitioned by (k) as select 1L as id, 'a' as k, 'z' as v",
    "clone": "create table {new} shallow clone {t}",
    "alter": "alter table {t} set tblproperties ('delta.logRetentionDuration' = 'interval 9 days')",
    "drop constraint": "alter table {t} drop constraint none",
    "optimize": "optimize {t}",
    "restore": "restore table {t} to version as of 1",
    "vacuum": "vacuum {t} retain 0 hours",
    "lossy insert": "insert into {t} select '5' as id, 'a' as k, 'z' as v",
}


def frame(spark: SparkSession, path: str, options: dict[str, str], mode: str = "append", rows: str = ROWS) -> None:
    save(spark.sql(f"select * from {rows}"), Path(path), mode, **options)


def merged(spark: SparkSession, path: str, rows: str) -> None:
    merge = txlog.spark.merge(spark, path, spark.sql(f"select * from {rows}"), "target.id = source.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


CALLS: dict[str, tuple[str, Callable[[SparkSession, str, str], Any]]] = {
    "df.write": ("insert", lambda spark, path, rows: frame(spark, path, {}, "append", rows)),
    "df.write over rows": (
        "overwrite",
        lambda spark, path, rows: frame(spark, path, {}, "overwrite", "(select 9L as id, 'a' as k, 'z' as v)"),
    ),
    "txlog.spark.update": (
        "update",
        lambda spark, path, rows: txlog.spark.update(spark, path, {"id": txlog.expr("id + 100")}, "k = 'a'"),
    ),
    "txlog.spark.delete": ("delete", lambda spark, path, rows: txlog.spark.delete(spark, path, "id = 1")),
    "txlog.spark.merge": ("merge", merged),
    "txlog.spark.upsert": (
        "merge",
        lambda spark, path, rows: txlog.spark.upsert(spark, path, spark.sql(f"select * from {rows}"), ["id"]),
    ),
    "txlog.spark.optimize": ("optimize", lambda spark, path, rows: txlog.spark.optimize(spark, path)),
    "txlog.spark.vacuum": ("vacuum", lambda spark, path, rows: txlog.spark.vacuum(spark, path, 0)),
}
"""The doors of Python, each with the statement of which it is the same."""

MATRIX = {
    "transaction": "insert, overwrite, update, delete, merge, create as, df.write, txlog.spark.update,"
    " txlog.spark.delete, txlog.spark.merge, txlog.spark.upsert",
    "one transaction": "insert, update, merge, -df.write, txlog.spark.update, txlog.spark.merge",
    "half a transaction": "-insert, -update, -df.write, -txlog.spark.merge",
    "note": "insert, overwrite, update, delete, merge, create, create as, clone, alter, optimize, restore, df.write,"
    " txlog.spark.update, txlog.spark.merge, txlog.spark.optimize",
    "new columns": "insert, merge, txlog.spark.merge, txlog.spark.upsert",
    "defaults": "create, create otherwise, create as, clone, insert",
    "dynamic": "overwrite, overwrite of a partition, df.write over rows, replace where",
    "no vectors": "update, delete, merge, txlog.spark.update, txlog.spark.delete, txlog.spark.merge",
    "spread": "insert, update, merge, -df.write",
    "compacted": "-insert, -update, -merge, -df.write, -txlog.spark.upsert",
    "strict": "-lossy insert, -update, -merge, -insert",
    "any row": "-replace where, insert",
    "partitions only": "-replace where, insert",
    "never dynamic": "-overwrite, -overwrite of a partition, -insert, -df.write, -df.write over rows,"
    " -create partitions as, create as, replace as, replace where, update, delete, merge",
    "lenient drop": "drop constraint",
    "short retention": "vacuum, txlog.spark.vacuum",
    "lite": "vacuum",
    "unlogged": "-vacuum",
    "small files": "optimize, txlog.spark.optimize",
    "smaller files": "-optimize, -txlog.spark.optimize",
    "dead rows": "-optimize",
    "fewer features": "-restore, -clone, insert",
    "few records": "insert, df.write",
}
SHORT = (
    ("transaction", "update"),
    ("one transaction", "txlog.spark.merge"),
    ("new columns", "txlog.spark.upsert"),
    ("defaults", "create"),
    ("dynamic", "overwrite of a partition"),
)


def test_every_setting_is_in_the_matrix() -> None:
    walked = {name for setting in SETTINGS.values() for name in setting}
    assert (set(HONORED) | set(REFUSED)) - walked == NOT_COMPARED


@pytest.mark.parametrize(
    ("setting", "door"),
    [
        pytest.param(
            setting,
            door,
            marks=() if (setting, door) in SHORT else pytest.mark.hunt(part="spark"),
        )
        for setting, doors in MATRIX.items()
        for door in doors.split(", ")
    ],
)
def test_a_setting_does_what_it_does_in_sparks_delta(
    delta: SparkSession, tmp_path: Path, setting: str, door: str
) -> None:
    is_refused, door = door.startswith("-"), door.removeprefix("-")
    session = delta.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    if is_refused:
        prepared(tmp_path / "as it was")
        error, _, ours = outcome(session, tmp_path / "ours", setting, door, by_delta=False)
        refusal = None if error is None else error_from(error)
        assert isinstance(refusal, txlog.TxlogError), str(error)
        assert list(SETTINGS[setting])[-1] in str(refusal)
        assert ours == (visible(tmp_path / "as it was", setting), None)
        return
    refusal, *theirs = outcome(session, tmp_path / "theirs", setting, door, by_delta=True)
    error, *ours = outcome(session, tmp_path / "ours", setting, door, by_delta=False)
    assert (error is None, ours) == (refusal is None, theirs), (error, refusal)


@pytest.mark.hunt(part="spark")
def test_a_write_of_a_session_that_merges_schemas_says_itself_whether_it_does(
    delta: SparkSession, tmp_path: Path
) -> None:
    """With Delta's jar and this setting, Spark 4.2 fails each write to any other source that has no such option."""
    table = txlog.Table.create(tmp_path, "id bigint, k string, v string")
    session = delta.newSession()
    for name, value in SETTINGS["new columns"].items():
        session.conf.set(name, value)
    with pytest.raises(Exception, match="INTERNAL_ERROR"):
        frame(session, str(tmp_path), {}, rows=WIDER)
    error = refused(lambda: frame(session, str(tmp_path), {"mergeSchema": "false"}, rows=WIDER))
    assert isinstance(error, txlog.SchemaMismatchError)
    assert table.snapshot().version == 0
    frame(session, str(tmp_path), {"mergeSchema": "true"}, rows=WIDER)
    assert table.snapshot().count("extra > 4") == 2


def outcome(
    session: SparkSession, place: Path, setting: str, door: str, *, by_delta: bool
) -> tuple[Exception | None, dict[str, str | None], tuple[Any, Any]]:
    """What a door does under a setting: its error, the settings afterwards, and what the tables are then.

    A door that is done once for one name is tried twice.
    """
    places = {"t": place, "new": place.with_name(f"{place.name} new")}
    prepared(place)
    rows = WIDER if setting == "new columns" else ROWS
    statement = CALLS[door][0] if door in CALLS else door
    text = DOORS[statement].format(rows=rows, **{name: f"delta.`{each}`" for name, each in places.items()})
    error = None
    for name, value in SETTINGS[setting].items():
        session.conf.set(name, value)
    for _ in range(2 if "transaction" in setting else 1):
        try:
            if by_delta:
                session.sql(text)
            elif door in CALLS:
                CALLS[door][1](session, str(place), rows)
            else:
                txlog.spark.sql(session, text)
        except Exception as raised:
            error = raised
    left = {name: session.conf.get(name, None) for name in SETTINGS[setting]}
    for name in SETTINGS[setting]:
        session.conf.unset(name)
    return error, left, (visible(place, setting), visible(places["new"], setting))


def prepared(place: Path) -> None:
    table = txlog.Table.create(
        place, "id long, k string, v string", partition_by=["k"], properties={"delta.enableDeletionVectors": "true"}
    )
    table.append(pa.table({"id": [1, 2, 3], "k": ["a", "a", "b"], "v": ["old"] * 3}))
    table.append(pa.table({"id": [4], "k": ["b"], "v": ["old"]}))
    table.delete("id = 4")


def visible(place: Path, setting: str) -> Any:
    if not txlog.Table.exists(place):
        return None
    table = txlog.Table.open(place)
    snapshot = table.snapshot()
    last = table.history(1)[0]
    found = {
        "columns": [(field.name, str(field.type)) for field in snapshot.schema],
        "rows": sorted(map(repr, table.to_arrow().to_pylist())),
        "properties": {name: text for name, text in snapshot.properties.items() if name.startswith("delta.")},
        "transaction": snapshot.transaction_version("job"),
        "note": last.get("userMetadata"),
    }
    if setting == "no vectors":
        found["vectors"] = len(list(place.glob("**/*.bin")))
    if setting == "few records":
        found["files"] = snapshot.num_files
    return found
