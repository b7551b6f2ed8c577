"""Many small files: one change reads each once, and copies those of a partition together."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import txlog
from tests.bucket import Bucket
from tests.other_writers import commit_files
from tests.watched import noted_reads
from txlog.audit.verify import verify_table
from txlog.core.changes.tasks import _opened_once as opened_once
from txlog.core.changes.tasks import _rewrite as rewrite
from txlog.core.changes.tasks import _row_work as row_work
from txlog.core.changes.tasks import _small_files as small_files
from txlog.core.reading import _scan_task as scan_task

VECTORS = {"delta.enableDeletionVectors": "true"}
Row = tuple[str, int, int]


def arrow(rows: list[Row]) -> pa.Table:
    days, ids, values = zip(*rows, strict=True)
    return pa.table({"day": pa.array(days), "id": pa.array(ids, pa.int64()), "v": pa.array(values, pa.int64())})


def made(path: Path, properties: dict[str, str]) -> tuple[txlog.Table, list[Row]]:
    """Three files of three rows in each of two days; in the first file, the row 1 is deleted."""
    table = txlog.Table.create(path, arrow([("a", 0, 0)]).schema, partition_by=["day"], properties=properties)
    rows = [
        (day, 10 * number + 3 * at + row, row) for number, day in enumerate("ab") for at in range(3) for row in range(3)
    ]
    for first in range(0, len(rows), 3):
        table.append(arrow(rows[first : first + 3]))
    table.delete("id = 1")
    return table, [row for row in rows if row[1] != 1]


def merged(table: txlog.Table, rows: pa.Table) -> Any:
    merge = table.merge(rows, "target.id = source.id AND target.day = source.day")
    updated = merge.when_matched_update({"v": txlog.expr("target.v + source.v")}, predicate="source.v < 9")
    return updated.when_matched_delete().when_not_matched_insert_all().execute()


NEW: list[Row] = [("a", 3, 5), ("a", 8, 9), ("b", 10, 6), ("b", 14, 7), ("b", 17, 9), ("b", 99, 1)]


def after_merge(rows: list[Row]) -> list[Row]:
    new = {row[1]: row[2] for row in NEW}
    kept = [(day, id, v + new.get(id, 0)) for day, id, v in rows if new.get(id) != 9]
    return [*kept, ("b", 99, 1)]


def after_upsert(rows: list[Row]) -> list[Row]:
    return [*(row for row in rows if row[1] not in {new[1] for new in NEW}), *NEW]


CHANGES: dict[str, tuple[Callable[[txlog.Table], Any], Callable[[list[Row]], list[Row]]]] = {
    "update": (
        lambda table: table.update({"v": txlog.expr("v + id")}, "v = 1 OR id = 3"),
        lambda rows: [(day, id, v + id) if v == 1 or id == 3 else (day, id, v) for day, id, v in rows],
    ),
    "delete": (
        lambda table: table.delete("v = 1 OR id < 3"),
        lambda rows: [r for r in rows if r[2] != 1 and r[1] >= 3],
    ),
    "merge": (lambda table: merged(table, arrow(NEW)), after_merge),
    "upsert": (lambda table: table.upsert(arrow(NEW), ["day", "id"]), after_upsert),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    ("properties", "joined", "held"),
    [
        ({}, 200, None),
        ({}, 200, 0),
        (VECTORS, 200, None),
        ({"delta.enableChangeDataFeed": "true"}, None, None),
        ({"delta.enableRowTracking": "true"}, None, None),
    ],
    ids=["copies", "copies of files that are read again", "vectors", "feed", "row ids"],
)
def test_a_change_of_many_small_files_is_that_of_each(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    properties: dict[str, str],
    joined: int | None,
    held: int | None,
) -> None:
    table, rows = made(tmp_path / "t", properties)
    if held is not None:
        monkeypatch.setattr(small_files, "HELD_BYTES", held)
    if joined is not None:
        monkeypatch.setattr(scan_task, "COLUMN_BYTES", 1)
        monkeypatch.setattr(small_files, "JOINED_BYTES", joined)
    make, expected = CHANGES[change]
    make(table)
    found = [tuple(row.values()) for row in table.snapshot().to_arrow(columns=["day", "id", "v"]).to_pylist()]
    assert sorted(found) == sorted(expected(rows))
    assert verify_table(table._open_table.store).is_sound
    if "delta.enableChangeDataFeed" in properties:
        last = table.changes(table.version).read_all().to_pylist()
        old = [(r["day"], r["id"], r["v"]) for r in last if r["_change_type"] in ("delete", "update_preimage")]
        new = [(r["day"], r["id"], r["v"]) for r in last if r["_change_type"] in ("insert", "update_postimage")]
        assert sorted(old) == sorted({*rows} - {*expected(rows)})
        assert sorted(new) == sorted({*expected(rows)} - {*rows})


@pytest.mark.parametrize(
    ("properties", "room"),
    [({}, None), ({}, 2_000), (VECTORS, None), ({"delta.enableRowTracking": "true"}, 2_000)],
    ids=["copies", "little room", "vectors", "row ids"],
)
def test_a_change_of_many_small_files_in_an_object_store_is_that_of_each(
    monkeypatch: pytest.MonkeyPatch, properties: dict[str, str], room: int | None
) -> None:
    if room is not None:
        monkeypatch.setattr(row_work, "TRIED", 1)
        for module, name in [(row_work, "FETCHED_BYTES"), (opened_once, "KEPT_BYTES"), (small_files, "HELD_BYTES")]:
            monkeypatch.setattr(module, name, room)
    bucket = Bucket(schema=arrow([("a", 0, 0)]).schema, partition_by=["day"], properties=properties)
    table, rows = bucket.opened(), [("ab"[id // 9], id, id % 3) for id in range(18)]
    for first in range(0, len(rows), 3):
        table.append(arrow(rows[first : first + 3]))
    for change in ("update", "merge", "upsert", "delete"):
        make, expected = CHANGES[change]
        make(table)
        rows = expected(rows)
        found = table.snapshot().to_arrow(columns=["day", "id", "v"]).to_pylist()
        assert sorted(tuple(row.values()) for row in found) == sorted(rows)
    assert verify_table(bucket.store).is_sound


def test_a_missing_small_file_in_an_object_store_is_named() -> None:
    bucket = Bucket(3)
    path = bucket.opened().snapshot().files()["path"][1].as_py()
    bucket.files.delete(path)
    with pytest.raises(txlog.NotFoundError, match=path):
        bucket.opened().delete("id = 1 and id + 1 = 2")


@pytest.mark.parametrize("change", [lambda table: table.update({"v": 7}, "id = 1"), lambda table: table.optimize()])
def test_files_without_a_row_of_other_writers_are_read_with_the_others(
    tmp_path: Path, change: Callable[[txlog.Table], object]
) -> None:
    table = txlog.Table.create(tmp_path, pa.schema([("id", pa.int64()), ("v", pa.int32())]))
    for name, rows in (("a.parquet", []), ("b.parquet", []), ("c.parquet", [1, 2])):
        pq.write_table(pa.table({"v": pa.array(rows, pa.int32()), "id": pa.array(rows, pa.int64())}), tmp_path / name)
        commit_files(table, name)
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), tmp_path / "d.parquet")
    commit_files(table, "d.parquet")
    change(table)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2]


def test_the_copies_of_small_files_are_one_file_for_each_partition(tmp_path: Path) -> None:
    table, _ = made(tmp_path, {})
    assert table.update({"v": 7}, "v = 2").metrics.files == 2


def test_small_files_for_which_memory_has_no_room_are_read_together_for_their_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, _ = made(tmp_path, {})
    monkeypatch.setattr(small_files, "HELD_BYTES", 0)
    together: list[int] = []
    read = scan_task.TaskReader.whole

    def noted(reader: scan_task.TaskReader, *arguments: Any) -> Any:
        found = read(reader, *arguments)
        together.append(len(found[1]))
        return found

    monkeypatch.setattr(scan_task.TaskReader, "whole", noted)
    table.delete("v = 2")
    assert together == [6, 6], "for the condition, and for the copies"


def test_a_file_whose_rows_take_much_memory_is_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, rows = made(tmp_path, {})
    monkeypatch.setattr(small_files, "JOINED_BYTES", 10)
    table.update({"v": 7}, "v = 2")
    found = table.snapshot().to_arrow(columns=["day", "id", "v"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == sorted((d, id, 7 if v == 2 else v) for d, id, v in rows)


@pytest.mark.parametrize("at_once", [4, 1 << 14])
def test_new_rows_that_need_no_column_of_the_old_ones_are_made_for_all_files_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(rewrite, "FEW_ROWS", at_once)
    table, rows = made(tmp_path, VECTORS)
    assert table.update({"day": txlog.lit("c"), "id": 1, "v": 2}).metrics.rows_updated == len(rows)
    assert table.to_arrow().select(["day", "id", "v"]).to_pylist() == [{"day": "c", "id": 1, "v": 2}] * len(rows)


@pytest.mark.parametrize("properties", [{}, VECTORS], ids=["copies", "vectors"])
def test_no_row_stays_in_memory_after_the_change(tmp_path: Path, properties: dict[str, str]) -> None:
    table = txlog.Table.create(tmp_path, pa.schema([("id", pa.int64()), ("text", pa.string())]), properties=properties)
    for number in range(3):
        table.append(pa.table({"id": [number, 9], "text": ["x" * 500_000] * 2}, table.schema))
    gc.collect()
    gc.disable()
    try:
        before_bytes = pa.total_allocated_bytes()
        table.update({"id": txlog.expr("id + 10")}, "id = 9")
        assert pa.total_allocated_bytes() < before_bytes + 500_000
    finally:
        gc.enable()


def test_only_the_columns_of_the_condition_are_read_where_few_files_match(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_work, "TRIED", 1)
    table, _ = made(tmp_path, {})
    read = noted_reads(monkeypatch)
    table.update({"id": 7}, "v % 2 = 3")
    assert [len(columns) for columns in read] == [2, 1, 1, 1, 1, 1]
