"""What a branch asks its store for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import txlog
from tests.round_trips import RoundTrips
from txlog.core.store import open_store
from txlog.core.versions import OpenTable

ROW = pa.table({"id": pa.array([1], pa.int64())})


def test_who_uses_a_name_again_reads_only_what_others_wrote_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, trips = txlog.Table.create(tmp_path / "t", ROW.schema), RoundTrips()
    monkeypatch.setattr(OpenTable, "beside", lambda _, uri: OpenTable(trips.watched(open_store(uri))))
    for _ in range(4):
        with trips.of():
            branch = table.branch("b")
            asked = [(kind, name) for _, kind, name in trips.requests if kind in ("read", "list_from")]
        branch.append(ROW)
        branch.publish()
    made = branch.version - 1
    assert asked == [("read", f"{made:020}.json")]  # whether there is a newer one
    assert branch.count() == table.count() == 4


def test_a_name_that_a_vacuum_freed_is_used_again_by_who_knew_it(tmp_path: Path) -> None:
    table = txlog.Table.create(tmp_path / "t", ROW.schema)
    for made_by_others in (False, True):
        branch = table.branch("b")
        branch.append(ROW)
        branch.publish()
        txlog.Table.open(table.uri).vacuum(retention_hours=0, force=True)
        if made_by_others:
            txlog.Table.open(table.uri).branch("b").discard()
    branch = table.branch("b")
    branch.append(ROW)
    branch.publish()
    assert branch.count() == table.count() == 3
    assert txlog.Table.open(f"{table.uri}@b").count() == 3


def test_a_branch_under_a_name_that_was_used_reads_each_commit_of_its_log_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, trips = txlog.Table.create(tmp_path / "t", ROW.schema), RoundTrips()
    for _ in range(3):
        branch = table.branch("b")
        branch.append(ROW)
        branch.publish()
    last = branch.version
    monkeypatch.setattr(OpenTable, "beside", lambda _, uri: OpenTable(trips.watched(open_store(uri))))
    with trips.of():
        again = txlog.Table.open(table.uri).branch("b")
        asked = Counter((kind, name) for _, kind, name in trips.requests if kind in ("read", "list_from"))
    assert again.version == last + 1
    assert again.snapshot().count() == 3
    listed = {name: times for (kind, name), times in asked.items() if kind == "list_from"}
    assert sum(listed.values()) == 2, "whether there is a log, and what it has"
    read = {name: times for (kind, name), times in asked.items() if kind == "read"}
    assert set(read.values()) == {1}
    commits = {name for name in read if name.endswith(".json")}
    assert commits == {f"{version:020}.json" for version in range(last + 2)}  # and whether there is a newer one
