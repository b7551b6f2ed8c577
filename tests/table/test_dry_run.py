"""A preview of a row change counts what the change then does, and leaves the table as it was."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import txlog
from txlog import Table, WriteResult

OLD = pa.table({"id": pa.array(range(8), pa.int64()), "day": ["mon", "tue"] * 4})
NEW = pa.table({"id": pa.array([1, 2, 20], pa.int64()), "day": ["tue", "mon", "tue"]})

CHANGES: dict[str, Callable[..., WriteResult]] = {
    "delete": lambda table, **how: table.delete("id < 3", **how),
    "delete of all": lambda table, **how: table.delete("id >= 0", **how),
    "update": lambda table, **how: table.update({"id": 9}, "day = 'mon' and id > 2", **how),
    "upsert": lambda table, **how: table.upsert(NEW, "id", **how),
    "upsert that inserts only": lambda table, **how: table.upsert(NEW, "id", when_matched="ignore", **how),
    "merge": lambda table, **how: (
        table.merge(NEW, "target.id = source.id", **how)
        .when_matched_delete("source.id = 1")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    ),
    "overwrite": lambda table, **how: table.overwrite(NEW, **how),
    "overwrite of a region": lambda table, **how: table.overwrite(NEW.slice(2), "id >= 6", **how),
    "overwrite of partitions": lambda table, **how: table.overwrite_partitions(NEW.slice(2), **how),
}
COUNTS = ("rows_inserted", "rows_updated", "rows_deleted", "rows_copied", "files_removed", "vectors")


def made(folder: Path, *, with_vectors: bool) -> Table:
    properties = {"delta.enableDeletionVectors": str(with_vectors).lower()}
    txlog.write(folder, OLD.slice(0, 4), partition_by="day", properties=properties)
    txlog.write(folder, OLD.slice(4))
    return Table.open(folder)


def counted(result: WriteResult) -> dict[str, Any]:
    return {name: getattr(result.metrics, name) for name in COUNTS}


@pytest.mark.parametrize("with_vectors", [True, False], ids=["vectors", "copies"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_preview_counts_what_the_change_then_does(change: str, with_vectors: bool, tmp_path: Path) -> None:
    table = made(tmp_path / "t", with_vectors=with_vectors)
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "t").rglob("*")}
    would = CHANGES[change](table, dry_run=True)
    with ThreadPoolExecutor(2) as workers:
        in_parts = CHANGES[change](Table.open(tmp_path / "t", workers=workers), dry_run=True)
    assert (in_parts.outcome, counted(in_parts)) == (would.outcome, counted(would))
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "t").rglob("*")} == files
    assert (would.outcome, would.version) == ("dry_run", 1)
    done = CHANGES[change](table)
    assert (done.outcome, done.version) == ("committed", 2)
    assert counted(would) == counted(done)
    if with_vectors:  # deltalake counts the rows that vectors mark
        return
    before, after = (deltalake.DeltaTable(tmp_path / "t", version=version).count() for version in (1, 2))
    grown = would.metrics.rows_inserted - would.metrics.rows_deleted
    assert after - before == (grown + would.metrics.rows if change.startswith("overwrite") else grown)


def test_a_preview_refuses_what_the_change_would_refuse(tmp_path: Path) -> None:
    table = made(tmp_path / "t", with_vectors=False)
    with pytest.raises(txlog.InvalidInputError, match="nothing"):
        table.delete("nothing = 1", dry_run=True)
    with pytest.raises(txlog.InvalidInputError, match="id >= 6"):
        table.overwrite(NEW, "id >= 6", dry_run=True)
    table.set_properties({"delta.appendOnly": "true"})
    with pytest.raises(txlog.InvalidInputError, match="append-only"):
        table.update({"id": 1}, dry_run=True)


def test_a_preview_of_a_checkpoint_that_the_table_has_says_so(tmp_path: Path) -> None:
    table = made(tmp_path / "t", with_vectors=False)
    table.delete("id = 1", app_id="job", checkpoint_id=4)
    assert table.delete("id = 2", app_id="job", checkpoint_id=4, dry_run=True).outcome == "already_committed"
    assert table.overwrite(NEW, app_id="job", checkpoint_id=4, dry_run=True).outcome == "already_committed"


def test_a_preview_says_in_one_line_what_would_change(tmp_path: Path) -> None:
    would = made(tmp_path / "t", with_vectors=False).delete("id < 3", dry_run=True)
    assert str(would) == "WriteResult(version=1, dry run, 3 rows deleted, in 2 files)"
