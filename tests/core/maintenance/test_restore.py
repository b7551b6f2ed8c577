"""Restore: a version comes back whole or not at all, and nothing that was given once is given again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import deltalake
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import txlog
from txlog.core import ambient
from txlog.core.definition import create_table, take_row_ids
from txlog.core.format.actions import DomainMetadata, Protocol
from txlog.core.format.features import merged
from txlog.core.maintenance._assigned_numbers import GivenNumbers
from txlog.core.maintenance._restored_definition import merged_definition, restored_domains
from txlog.core.store import open_store
from txlog.core.versions import OpenTable
from txlog.testing.faults import FaultyFileStore, FaultyLogStore
from txlog.testing.memory_store import memory_table_store
from txlog.testing.stopped_clock import StoppedClock


@pytest.fixture
def time() -> Any:
    with ambient.use(StoppedClock()) as clock:
        yield clock


def rows(*ids: int, day: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "day": [day] * len(ids)})


def make(tmp_path: Path, **properties: str) -> txlog.Table:
    named = {key.replace("_", "."): value for key, value in properties.items()}
    return txlog.Table.create(tmp_path / "t", "id bigint, day string", ["day"], named)


def in_memory(**properties: str) -> tuple[txlog.Table, Any]:
    store = memory_table_store()
    named = {key.replace("_", "."): value for key, value in properties.items()}
    create_table(OpenTable(store), "id bigint, day string", ("day",), named)
    return txlog.Table(OpenTable(store)), store


def ids(table: txlog.Table, version: int | None = None) -> list[int]:
    found: list[int] = sorted(table.snapshot(version).to_arrow()["id"].to_pylist())
    return found


def commit_of(table: txlog.Table, version: int) -> list[dict[str, Any]]:
    body = Path(table.uri, "_delta_log", f"{version:020}.json").read_bytes()
    return [orjson.loads(line) for line in body.splitlines()]


def data_files(table: txlog.Table) -> set[Path]:
    return {path for path in Path(table.uri).rglob("*.parquet") if "_delta_log" not in path.parts}


# --- what comes back ------------------------------------------------------------------------------------------------


def test_a_version_comes_back_as_a_new_one_without_touching_a_data_file(tmp_path: Path) -> None:
    table = make(tmp_path, delta_enableDeletionVectors="true")
    table.append(rows(1, 2, 3))
    table.append(rows(4, day="b"))
    table.delete("id = 2")
    table.delete("day = 'b'")
    table.append(rows(9))
    files = data_files(table)
    done = table.restore(2)
    assert (done.version, done.files_restored, done.files_removed, done.files) == (6, 2, 2, 2)
    assert ids(table) == [1, 2, 3, 4]
    assert data_files(table) == files
    assert table.restore(3).version == 7
    assert ids(table) == [1, 3, 4]
    assert sorted(deltalake.DeltaTable(table.uri).file_uris()) == sorted(
        f"{table.uri}/{path}" for path in table.snapshot().files()["path"].to_pylist()
    )


def test_history_shows_a_restore_as_spark_writes_it(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows(1))
    table.overwrite(rows(2))
    done = table.restore(1, user_metadata="oops")
    entry = table.history(1)[0]
    assert (entry["operation"], entry["operationParameters"]) == ("RESTORE", {"version": "1"})
    assert (entry["isolationLevel"], entry["isBlindAppend"], entry["userMetadata"]) == ("Serializable", False, "oops")
    assert entry["operationMetrics"] == {
        "numRestoredFiles": "1",
        "restoredFilesSize": str(done.bytes_restored),
        "numRemovedFiles": "1",
        "removedFilesSize": str(done.bytes_removed),
        "numOfFilesAfterRestore": "1",
        "tableSizeAfterRestore": str(done.size_bytes),
    }
    assert all(
        action["dataChange"] for line in commit_of(table, 3) for key, action in line.items() if key in ("add", "remove")
    )


def test_a_time_names_the_newest_version_until_then(time: StoppedClock) -> None:
    table, _ = in_memory()
    table.append(rows(1))
    time.pass_hours(1)
    table.append(rows(2))
    assert table.restore(timestamp=time.moment_ms - 1).restored_version == 1
    assert ids(table) == [1]
    assert table.history(1)[0]["operationParameters"] == {"timestamp": str(time.moment_ms - 1)}


def test_a_restore_to_the_newest_version_makes_no_commit(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows(1))
    assert table.restore(1).version == 1
    assert table.version == 1


def test_a_dry_run_returns_what_the_restore_then_does(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows(1))
    table.overwrite(rows(2))
    planned = table.restore(1, dry_run=True)
    assert (table.version, planned.version) == (2, None)
    assert str(planned) == "RestoreResult(version 1, 1 file restored, 1 file removed, dry run)"
    assert table.restore(1) == replace(planned, dry_run=False, version=3)


def test_schema_properties_and_partitioning_come_back(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows(1))
    table.set_properties({"owner": "me"})
    table.overwrite(pa.table({"n": ["x"]}), schema_mode="overwrite", partition_by=[])
    table.restore(1)
    snapshot = table.snapshot()
    assert (snapshot.schema.names, snapshot.partition_columns, dict(snapshot.properties)) == (
        ["id", "day"],
        ("day",),
        {},
    )
    table.append(rows(2))
    assert ids(table) == [1, 2]


@given(
    st.lists(st.sampled_from(["append", "delete", "overwrite", "day", "columns", "restore", "checkpoint"]), max_size=9),
    st.integers(0, 99),
    st.booleans(),
)
def test_after_any_history_the_restored_version_has_the_rows_and_columns_it_had(
    steps: list[str], pick: int, vectors: bool
) -> None:
    table, store = in_memory(delta_enableDeletionVectors=str(vectors).lower())
    next_id = 0
    for step in steps:
        next_id += 2
        match step:
            case "append":
                table.append(rows(next_id, next_id + 1, day="ab"[next_id % 4 // 2]))
            case "delete":
                table.delete(f"id % 3 = {next_id % 3}")
            case "overwrite":
                table.overwrite(rows(next_id), where="day = 'a'")
            case "day":
                table.delete("day = 'b'")
            case "columns":
                table.add_columns(f"c{next_id} int")
            case "restore":
                table.restore(pick % (table.version + 1))
            case "checkpoint":
                table.create_checkpoint()
    version = pick % (table.version + 1)
    before = table.snapshot(version).to_arrow()
    fresh = txlog.Table(OpenTable(store))
    done = fresh.restore(version)
    after = fresh.snapshot().to_arrow()
    assert after.schema == before.schema
    assert sorted(map(str, after.to_pylist())) == sorted(map(str, before.to_pylist()))
    assert done.files == fresh.snapshot().num_files


# --- files that are gone or may go ----------------------------------------------------------------------------------


def test_a_version_with_missing_files_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows(1))
    table.append(rows(2, day="b"))
    gone = min(data_files(table))
    table.overwrite(rows(3))
    gone.unlink()
    with pytest.raises(txlog.NotFoundError, match=r"1 of its files were vacuumed.*allow_missing_files") as caught:
        table.restore(2)
    assert caught.value.path == gone.relative_to(table.uri).as_posix()
    assert (table.version, ids(table)) == (3, [3])
    assert table.restore(2, dry_run=True).missing == (caught.value.path,)
    done = table.restore(2, allow_missing_files=True)
    assert (done.files_restored, done.files, done.missing) == (1, 1, (caught.value.path,))
    assert ids(table) == [2]


def test_a_file_with_a_missing_vector_is_left_out_since_deleted_rows_would_come_back(tmp_path: Path) -> None:
    table = make(tmp_path, delta_enableDeletionVectors="true")
    table.append(rows(*range(100_000)))
    table.delete("id % 3 = 0")
    table.delete("id % 3 = 1")
    for vector in sorted(Path(table.uri).rglob("*.bin"), key=os.path.getmtime)[:1]:
        vector.unlink()
    with pytest.raises(txlog.NotFoundError):
        table.restore(2)
    table.restore(2, allow_missing_files=True)
    assert ids(table) == []


def test_a_file_that_a_vacuum_may_be_deleting_is_refused_until_it_is_allowed(time: StoppedClock) -> None:
    table, _ = in_memory()
    table.append(rows(1))
    table.overwrite(rows(2))
    time.pass_hours(24 * 7 - 1)
    table.restore(1)
    assert ids(table) == [1]
    table.restore(2)
    time.pass_hours(24 * 7 - 1 + 1 / 3600)
    with pytest.raises(txlog.InvalidInputError, match=r"less an hour.*allow_expired_files"):
        table.restore(1)
    assert ids(table) == [2]
    table.restore(1, allow_expired_files=True)
    assert ids(table) == [1]


def test_a_file_that_stays_live_with_another_vector_does_not_expire(time: StoppedClock) -> None:
    table, _ = in_memory(delta_enableDeletionVectors="true")
    table.append(rows(1, 2, 3))
    table.delete("id = 2")
    time.pass_hours(24 * 30)
    table.restore(1)
    assert ids(table) == [1, 2, 3]


def test_an_expired_vector_of_a_file_that_stays_live_is_refused(time: StoppedClock) -> None:
    """A vacuum may be deleting the vector, and without it the deleted rows would come back."""
    table, _ = in_memory(delta_enableDeletionVectors="true")
    table.append(rows(*range(30_000)))
    table.delete("id % 3 = 0")
    table.delete("id % 3 = 1")
    time.pass_hours(24 * 30)
    with pytest.raises(txlog.InvalidInputError, match="allow_expired_files"):
        table.restore(2)
    table.restore(2, allow_expired_files=True)
    assert len(ids(table)) == 20_000


def test_a_file_that_goes_while_the_commit_is_under_way_is_an_error(tmp_path: Path) -> None:
    other = make(tmp_path)
    other.append(rows(1))
    other.overwrite(rows(2))
    removed = next(iter(set(data_files(other)) - {Path(other.uri, other.snapshot().files()["path"][0].as_py())}))
    store = open_store(other.uri)
    log = FaultyLogStore(store.log)
    log.script["put_if_absent"] = [lambda real, *call: (removed.unlink(), real(*call))[1]]
    table = txlog.Table(OpenTable(replace(store, log=log)))
    with pytest.raises(txlog.NotFoundError, match="version 3 restored version 1, but a vacuum deleted 1"):
        table.restore(1)
    assert other.history(1)[0]["operation"] == "RESTORE"


def test_a_restore_that_cannot_check_a_file_commits_nothing(tmp_path: Path) -> None:
    make(tmp_path).append(rows(1))
    store = open_store(tmp_path / "t")
    files = FaultyFileStore(store.files)
    table = txlog.Table(OpenTable(replace(store, files=files)))
    table.overwrite(rows(2))
    files.script["stat"] = [lambda real, *call: (_ for _ in ()).throw(txlog.StorageError("no answer"))]
    with pytest.raises(txlog.StorageError, match="no answer"):
        table.restore(1)
    assert (table.version, ids(table)) == (2, [2])


# --- what never moves back ------------------------------------------------------------------------------------------


def test_row_ids_continue_after_a_restore(tmp_path: Path) -> None:
    table = make(tmp_path, delta_enableRowTracking="true")
    table.append(rows(1, 2))
    table.append(rows(3, 4, 5))
    table.restore(1)
    table.append(rows(6))
    added = [line["add"] for line in commit_of(table, 4) if "add" in line]
    assert [add["baseRowId"] for add in added] == [5]
    first = [line["add"] for line in commit_of(table, 1) if "add" in line]
    table.restore(0)
    table.restore(1)
    again = [line["add"] for line in commit_of(table, 6) if "add" in line]
    assert [(add["baseRowId"], add["defaultRowCommitVersion"]) for add in again] == [
        (add["baseRowId"], add["defaultRowCommitVersion"]) for add in first
    ]


def row_ids(table: txlog.Table) -> list[range]:
    """The row ids of each live file, ascending; an empty range for a file without."""
    found = txlog.Table.open(table.uri).snapshot().files()
    facts = zip(found["baseRowId"].to_pylist(), found["stats"].to_pylist(), strict=True)
    ids = [range(0) if base is None else range(base, base + orjson.loads(stats)["numRecords"]) for base, stats in facts]
    return sorted(ids, key=lambda each: (each.start, each.stop))


def test_a_restore_to_before_row_tracking_was_dropped_leaves_it_off_and_reuses_no_row_id(tmp_path: Path) -> None:
    table = make(tmp_path, delta_enableRowTracking="true")
    table.append(rows(1, 2))
    table.append(rows(3, 4))
    table.append(rows(5, 6))
    table.delete("id < 3")
    table.drop_feature("rowTracking")
    table.restore(2)
    assert "delta.enableRowTracking" not in table.snapshot().properties, "files that stayed have no ids"
    assert ids(table) == [1, 2, 3, 4]
    table.append(rows(8))
    assert row_ids(table) == [range(0), range(6, 8), range(8, 9)], "0 to 5 were given before"
    table.set_properties({"delta.enableRowTracking": "true"})
    assert row_ids(table) == [range(6, 8), range(8, 9), range(9, 11)]


def test_a_restore_to_before_row_tracking_was_dropped_and_enabled_again_gives_new_row_ids(tmp_path: Path) -> None:
    table = make(tmp_path, delta_enableRowTracking="true")
    table.append(rows(1, 2))
    table.append(rows(3, 4))
    table.delete("id < 3")
    table.drop_feature("rowTracking")
    table.set_properties({"delta.enableRowTracking": "true"})
    columns = {key: text for key, text in table.snapshot().properties.items() if key.endswith("ColumnName")}
    assert row_ids(table) == [range(2)]
    table.restore(2)
    assert row_ids(table) == [range(2), range(4, 6)]
    assert table.snapshot().properties.items() >= columns.items(), "old files have ids in the old columns"
    table.append(rows(5))
    assert row_ids(table) == [range(2), range(4, 6), range(6, 7)]


def test_a_file_that_only_got_row_ids_after_the_feature_was_dropped_does_not_share_them(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows(1, 2))
    table.set_properties({"delta.feature.rowTracking": "supported"})
    table.append(rows(3, 4))
    version = table.version
    table.delete("id > 2")
    table.drop_feature("rowTracking")
    table.set_properties({"delta.enableRowTracking": "true"})
    assert row_ids(table) == [range(2)], "counted from the beginning again"
    table.restore(version)
    assert row_ids(table) == [range(2), range(2, 4)]


def test_a_restore_while_the_drop_of_row_tracking_is_half_done_promises_no_row_ids(tmp_path: Path) -> None:
    table = make(tmp_path, delta_enableRowTracking="true")
    table.append(rows(1, 2))
    table.append(rows(3))
    table.set_properties({"delta.enableRowTracking": "false"})
    take_row_ids(table._open_table)
    table.restore(2)
    assert table.snapshot().properties["delta.enableRowTracking"] == "false"
    assert row_ids(table) == [range(0), range(0)]


def test_a_restore_conflicts_with_files_that_lose_their_row_ids_meanwhile(tmp_path: Path) -> None:
    other = make(tmp_path, delta_enableRowTracking="true")
    other.append(rows(1, 2))
    other.append(rows(3))
    other.delete("id = 3")
    other.set_properties({"delta.enableRowTracking": "false", "delta.rowTrackingSuspended": "true"})
    store = open_store(other.uri)
    log = FaultyLogStore(store.log)
    log.script["put_if_absent"] = [lambda real, *call: (take_row_ids(other._open_table), real(*call))[1]]
    table = txlog.Table(OpenTable(replace(store, log=log)))
    with pytest.raises(txlog.ConflictError, match="changed what the log says of"):
        table.restore(1)


def test_mapped_column_ids_continue_after_a_restore(tmp_path: Path) -> None:
    table = make(tmp_path, delta_columnMapping_mode="name")
    table.add_columns("first int")
    table.restore(0)
    table.add_columns("second int")
    fields = table.snapshot().delta_schema.fields
    assert [field.metadata["delta.columnMapping.id"] for field in fields] == [1, 2, 4]


def test_column_ids_that_a_dropped_mapping_gave_are_not_given_again(tmp_path: Path) -> None:
    table = make(tmp_path, delta_columnMapping_mode="name")
    table.add_columns("first int")
    table.drop_feature("columnMapping")
    table.restore(0)
    table.add_columns("second int")
    fields = table.snapshot().delta_schema.fields
    assert [field.metadata["delta.columnMapping.id"] for field in fields] == [1, 2, 4]


@pytest.mark.parametrize("features", [("identityColumns",), ("columnMapping", "identityColumns"), ("columnMapping",)])
def test_identity_values_that_a_dropped_column_gave_are_not_given_again(
    tmp_path: Path, features: tuple[str, ...]
) -> None:
    mapping = {"column_mapping": "name"} if "columnMapping" in features else {}
    table = txlog.Table.create(tmp_path / "t", "n bigint generated always as identity, v int", **mapping)
    few = pa.table({"v": pa.array([1, 2], pa.int32())})
    table.append(few)
    if mapping:
        table.rename_column("n", "m")
    given: set[int] = set()
    for feature in features:
        table.append(few)
        given |= set(table.to_arrow()[0].to_pylist())
        table.drop_feature(feature)
        table = txlog.Table.open(table.uri)
    if features == ("columnMapping",):
        table.append(few)
        given |= set(table.to_arrow()[0].to_pylist())
    table.restore(1)
    txlog.Table.open(table.uri).append(few)
    assert len({*table.to_arrow()["n"].to_pylist()} - given) == 2


@pytest.mark.parametrize("was_gone", [False, True])
def test_numbers_put_aside_for_a_later_column_of_the_same_name_are_not_used_after_a_restore(
    tmp_path: Path, was_gone: bool
) -> None:
    metadata = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.highWaterMark": 5}
    field = {"name": "id", "type": "long", "nullable": True, "metadata": metadata}
    then, now = (state_of(tmp_path, name, {}, [field]) for name in ("then", "now"))
    plain = state_of(tmp_path, "between", {}, [{**field, "metadata": {}}])
    given = GivenNumbers(then)
    given.see([plain.metadata, now.metadata] if was_gone else [now.metadata])
    restored, _ = merged_definition(now, then, given, 0)
    assert (restored.created_time > now.metadata.created_time) == was_gone, "ranges belong to one time of creation"
    assert restored.schema_string == then.metadata.schema_string


@pytest.mark.parametrize(
    ("start", "step", "other", "continues_after"), [(1, 1, 5, 5), (1, 3, 5, 7), (-1, -2, -6, -7), (100, 1, 5, None)]
)
def test_a_later_column_of_the_same_name_at_most_leaves_identity_values_out(
    tmp_path: Path, start: int, step: int, other: int, continues_after: int | None
) -> None:
    def field(**reported: int) -> list[dict[str, Any]]:
        metadata = {f"delta.identity.{key}": number for key, number in reported.items()}
        return [{"name": "id", "type": "long", "nullable": True, "metadata": metadata}]

    then = state_of(tmp_path, "then", {}, field(start=start, step=step))
    later = state_of(tmp_path, "later", {}, field(start=0, step=step, highWaterMark=other))
    given = GivenNumbers(then)
    given.see([later.metadata])
    (marked,) = orjson.loads(given.marked(then.metadata).schema_string)["fields"]
    assert marked["metadata"].get("delta.identity.highWaterMark") == continues_after


def state_of(tmp_path: Path, name: str, configuration: dict[str, str], fields: list[dict[str, Any]]) -> Any:
    table = txlog.Table.create(tmp_path / name, "id bigint")
    state = table._open_table.log.newest_state()
    schema = orjson.dumps({"type": "struct", "fields": fields}).decode()
    metadata = replace(state.metadata, schema_string=schema, configuration=configuration)
    return replace(state, metadata=metadata)


@pytest.mark.parametrize(
    ("step", "older", "newest", "mark"),
    [(1, 5, 9, 9), (1, 9, 5, 9), (-1, -5, -9, -9), (-1, -9, -5, -9), (1, None, 7, 7), (1, 7, None, 7)],
)
def test_identity_columns_continue_where_they_were(
    tmp_path: Path, step: int, older: int | None, newest: int | None, mark: int
) -> None:
    def field(value: int | None) -> list[dict[str, Any]]:
        reported = {"delta.identity.step": step, "delta.identity.start": step}
        if value is not None:
            reported["delta.identity.highWaterMark"] = value
        return [{"name": "id", "type": "long", "nullable": True, "metadata": reported}]

    then, now = state_of(tmp_path, "then", {}, field(older)), state_of(tmp_path, "now", {}, field(newest))
    metadata, _ = merged_definition(now, then, GivenNumbers(then), 0)
    assert orjson.loads(metadata.schema_string)["fields"] == field(mark)


def test_clustering_comes_back_and_other_domains_stay(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", "id bigint")
    state = table._open_table.log.newest_state()
    own, clustering = DomainMetadata("mine", "{}", False), DomainMetadata("delta.clustering", "{}", False)
    with_it, without = (
        replace(state, domains={each.domain: each for each in found}) for found in ([own, clustering], [own])
    )
    assert list(restored_domains(without, with_it, GivenNumbers(with_it))) == [clustering]
    assert list(restored_domains(with_it, without, GivenNumbers(without))) == [replace(clustering, removed=True)]
    assert list(restored_domains(without, without, GivenNumbers(without))) == []


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (Protocol(1, 2), Protocol(1, 2), Protocol(1, 2)),
        (Protocol(1, 2), Protocol(1, 4), Protocol(1, 4)),
        (
            Protocol(3, 7, ("deletionVectors",), ("deletionVectors",)),
            Protocol(1, 2),
            Protocol(3, 7, ("deletionVectors",), ("appendOnly", "deletionVectors", "invariants")),
        ),
        (
            Protocol(1, 7, None, ("domainMetadata",)),
            Protocol(3, 7, ("future",), ("future", "rowTracking")),
            Protocol(3, 7, ("future",), ("domainMetadata", "future", "rowTracking")),
        ),
    ],
)
def test_a_merged_protocol_has_the_features_of_both(one: Protocol, other: Protocol, both: Protocol) -> None:
    assert merged(one, other) == both
    assert merged(both, one) is both


# --- beside others, and refusals ------------------------------------------------------------------------------------


def test_a_commit_that_lands_meanwhile_is_a_conflict(tmp_path: Path) -> None:
    other = make(tmp_path)
    other.append(rows(1))
    other.overwrite(rows(2))
    store = open_store(other.uri)
    log = FaultyLogStore(store.log)
    log.script["put_if_absent"] = [lambda real, *call: (other.append(rows(3)), real(*call))[1]]
    table = txlog.Table(OpenTable(replace(store, log=log)))
    with pytest.raises(txlog.ConflictError):
        table.restore(1)
    assert ids(other) == [2, 3]
    table.restore(1)
    assert ids(other) == [1]


def test_a_restore_that_finds_nothing_to_do_still_conflicts_with_rows_that_land_meanwhile(tmp_path: Path) -> None:
    """Two operators restore the same version, the second during an append: its answer must hold."""
    other = make(tmp_path)
    other.append(rows(1))
    other.overwrite(rows(2))
    other.restore(1)
    store = open_store(other.uri)
    log = FaultyLogStore(store.log)
    log.script["put_if_absent"] = [lambda real, *call: (other.append(rows(3)), real(*call))[1]]
    table = txlog.Table(OpenTable(replace(store, log=log)))
    with pytest.raises(txlog.ConflictError):
        table.restore(1)
    table.restore(1)
    assert ids(table) == [1]


def test_a_restore_of_an_append_only_table_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path, delta_appendOnly="true")
    table.append(rows(1))
    with pytest.raises(txlog.InvalidInputError, match="append-only"):
        table.restore(0)


def test_a_restore_needs_either_a_version_or_a_timestamp(tmp_path: Path) -> None:
    table = make(tmp_path)
    for arguments in ({}, {"version": 0, "timestamp": 0}):
        with pytest.raises(txlog.InvalidInputError, match="a version or a timestamp"):
            table.restore(**arguments)  # type: ignore[arg-type]
    with pytest.raises(txlog.NotFoundError):
        table.restore(7)


def test_a_table_that_keeps_iceberg_metadata_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(rows(1))
    commit = Path(table.uri, "_delta_log", f"{0:020}.json")
    lines = [orjson.loads(line) for line in commit.read_bytes().splitlines()]
    lines[0]["commitInfo"].pop("txlog", None)
    for line in lines:
        if "metaData" in line:
            line["metaData"]["configuration"]["delta.universalFormat.enabledFormats"] = "iceberg"
    commit.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    with pytest.raises(txlog.UnsupportedFeatureError, match="universalFormat"):
        txlog.Table.open(table.uri).restore(0)
