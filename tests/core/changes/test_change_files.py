"""Change files: every way to change rows writes what it did to each of them, in both ways of writing."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import txlog
from tests.losing_writer import losing_to
from txlog.audit.verify import verify_table
from txlog.errors import ConflictError, InvalidInputError

FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {**FEED, "delta.enableDeletionVectors": "true"}
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("n", pa.int64())])
MODES = pytest.mark.parametrize("properties", [VECTORS, FEED], ids=["vectors", "copies"])


def rows(*ids: int, n: int = 0, day: str | None = None) -> pa.Table:
    days = [day or ("even" if id % 2 == 0 else "odd") for id in ids]
    return pa.table({"id": ids, "day": days, "n": [n] * len(ids)}, SCHEMA)


def made(path: Path, properties: dict[str, str], *, partition_by: list[str] | None = None, **more: str) -> txlog.Table:
    by = ["day"] if partition_by is None else partition_by
    table = txlog.Table.create(str(path), SCHEMA, by, {**properties, **more})
    table.append(rows(*range(10)))
    return table


def reported(table: txlog.Table, first: int, last: int | None = None) -> list[tuple[str, int, int]]:
    """(change, id, n), sorted."""
    found = table.changes(first, last).read_all()
    names = ("_change_type", "id", "n")
    return sorted(zip(*(found.column(name).to_pylist() for name in names), strict=True))


def commit(table: txlog.Table, version: int) -> list[dict[str, Any]]:
    path = Path(table.uri) / "_delta_log" / f"{version:020}.json"
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def cdc(table: txlog.Table, version: int) -> list[dict[str, Any]]:
    return [line["cdc"] for line in commit(table, version) if "cdc" in line]


def metrics(table: txlog.Table, version: int) -> dict[str, str]:
    found: dict[str, str] = next(line["commitInfo"] for line in commit(table, version) if "commitInfo" in line)[
        "operationMetrics"
    ]
    return found


@MODES
def test_the_feed_shows_the_deleted_rows(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path / "t", properties)
    result = table.delete("id in (1, 2)")
    assert reported(table, 2) == [("delete", 1, 0), ("delete", 2, 0)]
    files = cdc(table, 2)
    assert len(files) == result.metrics.change_files == int(metrics(table, 2)["numAddedChangeFiles"]) == 2
    assert all(file["path"].startswith("_change_data/day=") and not file["dataChange"] for file in files)
    assert all((Path(table.uri) / file["path"]).stat().st_size == file["size"] for file in files)
    assert verify_table(table._open_table.store).is_sound


@MODES
def test_the_feed_shows_both_images_of_an_update_even_of_rows_that_move(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    table = made(tmp_path / "t", properties)
    table.update({"n": txlog.expr("n + id"), "day": txlog.expr("'moved'")}, "id = 3 or id = 4")
    expected = [("update_postimage", id, id) for id in (3, 4)] + [("update_preimage", id, 0) for id in (3, 4)]
    assert reported(table, 2) == expected
    days = {file["partitionValues"]["day"] for file in cdc(table, 2)}
    assert days == {"even", "odd", "moved"}


@MODES
def test_the_feed_shows_inserts_and_both_images_of_an_upsert(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path / "t", properties)
    table.upsert(rows(3, 30, n=7), ["id"])
    assert reported(table, 2) == [("insert", 30, 7), ("update_postimage", 3, 7), ("update_preimage", 3, 0)]
    assert metrics(table, 2)["numTargetChangeFilesAdded"] == str(len(cdc(table, 2)))
    table.upsert(rows(3, 31, n=8), ["id"], update_columns=["n"])
    assert reported(table, 3) == [("insert", 31, 8), ("update_postimage", 3, 8), ("update_preimage", 3, 7)]


@MODES
def test_columns_that_an_upsert_adds_are_in_its_change_files(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path / "t", properties)
    wider = rows(3, 30, n=7).append_column("note", pa.array(["new", "new"]))
    table.upsert(wider, ["id"], schema_mode="merge")
    found = table.changes(2).read_all().select(["_change_type", "id", "note"]).to_pylist()
    assert sorted((row["_change_type"], row["id"], row["note"]) for row in found if row["note"]) == [
        ("insert", 30, "new"),
        ("update_postimage", 3, "new"),
    ]
    assert [(row["_change_type"], row["id"]) for row in found if row["note"] is None] == [("update_preimage", 3)]


@MODES
def test_of_several_rows_with_one_key_one_is_updated_and_the_others_are_deleted(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    table = made(tmp_path / "t", properties)
    table.append(rows(3, 3))
    table.upsert(rows(3, n=7), ["id"])
    expected = [("delete", 3, 0)] * 2 + [("update_postimage", 3, 7), ("update_preimage", 3, 0)]
    assert reported(table, 3) == expected


@MODES
def test_the_feed_shows_each_clause_of_a_merge(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path / "t", properties)
    (
        table.merge(rows(1, 2, 50, n=5), "target.id = source.id")
        .when_matched_delete("source.id = 1")
        .when_matched_update({"n": txlog.expr("source.n")})
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete("target.id = 9")
        .execute()
    )
    assert reported(table, 2) == [
        ("delete", 1, 0),
        ("delete", 9, 0),
        ("insert", 50, 5),
        ("update_postimage", 2, 5),
        ("update_preimage", 2, 0),
    ]


@MODES
def test_the_feed_shows_deletes_and_inserts_of_an_overwrite_of_some_rows(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    table = made(tmp_path / "t", properties)
    table.overwrite(rows(1, 3, n=9), "id < 4 and day = 'odd'")
    expected = [("delete", 1, 0), ("delete", 3, 0), ("insert", 1, 9), ("insert", 3, 9)]
    assert reported(table, 2) == expected
    assert metrics(table, 2)["numAddedChangeFiles"] == str(len(cdc(table, 2))) != "0"
    wider = rows(5, n=1).append_column("note", pa.array(["new"]))
    table.overwrite(wider, "id = 5", schema_mode="merge")
    found = table.changes(3).read_all().select(["_change_type", "id", "note"]).to_pylist()
    assert [{**row} for row in sorted(found, key=lambda row: str(row["_change_type"]))] == [
        {"_change_type": "delete", "id": 5, "note": None},
        {"_change_type": "insert", "id": 5, "note": "new"},
    ]


@MODES
@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.append(rows(20)),
        lambda table: table.overwrite(rows(20)),
        lambda table: table.overwrite_partitions(rows(20)),
        lambda table: table.overwrite(rows(20), "day = 'even'"),
        lambda table: table.delete("day = 'even'"),
        lambda table: table.delete(all=True),
        lambda table: table.upsert(rows(90), ["id"]),
        lambda table: table.optimize(),
    ],
    ids=["append", "overwrite", "partitions", "partition", "delete", "delete all", "new keys", "optimize"],
)
def test_changes_of_whole_files_and_appends_write_no_change_files(
    tmp_path: Path, properties: dict[str, str], change: Callable[[txlog.Table], Any]
) -> None:
    table = made(tmp_path / "t", properties)
    table.append(rows(20, 21))
    change(table)
    assert not (Path(table.uri) / "_change_data").exists()
    assert_fold(table)


@MODES
def test_the_feed_shows_a_removed_file_and_one_that_loses_rows(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path / "t", properties)
    table.delete("day = 'odd' or id = 2")
    assert reported(table, 2) == [("delete", id, 0) for id in (1, 2, 3, 5, 7, 9)]
    assert cdc(table, 2)


@MODES
def test_a_delete_that_matches_no_row_writes_no_change_files(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path / "t", properties)
    assert table.delete("id = 99").version == 1
    assert not (Path(table.uri) / "_change_data").exists()


@pytest.mark.parametrize("mapping", ["name", "id"])
@MODES
def test_mapped_columns_are_in_the_feed_under_the_tables_names(
    tmp_path: Path, properties: dict[str, str], mapping: str
) -> None:
    table = made(tmp_path / "t", {**properties, "delta.columnMapping.mode": mapping})
    table.update({"n": txlog.expr("5")}, "id = 3")
    table.upsert(rows(3, n=6), ["id"])
    assert reported(table, 2, 2) == [("update_postimage", 3, 5), ("update_preimage", 3, 0)]
    assert reported(table, 3) == [("update_postimage", 3, 6), ("update_preimage", 3, 5)]


def in_one(table: txlog.Table, *steps: Callable[[txlog.Transaction], None]) -> None:
    with table.transaction() as txn:
        for step in steps:
            step(txn)


@MODES
def test_the_feed_of_a_table_that_tracks_rows_has_only_its_columns(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path / "t", {**properties, "delta.enableRowTracking": "true"})
    table.update({"n": txlog.expr("1")}, "id = 3")
    table.upsert(rows(4, 60, n=2), ["id"])
    table.overwrite(rows(5, n=3), "id = 5")
    assert reported(table, 2, 2) == [("update_postimage", 3, 1), ("update_preimage", 3, 0)]
    assert_fold(table)


# --- transactions ---------------------------------------------------------------------------------------------------


@MODES
def test_a_transaction_has_all_its_changes_in_change_files_if_it_has_any(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    table = made(tmp_path / "t", properties)
    with table.transaction() as txn:
        txn.append(rows(40))
        txn.delete("id = 2")
        txn.update({"n": txlog.expr("1")}, "id = 3")
    assert reported(table, 2) == [
        ("delete", 2, 0),
        ("insert", 40, 0),
        ("update_postimage", 3, 1),
        ("update_preimage", 3, 0),
    ]
    assert txn.result.metrics.change_files == len(cdc(table, 2)) > 0


@MODES
def test_a_file_that_loses_rows_twice_has_each_row_in_the_feed_once(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path / "t", properties)
    in_one(table, lambda txn: txn.delete("id = 1"), lambda txn: txn.delete("id = 3"))
    assert reported(table, 2) == [("delete", 1, 0), ("delete", 3, 0)]
    in_one(
        table,
        lambda txn: txn.delete("id = 2"),
        lambda txn: txn.delete("id = 4"),
        lambda txn: txn.remove_partitions("day = 'even'"),
    )
    assert reported(table, 3) == [("delete", id, 0) for id in (0, 2, 4, 6, 8)]
    assert_fold(table)


@MODES
@pytest.mark.parametrize(
    ("steps", "net"),
    [
        (
            [lambda txn: txn.append(rows(40, 41)), lambda txn: txn.update({"n": txlog.expr("1")}, "id = 40")],
            [("insert", 40, 1), ("insert", 41, 0)],
        ),
        ([lambda txn: txn.append(rows(40)), lambda txn: txn.upsert(rows(40, n=2), ["id"])], [("insert", 40, 2)]),
        ([lambda txn: txn.append(rows(40, 42)), lambda txn: txn.delete("id = 40")], [("insert", 42, 0)]),
        (
            [
                lambda txn: txn.update({"day": txlog.expr("'new'")}, "id = 3"),
                lambda txn: txn.remove_partitions("day = 'new'"),
            ],
            [("delete", 3, 0)],
        ),
        (
            [
                lambda txn: txn.update({"n": txlog.expr("n + 1")}, "id <= 1"),
                lambda txn: txn.update({"n": txlog.expr("n + 1")}, "id = 1"),
            ],
            [("delete", 0, 0), ("delete", 1, 0), ("insert", 0, 1), ("insert", 1, 2)],
        ),
        (
            [lambda txn: txn.delete("id = 4"), lambda txn: txn.overwrite(rows(6, 7, n=3), "id in (6, 7)")],
            [("delete", 4, 0), ("delete", 6, 0), ("delete", 7, 0), ("insert", 6, 3), ("insert", 7, 3)],
        ),
    ],
)
def test_rows_that_a_transaction_changes_twice_are_in_the_feed_by_their_net_change(
    tmp_path: Path, properties: dict[str, str], steps: list[Any], net: list[Any]
) -> None:
    table = made(tmp_path / "t", properties)
    in_one(table, *steps)
    assert reported(table, 2) == net
    assert_fold(table)
    assert verify_table(table._open_table.store).is_sound


@MODES
def test_a_transaction_that_leaves_every_row_as_it_was_changes_nothing_in_the_end(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    table = made(tmp_path / "t", properties)
    in_one(
        table,
        lambda txn: txn.update({"n": txlog.expr("5")}, "id = 1"),
        lambda txn: txn.update({"n": txlog.expr("0")}, "id = 1"),
    )
    assert_fold(table)
    in_one(table, lambda txn: txn.append(rows(40)), lambda txn: txn.delete("id = 40"))
    assert table.version == 2, "nothing was left to commit"


@MODES
@pytest.mark.parametrize("by", [["day"], []], ids=["partitions", "flat"])
def test_the_feed_shows_no_row_if_a_transaction_leaves_every_row_as_it_was(
    tmp_path: Path, properties: dict[str, str], by: list[str]
) -> None:
    table = made(tmp_path / "t", properties, partition_by=by)
    before = table.snapshot().to_arrow().num_rows
    in_one(table, lambda txn: txn.upsert(rows(1, n=5), ["id"]), lambda txn: txn.upsert(rows(1), ["id"]))
    assert reported(table, 2) == []
    assert len(cdc(table, 2)) == 1
    assert table.snapshot().to_arrow().num_rows == before
    assert pa.table(deltalake.DeltaTable(table.uri).load_cdf(2).read_all()).num_rows == 0
    assert verify_table(table._open_table.store).is_sound
    assert_fold(table)


# --- races ----------------------------------------------------------------------------------------------------------


@MODES
def test_the_feed_shows_what_a_change_did_when_it_reran(tmp_path: Path, properties: dict[str, str]) -> None:
    table, other = made(tmp_path / "t", properties, partition_by=[]), txlog.Table.open(str(tmp_path / "t"))

    def once(step: str, done: int, of: int | None) -> None:
        if other.version == 1:
            other.delete("id = 1")
            other.append(rows(3, 60, n=1))

    result = table.upsert(rows(1, 3, n=5), ["id"], on_progress=once)
    assert result.metrics.reexecutions
    assert reported(table, result.version) == [
        ("delete", 3, 1),
        ("insert", 1, 5),
        ("update_postimage", 3, 5),
        ("update_preimage", 3, 0),
    ] or reported(table, result.version) == [
        ("delete", 3, 0),
        ("insert", 1, 5),
        ("update_postimage", 3, 5),
        ("update_preimage", 3, 1),
    ]
    assert_fold(table)


@MODES
def test_a_retried_commit_reuses_its_change_files_if_the_winner_changed_other_rows(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    table = made(tmp_path / "t", properties)
    result = losing_to(table, lambda other: other.append(rows(70))).delete("id = 1")
    assert result.metrics.reexecutions == 1
    assert len(list((tmp_path / "t" / "_change_data").rglob("*.parquet"))) == 1
    assert reported(table, result.version) == [("delete", 1, 0)]


def test_a_change_that_fails_before_its_commit_leaves_no_change_file(tmp_path: Path) -> None:
    table = made(tmp_path / "t", VECTORS)
    other = txlog.Table.open(table.uri)

    def beside(step: str, done: int, of: int | None) -> None:
        if other.version == 1:
            other.delete("id = 2")

    with pytest.raises(ConflictError):
        table.delete("id = 2", on_conflict="fail", on_progress=beside)
    named = {file["path"] for version in range(table.version + 1) for file in cdc(table, version)}
    there = {str(path.relative_to(table.uri)) for path in Path(table.uri).glob("_change_data/**/*.parquet")}
    assert named == there


@MODES
def test_the_feed_of_concurrent_writers_adds_up_to_the_rows_of_the_table(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    table = made(tmp_path / "t", properties)

    def work(number: int) -> None:
        mine = txlog.Table.open(table.uri)
        for step in range(4):
            mine.upsert(rows(number, step, 100 + number, n=number), ["id"])
            mine.delete(f"id = {number} and n = {number}")

    threads = [threading.Thread(target=work, args=(number,)) for number in (4, 5, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert table.version > 12
    assert_fold(table)


# --- the feed adds up -----------------------------------------------------------------------------------------------

STEPS = st.tuples(
    st.sampled_from(["append", "delete", "update", "upsert", "columns", "merge", "overwrite", "partitions", "txn"]),
    st.integers(0, 9),
    st.sampled_from(["even", "odd", "new"]),
)


@given(st.lists(STEPS, min_size=1, max_size=6), st.sampled_from([VECTORS, FEED]))
@settings(max_examples=25)
def test_the_changes_from_any_version_lead_to_the_rows_of_any_later_one(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, str]], properties: dict[str, str]
) -> None:
    table = made(tmp_path_factory.mktemp("feed") / "t", properties)
    for kind, number, day in steps:
        _step(table, kind, number, day)
    assert_fold(table)
    assert verify_table(table._open_table.store).is_sound


def _step(table: txlog.Table, kind: str, number: int, day: str) -> None:
    source = rows(number, number + 1, number + 50, n=number, day=day)
    if kind == "append":
        table.append(source)
    elif kind == "delete":
        table.delete(f"id % 10 = {number} or day = '{day}' and id > 6")
    elif kind == "update":
        table.update({"n": txlog.expr("n + 1"), "day": txlog.expr(f"'{day}'")}, f"id % 3 = {number % 3}")
    elif kind == "upsert":
        table.upsert(source, ["id"])
    elif kind == "columns":
        table.upsert(source, ["id"], update_columns=["n"])
    elif kind == "merge":
        merge = table.merge(source, "target.id = source.id")
        merge = merge.when_matched_delete(f"target.id = {number}").when_matched_update_all()
        merge.when_not_matched_insert_all().execute()
    elif kind == "overwrite":
        table.overwrite(rows(number, n=3, day=day), f"id = {number}")
    elif kind == "partitions":
        table.overwrite_partitions(source)
    else:
        with table.transaction() as txn:
            txn.delete(f"id = {number}")
            txn.append(source)


def assert_fold(table: txlog.Table) -> None:
    """Each version's changes lead from the rows before it to its own, and each image has its other one."""
    names = list(table.snapshot().to_arrow().schema.names)
    held: Counter[str] = Counter()
    for version in range(table.version + 1):
        found = table.changes(version, version).read_all()
        kinds = Counter(found.column("_change_type").to_pylist())
        assert kinds["update_preimage"] == kinds["update_postimage"]
        for kind, row in zip(found.column("_change_type").to_pylist(), found.select(names).to_pylist(), strict=True):
            held[str(row)] += 1 if kind in ("insert", "update_postimage") else -1
        state = Counter(map(str, table.snapshot(version).to_arrow().select(names).to_pylist()))
        assert {row: count for row, count in held.items() if count} == state, version


# --- beside the feed ------------------------------------------------------------------------------------------------


@MODES
def test_deltalake_reads_the_same_changes(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path / "t", properties)
    table.upsert(rows(3, 30, n=7), ["id"])
    table.update({"n": txlog.expr("n + 1"), "day": txlog.expr("'moved'")}, "id > 7")
    table.delete("id % 3 = 0")
    table.overwrite(rows(1, n=4), "id = 1")
    ours = table.changes(0).read_all()
    theirs = pa.table(deltalake.DeltaTable(table.uri).load_cdf(0).read_all())
    names = [*SCHEMA.names, "_change_type", "_commit_version"]
    assert Counter(map(str, ours.select(names).to_pylist())) == Counter(map(str, theirs.select(names).to_pylist()))


@pytest.mark.parametrize("how", ["delete all", "delete some", "transaction"])
def test_deltalake_reads_the_same_changes_if_a_whole_file_with_a_vector_is_removed(tmp_path: Path, how: str) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), SCHEMA, properties={**VECTORS, **FEED})
    table.append(rows(1, 2, 3, 4))
    table.delete("id = 1")
    if how == "transaction":
        with table.transaction() as transaction:
            transaction.delete("id < 9")
    else:
        assert (table.delete(all=True) if how == "delete all" else table.delete("id > 1")).metrics.change_files == 1
    deltas = pa.table(deltalake.DeltaTable(table.uri).load_cdf(table.version).read_all())
    for found in (table.changes(table.version).read_all(), deltas):
        assert sorted(zip(found["_change_type"].to_pylist(), found["id"].to_pylist(), strict=True)) == [
            ("delete", 2),
            ("delete", 3),
            ("delete", 4),
        ]


def test_a_table_with_a_column_of_the_feed_cannot_turn_it_on(tmp_path: Path) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), "id bigint, _commit_version bigint")
    with pytest.raises(InvalidInputError, match="needs the name _commit_version"):
        table.set_properties(FEED)
    with pytest.raises(InvalidInputError, match="_change_type"):
        txlog.Table.create(str(tmp_path / "u"), "_change_type string", properties=FEED)
    fed = txlog.Table.create(str(tmp_path / "v"), "id bigint", properties=FEED)
    with pytest.raises(InvalidInputError, match="_change_type"):
        fed.add_columns("_change_type string")


def test_checkpoints_leave_change_files_out(tmp_path: Path) -> None:
    table = made(tmp_path / "t", VECTORS)
    table.delete("id = 1")
    table.create_checkpoint()
    table.compact_log()
    fresh = txlog.Table.open(table.uri)
    assert fresh.snapshot().to_arrow().num_rows == 9
    assert not any(file["path"].startswith("_change_data") for file in fresh.snapshot().files().to_pylist())
    assert verify_table(fresh._open_table.store).is_sound
