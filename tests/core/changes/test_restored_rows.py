"""Rows that come back while a row change is under way: what was concluded from a vector's statistics ends with it.

Another writer takes a deletion vector away from a file (RESTORE). What that vector's statistics excluded, or proved of
every row, is not known of the file without it, though the path is the same.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from txlog.core.changes.plan._change import RowChange


def made(tmp_path: Path) -> tuple[txlog.Table, dict[str, Any], dict[str, Any]]:
    """A table with two files. In one the row of v = 50 is dead, and the statistics are those of the live row alone.

    The ``add`` of that file without its vector, and with it.
    """
    table = txlog.Table.create(str(tmp_path / "t"), "v bigint", properties={"delta.enableDeletionVectors": "true"})
    table.append(pa.table({"v": [1, 50]}))
    whole = action_of(table, "add")
    table.delete("v = 50")
    marked = action_of(table, "add")
    tight = {"numRecords": 2, "minValues": {"v": 1}, "maxValues": {"v": 1}, "nullCount": {"v": 0}}
    marked["stats"] = json.dumps(tight)
    commit(table, {"add": marked})
    table.append(pa.table({"v": [2, 60]}))
    return table, whole, marked


def commit_path(table: txlog.Table, version: int) -> Path:
    return Path(table.uri) / "_delta_log" / f"{version:020}.json"


def action_of(table: txlog.Table, kind: str) -> dict[str, Any]:
    lines = map(json.loads, commit_path(table, table.version).read_text().splitlines())
    found: dict[str, Any] = next(line[kind] for line in lines if kind in line)
    return found


def commit(table: txlog.Table, *actions: dict[str, Any]) -> None:
    """As another writer of the table does."""
    version = txlog.Table.open(table.uri).version + 1
    lines = [{"commitInfo": {"timestamp": 1, "operation": "RESTORE"}}, *actions]
    commit_path(table, version).write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize("mode", [None, "copy-on-write"])
@pytest.mark.parametrize(("condition", "left"), [("v > 25", [1, 2]), ("v < 25", [50, 60])])
def test_a_restored_row_is_treated_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any, condition: str, left: list[int]
) -> None:
    table, whole, marked = made(tmp_path)
    execute = RowChange.execute
    versions: list[int] = []

    def loses_at_first(self: RowChange, state: Any) -> Any:
        proposal = execute(self, state)
        if not versions:
            gone = {"path": marked["path"], "deletionTimestamp": 1, "dataChange": True}
            commit(table, {"remove": {**gone, "deletionVector": marked["deletionVector"]}}, {"add": whole})
        versions.append(state.version)
        return proposal

    monkeypatch.setattr(RowChange, "execute", loses_at_first)
    table.delete(condition, row_mode=mode)
    assert versions == [4, 5]
    assert sorted(table.snapshot().to_arrow().column("v").to_pylist()) == left
