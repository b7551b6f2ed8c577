"""Table features that are dropped: no trace is left, no row changes, and the log protects what it needs."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

import txlog
from tests.losing_writer import losing_to
from txlog.audit.verify import verify_table
from txlog.core.format.features import features_of
from txlog.core.versions import OpenTable
from txlog.errors import ConflictError, InvalidInputError, UnsupportedFeatureError
from txlog.table import Table
from txlog.testing.faults import Fault, StoreCall, faulty_table_store

VECTORS = {"delta.enableDeletionVectors": "true"}
PROTECTED = "delta.requireCheckpointProtectionBeforeVersion"


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32()), "v": pa.array([str(key) for key in keys])})


def made(
    path: Path, properties: dict[str, str] | None = None, columns: str = "k int, v string", **options: Any
) -> Table:
    table = Table.create(path / "t", columns, properties=properties, **options)
    table.append(rows(1, 2))
    table.append(rows(3, 4))
    return table


def keys(table: Table) -> list[int]:
    return sorted(Table.open(table.uri).to_arrow().column("k").to_pylist())


def features(table: Table) -> set[str]:
    reads, writes = features_of(Table.open(table.uri)._open_table.log.newest_state().protocol)
    return {*reads, *writes}


def iceberg_keys(table: Table, **how: Any) -> list[int]:
    """What Iceberg readers find."""
    found = StaticTable.from_metadata(table.export_iceberg(**how).metadata_location).scan().to_arrow()
    return sorted(found.column("k").to_pylist())


def dropped(table: Table, name: str) -> None:
    """Drop a feature, and check what holds for each one."""
    before = keys(table)
    result = table.drop_feature(name)
    assert name not in features(table)
    assert keys(table) == before
    info = json.loads(Path(table.uri, "_delta_log", f"{result.version:020}.json").read_text().splitlines()[0])
    assert info["commitInfo"]["operation"] == "DROP FEATURE"
    assert info["commitInfo"]["operationParameters"] == {"featureName": name, "truncateHistory": "false"}
    assert verify_table(Table.open(table.uri)._open_table.store).is_sound
    Table.open(table.uri).append(rows(9))
    assert keys(table) == sorted([*before, 9])


def test_deletion_vectors_are_purged_and_every_reader_reads_the_table_again(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    table.delete("k = 1")
    with pytest.raises(Exception, match="deletionVectors"):
        deltalake.DeltaTable(table.uri).to_pyarrow_table()
    version = table.version
    dropped(table, "deletionVectors")
    assert sorted(deltalake.DeltaTable(table.uri).to_pyarrow_table().column("k").to_pylist()) == [2, 3, 4, 9]
    state = Table.open(table.uri)._open_table.log.newest_state()
    assert state.protocol.min_reader_version == 1
    assert state.metadata.configuration == {PROTECTED: str(state.version - 1)}
    assert features(table) == {"appendOnly", "invariants", "checkpointProtection"}
    assert Path(table.uri, "_delta_log", f"{state.version - 1:020}.checkpoint.parquet").exists()
    assert sorted(Table.open(table.uri).snapshot(version).to_arrow().column("k").to_pylist()) == [2, 3, 4]


def test_widened_columns_are_rewritten_where_files_have_them_narrow(tmp_path: Path) -> None:
    table = made(tmp_path, {"delta.enableTypeWidening": "true"})
    table.alter_column("k", type="bigint")
    table.append(pa.table({"k": [1 << 40], "v": ["x"]}))
    files = set(table.snapshot().files().column("path").to_pylist())
    dropped(table, "typeWidening")
    after = set(Table.open(table.uri).snapshot().files().column("path").to_pylist())
    assert len(files & after) == 1, "the file that was wide already stays"
    schema = Table.open(table.uri)._open_table.log.newest_state().metadata.schema_string
    assert "typeChanges" not in schema
    assert deltalake.DeltaTable(table.uri).to_pyarrow_table().num_rows == 6


@pytest.mark.parametrize(
    ("narrow", "wide", "text"),
    [
        ("int", "decimal(12,2)", "1.00"),
        ("decimal(5,2)", "decimal(10,4)", "1.0000"),
        ("date", "timestamp_ntz", "2026-11-26 00:00:00"),
    ],
)
def test_partition_values_of_a_widened_type_are_written_as_its_readers_take_them(
    tmp_path: Path, narrow: str, wide: str, text: str
) -> None:
    properties = {"delta.enableTypeWidening": "true"}
    table = Table.create(tmp_path / "t", f"k int, p {narrow}", partition_by="p", properties=properties)
    value = dt.date(2026, 11, 26) if narrow == "date" else decimal.Decimal(1)
    table.append(pa.table({"k": [1, 2], "p": [value, None]}, table.snapshot().schema))
    table.alter_column("p", type=wide)
    before = table.to_arrow().sort_by("k").to_pylist()
    table.drop_feature("typeWidening")
    files = table.snapshot().files().to_pylist()
    assert {dict(file["partitionValues"])["p"] for file in files} == {text, None}
    assert table.to_arrow().sort_by("k").to_pylist() == before
    assert deltalake.DeltaTable(table.uri).to_pyarrow_table().sort_by("k").to_pylist() == before


def test_row_tracking_leaves_no_id_behind(tmp_path: Path) -> None:
    table = made(tmp_path, {"delta.enableRowTracking": "true"})
    dropped(table, "rowTracking")
    state = Table.open(table.uri)._open_table.log.newest_state()
    files = table._open_table.log.files(state)
    assert files["baseRowId"].null_count == files["defaultRowCommitVersion"].null_count == files.num_rows
    assert (dict(state.domains), state.metadata.configuration) == ({}, {})
    dropped(table, "domainMetadata")
    assert state.protocol.min_writer_version == 7


def test_iceberg_readers_find_files_that_still_have_columns_for_row_ids(tmp_path: Path) -> None:
    table = made(tmp_path, {"delta.enableRowTracking": "true"})
    table.update({"v": txlog.expr("'x'")}, "k = 1")  # its new file keeps the row ids in columns
    assert iceberg_keys(table) == keys(table)
    dropped(table, "rowTracking")
    assert iceberg_keys(table) == keys(table)
    assert iceberg_keys(table, rebuild=True) == keys(table)
    table.set_properties({"delta.enableRowTracking": "true"})  # in columns with other names
    table.update({"v": txlog.expr("'y'")}, "k = 3")
    assert iceberg_keys(table) == keys(table)
    assert iceberg_keys(table, rebuild=True) == keys(table)


def test_a_table_that_is_no_longer_clustered_can_do_without_the_feature(tmp_path: Path) -> None:
    table = made(tmp_path, cluster_by=["k"])
    table.optimize()
    with pytest.raises(InvalidInputError, match=r"cluster_by\(None\) first"):
        table.drop_feature("clustering")
    table.cluster_by(None)
    dropped(table, "clustering")
    assert dict(Table.open(table.uri)._open_table.log.newest_state().domains) == {}
    dropped(table, "domainMetadata")
    assert features(table) == {"appendOnly", "invariants"}
    deltalake.write_deltalake(table.uri, rows(7), mode="append")
    assert sorted(deltalake.DeltaTable(table.uri).to_pyarrow_table()["k"].to_pylist()) == keys(table)


def test_in_commit_timestamps_and_v2_checkpoints_are_dropped(tmp_path: Path) -> None:
    table = made(tmp_path, {"delta.enableInCommitTimestamps": "true", "delta.checkpointPolicy": "v2"})
    dropped(table, "inCommitTimestamp")
    dropped(table, "v2Checkpoint")
    assert list(Path(table.uri, "_delta_log").glob("*.checkpoint.parquet"))
    assert features(table) >= {"checkpointProtection"}


def test_a_column_stops_to_count_when_its_feature_is_dropped(tmp_path: Path) -> None:
    table = made(tmp_path, columns="n bigint generated always as identity, k int, v string")
    dropped(table, "identityColumns")
    assert sorted(Table.open(table.uri).to_arrow().column("n").to_pylist(), key=str) == [1, 2, 3, 4, None]
    protocol = Table.open(table.uri)._open_table.log.newest_state().protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 4), "version 5 would stand for more"


def test_no_feature_comes_back_with_the_one_that_is_dropped_last(tmp_path: Path) -> None:
    names = ("allowColumnDefaults", "checkConstraints")
    properties = {f"delta.feature.{name}": "supported" for name in names}
    columns = "k int, v string, g int generated always as (k + 1)"
    table = made(tmp_path, properties, columns)
    for name in ("checkConstraints", "invariants", "appendOnly", "allowColumnDefaults"):
        dropped(table, name)
    assert features(table) == {"generatedColumns"}
    assert deltalake.DeltaTable(table.uri).protocol().writer_features == ["generatedColumns"]


@pytest.mark.parametrize("name", ["vacuumProtocolCheck", "checkConstraints", "generatedColumns", "timestampNtz"])
def test_a_feature_that_is_only_listed_is_taken_out_of_the_protocol(tmp_path: Path, name: str) -> None:
    table = made(tmp_path, {f"delta.feature.{name}": "supported"})
    dropped(table, name)
    assert ("checkpointProtection" in features(table)) == (name == "timestampNtz"), (
        "only readers of old versions need it"
    )


@pytest.mark.parametrize(
    ("options", "change", "name", "says"),
    [
        ({}, lambda table: None, "deletionVectors", "does not have the feature 'deletionVectors'; it has appendOnly"),
        (
            {},
            lambda table: table.add_constraint("c", "k > 0"),
            "checkConstraints",
            "the constraints c: drop them first",
        ),
        ({"properties": {"delta.appendOnly": "true"}}, lambda table: None, "appendOnly", "uses it: appendOnly"),
        ({"cluster_by": ["k"]}, lambda table: None, "domainMetadata", "is needed by clustering"),
        ({"cluster_by": ["k"]}, lambda table: None, "clustering", "while the table is clustered"),
        (
            {"properties": VECTORS},
            lambda table: table.drop_feature("deletionVectors"),
            "checkpointProtection",
            "from v0",
        ),
        (
            {"column_mapping": "name", "columns": "k int, `v w` string, v string"},
            lambda table: None,
            "columnMapping",
            "column mapping cannot be dropped: (.|\n)*v w.*rename those columns first",
        ),
    ],
)
def test_a_feature_that_the_table_uses_stays_and_the_error_says_why(
    tmp_path: Path, options: dict[str, Any], change: Callable[[Table], Any], name: str, says: str
) -> None:
    table = made(tmp_path, **options)
    change(table)
    version = Table.open(table.uri).version
    with pytest.raises((InvalidInputError, UnsupportedFeatureError), match=says):
        Table.open(table.uri).drop_feature(name)
    assert Table.open(table.uri).version == version


def test_a_vector_that_another_writer_makes_in_between_is_purged_too(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    table.delete("k = 1")
    losing_to(table, lambda other: other.delete("k = 3", row_mode="merge-on-read")).drop_feature("deletionVectors")
    assert keys(table) == [2, 4]
    assert "deletionVectors" not in features(table)
    assert Table.open(table.uri).snapshot().files().column("deletionVector").null_count == 2


def test_a_commit_that_names_the_vector_files_of_older_versions_is_sound(tmp_path: Path) -> None:
    """Spark's Delta removes them when it drops the feature, for vacuums of engines that do not know them."""
    table = made(tmp_path)
    path = "deletion_vector_e40bea21-47bd-4b56-b29d-48d56ddbe3b6.bin"
    remove = {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": False}}
    lines = [{"commitInfo": {"operation": "DROP FEATURE"}}, remove]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    Path(table.uri, "_delta_log", f"{table.version + 1:020}.json").write_text(text)
    table = Table.open(table.uri)
    assert verify_table(table._open_table.store).is_sound
    table.append(rows(5))
    assert keys(table) == [1, 2, 3, 4, 5]


def test_a_write_that_began_before_the_feature_was_dropped_conflicts(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    late = losing_to(table, lambda other: other.drop_feature("deletionVectors"))
    with pytest.raises(ConflictError):
        late.append(rows(5))


def test_the_protected_version_is_the_one_that_drops_the_feature_after_a_lost_race_too(tmp_path: Path) -> None:
    table = made(tmp_path, {"delta.feature.timestampNtz": "supported"})
    result = losing_to(table, lambda other: other.append(rows(5))).drop_feature("timestampNtz")
    assert Table.open(table.uri).snapshot().properties[PROTECTED] == str(result.version) == "4"


def test_the_log_of_a_protected_table_is_cleaned_up_to_there_and_the_protection_dropped(tmp_path: Path) -> None:
    table = made(tmp_path, {"delta.feature.timestampNtz": "supported"})
    version = table.drop_feature("timestampNtz").version
    assert version is not None
    log = Path(table.uri, "_delta_log")
    for file in log.glob("*.json"):  # as a cleanup leaves it
        if int(file.name.partition(".")[0]) < version:
            file.unlink()
    dropped(Table.open(table.uri), "checkpointProtection")
    assert features(table) == {"appendOnly", "invariants"}


def test_the_end_of_column_mapping_gives_files_the_names_of_their_columns(tmp_path: Path) -> None:
    properties = {**VECTORS, "delta.enableRowTracking": "true"}
    table = made(tmp_path, properties, "k int, v string, p struct<a: int, b: int>", column_mapping="name")
    table.cluster_by("k")
    table.delete("k = 1")
    table.rename_column("p.a", "c")
    table.drop_columns("p.b")
    table.append(pa.table({"k": pa.array([5], pa.int32()), "v": ["5"], "p": [{"c": 7}]}))
    ids = table.to_arrow(columns=["k"])
    dropped(table, "columnMapping")
    table = Table.open(table.uri)
    assert ids.num_rows == 4
    assert table.to_arrow(where="k = 5").column("p").to_pylist() == [{"c": 7}]
    assert "columnMapping" not in table._open_table.log.newest_state().metadata.schema_string
    assert table.snapshot().clustering_columns == ("k",)
    for path in table.files()["path"].to_pylist():
        assert pq.read_schema(Path(table.uri, path)).names[:2] == ["k", "v"]
    table.drop_feature("deletionVectors")
    assert deltalake.DeltaTable(table.uri).to_pyarrow_table().num_rows == 5


def test_what_others_write_while_column_mapping_ends_gets_its_names_too(tmp_path: Path) -> None:
    table = made(tmp_path, column_mapping="name")
    losing_to(table, lambda other: (other.append(rows(5)), other.delete("k = 1"))).drop_feature("columnMapping")
    assert keys(table) == [2, 3, 4, 5]
    assert verify_table(Table.open(table.uri)._open_table.store).is_sound


def test_an_append_that_began_before_column_mapping_ended_does_not_land_under_the_old_names(tmp_path: Path) -> None:
    table = made(tmp_path, column_mapping="name")
    late = losing_to(table, lambda other: other.drop_feature("columnMapping"))
    with pytest.raises(ConflictError, match="REMOVE COLUMN MAPPING"):
        late.append(rows(5))
    Table.open(table.uri).append(rows(5))
    assert keys(table) == [1, 2, 3, 4, 5]


def test_a_history_that_needs_the_feature_is_cut_off_once_it_is_a_day_old(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    table.delete("k = 1")
    with pytest.raises(InvalidInputError, match="need the feature deletionVectors, which is gone") as caught:
        table.drop_feature("deletionVectors", truncate_history=True)
    assert "run this again after" in caught.value.message
    assert "deletionVectors" in features(table)
    for file in Path(table.uri, "_delta_log").iterdir():
        os.utime(file, (file.stat().st_mtime - 90_000,) * 2)
    table = Table.open(table.uri)
    table.append(rows(5))
    version = table.drop_feature("deletionVectors", truncate_history=True).version
    assert features(table) == {"appendOnly", "invariants"}
    info = json.loads(Path(table.uri, "_delta_log", f"{version:020}.json").read_text().splitlines()[0])
    assert info["commitInfo"]["operationParameters"]["truncateHistory"] == "true"
    assert keys(table) == [2, 3, 4, 5]
    assert not Path(table.uri, "_delta_log", f"{0:020}.json").exists()
    assert deltalake.DeltaTable(table.uri).protocol().min_reader_version == 1


def test_a_history_is_not_cut_off_by_a_retention_that_cannot_be_read(tmp_path: Path) -> None:
    key = "delta.dropFeatureTruncateHistory.retentionDuration"
    table = made(tmp_path, {**VECTORS, key: "interval 3 days"})
    log = Path(table.uri, "_delta_log", f"{0:020}.json")
    log.write_text(log.read_text().replace("interval 3 days", "interval 1 month"))
    with pytest.raises(InvalidInputError, match=rf"{table.uri} v\d+: .*{key} 'interval 1 month': expected an interval"):
        Table.open(table.uri).drop_feature("deletionVectors", truncate_history=True)


def test_a_feature_of_writers_has_no_history_to_cut_off(tmp_path: Path) -> None:
    table = made(tmp_path, {"delta.enableInCommitTimestamps": "true"})
    with pytest.raises(InvalidInputError, match="concerns writers only"):
        table.drop_feature("inCommitTimestamp", truncate_history=True)


def test_a_drop_whose_checkpoint_fails_succeeds_and_says_what_completes_it_as_a_rerun_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = made(tmp_path, VECTORS)

    def decide(call: StoreCall) -> Fault | None:
        return Fault("fail_before") if call.name.endswith(".checkpoint.parquet") else None

    faulty = Table(OpenTable(faulty_table_store(table._open_table.store, decide)))
    version = faulty.drop_feature("deletionVectors").version
    assert "the commit is safe" in caplog.text
    assert "create_checkpoint" in caplog.text
    assert "deletionVectors" not in features(table)
    assert not list(Path(table.uri, "_delta_log").glob("*.checkpoint.parquet"))
    with pytest.raises(InvalidInputError, match="does not have the feature"):
        Table.open(table.uri).drop_feature("deletionVectors")
    assert Path(table.uri, "_delta_log", f"{version:020}.checkpoint.parquet").exists()


def test_a_checkpoint_whose_hint_cannot_be_written_is_written_and_a_warning_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = made(tmp_path)
    faulty = Table(OpenTable(faulty_table_store(table._open_table.store, "put#1=fail_before")))
    version = faulty.create_checkpoint()
    assert Path(table.uri, "_delta_log", f"{version:020}.checkpoint.parquet").exists()
    assert f"the checkpoint of v{version} is written, but not _last_checkpoint" in caplog.text
