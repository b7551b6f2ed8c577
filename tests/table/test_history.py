"""History as data and as text, and the checkpoints of the log."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from small_table import SCHEMA, ids_of, rows_of

from txlog.table import Table


def test_history_is_newest_first_and_bounded(table: Table) -> None:
    for number in range(3):
        table.append(rows_of(number))
    reported = table.history(limit=2)
    assert [entry["version"] for entry in reported] == [3, 2]
    assert all(entry["operation"] == "WRITE" and entry["timestamp"].year >= 2020 for entry in reported)
    assert [entry["version"] for entry in table.history()] == [3, 2, 1, 0]


def test_history_is_a_list_of_dicts_that_prints_as_a_table(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint, day string")
    table.append(pa.table({"id": [1, 2], "day": ["a", "b"]}), user_metadata="the first\nrows")
    table.delete("id = 1")
    history = table.history()
    assert isinstance(history, list)
    assert [entry["operation"] for entry in history] == ["DELETE", "WRITE", "CREATE TABLE"]
    head, deleted, written, created = str(history).splitlines()
    assert head.split() == ["version", "time", "(UTC)", "operation", "rows", "files", "size", "by", "note"]
    assert deleted.split()[0] == "2"
    assert "DELETE where (id = 1)" in deleted
    assert "WRITE append" in written
    assert "+2" in written
    assert written.endswith("the first rows")
    assert "CREATE TABLE" in created
    assert history._repr_html_().count("<tr>") == 4  # type: ignore[attr-defined]
    assert str(table.history()[:0]) == "[]"
    assert json.loads(json.dumps(history, default=str)) == [
        {**each, "timestamp": str(each["timestamp"])} for each in history
    ]


def test_a_long_history_prints_its_newest_commits(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id bigint", properties={"delta.checkpointInterval": "1000"})
    for number in range(52):
        table.set_properties({"number": str(number) + "x" * 100})
    *commits, last = str(table.history()).splitlines()[1:]
    assert len(commits) == 50
    assert last == "... and 3 older commits"
    assert all(len(line) < 150 for line in commits)


def test_a_checkpoint_is_made_once_and_says_its_version(table: Table, tmp_path: Path) -> None:
    table.append(rows_of(1))
    assert table.create_checkpoint() == 1
    (checkpoint,) = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
    before = checkpoint.read_bytes()
    assert table.create_checkpoint() == 1
    assert checkpoint.read_bytes() == before
    assert json.loads((tmp_path / "t" / "_delta_log" / "_last_checkpoint").read_text())["version"] == 1
    assert ids_of(Table.open(tmp_path / "t")) == [1]


def test_checkpoints_come_by_themselves_at_the_interval_asked_for(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", SCHEMA, properties={"delta.checkpointInterval": "3"})
    for number in range(7):
        table.append(rows_of(number))
        table._open_table.post_commit.drain()
    names = sorted(path.name for path in (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet"))
    assert [int(name.split(".")[0]) for name in names] == [3, 6]
    assert ids_of(Table.open(tmp_path / "t")) == list(range(7))
