"""`Table.changes`: what each version inserted and deleted, from change files or from added and removed files."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path
from typing import Any

import deltalake
import orjson
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import txlog
from tests.other_writers import commit_files
from txlog.core.definition import Definition, commit_definition
from txlog.core.format.file_columns import add_files_of
from txlog.errors import InvalidInputError, NotFoundError
from txlog.result import in_milliseconds

FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "day": ["even" if id % 2 == 0 else "odd" for id in ids]}, SCHEMA)


def made(path: Path, properties: dict[str, str], *batches: pa.Table) -> txlog.Table:
    table = txlog.Table.create(str(path), SCHEMA, ["day"], properties)
    for batch in batches:
        table.append(batch)
    return table


def as_another_writer(table: txlog.Table) -> txlog.Table:
    """The table as a writer leaves it that had the feed on from the start, and needed no change files."""
    table._open_table.post_commit.drain()  # it may still write a checksum, which has the old properties
    log = Path(table.uri) / "_delta_log"
    lines = [orjson.loads(line) for line in (log / f"{0:020}.json").read_bytes().splitlines()]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["configuration"] |= FEED
    (log / f"{0:020}.json").write_bytes(b"\n".join(map(orjson.dumps, lines)) + b"\n")
    for name in log.glob("*.crc"):
        name.unlink()
    return txlog.Table.open(table.uri)


def reported(table: txlog.Table, first: int = 0, last: int | None = None, **more: Any) -> list[tuple[int, str, int]]:
    """(version, change, id), sorted within a version."""
    found = table.changes(first, last, **more).read_all()
    names = ("_commit_version", "_change_type", "id")
    listed = list(zip(*(found.column(name).to_pylist() for name in names), strict=True))
    assert [version for version, _, _ in listed] == sorted(version for version, _, _ in listed)
    return sorted(listed)


def test_added_and_removed_files_show_what_was_inserted_and_deleted(tmp_path: Path) -> None:
    table = made(tmp_path / "t", FEED, rows(1, 2), rows(3))
    table.overwrite_partitions(rows(5))
    assert reported(table) == [
        (1, "insert", 1),
        (1, "insert", 2),
        (2, "insert", 3),
        *[(3, "delete", 1), (3, "delete", 3), (3, "insert", 5)],
    ]
    assert reported(table, 2, 2) == [(2, "insert", 3)]


def test_a_file_with_another_vector_shows_the_rows_in_which_the_vectors_differ(tmp_path: Path) -> None:
    table = made(tmp_path / "t", VECTORS, rows(0, 2, 4, 6), rows(8))
    table.delete("id = 2")
    table.delete("id in (4, 8)")
    live = next(file for file in add_files_of(table.snapshot().files()) if file.deletion_vector is not None)
    with table.transaction() as txn:  # as RESTORE does: the file comes back without dead rows
        txn._builder.replace_vector(live, None)
    table = as_another_writer(table)
    gone = [(3, "delete", 2), (4, "delete", 4), (4, "delete", 8)]
    assert reported(table, 3) == [*gone, (5, "insert", 2), (5, "insert", 4)]


@pytest.mark.parametrize("id", [0, 2, 4, 6, 8, 10])
def test_a_row_that_dies_by_a_vector_is_found_at_both_ends_of_every_row_group(tmp_path: Path, id: int) -> None:
    table = made(tmp_path / "t", VECTORS)
    file = Path(table.uri) / "day=even" / "a.parquet"
    file.parent.mkdir()
    pq.write_table(rows(0, 2, 4, 6, 8, 10).drop(["day"]), file, row_group_size=2)
    commit_files(table, "day=even/a.parquet")
    table.delete(f"id = {id}")
    assert reported(as_another_writer(table), 2) == [(2, "delete", id)]


def test_the_columns_have_the_last_versions_types_and_include_the_feeds(tmp_path: Path) -> None:
    table = made(tmp_path / "t", FEED, rows(1))
    table.add_columns(pa.schema([("note", pa.string())]))
    table.append(pa.table({"id": [2], "day": ["even"], "note": ["new"]}))
    found = table.changes(0).read_all()
    assert found.schema.names == ["id", "day", "note", "_change_type", "_commit_version", "_commit_timestamp"]
    assert found.schema.types[-3:] == [pa.string(), pa.int64(), pa.timestamp("us", "UTC")]
    assert found.select(["id", "note"]).to_pylist() == [{"id": 1, "note": None}, {"id": 2, "note": "new"}]
    assert table.changes(0, 1).schema.names[:2] == ["id", "day"]
    assert "note" not in table.changes(0, 1).schema.names


def test_the_commit_timestamp_of_a_change_equals_the_one_in_history(tmp_path: Path) -> None:
    for name, properties in (("a", {}), ("b", {"delta.enableInCommitTimestamps": "true"})):
        table = made(tmp_path / name, {**FEED, **properties}, rows(1), rows(2))
        times = {entry["version"]: in_milliseconds(entry["timestamp"]) for entry in table.history()}
        for row in table.changes(0).read_all().to_pylist():
            expected = datetime.datetime.fromtimestamp(times[row["_commit_version"]] / 1000, datetime.timezone.utc)
            assert row["_commit_timestamp"] == expected


def test_columns_and_conditions_may_name_feed_columns(tmp_path: Path) -> None:
    table = made(tmp_path / "t", FEED, rows(1, 2, 3))
    table.overwrite_partitions(rows(7))
    feed = ["_change_type", "_commit_version", "_commit_timestamp"]
    assert table.changes(0, columns=["DAY", "_change_type"]).schema.names == ["day", *feed]
    assert table.changes(0, columns=[]).read_all().num_rows == 6
    assert reported(table, where="_change_type = 'delete' and id > 1") == [(2, "delete", 3)]
    assert reported(table, where="id = 7") == [(2, "insert", 7)]
    only = table.changes(0, columns=["day"], where="id = 2").read_all()
    assert only.column("day").to_pylist() == ["even"]
    assert reported(table, where=txlog.col("_commit_version") == 2, columns=["id"])[0] == (2, "delete", 1)


def test_the_stream_is_read_by_other_libraries(tmp_path: Path) -> None:
    table = made(tmp_path / "t", FEED, rows(1, 2))
    assert sorted(polars.DataFrame(table.changes(0))["id"]) == [1, 2]


def test_changes_from_the_next_version_are_empty_until_it_is_committed(tmp_path: Path) -> None:
    table = made(tmp_path / "t", FEED, rows(1))
    follower = txlog.Table.open(table.uri)
    assert reported(follower, 2) == []
    table.append(rows(2))
    assert reported(follower, 2) == [(2, "insert", 2)]


def test_versions_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    table = made(tmp_path / "t", FEED, rows(1))
    for arguments in ((3,), (2, 2), (0, 2)):
        with pytest.raises(NotFoundError, match="does not exist yet"):
            table.changes(*arguments)
    with pytest.raises(InvalidInputError, match="after to_version"):
        table.changes(1, 0)
    with pytest.raises(InvalidInputError, match=r"Invalid from_version .*: expected a whole number from 0"):
        table.changes(-1)
    with pytest.raises(InvalidInputError, match="no column 'z'"):
        table.changes(0, columns=["z"])
    with pytest.raises(InvalidInputError, match="list of names"):
        table.changes(0, columns="id")


def test_versions_at_which_the_feed_was_off_are_refused_by_number(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {}, rows(1))
    with pytest.raises(InvalidInputError, match="off at version 0"):
        table.changes(0)
    with pytest.raises(InvalidInputError, match="off at version 1"):
        table.changes(2)
    table.set_properties(FEED)
    table.append(rows(2))
    assert reported(table, 2) == [(3, "insert", 2)]
    table.unset_properties(["delta.enableChangeDataFeed"])
    assert reported(table, 2, 3) == [(3, "insert", 2)]
    with pytest.raises(InvalidInputError, match="off at version 4") as refused:
        table.changes(2)
    assert refused.value.version == 4


@pytest.mark.parametrize("without_rows", ["optimize", "set_properties"])
def test_what_an_overwrite_removed_is_checked_behind_versions_without_rows_too(
    tmp_path: Path, without_rows: str
) -> None:
    table = made(tmp_path / "t", {**FEED, "delta.columnMapping.mode": "name"}, rows(1), rows(3))
    if without_rows == "optimize":
        table.optimize()
    else:
        table.set_properties({"team": "x"})
    first = table.snapshot().version
    table.overwrite(pa.table({"id": ["x"], "day": ["odd"]}), schema_mode="overwrite")
    for begin in (first, first + 1):
        with pytest.raises(txlog.SchemaMismatchError, match=rf"rows that version {first + 1} removed"):
            table.changes(begin).read_all()


@pytest.mark.parametrize(("before", "after"), [(["day"], []), ([], ["day"])])
def test_rows_that_a_change_of_the_partitioning_removed_are_refused(
    tmp_path: Path, before: list[str], after: list[str]
) -> None:
    table = txlog.Table.create(tmp_path / "t", SCHEMA, before, FEED)
    table.append(rows(1, 2))
    version = table.overwrite(rows(3), schema_mode="overwrite", partition_by=after).version
    assert version is not None
    with pytest.raises(txlog.SchemaMismatchError, match="the partition columns were different"):
        table.changes(version).read_all()
    table.append(rows(4))
    assert reported(table, version + 1) == [(version + 1, "insert", 4)]


def test_a_schema_that_the_last_one_cannot_read_is_refused_unless_its_columns_are_left_out(tmp_path: Path) -> None:
    table = made(tmp_path / "t", FEED, rows(1))
    text = pa.table({"id": ["x"], "day": ["odd"]})
    table.overwrite(text, schema_mode="overwrite")
    with pytest.raises(InvalidInputError, match=r"rows of version 1 .* column id changed from bigint"):
        table.changes(0)
    assert table.changes(0, columns=["day"]).read_all().num_rows == 3
    with pytest.raises(InvalidInputError, match="column id"):
        table.changes(0, columns=["day"], where="id = 'x'")
    assert reported(table, 0, 1) == [(1, "insert", 1)]


def test_rows_that_the_first_version_removed_are_refused_if_they_had_another_type(tmp_path: Path) -> None:
    """Their file is healthy: it must not be called corrupt, with the advice to remove it."""
    table = made(tmp_path / "t", FEED, rows(1))
    table.overwrite(pa.table({"id": ["x"], "day": ["odd"]}), schema_mode="overwrite")
    with pytest.raises(txlog.SchemaMismatchError, match=r"version 2 removed .* id changed from bigint to string"):
        table.changes(2).read_all()
    assert table.changes(2, columns=["day"]).read_all().num_rows == 2


def test_a_restore_to_a_narrower_type_is_refused_and_the_way_back_is_read(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", "id int", properties={**FEED, "delta.enableTypeWidening": "true"})
    table.append(pa.table({"id": pa.array([1], pa.int32())}))
    table.alter_column("id", type="bigint")
    table.append(pa.table({"id": [2**40]}))
    table.restore(1)
    table.restore(3)
    with pytest.raises(txlog.SchemaMismatchError, match=r"version 4 removed .* column id changed from bigint to int"):
        table.changes(4, 4).read_all()
    assert table.changes(4).read_all()["_change_type"].to_pylist() == ["delete", "insert"]


def test_columns_that_stayed_the_same_are_read_though_the_partition_column_was_renamed(tmp_path: Path) -> None:
    table = made(tmp_path / "t", {**FEED, "delta.columnMapping.mode": "name"}, rows(1, 2, 4))
    table.delete("id = 2")
    state = table._open_table.log.newest_state()
    renamed = state.metadata.schema_string.replace('"name":"day"', '"name":"parity"')
    metadata = replace(state.metadata, schema_string=renamed, partition_columns=("parity",))
    commit_definition(table._open_table, state, Definition(metadata, None), "RENAME COLUMN", {})
    table.delete("id = 4")
    every = [(1, "insert", 1), (1, "insert", 2), (1, "insert", 4), (2, "delete", 2), (4, "delete", 4)]
    assert reported(table, columns=["id"]) == every
    assert reported(table, columns=["id"], where="id > 1") == [each for each in every if each[2] > 1]
    with pytest.raises(InvalidInputError, match="column day was renamed to parity"):
        table.changes(0)
    with pytest.raises(InvalidInputError, match="column day was renamed to parity"):
        table.changes(0, columns=["id"], where="parity = 'even'")


def test_versions_that_were_cleaned_up_are_refused(tmp_path: Path) -> None:
    table = made(tmp_path / "t", FEED, rows(1), rows(2), rows(3))
    table.create_checkpoint()
    (Path(table.uri) / "_delta_log" / f"{1:020}.json").unlink()
    table = txlog.Table.open(table.uri)
    with pytest.raises(NotFoundError, match="commit of version 1 was cleaned up"):
        table.changes(1)
    assert reported(table, 3) == [(3, "insert", 3)]


def test_files_that_were_vacuumed_are_refused_with_the_version_that_needs_them(tmp_path: Path) -> None:
    table = made(tmp_path / "t", FEED, rows(2), rows(4))
    first = {file["path"] for file in table.snapshot(1).files().to_pylist()}
    table.overwrite(rows(6))
    for path in first:
        (Path(table.uri) / path).unlink()
    with pytest.raises(NotFoundError, match=r"version 1 need .* a vacuum deleted it") as refused:
        table.changes(0).read_all()
    assert refused.value.version == 1
    assert reported(table, 2, 2) == [(2, "insert", 4)]


def test_changes_between_two_times_come_from_the_versions_committed_then(tmp_path: Path) -> None:
    table = made(tmp_path / "t", FEED, rows(1), rows(2), rows(3))
    times = {entry["version"]: in_milliseconds(entry["timestamp"]) for entry in table.history()}

    def between(**span: Any) -> list[int]:
        return table.changes(**span).read_all()["_commit_version"].to_pylist()

    assert between(from_timestamp=times[2]) == [2, 3]
    assert between(from_timestamp=times[1], to_timestamp=times[2]) == [1, 2]
    assert between(from_version=2, to_timestamp=times[3] + 86_400_000) == [2, 3]
    assert between(from_timestamp=times[3] + 1) == []
    assert between(from_timestamp=times[3] + 1, to_timestamp=times[3] + 1) == []
    for refused in ({}, {"from_version": 1, "from_timestamp": times[1]}, {"to_version": 1}):
        with pytest.raises(InvalidInputError, match="where the changes start"):
            table.changes(**refused)
    with pytest.raises(InvalidInputError, match="not both"):
        table.changes(1, 2, to_timestamp=times[2])
    with pytest.raises(InvalidInputError, match=r"from_timestamp .* is after to_timestamp"):
        table.changes(from_timestamp=times[2], to_timestamp=times[1])
    with pytest.raises(NotFoundError, match="the oldest that can be read"):
        table.changes(1, to_timestamp="2001-01-01")


def test_deletion_vectors_that_were_vacuumed_are_refused_with_the_version_that_needs_them(tmp_path: Path) -> None:
    table = made(tmp_path / "t", VECTORS, rows(2, 4))
    table.delete("id = 2")
    table = as_another_writer(table)
    for path in Path(table.uri).glob("**/*.bin"):
        path.unlink()
    with pytest.raises(NotFoundError, match=r"version 2 need .*deletion_vector"):
        table.changes(2).read_all()


@pytest.mark.parametrize("partition_by", [None, ["day"]])
def test_change_files_of_another_writer_are_read(tmp_path: Path, partition_by: list[str] | None) -> None:
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, rows(1, 2, 3, 4), partition_by=partition_by, configuration=FEED)
    theirs = deltalake.DeltaTable(path)
    theirs.update(predicate="id = 2", new_values={"day": "two"})
    theirs.delete("id = 3")
    table = txlog.Table.open(path)
    assert reported(table, 1) == [(1, "update_postimage", 2), (1, "update_preimage", 2), (2, "delete", 3)]
    assert table.changes(1, 1, where="_change_type = 'update_postimage'").read_all()["day"].to_pylist() == ["two"]


@given(st.lists(st.tuples(st.sampled_from(["append", "delete", "update", "optimize"]), st.integers(0, 9)), max_size=8))
@settings(max_examples=10)
def test_the_changes_from_any_version_lead_to_the_rows_of_any_later_one(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    table = made(tmp_path_factory.mktemp("feed") / "t", VECTORS, rows(*range(10)))
    for kind, number in steps:
        if kind == "append":
            table.append(rows(number, number + 100))
        elif kind == "delete":
            table.delete(f"id % 10 = {number}")
        elif kind == "update":
            table.update({"id": txlog.expr("id + 1")}, f"id % 10 = {number}")
        else:
            with table.transaction(data_change=False) as txn:
                live = txn.snapshot.files()["path"]
                txn.append(txn.snapshot.to_arrow())
                txn.remove(live)
    table = as_another_writer(table)
    newest = table.version
    states = [Counter(map(str, table.snapshot(v).to_arrow().to_pylist())) for v in range(newest + 1)]
    names = table.schema.names
    for first in range(newest + 1):
        held = Counter(states[first])
        for version in range(first + 1, newest + 1):
            found = table.changes(version, version).read_all()
            kinds = found.column("_change_type").to_pylist()
            for kind, row in zip(kinds, map(str, found.select(names).to_pylist()), strict=True):
                held[row] += 1 if kind in ("insert", "update_postimage") else -1
            assert {row: count for row, count in held.items() if count} == states[version]
