"""Sinks whose rows are changes: what every sink promises holds for theirs too."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import txlog
from tests.column_changes import CHANGES_OF_COLUMNS, INTEGERS, new_table
from tests.sink_groups import (
    SCHEMA,
    Make,
    Meanwhile,
    changed_in_the_moment_of_the_decision,
    checkpoints_of,
    copy_of,
    discard_at_any_moment_of_a_commit,
    group_of,
    in_every,
    new_stores,
    tables_of,
)
from txlog.core.store import TableStore
from txlog.testing.faults import Crashed

IN_THE_HUNT = pytest.mark.hunt(part="crashes")
ROWS = pa.schema([("id", pa.int64()), ("n", pa.int64())])

pytestmark = pytest.mark.usefixtures("clock")  # who meets a prepared table waits for its writer first


def rows_of(*ids: int, n: int = 1) -> pa.Table:
    return pa.table({"id": list(ids), "n": [n] * len(ids)}, ROWS)


@pytest.fixture
def table(make_table: Make) -> txlog.Table:
    return make_table(schema=ROWS)


def sealed(sink: txlog.Sink, checkpoint_id: int, rows: pa.Table) -> txlog.Committable:
    with sink.task(checkpoint_id, 0) as task:
        task.write(rows)
    sink.stage(task.committable)
    sink.prepare(checkpoint_id, [0])
    return task.committable


# --- one table ------------------------------------------------------------------------------------------------------


def test_history_shows_an_abandoned_checkpoint(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "app", mode="upsert", keys=["id"], row_kind="op", user_metadata="job 5")
    sealed(sink, 3, rows_of(1, 2).append_column("op", pa.array(["+I", "-D"])))
    found = sink.abandon(3)
    assert (found.rows, found.keys, len(found.files)) == (1, 2, 2)
    newest = table.history(1)[0]
    assert (newest["operation"], newest["userMetadata"]) == ("ABANDON CHECKPOINT", "job 5")
    assert newest["operationParameters"] == {"appId": "app", "checkpointId": "3", "rows": "1", "keys": "2"}
    assert table.snapshot().num_files == 0
    assert table.verify().is_sound


def test_a_change_stream_continues_after_its_table_became_append_only(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "app", mode="upsert", keys=["id"])
    sealed(sink, 1, rows_of(1))
    table.set_properties({"delta.appendOnly": "true"})
    with pytest.raises(txlog.InvalidInputError, match="append-only"):
        sink.recover()
    assert sink.abandon(1).result.outcome == "committed"
    assert sink.recover().results == {}


def test_of_two_runs_at_the_same_time_one_lands(table: txlog.Table) -> None:
    table.append(rows_of(1, n=7))

    def rows() -> Iterator[pa.RecordBatch]:
        yield from rows_of(1, 2, n=0).to_batches()
        other = txlog.Sink(txlog.Table.open(table.uri), "daily", mode="upsert", keys="id")
        assert other.once("a", rows_of(1, 2)).outcome == "committed"

    mine = txlog.Sink(table, "daily", mode="upsert", keys="id").once("a", rows())
    assert mine.outcome == "already_committed"
    assert table.to_arrow().sort_by("id").to_pydict() == {"id": [1, 2], "n": [1, 1]}


def test_a_run_without_rows_counts_as_done(table: txlog.Table) -> None:
    sink = txlog.Sink(table, "daily", mode="upsert", keys="id")
    assert sink.once("a", rows_of()).outcome == "committed"
    assert sink.once("a", rows_of(1)).outcome == "already_committed"
    assert table.count() == 0


@CHANGES_OF_COLUMNS
def test_staged_changes_are_committed_after_a_change_of_columns_that_their_files_fit(
    tmp_path: Path, change: Callable[[txlog.Table], Any], row: dict[str, int] | None
) -> None:
    table = new_table(tmp_path)
    table.append(pa.Table.from_pylist([{"k": 5, "v": 0}], INTEGERS))
    sink = txlog.Sink(table, "app", mode="upsert", keys=["k"])
    with sink.task(1, 0) as task:
        task.write(pa.Table.from_pylist([{"k": 5, "v": 6, "w": 7}], INTEGERS))
    change(txlog.Table.open(table.uri))
    before = table.to_arrow().to_pylist()
    if row is None:
        with pytest.raises(txlog.MetadataChangedError):
            sink.commit(1, [task.committable])
    else:
        sink.commit(1, [task.committable])
    assert table.to_arrow().to_pylist() == (before if row is None else [row])


@pytest.mark.parametrize("end", ["recover", "commit"])
def test_leftovers_of_a_commit_are_removed_although_a_key_was_renamed_since(tmp_path: Path, end: str) -> None:
    table = txlog.Table.create(str(tmp_path / "t"), ROWS, properties={"delta.columnMapping.mode": "name"})
    sink = txlog.Sink(table, "app", mode="upsert", keys=["id"])
    sealed(sink, 1, rows_of(1))
    shutil.copytree(Path(table.uri) / "_txlog", tmp_path / "copy")
    sink.commit(1)
    shutil.copytree(tmp_path / "copy", Path(table.uri) / "_txlog", dirs_exist_ok=True)
    table.rename_column("id", "number")
    again = txlog.Sink(txlog.Table.open(table.uri), "app", mode="upsert", keys=["number"])
    result = again.commit(1) if end == "commit" else again.recover().results[1]
    assert result.outcome == "already_committed"
    staging = table._open_table.store.staging
    assert staging is not None
    assert staging.list_from("") == []


# --- several tables -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dies", [True, False], ids=["dies", "lives"])
def test_a_discard_at_any_moment_of_a_commit_takes_the_changes_from_all_tables_or_from_none(dies: bool) -> None:
    discard_at_any_moment_of_a_commit(dies=dies, mode="upsert", keys=["checkpoint", "task"])


@pytest.mark.parametrize(
    ("number", "waits", "step"),
    [
        (0, False, 11),
        *(pytest.param(*case, 1, marks=IN_THE_HUNT) for case in itertools.product((0, 1), (False, True))),
    ],
)
def test_changes_that_meet_a_delete_at_any_moment_land_in_all_tables(number: int, waits: bool, step: int) -> None:
    """The row that a change takes back may be gone: the change is made again, and held back where it does not fit. A
    writer that cannot reach the deciding table does not wait, as those of other engines."""
    how = {"mode": "retract", "keys": ["checkpoint", "task"], "row_kind": "kind", "on_mismatch": "quarantine"}
    stores = new_stores(2)
    sinks, group = group_of(tables_of(stores), **how)
    for sink in sinks:
        sink._table.append(pa.table({"checkpoint": [1, 2], "task": [0, 0]}, SCHEMA))
        with sink.task(1) as task:
            task.write(pa.table({"checkpoint": [1, 3], "task": [0, 0], "kind": ["-D", "+I"]}))
        sink.stage(task.committable)
    group.prepare(1, [[0], [0]])
    held = set()
    for at in itertools.count(1, step):
        copies = [copy_of(store) for store in stores]

        def delete(now: Sequence[TableStore] = copies) -> None:
            others = group_of(tables_of(now))[0] if waits else [txlog.Sink(table, "app") for table in tables_of(now)]
            others[number]._table.delete("checkpoint = 1")

        other = Meanwhile(at, delete)
        results = other.group(copies, **how).commit(1)
        if other.calls < at:
            break
        assert [checkpoints_of(table) for table in tables_of(copies)] == [[(2, 0), (3, 0)]] * 2, at
        version = results[number].version
        commit = next(each for each in tables_of(copies)[number].history() if each["version"] == version)
        held.add(commit["operationParameters"].get("heldBack"))
    assert "1" in held


@pytest.mark.parametrize("dies", [False, True], ids=["lives", "dies"])
def test_changes_run_again_over_what_another_engine_deleted_in_the_moment_of_the_decision(
    make_table: Make, dies: bool
) -> None:
    """What a dead coordinator planned does not fit any more and is rolled back; the sealed rows are there still."""
    tables, group = changed_in_the_moment_of_the_decision(
        make_table, lambda table: table.delete("task = 1"), dies=dies, mode="upsert", keys=["task"]
    )
    with contextlib.suppress(Crashed):
        group.commit(1)
    group_of(tables, mode="upsert", keys=["task"])[1].recover()
    assert in_every(tables, 1)
    operations = [each["operation"] for each in deltalake.DeltaTable(tables[0].uri).history()]
    assert operations[0] == "MERGE"
    assert ("ROLLBACK PREPARED" in operations) == dies
