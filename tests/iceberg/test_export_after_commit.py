"""Exports in the background after commits: of a handle that several threads commit with."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import txlog
from txlog.core.versions.decisions.state import TableState
from txlog.iceberg.exporter import IcebergExporter
from txlog.result.audits import IcebergExport

ROW = pa.table({"id": pa.array([1], pa.int64())})


def test_the_newest_version_is_exported_whichever_thread_reports_its_commit_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = txlog.Table.create(tmp_path / "t", ROW.schema)
    table.set_properties({"txlog.iceberg": "v2"})
    table._open_table.post_commit.drain()
    upkeep = table._open_table.post_commit.follower("txlog.iceberg")
    with monkeypatch.context() as patched:
        patched.setattr(upkeep, "after", lambda state: None)
        states: list[TableState] = []
        for _ in range(3):
            table.append(ROW)
            states.append(table._open_table.log.newest_state())
    begun, may_go_on = threading.Event(), threading.Event()
    export = IcebergExporter.export

    def held(self: IcebergExporter, state: TableState, **options: Any) -> IcebergExport:
        begun.set()
        may_go_on.wait(30)
        return export(self, state, **options)

    monkeypatch.setattr(IcebergExporter, "export", held)
    first, second, third = states
    upkeep.after(first)
    begun.wait(30)
    upkeep.after(third)
    upkeep.after(second)
    may_go_on.set()
    upkeep.drain()
    exported = upkeep.exporter().exported()
    assert exported is not None
    assert exported.version == third.version


def test_commits_faster_than_exports_are_exported_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = txlog.Table.create(tmp_path / "t", ROW.schema, properties={"txlog.iceberg": "v2"})
    table._open_table.post_commit.drain()
    begun, may_go_on = threading.Event(), threading.Event()
    exported: list[int] = []
    export = IcebergExporter.export

    def held(self: IcebergExporter, state: TableState, **options: Any) -> IcebergExport:
        begun.set()
        may_go_on.wait(30)
        exported.append(state.version)
        return export(self, state, **options)

    monkeypatch.setattr(IcebergExporter, "export", held)
    table.append(ROW)
    assert begun.wait(30)
    for _ in range(4):
        assert table.append(ROW).outcome == "committed"  # no commit waits for the export that is held
    may_go_on.set()
    table._open_table.post_commit.drain()
    assert exported == [1, 5]
