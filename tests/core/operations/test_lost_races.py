"""Row changes that lost a race: what was done for an earlier version is not done again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import force_setattr

import txlog
from txlog.audit.verify import verify_table
from txlog.core.changes.plan._file_choice import FileChoice
from txlog.core.changes.tasks import _rewrite as rewrite
from txlog.core.changes.tasks.operations import DeleteRows, KeyedChange
from txlog.core.store._commit_queue import OPEN


def losing_to(table: txlog.Table, rival: Callable[[txlog.Table], object]) -> txlog.Table:
    """Another handle, whose first put comes after what the rival does."""
    return overtaken_by(rival, txlog.Table.open(table.uri))


def overtaken_by(rival: Callable[[txlog.Table], object], ours: txlog.Table) -> txlog.Table:
    """The handle, whose next put comes after what the rival does."""
    force_setattr(ours._open_table.store, "commit_queue", OPEN)  # the rival would wait until our turn is over
    log = ours._open_table.store.log
    real, overtaken = log.put_if_absent, []

    def put(name: str, body: bytes) -> Any:
        if not overtaken:
            overtaken.append(name)
            rival(txlog.Table.open(ours.uri))
        return real(name, body)

    log.put_if_absent = put  # type: ignore[method-assign]
    return ours


def made(tmp_path: Path, properties: dict[str, str]) -> txlog.Table:
    table = txlog.Table.create(str(tmp_path / "t"), pa.schema([("id", pa.int64())]), properties=properties)
    for first in (0, 10, 20):
        table.append(pa.table({"id": range(first, first + 10)}))
    return table


@pytest.mark.parametrize("properties", [{"delta.enableDeletionVectors": "true"}, {}], ids=["vectors", "copies"])
def test_an_upsert_that_knew_the_keys_of_later_files_changes_the_right_rows_after_a_lost_race(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    """The handle has read the keys of every file but the first, and all files have rows that match."""
    ours = txlog.Table.open(made(tmp_path, properties).uri)
    for _ in range(3):
        ours.upsert(pa.table({"id": [15, 16, 25, 26]}), "id")
    overtaken_by(lambda table: table.delete("id = 6 or id = 17 or id = 27"), ours)
    done = ours.upsert(pa.table({"id": [5, 14, 15, 24, 25]}), "id")
    assert done.metrics.reexecutions == 1
    assert sorted(ours.to_arrow()["id"].to_pylist()) == [n for n in range(30) if n not in (6, 17, 27)]
    assert verify_table(ours._open_table.store).is_sound


@pytest.mark.parametrize("properties", [{"delta.enableDeletionVectors": "true"}, {}], ids=["vectors", "copies"])
def test_after_a_lost_race_only_files_that_are_new_are_looked_into(tmp_path: Path, properties: dict[str, str]) -> None:
    def rival(table: txlog.Table) -> None:
        table.append(pa.table({"id": [5]}))
        table.delete("id = 6", row_mode=None if properties else "copy-on-write")

    seen: list[tuple[int, int]] = []
    ours = losing_to(made(tmp_path, properties), rival)
    done = ours.delete("id % 10 = 5", on_progress=lambda step, number, of: seen.append((number, of)))
    new = 1 if properties else 2  # a file with another vector is the same file, a copy is a new one
    assert seen == [*((number, 3) for number in (1, 2, 3)), *((number + 1, new) for number in range(new))]
    assert (done.metrics.reexecutions, done.metrics.rows_deleted) == (1, 4)
    assert sorted(ours.to_arrow()["id"].to_pylist()) == [n for n in range(30) if n % 10 != 5 and n != 6]


@pytest.mark.parametrize("together", [False, True], ids=["alone", "together"])
def test_after_a_lost_race_only_files_that_others_changed_are_copied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    """Small files that were copied together are copied together again."""
    if not together:
        monkeypatch.setattr(rewrite, "ALONE_BYTES", 0)
    ours = losing_to(made(tmp_path, {}), lambda table: table.delete("id = 11"))
    assert ours.update({"id": txlog.expr("id + 100")}, "id % 10 = 5").metrics.reexecutions == 1
    files = len(list((tmp_path / "t").glob("*.parquet")))
    copies = 1 if together else 3
    assert files == 3 + copies + 1 + 1, (
        "three files, their copies, the other writer's copy of one, and our copy of that"
    )
    assert ours.snapshot().num_files == copies
    assert sorted(ours.to_arrow()["id"].to_pylist()) == sorted(n + 100 * (n % 10 == 5) for n in range(30) if n != 11)


ROW = pa.table({"id": [5], "day": pa.array([5], pa.int32())})


@pytest.mark.parametrize("name", ["delete", "upsert"])
def test_after_lost_races_only_files_that_the_winners_changed_are_judged(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 200 files one matches. The winner adds one that does, and one that does not, and changes a third."""
    properties = {"delta.enableDeletionVectors": "true"}
    table = txlog.Table.create(tmp_path / "t", "id bigint, day int", "day", properties)
    table.append(pa.table({"id": range(200), "day": pa.array(range(200), pa.int32())}))
    seen: list[int] = []
    matters = FileChoice._matters
    candidates = {each: each.candidates for each in (DeleteRows, KeyedChange)}

    def judging(operation: Any, files: pa.Table) -> Any:
        seen.append(files.num_rows)
        return next(real for each, real in candidates.items() if isinstance(operation, each))(operation, files)

    def asking(*arguments: Any) -> bool:
        seen.append(1)
        return matters(*arguments)

    for each in candidates:
        monkeypatch.setattr(each, "candidates", judging)
    monkeypatch.setattr(FileChoice, "_matters", asking)

    def rival(other: txlog.Table) -> None:
        other.append(pa.table({"id": [5, 1000], "day": pa.array([1, 2], pa.int32())}))
        other.update({"id": txlog.expr("7000")}, "id = 7")

    ours = losing_to(table, rival)
    ours.delete("id = 5") if name == "delete" else ours.upsert(ROW, "id")
    assert seen[0] == 200
    assert sum(seen[1:]) <= 10, seen
    left = sorted(txlog.Table.open(table.uri).to_arrow()["id"].to_pylist())
    assert (left.count(5), left.count(7), left.count(1000)) == (int(name == "upsert"), 0, 1)
    assert verify_table(table._open_table.store).is_sound
