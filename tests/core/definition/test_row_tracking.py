"""Row tracking that is turned on for a table with rows: every file gets ids, no row changes, and others go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

import txlog
from tests.losing_writer import losing_to
from txlog.audit.verify import verify_table
from txlog.core.definition import _row_tracking as row_tracking
from txlog.core.format.file_columns import add_files_of
from txlog.errors import InvalidInputError
from txlog.table import Table

ON = {"delta.enableRowTracking": "true"}


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32())})


def made(path: Path, *, files: int = 3, **options: Any) -> Table:
    table = Table.create(path / "t", "k int", **options)
    for number in range(files):
        table.append(rows(10 * number, 10 * number + 1))
    return table


def keys(table: Table) -> list[int]:
    return sorted(Table.open(table.uri).to_arrow().column("k").to_pylist())


def row_ids(table: Table) -> list[int]:
    """The ids of all rows, dead or alive."""
    found = Table.open(table.uri).snapshot().files()
    return [
        add.base_row_id + row
        for add in add_files_of(found)
        if add.base_row_id is not None
        for row in range(json.loads(add.stats or "{}")["numRecords"])
    ]


def operations(table: Table) -> list[str]:
    return [entry["operation"] for entry in reversed(list(Table.open(table.uri).history()))]


def tracks(table: Table) -> None:
    """Check that every row has an id of its own, and the table promises it."""
    opened = Table.open(table.uri)
    files = opened.snapshot().files()
    assert files.column("baseRowId").null_count == files.column("defaultRowCommitVersion").null_count == 0
    assert len(set(row_ids(table))) == len(row_ids(table))
    assert opened.snapshot().properties["delta.enableRowTracking"] == "true"
    assert verify_table(opened._open_table.store).is_sound


def test_the_files_of_a_table_get_ids_before_it_promises_them(tmp_path: Path) -> None:
    table = made(tmp_path)
    result = table.set_properties(ON, user_metadata="mine")
    assert operations(table)[4:] == ["UPGRADE PROTOCOL", "ROW TRACKING BACKFILL", "SET TBLPROPERTIES"]
    assert result.version == 6
    assert {entry["userMetadata"] for entry in table.history(limit=3)} == {"mine"}
    tracks(table)
    assert keys(table) == [0, 1, 10, 11, 20, 21]
    commit = Path(table.uri, "_delta_log", f"{5:020}.json").read_text().splitlines()
    adds = [action["add"] for line in commit if "add" in (action := json.loads(line))]
    assert [add["dataChange"] for add in adds] == [False, False, False]
    table.append(rows(30))
    table.update({"k": txlog.expr("31")}, where="k = 30")
    table.optimize()
    tracks(table)


def test_many_files_get_ids_in_several_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_tracking, "FILES", 2)
    table = made(tmp_path, files=5)
    table.set_properties(ON)
    assert operations(table).count("ROW TRACKING BACKFILL") == 3
    tracks(table)


def test_an_interrupted_change_resumes_where_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path)
    monkeypatch.setattr(row_tracking, "FILES", 2)

    class Interrupting(txlog.CommitHooks):
        def on_commit(self, table: str, result: txlog.WriteResult) -> None:
            if operations(txlog.Table.open(table))[-1] == "ROW TRACKING BACKFILL":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Table.open(table.uri, hooks=Interrupting()).set_properties(ON)
    assert "delta.enableRowTracking" not in Table.open(table.uri).snapshot().properties
    table.append(rows(99))
    Table.open(table.uri).set_properties(ON)
    assert operations(table).count("UPGRADE PROTOCOL") == 1
    tracks(table)


@pytest.mark.parametrize(
    ("rival", "left"),
    [
        (lambda other: other.delete("k < 2"), [10, 11, 20, 21]),
        (lambda other: other.delete("k = 1"), [0, 10, 11, 20, 21]),
        (lambda other: other.append(rows(7)), [0, 1, 7, 10, 11, 20, 21]),
        (lambda other: other.optimize(), [0, 1, 10, 11, 20, 21]),
        (lambda other: other.overwrite(rows(5)), [5]),
    ],
)
def test_files_that_others_add_and_remove_meanwhile_stay_as_they_are(
    tmp_path: Path, rival: Callable[[Table], Any], left: list[int]
) -> None:
    table = made(tmp_path, properties={"delta.enableDeletionVectors": "true"})
    table.set_properties({"delta.feature.rowTracking": "supported"})
    losing_to(table, rival).set_properties(ON)
    assert keys(table) == left
    tracks(table)


def test_a_file_whose_rows_the_log_does_not_count_is_counted(tmp_path: Path) -> None:
    table = made(tmp_path, files=1)
    state = table._open_table.log.newest_state()
    (add,) = add_files_of(table._open_table.log.files(state))
    path = Path(table.uri, "_delta_log", f"{state.version + 1:020}.json")
    without = replace(add, stats=None).to_json()
    path.write_text(json.dumps({"commitInfo": {"operation": "WRITE"}}) + "\n" + json.dumps({"add": without}) + "\n")
    Table.open(table.uri).set_properties(ON)
    tracks(table)
    assert len(row_ids(table)) == 2


def test_a_table_without_rows_needs_no_commit_for_ids(tmp_path: Path) -> None:
    table = made(tmp_path, files=0)
    table.set_properties(ON)
    assert operations(table) == ["CREATE TABLE", "UPGRADE PROTOCOL", "SET TBLPROPERTIES"]
    table.append(rows(1))
    tracks(table)
    assert not table.set_properties(ON).attempts


def test_nothing_is_begun_if_another_property_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path)
    with pytest.raises(InvalidInputError):
        table.set_properties({**ON, "delta.columnMapping.mode": "id"})
    with pytest.raises(InvalidInputError, match="outside of a transaction"), table.transaction() as txn:
        txn.set_properties(ON)
    assert Table.open(table.uri).version == 3


def test_row_tracking_is_not_suspended_while_the_table_promises_row_ids(tmp_path: Path) -> None:
    suspended = {"delta.rowTrackingSuspended": "true"}
    refused = pytest.raises(
        InvalidInputError, match=r"delta\.rowTrackingSuspended = true lets new files have no row ids"
    )
    with refused:
        made(tmp_path, properties={**ON, **suspended})
    table = made(tmp_path, properties=ON)
    with refused:
        table.set_properties(suspended)
    with refused, table.transaction() as txn:
        txn.set_properties(suspended)
    table.append(rows(99))
    tracks(table)
    table.set_properties({"delta.enableRowTracking": "false", **suspended})
    with refused:
        table.set_properties(ON)


def test_a_table_that_another_writer_let_promise_and_suspend_row_ids_takes_other_properties(tmp_path: Path) -> None:
    table = made(tmp_path, files=1, properties={"delta.rowTrackingSuspended": "true"})
    log = Path(table.uri, "_delta_log", f"{0:020}.json")
    both = '"delta.enableRowTracking":"true","delta.rowTrackingSuspended"'
    log.write_text(log.read_text().replace('"delta.rowTrackingSuspended"', both))
    table = Table.open(table.uri)
    table.set_properties({"mine": "set"})
    table.unset_properties(["delta.rowTrackingSuspended"])
    assert table.snapshot().properties["delta.enableRowTracking"] == "true"


def test_a_table_that_suspends_row_tracking_is_left_alone(tmp_path: Path) -> None:
    table = made(tmp_path, properties={"delta.rowTrackingSuspended": "true"})
    with pytest.raises(InvalidInputError, match="lets new files have no row ids"):
        table.set_properties(ON)
    with pytest.raises(InvalidInputError, match="suspends row tracking"):
        table.set_properties({**ON, "delta.rowTrackingSuspended": "false"})
