"""Every kind of task can be done in another process: the work, its item and its result are plain data."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest
from msgspec.structs import replace

import txlog
from txlog.audit.read_keys import ReadKeys
from txlog.core.changes.tasks import ChangePart, FindViolation, HasDroppedColumns, RowJob, TaskTable
from txlog.core.changes.tasks.operations import DeleteSpec
from txlog.core.format.file_columns import add_files_of
from txlog.core.maintenance.rewriting._bin import Bin
from txlog.core.maintenance.rewriting._rewrite_bin import RewriteBins
from txlog.core.predicates import parse_predicate
from txlog.core.reading import KeyNumbers, ScanPlan, select
from txlog.core.row_rules import Constraint, key_columns
from txlog.core.versions.decisions.state import TableState

Crossed = TypeVar("Crossed")


def crossed(value: Crossed) -> Crossed:
    """What arrives of it in another process."""
    return pickle.loads(pickle.dumps(value))  # type: ignore[no-any-return]


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
    table = txlog.Table.create(tmp_path, schema, ["day"], {"delta.enableDeletionVectors": "true"})
    for number in range(3):
        table.append(pa.table({"id": [number, 10 + number], "day": ["a", "a"]}, schema))
    table.delete("id = 11")
    return table


def at(table: txlog.Table) -> tuple[TableState, pa.Table, TaskTable]:
    log = table._open_table.log
    state = log.newest_state()
    return state, log.files(state), TaskTable.of(table._open_table.store, state)


def test_a_part_of_a_row_change(table: txlog.Table) -> None:
    _, files, here = at(table)
    work = ChangePart(RowJob(here, DeleteSpec("id >= 10"), with_vectors=True), None, b"")
    outcome = crossed(crossed(work)(crossed(add_files_of(files))))
    assert (outcome.metrics.rows_deleted, outcome.metrics.vectors) == (2, 2)
    assert {file.key[0][0] for file in outcome.files} < {*files["path"].to_pylist()}


def test_the_rewriting_of_a_bin(table: txlog.Table) -> None:
    _, files, here = at(table)
    (rewritten,) = crossed(crossed(RewriteBins(here))(crossed([Bin(tuple(add_files_of(files)))])))
    assert [new.file.num_rows for new in rewritten.files] == [5]
    assert sorted((source.num_live, source.dead.tolist()) for source in rewritten.sources) == [
        (1, [1]),
        (2, []),
        (2, []),
    ]
    assert here.files.files.stat(rewritten.files[0].file.path).size == rewritten.files[0].file.size_bytes


def test_the_check_of_rows_against_a_constraint(table: txlog.Table) -> None:
    state, files, here = at(table)
    scan = ScanPlan(select(table.uri, state, ["id"]), files)
    for condition, found in (("id < 100", None), ("id < 12", "id = 12"), ("id <> 11", None)):
        work = FindViolation(here, Constraint("small", condition, parse_predicate(condition, state.schema)))
        assert crossed(crossed(work)(crossed(scan))) == found


def test_the_search_for_dropped_columns(tmp_path: Path) -> None:
    """A footer says more columns than the schema: one was dropped, which column mapping does without a rewrite."""
    mapped = {"delta.columnMapping.mode": "name"}
    table = txlog.Table.create(tmp_path, pa.schema([("id", pa.int64()), ("more", pa.string())]), properties=mapped)
    table.append(pa.table({"id": [1], "more": ["x"]}))
    state, files, here = at(table)
    fewer = json.loads(state.metadata.schema_string)
    fewer["fields"] = fewer["fields"][:1]
    dropped = state.defined_as(replace(state.metadata, schema_string=json.dumps(fewer)))
    (add,) = add_files_of(files)
    for defined, found in ((state, []), (dropped, [add.path])):
        work = HasDroppedColumns(TaskTable.of(table._open_table.store, defined))
        assert crossed(crossed(work)([crossed(add)])) == found
    assert here.version == state.version


def test_a_tables_tasks_open_its_files_by_the_options_that_it_was_opened_with(table: txlog.Table) -> None:
    state, files, _ = at(table)
    opened = txlog.Table.open(table.uri, storage_options={"secret_access_key": "7s"})
    there = crossed(opened._open_table.task_table(state))
    assert there.storage_options == {"secret_access_key": "7s"}
    assert there.files.files.stat(add_files_of(files)[0].path).size > 0
    assert "7s" not in repr(there)
    assert b"7s" not in pickle.dumps(opened)


def test_the_keys_of_a_file_and_of_its_shares(table: txlog.Table) -> None:
    state, files, here = at(table)
    numbers = KeyNumbers([pa.int64(), pa.string()], b"x" * 32)
    work = crossed(ReadKeys(here, tuple(key_columns(["id", "day"], state.schema)), numbers))
    for task in ScanPlan(select(table.uri, state, ["id", "day"]), files).tasks():
        (whole,) = crossed(work([crossed(task)]))
        shares = work([replace(task, share=(number, 3)) for number in range(3)])
        assert whole.num_rows == sum(each.num_rows for each in shares) == (1 if task.deletion_vector else 2)
        second = whole.values.second
        assert second is not None
        assert len({*zip(whole.values.numbers.tolist(), second.tolist(), strict=True)}) == whole.num_rows
