"""deltalake and txlog on one table: each reads what the other wrote, and both write to it, in turns."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from rows import as_rows, in_schema, read_by_deltalake
from sample_tables import SAMPLES, every_type

import txlog

IDS = pa.schema([("id", pa.int64()), ("part", pa.string())])


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "part": ["even" if i % 2 == 0 else "odd" for i in ids]}, schema=IDS)


def _ours(path: Path, version: int | None = None) -> pa.Table:
    return txlog.Table.open(path).snapshot(version).to_arrow()


def _theirs(path: Path, version: int | None = None) -> pa.Table:
    return read_by_deltalake(DeltaTable(str(path), version=version))


def _assert_both_see(path: Path, expected: pa.Table) -> None:
    for read in (_ours, _theirs):
        assert as_rows(in_schema(read(path), expected.schema)) == as_rows(expected), read


def _ids(path: Path) -> list[int]:
    """What both see, which is the same."""
    ours = sorted(_ours(path).column("id").to_pylist())
    assert sorted(_theirs(path).column("id").to_pylist()) == ours
    return ours


def _without_commits_below_the_checkpoint(path: Path, copy: Path) -> Path:
    """A copy of the table whose readers have to start from its newest checkpoint."""
    shutil.copytree(path, copy)
    log = copy / "_delta_log"
    (checkpoint,) = log.glob("*.checkpoint.parquet")
    version = int(checkpoint.name.split(".")[0])
    for commit in log.glob("*.json"):
        if int(commit.name.split(".")[0]) < version:
            commit.unlink()
    return copy


# --- we read what deltalake wrote ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLES)
def test_we_read_the_rows_that_deltalake_wrote(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    for rows in sample.appends:
        # A copy: deltalake aborts the process on a slice of a struct within a struct.
        whole = rows.take(pa.array(range(rows.num_rows), pa.int64()))
        write_deltalake(str(tmp_path / "t"), whole, mode="append", partition_by=list(sample.partition_by))
    found = _ours(tmp_path / "t")
    assert as_rows(in_schema(found, sample.rows.schema)) == as_rows(sample.rows)


@pytest.mark.parametrize("properties", [{}, {"delta.checkpoint.writeStatsAsStruct": "true"}])
def test_we_read_deltalakes_checkpoint_and_the_commits_after_it(properties: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), every_type(), configuration=properties)
    for _ in range(3):
        write_deltalake(str(path), every_type(), mode="append")
    DeltaTable(str(path)).delete("integer = 0")
    DeltaTable(str(path)).create_checkpoint()
    write_deltalake(str(path), every_type(), mode="append")
    copy = _without_commits_below_the_checkpoint(path, tmp_path / "copy")
    expected = in_schema(_theirs(path), every_type().schema)
    assert expected.num_rows == 4 * 3 + 4
    assert as_rows(_ours(copy)) == as_rows(expected)
    assert as_rows(_ours(path)) == as_rows(expected)


def test_we_read_rows_of_before_deltalake_merged_a_wider_schema(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), pa.table({"id": [1], "s": [{"a": 1}]}))
    wider = pa.table({"id": [2], "s": [{"a": 2, "b": "x"}], "new": [1.5]})
    write_deltalake(str(path), wider, mode="append", schema_mode="merge")
    assert sorted(_ours(path).to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "s": {"a": 1, "b": None}, "new": None},
        {"id": 2, "s": {"a": 2, "b": "x"}, "new": 1.5},
    ]


def test_we_read_deltalakes_deletes_updates_merges_and_overwrites_version_by_version(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), _rows(*range(10)), partition_by=["part"])
    DeltaTable(str(path)).delete("id = 3")
    DeltaTable(str(path)).update(updates={"id": "id + 100"}, predicate="part = 'odd' and id > 5")
    DeltaTable(str(path)).merge(
        _rows(2, 50), "t.id = s.id", source_alias="s", target_alias="t"
    ).when_matched_delete().when_not_matched_insert_all().execute()
    write_deltalake(str(path), _rows(1000), mode="overwrite", predicate="part = 'even'")
    DeltaTable(str(path)).optimize.compact()
    newest = DeltaTable(str(path)).version()
    assert newest >= 4
    for version in range(newest + 1):
        assert as_rows(_ours(path, version)) == as_rows(in_schema(_theirs(path, version), IDS)), version


def test_a_table_of_deltalakes_with_deletion_vectors_off_takes_our_appends(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), _rows(1, 2), configuration={"delta.appendOnly": "true"})
    txlog.Table.open(path).append(_rows(3))
    assert _ids(path) == [1, 2, 3]
    with pytest.raises(txlog.InvalidInputError, match="appendOnly"):
        txlog.Table.open(path).overwrite(_rows(4))


def test_constraints_that_we_cannot_check_are_named_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), _rows(1))
    DeltaTable(str(path)).alter.add_constraint({"hashed": "md5(cast(id as string)) <> ''"})
    before = sorted(path.rglob("*"))
    with pytest.raises(txlog.UnsupportedFeatureError) as caught:
        txlog.Table.open(path).append(_rows(2))
    assert "checkConstraints" in caught.value.features
    assert sorted(path.rglob("*")) == before
    assert _ours(path).num_rows == 1


def test_a_column_mapped_table_of_deltalakes_takes_our_appends(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), _rows(1), configuration={"delta.columnMapping.mode": "name"})
    txlog.Table.open(path).append(_rows(2))
    assert _ids(path) == [1, 2]
    assert sorted(_ours(path)["id"].to_pylist()) == [1, 2]


def test_a_row_tracking_table_of_deltalakes_takes_our_appends_with_row_ids(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(str(path), _rows(1))
    DeltaTable(str(path)).alter.add_feature(deltalake.TableFeatures.RowTracking, True)
    txlog.Table.open(path).append(_rows(2, 3))
    txlog.Table.open(path).append(_rows(4))
    assert _ids(path) == [1, 2, 3, 4]
    log = sorted((path / "_delta_log").glob("*.json"))[-2:]
    adds = [json.loads(line)["add"] for name in log for line in name.read_text().splitlines() if '"add"' in line]
    assert [(add["baseRowId"], add["defaultRowCommitVersion"]) for add in adds] == [(0, 2), (2, 3)]


# --- deltalake reads what we wrote --------------------------------------------------------------------------------


@pytest.mark.parametrize("properties", [{}, {"delta.checkpoint.writeStatsAsStruct": "false"}])
def test_deltalake_reads_our_checkpoint_and_the_commits_after_it(properties: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = txlog.Table.create(path, every_type().schema, partition_by=["boolean"], properties=properties)
    for number in range(3):
        table.append(every_type(), app_id="app", checkpoint_id=number)
    table.overwrite(every_type())
    table.append(every_type())
    version = table.create_checkpoint()
    table.append(every_type())
    copy = _without_commits_below_the_checkpoint(path, tmp_path / "copy")
    expected = pa.concat_tables([every_type()] * 3)
    _assert_both_see(copy, expected)
    assert DeltaTable(str(copy)).transaction_version("app") == 2
    assert as_rows(in_schema(_theirs(copy, version), expected.schema)) == as_rows(pa.concat_tables([every_type()] * 2))


def test_deltalake_travels_through_our_versions(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = txlog.Table.create(path, IDS, partition_by=["part"])
    table.append(_rows(1, 2))
    table.overwrite(_rows(3))
    table.add_columns(pa.schema([("new", pa.float64())]))
    table.append(pa.table({"id": [4], "part": ["even"], "new": [1.5]}))
    for version in range(5):
        assert as_rows(_ours(path, version)) == as_rows(in_schema(_theirs(path, version), _ours(path, version).schema))


def test_deltalake_reads_our_history(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = txlog.Table.create(path, IDS, user_metadata="made by a test")
    table.append(_rows(1, 2))
    table.overwrite(_rows(3))
    table.set_properties({"delta.appendOnly": "true"})
    reported = DeltaTable(str(path)).history()
    assert [(entry["version"], entry["operation"]) for entry in reported] == [
        (3, "SET TBLPROPERTIES"),
        (2, "WRITE"),
        (1, "WRITE"),
        (0, "CREATE TABLE"),
    ]
    assert reported[1]["operationParameters"]["mode"] == "Overwrite"
    assert reported[-1]["userMetadata"] == "made by a test"


def test_deltalake_sees_the_statistics_that_we_wrote(tmp_path: Path) -> None:
    path = tmp_path / "t"
    txlog.write(path, every_type().slice(0, 2))
    (reported,) = pa.table(DeltaTable(str(path)).get_add_actions(flatten=True)).to_pylist()
    assert (reported["num_records"], reported["null_count.integer"]) == (2, 0)
    assert (reported["min.integer"], reported["max.integer"]) == (-(2**31), 2**31 - 1)
    assert (reported["min.long"], reported["max.long"]) == (-(2**63), 2**63 - 1)
    assert reported["min.struct.a"] == 1


# --- both write ---------------------------------------------------------------------------------------------------


def test_both_append_in_turns_with_checkpoints_of_either(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = txlog.Table.create(path, IDS, partition_by=["part"])
    for number in range(12):
        if number % 2:
            write_deltalake(str(path), _rows(number), mode="append")
        else:
            table.append(_rows(number))
        if number == 4:
            table.create_checkpoint()
        if number == 9:
            DeltaTable(str(path)).create_checkpoint()
        assert _ids(path) == list(range(number + 1))
    assert table.snapshot().version == DeltaTable(str(path)).version() == 12
    assert sorted(table.snapshot().to_arrow().column("id").to_pylist()) == list(range(12))


def test_a_handle_continues_after_deltalake_rewrote_the_table(tmp_path: Path) -> None:
    """Delete, update, merge, compaction and vacuum by deltalake, each followed by an append of the same handle."""
    path = tmp_path / "t"
    table = txlog.Table.create(path, IDS, partition_by=["part"])
    for number in range(6):
        table.append(_rows(number))
    DeltaTable(str(path)).delete("id = 0")
    table.append(_rows(6))
    DeltaTable(str(path)).update(updates={"id": "id + 100"}, predicate="id = 1")
    table.append(_rows(7))
    DeltaTable(str(path)).optimize.compact()
    table.append(_rows(8))
    DeltaTable(str(path)).optimize.z_order(["id"])
    table.append(_rows(9))
    DeltaTable(str(path)).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    table.append(_rows(10))
    assert _ids(path) == [2, 3, 4, 5, 6, 7, 8, 9, 10, 101]
    assert sorted(table.snapshot().to_arrow().column("id").to_pylist()) == _ids(path)


def test_both_compact_restore_and_vacuum_copies_of_a_table_alike(tmp_path: Path) -> None:
    """After each command both copies have the same rows, and as many files in each partition."""
    table = txlog.Table.create(tmp_path / "ours", IDS, partition_by=["part"])
    for number in range(8):
        table.append(_rows(number, number + 10, 11 * number))
    table.delete("id % 7 = 3")
    shutil.copytree(tmp_path / "ours", tmp_path / "theirs")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    before = table.version
    commands = [
        (table.optimize, lambda: DeltaTable(str(theirs)).optimize.compact()),
        (lambda: table.restore(before - 4), lambda: DeltaTable(str(theirs)).restore(before - 4)),
        (lambda: table.optimize("part = 'odd'"), lambda: _compacted(theirs, "odd")),
        (lambda: table.vacuum(0, force=True), lambda: _vacuumed(theirs)),
    ]
    for mine, other in commands:
        mine()
        other()
        assert _ids(ours) == _ids(theirs)
        assert _files_by_partition(ours) == _files_by_partition(theirs)
    assert _data_files(ours) == _data_files(theirs)


def _compacted(path: Path, part: str) -> None:
    DeltaTable(str(path)).optimize.compact(partition_filters=[("part", "=", part)])


def _vacuumed(path: Path) -> None:
    DeltaTable(str(path)).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def _files_by_partition(path: Path) -> dict[str, int]:
    files = txlog.Table.open(path).snapshot().files()
    parts = [dict(values)["part"] for values in files["partitionValues"].to_pylist()]
    return {part: parts.count(part) for part in parts}


def _data_files(path: Path) -> dict[str, int]:
    return {each.name: len(list(each.glob("*.parquet"))) for each in path.glob("part=*")}


def test_deltalake_rewrites_what_we_wrote(tmp_path: Path) -> None:
    path = tmp_path / "t"
    txlog.write(path, every_type(), partition_by=["boolean"])
    txlog.write(path, every_type())
    DeltaTable(str(path)).optimize.compact()
    DeltaTable(str(path)).delete("integer is null")
    expected = pa.concat_tables([every_type().take([0, 1, 3])] * 2)
    _assert_both_see(path, expected)


@pytest.mark.parametrize("texts", [["Zürich", "Bern"], ["a b", "日本"]])
def test_deltalake_deletes_from_and_compacts_partitions_of_any_letters(texts: list[str], tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("größe", pa.string())]), ["größe"])
    table.append(pa.table({"id": [1, 2, 3], "größe": [texts[0], texts[0], texts[1]]}))
    table.append(pa.table({"id": [4], "größe": texts[:1]}))
    DeltaTable(str(tmp_path / "t")).delete("id = 1")
    assert _ids(tmp_path / "t") == [2, 3, 4]
    DeltaTable(str(tmp_path / "t")).optimize.compact()
    assert _ids(tmp_path / "t") == [2, 3, 4]


def test_files_with_views_that_deltalake_merged_are_changed_and_read_by_us(tmp_path: Path) -> None:
    """Its files have string views, of which Arrow takes no rows."""

    def rows(*ids: int) -> pa.Table:
        texts = [f"{number}" for number in ids]
        return pa.table({"id": list(ids), "text": texts, "tags": [[text] for text in texts]})

    table = txlog.Table.create(tmp_path / "t", rows(1).schema, properties={"delta.enableChangeDataFeed": "true"})
    table.append(rows(1, 2, 3))
    merge = DeltaTable(str(tmp_path / "t")).merge(rows(2, 9, 10), "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    table.update({"text": txlog.expr("'new'"), "tags": txlog.expr("array('a', 'b')")}, "id = 9")
    table.set_properties({"delta.enableDeletionVectors": "true"})
    table.delete("id = 10")
    expected = {1: ("1", ["1"]), 2: ("2", ["2"]), 3: ("3", ["3"]), 9: ("new", ["a", "b"])}
    for read in (table.to_arrow(), table.to_dataset().to_table()):
        assert {row["id"]: (row["text"], row["tags"]) for row in read.to_pylist()} == expected
    assert table.purge().files_removed == 1
    assert {row["id"]: (row["text"], row["tags"]) for row in table.to_arrow().to_pylist()} == expected


def test_txlog_and_deltalake_read_each_others_transaction_versions(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = txlog.Table.create(path, IDS)
    table.append(_rows(1), app_id="ours", checkpoint_id=7)
    properties = CommitProperties(app_transactions=[Transaction("theirs", 3)])
    write_deltalake(str(path), _rows(2), mode="append", commit_properties=properties)
    assert DeltaTable(str(path)).transaction_version("ours") == 7
    assert table.snapshot().transaction_version("theirs") == 3
    assert table.append(_rows(2), app_id="theirs", checkpoint_id=3).outcome == "already_committed"
    assert _ids(path) == [1, 2]


def test_txlog_and_deltalake_add_columns_to_one_table_in_turns(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = txlog.Table.create(path, IDS)
    table.append(pa.table({"id": [1], "part": ["odd"], "new": [1.5]}), schema_mode="merge")
    write_deltalake(
        str(path),
        pa.table({"id": [2], "part": ["even"], "new": [2.5], "more": ["x"]}),
        mode="append",
        schema_mode="merge",
    )
    table.append(pa.table({"id": [3], "part": ["odd"], "new": [None], "more": ["y"]}))
    expected = pa.table(
        {"id": [1, 2, 3], "part": ["odd", "even", "odd"], "new": [1.5, 2.5, None], "more": [None, "x", "y"]}
    )
    _assert_both_see(path, expected)


def test_an_append_of_deltalakes_during_our_serializable_transaction_is_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = txlog.Table.create(path, IDS)
    table.append(_rows(1))

    def rows_with_a_rival() -> object:
        yield _rows(2).to_batches()[0]
        write_deltalake(str(path), _rows(3), mode="append")

    def read_and_append() -> None:
        with table.transaction(isolation="Serializable") as transaction:
            transaction.read()
            transaction.append(rows_with_a_rival())

    with pytest.raises(txlog.ConcurrentAppendError) as caught:
        read_and_append()
    assert caught.value.winner_version == 2
    assert _ids(path) == [1, 3]


def test_deltalake_appends_during_our_append_and_both_are_there(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = txlog.Table.create(path, IDS)

    def rows_with_a_rival() -> object:
        yield _rows(1).to_batches()[0]
        write_deltalake(str(path), _rows(2), mode="append")

    result = table.append(rows_with_a_rival())
    assert result.version == 2
    assert _ids(path) == [1, 2]
